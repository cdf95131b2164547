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

/// The marks of each thread, oldest first, and where those of each socket are.
#[derive(Debug, Default)]
pub(super) struct Marks {
    threads: FxHashMap<u32, VecDeque<ClockMark>>,
    /// Of each socket: when something was moved, and by which thread.
    sockets: FxHashMap<u64, VecDeque<(u64, u32)>>,
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
        // Records may come in another order from two processors.
        let at = thread.iter().rposition(|m| m.time_ns <= mark.time_ns).map_or(0, |before| before + 1);
        thread.insert(at, mark);
        let socket = self.sockets.entry(mark.socket).or_default();
        let at = socket.iter().rposition(|(time_ns, _)| *time_ns <= mark.time_ns).map_or(0, |before| before + 1);
        socket.insert(at, (mark.time_ns, mark.tid));
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
        let half_ns = *times.select_nth_unstable(middle).1;
        for thread in self.threads.values_mut() {
            let old = thread.partition_point(|m| m.time_ns < half_ns);
            thread.drain(..old.min(thread.len().saturating_sub(FEW)));
        }
        if self.threads.len() * FEW > MOST / 2 {
            self.threads.retain(|_, thread| thread.back().is_some_and(|last| last.time_ns >= half_ns));
        }
        self.count = self.threads.values().map(VecDeque::len).sum();
        let threads = &self.threads;
        self.sockets.retain(|socket, times| {
            times.retain(|at| find(threads, *socket, *at).is_some());
            !times.is_empty()
        });
    }

    /// The messages of a socket from one time to another, moved by threads of this process.
    pub(super) fn of_socket(&self, pid: u32, socket: u64, from_ns: u64, to_ns: u64) -> impl Iterator<Item = Point<'_>> {
        let times = self.sockets.get(&socket);
        let first = times.map_or(0, |times| times.partition_point(|(time_ns, _)| *time_ns < from_ns));
        let after_first = times.into_iter().flat_map(move |times| times.iter().skip(first));
        let within = after_first.take_while(move |(time_ns, _)| *time_ns <= to_ns);
        within.filter_map(move |at| find(&self.threads, socket, *at)).filter(move |p| p.mark.pid == pid)
    }

    /// The requests for which a thread last moved a message before a time, and first after it.
    pub(super) fn requests_around(&self, pid: u32, tid: u32, time_ns: u64) -> (Option<u64>, Option<u64>) {
        const LOOK: usize = 64;
        let marks = self.threads.get(&tid).filter(|marks| marks.back().is_some_and(|last| last.pid == pid));
        let Some(marks) = marks else { return (None, None) };
        let at = marks.partition_point(|m| m.time_ns <= time_ns);
        let known = |m: &ClockMark| Some(m.request).filter(|request| *request != 0);
        (marks.range(..at).rev().take(LOOK).find_map(known), marks.range(at..).take(LOOK).find_map(known))
    }

    /// The time of the latest message.
    pub(super) fn latest_ns(&self) -> u64 {
        self.latest_ns
    }

    /// The messages of a thread from the last one before a time to the first one after it; `None` if there is none
    /// before it or after it.
    pub(super) fn around(&self, pid: u32, tid: u32, from_ns: u64, to_ns: u64) -> Option<Vec<&ClockMark>> {
        let marks = self.threads.get(&tid).filter(|marks| marks.back().is_some_and(|last| last.pid == pid))?;
        let first = marks.partition_point(|m| m.time_ns <= from_ns).checked_sub(1)?;
        let last = marks.partition_point(|m| m.time_ns < to_ns);
        marks.get(last).map(|_| marks.range(first..=last).collect())
    }
}

fn find(threads: &FxHashMap<u32, VecDeque<ClockMark>>, socket: u64, (time_ns, tid): (u64, u32)) -> Option<Point<'_>> {
    let marks = threads.get(&tid)?;
    let first = marks.partition_point(|m| m.time_ns < time_ns);
    let mut now = marks.range(first..).take_while(|m| m.time_ns == time_ns);
    let at = first + now.position(|m| m.socket == socket)?;
    let mark = marks.get(at)?;
    Some(Point { before: at.checked_sub(1).and_then(|before| marks.get(before)), mark, after: marks.get(at + 1) })
}

/// A mark, and its neighbours on the thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point<'a> {
    pub(super) before: Option<&'a ClockMark>,
    pub(super) mark: &'a ClockMark,
    pub(super) after: Option<&'a ClockMark>,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use wirespan_model::event::Clocks;

    fn mark(tid: u32, time_ns: u64) -> ClockMark {
        let clocks = Clocks::default();
        ClockMark { pid: 1, tid, began_ns: time_ns, time_ns, socket: u64::from(tid), exchange: 0, request: 0, clocks }
    }

    #[test]
    fn what_is_kept_is_bounded_and_silent_threads_keep_their_last() {
        let mut marks = Marks::default();
        (0..10).for_each(|n| marks.add(mark(7, n)));
        (10..4 * MOST as u64).for_each(|n| marks.add(mark(1 + (n % 3) as u32, n)));
        let kept: usize = marks.threads.values().map(VecDeque::len).sum();
        assert!(marks.count <= MOST && kept == marks.count);
        assert_eq!(marks.sockets.values().map(VecDeque::len).sum::<usize>(), kept);
        assert_eq!(marks.of_socket(1, 7, 0, 9).count(), FEW);
    }

    #[test]
    fn marks_are_in_order_and_another_process_has_none() {
        let mut marks = Marks::default();
        [5, 9, 7].into_iter().for_each(|n| marks.add(mark(1, n)));
        let points = marks.of_socket(1, 1, 6, 9);
        let seen: Vec<_> = points.map(|p| (p.before.unwrap().time_ns, p.mark.time_ns)).collect();
        assert_eq!(seen, [(5, 7), (7, 9)]);
        assert_eq!(marks.of_socket(2, 1, 0, 9).count(), 0);
    }

    #[test]
    fn threads_without_number_are_forgotten() {
        let mut marks = Marks::default();
        (0..3 * MOST as u64).for_each(|n| marks.add(mark(n as u32, n)));
        assert!(marks.count <= MOST && marks.sockets.len() <= MOST, "{}", marks.count);
    }
}
