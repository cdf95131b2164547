//! The bytes of one direction of a connection, in order.
//!
//! A position is a 64-bit count of bytes since the direction's start. Sequence numbers are unwrapped against the next
//! expected one. If segments overlap, the bytes that came first win. Each position is passed once.

use std::collections::BTreeMap;

/// Longest distance from the next expected byte to a credible segment, bytes. A TCP window is at most 1 GiB, and seldom
/// above 16 MiB.
const FAR: i64 = 64 << 20;
/// Number of consecutive segments beyond [`FAR`] that make them credible after all.
const FAR_NEEDED: u32 = 3;

/// Bytes of one segment: `len` bytes were sent, and `bytes` is their captured prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) bytes: Vec<u8>,
    pub(super) len: u64,
    pub(super) time_ns: u64,
}

impl Part {
    /// Splits off the first `n` bytes.
    fn split_front(&mut self, n: u64) -> Part {
        let captured = usize::try_from(n).unwrap_or(usize::MAX).min(self.bytes.len());
        let rest = self.bytes.split_off(captured);
        let front = Part { bytes: std::mem::replace(&mut self.bytes, rest), len: n, time_ns: self.time_ns };
        self.len -= n;
        front
    }
}

/// Kind of the bytes that a segment brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Brought {
    /// Only new bytes. The first of them was expected, or lies ahead.
    New,
    /// New bytes that fill a gap: later bytes were captured before.
    Late,
    /// Some new bytes and some known ones.
    Mixed,
    /// Only known bytes.
    Old,
    /// Bytes too far ahead to be credible.
    Far,
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Half {
    /// Sequence number of position 0.
    start: Option<u32>,
    /// Position of the next expected byte. All bytes before were delivered or given up.
    pos: u64,
    /// Position behind the furthest captured byte.
    top: u64,
    /// When the furthest byte was captured, Unix ns.
    pub(super) top_ns: u64,
    /// Parts that wait for earlier bytes, by position.
    parts: BTreeMap<u64, Part>,
    buffered: usize,
    /// Position of the FIN.
    fin: Option<u64>,
    /// Consecutive segments too far ahead: the next sequence number, and their number.
    far: Option<(u32, u32)>,
    /// The segment that is being timed: the position behind it, and when it was sent (Unix ns).
    timed: Option<(u64, u64)>,
    /// Smoothed time from a segment of this direction to its acknowledgement, ns.
    pub(super) srtt_ns: u64,
    /// True if any segment of this direction was captured.
    pub(super) seen: bool,
}

impl Half {
    /// True if the start is known, so that sequence numbers have positions.
    pub(super) fn is_joined(&self) -> bool {
        self.start.is_some()
    }

    /// True if the direction starts at this sequence number.
    pub(super) fn starts_at(&self, seq: u32) -> bool {
        self.start == Some(seq)
    }

    /// Sets the start, unless it is known: `seq` is the next expected byte.
    pub(super) fn join(&mut self, seq: u32) {
        self.start.get_or_insert(seq);
    }

    /// Number of bytes delivered or given up.
    pub(super) fn pos(&self) -> u64 {
        self.pos
    }

    pub(super) fn buffered(&self) -> usize {
        self.buffered
    }

    pub(super) fn seq_at(&self, pos: u64) -> u32 {
        self.start.unwrap_or(0).wrapping_add(pos as u32)
    }

    /// Position of a sequence number. It may lie before the start.
    fn position(&self, seq: u32) -> i64 {
        let ahead = seq.wrapping_sub(self.seq_at(self.pos)) as i32;
        self.pos as i64 + i64::from(ahead)
    }

    /// Number of bytes from the next expected byte to `seq` that an acknowledgement of `seq` covers.
    pub(super) fn unseen_before(&self, seq: u32) -> u64 {
        if self.start.is_none() {
            return 0;
        }
        let mut to = self.position(seq).min(self.pos as i64 + FAR + 1).max(0) as u64;
        if to > self.pos + FAR as u64 {
            return 0; // not credible
        }
        if let Some(fin) = self.fin {
            to = to.min(fin);
        }
        let missing = to.saturating_sub(self.pos);
        // One byte with nothing behind it is most likely a FIN that was not captured.
        if missing == 1 && self.parts.is_empty() {
            0
        } else {
            missing
        }
    }

    /// True if a segment has the next expected byte.
    pub(super) fn wants(&self, seq: u32, len: u32) -> bool {
        let at = self.position(seq);
        self.is_joined() && at <= self.pos as i64 && at + i64::from(len) > self.pos as i64
    }

    /// True for a keep-alive probe: at most one byte, just before the next expected byte.
    pub(super) fn is_keep_alive(&self, seq: u32, len: u32) -> bool {
        self.is_joined() && len <= 1 && self.position(seq) == self.pos as i64 - 1 && self.parts.is_empty()
    }

