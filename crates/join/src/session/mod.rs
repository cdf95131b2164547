//! Requests find their responses: by order or by id, within a window, honestly when they do not.

mod manner;
mod windows;

pub(crate) use manner::Manner;

use crate::pending::{Match, Pending, Queue, OPEN};
use crate::spans::{self, Ctx};
use crate::stats::JoinStats;
use std::borrow::Cow;
use wirespan_decode::Pairing;
use wirespan_model::{Body, Evidence, Item, Kind, Message, Side, Span, Status, Transport, Value};

/// Where finished spans and counters go.
pub(crate) struct Out<'a> {
    pub(crate) stats: &'a mut JoinStats,
    pub(crate) sink: &'a mut dyn FnMut(Span),
}

/// Why a connection is no longer observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Closed in order.
    Closed,
    /// Reset or failed, with this errno.
    Reset(i32),
    /// We stopped looking.
    Abandoned,
}

/// The message that a side is in the middle of.
#[derive(Clone, Copy, Debug)]
struct Open {
    slot: u32,
    response: bool,
    end: u64,
}

/// Pairing state of one connection.
#[derive(Debug)]
pub(crate) struct Session {
    pairing: Pairing,
    queue: Queue,
    open: [Option<Open>; 2],
    orphans: Vec<u32>,
    /// Offsets before which no message starts any more, by side.
    pub(crate) settled: [Option<u64>; 2],
    /// Another protocol took over.
    pub(crate) upgraded: Option<&'static str>,
    /// Offset behind the head that was read last, by side: there the other protocol begins.
    pub(crate) head_end: [u64; 2],
    /// Two requests were waiting at once.
    pub(crate) pipelined: bool,
    /// What the kernel is to know of it.
    pub(crate) manner: Manner,
    /// The call that carried the last request of an event loop, and its slot.
    gathered: Option<(u64, u32)>,
    /// Messages seen.
    pub(crate) messages: u64,
    /// Complaints of the parser since the last message.
    pub(crate) malformed: u32,
    /// Messages may have stood in bytes that were not captured.
    pub(crate) holed: bool,
    /// When messages of a side were lost, so that counting them pairs nothing, Unix ns.
    gap: [Option<u64>; 2],
}

fn ix(side: Side) -> usize {
    match side {
        Side::Client => 0,
        Side::Server => 1,
    }
}

impl Session {
    pub(crate) fn new(pairing: Pairing) -> Self {
        Session {
            pairing,
            queue: Queue::default(),
            open: [None, None],
            orphans: Vec::new(),
            settled: [None, None],
            upgraded: None,
            head_end: [0, 0],
            pipelined: false,
            manner: Manner::default(),
            gathered: None,
            messages: 0,
            malformed: 0,
            holed: false,
            gap: [None, None],
        }
    }

    /// Whether nothing waits here.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Gives memory back while nothing waits.
    pub(crate) fn rest(&mut self) {
        self.queue.rest();
    }

    /// Whether a message of this side is under way.
    pub(crate) fn is_open(&self, side: Side) -> bool {
        self.open[ix(side)].is_some()
    }

    /// Takes what the parser read.
    pub(crate) fn item(&mut self, item: Item<'_, '_>, ctx: &Ctx<'_>, out: &mut Out<'_>) {
        match item {
            Item::Message(m) => self.message(m, ctx, out),
            Item::End { side, id, offset, late } => {
                let end = ctx.offset(side, offset);
                self.end(side, id, end, late, ctx, out);
            }
            Item::Upgrade(name) => self.upgraded = Some(name),
            Item::Malformed { side, reason } => {
                self.malformed += 1;
                if reason.ends_with("_gap") {
                    self.holed = true;
                    if self.pairing == Pairing::InOrder {
                        self.gap[ix(side)] = Some(ctx.stream(side).last_ns);
                    }
                }
                *out.stats.malformed.entry(reason).or_default() += 1;
            }
        }
    }

