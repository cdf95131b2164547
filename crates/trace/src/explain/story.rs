//! Where the time of a span went, in words: part by part, then along the calls that took longest.

use super::words::{place, Waited};
use super::Parts;
use crate::tree::{duration, service_name};
use serde::Serialize;
use std::fmt::Write as _;
use wirespan_model::syscalls::SpanCalls;
use wirespan_model::wait::WaitKind;
use wirespan_model::{plain, Span, SpanId, SpanKind, Trace, TraceSpan};

/// Longest chain of calls that is followed.
const MOST_STEPS: usize = 12;
/// Most calls that are listed.
const MOST_CALLS: usize = 8;
/// Most groups of waits that are told.
const MOST_WAITS: usize = 6;
/// A part of at least this share of a span is followed or told.
const TELLING: f64 = 0.05;
const BAR: usize = 30;

/// A span and the parts of its time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Id of the span, 16 hex digits.
    pub span: String,
    /// Its service.
    pub service: String,
    /// Its name.
    pub name: String,
    /// Its duration, ns.
    pub duration_ns: u64,
    /// Of a call: the end that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// How long what it received had lain in the socket before, ns.
    pub queue_ns: u64,
    /// Where that went; `None` if it is not known: no thread of it was seen.
    pub parts: Option<Parts>,
    /// What it waited for, longest first; `None` if its waits were not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<Vec<Waited>>,
    /// The system calls that its threads made; `None` if they were not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syscalls: Option<SpanCalls>,
}

/// What is usual for such spans: medians.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Usual {
    /// Number of spans that were compared.
    pub spans: usize,
    /// Duration, ns.
    pub duration_ns: u64,
    /// Parts.
    pub parts: Parts,
}

/// Why a span took its time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Story {
    /// The span, then, as long as most of the time was spent in calls, the longest call and the span that answered it.
    pub path: Vec<Step>,
    /// Its calls, longest first.
    pub calls: Vec<Step>,
    /// What is usual, if there are spans to compare with.
    pub usual: Option<Usual>,
}

impl Step {
    fn of(span: &Span) -> Self {
        Step {
            span: span.id.to_string(),
            service: service_name(span),
            name: plain::line(&span.name()).into_owned(),
            duration_ns: span.duration_ns(),
            asked: (span.kind == SpanKind::Client).then(|| span.tuple.server.to_string()),
            queue_ns: u64::from(span.tcp.queue_us) * 1000,
            parts: Parts::of(span),
            waits: Waited::of(span),
            syscalls: SpanCalls::of(span),
        }
    }
}

impl Usual {
    /// Of these spans; `None` if none tells its parts.
    pub fn of<'a>(spans: impl Iterator<Item = &'a Span>) -> Option<Self> {
        let known: Vec<(&Span, Parts)> = spans.filter_map(|span| Some((span, Parts::of(span)?))).collect();
        let median = |all: &mut dyn Iterator<Item = u64>| {
            let mut all: Vec<u64> = all.collect();
            let middle = all.len() / 2;
            *all.select_nth_unstable(middle).1
        };
        (!known.is_empty()).then(|| Usual {
            spans: known.len(),
            duration_ns: median(&mut known.iter().map(|(span, _)| span.duration_ns())),
            parts: Parts::from(std::array::from_fn(|part| median(&mut known.iter().map(|(_, p)| p.values()[part])))),
        })
    }
}

impl Story {
    /// The story of a span of this trace; `None` if it is not in it.
    pub fn of(trace: &Trace, id: SpanId, usual: Option<Usual>) -> Option<Self> {
        let first = trace.spans.iter().find(|s| s.span.id == id)?;
        let mut path = vec![Step::of(&first.span)];
        let mut at = first;
        while path.len() < MOST_STEPS && is_mostly_calls(&at.span) {
            let Some(longest) = below(trace, at).max_by_key(|s| s.span.duration_ns()) else { break };
            path.push(Step::of(&longest.span));
            at = longest;
        }
        let mut calls: Vec<Step> = below(trace, first).map(|s| Step::of(&s.span)).collect();
        calls.sort_by_key(|step| std::cmp::Reverse(step.duration_ns));
        calls.truncate(MOST_CALLS);
        Some(Story { path, calls, usual })
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let Some(first) = self.path.first() else { return out };
        let _ = writeln!(out, "{}: {}  {}\n", first.service, first.name, short(first.duration_ns));
        match &first.parts {
            Some(parts) => table(&mut out, first.duration_ns, parts, self.usual.as_ref()),
            None => out.push_str("  Where the time went is not known: no thread of this span was seen.\n"),
        }
        if share(first.queue_ns, first.duration_ns) >= TELLING {
            let _ = writeln!(
                out,
                "\n  Bytes for it lay {} in the socket before a thread read them.",
                short(first.queue_ns)
            );
        }
        if let Some(waits) = &first.waits {
            waits_table(&mut out, waits);
        }
        if let Some(calls) = &first.syscalls {
            calls_table(&mut out, calls);
        }
        if let Some(usual) = &self.usual {
            let _ =
                writeln!(out, "\n  Usual for this endpoint (median of {}): {}.", usual.spans, short(usual.duration_ns));
            if let Some(more) = first.parts.as_ref().and_then(|parts| most_above(first.duration_ns, parts, usual)) {
                let _ = writeln!(out, "  {more}");
            }
        }
        if !self.calls.is_empty() {
            out.push_str("\n  Its calls:\n");
            for call in &self.calls {
                let _ = writeln!(out, "  {:>9}  {}", short(call.duration_ns), call.name);
            }
        }
        out.push_str("\n  In words:\n");
        for (depth, step) in self.path.iter().enumerate() {
            let is_last = depth + 1 == self.path.len();
            let _ = writeln!(out, "  {}{}: {}", "  ".repeat(depth), step.service, sentence(step, is_last));
        }
        out
    }
}

