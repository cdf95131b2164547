//! Spans whose last bytes went over a network wait a moment for them to arrive.
//!
//! A server's span is over when its answer is sent; what is lost of it is sent again only after TCP's timeout (200 ms
//! and more). So that the span can tell, it is kept for a little longer than that. Spans of clients have their answer,
//! which says that the request arrived; on loopback nothing is lost.

use crate::resent::Segments;
use std::collections::VecDeque;
use wirespan_model::event::TcpTrouble;
use wirespan_model::{Span, Status, TapSide, Transport};

/// Longest wait after the end of a span, ns: a trace is not waited for much longer.
const LONGEST_NS: u64 = 1_000_000_000;
/// Spans kept at most; beyond it the oldest goes.
const MAX_KEPT: usize = 65_536;

#[derive(Debug)]
struct Held {
    due_ns: u64,
    /// Sequence numbers of what this end sent last.
    from: u32,
    to: u32,
    span: Span,
}

#[derive(Debug, Default)]
pub(crate) struct Settling {
    held: VecDeque<Held>,
    /// Spans that waited.
    pub(crate) waited: u64,
}

impl Settling {
    /// Hands a span on, unless it has to wait. `wait_ns` is 0 where nobody tells of what is sent again.
    pub(crate) fn pass(&mut self, span: Span, wait_ns: u64, sink: &mut dyn FnMut(Span)) {
        match sent_last(&span).filter(|_| wait_ns > 0) {
            Some((from, to)) => {
                let due_ns = span.end_ns.saturating_add((wait_ns + 4 * span.tcp.srtt_ns).min(LONGEST_NS));
                self.waited += 1;
                self.held.push_back(Held { due_ns, from, to, span });
            }
            None => sink(span),
        }
    }

    /// Segments were sent again.
    pub(crate) fn trouble(&mut self, t: &TcpTrouble, wait_ns: u64) {
        let Some(segments) = Segments::of(&t.kind) else { return };
        for held in self.held.iter_mut().filter(|h| h.span.socket == t.socket.0) {
            let again = segments.inside(held.from, held.to);
            if again > 0 {
                held.span.tcp.retransmits = held.span.tcp.retransmits.saturating_add(again);
                // The next timeout is twice as long.
                let longer = t.time_ns.saturating_add(2 * wait_ns).min(held.span.end_ns.saturating_add(LONGEST_NS));
                held.due_ns = held.due_ns.max(longer);
            }
        }
    }

    /// Hands on what has waited long enough.
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

/// Sequence numbers of the bytes with which a span ended, if this end sent them over a network.
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
