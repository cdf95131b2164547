//! Ends and windows: when a message is over, and how a span is reported whose response does not come.

use super::{ix, Ending, Out, Session};
use crate::conn::Ctx;
use crate::errno;
use crate::pending::{Match, Pending, OPEN};
use crate::spans;
use std::borrow::Cow;
use wirespan_decode::{OpenEnd, Pairing};
use wirespan_model::{Late, Outcome, Side, Status, Value};

/// Says on the span that part of it was not observed.
fn mark_incomplete(p: &mut Pending) {
    p.span.attrs.push((Cow::Borrowed("wirespan.incomplete"), Value::Bool(true)));
}

impl Session {
    /// A message ended before the offset `end`. `late` holds the facts that only its end tells.
    pub(super) fn end(
        &mut self,
        side: Side,
        id: Option<u64>,
        end: u64,
        late: &Late<'_>,
        ctx: &Ctx<'_>,
        out: &mut Out<'_>,
    ) {
        let found = match (self.pairing, id) {
            (Pairing::ById, Some(id)) => self.unpaired(side, id).or_else(|| self.queue.open_by_id(side, id)),
            _ => self.open[ix(side)].map(|o| (o.slot, o.response)),
        };
        if let (Pairing::ById, Some(id), true) = (self.pairing, id, late.outcome != Outcome::Unset) {
            if self.withdrawn(side, id, end, late, ctx, out) {
                return;
            }
        }
        let Some((slot, response)) = found else { return };
        if let Some(p) = self.queue.get_mut(slot) {
            spans::late(p, late);
        }
        self.ended(slot, response, end, ctx, out);
    }

    /// The open message of a side, if it has this id and belongs to no pair: a one-way message, or the response to a
    /// request that was not observed.
    fn unpaired(&self, side: Side, id: u64) -> Option<(u32, bool)> {
        let open = self.open[ix(side)]?;
        let p = self.queue.get(open.slot)?;
        (p.span.message_id == Some(id) && (p.one_way || p.orphan)).then_some((open.slot, open.response))
    }

    /// Reports a request that its asker withdrew: the asker's own end of the message tells an outcome. False if the
    /// request was answered already, or is not known.
    fn withdrawn(&mut self, side: Side, id: u64, end: u64, late: &Late<'_>, ctx: &Ctx<'_>, out: &mut Out<'_>) -> bool {
        let Match::Slot(slot) = self.queue.by_id(side, id) else { return false };
        let Some(p) = self.queue.get_mut(slot).filter(|p| p.response.is_none()) else { return false };
        spans::late(p, late);
        p.request_end = p.request_end.min(end);
        if let Some(mark) = ctx.stream(side).mark_before(end) {
            p.span.end_ns = p.span.end_ns.max(mark.exit_ns);
        }
        self.emit(slot, ctx, out);
        true
    }

    /// Slots of the requests without a response that started by `ns` (Unix ns), oldest first.
    pub(super) fn unanswered_before(&self, asker: Side, ns: u64) -> Vec<u32> {
        let waits = |p: &Pending| p.side == asker && p.response.is_none() && p.span.start_ns <= ns;
        self.queue.queued().filter(|slot| self.queue.get(*slot).is_some_and(waits)).collect()
    }

    /// Reports the requests whose responses were lost at `lost_ns` (Unix ns): answered, but the response was not
    /// observed.
    pub(super) fn answered_unseen(&mut self, asker: Side, lost_ns: u64, ctx: &Ctx<'_>, out: &mut Out<'_>) {
        for slot in self.unanswered_before(asker, lost_ns) {
            if let Some(p) = self.queue.get_mut(slot) {
                p.span.end_ns = p.span.end_ns.max(lost_ns);
                mark_incomplete(p);
            }
            self.emit(slot, ctx, out);
        }
    }

    /// Reports the oldest request as unanswered, to keep the queue bounded.
    pub(super) fn give_up_oldest(&mut self, ctx: &Ctx<'_>, out: &mut Out<'_>) {
        let oldest = self.queue.queued().next();
        match oldest {
            Some(slot) => self.unanswered(slot, ctx, out),
            // Only tombstones are left.
            None => self.queue.forget_buried(u64::MAX),
        }
    }

    /// Reports a request as unanswered. A tombstone keeps its place in the order for a late response.
    fn unanswered(&mut self, slot: u32, ctx: &Ctx<'_>, out: &mut Out<'_>) {
        self.close_slot(slot);
        let Some(mut p) = self.queue.bury(slot) else { return };
        let end = p.request_end;
        spans::finish(&mut p, end, ctx);
        if p.response.is_none() {
            p.span.status = Status::NoResponse;
            out.stats.no_response += 1;
        }
        out.stats.spans_out += 1;
        (out.sink)(p.span);
    }

