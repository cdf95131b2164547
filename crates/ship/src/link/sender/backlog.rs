//! Encoded batches that the server has not acknowledged.

use std::collections::VecDeque;
use std::sync::Arc;

/// Encoded spans or flows.
pub(super) struct Batch {
    pub(super) number: u64,
    pub(super) kind: u8,
    /// Number of spans or flows in the batch.
    pub(super) items: usize,
    pub(super) bytes: Arc<Vec<u8>>,
}

/// Batches, oldest first.
pub(super) struct Backlog {
    batches: VecDeque<Batch>,
    bytes: usize,
    /// How many of the oldest batches were sent on this connection.
    in_flight: usize,
    next_number: u64,
}

impl Default for Backlog {
    fn default() -> Self {
        Backlog { batches: VecDeque::new(), bytes: 0, in_flight: 0, next_number: 1 }
    }
}

impl Backlog {
    /// Bytes of all batches.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    pub(super) fn batches(&self) -> impl Iterator<Item = &Batch> {
        self.batches.iter()
    }

    /// Adds encoded batches, each with the number of its items.
    pub(super) fn push(&mut self, kind: u8, batches: Vec<(usize, Vec<u8>)>) {
        for (items, bytes) in batches {
            self.bytes += bytes.len();
            self.batches.push_back(Batch { number: self.next_number, kind, items, bytes: Arc::new(bytes) });
            self.next_number += 1;
        }
    }

    /// If there are more bytes than this, removes the oldest batch that is not in flight. Newer data are worth more.
    pub(super) fn drop_beyond(&mut self, max_bytes: usize) -> Option<Batch> {
        if self.bytes <= max_bytes {
            return None;
        }
        let victim = self.in_flight.min(self.batches.len().saturating_sub(1));
        let batch = self.batches.remove(victim)?;
        self.in_flight = self.in_flight.min(self.batches.len());
        self.bytes -= batch.bytes.len();
        Some(batch)
    }

    /// Removes the oldest batch if it has this number or a lower one.
    pub(super) fn pop_acked(&mut self, number: u64) -> Option<Batch> {
        self.batches.front().filter(|b| b.number <= number)?;
        let batch = self.batches.pop_front()?;
        self.in_flight = self.in_flight.saturating_sub(1);
        self.bytes -= batch.bytes.len();
        Some(batch)
    }

    /// The next batch to send, if fewer than `window` are in flight.
    pub(super) fn next_to_send(&self, window: usize) -> Option<&Batch> {
        self.batches.get(self.in_flight).filter(|_| self.in_flight < window)
    }

    /// The batch of [`Backlog::next_to_send`] was sent.
    pub(super) fn sent_one(&mut self) {
        self.in_flight += 1;
    }

    /// Marks every batch as not sent, because the connection is new or has ended.
    pub(super) fn nothing_in_flight(&mut self) {
        self.in_flight = 0;
    }
}
