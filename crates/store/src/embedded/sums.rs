//! Checksums of the two files of a segment, so that an altered value is never taken for a true one.
//!
//! `segment-N.sums` is [`MAGIC`], the lengths of the Parquet file and of the key sidecar (u64), the CRC-32 of each
//! block of [`BLOCK`] bytes of the one and of the other, and a CRC-32 of all before it (little endian). Each read
//! checks the blocks that it touches. Parquet has checksums of pages, but they cover neither its index nor its footer,
//! and the library that writes the files cannot write them.

use crate::StoreError;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// First bytes; the digits are the format version.
const MAGIC: &[u8; 8] = b"WSSUMS01";
/// Bytes that one checksum covers: what the page cache reads at least.
const BLOCK: usize = 4096;

/// Length and checksums of one file.
#[derive(Clone, Debug)]
pub(crate) struct Sums {
    len: u64,
    crcs: Arc<[u32]>,
}

impl Sums {
    /// The checksums of a file as it is.
    fn of(file: &File) -> io::Result<Sums> {
        let len = file.metadata()?.len();
        let mut crcs = Vec::with_capacity(len.div_ceil(BLOCK as u64) as usize);
        let mut buf = vec![0; 64 * BLOCK];
        let mut at = 0;
        while at < len {
            let take = (buf.len() as u64).min(len - at) as usize;
            file.read_exact_at(&mut buf[..take], at)?;
            crcs.extend(buf[..take].chunks(BLOCK).map(crc32fast::hash));
            at += take as u64;
        }
        Ok(Sums { len, crcs: crcs.into() })
    }
}

/// Writes the checksums of both files of a segment; returns the length of the file of checksums, bytes.
pub(crate) fn write(path: &Path, data: &File, keys: &File) -> io::Result<u64> {
    let both = [Sums::of(data)?, Sums::of(keys)?];
    let mut out = MAGIC.to_vec();
    both.iter().for_each(|s| out.extend_from_slice(&s.len.to_le_bytes()));
    both.iter().flat_map(|s| s.crcs.iter()).for_each(|crc| out.extend_from_slice(&crc.to_le_bytes()));
    out.extend_from_slice(&crc32fast::hash(&out).to_le_bytes());
    let file = File::create(path)?;
    file.write_all_at(&out, 0)?;
    file.sync_all()?;
    Ok(out.len() as u64)
}

/// Reads the checksums of both files of a segment.
pub(crate) fn read(path: &Path) -> Result<[Sums; 2], StoreError> {
    let bytes = std::fs::read(path).map_err(|e| super::io("read", path, e))?;
    parse(&bytes).ok_or_else(|| super::corrupt(path, "it does not match its own checksum"))
}

fn parse(bytes: &[u8]) -> Option<[Sums; 2]> {
    let (body, crc) = bytes.split_last_chunk::<4>()?;
    let rest = body.strip_prefix(MAGIC)?;
    let (lens, crcs) = rest.split_first_chunk::<16>()?;
    let len = |i: usize| Some(u64::from_le_bytes(lens.get(i..i + 8)?.try_into().ok()?));
    let lens = [len(0)?, len(8)?];
    let counts = lens.map(|len| len.div_ceil(BLOCK as u64));
    let whole = crc32fast::hash(body) == u32::from_le_bytes(*crc)
        && counts[0].checked_add(counts[1])?.checked_mul(4)? == crcs.len() as u64;
    let mut words = crcs.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]));
    let mut take = |i: usize| Sums { len: lens[i], crcs: words.by_ref().take(counts[i] as usize).collect() };
    whole.then(|| [take(0), take(1)])
}

/// A file whose bytes are checked when they are read.
#[derive(Clone)]
pub(crate) struct Checked {
    file: Arc<File>,
    len: u64,
    /// `None`: the checksums are lost, and the bytes are taken as they are.
    crcs: Option<Arc<[u32]>>,
}

