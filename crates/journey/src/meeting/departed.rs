//! What became of the packets that left a host: they reached another one, or they are missing.
//!
//! Hosts begin and end to watch at different times. So a packet that nobody saw arrive is missing only if it left
//! between two packets of the same addresses that did arrive. Of the others nothing is known.

use super::line::Judged;
use crate::flows::{pair, Pair};
use crate::MOST_FLOWS;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use wirespan_model::packet::Route;

/// Packets that wait for a later one of the same addresses at most, for each pair of addresses.
const MOST_WAITING: usize = 100_000;

/// Packets that left a place of a host for other hosts.
#[derive(Clone, Debug, Default)]
pub struct Departed {
    /// Packets.
    pub packets: u64,
    /// Of these: another host saw them arrive.
    pub reached: u64,
    /// No host saw them arrive, although it saw earlier and later ones.
    pub missing: u64,
    /// At which place of which host they arrived, and how many.
    arrivals: BTreeMap<(u32, u32), u64>,
}

impl Departed {
    /// Packets of which it is not known whether they arrived.
    pub fn unknown(&self) -> u64 {
        self.packets.saturating_sub(self.reached + self.missing)
    }

    /// The host and its place at which most of them arrived.
    pub fn mostly(&self) -> Option<(u32, u32)> {
        self.arrivals.iter().max_by_key(|(_, packets)| **packets).map(|(at, _)| *at)
    }
}

/// Packets from one place between two addresses.
#[derive(Debug, Default)]
struct Between {
    any_reached: bool,
    /// The flows of packets that nobody saw arrive since one arrived.
    waiting: Vec<Option<Route>>,
}

/// All packets that left hosts.
#[derive(Debug, Default)]
pub(super) struct Departures {
    places: BTreeMap<(u32, u32), Departed>,
    flows: FxHashMap<Option<Route>, Departed>,
    pairs: FxHashMap<(u32, u32, Pair), Between>,
}

impl Departures {
    /// Takes what was judged at one time.
    pub(super) fn add(&mut self, judged: &[Judged]) {
        let mut all: Vec<&Judged> = judged.iter().filter(|one| !one.stay.is_acknowledgement()).collect();
        all.sort_by_key(|one| one.stay.exit.time_ns);
        all.into_iter().for_each(|one| self.take(one));
    }

    fn take(&mut self, one: &Judged) {
        let (place, route) = ((one.host, one.stay.exit.place), one.stay.entry.route);
        let route = Some(route).filter(|r| self.flows.len() < MOST_FLOWS || self.flows.contains_key(&Some(*r)));
        let key = |pair| (place.0, place.1, pair);
        let mut among = key(pair(&one.stay.exit.route));
        if self.pairs.len() >= MOST_FLOWS && !self.pairs.contains_key(&among) {
            among = key(None);
        }
        let [at, flow] = [self.places.entry(place).or_default(), self.flows.entry(route).or_default()];
        at.packets += 1;
        flow.packets += 1;
        let pair = self.pairs.entry(among).or_default();
        if one.unordered || (one.lost && (!pair.any_reached || pair.waiting.len() >= MOST_WAITING)) {
            return;
        }
        if one.lost {
            pair.waiting.push(route);
            return;
        }
        pair.any_reached = true;
        for of in [&mut *at, flow] {
            of.reached += 1;
            for arrival in one.arrivals.iter().filter(|arrival| arrival.next) {
                *of.arrivals.entry((arrival.host, arrival.entry.place)).or_default() += 1;
            }
        }
        at.missing += pair.waiting.len() as u64;
        for route in pair.waiting.drain(..) {
            self.flows.entry(route).or_default().missing += 1;
        }
    }

    /// By host and place.
    pub(super) fn places(&self) -> impl Iterator<Item = ((u32, u32), &Departed)> {
        self.places.iter().map(|(place, of)| (*place, of))
    }

    /// By flow, as the host saw it that sent them; `None`: all flows beyond the bound.
    pub(super) fn flows(&self) -> impl Iterator<Item = (Option<&Route>, &Departed)> {
        self.flows.iter().map(|(route, of)| (route.as_ref(), of))
    }
}