    /// Takes a segment's bytes. [`Half::pop`] delivers them.
    pub(super) fn push(&mut self, seq: u32, mut part: Part) -> Brought {
        self.join(seq);
        let at = self.position(seq);
        let end = at + part.len as i64;
        if at > self.pos as i64 + FAR {
            return self.push_far(seq, part);
        }
        self.far = None;
        let (was_top, pos) = (self.top, self.pos);
        if end <= pos as i64 {
            self.timed = None; // Karn's algorithm: an acknowledgement could be of either copy
            return Brought::Old;
        }
        let mut old = false;
        if at < pos as i64 {
            part.split_front((pos as i64 - at) as u64);
            old = true;
        }
        let (mut at, end) = (at.max(pos as i64) as u64, end as u64);
        let (start, mut new) = (at, false);
        while at < end {
            let covered_to = self.parts.range(..=at).next_back().map_or(0, |(k, p)| k + p.len);
            if covered_to > at {
                old = true;
                let n = covered_to.min(end) - at;
                part.split_front(n);
                at += n;
                continue;
            }
            let next = self.parts.range(at..).next().map_or(end, |(k, _)| *k).min(end);
            let piece = part.split_front(next - at);
            self.buffered += piece.bytes.len() + PART_COST;
            self.parts.insert(at, piece);
            new = true;
            at = next;
        }
        if end > was_top {
            self.top = end;
            self.top_ns = part.time_ns;
        }
        match (new, old) {
            (false, _) => {
                self.timed = None;
                Brought::Old
            }
            (true, true) => {
                self.timed = None;
                Brought::Mixed
            }
            (true, false) if start < was_top => Brought::Late,
            (true, false) => {
                if self.timed.is_none() {
                    self.timed = Some((end, part.time_ns));
                }
                Brought::New
            }
        }
    }

    /// Takes a segment far ahead: either its number is damaged, or the capture lost very many bytes. Several
    /// consecutive segments make it credible.
    fn push_far(&mut self, seq: u32, part: Part) -> Brought {
        let next = seq.wrapping_add(part.len as u32);
        let run = match self.far {
            Some((expected, run)) if expected == seq => run + 1,
            _ => 1,
        };
        if run < FAR_NEEDED {
            self.far = Some((next, run));
            return Brought::Far;
        }
        self.far = None;
        let at = self.position(seq) as u64;
        self.buffered += part.bytes.len() + PART_COST;
        self.top = at + part.len;
        self.parts.insert(at, part);
        Brought::New
    }

    /// The next bytes in order, with their position.
    pub(super) fn pop(&mut self) -> Option<(u64, Part)> {
        let entry = self.parts.first_entry().filter(|e| *e.key() == self.pos)?;
        let (at, part) = entry.remove_entry();
        self.buffered -= part.bytes.len() + PART_COST;
        self.pos += part.len;
        Some((at, part))
    }

    /// Gives up the missing bytes before `seq`, or up to the next captured byte. Returns their position and number.
    pub(super) fn give_up(&mut self, seq: u32) -> Option<(u64, u64)> {
        let missing = self.unseen_before(seq);
        self.skip_to(self.pos + missing)
    }

    /// Gives up the missing bytes before the next captured byte. Returns their position and number.
    pub(super) fn give_up_gap(&mut self) -> Option<(u64, u64)> {
        let to = *self.parts.keys().next()?;
        self.skip_to(to)
    }

    fn skip_to(&mut self, to: u64) -> Option<(u64, u64)> {
        let to = self.parts.keys().next().map_or(to, |first| to.min(*first));
        let at = self.pos;
        (to > at).then(|| {
            self.pos = to;
            self.top = self.top.max(to);
            (at, to - at)
        })
    }

    /// Notes a FIN at `seq`. False if it was known.
    pub(super) fn set_fin(&mut self, seq: u32) -> bool {
        self.join(seq);
        let at = self.position(seq);
        let new = self.fin.is_none() && (self.pos as i64..=self.pos as i64 + FAR).contains(&at);
        if new {
            self.fin = Some(at as u64);
        }
        new
    }

    pub(super) fn has_fin(&self) -> bool {
        self.fin.is_some()
    }

    /// True if everything up to the FIN was delivered.
    pub(super) fn is_finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.pos >= fin)
    }

    /// True if a sequence number lies near the next expected one (for resets).
    pub(super) fn is_near(&self, seq: u32) -> bool {
        self.start.is_none() || (self.position(seq) - self.pos as i64).abs() < FAR
    }

    /// Takes an acknowledgement of `seq`, and the round-trip time of the timed segment from it.
    pub(super) fn acked(&mut self, seq: u32, now_ns: u64) {
        if let Some((end, sent_ns)) = self.timed {
            if self.position(seq) >= end as i64 {
                self.timed = None;
                self.sample(now_ns.saturating_sub(sent_ns));
            }
        }
    }

    /// Adds a round-trip time, smoothed as in RFC 6298, section 2.
    pub(super) fn sample(&mut self, rtt_ns: u64) {
        self.srtt_ns = if self.srtt_ns == 0 { rtt_ns } else { self.srtt_ns - self.srtt_ns / 8 + rtt_ns / 8 };
    }
}

/// Memory that a buffered part takes beside its bytes, so that empty parts count too.
const PART_COST: usize = 96;
