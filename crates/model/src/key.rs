//! Keys by which spans of one trace, and spans of linked traces, find each other.

use crate::listed::listed_enum;
use serde::{Deserialize, Serialize};

listed_enum! {
    /// What a [`Key`] is made of.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum KeyKind {
        /// Id of the span itself.
        Span = 1,
        /// Hash of a carried trace id.
        Trace = 2,
        /// Hash of the host and an exchange id. The server span that owns the exchange has this key, and so has each
        /// span whose cause is the exchange.
        Exchange = 3,
        /// The same bytes on the wire: a hash of TCP sequence numbers, or of the five-tuple with an id.
        Wire = 4,
        /// Hash of an X-Request-ID.
        RequestId = 5,
        /// Id of the parent span that a message carried.
        Parent = 6,
        /// A block of messages at a broker. The sender and the receiver have this key, in different traces.
        Message = 7,
    }
}

/// A key of a span. Two spans with an equal key belong to the same trace; only [`KeyKind::Message`] links two traces
/// instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// What the value is made of.
    pub kind: KeyKind,
    /// The id itself if it is an integer, else a 64-bit hash by [`hash64`].
    pub value: u64,
}

/// Stable 64-bit hash of byte strings, the same on every host and release: FNV-1a with a final mix. A separator after
/// each part keeps `["ab", "c"]` and `["a", "bc"]` apart.
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
