//! Header blocks → messages.

use super::hpack::{Field, Head, CONTEXT};
use super::streams::Rpc;
use crate::carried::Context;
use crate::framing::Out;
use crate::http1::start::METHODS;
use crate::mask::KeptHttp;
use crate::semantics::{grpc, Peek};
use crate::text::{clean, decimal};
use crate::url::{host_port, shown, without_user};
use std::borrow::Cow;
use wirespan_model::message::AttrList;
use wirespan_model::{AttrVal, Body, Item, Kind, Late, Message, Outcome, Side};

/// Longest user agent that is kept, bytes.
const MAX_AGENT: usize = 256;

/// Where a header block stands, and what its frame says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) stream: u32,
    /// Nothing of this end follows on the stream.
    pub(super) last: bool,
    /// The block was not captured to its end, or could not be read to its end.
    pub(super) cut: bool,
}

fn text(head: &Head, field: Field) -> Option<&str> {
    head.get(field).and_then(|v| std::str::from_utf8(v).ok())
}

fn message<'a>(side: Side, kind: Kind, place: Place) -> Message<'a> {
    let mut m = Message::new("http2", side, kind, place.offset);
    m.head_len = place.len;
    m.id = Some(u64::from(place.stream));
    m.body = if place.last { Body::None } else { Body::Open };
    m
}

fn context(head: &Head) -> Context<'_> {
    let mut context = Context::default();
    for field in CONTEXT {
        if let Some(value) = head.get(field) {
            context.field(field.name().as_bytes(), value);
        }
    }
    context
}

fn version(m: &mut Message<'_>) {
    m.attrs.push(("network.protocol.name", AttrVal::from("http")));
    m.attrs.push(("network.protocol.version", AttrVal::from("2")));
}

