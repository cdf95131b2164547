//! Parameters and CGI headers → messages.

use super::record::pairs;
use crate::carried::Context;
use crate::framing::Out;
use crate::http1::start::METHODS;
use crate::text::{clean, decimal};
use crate::url::{host_port, shown};
use wirespan_model::{AttrVal, Body, Item, Kind, Late, Message, Outcome, Side};

/// Longest script name that is kept, bytes.
const MAX_SCRIPT: usize = 512;
/// Longest user agent that is kept, bytes.
const MAX_AGENT: usize = 256;

/// Where a message stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) id: u16,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) cut: bool,
}

/// Emits a request from its parameters.
pub(super) fn request(params: &[u8], place: Place, out: Out<'_>) {
    let mut m = Message::new("fastcgi", Side::Client, Kind::Request, place.offset);
    (m.head_len, m.id, m.body) = (place.len, Some(u64::from(place.id)), Body::Open);
    let (mut uri, mut script_name, mut script, mut method) = (None, None, None, "");
    let (mut host, mut name, mut port, mut agent, mut length) = (None, None, None, None, None);
    let mut context = Context::default();
    pairs(params, |key, value| match key {
        b"REQUEST_METHOD" => method = std::str::from_utf8(value).unwrap_or_default(),
        b"REQUEST_URI" => uri = Some(value),
        b"SCRIPT_NAME" => script_name = Some(value),
        b"SCRIPT_FILENAME" => script = Some(value),
        b"HTTP_HOST" => host = Some(value),
        b"SERVER_NAME" => name = Some(value),
        b"SERVER_PORT" => port = decimal(value),
        b"HTTP_USER_AGENT" => agent = Some(value),
        b"CONTENT_LENGTH" => length = decimal(value),
        _ => {
            // `HTTP_X_REQUEST_ID` is the header field `X-Request-ID`.
            let Some(field) = key.strip_prefix(b"HTTP_").filter(|f| f.len() <= 16) else { return };
            let mut dashed = [0u8; 16];
            for (to, from) in dashed.iter_mut().zip(field) {
                *to = if *from == b'_' { b'-' } else { *from };
            }
            context.field(dashed.get(..field.len()).unwrap_or_default(), value);
        }
    });
    let known = METHODS.contains(&method);
    m.operation = match method {
        "" => "",
        _ if known => method,
        _ => "HTTP",
    };
    if !method.is_empty() {
        m.attrs.push(("http.request.method", AttrVal::from(if known { method } else { "_OTHER" })));
    }
    if let Some(path) = uri.or(script_name) {
        m.target = shown(path);
        m.attrs.push(("url.path", AttrVal::Str(m.target.clone())));
    }
    if let Some(script) = script {
        m.attrs.push(("wirespan.fastcgi.script", AttrVal::Str(clean(script, MAX_SCRIPT))));
    }
    let asked = host.and_then(host_port);
    if let Some((address, asked_port)) = asked.or_else(|| name.and_then(host_port)) {
        m.attrs.push(("server.address", AttrVal::from(address)));
        if let Some(port) = asked_port.map(u64::from).or(port) {
            m.attrs.push(("server.port", AttrVal::Int(i64::try_from(port).unwrap_or(i64::MAX))));
        }
    }
    if let Some(agent) = agent.filter(|a| !a.is_empty()) {
        m.attrs.push(("user_agent.original", AttrVal::Str(clean(agent, MAX_AGENT))));
    }
    if let Some(n) = length {
        m.attrs.push(("http.request.body.size", AttrVal::Int(i64::try_from(n).unwrap_or(i64::MAX))));
    }
    if place.cut {
        m.attrs.push(("wirespan.truncated", AttrVal::Bool(true)));
    }
    m.carried = context.finish();
    out(Item::Message(&m));
}

/// Emits a response from its CGI header (RFC 3875, section 6).
pub(super) fn response(header: &[u8], place: Place, out: Out<'_>) {
    let mut m = Message::new("fastcgi", Side::Server, Kind::Response, place.offset);
    (m.head_len, m.id, m.body) = (place.len, Some(u64::from(place.id)), Body::Open);
    let (mut status, mut location) = (None, false);
    for line in header.split_inclusive(|b| *b == b'\n').filter(|line| line.ends_with(b"\n")) {
        let Some((name, value)) = memchr::memchr(b':', line).and_then(|at| line.split_at_checked(at)) else { continue };
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if name.eq_ignore_ascii_case(b"status") {
            status = value.get(..3).and_then(decimal).and_then(|n| u16::try_from(n).ok());
        }
        location |= name.eq_ignore_ascii_case(b"location");
    }
    // A header without a status means success, or a redirection; one that was cut means nothing.
    let implied = if location { 302 } else { 200 };
    if let Some(status) = status.or((!place.cut).then_some(implied)) {
        m.status_code = Some(i32::from(status));
        m.attrs.push(("http.response.status_code", AttrVal::Int(i64::from(status))));
        m.outcome = match status {
            500.. => Outcome::ServerError,
            400..=499 => Outcome::ClientError,
            _ => Outcome::Ok,
        };
    }
    if place.cut {
        m.attrs.push(("wirespan.truncated", AttrVal::Bool(true)));
    }
    out(Item::Message(&m));
}

/// What END_REQUEST says.
pub(super) fn ending(body: &[u8], stderr: bool) -> Late<'static> {
    let mut late = Late::default();
    if let Some(app) = body.first_chunk().map(|b| u32::from_be_bytes(*b)).filter(|app| *app != 0) {
        late.attrs.push(("wirespan.fastcgi.app_status", AttrVal::Int(i64::from(app))));
    }
    let refused = match body.get(4) {
        Some(1) => "CANT_MPX_CONN",
        Some(2) => "OVERLOADED",
        Some(3) => "UNKNOWN_ROLE",
        _ => "",
    };
    if !refused.is_empty() {
        late.outcome = Outcome::ServerError;
        late.error = refused.into();
        late.attrs.push(("error.type", AttrVal::from(refused)));
    }
    if stderr {
        late.attrs.push(("wirespan.fastcgi.stderr", AttrVal::Bool(true)));
    }
    late
}

/// Emits the end of a request that gave no output.
pub(super) fn silent(late: Late<'static>, place: Place, out: Out<'_>) {
    let mut m = Message::new("fastcgi", Side::Server, Kind::Response, place.offset);
    (m.head_len, m.id, m.outcome, m.error) = (place.len, Some(u64::from(place.id)), late.outcome, late.error);
    for (key, value) in late.attrs {
        m.attrs.push((key, value));
    }
    out(Item::Message(&m));
}
