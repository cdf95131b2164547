//! What happened within a span, in the order of time: its waits, its calls, and the time between them.

use super::story::short;
use super::usual::TELLING;
use super::words::{place, Waited};
use serde::Serialize;
use std::fmt::Write as _;
use wirespan_model::wait::SpanWaits;
use wirespan_model::{plain, Span, SpanKind, TraceSpan};

/// Most moments that are told, unless all are asked for.
const MOST: usize = 14;
/// Times of a few ns are no time between two events.
const LEAST_GAP_NS: u64 = 1_000;

/// What a moment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MomentKind {
    /// A call of the request was under way.
    Call,
    /// A thread waited.
    Wait,
    /// No wait and no call is known.
    Between,
}

/// Something that happened within a span.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moment {
    /// When it began, since the start of the span, ns.
    pub at_ns: u64,
    /// How long it took, ns.
    pub duration_ns: u64,
    /// What it was.
    pub kind: MomentKind,
    /// The same in words.
    pub words: String,
    /// The thread that waited; empty for others.
    pub thread: String,
    /// In which code it waited; empty if that is not known.
    pub place: String,
    /// A wait within a call of the request.
    pub in_call: bool,
}

impl Moment {
    fn end_ns(&self) -> u64 {
        self.at_ns + self.duration_ns
    }
}

/// The moments of a span with these calls, in the order of time.
pub(super) fn timeline<'a>(span: &Span, calls: impl Iterator<Item = &'a TraceSpan>) -> Vec<Moment> {
    let mut all: Vec<Moment> = calls.map(|call| of_call(span, &call.span)).collect();
    let recorded = SpanWaits::of(span);
    let is_recorded = recorded.is_some();
    if let Some(mut told) = recorded {
        for wait in std::mem::take(&mut told.waits) {
            let place = told.stack(&wait).map(place).unwrap_or_default();
            let (at_ns, duration_ns) = within(span, wait.start_ns, wait.start_ns + wait.duration_ns);
            let (in_call, thread) = (wait.in_call, plain::line(&wait.thread).into_owned());
            let words = Waited::from(wait).text();
            all.push(Moment { at_ns, duration_ns, kind: MomentKind::Wait, words, thread, place, in_call });
        }
    }
    let between = between(span, &mut all, is_recorded);
    all.extend(between);
    // What lies within another one comes after it.
    all.sort_by_key(|moment| (moment.at_ns, std::cmp::Reverse(moment.duration_ns)));
    all
}

/// When something began, since the start of the span, and how long it took, as far as it lies within the span.
fn within(span: &Span, start_ns: u64, end_ns: u64) -> (u64, u64) {
    let at_ns = start_ns.clamp(span.start_ns, span.end_ns.max(span.start_ns));
    let end_ns = end_ns.clamp(at_ns, span.end_ns.max(at_ns));
    (at_ns - span.start_ns, end_ns - at_ns)
}

fn of_call(span: &Span, call: &Span) -> Moment {
    let (at_ns, duration_ns) = within(span, call.start_ns, call.end_ns);
    let name = call.name();
    let mut words = match call.kind {
        SpanKind::Client => format!("call of {}: {}", call.tuple.server, plain::line(&name)),
        _ => plain::line(&name).into_owned(),
    };
    if call.status.is_error(call.kind) {
        let _ = write!(words, " ({}{})", call.status.as_str(), code(call));
    }
    let (thread, place) = (String::new(), String::new());
    Moment { at_ns, duration_ns, kind: MomentKind::Call, words, thread, place, in_call: false }
}

fn code(span: &Span) -> String {
    span.status_code.map(|code| format!(" {code}")).unwrap_or_default()
}

/// The longer times in which no moment is.
fn between(span: &Span, all: &mut [Moment], is_recorded: bool) -> Vec<Moment> {
    all.sort_by_key(|moment| moment.at_ns);
    let duration_ns = span.duration_ns();
    let least_ns = ((duration_ns as f64 * TELLING) as u64).max(LEAST_GAP_NS);
    let words = match is_recorded {
        true => "ran, or waited for moments only",
        false => "ran or waited, without a call",
    };
    let mut found = Vec::new();
    let mut known_ns = 0;
    let ends = all.iter().map(|moment| (moment.at_ns, moment.end_ns())).chain([(duration_ns, duration_ns)]);
    for (at_ns, end_ns) in ends {
        if at_ns.saturating_sub(known_ns) >= least_ns {
            found.push(Moment {
                at_ns: known_ns,
                duration_ns: at_ns - known_ns,
                kind: MomentKind::Between,
                words: words.into(),
                thread: String::new(),
                place: String::new(),
                in_call: false,
            });
        }
        known_ns = known_ns.max(end_ns);
    }
    found
}

