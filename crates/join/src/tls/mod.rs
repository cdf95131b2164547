//! TLS: plaintext comes from the library, and everything else from the ciphertext that carried it.
//!
//! Each piece of plaintext must find its record on the wire. Both ends of the connection know the sequence number of
//! the record's first byte, and the record's call has time, exchange and cause. [`records`] finds the records, and this
//! module gives each piece of plaintext its own: by place if the kernel saw the ciphertext move inside the library's
//! call, else by length (a record is longer than its plaintext by a header and 16 to 80 bytes).

mod records;

use crate::direction::index;
use records::{Half, Record};
use std::collections::VecDeque;
use wirespan_model::{DataEvent, Direction};

pub(crate) use records::{begins_handshake, starts_record};

/// Most plaintext bytes of a record (RFC 8446, section 5.1).
const FULL: u64 = 16_384;
/// Usual overhead: bytes by which a record's body is longer than its plaintext. In TLS 1.3, in TLS 1.2 with AES-GCM,
/// and in TLS 1.2 with ChaCha20-Poly1305.
const USUAL: [u64; 3] = [17, 24, 16];
/// Possible overhead, CBC with its padding included.
const OVERHEAD: std::ops::RangeInclusive<u64> = 16..=80;
/// Block length of CBC: a record's body is a multiple of it.
const BLOCK: u64 = 16;
/// Most likely overhead, while no record has shown it.
const LIKELY: u64 = 17;
/// Plaintext lengths of a Finished message of TLS 1.3, which looks like data: its head and a hash. Java adds 16 zeros
/// to each record.
const FINISHED: [u64; 3] = [36, 52, 68];
/// Most encrypted records of a client's handshake; its Finished is the last one. Before that, the client may send its
/// certificate and the proof, if the server asks for them.
const LAST_WORDS: usize = 3;
/// Most pieces of plaintext that wait for their ciphertext.
const MAX_WAITING: usize = 64;

/// TLS state of one connection.
#[derive(Debug, Default)]
pub(crate) struct Tls {
    halves: [Half; 2],
    /// Plaintext that the library encrypted into memory. The process has not sent its ciphertext yet.
    waiting: VecDeque<DataEvent>,
    /// A record that the process reads in pieces, and the number of plaintext bytes that are left of it.
    rest: Option<(Record, u64)>,
    /// True once application data was received.
    reading: bool,
    /// Overhead of this connection's records, once it is known.
    overhead: Option<u64>,
    /// Direction of the ClientHello: the client sent it. `Some(None)` if the connection's start was not observed.
    first: Option<Option<Direction>>,
    /// When ciphertext was received that no plaintext has followed, Unix ns.
    unread_ns: Option<u64>,
    /// When the last call began that sent ciphertext, Unix ns.
    sent_ns: u64,
    /// `unread_ns` as it was when that call began, if the plaintext of what it sent has not come: a request was sent,
    /// and an earlier answer was not read.
    missed_ns: Option<u64>,
    /// When the last plaintext was written, Unix ns.
    asked_ns: u64,
    /// Plaintext of answers that came before the plaintext of their request (another thread reads them, and the call
    /// that wrote the request has not returned).
    early: VecDeque<DataEvent>,
    /// True once plaintext came. The ciphertext is then used for nothing else.
    pub(crate) plaintext: bool,
}

