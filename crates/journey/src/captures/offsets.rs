//! How far the clocks of captures differ.

use super::order::{both, Both, Order};
use super::ways::Way;
use super::Capture;
use crate::clocks::{compare, Bounds, Drift, Packet, Reading};
use rustc_hash::FxHashMap;
use wirespan_model::{hop, Span, Value};

/// The clocks of all captures.
#[derive(Debug, Default)]
pub(super) struct Offsets {
    /// By numbers of captures, the smaller first: how far the second is ahead of the first.
    pairs: FxHashMap<(usize, usize), Reading>,
    /// For each capture: its reference, and the capture that lies next on the way there.
    toward: Vec<Option<(usize, usize)>>,
}

impl Offsets {
    pub(super) fn of(captures: usize, ways: &[(Way, Order)]) -> Self {
        let mut seen: FxHashMap<(usize, usize), Vec<Packet>> = FxHashMap::default();
        for (way, order) in ways {
            for (at, i) in order.views.iter().enumerate() {
                for j in order.views.iter().skip(at + 1) {
                    let (near, far) = (&way.views[*i], &way.views[*j]);
                    if near.capture == far.capture {
                        continue;
                    }
                    let forward = near.capture < far.capture;
                    let (a, b) = if forward { (near, far) } else { (far, near) };
                    let all = both(a, b).into_iter().map(|Both { to_server, a, b }| Packet {
                        here_ns: a.time_ns,
                        there_ns: b.time_ns,
                        to_there: to_server == forward,
                    });
                    seen.entry((a.capture, b.capture)).or_default().extend(all);
                }
            }
        }
        let pairs: FxHashMap<_, _> = seen.into_iter().map(|(pair, all)| (pair, compare(all))).collect();
        let toward = toward(captures, &pairs);
        Offsets { pairs, toward }
    }

    /// The capture by whose clock the times of this one are told.
    pub(super) fn reference(&self, capture: usize) -> Option<usize> {
        self.toward.get(capture).copied().flatten().map(|(reference, _)| reference)
    }

    /// How far capture `b` is ahead of `a`, from packets that both saw, at this time of `b`.
    pub(super) fn between(&self, a: usize, b: usize, time_ns: u64) -> Option<Bounds> {
        if a == b {
            return Some(Bounds { low_ns: 0.0, high_ns: 0.0 });
        }
        if let Some(reading) = self.pairs.get(&(a, b)) {
            // The reading wants the time of `a`.
            let rough = reading.ahead(time_ns)?.middle_ns();
            return reading.ahead(earlier(time_ns, rough));
        }
        self.pairs.get(&(b, a))?.ahead(time_ns).map(Bounds::reversed)
    }

    /// By how much the clock of capture `b` gains on that of `a`.
    pub(super) fn drift(&self, a: usize, b: usize) -> Drift {
        if a == b {
            return Drift::NONE;
        }
        let known = self.pairs.get(&(a.min(b), a.max(b))).and_then(Reading::drift).unwrap_or(Drift::ANY);
        if a < b {
            known
        } else {
            known.reversed()
        }
    }

    /// How far a capture is ahead of its reference, at this time of its own.
    pub(super) fn ahead(&self, capture: usize, time_ns: u64) -> Option<Bounds> {
        let (mut at, mut time_ns) = (capture, time_ns);
        let mut sum = Bounds { low_ns: 0.0, high_ns: 0.0 };
        loop {
            let (reference, next) = self.toward.get(at).copied().flatten()?;
            if at == reference {
                return Some(sum);
            }
            let step = self.between(next, at, time_ns)?;
            sum = Bounds { low_ns: sum.low_ns + step.low_ns, high_ns: sum.high_ns + step.high_ns };
            (at, time_ns) = (next, earlier(time_ns, step.middle_ns()));
        }
    }
}

fn earlier(time_ns: u64, by_ns: f64) -> u64 {
    time_ns.saturating_add_signed(-(by_ns.round() as i64))
}

/// From each capture the way to the first one that it has to do with, over the pairs of which most is known. These are
/// neighbours on the way of packets: so corrected times keep the order of the way.
fn toward(captures: usize, pairs: &FxHashMap<(usize, usize), Reading>) -> Vec<Option<(usize, usize)>> {
    let width = |reading: &Reading| {
        let ahead = reading.times().next().and_then(|at| reading.ahead(at));
        ahead.map_or(f64::MAX, |ahead| ahead.width_ns())
    };
    let mut edges: Vec<(f64, usize, usize)> = pairs.iter().map(|((a, b), r)| (width(r), *a, *b)).collect();
    edges.sort_by(|x, y| x.0.total_cmp(&y.0).then((x.1, x.2).cmp(&(y.1, y.2))));
    let mut toward: Vec<Option<(usize, usize)>> = vec![None; captures];
    for reference in 0..captures {
        if toward[reference].is_some() || !pairs.keys().any(|(a, b)| *a == reference || *b == reference) {
            continue;
        }
        toward[reference] = Some((reference, reference));
        let is_known = |toward: &[Option<(usize, usize)>], n: usize| toward[n].is_some_and(|(r, _)| r == reference);
        while let Some((_, a, b)) = edges.iter().find(|(_, a, b)| is_known(&toward, *a) != is_known(&toward, *b)) {
            let (known, next) = if is_known(&toward, *a) { (*a, *b) } else { (*b, *a) };
            toward[next] = Some((reference, known));
        }
    }
    toward
}

/// Tells the times of all spans of a capture by the clock of its reference.
pub(super) fn correct(number: usize, capture: &mut Capture, offsets: &Offsets) {
    if offsets.reference(number).is_none_or(|reference| reference == number) {
        return;
    }
    for span in &mut capture.spans {
        let Some(ahead) = offsets.ahead(number, span.start_ns) else { continue };
        let middle = ahead.middle_ns();
        // One correction for the whole span: its duration stays as it was measured.
        let Span { start_ns, response_ns, end_ns, .. } = span;
        [start_ns, response_ns, end_ns].into_iter().filter(|t| **t > 0).for_each(|t| *t = earlier(*t, middle));
        set(span, hop::CLOCK_AHEAD, middle);
        set(span, hop::CLOCK_ERROR, ahead.width_ns() / 2.0);
    }
}

/// Sets a number of ns.
pub(super) fn set(span: &mut Span, key: &'static str, ns: f64) {
    span.attrs.push((key.into(), Value::Int(ns.round() as i64)));
}
