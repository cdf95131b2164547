//! Which system calls the threads of a request made for it.
//!
//! A call belongs to the request for which its thread acted when the call began, as a wait does. The call that read the
//! request began before it; the one that sends the answer belongs to the request.

use super::waits::Stretch;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use wirespan_model::syscalls::{CallForm, CallSum, SpanCall, SpanCalls, ThreadCall};

/// Most calls that are kept, of all threads together; beyond it the older half goes.
const MOST: usize = 200_000;
/// Most calls of one span that are told one by one: the first ones.
const MOST_OF_SPAN: usize = 512;

/// The calls of each thread, oldest first.
#[derive(Debug, Default)]
pub(super) struct Calls {
    threads: FxHashMap<u32, VecDeque<ThreadCall>>,
    /// When the last call began that was forgotten, of any thread, ns.
    forgotten_until_ns: u64,
    count: usize,
    /// Calls that gave way to newer ones. Whether a span needed them is not known.
    pub(super) forgotten: u64,
}

impl Calls {
    pub(super) fn add(&mut self, call: ThreadCall) {
        let thread = self.threads.entry(call.tid).or_default();
        // The id of a thread that ended is used again.
        if thread.back().is_some_and(|last| last.pid != call.pid) {
            self.count -= thread.len();
            thread.clear();
        }
        thread.push_back(call);
        self.count += 1;
        if self.count > MOST {
            self.make_room();
        }
    }

    fn make_room(&mut self) {
        let mut times: Vec<u64> = self.threads.values().flatten().map(|call| call.began_ns).collect();
        let middle = times.len() / 2;
        let half_ns = *times.select_nth_unstable(middle).1;
        for thread in self.threads.values_mut() {
            let old = thread.partition_point(|call| call.began_ns <= half_ns);
            thread.drain(..old);
        }
        self.threads.retain(|_, thread| !thread.is_empty());
        self.forgotten_until_ns = half_ns;
        let left = self.threads.values().map(VecDeque::len).sum();
        self.forgotten += (self.count - left) as u64;
        self.count = left;
    }

    /// The calls that began in these stretches.
    pub(super) fn of(&self, stretches: &[Stretch], form: CallForm) -> SpanCalls {
        let mut told = SpanCalls { form, ..SpanCalls::default() };
        let mut sums: FxHashMap<&str, CallSum> = FxHashMap::default();
        let mut each: Vec<&ThreadCall> = Vec::new();
        told.incomplete = stretches.iter().any(|s| s.from_ns <= self.forgotten_until_ns);
        for s in stretches {
            let Some(thread) = self.threads.get(&s.tid) else { continue };
            let first = thread.partition_point(|call| call.began_ns < s.from_ns);
            let within = thread.range(first..).take_while(|call| call.began_ns < s.to_ns);
            for call in within {
                let ns = call.ended_ns.saturating_sub(call.began_ns);
                let sum =
                    sums.entry(call.name).or_insert_with(|| CallSum { name: call.name.into(), ..CallSum::default() });
                sum.count += 1;
                sum.failed += u64::from(call.result < 0);
                sum.total_ns += ns;
                sum.longest_ns = sum.longest_ns.max(ns);
                told.lost += u64::from(call.lost_before);
                each.push(call);
            }
        }
        told.sums = sums.into_values().collect();
        told.sums.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.name.cmp(&b.name)));
        if form == CallForm::Attributes {
            return told;
        }
        each.sort_by_key(|call| call.began_ns);
        told.left_out = each.len().saturating_sub(MOST_OF_SPAN) as u64;
        let place = |name: &str| told.sums.iter().position(|sum| sum.name == name).unwrap_or_default();
        let span_call = |call: &&ThreadCall| SpanCall {
            sum: u32::try_from(place(call.name)).unwrap_or_default(),
            start_ns: call.began_ns,
            duration_ns: call.ended_ns.saturating_sub(call.began_ns),
            result: call.result,
            tid: call.tid,
        };
        told.calls = each.iter().take(MOST_OF_SPAN).map(span_call).collect();
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(tid: u32, began_ns: u64, name: &'static str) -> ThreadCall {
        ThreadCall { pid: 1, tid, began_ns, ended_ns: began_ns + 3, name, ..ThreadCall::default() }
    }

    #[test]
    fn calls_that_began_while_a_thread_acted_for_the_request_are_counted_by_name() {
        let mut calls = Calls::default();
        for (at, name) in [(5, "read"), (10, "getpid"), (12, "openat"), (15, "getpid"), (20, "getpid")] {
            calls.add(call(7, at, name));
            calls.add(call(8, at, "futex"));
        }
        calls.add(ThreadCall { result: -2, lost_before: 3, ..call(9, 11, "openat") });
        let stretches = [Stretch::all_of(7, (10, 20)), Stretch::all_of(9, (0, 20)), Stretch::all_of(6, (0, 20))];
        let told = calls.of(&stretches, CallForm::Attributes);
        let sums: Vec<_> = told.sums.iter().map(|s| (&*s.name, s.count, s.failed, s.total_ns, s.longest_ns)).collect();
        assert_eq!(sums, [("getpid", 2, 0, 6, 3), ("openat", 2, 1, 6, 3)]);
        assert_eq!((told.lost, told.calls.len()), (3, 0));
        let told = calls.of(&stretches, CallForm::Events);
        let each: Vec<_> = told.calls.iter().map(|c| (told.name(c), c.start_ns, c.result)).collect();
        assert_eq!(each, [("getpid", 10, 0), ("openat", 11, -2), ("openat", 12, 0), ("getpid", 15, 0)]);
    }

    #[test]
    fn what_is_kept_and_told_is_bounded_and_counted() {
        let mut calls = Calls::default();
        let most = MOST_OF_SPAN as u64;
        (0..most + 5).for_each(|n| calls.add(call(7, n, "getpid")));
        let told = calls.of(&[Stretch::all_of(7, (0, u64::MAX))], CallForm::Spans);
        assert_eq!((told.calls.len() as u64, told.left_out, told.sums[0].count), (most, 5, most + 5));
        calls.add(ThreadCall { pid: 2, ..call(7, 9_999, "getpid") });
        assert_eq!(calls.count, 1, "another thread has its id");
        let more = MOST as u64 + 10;
        (0..more).for_each(|n| calls.add(call(n as u32 % 50, 10_000 + n, "getpid")));
        let kept: usize = calls.threads.values().map(VecDeque::len).sum();
        assert!(calls.count == kept && kept <= MOST);
        assert_eq!(calls.forgotten + kept as u64, more);
        assert!(calls.forgotten >= MOST as u64 / 2);
        let told = |from_ns| calls.of(&[Stretch::all_of(7, (from_ns, u64::MAX))], CallForm::Attributes).incomplete;
        assert_eq!((told(10_000), told(10_000 + MOST as u64)), (true, false));
    }
}
