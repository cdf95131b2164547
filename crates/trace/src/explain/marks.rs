//! What is remembered of threads: where their clocks stood at each message.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use wirespan_model::event::ClockMark;

/// Most marks that are kept, of all threads together.
const MOST: usize = 100_000;
/// So many marks of each thread stay, however old: a request that takes minutes began at one of them.
const FEW: usize = 4;
/// A thread that is silent for longer is forgotten, ns.
const SILENT_NS: u64 = 900_000_000_000;

/// The marks of each thread, oldest first.
#[derive(Debug, Default)]
pub(super) struct Marks {
    threads: FxHashMap<u32, VecDeque<ClockMark>>,
    count: usize,
    latest_ns: u64,
}

impl Marks {
    pub(super) fn add(&mut self, mark: ClockMark) {
        let thread = self.threads.entry(mark.tid).or_default();
        // The id of a thread that ended is used again.
        if thread.back().is_some_and(|last| last.pid != mark.pid) {
            self.count -= thread.len();
            thread.clear();
        }
        // Records of one thread may come in another order from two processors.
        let at = thread.iter().rposition(|m| m.time_ns <= mark.time_ns).map_or(0, |before| before + 1);
        thread.insert(at, mark);
        self.count += 1;
        self.latest_ns = self.latest_ns.max(mark.time_ns);
        if self.count > MOST {
            self.make_room();
        }
    }

    /// Forgets the older half, but a few of each thread.
    fn make_room(&mut self) {
        let silent_ns = self.latest_ns.saturating_sub(SILENT_NS);
        self.threads.retain(|_, thread| thread.back().is_some_and(|last| last.time_ns > silent_ns));
        let mut times: Vec<u64> = self.threads.values().flatten().map(|m| m.time_ns).collect();
        let middle = times.len() / 2;
        let (_, half_ns, _) = times.select_nth_unstable(middle);
        for thread in self.threads.values_mut() {
            let old = thread.partition_point(|m| m.time_ns < *half_ns);
            thread.drain(..old.min(thread.len().saturating_sub(FEW)));
        }
        if self.threads.len() * FEW > MOST / 2 {
            self.threads.retain(|_, thread| thread.back().is_some_and(|last| last.time_ns >= *half_ns));
        }
        self.count = self.threads.values().map(VecDeque::len).sum();
    }

    /// The marks of a thread from one time to another.
    pub(super) fn between(&self, (pid, tid): (u32, u32), from_ns: u64, to_ns: u64) -> Thread<'_> {
        let of_process = |thread: &&VecDeque<ClockMark>| thread.back().is_some_and(|m| m.pid == pid);
        let Some(marks) = self.threads.get(&tid).filter(of_process) else { return Thread::default() };
        let first = marks.partition_point(|m| m.time_ns < from_ns);
        let behind = marks.partition_point(|m| m.time_ns <= to_ns);
        Thread { marks: Some(marks), first, behind: behind.max(first) }
    }
}

/// Some marks of a thread, among all that are kept of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Thread<'a> {
    marks: Option<&'a VecDeque<ClockMark>>,
    first: usize,
    behind: usize,
}

impl<'a> Thread<'a> {
    /// The marks, each with the one before it and the one after it on the thread.
    pub(super) fn points(self) -> impl Iterator<Item = Point<'a>> {
        let get = move |at: usize| self.marks.and_then(|marks| marks.get(at));
        let point =
            move |at: usize| Some(Point { before: get(at.wrapping_sub(1)), mark: get(at)?, after: get(at + 1) });
        (self.first..self.behind).filter_map(point)
    }
}

/// A mark, and its neighbours on the thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point<'a> {
    pub(super) before: Option<&'a ClockMark>,
    pub(super) mark: &'a ClockMark,
    pub(super) after: Option<&'a ClockMark>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(tid: u32, time_ns: u64) -> ClockMark {
        let clocks = wirespan_model::event::Clocks::default();
        ClockMark { pid: 1, tid, began_ns: time_ns, time_ns, socket: 0, exchange: 0, clocks }
    }

    #[test]
    fn what_is_kept_is_bounded_and_silent_threads_keep_their_last() {
        let mut marks = Marks::default();
        (0..10).for_each(|n| marks.add(mark(7, n)));
        (10..4 * MOST as u64).for_each(|n| marks.add(mark(1 + (n % 3) as u32, n)));
        assert!(marks.count <= MOST && marks.threads.values().map(VecDeque::len).sum::<usize>() == marks.count);
        assert_eq!(marks.between((1, 7), 0, 9).points().count(), FEW);
    }

    #[test]
    fn marks_are_in_order_and_a_thread_of_another_process_has_none() {
        let mut marks = Marks::default();
        [5, 9, 7].into_iter().for_each(|n| marks.add(mark(1, n)));
        let seen: Vec<_> =
            marks.between((1, 1), 6, 9).points().map(|p| (p.before.unwrap().time_ns, p.mark.time_ns)).collect();
        assert_eq!(seen, [(5, 7), (7, 9)]);
        assert_eq!(marks.between((2, 1), 0, 9).points().count(), 0);
    }

    #[test]
    fn threads_without_number_are_forgotten() {
        let mut marks = Marks::default();
        (0..3 * MOST as u64).for_each(|n| marks.add(mark(n as u32, n)));
        assert!(marks.count <= MOST, "{}", marks.count);
    }
}
