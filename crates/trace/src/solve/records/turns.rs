//! Records of a consumer that commits each of them by itself.
//!
//! Such a consumer says before each record that it takes it, or after each record that it is done. So its calls between
//! two commits are for the record of the one before, or for that of the one behind. Which of both is told by what is
//! called for each topic, and by the calls before the first commit.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use wirespan_model::Span;

/// Most commits that are remembered, and most of those that tell which calls belong to a commit.
const MAX_COMMITS: usize = 4_096;
const TELLING: usize = 256;
/// Commits from which on it can be said that a consumer commits each record, and so many in one that may be otherwise.
const LEAST: u32 = 4;
const RARE: u32 = 20;
/// Counted commits from which on old ones count half.
const MANY: u32 = 1_000;
/// How much better the calls of a topic must agree if they belong to one side of the commits.
const CLEARLY: f64 = 0.02;

/// A record by its place and its offset.
pub(super) type Name = (u64, u64);

/// What a commit says of a partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moved {
    pub(super) place: u64,
    /// The offset behind the last record that is taken, or done.
    pub(super) next: u64,
    /// The first offset that was fetched there.
    pub(super) first: Option<u64>,
    pub(super) topic: u64,
}

#[derive(Clone, Copy, Debug)]
struct Commit {
    at_ns: u64,
    /// The last one. `None`: which of several partitions had the last one is not known.
    record: Option<Name>,
    topic: u64,
    /// It is for several records.
    is_for_several: bool,
}

/// A call that may have been made for a record.
#[derive(Clone, Copy, Debug)]
struct Made {
    start_ns: u64,
    end_ns: u64,
    class: u64,
}

/// Which record is worked on at which time.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// In the order of time.
    commits: VecDeque<Commit>,
    made: VecDeque<Made>,
    /// By place, the offset that was committed last.
    last: FxHashMap<u64, u64>,
    /// Commits of one record, and of several.
    one: u32,
    several: u32,
    /// Whether a record is committed before the calls for it, if that was told.
    lead: Option<bool>,
}

impl Turns {
    /// Everything up to these offsets is taken, or done.
    pub(super) fn commit(&mut self, at_ns: u64, all: &[Moved]) {
        let (mut records, mut places, mut record) = (0, 0, None);
        for Moved { place, next, first, topic } in all {
            let last = self.last.insert(*place, *next).or(*first);
            let Some(moved) = last.and_then(|last| next.checked_sub(last)).filter(|moved| *moved > 0) else { continue };
            (records, places, record) = (records + moved, places + 1, Some(((*place, *next - 1), *topic)));
        }
        let Some((record, topic)) = record else { return };
        if records > 1 {
            self.several += 1;
        } else {
            self.one += 1;
        }
        if self.one + self.several >= MANY {
            (self.one, self.several) = (self.one / 2, self.several / 2);
        }
        if self.commits.len() >= MAX_COMMITS {
            self.commits.pop_front();
        }
        let at = self.commits.partition_point(|c| c.at_ns <= at_ns);
        let record = (places == 1).then_some(record);
        self.commits.insert(at, Commit { at_ns, record, topic, is_for_several: records > 1 });
    }

    /// A call that may have been made for a record.
    pub(super) fn call(&mut self, span: &Span, class: u64) {
        let made = Made { start_ns: span.start_ns, end_ns: span.end_ns, class };
        if self.made.len() >= MAX_COMMITS {
            self.made.pop_front();
        }
        let at = self.made.partition_point(|m| m.start_ns <= made.start_ns);
        self.made.insert(at, made);
    }

    /// Whether the consumer commits each record by itself, and works on one after the other. If so: whether it commits
    /// a record before the calls for it, and how sure that is.
    pub(super) fn told(&mut self) -> Option<(bool, f64)> {
        let all = self.one + self.several;
        if self.one < LEAST || self.several * RARE > all {
            return None;
        }
        let from = self.commits.len().saturating_sub(TELLING);
        let recent: Vec<Commit> = self.commits.iter().skip(from).copied().collect();
        let first_ns = recent.first().map_or(0, |commit| commit.at_ns);
        // By the number of commits before: what was called.
        let mut calls = vec![0_u64; recent.len() + 1];
        let mut beside = 0;
        let (mut next, mut busy_until_ns) = (0, 0);
        for made in &self.made {
            while recent.get(next).is_some_and(|commit| commit.at_ns <= made.start_ns) {
                beside += u32::from(recent.get(next).is_some_and(|commit| commit.at_ns < busy_until_ns));
                next += 1;
            }
            busy_until_ns = busy_until_ns.max(made.end_ns);
            // The order of calls at once says nothing.
            if let Some(calls) = calls.get_mut(next) {
                *calls = calls.wrapping_add(made.class | 1);
            }
        }
        if beside * RARE > all {
            return None;
        }
        let (leads, trails) = (agreement(&recent, calls.get(1..).unwrap_or_default()), agreement(&recent, &calls));
        if (leads - trails).abs() >= CLEARLY {
            self.lead = Some(leads > trails);
        }
        let lead = *self.lead.get_or_insert(self.made.front().is_none_or(|made| made.start_ns >= first_ns));
        Some((lead, (f64::from(self.one) + 1.0) / (f64::from(all) + 2.0)))
    }

