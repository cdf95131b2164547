//! TLS: the plaintext comes from the library, everything else from the ciphertext that carried it.
//!
//! A message in clear text has to find its record on the wire: the sequence number of the record's first byte is what
//! both ends of the connection have in common, and its call tells time, exchange and cause. [`records`] finds the
//! records; here each piece of plaintext gets its own, by place where the kernel saw the ciphertext move inside the
//! library's call, and by length (a record is longer than what it carries by a header and 16 to 80 bytes) where it did
//! not.

mod records;

use crate::direction::index;
use records::{begins_handshake, Half, Record};
use std::collections::VecDeque;
use wirespan_model::{DataEvent, Direction};

pub(crate) use records::starts_record;

/// Most plaintext that a record carries.
const FULL: u64 = 16_384;
/// What a record adds to its plaintext, the header of 5 bytes not counted: in TLS 1.3, and in TLS 1.2 with AES-GCM and
/// with ChaCha20-Poly1305.
const USUAL: [u64; 3] = [17, 24, 16];
/// …and with CBC and its padding.
const OVERHEAD: std::ops::RangeInclusive<u64> = 16..=80;
/// …a multiple of whose blocks their records are.
const BLOCK: u64 = 16;
/// What records most likely add while none has told.
const LIKELY: u64 = 17;
/// Plaintext of a Finished message of TLS 1.3, which looks like data: its head and a hash.
const FINISHED: [u64; 2] = [36, 52];
/// Records of a client among which its Finished is: behind its certificate and the proof of that, if it was asked for
/// them.
const LAST_WORDS: usize = 3;
/// Plaintext that waits for its ciphertext.
const MAX_WAITING: usize = 64;

/// One connection.
#[derive(Debug, Default)]
pub(crate) struct Tls {
    halves: [Half; 2],
    /// Sent by the library into memory; the process has not sent it yet.
    waiting: VecDeque<DataEvent>,
    /// The rest of a record that the process reads in pieces: sequence number and length of what is left.
    rest: Option<(Record, u64)>,
    /// Data has been received.
    reading: bool,
    /// What records add, once it is known.
    overhead: Option<u64>,
    /// Who sent the first words, if these were seen: the client.
    first: Option<Option<Direction>>,
    /// Plaintext has come: the ciphertext is not read otherwise any more.
    pub(crate) plaintext: bool,
}

impl Tls {
    /// Takes a call that moved ciphertext; plaintext that waited for it goes to `ready`.
    pub(crate) fn ciphertext(&mut self, d: &DataEvent, ready: &mut Vec<DataEvent>) {
        self.first.get_or_insert_with(|| begins_handshake(&d.payload).then_some(d.direction));
        self.halves[index(d.direction)].call(d, self.plaintext);
        if d.direction == Direction::Egress {
            self.match_waiting(ready);
            if !self.waiting.is_empty() && !self.halves[1].is_framed() {
                // Its record cannot be told from others: the call that follows is still the one that sent it.
                let first = self.waiting.pop_front();
                first.into_iter().for_each(|first| give(Record::of_call(d), first, ready));
            }
        }
    }

    fn match_waiting(&mut self, ready: &mut Vec<DataEvent>) {
        while let Some(first) = self.waiting.pop_front() {
            match self.fit(&first, None) {
                Some(record) => give(record, first, ready),
                None => return self.waiting.push_front(first),
            }
        }
    }

    /// Takes plaintext; what is known of its place goes to `ready`, in order.
    pub(crate) fn plaintext(&mut self, d: DataEvent, ready: &mut Vec<DataEvent>) {
        self.plaintext = true;
        if self.overhead.is_none() && self.is_1_3() {
            self.overhead = Some(LIKELY);
        }
        match d.direction {
            Direction::Ingress => self.received(d, ready),
            Direction::Egress if d.exchange != 0 => {
                if let Some(seq) = d.seq {
                    self.overtaken(seq, ready);
                }
                self.sent(d, ready);
            }
            Direction::Egress => {
                if self.waiting.len() >= MAX_WAITING {
                    ready.extend(self.waiting.pop_front());
                }
                self.waiting.push_back(d);
                // Its ciphertext may have come already (a goroutine that changed its thread).
                self.match_waiting(ready);
            }
        }
    }

