//! The facts of one message, gathered while it is read.

use super::records::Batch;
use smallvec::SmallVec;
use wirespan_model::Carried;

/// Most partitions of one message that are told apart.
pub(super) const MAX_PARTS: usize = 16;

/// Most batches of one message that are told apart.
const MAX_BATCHES: usize = 256;

/// A topic, by name or by id (fetch and produce from version 13 on).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Topic<'a> {
    #[default]
    None,
    Name(&'a [u8]),
    Id([u8; 16]),
}

/// One partition of a produce or fetch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Part<'a> {
    pub(super) topic: Topic<'a>,
    pub(super) index: i32,
    /// First offset: of the records, or the one that was asked for.
    pub(super) offset: Option<i64>,
    /// Last offset, when the records were seen to their end.
    pub(super) last: Option<i64>,
    /// Records, when they were seen to their end.
    pub(super) records: Option<u64>,
    /// There are records, seen or not.
    pub(super) filled: bool,
    /// Offset behind the last record that consumers may read.
    pub(super) high: Option<i64>,
    /// The same for consumers that read only committed records.
    pub(super) stable: Option<i64>,
    /// Bytes of records: those that there are, or as many as were asked for at most.
    pub(super) bytes: u32,
}

/// The facts of a message.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts<'a> {
    parts: [Part<'a>; MAX_PARTS],
    seen: usize,
    /// Partitions in the message, those beyond [`MAX_PARTS`] included.
    pub(super) partitions: u32,
    /// Partitions that the topics read so far say they have.
    declared: u32,
    /// Topics whose number of partitions was read.
    begun: u32,
    /// The topic of messages that are not about partitions.
    pub(super) topic: Topic<'a>,
    /// Topics that the message names.
    pub(super) topics: Option<u32>,
    pub(super) group: Option<&'a [u8]>,
    /// First error code that is not zero.
    pub(super) error: Option<i16>,
    pub(super) acks: Option<i16>,
    pub(super) max_wait_ms: Option<i32>,
    /// Most bytes that are asked for.
    pub(super) max_bytes: Option<u32>,
    /// The fetch asks for committed records only.
    pub(super) committed: bool,
    /// Length of the message on the wire.
    pub(super) len: u64,
    /// Epoch of a fetch session; above 0 only what changed is named.
    pub(super) epoch: Option<i32>,
    /// Topics leave the fetch session.
    pub(super) forgets: bool,
    /// Compression of the first batch that has one.
    pub(super) codec: Option<&'static str>,
    /// Batches, each with the place of its partition in [`Facts::parts`].
    pub(super) batches: SmallVec<[(usize, Batch); 1]>,
    /// Context in the headers of the first record that has one.
    pub(super) context: Option<Carried<'a>>,
    pub(super) software: Option<(&'a [u8], &'a [u8])>,
    /// Partitions that are there for another broker to copy: no consumer.
    pub(super) replica: bool,
}

impl<'a> Facts<'a> {
    pub(super) fn push(&mut self, part: Part<'a>) {
        self.partitions = self.partitions.saturating_add(1);
        if let Some(free) = self.parts.get_mut(self.seen) {
            *free = part;
            self.seen = self.seen.saturating_add(1);
        }
    }

    /// Batches of the partition that was pushed last.
    pub(super) fn name(&mut self, batches: SmallVec<[Batch; 1]>) {
        if let (Some(at), Some(_)) = (self.seen.checked_sub(1), self.last_part()) {
            self.batches.extend(batches.into_iter().map(|batch| (at, batch)));
            self.batches.truncate(MAX_BATCHES);
        }
    }

    /// A topic with so many partitions begins.
    pub(super) fn begin(&mut self, partitions: u32) {
        self.begun = self.begun.saturating_add(1);
        self.declared = self.declared.saturating_add(partitions);
    }

    /// Records of all partitions, if every one was counted.
    pub(super) fn count(&self) -> Option<i64> {
        let all = self.topics == Some(self.begun) && self.declared == self.partitions;
        if !all || usize::try_from(self.partitions) != Ok(self.seen) {
            return None;
        }
        let records = self.parts().iter().map(|p| p.records).try_fold(0u64, |sum, n| sum.checked_add(n?))?;
        i64::try_from(records).ok()
    }

    /// The partitions that are told apart.
    pub(super) fn parts(&self) -> &[Part<'a>] {
        self.parts.get(..self.seen).unwrap_or_default()
    }

    /// The partition that was pushed last.
    pub(super) fn last_part(&mut self) -> Option<&mut Part<'a>> {
        if usize::try_from(self.partitions) != Ok(self.seen) {
            return None;
        }
        self.parts.get_mut(self.seen.checked_sub(1)?)
    }

    /// Remembers the first error.
    pub(super) fn code(&mut self, code: i16) {
        if self.error.is_none_or(|old| old == 0) {
            self.error = Some(code);
        }
    }
}
