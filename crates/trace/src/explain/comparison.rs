//! Why slow requests are slow: where their time goes and what they wait for, beside usual ones.

mod text;

use super::{Parts, Ranking};
use serde::Serialize;
use wirespan_model::attr::WAIT_REASON;
use wirespan_model::Span;

/// One in so many requests is slow if no threshold says it.
const SLOWEST: usize = 10;
/// Fewest requests that are compared.
const FEWEST: usize = 4;
/// Fewest requests of a sample that stand for the usual ones.
const FEWEST_SAMPLED: usize = 3;

/// Which requests are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sides {
    /// Those that exceeded their threshold, beside those of the sample. The waits of both were recorded.
    Sample,
    /// Those that exceeded their threshold, beside the quicker half of others, whose waits were not recorded.
    Threshold,
    /// The slowest tenth, beside the quicker half.
    Tenth,
}

/// Some of the requests. Durations are means, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Number of requests.
    pub spans: usize,
    /// Duration of the quickest of them.
    pub least_ns: u64,
    /// Duration.
    pub duration_ns: u64,
    /// Duration, the median.
    pub median_ns: u64,
    /// Where it went.
    pub parts: Parts,
}

/// Slow requests beside usual ones.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Number of requests that tell where their time went.
    pub requests: usize,
    /// Number of those whose waits were recorded.
    pub recorded: usize,
    /// How slow and usual ones were chosen.
    pub sides: Sides,
    /// Usual requests.
    pub usual: Group,
    /// Slow requests, at least one.
    pub slow: Group,
    /// Id of the slowest, 16 hex digits.
    pub slowest: String,
    /// What they wait for; `None` if the waits of less than half of the slow ones were recorded.
    pub waits: Option<Ranking>,
    /// What slow requests do, a sentence for each: what has grown most first.
    pub words: Vec<String>,
}

impl Group {
    /// Of requests in the order of their durations.
    fn of(spans: &[(&Span, Parts)]) -> Self {
        let count = spans.len().max(1) as u64;
        let mean = |of: &dyn Fn(&(&Span, Parts)) -> u64| spans.iter().map(of).sum::<u64>() / count;
        Group {
            spans: spans.len(),
            least_ns: spans.first().map_or(0, |(span, _)| span.duration_ns()),
            duration_ns: mean(&|(span, _)| span.duration_ns()),
            median_ns: spans.get(spans.len() / 2).map_or(0, |(span, _)| span.duration_ns()),
            parts: Parts::from(std::array::from_fn(|part| mean(&|(_, parts)| parts.values()[part]))),
        }
    }
}

impl Comparison {
    /// Of these requests; `None` if too few of them tell where their time went.
    pub fn of<'a>(spans: impl Iterator<Item = &'a Span>) -> Option<Self> {
        let mut known: Vec<(&Span, Parts)> = spans.filter_map(|span| Some((span, Parts::of(span)?))).collect();
        // A request that failed quickly says nothing of slow ones, and is no usual one.
        known.retain(|(span, _)| span.text(WAIT_REASON) != Some("error"));
        known.sort_by_key(|(span, _)| (span.duration_ns(), span.id));
        if known.len() < FEWEST {
            return None;
        }
        let (sides, slow, usual) = sides(&known);
        let slowest = slow.last().map(|(span, _)| span.id.to_string())?;
        let (slow_group, usual_group) = (Group::of(&slow), Group::of(&usual));
        let spans = |of: &[(&'a Span, Parts)]| of.iter().map(|(span, _)| *span).collect::<Vec<_>>();
        let waits = Ranking::of(&spans(&slow), &spans(&usual), &usual_group.parts);
        let mut found = Comparison {
            requests: known.len(),
            recorded: known.iter().filter(|(span, _)| span.text(WAIT_REASON).is_some()).count(),
            sides,
            usual: usual_group,
            slow: slow_group,
            slowest,
            waits,
            words: Vec::new(),
        };
        found.words = found.sentences();
        Some(found)
    }

    /// By how much slow requests take longer, the difference of the means, ns.
    fn more_ns(&self) -> u64 {
        self.slow.duration_ns.saturating_sub(self.usual.duration_ns)
    }
}

type Requests<'a> = Vec<(&'a Span, Parts)>;

