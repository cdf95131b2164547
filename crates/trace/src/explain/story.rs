//! Where the time of a span went, in words: part by part, then along the calls that took longest.

use super::sentences::{against_usual, sentence};
use super::timeline::{self, timeline, Moment};
use super::usual::{Change, Usual, TELLING};
use super::words::{place, Waited};
use super::Parts;
use crate::tree::{duration, service_name};
use serde::Serialize;
use std::fmt::Write as _;
use wirespan_model::stack::Stack;
use wirespan_model::syscalls::SpanCalls;
use wirespan_model::wait::{SpanWaits, SAMPLE_NS};
use wirespan_model::{plain, Span, SpanId, SpanKind, Trace, TraceSpan};

/// Longest chain of calls that is followed.
const MOST_STEPS: usize = 12;
/// Most calls that are listed.
const MOST_CALLS: usize = 8;
/// Most groups of waits that are told.
const MOST_WAITS: usize = 6;
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
    /// What is usual for such spans, if there are some to compare with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usual: Option<Usual>,
    /// What it waited for, longest first; `None` if its waits were not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<Vec<Waited>>,
    /// In which code it ran most often, and for about how long, ns; `None` if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ran_in: Option<(Stack, u64)>,
    /// The system calls that its threads made; `None` if they were not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syscalls: Option<SpanCalls>,
}

/// Why a span took its time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Story {
    /// The span, then, as long as calls say most, the call that says most and the span that answered it. What says most
    /// is what has grown most, or what took longest if it is no slower than usual.
    pub path: Vec<Step>,
    /// Its calls, longest first.
    pub calls: Vec<Step>,
    /// What happened within the span, in the order of time.
    pub timeline: Vec<Moment>,
    /// How it ended: `answered: ok 200`.
    pub ended: String,
}

impl Step {
    fn of(span: &Span, usual: Option<Usual>) -> Self {
        let ran_in = SpanWaits::of(span).and_then(|told| {
            let most = told.samples.first()?;
            Some((told.stacks.get(most.stack as usize)?.clone(), u64::from(most.times) * SAMPLE_NS))
        });
        Step {
            span: span.id.to_string(),
            service: service_name(span),
            name: plain::line(&span.name()).into_owned(),
            duration_ns: span.duration_ns(),
            asked: (span.kind == SpanKind::Client).then(|| span.tuple.server.to_string()),
            queue_ns: u64::from(span.tcp.queue_us) * 1000,
            parts: Parts::of(span),
            usual,
            waits: Waited::of(span),
            ran_in,
            syscalls: SpanCalls::of(span),
        }
    }

    /// What is new in it, if it is slower than usual.
    pub(super) fn change(&self) -> Option<Change<'_>> {
        self.usual.as_ref()?.change(self.duration_ns, self.parts.as_ref()?, self.waits.as_deref())
    }

    /// Which of [`Parts::values`] says most: what has grown most, else the longest.
    pub(super) fn telling_part(&self) -> Option<usize> {
        let values = self.parts.as_ref()?.values();
        let longest = (0..values.len()).max_by_key(|part| (values[*part], std::cmp::Reverse(*part)));
        self.change().map(|change| change.part).or(longest)
    }

    /// By how much it took longer than usual, ns.
    pub(super) fn above_ns(&self) -> u64 {
        self.duration_ns.saturating_sub(self.usual.as_ref().map_or(0, |usual| usual.duration_ns))
    }
}

impl Story {
    /// The story of a span of this trace; `None` if it is not in it. `usual` says what is usual for spans like one.
    pub fn of(trace: &Trace, id: SpanId, usual: &mut dyn FnMut(&Span) -> Option<Usual>) -> Option<Self> {
        let mut at = trace.spans.iter().find(|s| s.span.id == id)?;
        let timeline = timeline(&at.span, below(trace, at));
        let ended = ended(&at.span);
        let mut path = vec![Step::of(&at.span, usual(&at.span))];
        let mut calls: Option<Vec<Step>> = None;
        while path.len() < MOST_STEPS {
            let mut longest: Vec<&TraceSpan> = below(trace, at).collect();
            longest.sort_by_key(|s| std::cmp::Reverse(s.span.duration_ns()));
            longest.truncate(MOST_CALLS);
            let is_followed = path.last().and_then(Step::telling_part) == Some(Parts::CHILDREN);
            let is_slower = path.last().is_some_and(|step| step.change().is_some());
            let mut usual = |s: &TraceSpan| if is_followed { usual(&s.span) } else { None };
            let steps: Vec<Step> = longest.iter().map(|s| Step::of(&s.span, usual(s))).collect();
            let next = steps.iter().zip(&longest).max_by_key(|(step, _)| match is_slower {
                true => step.above_ns(),
                false => step.duration_ns,
            });
            let next = next.filter(|_| is_followed).map(|(step, s)| (step.clone(), *s));
            calls.get_or_insert(steps);
            let Some((step, span)) = next else { break };
            path.push(step);
            at = span;
        }
        Some(Story { path, calls: calls.unwrap_or_default(), timeline, ended })
    }

