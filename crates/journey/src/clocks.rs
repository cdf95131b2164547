//! How far the clock of another host is ahead of ours, from packets that both hosts saw.
//!
//! A packet that we sent at `t1` and that the other host received at `t2`, each by its own clock, needed at least no
//! time: the other clock is at most `t2 − t1` ahead. A packet from there, sent at `t3` and received here at `t4`, says
//! that it is at least `t3 − t4` ahead. These are bounds, not estimates: nothing is assumed about the two directions.
//! Congestion widens the interval, and never makes it wrong.
//!
//! Clocks also drift apart. A bound of an earlier packet is moved by as much as the drift may have been since. The
//! drift itself has bounds, too, from the same packets: an upper bound now and a lower bound before limit how much the
//! offset can have grown.

use serde::Serialize;
use std::collections::VecDeque;

/// No clock that is kept by NTP is changed faster (`MAXFREQ` of the kernel, 500 ppm); two clocks, twice as much.
pub const MOST_DRIFT: f64 = 1000e-6;

/// Of so many spans of time, the best packet each way is kept.
const SPANS: usize = 128;

/// A range of ns. The truth lies inside.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bounds {
    /// At least.
    pub low_ns: f64,
    /// At most.
    pub high_ns: f64,
}

impl Bounds {
    /// How far the first clock is ahead of the second, if these say how far the second is ahead of the first.
    pub fn reversed(self) -> Bounds {
        Bounds { low_ns: -self.high_ns, high_ns: -self.low_ns }
    }

    /// The width.
    pub fn width_ns(&self) -> f64 {
        self.high_ns - self.low_ns
    }

    /// The middle, and how far the truth may be from it.
    pub fn middle_ns(&self) -> f64 {
        (self.low_ns + self.high_ns) / 2.0
    }
}

/// A packet that two hosts saw, each by its own clock, Unix ns.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// When it was sent or received here.
    pub here_ns: u64,
    /// When it was received or sent there.
    pub there_ns: u64,
    /// Whether it went from here to there.
    pub to_there: bool,
}

/// What these packets say of the two clocks, all of them together.
pub fn compare(mut packets: Vec<Packet>) -> Reading {
    packets.sort_by_key(|packet| packet.here_ns);
    let time = |packet: Option<&Packet>| packet.map_or(0, |packet| packet.here_ns);
    let all_ns = time(packets.last()) - time(packets.first());
    // A little more, so that no packet lies outside.
    let mut clocks = Clocks::new(all_ns + all_ns / 16 + 1_000_000);
    for Packet { here_ns, there_ns, to_there } in packets {
        match to_there {
            true => clocks.sent(here_ns, there_ns),
            false => clocks.received(there_ns, here_ns),
        }
    }
    clocks.reading()
}

/// By how much a clock gains on another one, as a share of time. The truth lies inside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// At least.
    pub least: f64,
    /// At most.
    pub most: f64,
}

impl Drift {
    /// One clock.
    pub const NONE: Drift = Drift { least: 0.0, most: 0.0 };
    /// Of two clocks that nothing compares.
    pub const ANY: Drift = Drift { least: -MOST_DRIFT, most: MOST_DRIFT };

    /// By how much the other clock gains on this one.
    pub fn reversed(self) -> Drift {
        Drift { least: -self.most, most: -self.least }
    }

    /// How long a request and its response were under way together. `ours`: when it was sent and answered by the first
    /// clock; `theirs`: when it came and was answered by the second one. `None` if that is less than nothing.
    pub fn both_ways(self, ours: (u64, u64), theirs: (u64, u64)) -> Option<Bounds> {
        let [ours, theirs] = [ours, theirs].map(|(from_ns, to_ns)| difference(to_ns, from_ns));
        let low_ns = (ours - theirs + theirs * self.least).max(0.0);
        let high_ns = ours - theirs + theirs * self.most;
        (low_ns <= high_ns).then_some(Bounds { low_ns, high_ns })
    }
}

/// When a packet was sent or received here, and the bound that it gives.
type Bound = (u64, f64);

