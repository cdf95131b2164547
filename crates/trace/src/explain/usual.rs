//! What is usual for requests like one, and what is new in that one.

use super::words::Waited;
use super::Parts;
use serde::Serialize;
use wirespan_model::attr::WAIT_REASON;
use wirespan_model::wait::{WaitKind, READY};
use wirespan_model::Span;

/// A part of at least this share of a span is followed or told.
pub(super) const TELLING: f64 = 0.05;

/// What is usual for such spans.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Usual {
    /// Number of spans that were compared.
    pub spans: usize,
    /// Duration, the median, ns.
    pub duration_ns: u64,
    /// Parts, the median of each.
    pub parts: Parts,
    /// What the usual ones of them waited for outside of their calls; `None` if the waits of none were recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<UsualWaits>,
}

/// What usual spans waited for outside of their calls: those of the sample, else those that took no longer than the
/// median.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UsualWaits {
    /// Number of spans whose waits were recorded.
    pub spans: usize,
    /// The time of each kind, the mean, ns.
    pub kinds: Vec<(WaitKind, u64)>,
}

/// The part of a span that has grown most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Change<'a> {
    /// Which of [`Parts::values`].
    pub(super) part: usize,
    /// By how much, ns.
    pub(super) above_ns: u64,
    /// What is usual, ns.
    pub(super) then_ns: u64,
    /// The kind of wait that has grown most, if waits are known on both sides.
    pub(super) wait: Option<NewWait<'a>>,
}

/// Waits of a kind that has grown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct NewWait<'a> {
    /// The longest of them.
    pub(super) longest: &'a Waited,
    /// How long all of the kind took, ns.
    pub(super) now_ns: u64,
    /// How long they usually take, ns.
    pub(super) then_ns: u64,
}

/// Whether a wait is part of the time in which a span was blocked.
pub(super) fn blocks(wait: &Waited) -> bool {
    let is_ready = match wait.kind {
        WaitKind::RunQueue | WaitKind::CpuLimit => true,
        WaitKind::Runtime => wait.resource == READY,
        _ => false,
    };
    !wait.in_call && !is_ready
}

fn of_kind(waits: &[Waited], kind: WaitKind) -> u64 {
    waits.iter().filter(|w| blocks(w) && w.kind == kind).map(|w| w.duration_ns).sum()
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
        if known.is_empty() {
            return None;
        }
        let duration_ns = median(&mut known.iter().map(|(span, _)| span.duration_ns()));
        let parts = Parts::from(std::array::from_fn(|part| median(&mut known.iter().map(|(_, p)| p.values()[part]))));
        let waits = UsualWaits::of(known.iter().map(|(span, _)| *span), duration_ns);
        Some(Usual { spans: known.len(), duration_ns, parts, waits })
    }

    /// What is new in a span of this duration with these parts and waits; `None` if it took no longer than usual, or no
    /// part has grown so much that it says why.
    pub(super) fn change<'a>(&self, all_ns: u64, parts: &Parts, waits: Option<&'a [Waited]>) -> Option<Change<'a>> {
        let both = parts.values().into_iter().zip(self.parts.values()).enumerate();
        let grown = both.map(|(part, (now, then))| (now.saturating_sub(then), part, then));
        let (above_ns, part, then_ns) = grown.max_by_key(|(above, ..)| *above)?;
        if all_ns <= self.duration_ns || (above_ns as f64) < TELLING * all_ns as f64 {
            return None;
        }
        let wait = waits.filter(|_| part == Parts::BLOCKED).zip(self.waits.as_ref());
        let wait = wait.and_then(|(now, usual)| usual.new_in(now));
        Some(Change { part, above_ns, then_ns, wait })
    }
}

