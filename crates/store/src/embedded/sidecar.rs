//! The key sidecar of a segment: for each key kind the sorted, deduplicated numbers `hash | block of rows`, so that a
//! look-up reads one block of the segment. It takes the place of Bloom filters, which would only say in which segment.
//!
//! File: [`MAGIC`], then per kind a [`Table`] header, then per kind the group directory and the bit stream, and the
//! CRC-32 of all before it. Numbers are kept as Rice-coded differences in groups of [`GROUP`]; the directory has each
//! group's first number and the place of its bits, so that a look-up reads the directory and one or two groups.

use super::memory::hash32;
use super::sums::{Checked, Sums};
use crate::StoreError;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use wirespan_model::{Key, KeyKind};

/// First bytes; the digits are the format version.
const MAGIC: &[u8; 8] = b"WSKEYS02";
/// Numbers per group.
const GROUP: usize = 128;
/// Rows per block, as a power of two.
pub(crate) const BLOCK_SHIFT: u32 = 8;
const KINDS: usize = KeyKind::ALL.len();
const TABLE: usize = 32;
const DIRECTORY_ENTRY: usize = 16;

/// A key of a row, as [`build`] takes it.
pub(crate) fn entry(hash: u32, row: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(row >> BLOCK_SHIFT)
}

/// Parts by hash in which the entries of a kind are asked for.
pub(crate) const PARTS: u32 = 8;

/// The part of an entry.
pub(crate) fn part_of(entry: u64) -> u32 {
    (entry >> 32) as u32 / (u32::MAX / PARTS + 1)
}

/// The first hash of a part; of the part behind the last, one more than the last hash.
pub(crate) fn first_of(part: u32) -> u64 {
    u64::from(part) << 32 >> PARTS.ilog2()
}

/// A source of the entries of a segment.
pub(crate) trait Keys {
    /// Number of entries of a kind.
    fn count(&self, kind: KeyKind) -> usize;
    /// Adds the entries of a part of a kind, in any order.
    fn part(&self, kind: KeyKind, part: u32, out: &mut Vec<u64>) -> std::io::Result<()>;
}

/// Writes the sidecar of a segment with this many rows; returns its length, bytes. It asks for entries kind by kind and
/// part by part, so that only one part is in memory.
pub(crate) fn write(to: &mut (impl Write + Seek), rows: usize, keys: &dyn Keys) -> std::io::Result<u64> {
    let block_bits = (usize::BITS - (rows >> BLOCK_SHIFT).leading_zeros()).max(1);
    // One look-up in 256 gets a false match. More hash bits would cost space, fewer would cost time.
    let hash_bits = (usize::BITS - rows.leading_zeros() + 8).min(32);
    let mut head = MAGIC.to_vec();
    head.extend_from_slice(&hash_bits.to_le_bytes());
    head.extend_from_slice(&block_bits.to_le_bytes());
    let length = head.len() + KINDS * TABLE;
    let mut end = length as u64;
    let mut data = crc32fast::Hasher::new();
    let mut entries = Vec::new();
    // The tables stand at the front, but are written last: they hold the places of the data behind them.
    to.seek(SeekFrom::Start(end))?;
    for kind in KeyKind::ALL {
        let span = (1u64 << (hash_bits + block_bits)) / (keys.count(kind) as u64 + 1);
        let mut table = TableWriter::new(span.max(1).ilog2());
        for part in 0..PARTS {
            entries.clear();
            keys.part(kind, part, &mut entries)?;
            for e in &mut entries {
                *e = (*e >> 32 >> (32 - hash_bits)) << block_bits | (*e & 0xffff_ffff);
            }
            entries.sort_unstable();
            entries.iter().for_each(|e| table.add(*e));
        }
        let (count, rice) = (table.count, table.rice);
        let (directory, stream) = table.finish();
        for n in [count, end, end + directory.len() as u64, u64::from(rice)] {
            head.extend_from_slice(&n.to_le_bytes());
        }
        for part in [&directory, &stream] {
            to.write_all(part)?;
            data.update(part);
            end += part.len() as u64;
        }
    }
    let mut crc = crc32fast::Hasher::new();
    crc.update(&head);
    crc.combine(&data);
    to.write_all(&crc.finalize().to_le_bytes())?;
    to.seek(SeekFrom::Start(0))?;
    to.write_all(&head)?;
    Ok(end + 4)
}

/// Directory and stream of sorted numbers.
struct TableWriter {
    rice: u32,
    count: u64,
    last: u64,
    directory: Vec<u8>,
    bits: BitWriter,
}

impl TableWriter {
    fn new(rice: u32) -> TableWriter {
        TableWriter { rice, count: 0, last: 0, directory: Vec::new(), bits: BitWriter::default() }
    }

