//! Requests and one-way messages: each starts a span.

use super::{ix, Open, Out, Session};
use crate::conn::Ctx;
use crate::pending::{Match, Pending, OPEN};
use crate::spans;
use std::borrow::Cow;
use wirespan_decode::Pairing;
use wirespan_model::order::has_streams;
use wirespan_model::{Evidence, Kind, Message, Side, Transport, Value};

impl Session {
    /// Takes a request or a one-way message at the offsets `start..end`. Returns the slot of its span, and false as it
    /// is no response; `None` if no span is open for it.
    pub(super) fn request(
        &mut self,
        m: &Message<'_>,
        start: u64,
        end: u64,
        ctx: &Ctx<'_>,
        out: &mut Out<'_>,
    ) -> Option<(u32, bool)> {
        if self.is_retry(m, ctx) {
            out.stats.datagram_retries += 1;
            return None;
        }
        let mark = *ctx.stream(m.side).mark_at(start)?;
        let one_way = m.kind == Kind::OneWay;
        let mut pending = spans::request(m, &mark, start, end, one_way, ctx);
        let last = ctx.stream(m.side).mark_before(ctx.stream(m.side).marked_to());
        spans::touch_by_request(&mut pending, last);
        if let Some((last, stream)) = last.zip(m.id).filter(|_| !ctx.is_local(m.side) && has_streams(m.protocol)) {
            out.orders.add(last.exchange, stream);
        }
        spans::weaken_connect_cause(&mut pending.span);
        let by_loop = !spans::set_stream_cause(&mut pending, ctx) && mark.cause_evidence == Some(Evidence::EventLoop);
        if self.pairing == Pairing::ById && by_loop {
            // An event loop may send the requests of several causes in one call. The loop's cause is right for one of
            // them, and it is not known for which.
            if self.last_loop_call.is_some_and(|(call, _)| call == mark.start) {
                spans::leave_cause_to_solver(&mut pending);
                let before = self.last_loop_call.and_then(|(_, slot)| self.queue.get_mut(slot));
                before.map(spans::leave_cause_to_solver);
            }
        }
        if one_way {
            return Some((self.queue.store(pending), false));
        }
        self.end_unread_response(m.side.peer(), ctx, out);
        if let Some(lost_ns) = self.gap[ix(m.side.peer())].take() {
            self.answered_unseen(m.side, lost_ns, ctx, out);
        }
        if let Some(orphan) = self.early_response(m, pending.span.start_ns, ctx, out) {
            let complete = orphan.complete;
            let end = orphan.response.map_or(OPEN, |r| r.end);
            spans::adopt(&mut pending, orphan);
            let slot = self.queue.push(m.id, pending);
            if complete {
                self.ended(slot, true, end, ctx, out);
                return None;
            }
            self.open[ix(m.side.peer())] = Some(Open { slot, response: true, end });
            return Some((slot, false));
        }
        if self.queue.len() >= ctx.config.max_pending {
            out.stats.pending_overflow += 1;
            self.give_up_oldest(ctx, out);
        }
        let slot = self.queue.push(m.id, pending);
        self.last_loop_call = by_loop.then_some((mark.start, slot));
        self.pipelined |= self.queue.len() > 1;
        let datagram = ctx.conn.transport == Transport::Udp;
        let many = self.queue.len() > 1 && !datagram;
        self.usage.shared |= many && self.pairing == Pairing::ById;
        self.usage.pipelined |= many && self.pairing == Pairing::InOrder && m.side == Side::Client;
        Some((slot, false))
    }

    /// True if a datagram repeats a request that waits already. The repetition is counted on the span.
    fn is_retry(&mut self, m: &Message<'_>, ctx: &Ctx<'_>) -> bool {
        let (Transport::Udp, Kind::Request, Some(id)) = (ctx.conn.transport, m.kind, m.id) else { return false };
        let Match::Slot(slot) = self.queue.by_id(m.side, id) else { return false };
        let Some(p) = self.queue.get_mut(slot) else { return false };
        if *p.span.operation != *m.operation || *p.span.target != *m.target {
            return false;
        }
        match p.span.attrs.iter_mut().find(|(k, _)| k == "wirespan.retries") {
            Some((_, Value::Int(n))) => *n += 1,
            _ => p.span.attrs.push((Cow::Borrowed("wirespan.retries"), Value::Int(1))),
        }
        true
    }

    /// The asker speaks again, so that a response of `side` is over even if its end could not be read.
    fn end_unread_response(&mut self, side: Side, ctx: &Ctx<'_>, out: &mut Out<'_>) {
        let Some(open) = self.open[ix(side)] else { return };
        if self.pairing == Pairing::InOrder && open.response && open.end == OPEN && self.is_lost(open.slot, ctx) {
            self.open[ix(side)] = None;
            self.ended(open.slot, true, ctx.stream(side).marked_to(), ctx, out);
        }
    }

    /// Takes the orphan that answers this request although it was observed before it. Older complete orphans of a
    /// protocol that answers in order are reported.
    fn early_response(&mut self, m: &Message<'_>, start_ns: u64, ctx: &Ctx<'_>, out: &mut Out<'_>) -> Option<Pending> {
        let mut found = None;
        for slot in std::mem::take(&mut self.orphans) {
            let Some(o) = self.queue.get(slot) else { continue };
            let fits = o.side == m.side
                && !o.late
                && o.span.response_ns >= start_ns
                && (self.pairing == Pairing::InOrder || o.span.message_id == m.id);
            if fits && found.is_none() {
                self.close_slot(slot);
                found = self.queue.remove(slot);
            } else if o.complete && self.pairing == Pairing::InOrder {
                self.emit(slot, ctx, out);
            } else {
                self.orphans.push(slot);
            }
        }
        found
    }

    /// Takes out the oldest waiting request. The protocol that takes over will answer it.
    pub(crate) fn take_waiting(&mut self, asker: Side) -> Option<Pending> {
        let Match::Slot(slot) = self.queue.next_in_order(asker) else { return None };
        self.close_slot(slot);
        self.queue.remove(slot)
    }

    /// Adds a request of the protocol before, to be answered under this id.
    pub(crate) fn wait(&mut self, id: u64, mut pending: Pending) {
        pending.span.message_id = Some(id);
        self.queue.push(Some(id), pending);
    }
}
