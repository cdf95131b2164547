//! What slow requests wait for, and how much longer than usual ones: waits that are alike, those first that have grown
//! most.

use super::parts::Parts;
use super::words::{place, telling, Waited};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::HashMap;
use wirespan_model::stack::Stack;
use wirespan_model::wait::{SpanWait, SpanWaits, WaitKind};
use wirespan_model::{plain, Span, Text};

/// So many functions of a place tell it from others.
const FUNCTIONS: usize = 3;
/// So many of them are told in a sentence.
const INNERMOST: usize = 2;
/// Most groups that are told.
const MOST: usize = 50;

/// How long the requests of one side were in such waits. A request without such a wait counts as 0 ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spent {
    /// The mean of the requests, ns.
    pub mean_ns: u64,
    /// The median, ns.
    pub median_ns: u64,
    /// Number of requests that have such a wait.
    pub spans: usize,
    /// Number of such waits.
    pub waits: usize,
}

/// Waits of several requests that are alike: same kind, resource and system call, ended by the same thread, in the same
/// functions of the program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankedWait {
    /// The longest of them; its duration is its own.
    pub longest: Waited,
    /// Where the longest was, innermost function first; empty if that is not known.
    pub place: String,
    /// Of slow requests.
    pub slow: Spent,
    /// Of usual requests; `None` if their waits were not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usual: Option<Spent>,
    /// How much longer slow requests wait so, the difference of the means, ns. If the waits of usual requests were not
    /// recorded: at least so much, by the parts of their time.
    pub more_ns: i64,
}

/// What slow requests wait for.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Ranking {
    /// Number of slow requests whose waits were recorded.
    pub slow_spans: usize,
    /// The same of usual ones; 0: what usual requests wait for is not known.
    pub usual_spans: usize,
    /// What has grown most comes first.
    pub waits: Vec<RankedWait>,
    /// Number of groups that are not told: they have grown least.
    pub left_out: usize,
    /// The time in shorter waits that spans do not keep, of slow and of usual requests, the mean, ns.
    pub shorter_ns: [u64; 2],
}

/// What waits of one group have in common.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Alike {
    kind: WaitKind,
    resource: Text,
    syscall: Text,
    who: String,
    in_call: bool,
    functions: Vec<(Text, Text)>,
}

/// A group while spans are added.
struct Group {
    longest: (SpanWait, Stack),
    /// The time and the number of waits of each span that has such waits, on both sides.
    spans: [Vec<(u64, usize)>; 2],
}

impl Alike {
    fn of(span: &Span, wait: &SpanWait, stack: Option<&Stack>) -> Self {
        let is_client = || wait.kind == WaitKind::Socket && *wait.resource == span.tuple.client.to_string();
        let resource = match &*wait.resource {
            // An address of memory tells one lock from another in one process only.
            lock if lock.starts_with("0x") => Text::default(),
            _ if is_client() => "its client".into(),
            _ => wait.resource.clone(),
        };
        let functions = stack.into_iter().flat_map(|stack| telling(stack, FUNCTIONS));
        let functions = functions.map(|f| (f.function.clone(), f.file.clone())).collect();
        let (syscall, in_call) = (wait.syscall.clone(), wait.in_call);
        Alike { kind: wait.kind, resource, syscall, who: who(wait), in_call, functions }
    }
}

/// The thread or the service that held up a wait; threads of one name with different numbers are one. A socket's peer
/// says that already.
fn who(wait: &SpanWait) -> String {
    let by = match wait.kind {
        WaitKind::RunQueue => &wait.ran_by,
        _ => wait.held_by.first().map_or(&wait.woken_by, |holder| &holder.who),
    };
    let is_named = ["thread ", "service ", "a thread of "].iter().any(|kind| by.starts_with(kind));
    if !is_named || matches!(wait.kind, WaitKind::Socket | WaitKind::Epoll) {
        return String::new();
    }
    let mut parts = by.split(|c: char| c.is_ascii_digit()).peekable();
    let mut name = parts.next().unwrap_or_default().to_owned();
    while let Some(part) = parts.next() {
        // Digits in a row leave empty parts between them.
        if !part.is_empty() || parts.peek().is_none() {
            name.push('*');
        }
        name.push_str(part);
    }
    name
}

