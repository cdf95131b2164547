//! Requests that wait for their responses, in order and by id.

use std::collections::VecDeque;
use wirespan_model::{ExchangeRange, Side, Span};

/// End of a message whose end is not known yet.
pub(crate) const OPEN: u64 = u64::MAX;
/// Slot of a tombstone: the entry of a request that was reported as unanswered. Without it, the late response would
/// answer the next request.
const TOMBSTONE: u32 = u32::MAX;

/// The part of a response that came, as stream offsets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Response {
    pub(crate) start: u64,
    /// Offset behind its last byte, or [`OPEN`].
    pub(crate) end: u64,
}

/// A span that is not finished. Offsets are those of the connection's streams.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) span: Span,
    /// The side that asked.
    pub(crate) side: Side,
    pub(crate) one_way: bool,
    /// A response whose request was not observed.
    pub(crate) orphan: bool,
    /// An orphan whose request had been reported as unanswered.
    pub(crate) late: bool,
    /// An orphan whose last byte was observed. It only waits for its request.
    pub(crate) complete: bool,
    pub(crate) request_start: u64,
    /// Offset behind the last byte of the request, or [`OPEN`].
    pub(crate) request_end: u64,
    pub(crate) response: Option<Response>,
    pub(crate) exchanges: Option<ExchangeRange>,
    /// Retransmitted segments of the handshake, if this is the connection's first request.
    pub(crate) handshake: u32,
}

impl Pending {
    /// A pending span of which nothing is known yet but `span`, its asker, and the retransmissions of the handshake.
    pub(crate) fn new(span: Span, side: Side, handshake: u32) -> Self {
        Pending {
            span,
            side,
            one_way: false,
            orphan: false,
            late: false,
            complete: false,
            request_start: 0,
            request_end: 0,
            response: None,
            exchanges: None,
            handshake,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    id: u64,
    side: Side,
    slot: u32,
    start_ns: u64,
}

/// The request that a response answers.
pub(crate) enum Match {
    /// A waiting request, by its slot.
    Slot(u32),
    /// A request that was reported as unanswered.
    Late,
    /// No request.
    None,
}

/// Pending requests: a short queue of small entries over a slab, so that finding and removing never moves spans.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    order: VecDeque<Entry>,
    slots: Vec<Option<Pending>>,
    free: Vec<u32>,
}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty() && self.free.len() == self.slots.len()
    }

    /// Number of waiting requests, tombs included.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Puts a span into the slab without a place in the queue (orphans and one-way messages). Returns its slot.
    pub(crate) fn store(&mut self, pending: Pending) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(pending);
                slot
            }
            None => {
                if self.slots.capacity() == 0 {
                    // A slot is large, and most connections never have two requests waiting.
                    self.slots.reserve_exact(1);
                }
                self.slots.push(Some(pending));
                (self.slots.len() - 1) as u32
            }
        }
    }

    /// Appends a request. Returns its slot.
    pub(crate) fn push(&mut self, id: Option<u64>, pending: Pending) -> u32 {
        let (side, start_ns) = (pending.side, pending.span.start_ns);
        let slot = self.store(pending);
        self.order.push_back(Entry { id: id.unwrap_or(u64::MAX), side, slot, start_ns });
        slot
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&Pending> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Pending> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// The request that the next response answers: the first without one.
    pub(crate) fn next_in_order(&mut self, asker: Side) -> Match {
        let slots = &self.slots;
        let waits = |e: &Entry| {
            e.slot == TOMBSTONE
                || slots.get(e.slot as usize).and_then(Option::as_ref).is_some_and(|p| p.response.is_none())
        };
        let Some(at) = self.order.iter().position(|e| e.side == asker && waits(e)) else { return Match::None };
        self.matched(at)
    }

    /// The request with this id that has no response yet.
    pub(crate) fn by_id(&mut self, asker: Side, id: u64) -> Match {
        let Some(at) = self.order.iter().position(|e| e.id == id && e.side == asker) else { return Match::None };
        self.matched(at)
    }

    fn matched(&mut self, at: usize) -> Match {
        let entry = self.order[at];
        if entry.slot == TOMBSTONE {
            self.order.remove(at);
            Match::Late
        } else {
            Match::Slot(entry.slot)
        }
    }

    /// Slot of the message of this id sent by `side`, and whether it is the response.
    pub(crate) fn open_by_id(&self, side: Side, id: u64) -> Option<(u32, bool)> {
        self.order.iter().filter(|e| e.id == id && e.slot != TOMBSTONE).find_map(|e| {
            let p = self.get(e.slot)?;
            if e.side == side {
                (p.request_end == OPEN).then_some((e.slot, false))
            } else {
                p.response.is_some().then_some((e.slot, true))
            }
        })
    }

    /// Takes a span out.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<Pending> {
        let pending = self.slots.get_mut(slot as usize)?.take()?;
        if let Some(at) = self.order.iter().position(|e| e.slot == slot) {
            self.order.remove(at);
        }
        self.free.push(slot);
        self.shrink();
        Some(pending)
    }

    /// Takes a span out, and leaves a tombstone for its late response.
    pub(crate) fn bury(&mut self, slot: u32) -> Option<Pending> {
        let pending = self.slots.get_mut(slot as usize)?.take()?;
        if let Some(entry) = self.order.iter_mut().find(|e| e.slot == slot) {
            entry.slot = TOMBSTONE;
        }
        self.free.push(slot);
        Some(pending)
    }

    /// Forgets the tombstones of requests that started before `before_ns`.
    pub(crate) fn forget_buried(&mut self, before_ns: u64) {
        self.order.retain(|e| e.slot != TOMBSTONE || e.start_ns >= before_ns);
        self.shrink();
    }

    /// Slots of the waiting requests, oldest first.
    pub(crate) fn queued(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.order.iter().filter(|e| e.slot != TOMBSTONE).map(|e| e.slot)
    }

    /// Gives all memory back if nothing waits. A connection may stay silent for hours.
    pub(crate) fn rest(&mut self) {
        if self.is_empty() {
            *self = Queue::default();
        }
    }

    /// Gives memory back after a burst.
    fn shrink(&mut self) {
        if self.slots.len() > 16 && self.free.len() == self.slots.len() {
            self.slots = Vec::new();
            self.free = Vec::new();
            self.order.shrink_to(16);
        }
    }
}
