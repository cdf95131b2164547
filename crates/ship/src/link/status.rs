//! The state of a sender, for `wirespan status` and `/metrics`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// State of the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SenderState {
    /// Trying to connect.
    #[default]
    Connecting,
    /// Connected and welcome.
    Connected,
    /// Connected, but the server cannot take batches now; says why. They are kept and sent as soon as it can.
    Held(String),
    /// The last attempt or connection failed; says why. Another attempt follows.
    Waiting(String),
    /// Closed by the caller.
    Closed,
}

/// Counts since the start: `offered = acked + dropped + queued` at any time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SenderStatus {
    /// State of the connection.
    pub state: SenderState,
    /// Spans given to [`send`](super::Sender::send).
    pub offered: u64,
    /// Spans that the server has taken.
    pub acked: u64,
    /// Spans waiting, in flight included.
    pub queued: u64,
    /// Bytes of encoded batches waiting.
    pub backlog_bytes: u64,
    /// Bytes sent, repeats included.
    pub sent_bytes: u64,
    /// Connections made.
    pub connects: u64,
    /// How often the server said that it cannot take batches now.
    pub busy: u64,
    /// Spans lost because the queue in front of the encoder was full.
    pub dropped_queue: u64,
    /// Spans lost because the server was away for longer than the backlog lasts (oldest first).
    pub dropped_backlog: u64,
    /// Spans too big for a frame.
    pub dropped_too_big: u64,
    /// Spans that were not acknowledged when the sender was closed.
    pub dropped_closed: u64,
    /// Flows given to [`send_flows`](super::Sender::send_flows).
    pub flows_offered: u64,
    /// Flows that the server has taken.
    pub flows_acked: u64,
    /// Flows lost, for any of the reasons that spans are lost for.
    pub flows_dropped: u64,
}

impl SenderStatus {
    /// All spans lost.
    pub fn dropped(&self) -> u64 {
        self.dropped_queue + self.dropped_backlog + self.dropped_too_big + self.dropped_closed
    }

    /// All counters with their names, for `/metrics` and `wirespan status`.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("spans_offered", self.offered),
            ("spans_acked", self.acked),
            ("spans_queued", self.queued),
            ("backlog_bytes", self.backlog_bytes),
            ("sent_bytes", self.sent_bytes),
            ("connects", self.connects),
            ("server_busy", self.busy),
            ("spans_dropped_queue", self.dropped_queue),
            ("spans_dropped_backlog", self.dropped_backlog),
            ("spans_dropped_too_big", self.dropped_too_big),
            ("spans_dropped_closed", self.dropped_closed),
            ("flows_offered", self.flows_offered),
            ("flows_acked", self.flows_acked),
            ("flows_dropped", self.flows_dropped),
        ]
    }
}

#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<SenderState>,
    pub(super) offered: AtomicU64,
    pub(super) acked: AtomicU64,
    pub(super) backlog_bytes: AtomicU64,
    pub(super) sent_bytes: AtomicU64,
    pub(super) connects: AtomicU64,
    pub(super) busy: AtomicU64,
    pub(super) dropped_queue: AtomicU64,
    pub(super) dropped_backlog: AtomicU64,
    pub(super) dropped_too_big: AtomicU64,
    pub(super) dropped_closed: AtomicU64,
    pub(super) flows_offered: AtomicU64,
    pub(super) flows_acked: AtomicU64,
    pub(super) flows_dropped: AtomicU64,
}

impl Shared {
    pub(super) fn set_state(&self, state: SenderState) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// The server has taken a batch.
    pub(super) fn no_longer_held(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, SenderState::Held(_)) {
            *state = SenderState::Connected;
        }
    }

    pub(super) fn status(&self) -> SenderStatus {
        let mut s = SenderStatus {
            state: self.state.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            acked: self.acked.load(Relaxed),
            queued: 0,
            backlog_bytes: self.backlog_bytes.load(Relaxed),
            sent_bytes: self.sent_bytes.load(Relaxed),
            connects: self.connects.load(Relaxed),
            busy: self.busy.load(Relaxed),
            dropped_queue: self.dropped_queue.load(Relaxed),
            dropped_backlog: self.dropped_backlog.load(Relaxed),
            dropped_too_big: self.dropped_too_big.load(Relaxed),
            dropped_closed: self.dropped_closed.load(Relaxed),
            flows_offered: self.flows_offered.load(Relaxed),
            flows_acked: self.flows_acked.load(Relaxed),
            flows_dropped: self.flows_dropped.load(Relaxed),
            // Read this counter last: a span is offered before any other counter counts it.
            offered: self.offered.load(Relaxed),
        };
        s.queued = s.offered.saturating_sub(s.acked + s.dropped());
        s
    }
}
