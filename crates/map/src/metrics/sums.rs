//! The sums of an edge, and its name in metrics.

use wirespan_model::{Log2Histogram, Transport};

/// Upper bounds of the buckets of durations, seconds: those of OpenTelemetry's service-graph connector.
pub const BOUNDS_S: [f64; 16] =
    [0.002, 0.004, 0.006, 0.008, 0.01, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.4, 2.0, 5.0, 10.0, 15.0];

/// An edge as service graphs name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GraphEdge {
    /// Name of the caller.
    pub client: Box<str>,
    /// Name of the called.
    pub server: Box<str>,
    /// Empty, or `virtual_node`, `database`, `messaging_system`.
    pub connection_type: &'static str,
}

/// An edge as flow records name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkEdge {
    /// Name of the caller.
    pub client: Box<str>,
    /// Name of the called.
    pub server: Box<str>,
    /// Transport.
    pub transport: Transport,
    /// Port of the called.
    pub port: u16,
}

/// Counts of durations by [`BOUNDS_S`], and their sum.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Durations {
    /// One more than bounds.
    pub counts: [u64; BOUNDS_S.len() + 1],
    /// Seconds.
    pub sum_s: f64,
}

impl Durations {
    pub(crate) fn add(&mut self, ns: u64) {
        let seconds = ns as f64 / 1e9;
        let bucket = BOUNDS_S.iter().position(|b| seconds <= *b).unwrap_or(BOUNDS_S.len());
        self.counts[bucket] += 1;
        self.sum_s += seconds;
    }

    pub(crate) fn merge(&mut self, other: &Durations) {
        self.counts.iter_mut().zip(other.counts).for_each(|(n, more)| *n += more);
        self.sum_s += other.sum_s;
    }
}

/// Upper bounds of the buckets of round trips, seconds: 2^7 µs, 2^9 µs, … 2^21 µs, as flow records know powers of two.
pub const RTT_BOUNDS_S: [f64; 8] = [0.000128, 0.000512, 0.002048, 0.008192, 0.032768, 0.131072, 0.524288, 2.097152];

/// Counts of round trips by [`RTT_BOUNDS_S`], and about their sum. Many wait at a time, so it is small.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RoundTrips {
    counts: [u32; RTT_BOUNDS_S.len() + 1],
    sum_s: f32,
}

impl From<&Log2Histogram> for RoundTrips {
    fn from(h: &Log2Histogram) -> Self {
        let mut all = RoundTrips::default();
        for (i, n) in h.0.iter().copied().enumerate().filter(|(_, n)| *n > 0) {
            // The first bound is 2^7 µs. From there each bucket takes two of the flow records' buckets.
            let at = if i < 7 { 0 } else { ((i - 7) / 2 + 1).min(RTT_BOUNDS_S.len()) };
            all.counts[at] = all.counts[at].saturating_add(u32::try_from(n).unwrap_or(u32::MAX));
            all.sum_s += n as f32 * 2f32.powf(i as f32 + 0.5) / 1e6;
        }
        all
    }
}

/// Requests of an edge.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallSums {
    /// Requests, each once.
    pub requests: u64,
    /// Of these, failed.
    pub failed: u64,
    /// As callers saw them.
    pub client: Durations,
    /// As the called saw them.
    pub server: Durations,
}

/// Flow records of an edge, as the client's end saw it (as the server's did, if the client was not observed).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowSums {
    /// Connections opened.
    pub opened: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Bytes from client to server.
    pub request_bytes: u64,
    /// Bytes from server to client.
    pub response_bytes: u64,
    /// Segments retransmitted; both ends together.
    pub retransmits: u64,
    /// Resets.
    pub resets: u64,
}

/// All counts of an edge from its flow records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkSums {
    /// Connections and bytes.
    pub flows: FlowSums,
    /// Smoothed RTT, at each look at a connection, by [`RTT_BOUNDS_S`].
    pub rtt: [u64; RTT_BOUNDS_S.len() + 1],
    /// About their sum, seconds: each counts as the middle of its power of two.
    pub rtt_sum_s: f64,
}

impl LinkSums {
    pub(crate) fn add_round_trips(&mut self, more: &RoundTrips) {
        self.rtt.iter_mut().zip(more.counts).for_each(|(n, more)| *n += u64::from(more));
        self.rtt_sum_s += f64::from(more.sum_s);
    }
}