impl Ranking {
    /// Of slow and of usual requests. `None` if the waits of less than half of the slow ones were recorded. `parts`: of
    /// the usual requests, the mean.
    pub(super) fn of(slow: &[&Span], usual: &[&Span], parts: &Parts) -> Option<Self> {
        let mut groups: HashMap<Alike, Group> = HashMap::new();
        let (mut spans, mut shorter_ns) = ([0, 0], [0, 0]);
        for (side, all) in [slow, usual].into_iter().enumerate() {
            for span in all {
                let Some(mut told) = SpanWaits::of(span) else { continue };
                spans[side] += 1;
                shorter_ns[side] += told.left_out_ns;
                add(&mut groups, side, span, &mut told);
            }
        }
        let [slow_spans, usual_spans] = spans;
        // A few of them may be other ones than those that are slow.
        if slow_spans == 0 || slow_spans * 2 < slow.len() {
            return None;
        }
        let rank = |(alike, group): (Alike, Group)| {
            let usual = (usual_spans > 0).then(|| Spent::of(&group.spans[1], usual_spans));
            RankedWait::of(alike, group, slow_spans, usual, parts)
        };
        let mut waits: Vec<RankedWait> = groups.into_iter().map(rank).collect();
        waits.sort_by_cached_key(|w| (-w.more_ns, w.longest.text(), w.place.clone()));
        let left_out = waits.len().saturating_sub(MOST);
        waits.truncate(MOST);
        let mean = |side: usize| shorter_ns[side] / spans[side].max(1) as u64;
        Some(Ranking { slow_spans, usual_spans, waits, left_out, shorter_ns: [mean(0), mean(1)] })
    }
}

fn add(groups: &mut HashMap<Alike, Group>, side: usize, span: &Span, told: &mut SpanWaits) {
    let mut own: HashMap<Alike, (u64, usize)> = HashMap::new();
    for wait in std::mem::take(&mut told.waits) {
        let stack = told.stack(&wait);
        let alike = Alike::of(span, &wait, stack);
        let sum = own.entry(alike.clone()).or_default();
        (sum.0, sum.1) = (sum.0 + wait.duration_ns, sum.1 + 1);
        let duration_ns = wait.duration_ns;
        let stack = stack.cloned().unwrap_or_default();
        match groups.get_mut(&alike) {
            Some(group) if group.longest.0.duration_ns >= duration_ns => {}
            Some(group) => group.longest = (wait, stack),
            None => drop(groups.insert(alike, Group { longest: (wait, stack), spans: [Vec::new(), Vec::new()] })),
        }
    }
    for (alike, sum) in own {
        if let Some(group) = groups.get_mut(&alike) {
            group.spans[side].push(sum);
        }
    }
}

impl Spent {
    /// `all`: number of requests of this side, with such waits and without.
    fn of(spans: &[(u64, usize)], all: usize) -> Self {
        let mut times: Vec<u64> = spans.iter().map(|(ns, _)| *ns).collect();
        times.resize(all.max(times.len()), 0);
        let (middle, count) = (times.len() / 2, times.len().max(1) as u64);
        let mean_ns = times.iter().sum::<u64>() / count;
        let median_ns = if times.is_empty() { 0 } else { *times.select_nth_unstable(middle).1 };
        Spent { mean_ns, median_ns, spans: spans.len(), waits: spans.iter().map(|(_, waits)| waits).sum() }
    }
}

impl RankedWait {
    fn of(alike: Alike, group: Group, slow_spans: usize, usual: Option<Spent>, parts: &Parts) -> Self {
        let slow = Spent::of(&group.spans[0], slow_spans);
        let then_ns = usual.map_or_else(|| most_ns(alike.kind, alike.in_call, parts), |usual| usual.mean_ns);
        let (wait, stack) = group.longest;
        let place = place(&stack);
        let longest = Waited { stack, ..Waited::from(SpanWait { resource: alike.resource, ..wait }) };
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let more_ns = signed(slow.mean_ns) - signed(then_ns);
        RankedWait { longest, place, slow, usual, more_ns }
    }

    /// What slow requests do: `wait 86.0ms longer for a lock held by thread keeper, in price (shop.c:104)`.
    pub(super) fn words(&self) -> String {
        let more = super::story::short(self.more_ns.unsigned_abs());
        let more = if self.usual.is_some() { Cow::from(more) } else { format!("at least {more}").into() };
        let inner: Vec<String> =
            telling(&self.longest.stack, INNERMOST).map(|f| plain::line(&f.to_string()).into()).collect();
        let place = if inner.is_empty() { String::new() } else { format!(", in {}", inner.join(" ← ")) };
        self.longest.longer(&more) + &place
    }
}

