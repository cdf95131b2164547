//! The comparison for people: first in words, then as tables.

use super::super::ranked::Spent;
use super::super::story::short;
use super::{Comparison, Parts, Sides};
use crate::tree::duration;
use std::fmt::Write as _;

const BAR: usize = 30;
/// A change of at least this share of the difference is told in words.
const TELLING: f64 = 0.05;
/// Most sentences.
const MOST_SENTENCES: usize = 3;
/// Most waits of the table.
const MOST_WAITS: usize = 12;
/// What parts that are no waits say if they have grown, by their place in [`Parts::values`].
const RUNS: [(usize, &str); 3] = [
    (Parts::ON_CPU, "run NS longer on a processor: the work itself takes the time"),
    (Parts::OTHER_REQUESTS, "wait NS longer because their thread works for other requests"),
    (Parts::UNKNOWN, "do for NS longer what is not known"),
];
/// The same of parts that waits would tell more of.
const WAITS: [(usize, &str); 5] = [
    (Parts::RUN_QUEUE, "are ready NS longer and get no processor"),
    (Parts::CPU_LIMIT, "are held back NS longer by their CPU limit"),
    (Parts::RUNTIME_QUEUE, "are ready NS longer, and the runtime of their program runs others"),
    (Parts::BLOCKED, "are blocked NS longer outside of their calls"),
    (Parts::CHILDREN, "wait NS longer in their calls"),
];

impl Comparison {
    /// What has grown most, in words.
    pub(super) fn sentences(&self) -> Vec<String> {
        let (slow, usual) = (self.slow.parts.values(), self.usual.parts.values());
        let waits = if self.waits.is_some() { &[][..] } else { &WAITS };
        let parts = RUNS.iter().chain(waits).map(|(part, words)| {
            let more = i128::from(slow[*part]) - i128::from(usual[*part]);
            (more, words.replace("NS", &duration(more)))
        });
        let waits = self.waits.iter().flat_map(|ranking| &ranking.waits);
        let mut all: Vec<(i128, String)> =
            waits.filter(|w| w.more_ns > 0).map(|w| (i128::from(w.more_ns), w.words())).chain(parts).collect();
        let least = (self.more_ns() as f64 * TELLING).max(1.0) as i128;
        all.retain(|(more, _)| *more >= least);
        all.sort_by_key(|(more, _)| std::cmp::Reverse(*more));
        all.into_iter().take(MOST_SENTENCES).map(|(_, words)| format!("Slow ones {words}.")).collect()
    }

    /// For people: what has grown most comes first.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let (usual, slow) = (&self.usual, &self.slow);
        let (slow_are, usual_are) = match self.sides {
            Sides::Sample => ("The SLOW that exceeded their threshold took", "the USUAL of the sample took"),
            Sides::Threshold => ("The SLOW that exceeded their threshold took", "the quicker USUAL of the others took"),
            Sides::Tenth => ("The slowest SLOW took", "the quicker USUAL took"),
        };
        let _ = writeln!(
            out,
            "{} {} or more ({} on average), {} {} on average.",
            slow_are.replace("SLOW", &slow.spans.to_string()),
            short(slow.least_ns),
            short(slow.duration_ns),
            usual_are.replace("USUAL", &usual.spans.to_string()),
            short(usual.duration_ns)
        );
        let none = ["Nothing has grown so much that it says why.".to_string()];
        out.push_str("\n  In words:\n");
        for words in if self.words.is_empty() { &none[..] } else { &self.words } {
            let _ = writeln!(out, "  {words}");
        }
        self.waits_table(&mut out);
        self.parts_table(&mut out);
        out
    }

    fn waits_table(&self, out: &mut String) {
        let Some(ranking) = &self.waits else {
            out.push_str("\n  What slow ones wait for was not recorded: `wirespan trace-why SERVICE` records it.\n");
            return;
        };
        out.push_str("\n  What they wait for (the mean of a request, the median, how many have it):\n");
        if ranking.usual_spans == 0 {
            out.push_str(
                "  The waits of usual ones were not recorded: by the parts of their time, the difference is at \
                          least\n  as told.\n",
            );
        }
        let _ = writeln!(out, "  {:>10}   {:<32}   usual", "difference", "slow");
        let side = |spent: &Spent, all: usize| {
            let many = format!("{} of {all}", spent.spans);
            format!("{:>7} {:>7}   {many:<14}", short(spent.mean_ns), short(spent.median_ns))
        };
        for wait in ranking.waits.iter().take(MOST_WAITS) {
            let slow = side(&wait.slow, ranking.slow_spans);
            let usual = wait.usual.map_or_else(|| "?".into(), |usual| side(&usual, ranking.usual_spans));
            let at_least = if wait.usual.is_none() { "≥ " } else { "" };
            let more = format!("{at_least}{}", signed(wait.more_ns.into()));
            let _ = writeln!(out, "  {more:>10}   {slow:<32}   {}", usual.trim_end());
            let _ = writeln!(out, "  {:>10}   {}", "", wait.longest.text());
            if !wait.place.is_empty() {
                let _ = writeln!(out, "  {:>10}   in {}", "", wait.place);
            }
        }
        let left_out = ranking.left_out + ranking.waits.len().saturating_sub(MOST_WAITS);
        if left_out > 0 {
            let _ = writeln!(out, "  {left_out} more that have grown less: --format json has them.");
        }
        let [slow, usual] = ranking.shorter_ns;
        if slow + usual > 0 {
            let _ = writeln!(
                out,
                "  Shorter waits, not kept one by one: {} of slow ones, {} of usual ones.",
                { short(slow) },
                short(usual)
            );
        }
    }

    fn parts_table(&self, out: &mut String) {
        let _ = writeln!(out, "\n  {:<28}  {:>9}  {:>9}  {:>10}", "Where the time went", "usual", "slow", "difference");
        let both = self.usual.parts.values().into_iter().zip(self.slow.parts.values());
        let mut rows: Vec<_> = Parts::WORDS.into_iter().zip(both).filter(|(_, (a, b))| a + b > 0).collect();
        rows.sort_by_key(|(_, (usual, slow))| i128::from(*usual) - i128::from(*slow));
        let more = self.more_ns().max(1);
        for (words, (usual, slow)) in rows {
            let grown = i128::from(slow) - i128::from(usual);
            let share = (grown as f64 / more as f64).clamp(0.0, 1.0);
            let bar = "█".repeat((share * BAR as f64).round() as usize);
            let (usual, slow) = (short(usual), short(slow));
            let line = format!("  {words:<28}  {usual:>9}  {slow:>9}  {:>10}  {bar}", signed(grown));
            let _ = writeln!(out, "{}", line.trim_end());
        }
    }
}

fn signed(ns: i128) -> String {
    format!("{}{}", if ns > 0 { "+" } else { "" }, duration(ns))
}