fn below<'a>(trace: &'a Trace, of: &TraceSpan) -> impl Iterator<Item = &'a TraceSpan> + use<'a> {
    let id = of.span.id;
    trace.spans.iter().filter(move |s| s.link.is_some_and(|link| link.parent == id))
}

fn is_mostly_calls(span: &Span) -> bool {
    Parts::of(span).is_some_and(|parts| parts.values().iter().all(|part| *part <= parts.children))
}

fn short(ns: u64) -> String {
    duration(i128::from(ns))
}

fn share(part: u64, of: u64) -> f64 {
    part as f64 / of.max(1) as f64
}

fn table(out: &mut String, all: u64, parts: &Parts, usual: Option<&Usual>) {
    let usual: [Option<u64>; 7] = usual.map_or([None; 7], |u| u.parts.values().map(Some));
    for ((words, ns), usual) in Parts::WORDS.into_iter().zip(parts.values()).zip(usual) {
        if ns == 0 && usual.unwrap_or(0) == 0 {
            continue;
        }
        let share = share(ns, all);
        let bar = "█".repeat((share * BAR as f64).round() as usize);
        let usual = usual.map(|ns| format!("  (usually {})", short(ns))).unwrap_or_default();
        let _ = writeln!(out, "  {words:<28}  {:>9}  {:>3.0} %  {bar}{usual}", short(ns), share * 100.0);
    }
}

fn waits_table(out: &mut String, waits: &[Waited]) {
    out.push_str(if waits.is_empty() { "\n  It did not wait.\n" } else { "\n  What it waited for:\n" });
    for wait in waits.iter().take(MOST_WAITS) {
        let _ = writeln!(out, "  {:>9}  {}", short(wait.duration_ns), wait.text());
        let place = place(&wait.stack);
        if !place.is_empty() {
            let _ = writeln!(out, "             in {place}");
        }
    }
}

/// Its system calls by name.
fn calls_table(out: &mut String, calls: &SpanCalls) {
    let all: u64 = calls.sums.iter().map(|sum| sum.count).sum();
    let _ = writeln!(out, "\n  Its system calls, {all} (name, number, together, longest):");
    for sum in &calls.sums {
        let failed = if sum.failed > 0 { format!("  {} returned an error", sum.failed) } else { String::new() };
        let (total, longest) = (short(sum.total_ns), short(sum.longest_ns));
        let _ = writeln!(out, "  {:<20} {:>7}  {total:>9}  {longest:>9}{failed}", sum.name, sum.count);
    }
    if calls.lost > 0 {
        let _ = writeln!(out, "  {} more were lost.", calls.lost);
    }
    if calls.incomplete {
        out.push_str("  There were too many to keep: the first ones are missing.\n");
    }
}