    /// Reports the spans that have waited long enough by `now_ns` (Unix ns).
    pub(crate) fn tick(&mut self, now_ns: u64, ctx: &Ctx<'_>, out: &mut Out<'_>) {
        let window = match ctx.conn.transport.is_stream() {
            true => ctx.config.window_ns,
            false => ctx.config.window_ns.min(ctx.config.datagram_window_ns),
        };
        let due: Vec<u32> = self.queue.queued().collect();
        for slot in due {
            let Some(p) = self.queue.get(slot) else { continue };
            let Some(r) = p.response else {
                if now_ns.saturating_sub(p.span.start_ns.max(p.span.end_ns)) >= window {
                    self.unanswered(slot, ctx, out);
                }
                continue;
            };
            let stream = ctx.stream(p.side.peer());
            let idle = now_ns.saturating_sub(stream.last_ns);
            let to = stream.marked_to();
            let silence = match self.open_ends[ix(p.side.peer())] {
                OpenEnd::Comes => window,
                OpenEnd::Lost => ctx.config.stream_pause_ns,
                OpenEnd::Other => ctx.config.idle_flush_ns,
            };
            if r.end == OPEN && self.is_lost(slot, ctx) && idle >= silence {
                self.ended(slot, true, to, ctx, out);
            } else if idle >= window {
                self.cut(slot, Ending::Abandoned, now_ns, ctx, out);
            }
        }
        for slot in self.orphans.clone() {
            let Some(o) = self.queue.get(slot) else { continue };
            let idle = now_ns.saturating_sub(o.span.end_ns);
            if o.complete && idle >= ctx.config.reorder_ns || idle >= window {
                self.emit(slot, ctx, out);
            }
        }
        for open in self.open.into_iter().flatten() {
            let stale = |p: &Pending| p.one_way && now_ns.saturating_sub(p.span.start_ns) >= window;
            if self.queue.get(open.slot).is_some_and(stale) {
                self.cut(open.slot, Ending::Abandoned, now_ns, ctx, out);
            }
        }
        for side in [Side::Client, Side::Server] {
            let lost_ns = self.gap[ix(side)].filter(|lost| now_ns.saturating_sub(*lost) >= ctx.config.idle_flush_ns);
            if let Some(lost_ns) = lost_ns {
                self.gap[ix(side)] = None;
                self.answered_unseen(side.peer(), lost_ns, ctx, out);
            }
        }
        self.queue.forget_buried(now_ns.saturating_sub(2 * window));
    }

    /// Reports every span that waits: the connection ended at `at_ns` (Unix ns).
    pub(crate) fn finish(&mut self, ending: Ending, at_ns: u64, ctx: &Ctx<'_>, out: &mut Out<'_>) {
        let mut all: Vec<u32> = self.queue.queued().collect();
        all.extend(self.open.iter().flatten().map(|o| o.slot));
        all.extend(&self.orphans);
        for slot in all {
            self.cut(slot, ending, at_ns, ctx, out);
        }
        self.queue.forget_buried(u64::MAX);
    }

    /// Reports one span before its own end.
    fn cut(&mut self, slot: u32, ending: Ending, at_ns: u64, ctx: &Ctx<'_>, out: &mut Out<'_>) {
        let Some(p) = self.queue.get_mut(slot) else { return };
        if p.complete {
            return self.emit(slot, ctx, out);
        }
        let sender = if p.response.is_some() { p.side.peer() } else { p.side };
        let here = ctx.stream(sender).marked_to();
        match (p.response, ending) {
            // A response that names no length ends with the connection (RFC 9112, section 6.3).
            (Some(r), Ending::Closed) if r.end == OPEN || r.end <= here => {}
            (Some(r), Ending::Closed) => {
                p.span.status = Status::Closed;
                let (got, all) = (here.saturating_sub(r.start), r.end.saturating_sub(r.start));
                p.span.error = format!("closed after {got} of {all} bytes of the response").into();
            }
            (_, Ending::Reset(errno)) => {
                p.span.status = Status::Reset;
                p.span.error = errno::text(errno);
            }
            (Some(_), Ending::Abandoned) => mark_incomplete(p),
            (None, _) if p.one_way => mark_incomplete(p),
            (None, Ending::Closed) => p.span.status = Status::Closed,
            (None, Ending::Abandoned) => {
                p.span.status = Status::NoResponse;
                out.stats.no_response += 1;
                mark_incomplete(p);
            }
        }
        let (orphan, response) = (p.orphan, p.response.is_some());
        if !p.one_way && !response && ending != Ending::Abandoned {
            p.span.end_ns = p.span.end_ns.max(at_ns);
        }
        if let Some(r) = &mut p.response {
            r.end = r.end.min(here);
        } else {
            p.request_end = p.request_end.min(here);
        }
        let reset = matches!(ending, Ending::Reset(_)) && !orphan;
        if reset {
            p.span.end_ns = p.span.end_ns.max(at_ns);
        }
        self.emit(slot, ctx, out);
    }
}