/// For people. `all`: the short ones, too. Empty if neither a wait nor a call is known.
pub(super) fn text(span_ns: u64, ended: &str, timeline: &[Moment], all: bool) -> String {
    let mut out = String::new();
    if timeline.iter().all(|moment| moment.kind == MomentKind::Between) {
        return out;
    }
    let mut longest: Vec<&Moment> = timeline.iter().collect();
    longest.sort_by_key(|moment| std::cmp::Reverse(moment.duration_ns));
    longest.truncate(if all { timeline.len() } else { MOST });
    let mut threads = timeline.iter().map(|moment| &moment.thread).filter(|thread| !thread.is_empty());
    let first = threads.next();
    let several = threads.any(|thread| Some(thread) != first);
    out.push_str("\n  What happened when:\n");
    let mut skipped: Vec<&Moment> = Vec::new();
    for moment in timeline {
        if !longest.iter().any(|told| std::ptr::eq(*told, moment)) {
            skipped.push(moment);
            continue;
        }
        tell_skipped(&mut out, &mut skipped);
        let indent = if moment.in_call { "  " } else { "" };
        let thread = if several && !moment.thread.is_empty() { format!("{}: ", moment.thread) } else { String::new() };
        line(&mut out, moment.at_ns, &short(moment.duration_ns), &format!("{indent}{thread}{}", moment.words));
        if !moment.place.is_empty() {
            let _ = writeln!(out, "  {:>9}  {:>8}  {indent}in {}", "", "", moment.place);
        }
    }
    tell_skipped(&mut out, &mut skipped);
    line(&mut out, span_ns, "", ended);
    out
}

fn line(out: &mut String, at_ns: u64, took: &str, words: &str) {
    let _ = writeln!(out, "  {:>9}  {took:>8}  {words}", format!("+{}", short(at_ns)));
}

/// What is left out between two lines, in one.
fn tell_skipped(out: &mut String, skipped: &mut Vec<&Moment>) {
    let all = std::mem::take(skipped);
    let Some(first) = all.first() else { return };
    let ns = all.iter().map(|moment| moment.duration_ns).sum();
    let count = |kind, one: &str| match all.iter().filter(|moment| moment.kind == kind).count() {
        0 => None,
        1 => Some(format!("a shorter {one}")),
        n => Some(format!("{n} shorter {one}s")),
    };
    let told = [count(MomentKind::Call, "call"), count(MomentKind::Wait, "wait"), count(MomentKind::Between, "time")];
    let told: Vec<String> = told.into_iter().flatten().collect();
    line(out, first.at_ns, &short(ns), &format!("({}; --timeline tells each)", told.join(", ")));
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use wirespan_model::wait::{SpanWait, WaitKind};
    use wirespan_model::Status;

    const MS: u64 = 1_000_000;

    fn wait(kind: WaitKind, at_ms: u64, ms: u64, in_call: bool) -> SpanWait {
        let (start_ns, duration_ns) = (1_000 + at_ms * MS, ms * MS);
        SpanWait { kind, start_ns, duration_ns, in_call, thread: "worker".into(), ..SpanWait::default() }
    }

    fn span(waits: Vec<SpanWait>) -> Span {
        let told = SpanWaits { waits, ..SpanWaits::default() };
        Span { start_ns: 1_000, end_ns: 1_000 + 100 * MS, attrs: vec![told.attribute()], ..Span::default() }
    }

    fn call(at_ms: u64, ms: u64, status: Status) -> TraceSpan {
        let start_ns = 1_000 + at_ms * MS;
        let call = Span {
            kind: SpanKind::Client,
            operation: "GET".into(),
            target: "/price".into(),
            start_ns,
            end_ns: start_ns + ms * MS,
            status,
            status_code: Some(503),
            ..Span::default()
        };
        TraceSpan { span: Arc::new(call), ..TraceSpan::default() }
    }

    #[test]
    fn waits_and_calls_stand_in_the_order_of_time_with_what_is_between() {
        let span = span(vec![
            wait(WaitKind::Lock, 0, 30, false),
            wait(WaitKind::Socket, 51, 38, true),
            wait(WaitKind::Sleep, 90, 20, false),
        ]);
        let calls = [call(50, 40, Status::ServerError)];
        let all = timeline(&span, calls.iter());
        let told: Vec<_> = all.iter().map(|m| (m.at_ns / MS, m.duration_ns / MS, m.kind)).collect();
        use MomentKind::{Between, Call, Wait};
        assert_eq!(told, [(0, 30, Wait), (30, 20, Between), (50, 40, Call), (51, 38, Wait), (90, 10, Wait)]);
        let text = text(100 * MS, "answered: ok 200", &all, false);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        assert_eq!(lines[1], "+0ns    30.0ms  waited for a lock");
        assert!(lines[3].ends_with("GET /price (server-error 503)"), "{text}");
        assert!(lines[4].contains("    waited for data from a socket"), "{text}");
        assert_eq!(*lines.last().unwrap(), "+100ms            answered: ok 200");
    }

    #[test]
    fn short_moments_are_told_together_unless_all_are_asked_for() {
        let short = (0..40).map(|n| wait(WaitKind::Disk, 2 * n, 1, false));
        let span = span(short.chain([wait(WaitKind::Lock, 85, 10, false)]).collect());
        let all = timeline(&span, [].iter());
        assert_eq!(all.iter().filter(|m| m.kind == MomentKind::Wait).count(), 41);
        let some = text(100 * MS, "", &all, false);
        assert!(some.lines().count() < 20 && some.contains("shorter wait"), "{some}");
        assert!(some.contains("10.0ms  waited for a lock"), "{some}");
        let each = text(100 * MS, "", &all, true);
        assert!(each.lines().count() > 41 && !each.contains("shorter"), "{each}");
    }

    #[test]
    fn without_waits_and_calls_there_is_nothing_to_tell() {
        let bare = Span { end_ns: 100 * MS, ..Span::default() };
        assert_eq!(text(100 * MS, "", &timeline(&bare, [].iter()), true), "");
        let all = timeline(&bare, [call(20, 30, Status::Ok)].iter());
        assert!(text(100 * MS, "", &all, false).contains("ran or waited, without a call"));
    }
}
