//! Keys by which spans find each other.

use serde::{Deserialize, Serialize};

/// Kind of an assembly key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum KeyKind {
    /// Id of the span itself.
    Span = 1,
    /// Hash of a carried trace id.
    Trace = 2,
    /// Hash of host and exchange id: the server span that owns it and the spans that it caused.
    Exchange = 3,
    /// The same bytes on the wire: TCP sequence numbers, or five-tuple with an id.
    Wire = 4,
    /// Hash of an X-Request-ID.
    RequestId = 5,
    /// Id of the parent span that a message carried.
    Parent = 6,
    /// Messages at a broker: who sent them and who received them, in different traces.
    Message = 7,
}

impl KeyKind {
    /// All kinds.
    pub const ALL: [KeyKind; 7] = [
        KeyKind::Span,
        KeyKind::Trace,
        KeyKind::Exchange,
        KeyKind::Wire,
        KeyKind::RequestId,
        KeyKind::Parent,
        KeyKind::Message,
    ];
}

/// A key: equal keys mean that two spans belong to the same trace, but for those of messages, which link traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// Kind.
    pub kind: KeyKind,
    /// Value; a 64-bit hash for everything that is not an integer itself.
    pub value: u64,
}

/// Stable 64-bit hash (same on every host and release): FNV-1a with a final mix.
pub fn hash64(parts: &[&[u8]]) -> u64 {
    let mut h: u64 = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        for b in *part {
            h = (h ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        h = (h ^ 0xff).wrapping_mul(0x0000_0100_0000_01b3);
    }
    h ^= h >> 32;
    h = h.wrapping_mul(0xd6e8_feb8_6659_fd93);
    h ^ (h >> 32)
}
