//! How a process publishes the resource of its OpenTelemetry SDK (OTEP 4719, "process context", layout 2): a mapping
//! with the name `OTEL_CTX` begins with a header of 32 bytes.
//!
//! | bytes | |
//! |---|---|
//! | 0–7 | `OTEL_CTX` |
//! | 8–11 | version of the layout: 2 |
//! | 12–15 | length of the payload |
//! | 16–23 | when it was published, by the monotonic clock, ns; 0 while it is being changed |
//! | 24–31 | address of the payload in the process |
//!
//! The payload is a protobuf message `ProcessContext` (opentelemetry-proto 1.11): field 1 is a `Resource`, whose fields
//! 1 are `KeyValue`.

/// How the header begins.
pub const SIGNATURE: &[u8; 8] = b"OTEL_CTX";
/// The layout that is known here.
pub const VERSION: u32 = 2;
/// Bytes of the header.
pub const HEADER: usize = 32;

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the payload.
    pub length: u32,
    /// When it was published; 0: it is being changed.
    pub at_ns: u64,
    /// Address of the payload.
    pub payload: u64,
}

impl Header {
    /// `None` if these bytes are no header, or one of another layout.
    pub fn read(bytes: &[u8; HEADER]) -> Option<Self> {
        let int = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let long = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
        let is_known = bytes.starts_with(SIGNATURE) && int(8)? == VERSION;
        is_known.then_some(Header { length: int(12)?, at_ns: long(16)?, payload: long(24)? })
    }

    /// The header without its signature, which is written last.
    pub fn behind_signature(&self) -> Vec<u8> {
        let Header { length, at_ns, payload } = *self;
        let sizes = [VERSION.to_ne_bytes(), length.to_ne_bytes()].concat();
        [sizes, [at_ns.to_ne_bytes(), payload.to_ne_bytes()].concat()].concat()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let header = Header { length: 70_000, at_ns: 1 << 40, payload: 0x7f00_0000_0020 };
        let bytes = [&SIGNATURE[..], &header.behind_signature()].concat();
        assert_eq!(Header::read(bytes[..].try_into().unwrap()), Some(header));
        for (at, other) in [(0, b'o'), (8, 3)] {
            let mut bytes = bytes.clone();
            bytes[at] = other;
            assert_eq!(Header::read(bytes[..].try_into().unwrap()), None);
        }
    }
}