    /// Adds the next number, unless it is there already.
    fn add(&mut self, number: u64) {
        if self.count > 0 && number == self.last {
            return;
        }
        if self.count.is_multiple_of(GROUP as u64) {
            self.bits.align();
            self.directory.extend_from_slice(&number.to_le_bytes());
            self.directory.extend_from_slice(&(self.bits.bytes.len() as u64).to_le_bytes());
        } else {
            self.bits.rice(number - self.last, self.rice);
        }
        self.last = number;
        self.count += 1;
    }

    fn finish(mut self) -> (Vec<u8>, Vec<u8>) {
        self.bits.align();
        (self.directory, self.bits.bytes)
    }
}

#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    word: u64,
    used: u32,
}

impl BitWriter {
    fn put(&mut self, value: u64, count: u32) {
        // At most 32 bits at a time, and at most 7 bits wait in the word.
        self.word |= value << self.used;
        self.used += count;
        while self.used >= 8 {
            self.bytes.push(self.word as u8);
            self.word >>= 8;
            self.used -= 8;
        }
    }

    fn rice(&mut self, value: u64, rice: u32) {
        let mut quotient = value >> rice;
        while quotient >= 32 {
            self.put((1 << 32) - 1, 32);
            quotient -= 32;
        }
        self.put((1 << quotient) - 1, quotient as u32 + 1);
        let low = rice.min(32);
        self.put(value & ((1 << low) - 1), low);
        if rice > 32 {
            self.put(value >> 32 & ((1 << (rice - 32)) - 1), rice - 32);
        }
    }

    fn align(&mut self) {
        if self.used > 0 {
            self.bytes.push(self.word as u8);
            self.word = 0;
            self.used = 0;
        }
    }
}

struct BitReader<'a> {
    bytes: &'a [u8],
    bit: usize,
}

impl BitReader<'_> {
    fn get(&mut self, count: u32) -> Option<u64> {
        let mut value = 0;
        let mut got = 0;
        while got < count {
            let byte = u64::from(*self.bytes.get(self.bit / 8)?);
            let offset = (self.bit % 8) as u32;
            let take = (8 - offset).min(count - got);
            value |= (byte >> offset & ((1 << take) - 1)) << got;
            got += take;
            self.bit += take as usize;
        }
        Some(value)
    }

    fn rice(&mut self, rice: u32) -> Option<u64> {
        let mut quotient = 0u64;
        loop {
            let byte = *self.bytes.get(self.bit / 8)? >> (self.bit % 8);
            let left = 8 - (self.bit % 8) as u32;
            let ones = (!byte).trailing_zeros().min(left);
            quotient += u64::from(ones);
            self.bit += ones as usize;
            if ones < left {
                self.bit += 1;
                break;
            }
        }
        Some(quotient.checked_shl(rice)? | self.get(rice)?)
    }
}

#[derive(Clone, Copy, Default)]
struct Table {
    count: usize,
    directory: u64,
    stream: u64,
    rice: u32,
}

/// A sidecar, open.
pub(crate) struct Sidecar {
    file: Checked,
    hash_bits: u32,
    block_bits: u32,
    tables: [Table; KINDS],
    end: u64,
}