    /// For people. `every_moment`: also those of the time line that are short.
    pub fn text(&self, every_moment: bool) -> String {
        let mut out = String::new();
        let Some(first) = self.path.first() else { return out };
        let _ = writeln!(out, "{}: {}  {}\n", first.service, first.name, short(first.duration_ns));
        match &first.parts {
            Some(parts) => table(&mut out, first.duration_ns, parts, first.usual.as_ref()),
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
        let _ = writeln!(out, "\n  {}", against_usual(first));
        if !self.calls.is_empty() {
            out.push_str("\n  Its calls:\n");
            for call in &self.calls {
                let usual = call.usual.as_ref().map(|usual| format!("  (usually {})", short(usual.duration_ns)));
                let _ = writeln!(out, "  {:>9}  {}{}", short(call.duration_ns), call.name, usual.unwrap_or_default());
            }
        }
        out.push_str("\n  In words:\n");
        for (depth, step) in self.path.iter().enumerate() {
            let is_last = depth + 1 == self.path.len();
            let _ = writeln!(out, "  {}{}: {}", "  ".repeat(depth), step.service, sentence(step, is_last));
        }
        out.push_str(&timeline::text(first.duration_ns, &self.ended, &self.timeline, every_moment));
        out
    }
}

/// How a request ended.
fn ended(span: &Span) -> String {
    let code = span.status_code.map(|code| format!(" {code}")).unwrap_or_default();
    match span.response_ns {
        0 => format!("ended: {}{code}", span.status.as_str()),
        _ => format!("answered: {}{code}", span.status.as_str()),
    }
}

fn below<'a>(trace: &'a Trace, of: &TraceSpan) -> impl Iterator<Item = &'a TraceSpan> + use<'a> {
    let id = of.span.id;
    trace.spans.iter().filter(move |s| s.link.is_some_and(|link| link.parent == id))
}

pub(super) fn short(ns: u64) -> String {
    duration(i128::from(ns))
}

fn share(part: u64, of: u64) -> f64 {
    part as f64 / of.max(1) as f64
}

fn table(out: &mut String, all: u64, parts: &Parts, usual: Option<&Usual>) {
    let usual = usual.map_or([None; Parts::KEYS.len()], |u| u.parts.values().map(Some));
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
        let usual = span(9, "", "", 30, Parts { on_cpu: 9 * ms, children: 21 * ms, ..Parts::default() });
        let usual_of = |s: &Span| Usual::of([&usual].into_iter().filter(|_| s.id == SpanId(1)));
        let mut story = Story::of(&all, SpanId(1), &mut |s| usual_of(s)).unwrap();
        assert!(!story.text(false).contains("in the socket"));
        story.path[0].queue_ns = 8 * ms;
        assert_eq!(story.path.iter().map(|s| s.duration_ns / ms).collect::<Vec<_>>(), [100, 70, 69]);
        assert_eq!(story.calls.iter().map(|s| s.duration_ns / ms).collect::<Vec<_>>(), [70, 20]);
        let text = story.text(false);
        for part in [
            "90.0ms   90 %",
            "usually 21.0ms",
            "69.0ms more than 21.0ms",
            "GET /buy, 100ms instead of 30.0ms: 69.0ms more than usual (90.0ms, not 21.0ms) it waited in its calls",
            "pay: GET /pay, for 60.0ms of 69.0ms it was blocked outside of calls",
            "lay 8.00ms",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(Story::of(&all, SpanId(77), &mut |_| None).is_none());
    }

    #[test]
    fn the_call_that_has_grown_is_followed_and_not_the_longest() {
        let ms = 1_000_000;
        let calls = |n| Parts { children: n * ms, ..Parts::default() };
        let all = trace(vec![
            (span(1, "shop", "GET /buy", 150, calls(150)), None),
            (span(2, "shop", "GET /price", 80, calls(80)), Some(1)),
            (span(3, "shop", "GET /pay", 70, calls(70)), Some(1)),
        ]);
        let usually = [(1, 90), (2, 79), (3, 10)];
        let mut usual = |s: &Span| {
            let (_, ns) = usually.iter().find(|(id, _)| SpanId(*id) == s.id)?;
            Usual::of([span(9, "", "", *ns, calls(*ns))].iter())
        };
        let story = Story::of(&all, SpanId(1), &mut usual).unwrap();
        assert_eq!(story.path.iter().map(|step| &*step.name).collect::<Vec<_>>(), ["GET /buy", "GET /pay"]);
        assert!(story.text(false).contains("80.0ms  GET /price  (usually 79.0ms)"), "{}", story.text(false));
        // As long as usual: the longest.
        let story = Story::of(&all, SpanId(1), &mut |_| Usual::of([span(9, "", "", 150, calls(150))].iter())).unwrap();
        assert_eq!(story.path[1].name, "GET /price");
        assert!(story.text(false).contains("This one took no longer."), "{}", story.text(false));
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
        let text = Story::of(&all, SpanId(1), &mut |_| None).unwrap().text(false);
        assert!(text.contains("for the answer of") && text.contains("no span was seen"), "{text}");
    }

    #[test]
    fn a_span_without_clocks_says_so() {
        let all = trace(vec![(span(1, "a", "GET", 5, Parts::default()), None)]);
        assert!(Story::of(&all, SpanId(1), &mut |_| None).unwrap().text(false).contains("not known"));
    }
}
