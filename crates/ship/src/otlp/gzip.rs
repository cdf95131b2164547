//! Gzip with a limit on the decompressed size.

use flate2::{read::GzDecoder, write::GzEncoder, Compression};
use std::io::{Read, Write};

/// The decompressed size exceeds the limit.
#[derive(Debug)]
pub(crate) struct TooLong;

/// Compresses.
pub(crate) fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    // Writing to a Vec does not fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// Decompresses at most `limit` bytes. `Err(None)`: not gzip.
pub(crate) fn unpack(bytes: &[u8], limit: usize) -> Result<Vec<u8>, Option<TooLong>> {
    let mut out = Vec::new();
    GzDecoder::new(bytes).take(limit as u64 + 1).read_to_end(&mut out).map_err(|_| None)?;
    if out.len() > limit {
        return Err(Some(TooLong));
    }
    Ok(out)
}