/// How long requests with these parts can have been in waits of a kind at most, ns.
fn most_ns(kind: WaitKind, in_call: bool, parts: &Parts) -> u64 {
    let ready = parts.run_queue + parts.cpu_limit + parts.runtime_queue + parts.other_requests + parts.unknown;
    match kind {
        WaitKind::RunQueue | WaitKind::CpuLimit => ready,
        _ if in_call => parts.children + ready,
        _ => parts.blocked + ready,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use wirespan_model::stack::Frame;
    use wirespan_model::wait::Holder;

    const MS: u64 = 1_000_000;

    fn wait(kind: WaitKind, ms: u64, who: &str, stack: Option<u32>) -> SpanWait {
        let holder = Holder { who: who.into(), duration_ns: ms * MS, ..Holder::default() };
        let held_by = if who.is_empty() { Vec::new() } else { vec![holder] };
        SpanWait { kind, duration_ns: ms * MS, held_by, stack, resource: "0x7f00".into(), ..SpanWait::default() }
    }

    fn span(waits: Vec<SpanWait>) -> Span {
        let frame = |name: &str| Frame { function: name.into(), file: "shop.c".into(), line: 104, ..Frame::default() };
        let stack = |name| Stack { user: vec![frame(name), frame("main")], kernel: Vec::new() };
        let told =
            SpanWaits { waits, stacks: vec![stack("price"), stack("pay")], left_out_ns: MS, ..SpanWaits::default() };
        Span { attrs: vec![told.attribute()], ..Span::default() }
    }

    #[test]
    fn what_has_grown_most_comes_first_by_who_and_where() {
        use WaitKind::{Lock, Sleep};
        let slow = [
            span(vec![wait(Lock, 80, "thread keeper", Some(0)), wait(Sleep, 100, "", None)]),
            span(vec![wait(Lock, 30, "thread keeper", Some(0)), wait(Lock, 30, "thread keeper", Some(0))]),
            span(vec![wait(Lock, 6, "thread pool-3", Some(0)), wait(Lock, 9, "thread pool-17", Some(0))]),
        ];
        let usual = [span(vec![wait(Sleep, 100, "", None)]), span(vec![wait(Lock, 4, "thread keeper", Some(1))])];
        let of = |spans: &[Span], usual: &[Span], parts: &Parts| {
            Ranking::of(&spans.iter().collect::<Vec<_>>(), &usual.iter().collect::<Vec<_>>(), parts)
        };
        let found = of(&slow, &usual, &Parts::default()).unwrap();
        let told: Vec<_> = found.waits.iter().map(|w| (w.words(), w.more_ns / MS as i64)).collect();
        let lock = |ms: &str, who: &str, place: &str| {
            let place = format!("{place} (shop.c:104) ← main (shop.c:104)");
            format!("wait {ms} longer for a lock held by thread {who}, which ran, in {place}")
        };
        assert_eq!(told[0], (lock("46.7ms", "keeper", "price"), 46));
        // Threads of one pool are one.
        assert_eq!(told[1], (lock("5.00ms", "pool-17", "price"), 5));
        // Of another function; and what usual requests do longer.
        assert_eq!(told[2], (lock("2.00ms", "keeper", "pay"), -2));
        assert_eq!(told[3].1, -16);
        let first = &found.waits[0];
        assert_eq!(first.slow, Spent { mean_ns: 140 * MS / 3, median_ns: 60 * MS, spans: 2, waits: 3 });
        assert_eq!(first.usual, Some(Spent::default()));
        assert_eq!((found.slow_spans, found.usual_spans, found.shorter_ns), (3, 2, [MS, MS]));
        // Without waits of usual requests, their parts say how long these were at most.
        let parts = Parts { blocked: 10 * MS, run_queue: MS, children: 200 * MS, ..Parts::default() };
        let found = of(&slow, &[Span::default()], &parts).unwrap();
        assert_eq!((found.usual_spans, found.waits[0].usual), (0, None));
        assert!(found.waits[0].words().starts_with("wait at least 35.7ms longer for a lock held by thread keeper"));
        assert!(of(&[Span::default()], &slow, &parts).is_none());
    }

    #[test]
    fn names_of_threads_are_one_without_their_numbers() {
        let by = |woken_by: &str, kind| who(&SpanWait { kind, woken_by: woken_by.into(), ..SpanWait::default() });
        assert_eq!(by("thread worker-13", WaitKind::Lock), "thread worker-*");
        assert_eq!(by("thread 7a12b", WaitKind::Lock), by("thread 81a9b", WaitKind::Lock));
        assert_eq!(by("network", WaitKind::Pipe), "");
        assert_eq!(by("service pay", WaitKind::Socket), "");
    }
}
