//! Times between two points of a request's way that are of different hosts, with their errors.
//!
//! The clocks of two hosts differ by an unknown amount. But a request cannot arrive before it was sent, and neither can
//! its response: so each request that went from one host to the other and came back bounds that amount from both sides.
//! All requests that both hosts saw around that time bound it together, whatever their traces
//! ([`wirespan_journey::clocks`]). For request and response together it does not matter how far the clocks differ, only
//! by how much they go apart between request and response.

use crate::forest::link;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use wirespan_journey::clocks::{compare, difference, Bounds, Drift, Packet, Reading};
use wirespan_model::{hop, Evidence, Span, SpanId, Trace, Value};

/// A request from a point at one host to the next point, at another. Each time is of the clock of its host, ns.
#[derive(Clone, Copy, Debug)]
struct Crossing {
    from: u64,
    to: u64,
    sent: u64,
    came: u64,
    answered: u64,
    back: u64,
}

impl Crossing {
    /// `None` if one of the points saw no response, or if they contradict each other.
    fn of(from: &Span, to: &Span) -> Option<Self> {
        let of = Crossing {
            from: from.host_id,
            to: to.host_id,
            sent: from.start_ns,
            came: to.start_ns,
            answered: to.response_ns,
            back: from.response_ns,
        };
        (of.answered > 0 && of.back > 0 && of.both(Drift::ANY).is_some()).then_some(of)
    }

    /// How long request and response were under way together, if the second clock gains so much on the first.
    fn both(&self, drift: Drift) -> Option<Bounds> {
        drift.both_ways((self.sent, self.back), (self.came, self.answered))
    }

    /// How far the second clock is ahead, by this request alone.
    fn alone(&self) -> Bounds {
        let [one, other] = [difference(self.answered, self.back), difference(self.came, self.sent)];
        // The clocks may have gone apart between the two.
        Bounds { low_ns: one.min(other), high_ns: one.max(other) }
    }

    /// The request and the response as packets; the host with the smaller id is `here`.
    fn packets(&self) -> [Packet; 2] {
        let Crossing { sent, came, answered, back, .. } = *self;
        let packet = |here_ns, there_ns, to_there| Packet { here_ns, there_ns, to_there };
        match self.from < self.to {
            true => [packet(sent, came, true), packet(back, answered, false)],
            false => [packet(came, sent, false), packet(answered, back, true)],
        }
    }
}

/// The clocks of hosts that saw the same requests.
#[derive(Default)]
struct HostClocks(FxHashMap<(u64, u64), Reading>);

impl HostClocks {
    fn of<'a>(all: impl Iterator<Item = &'a Crossing>) -> Self {
        let mut pairs: FxHashMap<(u64, u64), Vec<Packet>> = FxHashMap::default();
        for one in all {
            let pair = (one.from.min(one.to), one.from.max(one.to));
            pairs.entry(pair).or_default().extend(one.packets());
        }
        HostClocks(pairs.into_iter().map(|(pair, packets)| (pair, compare(packets))).collect())
    }

    /// By how much the second clock of a crossing gains on the first.
    fn drift(&self, of: &Crossing) -> Option<Drift> {
        let known = self.0.get(&(of.from.min(of.to), of.from.max(of.to)))?.drift()?;
        Some(if of.from < of.to { known } else { known.reversed() })
    }

    /// How far the second clock of a crossing is ahead when these two times were seen, each by its clock. `None` if
    /// requests contradict each other, because a clock was set.
    fn ahead(&self, of: &Crossing, at_from: u64, at_to: u64) -> Option<Bounds> {
        if of.from < of.to {
            return self.0.get(&(of.from, of.to))?.ahead(at_from);
        }
        self.0.get(&(of.to, of.from))?.ahead(at_to).map(Bounds::reversed)
    }
}

/// The spans that came from a point at another host, each with the number of that point. Captures of several places
/// have compared their clocks already.
fn from_other_hosts(trace: &Trace, numbers: &FxHashMap<SpanId, usize>) -> Vec<(usize, usize)> {
    let point_before = |n: usize| {
        let of = &trace.spans[n];
        let wire = of.link.filter(|link| link.evidence == Evidence::Wire)?;
        let p = *numbers.get(&wire.parent)?;
        let (child, parent) = (&of.span, &trace.spans[p].span);
        let crosses = child.host_id != parent.host_id && child.number(hop::ROUND_TRIP).is_none();
        // Of two places in an order that is not known, the request may have come to the second one first.
        (crosses && !(child.is_unordered() && parent.is_unordered())).then_some((n, p))
    };
    (0..trace.spans.len()).filter_map(point_before).collect()
}

fn numbers(trace: &Trace) -> FxHashMap<SpanId, usize> {
    trace.spans.iter().enumerate().map(|(n, s)| (s.span.id, n)).collect()
}

/// The spans of a trace that came from another host, and that no clock was compared for yet.
pub fn crossing_spans(trace: &Trace) -> impl Iterator<Item = &Arc<Span>> {
    from_other_hosts(trace, &numbers(trace)).into_iter().map(move |(n, _)| &trace.spans[n].span)
}

