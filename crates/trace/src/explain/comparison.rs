//! What slow requests do that others do not.

use super::Parts;
use crate::tree::duration;
use serde::Serialize;
use std::fmt::Write as _;
use wirespan_model::Span;

/// One in so many requests is slow.
const SLOWEST: usize = 10;
/// Fewest requests that are compared.
const FEWEST: usize = 4;
const BAR: usize = 30;

/// Some of the requests. Durations are means, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Number of requests.
    pub spans: usize,
    /// Duration of the quickest of them.
    pub least_ns: u64,
    /// Duration.
    pub duration_ns: u64,
    /// Where it went.
    pub parts: Parts,
}

/// The slowest tenth of some requests beside the quicker half.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The quicker half.
    pub usual: Group,
    /// The slowest tenth, at least one.
    pub slow: Group,
    /// Id of the slowest, 16 hex digits.
    pub slowest: String,
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
            parts: Parts::from(std::array::from_fn(|part| mean(&|(_, parts)| parts.values()[part]))),
        }
    }
}

impl Comparison {
    /// Of these requests; `None` if too few of them tell where their time went.
    pub fn of<'a>(spans: impl Iterator<Item = &'a Span>) -> Option<Self> {
        let mut known: Vec<(&Span, Parts)> = spans.filter_map(|span| Some((span, Parts::of(span)?))).collect();
        known.sort_by_key(|(span, _)| span.duration_ns());
        let slow = known.get(known.len() - known.len().div_ceil(SLOWEST)..).filter(|_| known.len() >= FEWEST)?;
        let slowest = slow.last().map(|(span, _)| span.id.to_string())?;
        Some(Comparison { usual: Group::of(&known[..known.len() / 2]), slow: Group::of(slow), slowest })
    }

    /// For people: the parts that have grown most come first.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let short = |ns: u64| duration(i128::from(ns));
        let (usual, slow) = (&self.usual, &self.slow);
        let _ = writeln!(
            out,
            "The slowest {} took {} or more ({} on average), the quicker {} took {} on average.\n",
            slow.spans,
            short(slow.least_ns),
            short(slow.duration_ns),
            usual.spans,
            short(usual.duration_ns)
        );
        let _ = writeln!(out, "  {:<28}  {:>9}  {:>9}  {:>10}", "", "usual", "slow", "difference");
        let both = usual.parts.values().into_iter().zip(slow.parts.values());
        let mut rows: Vec<_> = Parts::WORDS.into_iter().zip(both).filter(|(_, (a, b))| a + b > 0).collect();
        rows.sort_by_key(|(_, (usual, slow))| i128::from(*usual) - i128::from(*slow));
        let more = slow.duration_ns.saturating_sub(usual.duration_ns).max(1);
        for (words, (usual, slow)) in rows {
            let grown = i128::from(slow) - i128::from(usual);
            let share = (grown as f64 / more as f64).clamp(0.0, 1.0);
            let bar = "█".repeat((share * BAR as f64).round() as usize);
            let sign = if grown > 0 { "+" } else { "" };
            let line = format!(
                "  {words:<28}  {:>9}  {:>9}  {:>10}  {bar}",
                short(usual),
                short(slow),
                format!("{sign}{}", duration(grown))
            );
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use wirespan_model::SpanId;

    fn span(id: u64, ms: u64, blocked_ms: u64) -> Span {
        let parts =
            Parts { blocked: blocked_ms * 1_000_000, on_cpu: (ms - blocked_ms) * 1_000_000, ..Parts::default() };
        Span { id: SpanId(id), end_ns: ms * 1_000_000, attrs: parts.attributes().collect(), ..Span::default() }
    }

    #[test]
    fn what_has_grown_comes_first() {
        let spans: Vec<Span> = (0..20).map(|n| if n < 18 { span(n, 10, 1) } else { span(n, 100 + n, 90) }).collect();
        let found = Comparison::of(spans.iter()).unwrap();
        assert_eq!((found.usual.spans, found.slow.spans, found.slowest.as_str()), (10, 2, "0000000000000013"));
        assert_eq!((found.usual.duration_ns, found.slow.least_ns), (10_000_000, 118_000_000));
        let text = found.text();
        let blocked = text.find("blocked").unwrap();
        assert!(blocked < text.find("on a processor").unwrap() && text.contains("+89.0ms"), "{text}");
    }

    #[test]
    fn too_few_tell_nothing() {
        let spans = [span(1, 10, 1), span(2, 20, 1), span(3, 30, 1)];
        assert!(Comparison::of(spans.iter()).is_none());
        let unknown = [Span::default(), Span::default(), Span::default(), Span::default()];
        assert!(Comparison::of(unknown.iter()).is_none());
    }
}