/// A packet each way, near each other.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    high: Bound,
    low: Bound,
    width_ns: f64,
}

/// The best packets of a span of time: those whose bounds are best at its end, and the two that are narrowest together.
#[derive(Clone, Copy, Debug)]
struct Span {
    begin_ns: u64,
    high: Option<Bound>,
    low: Option<Bound>,
    exchange: Option<Exchange>,
}

impl Span {
    fn take(&mut self, exchange: Option<Exchange>) {
        let best = self.exchange.map_or(f64::INFINITY, |best| best.width_ns);
        self.exchange = exchange.filter(|new| new.width_ns < best).or(self.exchange);
    }
}

/// Compares our clock with that of another host, over a sliding window.
#[derive(Clone, Debug)]
pub struct Clocks {
    span_ns: u64,
    spans: VecDeque<Span>,
    /// The packets that were told last.
    last: (Option<Bound>, Option<Bound>),
}

/// `a` less `b`, ns.
pub fn difference(a: u64, b: u64) -> f64 {
    // Exact: differences of clocks are far below 2⁵³ ns.
    i128::from(a).wrapping_sub(i128::from(b)) as f64
}

/// How much an unknown drift may have changed a bound in this time; negative if it was before.
fn aged(from_ns: u64, to_ns: u64) -> f64 {
    difference(to_ns, from_ns) * MOST_DRIFT
}

impl Clocks {
    /// Looks back as long as this, ns.
    pub fn new(window_ns: u64) -> Self {
        Clocks { span_ns: (window_ns / SPANS as u64).max(1), spans: VecDeque::new(), last: (None, None) }
    }

    /// A packet that we sent (our clock), and that was received there (their clock).
    pub fn sent(&mut self, here_ns: u64, there_ns: u64) {
        let high = difference(there_ns, here_ns);
        self.last.0 = Some((here_ns, high));
        let exchange = self.exchange();
        let Some(span) = self.span(here_ns) else { return };
        // At the later time of the two, in whichever order they are told.
        if span.high.is_none_or(|(at, best)| high < best + aged(at, here_ns)) {
            span.high = Some((here_ns, high));
        }
        span.take(exchange);
    }

    /// A packet that was sent there (their clock), and that we received (our clock).
    pub fn received(&mut self, there_ns: u64, here_ns: u64) {
        let low = difference(there_ns, here_ns);
        self.last.1 = Some((here_ns, low));
        let exchange = self.exchange();
        let Some(span) = self.span(here_ns) else { return };
        if span.low.is_none_or(|(at, best)| low > best - aged(at, here_ns)) {
            span.low = Some((here_ns, low));
        }
        span.take(exchange);
    }

    /// The two packets that were told last, if they are of about one time.
    fn exchange(&self) -> Option<Exchange> {
        let (high, low) = (self.last.0?, self.last.1?);
        let apart_ns = high.0.abs_diff(low.0);
        let width_ns = high.1 - low.1 + aged(0, apart_ns);
        (apart_ns <= self.span_ns).then_some(Exchange { high, low, width_ns })
    }

    /// The span of a time of ours; `None` if that is before the window.
    fn span(&mut self, here_ns: u64) -> Option<&mut Span> {
        let begin_ns = here_ns / self.span_ns * self.span_ns;
        let at = self.spans.partition_point(|span| span.begin_ns < begin_ns);
        if self.spans.get(at).is_none_or(|span| span.begin_ns != begin_ns) {
            self.spans.insert(at, Span { begin_ns, high: None, low: None, exchange: None });
        }
        let newest = self.spans.back().map_or(0, |span| span.begin_ns);
        let oldest = newest.saturating_sub(self.span_ns * SPANS as u64);
        let old = self.spans.partition_point(|span| span.begin_ns < oldest);
        self.spans.drain(..old);
        self.spans.get_mut(at.checked_sub(old)?)
    }