    /// What waits was written before the record at `seq`: it stands before that, or where nobody saw it.
    fn overtaken(&mut self, seq: u32, ready: &mut Vec<DataEvent>) {
        while let Some(first) = self.waiting.pop_front() {
            match self.fit(&first, Some(seq)) {
                Some(record) => give(record, first, ready),
                None => ready.push(first),
            }
        }
    }

    /// Sent inside the library's call: the kernel tells where its first record begins, and all its records have come.
    /// The other end sees each of them by itself, so that here, too, each piece gets its own.
    fn sent(&mut self, mut d: DataEvent, ready: &mut Vec<DataEvent>) {
        let half = &mut self.halves[1];
        let Some(seq) = d.seq else { return ready.push(d) };
        half.forget_before(seq);
        let Some((count, overhead)) = half.span(seq, d.len, self.overhead, &USUAL, OVERHEAD) else {
            self.overhead.and_then(|adds| half.unseen(d.len, adds, FULL));
            return ready.push(d);
        };
        self.overhead = Some(overhead);
        for last in (0..count).rev().map(|left| left == 0) {
            let Some(record) = half.pop() else { break };
            if last {
                d.seq = Some(record.seq);
                return ready.push(d);
            }
            let mut part = take(&mut d, record.body().saturating_sub(overhead));
            record.give(&mut part, 0);
            ready.push(part);
        }
    }

    /// Whether the handshake was seen, and was that of TLS 1.3.
    fn is_1_3(&self) -> bool {
        self.halves.iter().any(|half| half.is_1_3)
    }

    /// Before the first data that a server of TLS 1.3 receives, there are the handshake's last words, up to the
    /// client's Finished: perhaps received by an earlier call than the data, perhaps together with it and with more.
    fn skip_handshake(&mut self) {
        let half = &mut self.halves[0];
        let finished = half.position(|r| FINISHED.contains(&r.body().saturating_sub(LIKELY)));
        half.skip(finished.filter(|at| *at < LAST_WORDS).map_or(0, |at| at + 1));
        self.reading = true;
    }

    fn received(&mut self, mut d: DataEvent, ready: &mut Vec<DataEvent>) {
        if !self.reading && self.first == Some(Some(Direction::Ingress)) && self.is_1_3() {
            self.skip_handshake();
        }
        if let Some(seq) = d.seq {
            // The kernel names the call that received it, or an earlier one: what ended before that was read before, or
            // never.
            self.halves[0].forget_ended(seq);
            self.rest = self.rest.filter(|(record, _)| record.ends_after(seq));
        }
        // A record that begins with this very call is no rest of another.
        let begins = self.halves[0].complete().is_some_and(|r| Some(r.seq) == d.seq);
        if let Some((record, left)) = self.rest.take().filter(|(_, left)| *left >= d.len && !begins) {
            // Read on in the same record.
            let read = record.body().saturating_sub(self.overhead.unwrap_or(LIKELY)).saturating_sub(left);
            record.give(&mut d, read);
            self.rest = (left > d.len).then(|| (record, left - d.len));
            return ready.push(d);
        }
        // Tickets and the handshake's last words come before the first data only: from then on, what is next is next.
        let half = &self.halves[0];
        let later = half.position(|r| Some(r.seq) == d.seq).is_some_and(|at| at > 0);
        let next = self.reading && self.overhead.is_some() && half.complete().is_some() && !later;
        if !next {
            if self.first_piece(&mut d) {
                return ready.push(d);
            }
            if let Some(record) = self.fit(&d, None) {
                self.reading = true;
                record.give(&mut d, 0);
                return ready.push(d);
            }
        }
        let Some(overhead) = self.overhead else { return ready.push(d) };
        // Less than a record: its first piece. More: several records at once.
        while let Some(record) = self.halves[0].complete() {
            let Some(holds) = record.body().checked_sub(overhead) else { break };
            self.halves[0].pop();
            self.reading = true;
            record.give(&mut d, 0);
            if holds >= d.len {
                self.rest = (holds > d.len).then(|| (record, holds - d.len));
                return ready.push(d);
            }
            ready.push(take(&mut d, holds));
        }
        ready.push(d);
    }

