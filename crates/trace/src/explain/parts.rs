//! The parts of a span's time.

use serde::Serialize;
use std::borrow::Cow;
use std::ops::AddAssign;
use wirespan_model::{Attr, Span, Value};

/// Where the time of a span went, ns. The parts add up to its duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Parts {
    /// A thread ran for it.
    pub on_cpu: u64,
    /// A thread was ready to run for it, and waited for a processor.
    pub run_queue: u64,
    /// A CPU limit held the thread back.
    pub cpu_limit: u64,
    /// It was ready to go on, and the runtime of its program ran others.
    pub runtime_queue: u64,
    /// The thread waited for something else than a call that was seen.
    pub blocked: u64,
    /// It waited for its own calls.
    pub children: u64,
    /// Its thread ran, or waited for a processor, for another request.
    pub other_requests: u64,
    /// What is not known.
    pub unknown: u64,
}

impl Parts {
    /// Attribute keys, in the order of [`Parts::values`].
    pub const KEYS: [&'static str; 8] = [
        "wirespan.wait.on_cpu",
        "wirespan.wait.run_queue",
        "wirespan.wait.cpu_limit",
        "wirespan.wait.runtime_queue",
        "wirespan.wait.blocked",
        "wirespan.wait.children",
        "wirespan.wait.other_requests",
        "wirespan.wait.unknown",
    ];

    /// The same for people.
    pub const WORDS: [&'static str; 8] = [
        "on a processor",
        "ready, without a processor",
        "held back by a CPU limit",
        "ready, its runtime ran others",
        "blocked",
        "in its calls",
        "thread busy for others",
        "not known",
    ];

    /// The places of the parts in [`Parts::values`].
    pub(super) const ON_CPU: usize = 0;
    pub(super) const RUN_QUEUE: usize = 1;
    pub(super) const CPU_LIMIT: usize = 2;
    pub(super) const RUNTIME_QUEUE: usize = 3;
    pub(super) const BLOCKED: usize = 4;
    pub(super) const CHILDREN: usize = 5;
    pub(super) const OTHER_REQUESTS: usize = 6;
    pub(super) const UNKNOWN: usize = 7;

    /// The parts, in the order of [`Parts::KEYS`].
    pub fn values(&self) -> [u64; 8] {
        let Parts { on_cpu, run_queue, cpu_limit, runtime_queue, blocked, children, other_requests, unknown } = *self;
        [on_cpu, run_queue, cpu_limit, runtime_queue, blocked, children, other_requests, unknown]
    }

    /// The parts of which a span's attributes tell; `None` if they tell of none.
    pub fn of(span: &Span) -> Option<Self> {
        let part = |key| span.attrs.iter().find(|(k, _)| k == key).and_then(|(_, v)| ns(v));
        let told = Self::KEYS.map(part);
        told.iter().any(Option::is_some).then(|| Parts::from(told.map(Option::unwrap_or_default)))
    }

    /// The attributes of the parts that are not 0.
    pub fn attributes(&self) -> impl Iterator<Item = Attr> {
        let told = Self::KEYS.into_iter().zip(self.values()).filter(|(_, ns)| *ns > 0);
        told.map(|(key, ns)| (Cow::Borrowed(key), Value::Int(i64::try_from(ns).unwrap_or(i64::MAX))))
    }

    /// All together.
    pub(super) fn sum(all: impl Iterator<Item = Self>) -> Self {
        all.fold(Parts::default(), |mut sum, parts| {
            sum += parts;
            sum
        })
    }

    pub(super) fn known(&self) -> u64 {
        self.values()[..Self::UNKNOWN].iter().sum()
    }

    /// What is left of each part if this much of their time is taken away, whatever it was.
    pub(super) fn without(&self, ns: u64) -> Self {
        Parts::from(self.values().map(|part| part.saturating_sub(ns)))
    }
}

impl From<[u64; 8]> for Parts {
    fn from(
        [on_cpu, run_queue, cpu_limit, runtime_queue, blocked, children, other_requests, unknown]: [u64; 8],
    ) -> Self {
        Parts { on_cpu, run_queue, cpu_limit, runtime_queue, blocked, children, other_requests, unknown }
    }
}

impl AddAssign for Parts {
    fn add_assign(&mut self, more: Self) {
        let more = more.values();
        *self = Parts::from(std::array::from_fn(|part| self.values()[part] + more[part]));
    }
}

fn ns(value: &Value) -> Option<u64> {
    match value {
        Value::Int(n) => u64::try_from(*n).ok(),
        _ => None,
    }
}
