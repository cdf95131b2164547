//! What the fuzz targets share: any bytes become a conversation in random pieces, with random gaps.
#![forbid(unsafe_code)]

#[path = "../../crates/decode/tests/pieces/mod.rs"]
mod pieces;

use wirespan_decode::Protocol;
use wirespan_model::Transport;

/// Reads `data` as bytes of one connection. The same data is always cut in the same way.
pub fn read(protocol: &dyn Protocol, transports: &[Transport], data: &[u8]) {
    let seed =
        data.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3));
    for transport in transports {
        pieces::feed(protocol, *transport, data, &mut pieces::Random(seed | 1));
    }
}
