//! Dubbo 2 over TCP (Apache Dubbo, "Dubbo2 protocol reference"; bodies: Hessian 2.0 serialization specification).
//!
//! - **pairing**: by the request id of the header; either end may ask (callbacks, heartbeats)
//! - **hessian2 requests**: service, method, and the attachments behind the arguments, which are stepped over and never
//!   kept
//! - `$invoke` (generic calls): the method is the first argument, by its definition a name
//! - **other serializations**: fastjson: service and method; kryo, fst, protobuf and the rest by their header only
//! - **responses**: header status; for status 20 whether the body is an exception, with its class and masked message
//! - **events**: heartbeats are requests of the operation `$heartbeat`, told apart by the event flag
//! - **need**: [`NEED`] bytes of every call: attachments stand at the end of a request
//! - **detection**: magic, a known serialization, a status that exists, and a body that begins as its serialization
//!   does

mod detect;
mod emit;
mod header;
mod hessian;

#[cfg(test)]
mod tests;

use crate::framing::calls::{CallParser, Format, Frame, Reasons, Start};
use crate::framing::Out;
use crate::{Detect, Need, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Side, Transport, L7};

/// Bytes of a call that the kernel should copy.
pub const NEED: u32 = 2048;
/// Bytes of a frame that are read: enough for the attachments of all but large requests.
const WANT: usize = 8 * 1024;

const REASONS: Reasons = Reasons { bad: "dubbo_bad_frame", gap: "dubbo_gap" };

/// Dubbo.
#[derive(Clone, Copy, Debug)]
pub struct Dubbo;

impl Protocol for Dubbo {
    fn name(&self) -> L7 {
        "dubbo"
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        detect::detect(probe)
    }

    fn pairing(&self) -> Pairing {
        Pairing::ById
    }

    fn need(&self) -> Need {
        Need::EveryCall(NEED)
    }

    fn parser(&self, transport: Transport) -> Box<dyn Parser> {
        Box::new(CallParser::new(DubboFormat, transport))
    }
}

struct DubboFormat;

impl Format for DubboFormat {
    fn reasons(&self) -> Reasons {
        REASONS
    }

    fn start(&mut self, _: Side, bytes: &[u8], lost: bool) -> Start {
        match header::read(bytes) {
            Ok(Some(h)) if !lost || detect::body_fits(&h, bytes) => Start::Frame { len: h.frame_len(), want: WANT },
            Ok(None) => Start::More,
            _ => Start::Bad,
        }
    }

    fn head(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        if let Ok(Some(h)) = header::read(frame.bytes) {
            emit::emit(&h, frame, out);
        }
    }
}