/// The part that has grown most against what is usual.
fn most_above(all: u64, parts: &Parts, usual: &Usual) -> Option<String> {
    let more = |(words, (now, then)): (&'static str, (u64, u64))| (now.saturating_sub(then), words, then);
    let both = parts.values().into_iter().zip(usual.parts.values());
    let (above, words, then) = Parts::WORDS.into_iter().zip(both).map(more).max()?;
    let telling = share(above, all) >= TELLING && all > usual.duration_ns;
    telling.then(|| format!("Most of what is new: {words}, {} more than {}.", short(above), short(then)))
}

/// What took most of a span. `is_last`: nothing is known of what happened at the other end of a call.
fn sentence(step: &Step, is_last: bool) -> String {
    let all = short(step.duration_ns);
    let Some(parts) = &step.parts else { return format!("{}, {all}: where it went is not known", step.name) };
    let values = parts.values();
    let most = (0..values.len()).max_by_key(|part| values[*part]).unwrap_or(0);
    let of = format!("{} of {all}", short(values[most]));
    let blocked = |w: &&Waited| !w.in_call && !matches!(w.kind, WaitKind::RunQueue | WaitKind::CpuLimit);
    let longest = step.waits.iter().flatten().find(blocked);
    let why = match most {
        0 => format!("ran for {of}: the work itself takes the time"),
        1 => format!("was ready for {of} and got no processor: something else ran there"),
        2 => format!("was held back for {of} by the CPU limit of its cgroup"),
        3 if longest.is_some() => {
            let told = longest.map(|w| format!("{} of {all}: {}", short(w.duration_ns), w.text()));
            return format!("{}, {}", step.name, told.unwrap_or_default());
        }
        3 => format!(
            "slept for {of}, and not in a call that was seen: a lock, a timer, a disk, or traffic that is not traced"
        ),
        4 => match &step.asked {
            Some(end) if is_last => format!("waited for {of} for the answer of {end}, of which no span was seen"),
            Some(end) => format!("waited for {of} for the answer of {end}"),
            None => format!("waited for {of} in its calls"),
        },
        5 => format!("waited for {of} because its thread worked for other requests"),
        _ => format!("{of} is not known: another thread took over, and how long it waited was not seen"),
    };
    format!("{}, {why}", step.name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use wirespan_model::{Evidence, ParentLink, Resource, TraceId};

    fn span(id: u64, service: &str, name: &str, ms: u64, parts: Parts) -> Span {
        let resource = Arc::new(Resource { service: service.into(), ..Resource::default() });
        let attrs = parts.attributes().collect();
        Span { id: SpanId(id), operation: name.into(), end_ns: ms * 1_000_000, attrs, resource, ..Span::default() }
    }

    fn trace(spans: Vec<(Span, Option<u64>)>) -> Trace {
        let link = |parent: Option<u64>| {
            parent.map(|p| ParentLink { parent: SpanId(p), evidence: Evidence::Thread, confidence: 1.0 })
        };
        let spans = spans
            .into_iter()
            .map(|(span, parent)| TraceSpan { span: Arc::new(span), link: link(parent), ..TraceSpan::default() })
            .collect();
        Trace { id: TraceId::default(), spans, complete: true }
    }

    #[test]
    fn the_story_follows_the_longest_call_to_where_the_time_went() {
        let ms = 1_000_000;
        let all = trace(vec![
            (span(1, "shop", "GET /buy", 100, Parts { on_cpu: 10 * ms, children: 90 * ms, ..Parts::default() }), None),
            (span(2, "shop", "GET /price", 20, Parts { children: 20 * ms, ..Parts::default() }), Some(1)),
            (span(3, "shop", "GET /pay", 70, Parts { children: 70 * ms, ..Parts::default() }), Some(1)),
            (span(4, "pay", "GET /pay", 69, Parts { blocked: 60 * ms, on_cpu: 9 * ms, ..Parts::default() }), Some(3)),
        ]);
        let usual = Usual::of(std::iter::once(&span(
            9,
            "shop",
            "GET /buy",
            30,
            Parts { on_cpu: 9 * ms, children: 21 * ms, ..Parts::default() },
        )));
        let mut story = Story::of(&all, SpanId(1), usual).unwrap();
        assert!(!story.text().contains("in the socket"));
        story.path[0].queue_ns = 8 * ms;
        assert_eq!(story.path.iter().map(|s| s.duration_ns / ms).collect::<Vec<_>>(), [100, 70, 69]);
        assert_eq!(story.calls.iter().map(|s| s.duration_ns / ms).collect::<Vec<_>>(), [70, 20]);
        let text = story.text();
        for part in
            ["90.0ms   90 %", "usually 21.0ms", "69.0ms more than 21.0ms", "slept for 60.0ms of 69.0ms", "lay 8.00ms"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(Story::of(&all, SpanId(77), None).is_none());
    }

    #[test]
    fn a_call_whose_other_end_was_not_seen_says_whom_it_asked() {
        let ms = 1_000_000;
        let mut call = span(2, "shop", "A rates.shop", 80, Parts { children: 80 * ms, ..Parts::default() });
        call.kind = SpanKind::Client;
        let all = trace(vec![
            (span(1, "shop", "GET /buy", 90, Parts { children: 90 * ms, ..Parts::default() }), None),
            (call, Some(1)),
        ]);
        let text = Story::of(&all, SpanId(1), None).unwrap().text();
        assert!(text.contains("for the answer of") && text.contains("no span was seen"), "{text}");
    }

    #[test]
    fn a_span_without_clocks_says_so() {
        let all = trace(vec![(span(1, "a", "GET", 5, Parts::default()), None)]);
        assert!(Story::of(&all, SpanId(1), None).unwrap().text().contains("not known"));
    }
}
