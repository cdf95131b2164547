//! Memory of processes, read from outside.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Memory of a process. The process may change it at any time.
pub(crate) trait Memory {
    /// Fills the buffer; `None` if not all of it can be read.
    fn read(&self, at: u64, into: &mut [u8]) -> Option<()>;

    fn word(&self, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes)?;
        Some(u64::from_ne_bytes(bytes))
    }

    fn bytes(&self, at: u64, size: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; size];
        self.read(at, &mut bytes)?;
        Some(bytes)
    }

    /// The words of `size` bytes from this address on.
    fn words(&self, at: u64, size: usize) -> Option<Vec<u64>> {
        let bytes = self.bytes(at, size)?;
        let words = bytes.chunks_exact(8);
        Some(words.filter_map(|w| w.try_into().ok()).map(u64::from_ne_bytes).collect())
    }
}

impl Memory for File {
    fn read(&self, at: u64, into: &mut [u8]) -> Option<()> {
        self.read_exact_at(into, at).ok()
    }
}

/// Opens the memory of a process.
pub(crate) fn of(pid: u32) -> io::Result<File> {
    File::open(format!("/proc/{pid}/mem"))
}