    fn message(&mut self, m: &Message<'_>, ctx: &Ctx<'_>, out: &mut Out<'_>) {
        self.messages += 1;
        self.malformed = 0;
        self.manner.learn(m, ctx);
        let start = ctx.offset(m.side, m.offset);
        self.next_message(m.side, start, ctx, out);
        let head_end = start.saturating_add(m.head_len);
        self.head_end[ix(m.side)] = head_end;
        let end = match m.body {
            Body::None => head_end,
            Body::Length(n) => head_end.saturating_add(n),
            Body::Open => OPEN,
        };
        let here = ctx.stream(m.side).marked_to();
        self.settled[ix(m.side)] = Some(start);
        let slot = match m.kind {
            Kind::Request | Kind::OneWay => self.request(m, start, end, ctx, out),
            Kind::Response | Kind::Interim => self.response(m, start, end, ctx, out),
        };
        let Some((slot, response)) = slot else { return };
        if end <= here {
            self.ended(slot, response, end, ctx, out);
        } else {
            self.open[ix(m.side)] = Some(Open { slot, response, end });
        }
    }

    /// A message begins at `start`: the one before it on this side is over, unless messages interleave.
    fn next_message(&mut self, side: Side, start: u64, ctx: &Ctx<'_>, out: &mut Out<'_>) {
        if let Some(open) = self.open[ix(side)] {
            // A message that nobody answers is known by nothing but its place here.
            let one_way = self.queue.get(open.slot).is_some_and(|p| p.one_way);
            if open.end != OPEN || one_way || self.pairing == Pairing::InOrder {
                self.open[ix(side)] = None;
                self.ended(open.slot, open.response, open.end.min(start), ctx, out);
            }
        }
    }

