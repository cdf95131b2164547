//! Requests that wait for their response, in order and by id.

use std::collections::VecDeque;
use wirespan_model::{ExchangeRange, Side, Span};

/// End of a message that is not known yet.
pub(crate) const OPEN: u64 = u64::MAX;
/// Entry whose span was already reported as unanswered: its late response must not answer the next request.
const TOMB: u32 = u32::MAX;

/// The response of a pending request, as far as it came.
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
    /// Who asked.
    pub(crate) side: Side,
    pub(crate) one_way: bool,
    /// A response without its request.
    pub(crate) orphan: bool,
    /// …whose request had been reported as unanswered.
    pub(crate) late: bool,
    /// An orphan whose last byte was seen; it only waits for its request to turn up.
    pub(crate) complete: bool,
    pub(crate) request_start: u64,
    /// Offset behind the last byte of the request, or [`OPEN`].
    pub(crate) request_end: u64,
    pub(crate) response: Option<Response>,
    pub(crate) exchanges: Option<ExchangeRange>,
    /// Segments of the handshake that were sent again, if it was made for this request.
    pub(crate) handshake: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    id: u64,
    side: Side,
    slot: u32,
    start_ns: u64,
}

/// What answers to a response.
pub(crate) enum Match {
    /// This request.
    Slot(u32),
    /// A request that was already given up.
    Late,
    /// Nothing.
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

    /// Requests waiting, those given up included.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Puts a pending span into the slab without a place in the queue (orphans).
    pub(crate) fn store(&mut self, pending: Pending) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(pending);
                slot
            }
            None => {
                if self.slots.capacity() == 0 {
                    // Most connections never have two requests waiting, and a slot is large.
                    self.slots.reserve_exact(1);
                }
                self.slots.push(Some(pending));
                (self.slots.len() - 1) as u32
            }
        }
    }

    /// Appends a request.
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
            e.slot == TOMB || slots.get(e.slot as usize).and_then(Option::as_ref).is_some_and(|p| p.response.is_none())
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
        if entry.slot == TOMB {
            self.order.remove(at);
            Match::Late
        } else {
            Match::Slot(entry.slot)
        }
    }

    /// Slot of the message of this id sent by `side`, and whether it is the response.
    pub(crate) fn open_by_id(&self, side: Side, id: u64) -> Option<(u32, bool)> {
        self.order.iter().filter(|e| e.id == id && e.slot != TOMB).find_map(|e| {
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

    /// Takes a span out and leaves a mark for its late response.
    pub(crate) fn bury(&mut self, slot: u32) -> Option<Pending> {
        let pending = self.slots.get_mut(slot as usize)?.take()?;
        if let Some(entry) = self.order.iter_mut().find(|e| e.slot == slot) {
            entry.slot = TOMB;
        }
        self.free.push(slot);
        Some(pending)
    }

    /// Forgets the marks of requests older than this.
    pub(crate) fn forget_buried(&mut self, before_ns: u64) {
        self.order.retain(|e| e.slot != TOMB || e.start_ns >= before_ns);
        self.shrink();
    }

    /// Slots of the queue, oldest first.
    pub(crate) fn queued(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.order.iter().filter(|e| e.slot != TOMB).map(|e| e.slot)
    }

    /// Gives all memory back if nothing waits: a connection may stay silent for hours.
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
