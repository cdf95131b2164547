//! Records of one direction: where each begins and ends, from the headers in the captured bytes.

use std::collections::VecDeque;
use wirespan_model::{DataEvent, Direction, Evidence};

/// Length of a record's header: type, version and length (RFC 8446, section 5.1).
const HEADER: u64 = 5;
/// Content types, from change_cipher_spec to heartbeat.
const TYPES: std::ops::RangeInclusive<u8> = 20..=24;
const CHANGE_CIPHER_SPEC: u8 = 20;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
/// Longest body that any version of TLS allows, bytes.
const MAX_BODY: u64 = 16_384 + 2_048;
/// Most records kept until their plaintext comes.
const KEPT: usize = 256;
/// Most records kept if no plaintext came with the first [`UNREAD`] records: then nothing reads it.
const KEPT_UNREAD: usize = 8;
const UNREAD: u32 = 64;
/// Bytes without a captured header after which the search for the next record starts anew.
const MAX_UNSEEN: u32 = 1 << 20;

/// True if these bytes may be the start of a record.
pub(crate) fn starts_record(bytes: &[u8]) -> bool {
    body_length(bytes).is_some()
}

/// True if these bytes are the start of a handshake. In TLS 1.3, all later records of a handshake look like data.
pub(crate) fn begins_handshake(bytes: &[u8]) -> bool {
    bytes.first() == Some(&HANDSHAKE) && starts_record(bytes)
}

/// Length of a record's body, from the header at the start of `bytes`; `None` if it is no valid header.
fn body_length(bytes: &[u8]) -> Option<u64> {
    let [kind, 3, minor, high, low, ..] = *bytes else { return None };
    let len = u64::from(u16::from_be_bytes([high, low]));
    (TYPES.contains(&kind) && minor <= 4 && (1..=MAX_BODY).contains(&len)).then_some(len)
}

/// A record that may carry application data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// TCP sequence number of its header.
    pub(crate) seq: u32,
    /// Length with the header, bytes.
    len: u64,
    enter_ns: u64,
    pub(crate) exit_ns: u64,
    exchange: u64,
    cause: u64,
    cause_evidence: Option<Evidence>,
    /// True once its last byte passed.
    complete: bool,
}

impl Record {
    /// A record of which only a call that moved some of it is known.
    pub(crate) fn of_call(d: &DataEvent) -> Self {
        let mut record = Record {
            seq: d.seq.unwrap_or_default(),
            len: d.len,
            enter_ns: 0,
            exit_ns: 0,
            exchange: 0,
            cause: 0,
            cause_evidence: None,
            complete: true,
        };
        record.carried_by(d);
        record
    }

    fn carried_by(&mut self, d: &DataEvent) {
        (self.enter_ns, self.exit_ns) = (d.enter_ns, d.exit_ns);
        (self.exchange, self.cause, self.cause_evidence) = (d.exchange, d.cause, d.cause_evidence);
    }

    /// True if some of the record lies behind this sequence number.
    pub(crate) fn ends_after(&self, seq: u32) -> bool {
        let end = self.seq.wrapping_add(self.len as u32);
        end.wrapping_sub(seq).wrapping_sub(1) < 1 << 30
    }

    /// True if the record begins before this sequence number.
    pub(crate) fn begins_before(&self, seq: u32) -> bool {
        seq.wrapping_sub(self.seq).wrapping_sub(1) < 1 << 30
    }

    /// Length without the header, bytes.
    pub(crate) fn body(&self) -> u64 {
        self.len.saturating_sub(HEADER)
    }

    /// Gives plaintext the record's sequence number, times, exchange and cause. `read` bytes of the record's plaintext
    /// came before it.
    pub(crate) fn give(&self, d: &mut DataEvent, read: u64) {
        d.seq = Some(self.seq.wrapping_add(read as u32));
        (d.enter_ns, d.exit_ns) = (self.enter_ns, self.exit_ns);
        if d.exchange == 0 {
            (d.exchange, d.cause, d.cause_evidence) = (self.exchange, self.cause, self.cause_evidence);
        }
    }
}

/// Records `at..end` without a captured header. Their lengths follow from their plaintext.
#[derive(Clone, Copy, Debug)]
struct Unseen {
    at: u32,
    end: u32,
    /// The last call that moved some of them.
    call: Record,
}

