//! The beginning of a compressed body (`OP_COMPRESSED`).

use super::bson::int32;
use crate::compression;
use flate2::{Decompress, FlushDecompress};

/// Bytes that are unpacked; the parser would not read more of an uncompressed body either.
const MAX_UNPACKED: usize = 4096;

/// Compressors by their numbers.
pub(super) const NOOP: u8 = 0;
pub(super) const SNAPPY: u8 = 1;
pub(super) const ZLIB: u8 = 2;
pub(super) const ZSTD: u8 = 3;

/// Head of a compressed body: the operation inside, the compressor if it was seen, and the packed bytes.
pub(super) fn head(bytes: &[u8]) -> Option<(i32, Option<u8>, &[u8])> {
    Some((int32(bytes, 0)?, bytes.get(8).copied(), bytes.get(9..).unwrap_or_default()))
}

/// Unpacks the beginning of a body into `out`, which stays empty if the body is unreadable.
pub(super) fn unpack(bytes: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let Some((_, compressor, packed)) = head(bytes) else { return };
    match compressor {
        Some(NOOP) => out.extend_from_slice(packed.get(..MAX_UNPACKED).unwrap_or(packed)),
        Some(SNAPPY) => compression::snappy(packed, out, MAX_UNPACKED),
        Some(ZSTD) => compression::zstd(packed, out, MAX_UNPACKED),
        Some(ZLIB) => {
            out.reserve_exact(MAX_UNPACKED);
            let read = Decompress::new(true).decompress_vec(packed, out, FlushDecompress::Sync);
            if read.is_err() {
                out.clear();
            }
        }
        _ => {}
    }
}
