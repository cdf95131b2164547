//! Responses: each completes the span of its request, or is an orphan.

use super::{ix, Out, Session};
use crate::conn::Ctx;
use crate::pending::Match;
use crate::spans;
use wirespan_decode::Pairing;
use wirespan_model::{Kind, Message};

/// Orphans of one connection that wait for their request.
const MAX_ORPHANS: usize = 8;

impl Session {
    /// Takes a response at the offsets `start..end`. Returns the slot of its span, and true as it is a response; `None`
    /// if it is interim or its call is not known.
    pub(super) fn response(
        &mut self,
        m: &Message<'_>,
        start: u64,
        end: u64,
        ctx: &Ctx<'_>,
        out: &mut Out<'_>,
    ) -> Option<(u32, bool)> {
        let asker = m.side.peer();
        if let Some(stream) = m.id.filter(|_| !ctx.is_local(asker)) {
            out.orders.answered(ctx.conn.key.socket.0, stream);
        }
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
        // No response precedes its request. A response that seems to do so answers a request that was not observed. In
        // lost bytes there may have been requests, or none. If none is supposed, too many responses come, and the order
        // is found again as soon as one of them precedes its request. If one is supposed wrongly, it is never found.
        let slot = match matched {
            Match::Slot(slot) if self.queue.get(slot).is_some_and(|p| p.span.start_ns <= mark.exit_ns) => Some(slot),
            _ => None,
        };
        if m.kind == Kind::Interim {
            return None;
        }
        if let Some(p) = slot.and_then(|slot| self.queue.get_mut(slot)) {
            spans::answer(p, m, &mark, start, end, ctx);
            return slot.map(|slot| (slot, true));
        }
        let late = matches!(matched, Match::Late);
        let slot = self.queue.store(spans::orphan(m, &mark, start, end, late, ctx));
        if self.orphans.len() >= MAX_ORPHANS {
            let oldest = self.orphans.remove(0);
            self.emit(oldest, ctx, out);
        }
        self.orphans.push(slot);
        Some((slot, true))
    }

    /// True if bytes of this span's response were not captured, so that the parser cannot find its end.
    pub(super) fn is_lost(&self, slot: u32, ctx: &Ctx<'_>) -> bool {
        self.queue
            .get(slot)
            .and_then(|p| Some((p.side.peer(), p.response?)))
            .is_some_and(|(side, r)| ctx.stream(side).lost_to > r.start)
    }
}
