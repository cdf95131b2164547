//! As much of gRPC over HTTP/2 as one unary call needs (grpc.io, "gRPC over HTTP2"): five bytes in front of the
//! message, and the status in the trailers. Used on both sides; a gRPC framework would cost more code than it saves.

use super::gzip::{self, TooLong};
use hyper::header::{HeaderMap, HeaderValue};
use wirespan_model::percent::percent_decode;

/// Path of the method that takes traces.
pub(crate) const EXPORT_PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// Path of the method that takes metrics.
pub(crate) const METRICS_PATH: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
/// Media type.
pub(crate) const CONTENT_TYPE: &str = "application/grpc";

pub(crate) const OK: i32 = 0;
pub(crate) const CANCELLED: i32 = 1;
pub(crate) const UNKNOWN: i32 = 2;
pub(crate) const INVALID_ARGUMENT: i32 = 3;
pub(crate) const DEADLINE_EXCEEDED: i32 = 4;
pub(crate) const PERMISSION_DENIED: i32 = 7;
pub(crate) const RESOURCE_EXHAUSTED: i32 = 8;
pub(crate) const ABORTED: i32 = 10;
pub(crate) const OUT_OF_RANGE: i32 = 11;
pub(crate) const UNIMPLEMENTED: i32 = 12;
pub(crate) const UNAVAILABLE: i32 = 14;
pub(crate) const DATA_LOSS: i32 = 15;

/// Status of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) code: i32,
    pub(crate) message: String,
}

impl Status {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        Status { code, message: message.into() }
    }
}

/// Puts a message behind its prefix.
pub(crate) fn frame(message: &[u8], compress: bool) -> Vec<u8> {
    let packed;
    let body = if compress {
        packed = gzip::pack(message);
        &packed
    } else {
        message
    };
    let mut out = Vec::with_capacity(body.len() + 5);
    out.push(u8::from(compress));
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(body);
    out
}

/// Takes the only message of a body out of its prefix. `encoding` is the header `grpc-encoding`.
pub(crate) fn unframe(body: &[u8], encoding: Option<&str>, limit: usize) -> Result<Vec<u8>, Status> {
    let bad = |what: &str| Status::new(INVALID_ARGUMENT, what);
    let (prefix, message) = body.split_first_chunk::<5>().ok_or_else(|| bad("no message in the request"))?;
    let [compressed, length @ ..] = prefix;
    if u32::from_be_bytes(*length) as usize != message.len() {
        return Err(bad("the length of the message is not that of the body"));
    }
    match (compressed, encoding) {
        (0, _) => Ok(message.to_vec()),
        (1, Some("gzip")) => gzip::unpack(message, limit).map_err(|e| match e {
            Some(TooLong) => Status::new(RESOURCE_EXHAUSTED, format!("the message is longer than {limit} bytes")),
            None => bad("the message is not gzip"),
        }),
        (1, other) => Err(Status::new(UNIMPLEMENTED, format!("compression {other:?} is not known; use gzip"))),
        _ => Err(bad("bad compression flag")),
    }
}

/// Trailers with a status.
pub(crate) fn trailers(status: &Status) -> HeaderMap {
    let mut map = HeaderMap::new();
    map.insert("grpc-status", HeaderValue::from(status.code));
    if !status.message.is_empty() {
        let mut text = String::new();
        for b in status.message.bytes() {
            match b {
                b' '..=b'~' if b != b'%' => text.push(char::from(b)),
                _ => text.push_str(&format!("%{b:02X}")),
            }
        }
        if let Ok(value) = HeaderValue::try_from(text) {
            map.insert("grpc-message", value);
        }
    }
    map
}

/// The status in trailers, or in the headers of a response without a body. `None` if there is none.
pub(crate) fn status(map: &HeaderMap) -> Option<Status> {
    let code = map.get("grpc-status")?.to_str().ok()?.parse().unwrap_or(UNKNOWN);
    let message = map.get("grpc-message").and_then(|m| m.to_str().ok()).unwrap_or("");
    let message = String::from_utf8_lossy(&percent_decode(message.as_bytes())).into_owned();
    Some(Status::new(code, message))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn messages_come_back() {
        let text = b"hello hello hello hello".repeat(20);
        for compress in [false, true] {
            let framed = frame(&text, compress);
            assert_eq!(unframe(&framed, Some("gzip"), 1 << 20).unwrap(), text);
        }
        assert!(frame(&text, true).len() < text.len());
    }

    #[test]
    fn bad_frames_have_a_status() {
        let code = |body: &[u8], encoding| unframe(body, encoding, 100).unwrap_err().code;
        assert_eq!(code(b"", None), INVALID_ARGUMENT);
        assert_eq!(code(&[0, 0, 0, 0, 2, 1], None), INVALID_ARGUMENT);
        assert_eq!(code(&[7, 0, 0, 0, 1, 1], None), INVALID_ARGUMENT);
        assert_eq!(code(&[1, 0, 0, 0, 1, 1], Some("gzip")), INVALID_ARGUMENT);
        assert_eq!(code(&[1, 0, 0, 0, 1, 1], Some("snappy")), UNIMPLEMENTED);
        assert_eq!(code(&frame(&[0; 1000], true), Some("gzip")), RESOURCE_EXHAUSTED);
    }

    #[test]
    fn status_texts_come_back() {
        let s = Status::new(3, "100 % \n é");
        let map = trailers(&s);
        assert_eq!(map.get("grpc-message").unwrap(), "100 %25 %0A %C3%A9");
        assert_eq!(status(&map), Some(s));
        assert_eq!(status(&HeaderMap::new()), None);
    }
}
