//! Packets that leave one host and arrive at another: each host tells how its packets came and went, and here the two
//! ends are joined.
//!
//! A packet is known again as within one host: by addresses and sequence numbers (TCP), or by addresses, length and
//! payload (datagrams). Packets that were sent once and arrived once also compare the clocks of the two hosts
//! ([`crate::clocks`]). So each time between two hosts has bounds.
//!
//! Read in this order: [`stay`] (one host's part of a journey) → [`line`] (all stays with the same addresses) →
//! [`Meeting`] → [`between`] (the times between two places), [`departed`] (what did not arrive).

mod between;
mod departed;
mod line;
mod stay;

pub use between::Between;
pub use departed::Departed;
pub use stay::{Sight, Stay};

use crate::clocks::{Bounds, Clocks, Drift, Reading};
use departed::Departures;
use line::{Judged, Line};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use wirespan_model::packet::{Route, ACKNOWLEDGEMENT};

/// How long what left a host waits for what other hosts tell, ms.
const WAIT_MS: u64 = 4_000;
/// Arrivals are kept for longer, because what left is judged later. What left is kept for even longer: of an equal
/// packet that came, it must still be known that it had been sent.
const KEEP_CAME_MS: u64 = 2 * WAIT_MS;
const KEEP_LEFT_MS: u64 = 3 * WAIT_MS;
/// Stays that are kept at most.
const KEPT: usize = 400_000;
/// How far back packets say something about the clocks, ns.
const WINDOW_NS: u64 = 60_000_000_000;

/// What became of the packets of a host. Packets are counted as this host saw them: other hosts may see them cut or
/// joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// They began and ended at this host.
    pub whole: u64,
    /// They left it, and another host saw them arrive.
    pub met: u64,
    /// They left it, and no other host saw them arrive.
    pub only_left: u64,
    /// They arrived, and no other host saw them leave.
    pub only_came: u64,
    /// They were dropped here.
    pub dropped: u64,
    /// Of `met`: sent several times, and not as often received. Which one arrived is not known.
    pub unclear: u64,
    /// Of `met`: several hosts passed them on, and their order is not known.
    pub unordered: u64,
    /// Nothing is known of these, because too many were under way.
    pub left_out: u64,
}

/// What is known of the clocks of two hosts.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The hosts, by number. The bounds say how far the second one is ahead.
    pub hosts: (u32, u32),
    /// For this time of the first host, Unix ns: of the last minute, that at which the bounds are narrowest.
    pub at_ns: u64,
    /// `None` if packets were seen in one direction only, or if a clock was set.
    pub ahead: Option<Bounds>,
    /// By how much the second clock gains on the first, as a share of time.
    pub drift: Drift,
    /// Packets that compared them: from the first to the second, and back.
    pub packets: (u64, u64),
    /// How often packets contradicted each other because a clock was set.
    pub set: u64,
}

/// The clocks of two hosts.
#[derive(Debug)]
struct Pair {
    clocks: Clocks,
    reading: Option<Reading>,
    at_ns: u64,
    packets: (u64, u64),
    set: u64,
}

impl Pair {
    /// Whether packets of both directions have compared the clocks.
    fn is_compared(&self) -> bool {
        self.packets.0 > 0 && self.packets.1 > 0
    }

    /// How far the host where a packet came to is ahead of that where it left. `forth`: it went from the first host to
    /// the second.
    fn ahead(&self, forth: bool, left_ns: u64, came_ns: u64) -> Option<Bounds> {
        let reading = self.reading.as_ref()?;
        if forth {
            return reading.ahead(left_ns);
        }
        let Bounds { low_ns, high_ns } = reading.ahead(came_ns)?;
        Some(Bounds { low_ns: -high_ns, high_ns: -low_ns })
    }
}

impl Default for Pair {
    fn default() -> Self {
        Pair { clocks: Clocks::new(WINDOW_NS), reading: None, at_ns: 0, packets: (0, 0), set: 0 }
    }
}