impl Checked {
    /// Opens a file. A file of another length than it had is damaged.
    pub(crate) fn open(path: &Path, sums: Option<&Sums>) -> Result<Checked, StoreError> {
        let file = File::open(path).map_err(|e| super::io("open", path, e))?;
        let len = file.metadata().map_err(|e| super::io("read", path, e))?.len();
        match sums {
            Some(s) if s.len != len => {
                Err(super::corrupt(path, format!("it has {len} bytes, and {} were written", s.len)))
            }
            _ => Ok(Checked { file: Arc::new(file), len, crcs: sums.map(|s| s.crcs.clone()) }),
        }
    }

    /// Bytes of the file.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Fills the buffer from a place of the file.
    pub(crate) fn read_exact_at(&self, buf: &mut [u8], at: u64) -> io::Result<()> {
        let Some(crcs) = &self.crcs else { return self.file.read_exact_at(buf, at) };
        let end = at.checked_add(buf.len() as u64).filter(|end| *end <= self.len);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        let first = at / BLOCK as u64;
        let from = first * BLOCK as u64;
        let to = end.div_ceil(BLOCK as u64).saturating_mul(BLOCK as u64).min(self.len);
        let mut blocks = vec![0; (to - from) as usize];
        self.file.read_exact_at(&mut blocks, from)?;
        for (i, block) in (first..).zip(blocks.chunks(BLOCK)) {
            if crcs.get(i as usize) != Some(&crc32fast::hash(block)) {
                let what = format!("the bytes from {} on do not match their checksum", i * BLOCK as u64);
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
        }
        let skip = (at - from) as usize;
        buf.copy_from_slice(&blocks[skip..skip + buf.len()]);
        Ok(())
    }

    /// Reads what is there at a place, at most the buffer.
    pub(crate) fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        let n = (buf.len() as u64).min(self.len.saturating_sub(at)) as usize;
        self.read_exact_at(&mut buf[..n], at)?;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_read_that_touches_an_altered_byte_fails_and_every_other_read_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let (data, keys, sums) = (dir.path().join("data"), dir.path().join("keys"), dir.path().join("sums"));
        let bytes: Vec<u8> = (0..3 * BLOCK + 100).map(|i| (i * 7 % 251) as u8).collect();
        std::fs::write(&data, &bytes).unwrap();
        std::fs::write(&keys, b"few").unwrap();
        write(&sums, &File::open(&data).unwrap(), &File::open(&keys).unwrap()).unwrap();
        let [of_data, of_keys] = read(&sums).unwrap();
        let file = Checked::open(&data, Some(&of_data)).unwrap();
        let mut buf = vec![0; 5000];
        file.read_exact_at(&mut buf, 4000).unwrap();
        assert_eq!(buf, bytes[4000..9000]);
        let mut few = [0; 8];
        assert_eq!(Checked::open(&keys, Some(&of_keys)).unwrap().read_at(&mut few, 1).unwrap(), 2);

        let mut altered = bytes.clone();
        altered[2 * BLOCK + 5] ^= 4;
        std::fs::write(&data, &altered).unwrap();
        let file = Checked::open(&data, Some(&of_data)).unwrap();
        assert!(file.read_exact_at(&mut buf[..100], 2 * BLOCK as u64).is_err());
        file.read_exact_at(&mut buf[..100], 3 * BLOCK as u64).unwrap();
        file.read_exact_at(&mut buf[..2 * BLOCK - 4000], 4000).unwrap();
        file.read_exact_at(&mut buf[..2 * BLOCK - 3999], 4000).unwrap_err();
        assert!(Checked::open(&data, Some(&of_keys)).is_err(), "another length");
        let mut damaged = std::fs::read(&sums).unwrap();
        damaged[20] ^= 1;
        std::fs::write(&sums, damaged).unwrap();
        assert!(read(&sums).is_err());
    }
}