/// The slow ones and the usual ones of some requests, which are in the order of their durations.
fn sides<'a>(known: &[(&'a Span, Parts)]) -> (Sides, Requests<'a>, Requests<'a>) {
    let with = |reason: Option<&str>| -> Requests<'a> {
        known.iter().filter(|(span, _)| span.text(WAIT_REASON) == reason).copied().collect()
    };
    let (slow, sample, mut others) = (with(Some("slow")), with(Some("sample")), with(None));
    others.truncate(others.len().div_ceil(2));
    if !slow.is_empty() && sample.len() >= FEWEST_SAMPLED {
        return (Sides::Sample, slow, sample);
    }
    if !slow.is_empty() && others.len() >= FEWEST_SAMPLED {
        return (Sides::Threshold, slow, others);
    }
    let slow = known[known.len() - known.len().div_ceil(SLOWEST)..].to_vec();
    (Sides::Tenth, slow, known[..known.len() / 2].to_vec())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use wirespan_model::wait::{SpanWait, SpanWaits, WaitKind};
    use wirespan_model::SpanId;

    const MS: u64 = 1_000_000;

    fn span(id: u64, ms: u64, blocked_ms: u64) -> Span {
        let parts = Parts { blocked: blocked_ms * MS, on_cpu: (ms - blocked_ms) * MS, ..Parts::default() };
        Span { id: SpanId(id), end_ns: ms * MS, attrs: parts.attributes().collect(), ..Span::default() }
    }

    /// The same with a wait of so long.
    fn recorded(reason: &'static str, id: u64, ms: u64, blocked_ms: u64) -> Span {
        let mut span = span(id, ms, blocked_ms);
        let wait = SpanWait { kind: WaitKind::Lock, duration_ns: blocked_ms * MS, ..SpanWait::default() };
        let waits = SpanWaits { waits: vec![wait], ..SpanWaits::default() };
        span.attrs.extend([(WAIT_REASON.into(), reason.into()), waits.attribute()]);
        span
    }

    #[test]
    fn what_has_grown_comes_first() {
        let spans: Vec<Span> = (0..20).map(|n| if n < 18 { span(n, 10, 1) } else { span(n, 100 + n, 90) }).collect();
        let found = Comparison::of(spans.iter()).unwrap();
        assert_eq!((found.usual.spans, found.slow.spans, found.slowest.as_str()), (10, 2, "0000000000000013"));
        assert_eq!((found.usual.duration_ns, found.slow.least_ns), (10 * MS, 118 * MS));
        assert_eq!((found.sides, found.requests, found.recorded, &found.waits), (Sides::Tenth, 20, 0, &None));
        let text = found.text();
        let blocked = text.find("blocked  ").unwrap();
        assert!(blocked < text.rfind("on a processor").unwrap() && text.contains("+89.0ms"), "{text}");
        assert!(text.contains("was not recorded"), "{text}");
    }

    #[test]
    fn requests_above_their_threshold_stand_beside_the_sample_and_are_told_in_words_first() {
        let mut spans: Vec<Span> = (0..9).map(|n| span(n, 90, 1)).collect();
        spans.extend((10..14).map(|n| recorded("slow", n, 100, 95)));
        spans.extend((20..23).map(|n| recorded("sample", n, 8, 2)));
        spans.push(recorded("error", 30, 1, 1));
        let found = Comparison::of(spans.iter()).unwrap();
        assert_eq!((found.sides, found.requests, found.recorded), (Sides::Sample, 16, 7));
        assert_eq!((found.slow.spans, found.usual.spans, found.usual.median_ns), (4, 3, 8 * MS));
        assert_eq!(found.words, ["Slow ones wait 93.0ms longer for a lock."]);
        let text = found.text();
        assert!(text.find("Slow ones wait 93.0ms").unwrap() < text.find("+93.0ms").unwrap(), "{text}");
        assert!(text.contains("4 of 4") && text.contains("3 of 3"), "{text}");
    }

    #[test]
    fn without_a_sample_the_quicker_others_say_how_long_usual_requests_wait_at_most() {
        let mut spans: Vec<Span> = (0..6).map(|n| span(n, 10 * (n + 1), 5)).collect();
        spans.extend((10..14).map(|n| recorded("slow", n, 100, 95)));
        spans.push(recorded("sample", 20, 8, 2));
        let found = Comparison::of(spans.iter()).unwrap();
        assert_eq!((found.sides, found.slow.spans, found.usual.spans), (Sides::Threshold, 4, 3));
        assert_eq!(found.words[0], "Slow ones wait at least 90.0ms longer for a lock.");
        assert!(found.text().contains("were not recorded"), "{}", found.text());
        // All were recorded: the threshold is so low that it says nothing.
        let spans: Vec<Span> = (0..20).map(|n| recorded("slow", n, 10 + n * n, 5)).collect();
        let found = Comparison::of(spans.iter()).unwrap();
        assert_eq!((found.sides, found.slow.spans, found.usual.spans), (Sides::Tenth, 2, 10));
        // The wait is as long as ever: the processor says why.
        assert_eq!(found.words, ["Slow ones run 314ms longer on a processor: the work itself takes the time."]);
    }

    #[test]
    fn too_few_tell_nothing() {
        let spans = [span(1, 10, 1), span(2, 20, 1), span(3, 30, 1)];
        assert!(Comparison::of(spans.iter()).is_none());
        let unknown = [Span::default(), Span::default(), Span::default(), Span::default()];
        assert!(Comparison::of(unknown.iter()).is_none());
    }
}