/// The records of one direction.
#[derive(Debug, Default)]
pub(crate) struct Half {
    /// Sequence number at which the next header begins, if it is known.
    next: Option<u32>,
    /// The first bytes of a header that continues in the next call.
    broken: Vec<u8>,
    /// Bytes with records whose headers were not captured.
    unseen: Option<Unseen>,
    records: VecDeque<Record>,
    /// Records observed while no plaintext had come.
    unread: u32,
    /// True if the last record was a change_cipher_spec: the next record is encrypted.
    changes: bool,
    /// True if application data followed a change_cipher_spec: TLS 1.3, which hides its handshake (RFC 8446, appendix
    /// D.4).
    pub(crate) is_1_3: bool,
}

impl Half {
    /// Takes a call. `wanted`: plaintext has come, so that records are needed.
    pub(crate) fn call(&mut self, d: &DataEvent, wanted: bool) {
        let Some(seq) = d.seq else { return };
        if let Some(unseen) = &mut self.unseen {
            // A call that begins with a header ends the guessing, which pieces of records may have shifted.
            let begins_record = starts_record(&d.payload);
            if !begins_record && seq == unseen.end && seq.wrapping_sub(unseen.at) < MAX_UNSEEN {
                unseen.end = seq.wrapping_add(d.len as u32);
                unseen.call = Record::of_call(d);
                return;
            }
            self.unseen = None;
        }
        let next = match self.next {
            // Behind this call's first byte: the call begins within the last record. Before it: bytes were lost.
            Some(next) if next.wrapping_sub(seq) < 1 << 30 => next,
            _ => {
                self.broken.clear();
                if !starts_record(&d.payload) {
                    self.next = None;
                    return;
                }
                seq
            }
        };
        self.carry(d, seq);
        self.next = Some(next);
        let mut at = u64::from(next.wrapping_sub(seq));
        while at < d.len {
            let from = usize::try_from(at).unwrap_or(usize::MAX);
            let seen = d.payload.get(from..).unwrap_or_default();
            let seen = &seen[..seen.len().min(usize::try_from(d.len - at).unwrap_or(usize::MAX))];
            let had = self.broken.len();
            let more = (HEADER as usize - had).min(seen.len());
            self.broken.extend_from_slice(&seen[..more]);
            if (self.broken.len() as u64) < HEADER {
                // The header is incomplete: the call ended in it, or the captured bytes did.
                if at + seen.len() as u64 != d.len {
                    self.lose();
                    if wanted && had == 0 {
                        let (at, end) = (seq.wrapping_add(at as u32), seq.wrapping_add(d.len as u32));
                        self.unseen = Some(Unseen { at, end, call: Record::of_call(d) });
                    }
                } else {
                    self.next = Some(seq.wrapping_add(d.len as u32));
                }
                return;
            }
            let Some(body) = body_length(&self.broken) else { return self.lose() };
            let start = seq.wrapping_add(at as u32).wrapping_sub(had as u32);
            let kind = self.broken[0];
            self.broken.clear();
            self.is_1_3 |= self.changes && kind == APPLICATION_DATA;
            self.changes = kind == CHANGE_CIPHER_SPEC;
            let end = at + HEADER + body - had as u64;
            if kind == APPLICATION_DATA {
                let mut record = Record::of_call(d);
                (record.seq, record.len, record.complete) = (start, HEADER + body, end <= d.len);
                self.keep(record, wanted);
            }
            at = end;
            self.next = Some(seq.wrapping_add(at as u32));
        }
    }

    fn keep(&mut self, record: Record, wanted: bool) {
        self.records.push_back(record);
        let mut kept = KEPT;
        if !wanted {
            self.unread = self.unread.saturating_add(1);
            if self.unread > UNREAD {
                kept = KEPT_UNREAD;
            }
        }
        while self.records.len() > kept {
            self.records.pop_front();
        }
        if self.unread == UNREAD + 1 {
            self.records.shrink_to_fit();
        }
    }

    fn lose(&mut self) {
        self.broken.clear();
        self.next = None;
    }