impl UsualWaits {
    /// `median_ns`: how long such spans usually take.
    fn of<'a>(spans: impl Iterator<Item = &'a Span>, median_ns: u64) -> Option<Self> {
        let recorded: Vec<(&Span, Vec<Waited>)> = spans.filter_map(|span| Some((span, Waited::of(span)?))).collect();
        let is_sample = |span: &Span| span.text(WAIT_REASON) == Some("sample");
        let has_sample = recorded.iter().any(|(span, _)| is_sample(span));
        let failed = |span: &Span| span.text(WAIT_REASON) == Some("error");
        let is_quick = |span: &Span| span.duration_ns() <= median_ns && !failed(span);
        let is_usual = |span: &Span| if has_sample { is_sample(span) } else { is_quick(span) };
        let usual: Vec<Vec<Waited>> = recorded.into_iter().filter(|(s, _)| is_usual(s)).map(|(_, w)| w).collect();
        if usual.is_empty() {
            return None;
        }
        let mean = |kind| usual.iter().map(|waits| of_kind(waits, kind)).sum::<u64>() / usual.len() as u64;
        let kinds = WaitKind::ALL.into_iter().map(|kind| (kind, mean(kind))).filter(|(_, ns)| *ns > 0).collect();
        Some(UsualWaits { spans: usual.len(), kinds })
    }

    /// The kind of wait that takes most above what is usual.
    fn new_in<'a>(&self, waits: &'a [Waited]) -> Option<NewWait<'a>> {
        let usual = |kind| self.kinds.iter().find(|(k, _)| *k == kind).map_or(0, |(_, ns)| *ns);
        let grown = WaitKind::ALL.into_iter().map(|kind| (of_kind(waits, kind), usual(kind), kind));
        let (now_ns, then_ns, kind) = grown.max_by_key(|(now, then, _)| now.saturating_sub(*then))?;
        // The first of a kind is the longest.
        let longest = waits.iter().find(|w| blocks(w) && w.kind == kind)?;
        (now_ns > then_ns).then_some(NewWait { longest, now_ns, then_ns })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use wirespan_model::wait::{SpanWait, SpanWaits};

    const MS: u64 = 1_000_000;

    fn span(ms: u64, reason: &'static str, waits: &[(WaitKind, u64)]) -> Span {
        let wait = |(kind, ms): &(WaitKind, u64)| SpanWait { kind: *kind, duration_ns: ms * MS, ..SpanWait::default() };
        let told = SpanWaits { waits: waits.iter().map(wait).collect(), ..SpanWaits::default() };
        let parts = Parts { blocked: ms * MS, ..Parts::default() };
        let attrs = parts.attributes().chain([told.attribute(), (WAIT_REASON.into(), reason.into())]).collect();
        Span { end_ns: ms * MS, attrs, ..Span::default() }
    }

    #[test]
    fn the_wait_that_is_new_is_told_and_not_the_longest() {
        use WaitKind::{Lock, Sleep};
        let slow = span(360, "slow", &[(Sleep, 204), (Lock, 156)]);
        let waits = Waited::of(&slow).unwrap();
        let parts = Parts::of(&slow).unwrap();
        let usual = |spans: &[Span]| Usual::of(spans.iter()).unwrap();
        // Without a sample, those are usual that took no longer than the median.
        let quick = [span(200, "slow", &[(Sleep, 200)]), span(203, "slow", &[(Sleep, 201), (Lock, 2)])];
        let quick = usual(&[&quick[..], &[span(900, "slow", &[(Lock, 900)])]].concat());
        let change = quick.change(360 * MS, &parts, Some(&waits)).unwrap();
        let wait = change.wait.unwrap();
        assert_eq!((change.part, change.above_ns, change.then_ns), (Parts::BLOCKED, 157 * MS, 203 * MS));
        assert_eq!((wait.longest.kind, wait.now_ns, wait.then_ns), (Lock, 156 * MS, MS));
        // The sample goes before.
        let sampled = usual(&[span(200, "slow", &[(Sleep, 200)]), span(210, "sample", &[(Lock, 155)])]);
        let waits_of_sample = sampled.waits.as_ref().unwrap();
        assert_eq!((waits_of_sample.spans, &waits_of_sample.kinds[..]), (1, &[(Lock, 155 * MS)][..]));
        let change = sampled.change(360 * MS, &parts, Some(&waits)).unwrap();
        assert_eq!(change.wait.unwrap().longest.kind, Sleep);
    }

    #[test]
    fn a_span_that_is_no_slower_than_usual_has_nothing_new() {
        let usual = Usual::of([span(50, "slow", &[])].iter()).unwrap();
        let parts = |ms: u64| Parts { on_cpu: ms * MS, ..Parts::default() };
        assert!(usual.change(50 * MS, &parts(50), None).is_none());
        assert!(usual.change(80 * MS, &parts(1), None).is_none());
        assert_eq!(usual.change(80 * MS, &parts(80), None).unwrap().part, 0);
    }
}