impl Sidecar {
    /// Opens a sidecar; its header is checked.
    pub(crate) fn open(path: &Path, sums: Option<&Sums>) -> Result<Sidecar, StoreError> {
        let file = Checked::open(path, sums)?;
        let mut header = [0; MAGIC.len() + 8 + KINDS * TABLE];
        file.read_exact_at(&mut header, 0).map_err(|e| super::io("read", path, e))?;
        let end = file.len().saturating_sub(4);
        let (magic, rest) = header.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(super::corrupt(path, "not a key sidecar of this version of wirespan"));
        }
        let mut words = rest[8..].chunks_exact(8).map(|w| w.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b)));
        let mut next = || words.next().unwrap_or(0);
        let mut tables = [Table::default(); KINDS];
        for t in &mut tables {
            *t = Table { count: next() as usize, directory: next(), stream: next(), rice: next() as u32 };
            let groups = t.count.div_ceil(GROUP) as u64;
            let fits = t.directory.checked_add(groups.saturating_mul(DIRECTORY_ENTRY as u64)) == Some(t.stream);
            if !fits || t.stream > end || t.rice > 63 {
                return Err(super::corrupt(path, "the header does not fit the file"));
            }
        }
        let small = |i: usize| u32::from_le_bytes([rest[i], rest[i + 1], rest[i + 2], rest[i + 3]]);
        let (hash_bits, block_bits) = (small(0), small(4));
        if !(1..=32).contains(&hash_bits) || !(1..=31).contains(&block_bits) {
            return Err(super::corrupt(path, "the header makes no sense"));
        }
        Ok(Sidecar { file, hash_bits, block_bits, tables, end })
    }

    /// Blocks of rows that may have one of the keys, sorted, without duplicates.
    pub(crate) fn blocks(&self, keys: &[Key]) -> std::io::Result<Vec<u32>> {
        let mut blocks = Vec::new();
        for kind in KeyKind::ALL {
            let mut hashes: Vec<u32> =
                keys.iter().filter(|k| k.kind == kind).map(|k| hash32(k.value) >> (32 - self.hash_bits)).collect();
            hashes.sort_unstable();
            hashes.dedup();
            if !hashes.is_empty() {
                self.look_up(self.tables[kind as usize - 1], &hashes, &mut blocks)?;
            }
        }
        blocks.sort_unstable();
        blocks.dedup();
        Ok(blocks)
    }

    fn look_up(&self, table: Table, hashes: &[u32], blocks: &mut Vec<u32>) -> std::io::Result<()> {
        let groups = table.count.div_ceil(GROUP);
        if groups == 0 {
            return Ok(());
        }
        let mut directory = vec![0; groups * DIRECTORY_ENTRY];
        self.file.read_exact_at(&mut directory, table.directory)?;
        let word = |i: usize| {
            let mut w = [0; 8];
            w.copy_from_slice(&directory[i * 8..i * 8 + 8]);
            u64::from_le_bytes(w)
        };
        for hash in hashes {
            let from = u64::from(*hash) << self.block_bits;
            let to = from + (1 << self.block_bits);
            // Start one group before the first group that begins at or behind `from`: its last entries may match.
            let (mut a, mut b) = (0, groups);
            while a < b {
                let middle = (a + b) / 2;
                if word(middle * 2) < from {
                    a = middle + 1;
                } else {
                    b = middle;
                }
            }
            for group in a.saturating_sub(1)..groups {
                if word(group * 2) >= to {
                    break;
                }
                let at = table.stream + word(group * 2 + 1);
                let end = if group + 1 < groups { table.stream + word(group * 2 + 3) } else { self.end };
                let count = GROUP.min(table.count - group * GROUP);
                // The directory has no end for the last group of a table. The bound is longer than any group.
                let longest = (GROUP * (table.rice as usize + 2) / 8 + 64) * 4;
                let mut bits = vec![0; (end.saturating_sub(at) as usize).min(longest)];
                self.file.read_exact_at(&mut bits, at)?;
                let mut reader = BitReader { bytes: &bits, bit: 0 };
                let mut value = word(group * 2);
                for n in 0..count {
                    if n > 0 {
                        match reader.rice(table.rice) {
                            Some(d) => value = value.saturating_add(d),
                            None => break,
                        }
                    }
                    if value >= to {
                        break;
                    }
                    if value >= from {
                        blocks.push((value - from) as u32);
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::spill::Spill;
    use super::*;
    use proptest::prelude::*;
    use std::fs::File;

    proptest! {
        #[test]
        fn every_key_is_found(keys in prop::collection::vec((1u8..=7, any::<u64>(), 0u32..100_000), 1..600),
            few in any::<bool>()) {
            let kind = |k: u8| KeyKind::ALL[usize::from(k) - 1];
            // Few distinct values make long runs of one hash.
            let value = |v: u64| if few { v % 3 } else { v };
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("keys");
            let mut spill = Spill::create(dir.path()).unwrap();
            for (k, v, row) in &keys {
                spill.push(kind(*k), entry(hash32(value(*v)), *row)).unwrap();
            }
            write(&mut File::create(&path).unwrap(), 100_000, &spill).unwrap();
            let sidecar = Sidecar::open(&path, None).unwrap();
            for (k, v, row) in &keys {
                let blocks = sidecar.blocks(&[Key { kind: kind(*k), value: value(*v) }]).unwrap();
                prop_assert!(blocks.contains(&(row >> BLOCK_SHIFT)));
            }
        }
    }

    #[test]
    fn unknown_keys_rarely_match_a_filter() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        let mut spill = Spill::create(dir.path()).unwrap();
        for n in 0..100_000u32 {
            spill.push(KeyKind::Wire, entry(hash32(u64::from(n)), n)).unwrap();
        }
        let bytes = write(&mut File::create(&path).unwrap(), 100_000, &spill).unwrap();
        assert_eq!(bytes, std::fs::metadata(&path).unwrap().len());
        assert!(bytes < 100_000 * 3, "{bytes} bytes");
        let sidecar = Sidecar::open(&path, None).unwrap();
        let strangers = (1_000_000..1_010_000u64)
            .filter(|v| !sidecar.blocks(&[Key { kind: KeyKind::Wire, value: *v }]).unwrap().is_empty())
            .count();
        assert!(strangers < 100, "{strangers} of 10000");
    }
}
