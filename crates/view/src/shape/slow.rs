//! Slow requests beside usual ones, as JSON.

use serde::Serialize;
use utoipa::ToSchema;
use wirespan_trace::{Comparison, Group, Parts, RankedWait, Ranking, Sides, Spent};

/// Why slow requests are slow, beside usual ones. Times are means.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct SlowView {
    /// Which requests are compared: `sample`: those that exceeded their threshold beside those of the sample;
    /// `threshold`: those that exceeded their threshold beside the quicker half of the others, whose waits were not
    /// recorded; `tenth`: the slowest tenth beside the quicker half.
    pub(crate) sides: &'static str,
    /// Slow requests.
    pub(crate) slow: SlowSide,
    /// Usual requests.
    pub(crate) usual: SlowSide,
    /// Id of the slowest request's span.
    pub(crate) slowest: String,
    /// What slow requests do, a sentence for each: what has grown most first.
    pub(crate) words: Vec<String>,
    /// Where the time went.
    pub(crate) parts: Vec<SlowPart>,
    /// What they wait for; absent if the waits of less than half of the slow requests were recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waits: Option<SlowWaits>,
}

/// One side of the comparison.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct SlowSide {
    /// Number of requests.
    pub(crate) spans: usize,
    /// Duration of the quickest of them, ns.
    pub(crate) least_ns: u64,
    /// Their duration, the mean, ns.
    pub(crate) mean_ns: u64,
    /// The same, the median, ns.
    pub(crate) median_ns: u64,
}

/// A part of the time.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct SlowPart {
    /// `wirespan.wait.on_cpu`, …
    pub(crate) key: &'static str,
    /// Of slow requests, ns.
    pub(crate) slow_ns: u64,
    /// Of usual requests, ns.
    pub(crate) usual_ns: u64,
}

/// What slow requests wait for.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct SlowWaits {
    /// Number of slow requests whose waits were recorded.
    pub(crate) slow_spans: usize,
    /// The same of usual requests; 0: what usual requests wait for is not known.
    pub(crate) usual_spans: usize,
    /// Waits that are alike; those first that have grown most.
    pub(crate) ranked: Vec<SlowWait>,
    /// Number of further groups, which have grown least.
    pub(crate) left_out: usize,
    /// The time in shorter waits, which spans do not keep, of slow requests, ns.
    pub(crate) shorter_slow_ns: u64,
    /// The same of usual requests, ns.
    pub(crate) shorter_usual_ns: u64,
}

/// Waits that are alike: same kind, resource, system call, thread that ended them, and functions of the program.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct SlowWait {
    /// `lock`, `socket`, `disk`, …, as in `wirespan.wait.kind`.
    pub(crate) kind: &'static str,
    /// What the longest waited for, what woke it, and who held it up.
    pub(crate) words: String,
    /// In which code the longest was, innermost function first; empty if that is not known.
    pub(crate) stack: Vec<String>,
    /// The functions of it that say most, on a line.
    pub(crate) place: String,
    /// Whether a call of the request was under way.
    pub(crate) in_call: bool,
    /// Of slow requests.
    pub(crate) slow: SlowSpent,
    /// Of usual requests; absent if their waits were not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usual: Option<SlowSpent>,
    /// How much longer slow requests wait so, ns. If the waits of usual requests were not recorded: at least so much.
    pub(crate) more_ns: i64,
}

/// How long the requests of one side were in such waits. A request without such a wait counts as 0 ns.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(crate) struct SlowSpent {
    /// The mean of the requests, ns.
    pub(crate) mean_ns: u64,
    /// The median, ns.
    pub(crate) median_ns: u64,
    /// Number of requests that have such a wait.
    pub(crate) spans: usize,
    /// Number of such waits.
    pub(crate) waits: usize,
}

impl From<Comparison> for SlowView {
    fn from(of: Comparison) -> Self {
        let values = of.slow.parts.values().into_iter().zip(of.usual.parts.values());
        let parts = Parts::KEYS.into_iter().zip(values).filter(|(_, (slow, usual))| slow + usual > 0);
        SlowView {
            sides: match of.sides {
                Sides::Sample => "sample",
                Sides::Threshold => "threshold",
                Sides::Tenth => "tenth",
            },
            slow: of.slow.into(),
            usual: of.usual.into(),
            slowest: of.slowest,
            words: of.words,
            parts: parts.map(|(key, (slow_ns, usual_ns))| SlowPart { key, slow_ns, usual_ns }).collect(),
            waits: of.waits.map(SlowWaits::from),
        }
    }
}

impl From<Group> for SlowSide {
    fn from(of: Group) -> Self {
        SlowSide { spans: of.spans, least_ns: of.least_ns, mean_ns: of.duration_ns, median_ns: of.median_ns }
    }
}

impl From<Ranking> for SlowWaits {
    fn from(of: Ranking) -> Self {
        let Ranking { slow_spans, usual_spans, waits, left_out, shorter_ns } = of;
        let ranked = waits.into_iter().map(SlowWait::from).collect();
        let [shorter_slow_ns, shorter_usual_ns] = shorter_ns;
        SlowWaits { slow_spans, usual_spans, ranked, left_out, shorter_slow_ns, shorter_usual_ns }
    }
}

impl From<RankedWait> for SlowWait {
    fn from(of: RankedWait) -> Self {
        let RankedWait { longest, place, slow, usual, more_ns } = of;
        let frames = if longest.stack.user.is_empty() { &longest.stack.kernel } else { &longest.stack.user };
        SlowWait {
            kind: longest.kind.as_str(),
            stack: frames.iter().map(ToString::to_string).collect(),
            place,
            in_call: longest.in_call,
            words: longest.text(),
            slow: slow.into(),
            usual: usual.map(SlowSpent::from),
            more_ns,
        }
    }
}

impl From<Spent> for SlowSpent {
    fn from(Spent { mean_ns, median_ns, spans, waits }: Spent) -> Self {
        SlowSpent { mean_ns, median_ns, spans, waits }
    }
}