/// From which place at which host to which place at which host.
pub type Passage = ((u32, u32), (u32, u32));

/// Joins the stays of several hosts. Hosts and places are numbers of the caller.
#[derive(Debug, Default)]
pub struct Meeting {
    lines: FxHashMap<Route, Line>,
    pairs: BTreeMap<(u32, u32), Pair>,
    passages: BTreeMap<Passage, Between>,
    tallies: BTreeMap<u32, Tally>,
    departures: Departures,
    kept: usize,
}

impl Meeting {
    /// Takes what a host saw of a packet. `now_ms`: a time of the caller that goes on.
    pub fn add(&mut self, host: u32, stay: Stay, now_ms: u64) {
        let mut ignored = Tally::default();
        let tally = match stay.is_acknowledgement() {
            true => &mut ignored,
            false => self.tallies.entry(host).or_default(),
        };
        tally.dropped += u64::from(stay.dropped);
        tally.whole += u64::from(!stay.came_in && !stay.went_out && !stay.dropped);
        if self.kept >= KEPT {
            tally.left_out += 1;
            return;
        }
        if stay.came_in {
            self.lines.entry(stay.entry.route).or_default().came(host, stay, now_ms);
            self.kept += 1;
        }
        if stay.went_out || stay.dropped {
            self.lines.entry(stay.exit.route).or_default().left(host, stay, now_ms);
            self.kept += 1;
        }
    }

    /// Packets of a host of which it could not tell.
    pub fn left_out(&mut self, host: u32, packets: u64) {
        self.tallies.entry(host).or_default().left_out += packets;
    }

    /// Joins what has waited long enough.
    pub fn turn(&mut self, now_ms: u64) {
        let [due, left, came] = [WAIT_MS, KEEP_LEFT_MS, KEEP_CAME_MS].map(|ms| now_ms.checked_sub(ms));
        self.judge(due, left, came);
    }

    /// Joins all the rest.
    pub fn finish(&mut self) {
        self.judge(Some(u64::MAX), Some(u64::MAX), Some(u64::MAX));
    }

    /// Joins what left up to the first time. Forgets what left up to the second, and what came up to the third.
    fn judge(&mut self, due_ms: Option<u64>, left_ms: Option<u64>, came_ms: Option<u64>) {
        let mut judged = Vec::new();
        for line in self.lines.values_mut() {
            line.judge(due_ms, &mut judged);
        }
        self.compare(&judged);
        self.settle();
        self.departures.add(&judged);
        for one in judged.iter().filter(|one| !one.stay.is_acknowledgement()) {
            self.tell(one);
        }
        for (route, line) in &mut self.lines {
            let counts = u64::from(route.protocol != ACKNOWLEDGEMENT);
            line.forget(left_ms, came_ms, |host| self.tallies.entry(host).or_default().only_came += counts);
        }
        self.lines.retain(|_, line| line.len() > 0);
        self.kept = self.lines.values().map(Line::len).sum();
    }

    /// Takes what packets say about the clocks.
    fn compare(&mut self, judged: &[Judged]) {
        let sure = judged.iter().flat_map(|one| one.arrivals.iter().filter(|a| a.sure).map(move |a| (one, a)));
        let mut sure: Vec<_> = sure.collect();
        // By the clock of the host with the smaller number, so that packets there and back stand beside each other.
        sure.sort_by_key(|(one, arrival)| match one.host < arrival.host {
            true => one.stay.exit.time_ns,
            false => arrival.entry.time_ns,
        });
        for (one, arrival) in sure {
            let (left_ns, came_ns) = (one.stay.exit.time_ns, arrival.entry.time_ns);
            let forth = one.host < arrival.host;
            let pair = self.pairs.entry(ordered(one.host, arrival.host)).or_default();
            if forth {
                pair.clocks.sent(left_ns, came_ns);
                (pair.packets.0, pair.at_ns) = (pair.packets.0 + 1, pair.at_ns.max(left_ns));
            } else {
                pair.clocks.received(left_ns, came_ns);
                (pair.packets.1, pair.at_ns) = (pair.packets.1 + 1, pair.at_ns.max(came_ns));
            }
        }
        for pair in self.pairs.values_mut() {
            let reading = pair.clocks.reading();
            if reading.is_contradicted(pair.at_ns) {
                pair.clocks.forget();
                pair.set += 1;
            }
            pair.reading = Some(reading);
        }
    }