/// Tells the times between hosts: what is known is an attribute of the later point, as it is of devices of one host.
/// `around`: spans of the same hosts and about the same time, of any traces. Their requests compare the clocks, too.
pub fn cross_hosts(trace: &mut Trace, around: Vec<Arc<Span>>) {
    let numbers = numbers(trace);
    let marked = from_other_hosts(trace, &numbers);
    let crossing = |trace: &Trace, (n, p): (usize, usize)| {
        Crossing::of(&trace.spans[p].span, &trace.spans[n].span).map(|crossing| (n, crossing))
    };
    let own: Vec<(usize, Crossing)> = marked.iter().filter_map(|pair| crossing(trace, *pair)).collect();
    let mut all: Vec<Crossing> = own.iter().map(|(_, crossing)| *crossing).collect();
    for other in link(around) {
        let pairs = from_other_hosts(&other, &self::numbers(&other));
        all.extend(pairs.into_iter().filter_map(|pair| crossing(&other, pair)).map(|(_, crossing)| crossing));
    }
    // If a clock was set meanwhile, the requests of this trace may still agree.
    let clocks = [HostClocks::of(all.iter()), HostClocks::of(own.iter().map(|(_, crossing)| crossing))];
    let ahead_at = |of: &Crossing, from, to| clocks.iter().find_map(|clocks| clocks.ahead(of, from, to));
    let drift_of = |of: &Crossing| clocks.iter().find_map(|clocks| clocks.drift(of)).unwrap_or(Drift::ANY);
    let mut told: FxHashMap<usize, Vec<(&'static str, f64)>> = FxHashMap::default();
    let mut ahead: FxHashMap<usize, Bounds> = FxHashMap::default();
    for (n, one) in &own {
        let [asked, answered] = [(one.sent, one.came), (one.back, one.answered)].map(|(a, b)| ahead_at(one, a, b));
        told.insert(*n, times(one, asked, answered, drift_of(one)));
        ahead.insert(*n, asked.unwrap_or(one.alone()));
    }
    for (n, _) in marked {
        let span = Arc::make_mut(&mut trace.spans[n].span);
        span.attrs.push((hop::CLOCKS.into(), Value::Str("two hosts".into())));
        let known = told.remove(&n).unwrap_or_default();
        span.attrs.extend(known.into_iter().map(|(key, ns)| (key.into(), Value::Int(ns.round() as i64))));
    }
    show_one_clock(trace, &numbers, &ahead);
}

/// Shows all spans by the clock of the host where their tree begins. Only a clock that must be wrong is corrected: by
/// its own times, a request would have arrived before it was sent, or been answered too late. `ahead`: bounds of each
/// span that came from another host.
fn show_one_clock(trace: &mut Trace, numbers: &FxHashMap<SpanId, usize>, ahead: &FxHashMap<usize, Bounds>) {
    // How far the clock of each span is ahead, and the error. Parents come before their children.
    let mut clocks: Vec<(f64, f64)> = Vec::with_capacity(trace.spans.len());
    let mut hosts: FxHashMap<u64, (f64, f64)> = FxHashMap::default();
    for (n, of) in trace.spans.iter().enumerate() {
        let host = of.span.host_id;
        let parent = of.link.and_then(|link| numbers.get(&link.parent).copied()).filter(|p| *p < n);
        let (from, bounds) = (parent.map(|p| (trace.spans[p].span.host_id, clocks[p])), ahead.get(&n));
        let clock = match (from, bounds) {
            (Some((same, clock)), _) if same == host => clock,
            (Some((_, (before, error))), Some(by)) => match by.low_ns > 0.0 || by.high_ns < 0.0 {
                true => (before + by.middle_ns(), error + by.width_ns() / 2.0),
                false => (before, error),
            },
            // Nothing but other spans of the same host says how its clock is.
            _ => hosts.get(&host).copied().unwrap_or_default(),
        };
        hosts.insert(host, clock);
        clocks.push(clock);
    }
    for (of, (ahead, error)) in trace.spans.iter_mut().zip(clocks) {
        let ahead_ns = ahead.round() as i64;
        if ahead_ns == 0 {
            continue;
        }
        let span = Arc::make_mut(&mut of.span);
        for ns in [&mut span.start_ns, &mut span.response_ns, &mut span.end_ns] {
            // No response has no time.
            *ns = if *ns == 0 { 0 } else { ns.saturating_add_signed(-ahead_ns) };
        }
        let told = [(hop::CLOCK_AHEAD, ahead_ns), (hop::CLOCK_ERROR, error.ceil() as i64)];
        span.attrs.extend(told.map(|(key, ns)| (key.into(), Value::Int(ns))));
    }
}

/// What is known of the times of a crossing. `asked`, `answered`: how far the clock of the second point was ahead when
/// the request came there, and when it was answered. `drift`: by how much it gained meanwhile.
fn times(one: &Crossing, asked: Option<Bounds>, answered: Option<Bounds>, drift: Drift) -> Vec<(&'static str, f64)> {
    let Some(both) = one.both(drift) else { return Vec::new() };
    let mut told = vec![(hop::ROUND_TRIP, both.middle_ns()), (hop::ROUND_TRIP_ERROR, (both.width_ns() / 2.0).ceil())];
    let there = asked.map(|ahead| (ahead, difference(one.came, one.sent) - ahead.middle_ns()));
    let back = answered.map(|ahead| (ahead, difference(one.back, one.answered) + ahead.middle_ns()));
    let keys = [(there, hop::REQUEST, hop::REQUEST_ERROR), (back, hop::RESPONSE, hop::RESPONSE_ERROR)];
    for (time, key, error) in keys {
        let Some((ahead, middle)) = time else { continue };
        // Where nothing but this request bounds the clocks, its time in one direction is open.
        if ahead.width_ns() < both.high_ns {
            told.extend([(key, middle), (error, (ahead.width_ns() / 2.0).ceil())]);
        }
    }
    told
}

#[cfg(test)]
mod tests;
