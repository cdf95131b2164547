//! Bounds and counters of a stream.

/// Windows and bounds. Times are ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamConfig {
    /// A group is exported when no span has arrived for this long.
    pub idle_ns: u64,
    /// As above, for a group that misses the span of a request that caused one of its calls: the request may be
    /// answered after minutes.
    pub unresolved_ns: u64,
    /// How long an exported group is remembered.
    pub remember_ns: u64,
    /// Most spans kept, including those of exported groups. Beyond it the group that was exported first is forgotten;
    /// if no group was exported, the group that is due next goes early.
    pub max_spans: usize,
    /// Most spans of one group; beyond it the group is exported as not complete.
    pub max_group: usize,
    /// Export drivers' housekeeping and port probes as spans and traces of their own ([`crate::fold`]).
    pub housekeeping: bool,
}

impl Default for StreamConfig {
    fn default() -> Self {
        StreamConfig {
            idle_ns: 2_000_000_000,
            unresolved_ns: 900_000_000_000,
            remember_ns: 60_000_000_000,
            max_spans: 100_000,
            max_group: 10_000,
            housekeeping: false,
        }
    }
}

/// Counters; all only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamStats {
    /// Spans in.
    pub spans_in: u64,
    /// Spans that came a second time (same id); dropped.
    pub duplicates: u64,
    /// Spans out.
    pub spans_out: u64,
    /// Traces out; a trace with late spans counts each time.
    pub traces_out: u64,
    /// Spans that came after their trace was exported.
    pub late_spans: u64,
    /// Groups exported early because too many spans waited.
    pub early_groups: u64,
    /// Spans of housekeeping that were folded into calls.
    pub folded_spans: u64,
    /// Spans of traces that were left out because they have nothing but housekeeping or port probes.
    pub noise_spans: u64,
}

impl StreamStats {
    /// All counters with their names, for `/metrics` and `wirespan status`.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("spans_in", self.spans_in),
            ("duplicates", self.duplicates),
            ("spans_out", self.spans_out),
            ("traces_out", self.traces_out),
            ("late_spans", self.late_spans),
            ("early_groups", self.early_groups),
            ("housekeeping_folded", self.folded_spans),
            ("noise_left_out", self.noise_spans),
        ]
    }
}
