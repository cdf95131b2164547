//! Where the records of one direction begin and end, from the headers at the start of calls.

use std::collections::VecDeque;
use wirespan_model::{DataEvent, Direction, Evidence};

/// Type, version and length (RFC 8446, section 5.1).
const HEADER: u64 = 5;
/// Content types change_cipher_spec to heartbeat.
const TYPES: std::ops::RangeInclusive<u8> = 20..=24;
const CHANGE_CIPHER_SPEC: u8 = 20;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
/// Longest body that any version allows.
const MAX_BODY: u64 = 16_384 + 2_048;
/// Records kept until their plaintext comes. Where none has come after the first so many, it is not read, and only few
/// are kept.
const KEPT: usize = 256;
const KEPT_UNREAD: usize = 8;
const UNREAD: u32 = 64;
/// Bytes without a seen header after which the next record is looked for anew.
const MAX_UNSEEN: u32 = 1 << 20;

/// Whether these bytes may be the start of a record.
pub(crate) fn starts_record(bytes: &[u8]) -> bool {
    body_length(bytes).is_some()
}

/// Whether these bytes are the start of a connection: of TLS 1.3 all later records of a handshake look like data.
pub(crate) fn begins_handshake(bytes: &[u8]) -> bool {
    bytes.first() == Some(&HANDSHAKE) && starts_record(bytes)
}

fn body_length(bytes: &[u8]) -> Option<u64> {
    let [kind, 3, minor, high, low, ..] = *bytes else { return None };
    let len = u64::from(u16::from_be_bytes([high, low]));
    (TYPES.contains(&kind) && minor <= 4 && (1..=MAX_BODY).contains(&len)).then_some(len)
}

/// A record that may carry data of the application.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// TCP sequence number of its header.
    pub(crate) seq: u32,
    len: u64,
    enter_ns: u64,
    pub(crate) exit_ns: u64,
    exchange: u64,
    cause: u64,
    cause_evidence: Option<Evidence>,
    complete: bool,
}

impl Record {
    /// A record of which nothing is known but a call that moved some of it.
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

    /// Whether some of it lies behind this byte.
    pub(crate) fn ends_after(&self, seq: u32) -> bool {
        let end = self.seq.wrapping_add(self.len as u32);
        end.wrapping_sub(seq).wrapping_sub(1) < 1 << 30
    }

    /// Whether it begins before this byte.
    pub(crate) fn begins_before(&self, seq: u32) -> bool {
        seq.wrapping_sub(self.seq).wrapping_sub(1) < 1 << 30
    }

    /// Bytes behind the header.
    pub(crate) fn body(&self) -> u64 {
        self.len.saturating_sub(HEADER)
    }

    /// Tells plaintext what its record knows; `read` bytes of the record's plaintext came before it.
    pub(crate) fn give(&self, d: &mut DataEvent, read: u64) {
        d.seq = Some(self.seq.wrapping_add(read as u32));
        (d.enter_ns, d.exit_ns) = (self.enter_ns, self.exit_ns);
        if d.exchange == 0 {
            (d.exchange, d.cause, d.cause_evidence) = (self.exchange, self.cause, self.cause_evidence);
        }
    }
}

/// Records without a seen header: the first begins at `at`; how long each is, only its plaintext will tell.
#[derive(Clone, Copy, Debug)]
struct Unseen {
    at: u32,
    end: u32,
    /// The last call that moved some of it.
    call: Record,
}

/// One direction.
#[derive(Debug, Default)]
pub(crate) struct Half {
    /// Sequence number at which the next header begins, if that is known.
    next: Option<u32>,
    /// A header that a call broke off.
    broken: Vec<u8>,
    /// Bytes in which records begin whose headers were not captured.
    unseen: Option<Unseen>,
    records: VecDeque<Record>,
    /// Records seen while no plaintext had come.
    unread: u32,
    /// The last record announced that what follows is encrypted.
    changes: bool,
    /// What followed looked like data: TLS 1.3, which hides the handshake (RFC 8446, appendix D.4).
    pub(crate) is_1_3: bool,
}

impl Half {
    /// Takes a call. `wanted` tells whether plaintext is read already.
    pub(crate) fn call(&mut self, d: &DataEvent, wanted: bool) {
        let Some(seq) = d.seq else { return };
        if let Some(unseen) = &mut self.unseen {
            // A call that begins with a header ends the guessing: what was read in pieces has shifted it.
            let anew = starts_record(&d.payload);
            if !anew && seq == unseen.end && seq.wrapping_sub(unseen.at) < MAX_UNSEEN {
                unseen.end = seq.wrapping_add(d.len as u32);
                unseen.call = Record::of_call(d);
                return;
            }
            self.unseen = None;
        }
        let next = match self.next {
            // Further on than this call reaches: it lies within the last record. Before it: something was lost.
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
                // The call ended within the header, or what was copied of it did.
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

    /// What came of the last record with this call. A message is received when its last byte is, and sent when its
    /// first.
    fn carry(&mut self, d: &DataEvent, seq: u32) {
        let Some(last) = self.records.back_mut().filter(|r| !r.complete) else { return };
        let end = last.seq.wrapping_add(last.len as u32);
        last.complete = end.wrapping_sub(seq) as u64 <= d.len;
        if d.direction == Direction::Ingress {
            last.carried_by(d);
        }
    }

    /// Whether it is known where the next record begins.
    pub(crate) fn is_framed(&self) -> bool {
        self.next.is_some() || self.unseen.is_some()
    }

    /// The next record whose header was not seen, for this plaintext: its length follows from that.
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

    /// Drops records that begin before this.
    pub(crate) fn forget_before(&mut self, seq: u32) {
        while self.records.front().is_some_and(|r| r.begins_before(seq)) {
            self.records.pop_front();
        }
    }

    /// Drops records that end before this.
    pub(crate) fn forget_ended(&mut self, seq: u32) {
        while self.records.front().is_some_and(|r| !r.ends_after(seq)) {
            self.records.pop_front();
        }
    }

    /// How many records, from the first on, carry so much plaintext, and what each adds to its share; `None` unless the
    /// first begins here and it comes out even.
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

    /// The first record, if all of it has come.
    pub(crate) fn complete(&self) -> Option<Record> {
        self.records.front().copied().filter(|r| r.complete)
    }

    pub(crate) fn pop(&mut self) -> Option<Record> {
        self.records.pop_front()
    }

    /// Place of the first complete record of which this is so.
    pub(crate) fn position(&self, is: impl Fn(&Record) -> bool) -> Option<usize> {
        self.records.iter().position(|r| (r.complete) && is(r))
    }

    /// The complete record at a place.
    pub(crate) fn at(&self, place: usize) -> Option<Record> {
        self.records.get(place).copied().filter(|r| r.complete)
    }

    /// Forgets the first so many.
    pub(crate) fn skip(&mut self, count: usize) {
        self.records.drain(..count.min(self.records.len()));
    }

    /// Takes a record, and forgets those before it.
    pub(crate) fn take(&mut self, at: usize) -> Option<Record> {
        self.records.drain(..=at).next_back()
    }
}
