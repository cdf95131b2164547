//! Protocols, limits and windows of the joiner.

use wirespan_decode::Registry;

/// Protocols, limits and windows. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinConfig {
    /// The protocols that connections are asked for.
    pub protocols: Registry,
    /// How long a request waits for its response before it is reported as unanswered.
    pub window_ns: u64,
    /// Silence after which a response whose end cannot be read (bytes not captured) counts as ended.
    pub idle_flush_ns: u64,
    /// How long bytes wait for earlier bytes of their stream, and a closed connection for late events.
    pub reorder_ns: u64,
    /// Calls per direction that may wait for earlier bytes.
    pub reorder_events: usize,
    /// Period of the spans of a connection that is not understood.
    pub flow_period_ns: u64,
    /// Silence after which a pair of datagram ends is forgotten.
    pub datagram_idle_ns: u64,
    /// Connections kept; beyond it the least recently used is ended and counted.
    pub max_connections: usize,
    /// Requests waiting per connection; beyond it the oldest is reported as unanswered and counted.
    pub max_pending: usize,
    /// Captured bytes kept over all connections (waiting, probing, inside parsers).
    pub max_buffered: usize,
    /// Payload bytes per call asked of the kernel once a protocol is known.
    pub copy_bytes: u32,
    /// Payload bytes per call asked of the kernel once requests are seen to be pipelined.
    pub pipelined_bytes: u32,
    /// Payload bytes per call asked of the kernel once messages were lost because calls were not copied to their end.
    pub whole_bytes: u32,
    /// How long a span whose last bytes this end sent waits for news of their loss; 0 where none come (capture files).
    pub settle_ns: u64,
    /// Calls of a connection that are looked at before it counts as not understood.
    pub probe_calls: u32,
}

impl Default for JoinConfig {
    fn default() -> Self {
        JoinConfig {
            protocols: Registry::default(),
            window_ns: 30_000_000_000,
            idle_flush_ns: 1_000_000_000,
            reorder_ns: 100_000_000,
            reorder_events: 64,
            flow_period_ns: 60_000_000_000,
            datagram_idle_ns: 60_000_000_000,
            max_connections: 50_000,
            max_pending: 1024,
            max_buffered: 64 << 20,
            copy_bytes: 512,
            pipelined_bytes: 4096,
            whole_bytes: 32_768,
            settle_ns: 0,
            probe_calls: 8,
        }
    }
}