    /// The record of a call that began at that time. `None` if its commit was before all that is remembered, or is
    /// still to come, or if several records were worked on between two commits.
    pub(super) fn at(&self, at_ns: u64, lead: bool) -> Option<Name> {
        let next = self.commits.partition_point(|c| c.at_ns <= at_ns);
        let at = if lead { next.checked_sub(1)? } else { next };
        if self.commits.get(next).is_some_and(|c| c.is_for_several) {
            return None;
        }
        self.commits.get(at)?.record
    }
}

/// How well the calls of each topic agree, if these are the calls of these commits. What follows the last commit may be
/// still to come.
fn agreement(commits: &[Commit], calls: &[u64]) -> f64 {
    let mut seen: FxHashMap<u64, FxHashMap<u64, u32>> = FxHashMap::default();
    let known = commits.len().saturating_sub(1);
    for (commit, calls) in commits.iter().zip(calls).take(known) {
        *seen.entry(commit.topic).or_default().entry(*calls).or_default() += 1;
    }
    let best: u32 = seen.values().map(|calls| calls.values().max().copied().unwrap_or(0)).sum();
    f64::from(best) / known.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(turns: &mut Turns, at_ns: u64, place: u64, next: u64) {
        turns.commit(at_ns, &[Moved { place, next, first: Some(0), topic: place }]);
    }

    /// Records of two topics, of which the first has two calls and the second one. Returns the commits' start, and each
    /// call's start with its record.
    fn work(turns: &mut Turns, leads: bool, topics: u64) -> Vec<(u64, Name)> {
        let (mut at, mut calls, mut next) = (1_000, Vec::new(), [0_u64; 2]);
        for n in 0..40_u64 {
            let topic = (n * n / 3) % topics;
            let record = (topic, next[topic as usize]);
            next[topic as usize] += 1;
            let mut commit = |at: &mut u64| {
                self::commit(turns, *at, topic, record.1 + 1);
                *at += 10;
            };
            if leads {
                commit(&mut at);
            }
            for class in [&[11, 13][..], &[17]][topic as usize] {
                calls.push((at, record, *class));
                at += 10;
            }
            if !leads {
                commit(&mut at);
            }
        }
        for (at, _, class) in &calls {
            turns.call(&Span { start_ns: *at, end_ns: at + 8, ..Span::default() }, *class);
        }
        calls.into_iter().map(|(at, record, _)| (at, record)).collect()
    }

    #[test]
    fn calls_belong_to_the_record_that_is_committed_before_or_after_them() {
        for (leads, topics) in [(true, 2), (false, 2), (true, 1), (false, 1)] {
            let mut turns = Turns::default();
            let calls = work(&mut turns, leads, topics);
            let Some((lead, confidence)) = turns.told() else { panic!("nothing is told") };
            assert_eq!(lead, leads, "{topics} topics");
            assert!(confidence > 0.9, "{confidence}");
            for (at, record) in calls {
                assert_eq!(turns.at(at, leads), Some(record), "{leads}");
            }
        }
    }

    #[test]
    fn what_lies_between_commits_of_many_records_is_told_of_none() {
        for leads in [true, false] {
            let mut turns = Turns::default();
            work(&mut turns, leads, 1);
            assert!(turns.at(1_000 + 15, leads).is_some());
            let (last, next) = (1_000_000, 1_000_100);
            commit(&mut turns, last, 0, 41);
            commit(&mut turns, next, 0, 61);
            commit(&mut turns, next + 100, 0, 62);
            assert_eq!(turns.at(last + 50, leads), None, "twenty records");
            assert_eq!(turns.at(next + 50, leads), Some((0, if leads { 60 } else { 61 })));
        }
    }

    #[test]
    fn a_commit_of_several_partitions_that_moves_one_record_names_it() {
        let mut turns = Turns::default();
        let both = |a: u64, b: u64| {
            let moved = |place, next| Moved { place, next, first: Some(0), topic: place };
            [moved(1, a), moved(2, b)]
        };
        turns.commit(100, &both(1, 0));
        turns.commit(200, &both(1, 1));
        turns.commit(300, &both(3, 1));
        turns.commit(400, &both(4, 2));
        assert_eq!((turns.one, turns.several), (2, 2));
        assert_eq!([150, 250, 350, 450].map(|at| turns.at(at, true)), [Some((1, 0)), None, None, None]);
        assert_eq!((turns.at(50, false), turns.at(150, false)), (Some((1, 0)), Some((2, 0))));
    }

    #[test]
    fn what_is_not_committed_yet_is_not_known() {
        let turns = Turns::default();
        assert_eq!((turns.at(5, true), turns.at(5, false)), (None, None));
    }

    #[test]
    fn commits_of_many_records_or_side_by_side_tell_no_turns() {
        let (mut many, mut beside) = (Turns::default(), Turns::default());
        for n in 1..20 {
            commit(&mut many, 100 * n, 1, 7 * n);
            beside.call(&Span { start_ns: 100 * n - 50, end_ns: 100 * n + 50, ..Span::default() }, 1);
            commit(&mut beside, 100 * n, 1, n);
        }
        assert_eq!((many.told(), beside.told()), (None, None));
    }
}