    fn request(
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
        spans::touch_by_request(&mut pending, ctx.stream(m.side).mark_before(ctx.stream(m.side).marked_to()));
        spans::doubt_connect(&mut pending);
        let loops = !spans::told(&mut pending, ctx) && mark.cause_evidence == Some(Evidence::EventLoop);
        if self.pairing == Pairing::ById && loops {
            // An event loop sends in one call what it has gathered for several requests.
            if self.gathered.is_some_and(|(call, _)| call == mark.start) {
                spans::doubt(&mut pending);
                self.gathered.and_then(|(_, slot)| self.queue.get_mut(slot)).map(spans::doubt);
            }
        }
        if one_way {
            return Some((self.queue.store(pending), false));
        }
        self.flip(m.side.peer(), ctx, out);
        if let Some(lost_ns) = self.gap[ix(m.side.peer())].take() {
            self.answered_unseen(m.side, lost_ns, ctx, out);
        }
        if self.gap[ix(m.side)].is_some_and(|lost_ns| ctx.stream(m.side.peer()).last_ns > lost_ns) {
            self.gap[ix(m.side)] = None;
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
        self.gathered = loops.then_some((mark.start, slot));
        self.pipelined |= self.queue.len() > 1;
        self.manner.shared |= self.queue.len() > 1 && self.pairing == Pairing::ById && ctx.transport != Transport::Udp;
        Some((slot, false))
    }

    /// A datagram request that is waiting already: sent again, not another one.
    fn is_retry(&mut self, m: &Message<'_>, ctx: &Ctx<'_>) -> bool {
        let (Transport::Udp, Kind::Request, Some(id)) = (ctx.transport, m.kind, m.id) else { return false };
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

    /// The asker speaks again: a response of the other side whose end could not be read is over.
    fn flip(&mut self, side: Side, ctx: &Ctx<'_>, out: &mut Out<'_>) {
        let Some(open) = self.open[ix(side)] else { return };
        if self.pairing == Pairing::InOrder && open.response && open.end == OPEN && self.is_lost(open.slot, ctx) {
            self.open[ix(side)] = None;
            self.ended(open.slot, true, ctx.stream(side).marked_to(), ctx, out);
        }
    }

    /// Whether bytes of this response were not captured, so that the parser cannot see its end.
    fn is_lost(&self, slot: u32, ctx: &Ctx<'_>) -> bool {
        self.queue
            .get(slot)
            .and_then(|p| Some((p.side.peer(), p.response?)))
            .is_some_and(|(side, r)| ctx.stream(side).lost_to > r.start)
    }

    /// An orphan that answers this request, although it was seen before it.
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

    fn response(
        &mut self,
        m: &Message<'_>,
        start: u64,
        end: u64,
        ctx: &Ctx<'_>,
        out: &mut Out<'_>,
    ) -> Option<(u32, bool)> {
        let asker = m.side.peer();
        let mark = *ctx.stream(m.side).mark_at(start)?;
        if let Some(lost_ns) = self.gap[ix(m.side)].take() {
            if self.unanswered_before(asker, lost_ns).len() > 1 {
                self.answered_unseen(asker, lost_ns, ctx, out);
            }
        }
        let matched = match (self.pairing, m.id) {
            (Pairing::ById, Some(id)) => self.queue.by_id(asker, id),
            _ => self.queue.next_in_order(asker),
        };
        // No response precedes its request: one that seems to belongs to a request that was not seen. So do those that
        // come after lost requests.
        let latest_ns = self.gap[ix(asker)].unwrap_or(u64::MAX).min(mark.exit_ns);
        let slot = match matched {
            Match::Slot(slot) if self.queue.get(slot).is_some_and(|p| p.span.start_ns <= latest_ns) => Some(slot),
            _ => None,
        };
        if m.kind == Kind::Interim {
            return None;
        }
        if let Some(p) = slot.and_then(|slot| self.queue.get_mut(slot)) {
            spans::answer(p, m, &mark, start, end);
            return slot.map(|slot| (slot, true));
        }
        let late = matches!(matched, Match::Late);
        let slot = self.queue.store(spans::orphan(m, &mark, start, end, late, ctx));
        if self.orphans.len() >= 8 {
            let oldest = self.orphans.remove(0);
            self.emit(oldest, ctx, out);
        }
        self.orphans.push(slot);
        Some((slot, true))
    }

    /// Takes the oldest request that waits: the protocol that takes over will answer it.
    pub(crate) fn take_waiting(&mut self, asker: Side) -> Option<Pending> {
        let Match::Slot(slot) = self.queue.next_in_order(asker) else { return None };
        self.close_slot(slot);
        self.queue.remove(slot)
    }

    /// Lets a request of another protocol wait under this id.
    pub(crate) fn wait(&mut self, id: u64, mut pending: Pending) {
        pending.span.message_id = Some(id);
        self.queue.push(Some(id), pending);
    }

    /// A message ended before `end`.
    fn ended(&mut self, slot: u32, response: bool, end: u64, ctx: &Ctx<'_>, out: &mut Out<'_>) {
        let Some(p) = self.queue.get_mut(slot) else { return };
        let side = if response { p.side.peer() } else { p.side };
        if self.open[ix(side)].is_some_and(|o| o.slot == slot && o.response == response) {
            self.open[ix(side)] = None;
        }
        if response {
            if let Some(r) = &mut p.response {
                r.end = end;
            }
            if p.orphan && !p.late && ctx.is_local(p.side) {
                // Its request may be a few microseconds behind, on another processor: see `tick`.
                spans::finish(p, end, ctx);
                p.complete = true;
                return;
            }
            self.emit(slot, ctx, out);
        } else {
            p.request_end = end;
            spans::touch_by_request(p, ctx.stream(side).mark_before(end));
            if p.one_way {
                self.emit(slot, ctx, out);
            } else if let Some(mark) = ctx.stream(side).mark_before(end) {
                p.span.end_ns = p.span.end_ns.max(mark.exit_ns);
            }
        }
    }

    /// Bytes of this side went by: a message of known length may be over.
    pub(crate) fn advanced(&mut self, side: Side, ctx: &Ctx<'_>, out: &mut Out<'_>) {
        if let Some(open) = self.open[ix(side)] {
            if open.end != OPEN && open.end <= ctx.stream(side).marked_to() {
                self.ended(open.slot, open.response, open.end, ctx, out);
            }
        }
    }

    fn close_slot(&mut self, slot: u32) {
        for open in &mut self.open {
            if open.is_some_and(|o| o.slot == slot) {
                *open = None;
            }
        }
    }

    /// Reports a span as it stands.
    fn emit(&mut self, slot: u32, ctx: &Ctx<'_>, out: &mut Out<'_>) {
        self.close_slot(slot);
        self.orphans.retain(|o| *o != slot);
        let Some(mut p) = self.queue.remove(slot) else { return };
        if !p.complete {
            let end = p.response.map_or(p.request_end, |r| r.end);
            spans::finish(&mut p, end, ctx);
        }
        if p.orphan {
            p.span.status = Status::NoRequest;
            if p.late {
                out.stats.late_responses += 1;
            } else {
                out.stats.no_request += 1;
            }
        }
        out.stats.spans_out += 1;
        (out.sink)(p.span);
    }
}