/// Which of these fields may hide behind one that is unknown, as a list for `wirespan.unknown`.
fn unknown(head: &Head, place: Place, fields: &[(Field, &'static str)]) -> Option<Cow<'static, str>> {
    let hidden = |field: Field| {
        let behind = if field.is_pseudo() { head.unknown_early } else { head.unknown };
        head.get(field).is_none() && (behind > 0 || place.cut)
    };
    let mut names = fields.iter().filter(|(field, _)| hidden(*field)).map(|(_, name)| *name);
    let first = names.next()?;
    Some(match names.next() {
        None => Cow::Borrowed(first),
        Some(second) => {
            let mut list = [first, second].join(",");
            for name in names {
                list.push(',');
                list.push_str(name);
            }
            Cow::Owned(list)
        }
    })
}

/// Writes the fields that the user lets through.
fn fields<'a>(head: &'a Head, side: Side, kept: Option<&KeptHttp>, attrs: &mut AttrList<'a>) {
    let names = kept.map_or(&[][..], |k| k.names(side));
    for (place, (name, key)) in names.iter().enumerate() {
        let value = match Field::of(name.as_bytes()) {
            Field::Other => head.kept(place),
            known => head.get(known),
        };
        if let Some(value) = value.filter(|_| !attrs.iter().any(|(k, _)| k == key)) {
            attrs.push((key, AttrVal::Str(clean(value.trim_ascii(), KeptHttp::MAX_VALUE))));
        }
    }
}

/// Emits a request. Says what kind of call it is.
pub(super) fn request(head: &Head, place: Place, peek: Option<&Peek>, kept: Option<&KeptHttp>, out: Out<'_>) -> Rpc {
    let content_type = head.get(Field::ContentType);
    let hidden_type = content_type.is_none() && (head.unknown > 0 || place.cut);
    let rpc = content_type.map_or(if hidden_type { Rpc::Unknown } else { Rpc::No }, Rpc::of);
    let mut m = message(Side::Client, Kind::Request, place);
    let method = text(head, Field::Method).unwrap_or_default();
    let known = METHODS.contains(&method);
    if !method.is_empty() {
        m.attrs.push(("http.request.method", AttrVal::from(if known { method } else { "_OTHER" })));
        if !known {
            m.attrs.push(("http.request.method_original", AttrVal::Str(clean(method.as_bytes(), 32))));
        }
    }
    // OpenTelemetry: a span of an unknown method is named `HTTP`.
    m.operation = match method {
        "" => "",
        _ if known => method,
        _ => "HTTP",
    };
    let authority = head.get(Field::Authority).or_else(|| head.get(Field::Host)).map(without_user).unwrap_or_default();
    if let Some(path) = head.get(Field::Path).filter(|p| !p.is_empty()) {
        m.target = shown(path);
        m.attrs.push(("url.path", AttrVal::Str(m.target.clone())));
        if let Some(kept) = kept {
            kept.query(path, &mut m.attrs);
        }
    } else if method == "CONNECT" {
        m.target = clean(authority, crate::url::MAX_PATH);
    }
    if let Some(scheme) = head.get(Field::Scheme).filter(|s| matches!(*s, b"http" | b"https")) {
        m.attrs.push(("url.scheme", AttrVal::from(if scheme == b"http" { "http" } else { "https" })));
    }
    if let Some((host, port)) = host_port(authority) {
        m.attrs.push(("server.address", AttrVal::from(host)));
        if let Some(port) = port {
            m.attrs.push(("server.port", AttrVal::Int(i64::from(port))));
        }
    }
    if let Some(agent) = head.get(Field::UserAgent).filter(|a| !a.is_empty()) {
        m.attrs.push(("user_agent.original", AttrVal::Str(clean(agent, MAX_AGENT))));
    }
    if let Some(n) = head.get(Field::ContentLength).and_then(decimal) {
        m.attrs.push(("http.request.body.size", AttrVal::Int(i64::try_from(n).unwrap_or(i64::MAX))));
    }
    version(&mut m);
    if rpc.is_rpc() {
        m.protocol = "grpc";
        m.attrs.push(("rpc.system.name", AttrVal::from("grpc")));
        m.operation = "";
        if let Some(full) = head.get(Field::Path).and_then(grpc::method) {
            (m.operation, m.target) = (full, Cow::Borrowed(""));
            m.attrs.push(("rpc.method", AttrVal::from(full)));
        }
    }
    if let Some(peek) = peek {
        peek.asked(&mut m.attrs);
    }
    fields(head, Side::Client, kept, &mut m.attrs);
    const FIELDS: [(Field, &str); 4] = [
        (Field::Method, "http.request.method"),
        (Field::Path, "url.path"),
        (Field::Authority, "server.address"),
        (Field::ContentType, "http.request.header.content-type"),
    ];
    if let Some(list) = unknown(head, place, &FIELDS) {
        m.attrs.push(("wirespan.unknown", AttrVal::Str(list)));
    }
    if place.cut {
        m.attrs.push(("wirespan.truncated", AttrVal::Bool(true)));
    }
    m.carried = context(head).finish();
    out(Item::Message(&m));
    rpc
}

/// Status of a block; 0 if it has none.
pub(super) fn status(head: &Head) -> u16 {
    head.get(Field::Status).and_then(decimal).and_then(|n| u16::try_from(n).ok()).unwrap_or(0)
}

/// Emits a response, final or interim; with the trailers of gRPC if they are all there is.
pub(super) fn response(
    head: &Head,
    place: Place,
    rpc: Rpc,
    peek: Option<&Peek>,
    kept: Option<&KeptHttp>,
    out: Out<'_>,
) {
    let status = status(head);
    let interim = (100..200).contains(&status);
    let mut m = message(Side::Server, if interim { Kind::Interim } else { Kind::Response }, place);
    if interim {
        m.body = Body::None;
    }
    if status != 0 {
        m.attrs.push(("http.response.status_code", AttrVal::Int(i64::from(status))));
        m.status_code = Some(i32::from(status));
        m.outcome = match status {
            _ if interim => Outcome::Unset,
            500.. => Outcome::ServerError,
            400..=499 => Outcome::ClientError,
            _ => Outcome::Ok,
        };
    }
    version(&mut m);
    if rpc.is_rpc() {
        m.protocol = "grpc";
        // The status of a call comes in its trailers; that of HTTP says only that there will be some.
        if (200..300).contains(&status) {
            (m.status_code, m.outcome) = (None, Outcome::Unset);
        }
    }
    if let Some(n) = head.get(Field::ContentLength).and_then(decimal) {
        m.attrs.push(("http.response.body.size", AttrVal::Int(i64::try_from(n).unwrap_or(i64::MAX))));
    }
    if place.last {
        let trailers = trailers(head, place, rpc);
        if trailers.status_code.is_some() {
            m.status_code = trailers.status_code;
            m.outcome = trailers.outcome;
        }
        m.error = trailers.error;
        for (key, value) in trailers.attrs {
            m.attrs.push((key, value));
        }
    }
    if let Some(peek) = peek {
        let product = head.get(Field::ElasticProduct).unwrap_or_default();
        peek.answered(product, head.get(Field::OpenSearchVersion).unwrap_or_default(), &mut m.attrs);
    }
    fields(head, Side::Server, kept, &mut m.attrs);
    if status == 0 && head.unknown_early > 0 {
        m.attrs.push(("wirespan.unknown", AttrVal::from("http.response.status_code")));
    }
    if place.cut {
        m.attrs.push(("wirespan.truncated", AttrVal::Bool(true)));
    }
    m.carried.request_id = context(head).finish().request_id;
    out(Item::Message(&m));
}

/// The facts of a response's trailers.
pub(super) fn trailers(head: &Head, place: Place, rpc: Rpc) -> Late<'static> {
    let code = head.get(Field::GrpcStatus).and_then(decimal).and_then(|n| i32::try_from(n).ok());
    match code {
        Some(code) => grpc::status(code, head.get(Field::GrpcMessage).unwrap_or_default()),
        // Of a call whose kind was not seen, too: it may be gRPC.
        None if rpc != Rpc::No && (head.unknown > 0 || place.cut) => {
            let mut late = Late::default();
            late.attrs.push(("wirespan.unknown", AttrVal::from("rpc.status_code")));
            late
        }
        None => Late::default(),
    }
}

/// Emits a pushed request: the promise of a response that the client did not ask for.
pub(super) fn promise(head: &Head, place: Place, promised: u32, out: Out<'_>) {
    let mut m = message(Side::Server, Kind::OneWay, Place { stream: promised, last: true, ..place });
    m.operation = "PUSH";
    if let Some(path) = head.get(Field::Path) {
        m.target = shown(path);
        m.attrs.push(("url.path", AttrVal::Str(m.target.clone())));
    } else if head.unknown_early > 0 || place.cut {
        m.attrs.push(("wirespan.unknown", AttrVal::from("url.path")));
    }
    version(&mut m);
    out(Item::Message(&m));
}

/// Ends a request that will not be answered: the server reset the stream or goes away.
pub(super) fn refused(place: Place, rpc: Rpc, what: &str, code: &'static str, out: Out<'_>) {
    let mut m = message(Side::Server, Kind::Response, Place { last: true, ..place });
    if rpc.is_rpc() {
        m.protocol = "grpc";
    }
    m.outcome = Outcome::ServerError;
    m.error = Cow::Owned([what, code].join(" "));
    m.attrs.push(("error.type", AttrVal::from(code)));
    version(&mut m);
    out(Item::Message(&m));
}

/// The end of a message under way, from a reset.
pub(super) fn reset(side: Side, code: &'static str) -> Late<'static> {
    let mut late = Late {
        outcome: if side == Side::Server { Outcome::ServerError } else { Outcome::ClientError },
        error: Cow::Owned(["RST_STREAM", code].join(" ")),
        ..Late::default()
    };
    late.attrs.push(("error.type", AttrVal::from(code)));
    late
}