    /// Updates the last record by a call that moved more of it. A message is received with its last byte, and sent with
    /// its first.
    fn carry(&mut self, d: &DataEvent, seq: u32) {
        let Some(last) = self.records.back_mut().filter(|r| !r.complete) else { return };
        let end = last.seq.wrapping_add(last.len as u32);
        last.complete = end.wrapping_sub(seq) as u64 <= d.len;
        if d.direction == Direction::Ingress {
            last.carried_by(d);
        }
    }

    /// True if the start of the next record is known.
    pub(crate) fn is_framed(&self) -> bool {
        self.next.is_some() || self.unseen.is_some()
    }

    /// The next record without a captured header, for plaintext of this length: the record's length follows from it.
    /// `adds` is the overhead, and `full` the most plaintext of one record.
    pub(crate) fn unseen(&mut self, plaintext: u64, adds: u64, full: u64) -> Option<Record> {
        let unseen = self.unseen.as_mut()?;
        let len = plaintext + plaintext.div_ceil(full).max(1) * (HEADER + adds);
        let left = unseen.end.wrapping_sub(unseen.at);
        if len > u64::from(left) {
            return None;
        }
        let record = Record { seq: unseen.at, len, ..unseen.call };
        unseen.at = unseen.at.wrapping_add(len as u32);
        if unseen.at == unseen.end {
            self.next = Some(unseen.end);
            self.unseen = None;
        }
        Some(record)
    }

    /// Drops the records that begin before this sequence number.
    pub(crate) fn forget_before(&mut self, seq: u32) {
        while self.records.front().is_some_and(|r| r.begins_before(seq)) {
            self.records.pop_front();
        }
    }

    /// Drops the records that end before this sequence number.
    pub(crate) fn forget_ended(&mut self, seq: u32) {
        while self.records.front().is_some_and(|r| !r.ends_after(seq)) {
            self.records.pop_front();
        }
    }

    /// Drops the records whose last byte moved before this time, Unix ns.
    pub(crate) fn forget_moved_before(&mut self, ns: u64) {
        while self.records.front().is_some_and(|r| r.complete && r.exit_ns < ns) {
            self.records.pop_front();
        }
    }

    /// Number of records, from the first on, that carry `len` bytes of plaintext, and their overhead. `None` unless the
    /// first begins at `seq` and all have the same overhead. The `known` overhead is preferred, then a `usual` one,
    /// then any `possible` one.
    pub(crate) fn span(
        &self,
        seq: u32,
        len: u64,
        known: Option<u64>,
        usual: &[u64],
        possible: std::ops::RangeInclusive<u64>,
    ) -> Option<(u64, u64)> {
        self.records.front().filter(|r| r.seq == seq)?;
        let mut bodies = 0;
        let fits = self.records.iter().zip(1u64..).filter_map(|(r, count)| {
            bodies += r.body();
            let more = bodies.checked_sub(len).filter(|more| more % count == 0)?;
            Some((count, more / count))
        });
        let fits: Vec<_> = fits.filter(|(_, adds)| possible.contains(adds)).take(8).collect();
        let find = |is: &dyn Fn(u64) -> bool| fits.iter().find(|(_, adds)| is(*adds)).copied();
        find(&|adds| Some(adds) == known).or_else(|| find(&|adds| usual.contains(&adds))).or_else(|| find(&|_| true))
    }

    /// The first record, if its last byte has passed.
    pub(crate) fn complete(&self) -> Option<Record> {
        self.records.front().copied().filter(|r| r.complete)
    }

    pub(crate) fn pop(&mut self) -> Option<Record> {
        self.records.pop_front()
    }

    /// Index of the first complete record for which `is` is true.
    pub(crate) fn position(&self, is: impl Fn(&Record) -> bool) -> Option<usize> {
        self.records.iter().position(|r| (r.complete) && is(r))
    }

    /// The record at an index, if it is complete.
    pub(crate) fn at(&self, place: usize) -> Option<Record> {
        self.records.get(place).copied().filter(|r| r.complete)
    }

    /// Forgets the first `count` records.
    pub(crate) fn skip(&mut self, count: usize) {
        self.records.drain(..count.min(self.records.len()));
    }

    /// Takes the record at an index, and forgets the records before it.
    pub(crate) fn take(&mut self, at: usize) -> Option<Record> {
        self.records.drain(..=at).next_back()
    }
}