impl Tls {
    /// Takes a call that moved ciphertext. Plaintext that waited for it goes to `ready`.
    pub(crate) fn ciphertext(&mut self, d: &DataEvent, ready: &mut Vec<DataEvent>) {
        self.first.get_or_insert_with(|| begins_handshake(&d.payload).then_some(d.direction));
        self.halves[index(d.direction)].call(d, self.plaintext);
        if d.direction == Direction::Ingress {
            self.unread_ns = Some(d.exit_ns);
        }
        if d.direction == Direction::Egress {
            self.sent_ns = d.enter_ns;
            self.missed_ns = self.unread_before(d.enter_ns).filter(|unread| *unread >= self.asked_ns);
            self.match_waiting(ready);
            if !self.waiting.is_empty() && !self.halves[1].is_framed() {
                // Its record is not known. The call that follows the plaintext is still the call that sent it.
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

    /// Takes plaintext. Each piece with a known place goes to `ready`, in order.
    pub(crate) fn plaintext(&mut self, d: DataEvent, ready: &mut Vec<DataEvent>) {
        self.plaintext = true;
        let asks = (d.direction == Direction::Egress).then_some(d.enter_ns);
        self.place(d, ready);
        if let Some(ns) = asks {
            (self.asked_ns, self.missed_ns) = (ns, None);
        }
        if self.missed_ns.is_none() {
            self.place_early(ready);
        }
    }

    fn place_early(&mut self, ready: &mut Vec<DataEvent>) {
        while let Some(early) = self.early.pop_front() {
            self.place(early, ready);
        }
    }

    /// Holds the plaintext of an answer, if an earlier answer was not read and the plaintext of the last request has
    /// not come: only that request shows that the earlier one was answered. Returns what is not held.
    pub(crate) fn hold(&mut self, d: DataEvent) -> Option<DataEvent> {
        let follows = d.direction == Direction::Ingress && d.enter_ns >= self.sent_ns;
        if !follows || self.missed_ns.is_none() || self.early.len() >= MAX_WAITING {
            return Some(d);
        }
        self.early.push_back(d);
        None
    }

    fn place(&mut self, d: DataEvent, ready: &mut Vec<DataEvent>) {
        if self.overhead.is_none() && self.is_1_3() {
            self.overhead = Some(LIKELY);
        }
        match d.direction {
            Direction::Ingress => {
                (self.unread_ns, self.missed_ns) = (None, None);
                self.received(d, ready);
            }
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
                // Its ciphertext may have come already (a goroutine that moved to another thread).
                self.match_waiting(ready);
            }
        }
    }

    /// Hands on the waiting plaintext. It was written before the record at `seq`, so that its record begins before
    /// `seq`, or was not observed.
    fn overtaken(&mut self, seq: u32, ready: &mut Vec<DataEvent>) {
        while let Some(first) = self.waiting.pop_front() {
            match self.fit(&first, Some(seq)) {
                Some(record) => give(record, first, ready),
                None => ready.push(first),
            }
        }
    }

    /// Takes plaintext that was sent inside the library's call. The kernel names its first record, and all its records
    /// have come. The other end reads each record by itself, so that each record's plaintext becomes a piece of its
    /// own.
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

    /// True if the handshake was observed, and was of TLS 1.3.
    fn is_1_3(&self) -> bool {
        self.halves.iter().any(|half| half.is_1_3)
    }

    /// Skips the end of the handshake, up to the client's Finished. A server of TLS 1.3 receives it before the first
    /// data: in an earlier call, or in the same call as the data.
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
            // The kernel names the call that received the data, or an earlier call. A record that ended before it was
            // read before, or never.
            self.halves[0].forget_ended(seq);
            self.rest = self.rest.filter(|(record, _)| record.ends_after(seq));
        } else if !self.reading {
            // The kernel has not seen the call that received the first data. What came before this end spoke last was
            // read before the library was met.
            self.halves[0].forget_moved_before(self.sent_ns);
        }
        // A record that begins with this very call is not the rest of another record.
        let begins = self.halves[0].complete().is_some_and(|r| Some(r.seq) == d.seq);
        if let Some((record, left)) = self.rest.take().filter(|(_, left)| *left >= d.len && !begins) {
            // The next piece of the same record.
            let read = record.body().saturating_sub(self.overhead.unwrap_or(LIKELY)).saturating_sub(left);
            record.give(&mut d, read);
            self.rest = (left > d.len).then(|| (record, left - d.len));
            return ready.push(d);
        }
        // Tickets and the end of the handshake come only before the first data. After it, the next record is the right
        // one.
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
        // Fewer bytes than the record's: its first piece. More: several records at once.
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

    /// Takes the first piece of a record, read while the overhead is not known. False if it may be a whole record.
    fn first_piece(&mut self, d: &mut DataEvent) -> bool {
        if self.overhead.is_some() {
            return false;
        }
        let holds = |r: &Record| r.body().saturating_sub(LIKELY);
        let half = &mut self.halves[0];
        let Some(mut at) = half.position(|_| true) else { return false };
        let of = |at| half.at(at).filter(|r| holds(r) >= d.len);
        // The end of the handshake may have come together with the first data.
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

    /// Takes the record of this plaintext: the record that the kernel named, else the first that may carry so many
    /// bytes. Records before it carry no data (end of the handshake, tickets, alerts). With `end`, it begins before
    /// `end`.
    fn fit(&mut self, d: &DataEvent, end: Option<u32>) -> Option<Record> {
        let first_part = d.len.min(FULL);
        // Plaintext is in no record that was sent before it was written.
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

    /// Drops the plaintext whose ciphertext does not come or does not fit: it may belong to another connection. Returns
    /// the number of pieces. Answers whose request does not come go to `ready`.
    pub(crate) fn release(&mut self, ready: &mut Vec<DataEvent>) -> usize {
        self.place_early(ready);
        self.waiting.drain(..).count()
    }

    /// When ciphertext was received before the request that begins at `ns` (Unix ns) that no plaintext has followed. A
    /// program that waits for the next answer while its library is met reads that answer unseen.
    pub(crate) fn missed_before(&self, ns: u64) -> Option<u64> {
        self.missed_ns.or_else(|| self.unread_before(ns))
    }

    fn unread_before(&self, ns: u64) -> Option<u64> {
        self.unread_ns.filter(|unread| *unread < ns)
    }

    /// Since when the oldest plaintext waits, Unix ns; `None` if none waits.
    pub(crate) fn waits_since(&self) -> Option<u64> {
        self.waiting.front().into_iter().chain(self.early.front()).map(|d| d.exit_ns).min()
    }

    /// Captured bytes held here.
    pub(crate) fn buffered(&self) -> usize {
        self.waiting.iter().chain(&self.early).map(|d| d.payload.len()).sum()
    }
}

/// True if a record may have this overhead. A received piece may be the first of its record, which then only seems to
/// have a large overhead.
fn may_add(r: &Record, adds: u64, direction: Direction) -> bool {
    let padded = || direction == Direction::Egress || r.body().is_multiple_of(BLOCK);
    USUAL.contains(&adds) || OVERHEAD.contains(&adds) && padded()
}

/// Cuts the first `len` bytes off a call, and returns them as a call.
fn take(d: &mut DataEvent, len: u64) -> DataEvent {
    let len = len.min(d.len);
    let captured = d.payload.len().min(usize::try_from(len).unwrap_or(usize::MAX));
    let payload = d.payload.drain(..captured).collect();
    d.len -= len;
    DataEvent { len, payload, ..*d }
}

/// Gives plaintext the facts of its record, and hands it on.
fn give(record: Record, mut d: DataEvent, ready: &mut Vec<DataEvent>) {
    record.give(&mut d, 0);
    ready.push(d);
}
