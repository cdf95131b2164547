//! Samples of running threads: the stacks that the clocks of the processors found. They are kept for a while without
//! names. Those of a request that turns out to be slow are told with the waits of its threads.

use super::stacks::{Stacks, Taken};
use crate::wire::contract::{Sample, Stack, WS_SAMPLE};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Most samples that are kept, of all threads together; beyond it the oldest goes.
const MOST: usize = 20_000;

/// A sample.
struct Kept {
    time_ns: u64,
    stack: Taken,
}

/// The samples of each thread, oldest first.
#[derive(Default)]
pub(super) struct Samples {
    threads: FxHashMap<u32, VecDeque<Kept>>,
    /// The thread and time of each sample, oldest first; those that were told stay here.
    order: VecDeque<(u32, u64)>,
}

impl Samples {
    /// Whether a record is a sample.
    pub(super) fn owns(record: &[u8]) -> bool {
        record.first().is_some_and(|kind| u32::from(*kind) == WS_SAMPLE)
    }

    /// Keeps a sample; `None` if it does not match the contract. The copy of its stack is followed now: the kernel does
    /// not keep it as long as samples are kept.
    pub(super) fn read(&mut self, record: &[u8], stacks: &Stacks) -> Option<()> {
        let head = Sample::read(record)?;
        let stack = stacks.take(record.get(Sample::SIZE - Stack::SIZE..)?)?;
        self.threads.entry(head.tid).or_default().push_back(Kept { time_ns: head.time_ns, stack });
        self.order.push_back((head.tid, head.time_ns));
        if self.order.len() > MOST {
            self.forget_oldest();
        }
        Some(())
    }

    fn forget_oldest(&mut self) {
        let Some((tid, time_ns)) = self.order.pop_front() else { return };
        let Some(samples) = self.threads.get_mut(&tid) else { return };
        if samples.front().is_some_and(|oldest| oldest.time_ns <= time_ns) {
            samples.pop_front();
        }
        if samples.is_empty() {
            self.threads.remove(&tid);
        }
    }

    /// Takes the samples of a thread of this process in this time, in the kernel's time.
    pub(super) fn take(&mut self, pid: u32, tid: u32, since_ns: u64, until_ns: u64) -> Vec<(u64, Taken)> {
        let Some(samples) = self.threads.get_mut(&tid) else { return Vec::new() };
        let is_within = |s: &Kept| (since_ns..=until_ns).contains(&s.time_ns) && s.stack.stack.pid == pid;
        let (taken, left) = std::mem::take(samples).into_iter().partition(is_within);
        *samples = left;
        let taken: VecDeque<Kept> = taken;
        taken.into_iter().map(|s| (s.time_ns, s.stack)).collect()
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        *self = Samples::default();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::wire::contract::{WS_STACK_KERNEL, WS_STACK_USER};

    fn record(tid: u32, time_ns: u64, kernel: u16, user: u16) -> Vec<u8> {
        let stack = Stack { pid: 7, kernel, user, ..Stack::default() };
        let head = Sample { kind: WS_SAMPLE as u8, tid, time_ns, stack, ..Sample::default() };
        let mut record = head.to_bytes().to_vec();
        let frames = WS_STACK_KERNEL as usize + usize::from(user);
        record.extend((1..=frames as u64).flat_map(u64::to_ne_bytes));
        record
    }

    #[test]
    fn samples_of_a_request_are_taken_once_and_others_stay() {
        let mut samples = Samples::default();
        for time_ns in [10, 20, 30] {
            samples.read(&record(8, time_ns, 2, 3), &Stacks::default()).unwrap();
        }
        assert!(Samples::owns(&record(8, 1, 0, 0)));
        assert!(samples.take(9, 8, 0, 100).is_empty(), "of another process that had this thread id");
        let taken = samples.take(7, 8, 20, 30);
        assert_eq!(taken.iter().map(|(time_ns, _)| *time_ns).collect::<Vec<_>>(), [20, 30]);
        assert_eq!((&*taken[0].1.stack.kernel, &*taken[0].1.stack.user), (&[1, 2][..], &[25, 26, 27][..]));
        assert_eq!(samples.take(7, 8, 0, 100).len(), 1);
    }

    #[test]
    fn what_is_kept_is_bounded_and_bad_records_are_refused() {
        let mut samples = Samples::default();
        for n in 0..MOST as u64 + 50 {
            samples.read(&record((n % 5) as u32, n, 0, 1), &Stacks::default()).unwrap();
        }
        assert_eq!((samples.order.len(), samples.threads.values().map(VecDeque::len).sum::<usize>()), (MOST, MOST));
        let whole = record(8, 1, 24, WS_STACK_USER as u16);
        assert!((0..whole.len()).all(|end| samples.read(&whole[..end], &Stacks::default()).is_none()));
    }
}
