//! Ranges of time.

use serde::{Deserialize, Serialize};

/// A half-open range of time, Unix ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeRange {
    /// First instant.
    pub from_ns: u64,
    /// First instant after the range.
    pub to_ns: u64,
}

impl TimeRange {
    /// All time.
    pub const ALL: TimeRange = TimeRange { from_ns: 0, to_ns: u64::MAX };
}
