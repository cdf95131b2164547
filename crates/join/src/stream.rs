//! One direction of a connection: order by TCP sequence number, gaps, and the calls that brought the bytes.

use crate::config::JoinConfig;
use crate::contexts::Contexts;
use crate::stats::JoinStats;
use std::collections::VecDeque;
use wirespan_model::event::Actor;
use wirespan_model::{DataEvent, Direction, Evidence, Transport};

/// Calls remembered per direction. Enough to find the start of a head that came in pieces.
const MARKS: usize = 16;
/// A jump larger than any TCP window is no gap but another stream.
pub(crate) const MAX_JUMP: u32 = 1 << 30;

/// The call that brought the bytes `start..end` of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) seq: Option<u32>,
    pub(crate) direction: Direction,
    pub(crate) enter_ns: u64,
    pub(crate) exit_ns: u64,
    /// Time for which the bytes lay in the socket before the call read them, ns; 0 if not known.
    pub(crate) waited_ns: u64,
    pub(crate) exchange: u64,
    pub(crate) cause: u64,
    pub(crate) cause_evidence: Option<Evidence>,
    pub(crate) actor: Actor,
}

impl Mark {
    /// The mark of a call whose first byte has the offset `start`.
    pub(crate) fn of_call(d: &DataEvent, start: u64) -> Self {
        Mark {
            start,
            end: start + d.len,
            seq: d.seq,
            direction: d.direction,
            enter_ns: d.enter_ns,
            exit_ns: d.exit_ns,
            waited_ns: d.waited_ns,
            exchange: d.exchange,
            cause: d.cause,
            cause_evidence: d.cause_evidence,
            actor: d.actor,
        }
    }

    /// When the process received or sent the first of these bytes, Unix ns. A blocked receive may have been entered
    /// long before its bytes existed, so that its return counts.
    pub(crate) fn first_ns(&self) -> u64 {
        match self.direction {
            Direction::Egress if self.enter_ns != 0 => self.enter_ns,
            _ => self.exit_ns,
        }
    }
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// Bytes that passed, bytes that were not captured included.
    pub(crate) offset: u64,
    /// When the last byte passed, Unix ns.
    pub(crate) last_ns: u64,
    /// Offset behind the last byte that was moved but not captured; 0 if all were captured.
    pub(crate) lost_to: u64,
    next_seq: Option<u32>,
    held: VecDeque<DataEvent>,
    held_since_ns: u64,
    marks: VecDeque<Mark>,
    /// Contexts of requests whose bytes have not come yet, or are being read.
    pub(crate) contexts: Contexts,
}

/// Place of a call in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// Its bytes are the next of the stream.
    Next,
    /// It waits for earlier bytes: see [`Stream::hold`].
    Ahead,
    /// All its bytes have passed before.
    Duplicate,
}

impl Stream {
    /// Finds the place of a call, and cuts off the bytes that have passed before.
    pub(crate) fn place(&mut self, d: &mut DataEvent, stats: &mut JoinStats) -> Placed {
        let (Some(told), Transport::Tcp) = (d.seq, d.transport) else { return Placed::Next };
        let seq = self.contexts.begin(told, std::mem::take(&mut d.part));
        d.seq = Some(seq);
        let Some(next) = self.next_seq else { return Placed::Next };
        let ahead = seq.wrapping_sub(next);
        if ahead == 0 {
            return Placed::Next;
        }
        let behind = next.wrapping_sub(seq);
        if ahead.min(behind) > MAX_JUMP {
            stats.resyncs += 1;
            self.next_seq = None;
            return Placed::Next;
        }
        if ahead < behind {
            return Placed::Ahead;
        }
        let seen = u64::from(behind.saturating_sub(self.contexts.added_before(seq, next)));
        if d.len <= seen {
            stats.duplicates += 1;
            return Placed::Duplicate;
        }
        d.payload.drain(..(seen as usize).min(d.payload.len()));
        d.len -= seen;
        d.seq = Some(next);
        Placed::Next
    }

    /// Keeps a call until the bytes before it have come.
    pub(crate) fn hold(&mut self, d: DataEvent, stats: &mut JoinStats) {
        if self.held.is_empty() {
            self.held_since_ns = d.exit_ns;
        }
        let next = self.next_seq.unwrap_or(0);
        let ahead = d.seq.unwrap_or(0).wrapping_sub(next);
        // Sorted by distance from the next byte; nearly always the new one is the last.
        let at = self.held.partition_point(|h| h.seq.is_some_and(|s| s.wrapping_sub(next) <= ahead));
        self.held.insert(at, d);
        stats.reordered += 1;
    }

