//! SOFARPC over Bolt, versions 1 and 2 (sofastack/sofa-bolt, `RpcProtocol` and `RpcProtocolV2`).
//!
//! - **pairing**: by the request id; heartbeats too
//! - **names**: service and method from the header (`sofa_head_target_service`, `sofa_head_method_name`)
//! - **errors**: the status of the response; `sofa_head_response_error` and the `isError` field of a `SofaResponse`
//! - **context**: `traceparent` and its kin in the header; SOFATracer's own trace id as a foreign one
//! - **one-way**: type 2
//! - **contents**: of a `SofaResponse` the error flag and its masked text; else skipped and never kept
//! - **need**: [`NEED`] bytes of every call: class name and header stand before the content
//! - **detection**: no magic: versions, type against command, and a class name; from the middle too. Heartbeats alone
//!   never

mod header;
mod response;

#[cfg(test)]
mod tests;

use crate::carried::Context;
use crate::framing::calls::{CallParser, Format, Frame, Reasons, Start};
use crate::framing::{decide, Cursor, Looks, Out};
use crate::rpc;
use crate::text::visible;
use crate::{Detect, Need, Pairing, Parser, Probe, Protocol};
use header::{Command, Header};
use std::borrow::Cow;
use wirespan_model::{AttrVal, Item, Kind, Message, Side, Transport, L7};

/// Bytes of a call that the kernel should copy.
pub const NEED: u32 = 1024;
/// Bytes of a frame that are read.
const WANT: usize = 4096;
const REASONS: Reasons = Reasons { bad: "sofarpc_bad_frame", gap: "sofarpc_gap" };

/// SOFARPC (Bolt).
#[derive(Clone, Copy, Debug)]
pub struct SofaRpc;

impl Protocol for SofaRpc {
    fn name(&self) -> L7 {
        "sofarpc"
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        if !probe.transport.is_stream() {
            return Detect::No;
        }
        decide(probe, looks(probe.first), looks(probe.second))
    }

    fn pairing(&self) -> Pairing {
        Pairing::ById
    }

    fn need(&self) -> Need {
        Need::EveryCall(NEED)
    }

    fn parser(&self, transport: Transport) -> Box<dyn Parser> {
        Box::new(CallParser::new(SofaFormat, transport))
    }
}

fn looks(bytes: &[u8]) -> Looks {
    match header::read(bytes) {
        Ok(None) => Looks::More,
        Err(()) => Looks::Other,
        Ok(Some(h)) => {
            let client = h.command != Command::Response;
            let class = class_of(&h, bytes);
            match rpc::name(class) {
                // A whole name of a Java class, with its package.
                Some(name)
                    if class.len() == usize::from(h.class)
                        && name.len() >= 8
                        && name.contains('.')
                        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'$')) =>
                {
                    Looks::Certain(Some(client))
                }
                _ if h.command == Command::Heartbeat => Looks::Likely(h.request.then_some(true)),
                _ if class.len() < usize::from(h.class) => Looks::More,
                _ => Looks::Other,
            }
        }
    }
}

fn class_of<'a>(h: &Header, bytes: &'a [u8]) -> &'a [u8] {
    let rest = bytes.get(h.fixed..).unwrap_or_default();
    rest.get(..usize::from(h.class)).unwrap_or(rest)
}

struct SofaFormat;

impl Format for SofaFormat {
    fn reasons(&self) -> Reasons {
        REASONS
    }

    fn start(&mut self, _: Side, bytes: &[u8], lost: bool) -> Start {
        match header::read(bytes) {
            Ok(Some(_)) if lost && !matches!(looks(bytes), Looks::Certain(_)) => Start::Bad,
            Ok(Some(h)) => Start::Frame { len: h.frame_len(), want: WANT },
            Ok(None) => Start::More,
            Err(()) => Start::Bad,
        }
    }

    fn head(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        let Ok(Some(h)) = header::read(frame.bytes) else { return };
        let rest = frame.bytes.get(h.fixed.saturating_add(usize::from(h.class))..).unwrap_or_default();
        let pairs = rest.get(..usize::from(h.pairs)).unwrap_or(rest);
        let content = rest.get(usize::from(h.pairs)..).unwrap_or_default();
        let fields = Fields::read(pairs);
        let mut m = match h.command {
            Command::Response => response::response(&h, frame.side, fields.error, content),
            Command::Request => {
                let kind = if h.one_way { Kind::OneWay } else { Kind::Request };
                rpc::call("sofarpc", "sofarpc", frame.side, kind, fields.service, fields.method)
            }
            Command::Heartbeat => heartbeat(&h, frame.side),
        };
        frame.place(&mut m);
        m.id = Some(u64::from(h.id));
        m.carried = fields.context.finish();
        if m.carried.foreign_trace_id.is_none() {
            m.carried.foreign_trace_id = fields.sofa_trace.map(Cow::Borrowed);
        }
        if let Some(name) = header::codec(h.codec) {
            m.attrs.push(("wirespan.sofarpc.codec", AttrVal::from(name)));
        }
        out(Item::Message(&m));
    }
}

fn heartbeat<'a>(h: &Header, side: Side) -> Message<'a> {
    let kind = if h.request { Kind::Request } else { Kind::Response };
    let mut m = rpc::call("sofarpc", "sofarpc", side, kind, "", "$heartbeat");
    if kind == Kind::Response {
        response::status(&mut m, h.status);
    }
    m
}

/// The facts of the header's pairs.
#[derive(Default)]
struct Fields<'a> {
    service: &'a str,
    method: &'a str,
    error: bool,
    context: Context<'a>,
    sofa_trace: Option<&'a str>,
}

impl<'a> Fields<'a> {
    /// Reads as far as the bytes go.
    fn read(bytes: &'a [u8]) -> Self {
        let mut fields = Fields::default();
        let mut r = Cursor::new(bytes);
        let mut text = || {
            let len = r.u32()?;
            r.take32(len)
        };
        while let Some((key, value)) = text().and_then(|k| Some((k, text()?))) {
            match key {
                b"sofa_head_target_service" => fields.service = rpc::name(value).unwrap_or_default(),
                b"service" if fields.service.is_empty() => fields.service = rpc::name(value).unwrap_or_default(),
                b"sofa_head_method_name" => fields.method = rpc::name(value).unwrap_or_default(),
                b"sofa_head_response_error" => fields.error = value == b"true",
                b"rpc_trace_context.sofaTraceId" => fields.sofa_trace = visible(value, 128),
                b"new_rpc_trace_context" => {
                    let id = value.split(|b| *b == b'&').find_map(|p| p.strip_prefix(b"tcid="));
                    fields.sofa_trace = id.and_then(|id| visible(id, 128));
                }
                _ => fields.context.field(key, value),
            }
        }
        fields
    }
}
