//! While a segment is being merged, its keys are kept in a file without a name, split in parts by their hash. So they
//! are sorted with one part at a time in memory.

use super::pages::unnamed;
use super::sidecar::{part_of, Keys, PARTS};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use wirespan_model::KeyKind;

/// Entries that are gathered in memory and written together.
const HELD: usize = 512;
const BYTES: usize = size_of::<u64>();

/// The waiting entries of all kinds.
pub(crate) struct Spill {
    file: File,
    end: u64,
    parts: Vec<Part>,
}

#[derive(Default)]
struct Part {
    held: Vec<u64>,
    /// Places of [`HELD`] entries each.
    places: Vec<u64>,
}

impl Spill {
    /// An empty spill. The file lies in this directory.
    pub(crate) fn create(dir: &Path) -> io::Result<Spill> {
        let parts = (0..KeyKind::ALL.len() * PARTS as usize).map(|_| Part::default()).collect();
        Ok(Spill { file: unnamed(dir)?, end: 0, parts })
    }

    /// Adds an [`entry`](super::sidecar::entry).
    pub(crate) fn push(&mut self, kind: KeyKind, entry: u64) -> io::Result<()> {
        let part = &mut self.parts[index(kind, part_of(entry))];
        part.held.push(entry);
        if part.held.len() == HELD {
            let bytes: Vec<u8> = part.held.drain(..).flat_map(u64::to_le_bytes).collect();
            self.file.write_all_at(&bytes, self.end)?;
            part.places.push(self.end);
            self.end += bytes.len() as u64;
        }
        Ok(())
    }
}

impl Keys for Spill {
    fn count(&self, kind: KeyKind) -> usize {
        (0..PARTS).map(|n| &self.parts[index(kind, n)]).map(|part| part.places.len() * HELD + part.held.len()).sum()
    }

    fn part(&self, kind: KeyKind, part: u32, out: &mut Vec<u64>) -> io::Result<()> {
        let part = &self.parts[index(kind, part)];
        out.reserve(part.places.len() * HELD + part.held.len());
        let mut bytes = [0; HELD * BYTES];
        for place in &part.places {
            self.file.read_exact_at(&mut bytes, *place)?;
            out.extend(bytes.as_chunks::<BYTES>().0.iter().map(|b| u64::from_le_bytes(*b)));
        }
        out.extend(&part.held);
        Ok(())
    }
}

fn index(kind: KeyKind, part: u32) -> usize {
    (kind as usize - 1) * PARTS as usize + part as usize
}
