//! Requests are paired with their responses: by order or by id, within a window. What cannot be paired is reported so.

mod request;
mod response;
mod usage;
mod windows;

pub(crate) use usage::Usage;

use crate::conn::Ctx;
use crate::order::Orders;
use crate::pending::{Queue, OPEN};
use crate::spans;
use crate::stats::JoinStats;
use wirespan_decode::{OpenEnd, Pairing};
use wirespan_model::{Body, Item, Kind, Message, Side, Span, Status};

/// Where finished spans and counters go.
pub(crate) struct Out<'a> {
    pub(crate) stats: &'a mut JoinStats,
    pub(crate) orders: &'a mut Orders,
    pub(crate) sink: &'a mut dyn FnMut(Span),
}

/// Why a connection is no longer observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It closed in order.
    Closed,
    /// It was reset or failed, with this errno.
    Reset(i32),
    /// The joiner stopped observing it.
    Abandoned,
}

/// A message whose bytes are still coming.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// Slot of its span in the queue.
    slot: u32,
    /// True if it is the response of that span.
    response: bool,
    /// Offset behind its last byte, or [`OPEN`].
    end: u64,
}

/// Pairing state of one connection. Arrays are indexed by side.
#[derive(Debug)]
pub(crate) struct Session {
    pairing: Pairing,
    queue: Queue,
    /// The message that each side is in the middle of.
    open: [Option<Open>; 2],
    /// Slots of responses whose request was not observed.
    orphans: Vec<u32>,
    /// Offsets before which no message starts any more.
    pub(crate) settled: [Option<u64>; 2],
    /// Name of the protocol that takes over.
    pub(crate) upgraded: Option<&'static str>,
    /// Offset behind the head that was read last. The next protocol begins there.
    pub(crate) head_end: [u64; 2],
    /// Two requests have waited at once.
    pub(crate) pipelined: bool,
    /// Facts for the kernel.
    pub(crate) usage: Usage,
    /// The call in which an event loop sent its last request (stream offset of the call), and the request's slot.
    last_loop_call: Option<(u64, u32)>,
    /// Messages read.
    pub(crate) messages: u64,
    /// Complaints of the parser since the last message.
    pub(crate) malformed: u32,
    /// What is known of the end of the message that each side is sending, if no length tells it.
    pub(crate) open_ends: [OpenEnd; 2],
    /// Bytes that were not captured may have held messages.
    pub(crate) holed: bool,
    /// When messages of a side were lost, so that counting pairs nothing any more, Unix ns.
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
            usage: Usage::default(),
            last_loop_call: None,
            messages: 0,
            malformed: 0,
            open_ends: [OpenEnd::Other; 2],
            holed: false,
            gap: [None, None],
        }
    }

    /// True if no span waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Gives memory back if no span waits.
    pub(crate) fn rest(&mut self) {
        self.queue.rest();
    }

    /// Messages of this side were lost at this time, Unix ns.
    pub(crate) fn lost(&mut self, side: Side, lost_ns: u64) {
        if self.pairing == Pairing::InOrder {
            self.gap[ix(side)] = Some(lost_ns);
        }
    }

    /// True if bytes of a message of this side are still coming.
    pub(crate) fn is_open(&self, side: Side) -> bool {
        self.open[ix(side)].is_some()
    }

    /// Takes one item that the parser read.
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
                self.holed |= reason.ends_with("_gap");
                // Where a head should begin, there is none: what came before was not read.
                if reason.ends_with("_gap") || reason.ends_with("_bad_status_line") {
                    self.lost(side, ctx.stream(side).last_ns);
                }
                *out.stats.malformed.entry(reason).or_default() += 1;
            }
        }
    }

    fn message(&mut self, m: &Message<'_>, ctx: &Ctx<'_>, out: &mut Out<'_>) {
        self.messages += 1;
        self.malformed = 0;
        self.usage.learn(m, ctx);
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

    /// A message begins at `start`. It ends the message before it on the same side, unless messages interleave.
    fn next_message(&mut self, side: Side, start: u64, ctx: &Ctx<'_>, out: &mut Out<'_>) {
        if let Some(open) = self.open[ix(side)] {
            // A message without a response is found by nothing but its place in `open`.
            let one_way = self.queue.get(open.slot).is_some_and(|p| p.one_way);
            if open.end != OPEN || one_way || self.pairing == Pairing::InOrder {
                self.open[ix(side)] = None;
                self.ended(open.slot, open.response, open.end.min(start), ctx, out);
            }
        }
    }

    /// A message ended before the offset `end`.
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
                // Its request may come a few microseconds later, from another processor: see `tick`.
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

    /// Bytes of this side went by. They may complete a message of known length.
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