    /// Packets went in one direction first, because the other host told of its packets later. Now that packets of both
    /// directions have compared the clocks, the earlier ones have times, too. If a clock was set, it was compared with
    /// another one than theirs.
    fn settle(&mut self) {
        let Meeting { pairs, passages, .. } = self;
        for (((a, _), (b, _)), between) in passages {
            if let Some(pair) = pairs.get(&ordered(*a, *b)).filter(|pair| pair.is_compared()) {
                let was_set = pair.set > 0;
                between.settle(|left, came| if was_set { None } else { pair.ahead(a < b, left, came) });
            }
        }
    }

    fn tell(&mut self, one: &Judged) {
        let tally = self.tallies.entry(one.host).or_default();
        if one.arrivals.is_empty() {
            tally.only_left += 1;
            return;
        }
        tally.met += 1;
        tally.unordered += u64::from(one.unordered);
        let next: Vec<_> = one.arrivals.iter().filter(|arrival| arrival.next).collect();
        tally.unclear += u64::from(!one.unordered && next.iter().all(|arrival| !arrival.paired));
        for arrival in next.into_iter().filter(|arrival| arrival.paired) {
            let (left, came) = (one.stay.exit, arrival.entry);
            let pair = self.pairs.get(&ordered(one.host, arrival.host)).filter(|pair| pair.is_compared());
            let passage = ((one.host, left.place), (arrival.host, came.place));
            let between = self.passages.entry(passage).or_default();
            match pair {
                Some(pair) => {
                    let ahead = pair.ahead(one.host < arrival.host, left.time_ns, came.time_ns);
                    between.add(left.time_ns, came.time_ns, ahead);
                }
                None => between.wait(left.time_ns, came.time_ns),
            }
        }
    }

    /// What became of the packets of a host.
    pub fn tally(&self, host: u32) -> Tally {
        self.tallies.get(&host).copied().unwrap_or_default()
    }

    /// The times from one host to another.
    pub fn passages(&self) -> impl Iterator<Item = (&Passage, &Between)> {
        self.passages.iter()
    }

    /// What became of the packets that left a place of a host, by host and place.
    pub fn departed(&self) -> impl Iterator<Item = ((u32, u32), &Departed)> {
        self.departures.places()
    }

    /// The same by flow, as the host saw it that sent them; `None`: all flows beyond the first
    /// [`MOST_FLOWS`](crate::MOST_FLOWS).
    pub fn departed_flows(&self) -> impl Iterator<Item = (Option<&Route>, &Departed)> {
        self.departures.flows()
    }

    /// The clocks of all hosts that have packets in common.
    pub fn clocks(&self) -> impl Iterator<Item = Compared> + '_ {
        self.pairs.iter().map(|(hosts, pair)| {
            // After a clock was set, only the latest packets count.
            let valid = pair.reading.as_ref().filter(|reading| reading.ahead(pair.at_ns).is_some());
            let narrowest = valid.and_then(Reading::narrowest);
            Compared {
                hosts: *hosts,
                at_ns: narrowest.map_or(pair.at_ns, |(at, _)| at),
                ahead: narrowest.map(|(_, ahead)| ahead),
                drift: pair.reading.as_ref().and_then(Reading::drift).unwrap_or(Drift::ANY),
                packets: pair.packets,
                set: pair.set,
            }
        })
    }
}

fn ordered(a: u32, b: u32) -> (u32, u32) {
    (a.min(b), a.max(b))
}
