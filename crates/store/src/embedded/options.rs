//! Options of a store.

use std::time::Duration;

/// How an [`Embedded`](super::Embedded) store keeps its spans. The defaults suit one machine; the agent's configuration
/// is the place to change them.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Segments whose newest span is older are dropped.
    pub max_age: Duration,
    /// Most that all files take together, bytes, logs included; in a store in memory, most that spans and flows take.
    /// The oldest are dropped before it is reached.
    pub max_bytes: u64,
    /// A memory segment becomes a file at this number of spans.
    pub flush_rows: usize,
    /// A memory segment also becomes a file when its key index and its names take this much memory, bytes.
    pub flush_memory_bytes: usize,
    /// A memory segment also becomes a file at this age.
    pub flush_interval: Duration,
    /// Longest time that an append waits for segments that are not written as fast as spans arrive.
    pub patience: Duration,
    /// At most this much is lost in a crash. The log is written and synced twice as often.
    pub sync_interval: Duration,
    /// Segments with less than half of this many spans are merged with their neighbours, up to this many.
    pub merge_rows: u64,
    /// This many small segments are merged at once.
    pub merge_count: usize,
    /// Writing stops when the file system has less room than this, bytes. The rest is kept for making segments of logs.
    pub min_free_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            max_age: Duration::from_secs(7 * 24 * 3600),
            max_bytes: 10 << 30,
            flush_rows: 256 * 1024,
            flush_memory_bytes: 24 << 20,
            flush_interval: Duration::from_secs(60),
            patience: Duration::from_secs(5),
            sync_interval: Duration::from_secs(1),
            merge_rows: 256 * 1024,
            merge_count: 8,
            min_free_bytes: 64 << 20,
        }
    }
}