    /// Takes the first held call if no byte before it is missing.
    pub(crate) fn take_ready(&mut self) -> Option<DataEvent> {
        let next = self.next_seq?;
        let seq = self.held.front()?.seq?;
        if seq == next || next.wrapping_sub(seq) < MAX_JUMP {
            self.held.pop_front()
        } else {
            None
        }
    }

    /// Length of the gap before the first held call, bytes.
    pub(crate) fn hole(&self) -> Option<u64> {
        let next = self.next_seq?;
        let seq = self.held.front()?.seq?;
        Some(u64::from(seq.wrapping_sub(next)))
    }

    /// Counts the gap as passed, so that [`Stream::take_ready`] goes on.
    pub(crate) fn skip(&mut self, hole: u64) {
        self.next_seq = self.next_seq.map(|n| n.wrapping_add(hole as u32));
    }

    /// True if the held calls have waited too long, or are too many.
    pub(crate) fn is_overdue(&self, now_ns: u64, config: &JoinConfig) -> bool {
        !self.held.is_empty()
            && (self.held.len() > config.reorder_events
                || now_ns.saturating_sub(self.held_since_ns) >= config.reorder_ns)
    }

    pub(crate) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.held.iter().map(|h| h.payload.len()).sum()
    }

    /// Restarts the clock of the calls that are still held.
    pub(crate) fn rearm(&mut self, now_ns: u64) {
        self.held_since_ns = now_ns;
    }

    /// Goes back by `len` bytes. Another protocol will read them again.
    pub(crate) fn rewind(&mut self, len: u64) {
        self.offset = self.offset.saturating_sub(len);
        while self.marks.back().is_some_and(|m| m.start >= self.offset) {
            self.marks.pop_back();
        }
        if let Some(last) = self.marks.back_mut() {
            last.end = last.end.min(self.offset);
        }
        if self.lost_to > self.offset {
            self.lost_to = 0;
        }
    }

    /// The bytes after this call are the next of the stream.
    pub(crate) fn expect_after(&mut self, d: &DataEvent) {
        if let Some(seq) = d.seq {
            let next = seq.wrapping_add(d.len as u32).wrapping_add(self.contexts.added(seq, d.len));
            self.next_seq = Some(next);
            self.contexts.forget_before(next);
        }
    }

    /// Remembers a call whose bytes are the next of the stream. `head_open`: a message's head is still incomplete.
    pub(crate) fn mark(&mut self, d: &DataEvent, head_open: bool) {
        if self.marks.len() >= MARKS {
            if head_open {
                // A head in many pieces: its start must stay known, so that the second and the third are merged.
                let third = self.marks.remove(2);
                if let (Some(second), Some(third)) = (self.marks.get_mut(1), third) {
                    second.end = third.end;
                    second.exit_ns = third.exit_ns;
                }
            } else {
                self.marks.pop_front();
            }
        }
        self.expect_after(d);
        self.last_ns = self.last_ns.max(d.exit_ns);
        let mark = Mark::of_call(d, self.offset);
        self.marks.push_back(mark);
    }

    /// The call that brought the byte at `offset`, or the nearest one known.
    pub(crate) fn mark_at(&self, offset: u64) -> Option<&Mark> {
        self.marks.iter().rev().find(|m| m.start <= offset).or_else(|| self.marks.front())
    }

    /// The call that brought the last byte before `end`.
    pub(crate) fn mark_before(&self, end: u64) -> Option<&Mark> {
        self.mark_at(end.saturating_sub(1))
    }

    /// TCP sequence number of the byte at this offset, which this call brought.
    pub(crate) fn seq_at(&self, mark: &Mark, offset: u64) -> Option<u32> {
        let inside = offset.wrapping_sub(mark.start);
        mark.seq.map(|s| s.wrapping_add(inside as u32).wrapping_add(self.contexts.added(s, inside)))
    }

    /// TCP sequence number behind the last byte before `end`.
    pub(crate) fn seq_behind(&self, end: u64) -> Option<u32> {
        self.seq_at(self.mark_before(end)?, end)
    }

    /// Offset behind the last known byte, the bytes of a gap that is just being passed included.
    pub(crate) fn marked_to(&self) -> u64 {
        self.marks.back().map_or(0, |m| m.end).max(self.offset).max(self.lost_to)
    }

    /// Forgets the calls that end before `offset`, except the last.
    pub(crate) fn forget_before(&mut self, offset: u64) {
        while self.marks.len() > 1 && self.marks.front().is_some_and(|m| m.end <= offset) {
            self.marks.pop_front();
        }
    }
}
