//! Spans whose last bytes went over a network wait a moment for news of their loss.
//!
//! A server's span is over when its response is sent, but TCP retransmits lost bytes only after a timeout (200 ms and
//! more). The span is kept a little longer than that, so that it can count the retransmissions. A client's span has its
//! response, which shows that the request arrived. Loopback loses nothing.

use crate::resent::Segments;
use std::collections::VecDeque;
use wirespan_model::event::TcpTrouble;
use wirespan_model::{ExchangeRange, Span, Status, TapSide, Transport};

/// Longest wait after the end of a span, ns. A trace waits not much longer for its spans.
const LONGEST_NS: u64 = 1_000_000_000;
/// Most spans that are kept. Beyond it the oldest goes.
const MAX_KEPT: usize = 65_536;

/// Most failed requests that are kept until they are fetched.
const MAX_FAILED: usize = 1_000;

/// A request that a process has just failed to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The process.
    pub pid: u32,
    /// The thread that read it.
    pub tid: u32,
    /// The exchanges that it owns.
    pub exchange: ExchangeRange,
}

impl Failed {
    fn of(span: &Span) -> Option<Self> {
        let failed = span.tap == TapSide::ServerProcess && span.status.is_error(span.kind);
        let exchange = span.exchange.filter(|_| failed)?;
        Some(Failed { pid: span.pid, tid: span.tid, exchange })
    }
}

#[derive(Debug)]
struct Held {
    /// When the span goes on, Unix ns.
    due_ns: u64,
    /// Sequence numbers `from..to` of the bytes that this end sent last.
    from: u32,
    to: u32,
    span: Span,
}

#[derive(Debug, Default)]
pub(crate) struct Settling {
    held: VecDeque<Held>,
    /// Number of spans that waited so far.
    pub(crate) waited: u64,
    /// Requests that failed lately.
    pub(crate) failed: Vec<Failed>,
}

impl Settling {
    /// Hands a span on, unless it has to wait. `wait_ns` is 0 if the source reports no retransmissions.
    pub(crate) fn pass(&mut self, span: Span, wait_ns: u64, sink: &mut dyn FnMut(Span)) {
        if self.failed.len() < MAX_FAILED {
            self.failed.extend(Failed::of(&span));
        }
        match sent_last(&span).filter(|_| wait_ns > 0) {
            Some((from, to)) => {
                let due_ns = span.end_ns.saturating_add((wait_ns + 4 * span.tcp.srtt_ns).min(LONGEST_NS));
                self.waited += 1;
                self.held.push_back(Held { due_ns, from, to, span });
            }
            None => sink(span),
        }
    }

    /// Counts retransmitted segments on the waiting spans whose bytes they held.
    pub(crate) fn trouble(&mut self, t: &TcpTrouble, wait_ns: u64) {
        let Some(segments) = Segments::of(&t.kind) else { return };
        for held in self.held.iter_mut().filter(|h| h.span.socket == t.socket.0) {
            let resent = segments.inside(held.from, held.to);
            if resent > 0 {
                held.span.tcp.retransmits = held.span.tcp.retransmits.saturating_add(resent);
                // The next timeout is twice as long.
                let longer = t.time_ns.saturating_add(2 * wait_ns).min(held.span.end_ns.saturating_add(LONGEST_NS));
                held.due_ns = held.due_ns.max(longer);
            }
        }
    }

    /// Hands on the spans that have waited long enough by `now_ns` (Unix ns).
    pub(crate) fn release(&mut self, now_ns: u64, sink: &mut dyn FnMut(Span)) {
        while self.held.front().is_some_and(|h| h.due_ns <= now_ns) || self.held.len() > MAX_KEPT {
            let Some(held) = self.held.pop_front() else { break };
            sink(held.span);
        }
        if self.held.is_empty() && self.held.capacity() > 1024 {
            self.held = VecDeque::new();
        }
    }
}

/// Sequence numbers of the bytes with which a span ended, if this end sent them over a network: `from..to`.
fn sent_last(span: &Span) -> Option<(u32, u32)> {
    let t = &span.tuple;
    if t.transport != Transport::Tcp || t.client.ip == t.server.ip || t.server.ip.is_loopback() {
        return None;
    }
    let (from, bytes) = match (span.tap, span.status) {
        (TapSide::ServerProcess, _) => (span.response_seq?, span.response_bytes),
        (TapSide::ClientProcess, Status::OneWay) => (span.request_seq?, span.request_bytes),
        _ => return None,
    };
    Some((from, from.wrapping_add(u32::try_from(bytes).ok()?)))
}