    /// Takes less than a record, read before it is known what records add; false if it may be a whole one.
    fn first_piece(&mut self, d: &mut DataEvent) -> bool {
        if self.overhead.is_some() {
            return false;
        }
        let holds = |r: &Record| r.body().saturating_sub(LIKELY);
        let half = &mut self.halves[0];
        let Some(mut at) = half.position(|_| true) else { return false };
        let of = |at| half.at(at).filter(|r| holds(r) >= d.len);
        // The handshake's last words may have come together with the first data.
        if !self.reading && half.at(at).is_some_and(|r| FINISHED.contains(&holds(&r))) && of(at + 1).is_some() {
            at += 1;
        }
        let Some(record) = of(at).filter(|r| holds(r) > d.len && !may_add(r, r.body() - d.len, Direction::Ingress))
        else {
            return false;
        };
        half.take(at);
        self.reading = true;
        record.give(d, 0);
        self.rest = Some((record, holds(&record) - d.len));
        true
    }

    /// The record of this plaintext: the one that the kernel named, or the first that may carry so much; those before
    /// it carried none (the handshake's last words, tickets, alerts). It begins before `end`, if that is given.
    fn fit(&mut self, d: &DataEvent, end: Option<u32>) -> Option<Record> {
        let first_part = d.len.min(FULL);
        // What is not sent yet is in no record that was sent before.
        let since_ns = if d.direction == Direction::Egress { d.enter_ns } else { 0 };
        let (known, exact) = (self.overhead, self.is_1_3());
        let adds_so = |r: &Record, adds| may_add(r, adds, d.direction);
        let half = &mut self.halves[index(d.direction)];
        let early = |r: &Record| end.is_none_or(|end| r.begins_before(end));
        let find = |is: &dyn Fn(&Record, u64) -> bool| {
            half.position(|r| {
                r.exit_ns >= since_ns && early(r) && r.body().checked_sub(first_part).is_some_and(|adds| is(r, adds))
            })
        };
        let found = find(&|_, adds| exact && Some(adds) == known)
            .or_else(|| find(&|r, adds| Some(r.seq) == d.seq && adds_so(r, adds)))
            .or_else(|| find(&|_, adds| Some(adds) == known))
            .or_else(|| find(&|_, adds| USUAL.contains(&adds)))
            .or_else(|| find(&|r, adds| adds_so(r, adds)));
        let Some(found) = found else { return if end.is_none() { half.unseen(d.len, known?, FULL) } else { None } };
        let record = half.take(found)?;
        self.overhead = Some(record.body() - first_part);
        Some(record)
    }

    /// Stops waiting for ciphertext that does not come, or does not fit: the plaintext may be another connection's.
    pub(crate) fn release(&mut self) -> usize {
        self.waiting.drain(..).count()
    }

    /// Since when plaintext waits, Unix ns.
    pub(crate) fn waits_since(&self) -> Option<u64> {
        self.waiting.front().map(|d| d.exit_ns)
    }

    /// Captured bytes that wait here.
    pub(crate) fn buffered(&self) -> usize {
        self.waiting.iter().map(|d| d.payload.len()).sum()
    }
}

/// Whether a record may add so much. What is received may be the first piece of a record, which then only seems to add
/// much.
fn may_add(r: &Record, adds: u64, direction: Direction) -> bool {
    let padded = || direction == Direction::Egress || r.body().is_multiple_of(BLOCK);
    USUAL.contains(&adds) || OVERHEAD.contains(&adds) && padded()
}

/// Cuts the first bytes off.
fn take(d: &mut DataEvent, len: u64) -> DataEvent {
    let len = len.min(d.len);
    let captured = d.payload.len().min(usize::try_from(len).unwrap_or(usize::MAX));
    let payload = d.payload.drain(..captured).collect();
    d.len -= len;
    DataEvent { len, payload, ..*d }
}

fn give(record: Record, mut d: DataEvent, ready: &mut Vec<DataEvent>) {
    record.give(&mut d, 0);
    ready.push(d);
}
