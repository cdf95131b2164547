//! Whether a call failed: by the status of the transport, then by the answer itself.

use super::header::Header;
use crate::framing::Cursor;
use crate::rpc;
use std::borrow::Cow;
use wirespan_model::{Kind, Message, Outcome, Side};

const CLASS: &[u8] = b"com.alipay.sofa.rpc.core.response.SofaResponse";

pub(super) fn response<'a>(h: &Header, side: Side, flagged: bool, content: &'a [u8]) -> Message<'a> {
    let mut m = rpc::call("sofarpc", "sofarpc", side, Kind::Response, "", "");
    status(&mut m, h.status);
    if m.outcome == Outcome::Ok {
        let (error, text) = match h.codec {
            1 => sofa_response(content).unwrap_or((false, b"")),
            _ => (false, &b""[..]),
        };
        if error || flagged {
            rpc::fail(&mut m, Outcome::ServerError, Cow::Borrowed("SofaResponse.isError"), rpc::error_text(text));
        }
    }
    m
}

/// Status of the transport (`ResponseStatus` of sofa-bolt).
pub(super) fn status(m: &mut Message<'_>, code: u16) {
    m.status_code = Some(i32::from(code));
    m.outcome = Outcome::Ok;
    let (name, outcome) = match code {
        0 => return,
        1 => ("ERROR", Outcome::ServerError),
        2 => ("SERVER_EXCEPTION", Outcome::ServerError),
        3 => ("UNKNOWN", Outcome::ServerError),
        4 => ("SERVER_THREADPOOL_BUSY", Outcome::ServerError),
        5 => ("ERROR_COMM", Outcome::ServerError),
        6 => ("NO_PROCESSOR", Outcome::ClientError),
        7 => ("TIMEOUT", Outcome::ServerError),
        8 => ("CLIENT_SEND_ERROR", Outcome::ClientError),
        9 => ("CODEC_EXCEPTION", Outcome::ServerError),
        16 => ("CONNECTION_CLOSED", Outcome::ServerError),
        17 => ("SERVER_SERIAL_EXCEPTION", Outcome::ServerError),
        18 => ("SERVER_DESERIAL_EXCEPTION", Outcome::ClientError),
        _ => ("_OTHER", Outcome::ServerError),
    };
    rpc::fail(m, outcome, Cow::Borrowed(name), Cow::Borrowed(""));
}

/// `isError` and `errorMsg` of an answer in SOFA's dialect of Hessian: a class definition (`O`, length, name, count of
/// fields, their names), then the object (`o`, number of the definition), whose first two fields they are.
fn sofa_response(content: &[u8]) -> Option<(bool, &[u8])> {
    let mut r = Cursor::new(content);
    (r.u8()? == b'O').then_some(())?;
    let len = small(&mut r)?;
    (r.take(len)? == CLASS).then_some(())?;
    let fields = small(&mut r)?;
    for i in 0..fields.min(16) {
        let len = usize::from(r.u8()?);
        let name = r.take(len)?;
        let expected = match i {
            0 => name == b"isError",
            1 => name == b"errorMsg",
            _ => true,
        };
        expected.then_some(())?;
    }
    (r.u8()? == b'o').then_some(())?;
    small(&mut r)?;
    let error = match r.u8()? {
        b'T' => true,
        b'F' => false,
        _ => return None,
    };
    let text = match r.u8() {
        Some(len @ 0..=0x1f) => r.take(usize::from(len)),
        Some(b'S') => r.u16().and_then(|len| {
            let rest = r.rest();
            rest.get(..usize::from(len)).or(Some(rest))
        }),
        _ => None,
    };
    Some((error, text.unwrap_or_default()))
}

/// A small integer of one or two bytes.
fn small(r: &mut Cursor<'_>) -> Option<usize> {
    match r.u8()? {
        b @ 0x90..=0xbf => Some(usize::from(b.wrapping_sub(0x90))),
        b @ 0xc8..=0xcf => Some(usize::from(u16::from_be_bytes([b.wrapping_sub(0xc8), r.u8()?]))),
        _ => None,
    }
}
