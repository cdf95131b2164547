//! Options of the joiner.

use wirespan_decode::Registry;
use wirespan_model::event::{DEFAULT_PAYLOAD_BYTES, MAX_CALL_BYTES, MAX_PAYLOAD_BYTES};

/// Protocols, limits and windows. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinConfig {
    /// Protocols that can be recognised.
    pub protocols: Registry,
    /// How long a request waits for its response before it is reported as unanswered, if its connection stays open: a
    /// long poll or a slow report is answered after minutes.
    pub window_ns: u64,
    /// The same for datagrams, which nobody closes.
    pub datagram_window_ns: u64,
    /// Silence after which a response counts as ended if its end cannot be read (bytes were not captured).
    pub idle_flush_ns: u64,
    /// The same for a response in chunks: more of them may show that it goes on.
    pub stream_pause_ns: u64,
    /// How long bytes wait for earlier bytes of their stream, and how long a closed connection waits for late events.
    pub reorder_ns: u64,
    /// Most calls per direction that may wait for earlier bytes.
    pub reorder_events: usize,
    /// Period of the spans of a connection whose protocol is not recognised.
    pub flow_period_ns: u64,
    /// Silence after which a pair of datagram ends is forgotten.
    pub datagram_idle_ns: u64,
    /// Most connections kept. Beyond it the least recently used is ended and counted.
    pub max_connections: usize,
    /// Most requests waiting per connection. Beyond it the oldest is reported as unanswered and counted.
    pub max_pending: usize,
    /// Most captured bytes kept over all connections (waiting, probing, inside parsers).
    pub max_buffered: usize,
    /// Payload bytes per call that the kernel copies once a protocol is known.
    pub copy_bytes: u32,
    /// Payload bytes per call that the kernel copies once requests are pipelined.
    pub pipelined_bytes: u32,
    /// Payload bytes per call that the kernel copies once messages were lost because calls were not copied to their
    /// end.
    pub whole_bytes: u32,
    /// How long a span waits for news of the loss of its last bytes, if this end sent them; 0 if the source reports no
    /// losses (capture files).
    pub settle_ns: u64,
    /// Calls of a connection that are examined before its protocol counts as not recognised.
    pub probe_calls: u32,
}

impl Default for JoinConfig {
    fn default() -> Self {
        JoinConfig {
            protocols: Registry::default(),
            window_ns: 900_000_000_000,
            datagram_window_ns: 30_000_000_000,
            idle_flush_ns: 1_000_000_000,
            stream_pause_ns: 4_000_000_000,
            reorder_ns: 100_000_000,
            reorder_events: 64,
            flow_period_ns: 60_000_000_000,
            datagram_idle_ns: 60_000_000_000,
            max_connections: 50_000,
            max_pending: 1024,
            max_buffered: 64 << 20,
            copy_bytes: DEFAULT_PAYLOAD_BYTES,
            pipelined_bytes: MAX_PAYLOAD_BYTES,
            whole_bytes: MAX_CALL_BYTES,
            settle_ns: 0,
            probe_calls: 8,
        }
    }
}