    /// What all packets of the window say together. Take it once to ask for many times.
    pub fn reading(&self) -> Reading {
        let of = |best: fn(&Span) -> Option<Bound>, of_two: fn(&Exchange) -> Bound| -> Vec<Bound> {
            self.spans.iter().flat_map(|span| [best(span), span.exchange.as_ref().map(of_two)]).flatten().collect()
        };
        let (highs, lows) = (of(|span| span.high, |two| two.high), of(|span| span.low, |two| two.low));
        let (mut least, mut most) = (-MOST_DRIFT, MOST_DRIFT);
        for (high_at, high) in &highs {
            for (low_at, low) in &lows {
                let time = difference(*high_at, *low_at);
                if time > 0.0 {
                    most = most.min((high - low) / time);
                } else if time < 0.0 {
                    least = least.max((low - high) / -time);
                }
            }
        }
        Reading { highs, lows, least, most }
    }

    /// As [`Reading::drift`].
    pub fn drift(&self) -> Option<Drift> {
        self.reading().drift()
    }

    /// As [`Reading::ahead`]. After `None` for contradicting packets, [`Clocks::forget`] helps.
    pub fn ahead(&self, here_ns: u64) -> Option<Bounds> {
        self.reading().ahead(here_ns)
    }

    /// How long a packet needed that we sent and that was received there.
    pub fn latency(&self, here_ns: u64, there_ns: u64) -> Option<Bounds> {
        let ahead = self.ahead(here_ns)?;
        let raw = difference(there_ns, here_ns);
        Some(Bounds { low_ns: (raw - ahead.high_ns).max(0.0), high_ns: raw - ahead.low_ns })
    }

    /// Begins anew, because a clock was set.
    pub fn forget(&mut self) {
        self.spans.clear();
        self.last = (None, None);
    }
}

/// All bounds of a window.
#[derive(Clone, Debug)]
pub struct Reading {
    highs: Vec<Bound>,
    lows: Vec<Bound>,
    least: f64,
    most: f64,
}

impl Reading {
    /// Times of ours at which a packet gave a bound.
    pub fn times(&self) -> impl Iterator<Item = u64> + '_ {
        self.highs.iter().chain(&self.lows).map(|(at, _)| *at)
    }

    /// By how much their clock gains on ours, as a share of time; within [`MOST_DRIFT`] each way. `None` if packets
    /// contradict each other.
    pub fn drift(&self) -> Option<Drift> {
        (self.least <= self.most).then_some(Drift { least: self.least, most: self.most })
    }

    /// Whether there are packets each way, and they contradict each other: a clock was set.
    pub fn is_contradicted(&self, here_ns: u64) -> bool {
        !self.highs.is_empty() && !self.lows.is_empty() && self.ahead(here_ns).is_none()
    }

    /// The time of ours at which the bounds are narrowest, and these. Between packets, they widen by as much as the
    /// clocks may go apart. `None` as for [`Reading::ahead`].
    pub fn narrowest(&self) -> Option<(u64, Bounds)> {
        let all = self.times().filter_map(|at| Some((at, self.ahead(at)?)));
        // Of equal ones, the latest.
        all.min_by(|(a, of_a), (b, of_b)| of_a.width_ns().total_cmp(&of_b.width_ns()).then(b.cmp(a)))
    }

    /// How far their clock is ahead of ours at this time of ours; negative if it is behind. `None` until a packet was
    /// seen each way, or if the packets contradict each other: then a clock was set.
    pub fn ahead(&self, here_ns: u64) -> Option<Bounds> {
        let (least, most) = (self.least, self.most);
        let grown = |at: u64, bound: f64, later: f64, earlier: f64| {
            let time = difference(here_ns, at);
            bound + time * if time >= 0.0 { later } else { earlier }
        };
        let highs = self.highs.iter().map(|(at, high)| grown(*at, *high, most, least));
        let lows = self.lows.iter().map(|(at, low)| grown(*at, *low, least, most));
        let (high_ns, low_ns) = (highs.min_by(f64::total_cmp)?, lows.max_by(f64::total_cmp)?);
        (low_ns <= high_ns && least <= most).then_some(Bounds { low_ns, high_ns })
    }
}
