//! Frames → messages.

use super::header::{self, Header, HEADER};
use super::hessian::Hessian;
use crate::carried::Context;
use crate::framing::calls::Frame;
use crate::framing::Out;
use crate::rpc;
use crate::text::visible;
use std::borrow::Cow;
use wirespan_model::{AttrVal, Carried, Item, Kind, Message, Outcome};

const SYSTEM: &str = "dubbo";
/// Arguments that are stepped over.
const MAX_ARGUMENTS: u32 = 64;

pub(super) fn emit(h: &Header, frame: &Frame<'_>, out: Out<'_>) {
    let body = frame.bytes.get(HEADER..).unwrap_or_default();
    let mut m = if h.request { request(h, frame, body) } else { response(h, frame, body) };
    frame.place(&mut m);
    m.id = Some(h.id);
    if let Some(name) = header::serialization(h.serialization) {
        m.attrs.push(("wirespan.dubbo.serialization", AttrVal::from(name)));
    }
    out(Item::Message(&m));
}

fn request<'a>(h: &Header, frame: &Frame<'a>, body: &'a [u8]) -> Message<'a> {
    let kind = if h.two_way { Kind::Request } else { Kind::OneWay };
    if h.event {
        // A readonly event is the string "R"; every other event is a heartbeat.
        let method = if body == b"\x01R" || body == b"\"R\"" { "$readonly" } else { "$heartbeat" };
        return rpc::call("dubbo", SYSTEM, frame.side, kind, "", method);
    }
    let call = match h.serialization {
        2 => hessian2(body),
        6 => fastjson(body),
        _ => None,
    }
    .unwrap_or_default();
    let mut m = rpc::call("dubbo", SYSTEM, frame.side, kind, call.service, call.method);
    m.carried = call.carried;
    if !call.version.is_empty() && call.version != "0.0.0" {
        m.attrs.push(("wirespan.rpc.service_version", AttrVal::from(call.version)));
    }
    m
}

/// The facts of a request.
#[derive(Default)]
struct Call<'a> {
    service: &'a str,
    version: &'a str,
    method: &'a str,
    carried: Carried<'a>,
}

fn hessian2(body: &[u8]) -> Option<Call<'_>> {
    let mut at = Hessian::new(body);
    at.text()?;
    let mut call = Call { service: rpc::name(at.text()?)?, ..Call::default() };
    let mut rest = || {
        call.version = rpc::name(at.text_or_null()?).unwrap_or_default();
        call.method = rpc::name(at.text()?)?;
        let types = at.text_or_null()?;
        let arguments = arguments(types)?;
        let mut first = None;
        for i in 0..arguments {
            let here = at.clone();
            at.skip()?;
            if i == 0 {
                first = Some(here);
            }
        }
        Some((first, attachments(&mut at)))
    };
    if let Some((first, attached)) = rest() {
        if matches!(call.method, "$invoke" | "$invokeAsync") {
            call.method = first.and_then(|mut at| at.text()).and_then(rpc::name).unwrap_or(call.method);
        }
        call.carried = attached.unwrap_or_default();
    }
    Some(call)
}

/// Number of types in a descriptor like `Ljava/lang/String;[IJ`.
fn arguments(types: &[u8]) -> Option<u32> {
    let mut rest = types;
    let mut n = 0u32;
    while let Some((first, more)) = rest.split_first() {
        rest = match first {
            b'[' => {
                rest = more;
                continue;
            }
            b'L' => more.get(more.iter().position(|b| *b == b';')?.checked_add(1)?..)?,
            b'Z' | b'B' | b'C' | b'D' | b'F' | b'I' | b'J' | b'S' | b'V' => more,
            _ => return None,
        };
        n = n.checked_add(1).filter(|n| *n <= MAX_ARGUMENTS)?;
    }
    Some(n)
}

/// The trace context in the map of attachments, as far as the map was captured.
fn attachments<'a>(at: &mut Hessian<'a>) -> Option<Carried<'a>> {
    match at.at.u8()? {
        b'H' => {}
        b'M' => {
            at.text()?;
        }
        _ => return None,
    }
    let mut context = Context::default();
    let mut eagle_eye = None;
    let mut pairs = || {
        while at.at.peek()? != b'Z' {
            let key = at.text()?;
            let here = at.clone();
            at.skip()?;
            if let Some(value) = here.clone().text() {
                context.field(key, value);
                if key.eq_ignore_ascii_case(b"EagleEye-TraceID") {
                    eagle_eye = visible(value, 128);
                }
            }
        }
        Some(())
    };
    pairs();
    let mut carried = context.finish();
    if carried.foreign_trace_id.is_none() {
        carried.foreign_trace_id = eagle_eye.map(Cow::Borrowed);
    }
    Some(carried)
}

/// Fastjson writes one JSON value per line: version, service, service version, method, types, …
fn fastjson(body: &[u8]) -> Option<Call<'_>> {
    let mut lines = body.split(|b| *b == b'\n');
    let mut line = || lines.next()?.trim_ascii().strip_prefix(b"\"")?.strip_suffix(b"\"");
    line()?;
    let service = rpc::name(line()?)?;
    let version = line().and_then(rpc::name).unwrap_or_default();
    let method = line().and_then(rpc::name).unwrap_or_default();
    Some(Call { service, version, method, carried: Carried::default() })
}

fn response<'a>(h: &Header, frame: &Frame<'a>, body: &'a [u8]) -> Message<'a> {
    let mut m = rpc::call("dubbo", SYSTEM, frame.side, Kind::Response, "", "");
    m.status_code = Some(i32::from(h.status));
    m.outcome = Outcome::Ok;
    if let Some(name) = header::status(h.status) {
        m.attrs.push(("rpc.status_code", AttrVal::from(name)));
    }
    if h.status != 20 {
        let outcome = match h.status {
            // A client that gave up writes its own status into a response that it never gets; on the wire they are
            // rare.
            30 | 40 | 60 | 90 => Outcome::ClientError,
            _ => Outcome::ServerError,
        };
        let text = if h.serialization == 2 { Hessian::new(body).text() } else { None };
        let text = text.map_or(Cow::Borrowed(""), rpc::error_text);
        rpc::fail(&mut m, outcome, Cow::Borrowed(header::status(h.status).unwrap_or("_OTHER")), text);
    } else if h.serialization == 2 && !h.event {
        // The kind of the result: 0 and 3 are exceptions, 3 to 5 have attachments behind them.
        if let Some((0x90 | 0x93, value)) = body.split_first() {
            let (class, text) = Hessian::new(value).exception().unwrap_or((b"", None));
            let class = rpc::name(class).unwrap_or("_OTHER");
            let text = text.map_or(Cow::Borrowed(""), rpc::error_text);
            rpc::fail(&mut m, Outcome::ServerError, Cow::Borrowed(class), text);
        }
    }
    m
}
