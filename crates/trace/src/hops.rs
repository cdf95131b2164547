//! How long a request and its response took from one point of their way to the next. Terminal and page tell it from
//! here.
//!
//! A span that says itself how long its hop took knows best. Otherwise the times of the two points tell it, if one
//! clock measured both; two clocks tell only how long both directions took together, if they go at the same pace.

use rustc_hash::FxHashMap;
use wirespan_journey::clocks::Drift;
use wirespan_model::{hop, Evidence, Latency, Span, SpanId, TapSide, Trace, TraceSpan};

/// The way from one point to another one and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hop {
    /// The request's first byte. `None`: nothing compares the clocks of the two points well enough.
    pub there: Option<Latency>,
    /// The response's first byte. `None` in this case, too, and where one of the points saw no response.
    pub back: Option<Latency>,
    /// Both together. How far the clocks differ does not matter, only how much they go apart meanwhile. `None` where
    /// one of the points saw no response, or where what they saw contradicts each other.
    pub both: Option<Latency>,
}

/// The ways that end at a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hops {
    /// From the point before.
    pub from_parent: Option<Hop>,
    /// From the process before; `None` if no device is between.
    pub over_devices: Option<Hop>,
}

fn difference(later: u64, earlier: u64) -> Option<Latency> {
    // One clock and yet less than nothing: the order of the points is not that of the way.
    later.checked_sub(earlier).map(Latency::exact)
}

impl Hop {
    /// What a span says of the hop that ends at it; `None` if it says nothing.
    pub fn told(span: &Span) -> Option<Hop> {
        let within = |key, error| {
            let (ns, error) = (span.number(key)? as f64, span.number(error).unwrap_or(0) as f64);
            Latency::between(ns - error, ns + error)
        };
        let of = Hop {
            there: within(hop::REQUEST, hop::REQUEST_ERROR),
            back: within(hop::RESPONSE, hop::RESPONSE_ERROR),
            both: within(hop::ROUND_TRIP, hop::ROUND_TRIP_ERROR),
        };
        (of != Hop::default()).then_some(of)
    }

    /// By when the points saw request and response.
    fn measured(from: &Span, to: &Span) -> Hop {
        let answered = from.response_ns > 0 && to.response_ns > 0;
        let one_clock = from.host_id == to.host_id;
        let drift = if one_clock { Drift::NONE } else { Drift::ANY };
        let both = drift.both_ways((from.start_ns, from.response_ns), (to.start_ns, to.response_ns));
        Hop {
            there: difference(to.start_ns, from.start_ns).filter(|_| one_clock),
            back: difference(from.response_ns, to.response_ns).filter(|_| one_clock && answered),
            both: both.and_then(|both| Latency::between(both.low_ns, both.high_ns)).filter(|_| answered),
        }
    }

    fn between(from: &Span, to: &Span) -> Hop {
        if from.is_unordered() && to.is_unordered() {
            return Hop::default();
        }
        let told = match from.host_id == to.host_id {
            // The span says how long it took from the point before. That one may be missing.
            true => {
                let before = if from.tap == TapSide::ClientProcess { 1 } else { from.hop_position() };
                Hop::told(to).filter(|_| to.hop_position() > 1 && before + 1 == to.hop_position())
            }
            false => Hop::told(to),
        };
        told.unwrap_or_else(|| Hop::measured(from, to))
    }

    /// This way and then another one.
    fn and(self, next: Hop) -> Hop {
        let sum = |a: Option<Latency>, b: Option<Latency>| Some(a? + b?);
        Hop { there: sum(self.there, next.there), back: sum(self.back, next.back), both: sum(self.both, next.both) }
    }

    /// In words: `hop 93.0µs  there 61.0µs ± 12.0µs  back ?`. `duration` writes a number of ns.
    pub fn words(&self, duration: impl Fn(u64) -> String) -> String {
        let of = |time: Option<Latency>| time.map_or("?".to_owned(), |time| time.words(&duration));
        let there = format!("there {}", of(self.there));
        match (self.both, self.back) {
            (None, None) => there,
            (None, back) => format!("{there}  back {}", of(back)),
            (both, back) => format!("hop {}  {there}  back {}", of(both), of(back)),
        }
    }
}

/// Whether the point is a device between processes.
fn is_device(span: &Span) -> bool {
    (TapSide::ClientNic..=TapSide::ServerNic).contains(&span.tap)
}

/// For each span of the trace, the ways that end at it.
pub fn hops(trace: &Trace) -> Vec<Hops> {
    let numbers: FxHashMap<SpanId, usize> = trace.spans.iter().enumerate().map(|(n, s)| (s.span.id, n)).collect();
    // From the nearest process on the way.
    let mut from_process: Vec<Option<Hop>> = Vec::with_capacity(trace.spans.len());
    let one = |(n, of): (usize, &TraceSpan)| {
        // Parents come before their children.
        let before = same_request(of).and_then(|id| numbers.get(&id).copied()).filter(|p| *p < n);
        let parent = before.map(|p| &trace.spans[p].span);
        let hop = parent.map(|parent| Hop::between(parent, &of.span));
        let over = parent.is_some_and(|parent| is_device(parent));
        from_process.push(match before.filter(|_| over) {
            Some(p) => from_process[p].zip(hop).map(|(way, hop)| way.and(hop)),
            None => hop,
        });
        Hops { from_parent: hop, over_devices: from_process[n].filter(|_| over) }
    };
    trace.spans.iter().enumerate().map(one).collect()
}

/// The parent, if it saw the same request.
fn same_request(of: &TraceSpan) -> Option<SpanId> {
    of.link.filter(|link| link.evidence == Evidence::Wire).map(|link| link.parent)
}

#[cfg(test)]
mod tests;
