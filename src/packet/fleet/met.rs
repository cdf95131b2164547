//! Packets that several agents saw, as the view shows them.

use super::super::board::heat;
use super::stays::Stays;
use std::collections::HashMap;
use std::time::Instant;
use wirespan_journey::meeting::{Between, Compared, Meeting, Passage, Sight, Stay};
use wirespan_view::fleet::{BetweenView, ClockView, FleetAgent, MetView};
use wirespan_view::packets::PacketPlace;
use wirespan_view::TimeView;

/// How often packets are joined, ms.
const TURN_EVERY_MS: u64 = 500;
/// Places of all agents at most.
const PLACES: usize = 10_000;
/// Rows of a table at most.
const ROWS: usize = 100;

/// Joins what agents tell of their packets. Agents go by the number of their order.
pub(super) struct Met {
    meeting: Meeting,
    numbers: HashMap<PacketPlace, u32>,
    places: Vec<PacketPlace>,
    begun: Instant,
    turned_ms: u64,
}

impl Default for Met {
    fn default() -> Self {
        let (begun, meeting) = (Instant::now(), Meeting::default());
        Met { meeting, numbers: HashMap::new(), places: Vec::new(), begun, turned_ms: 0 }
    }
}

impl Met {
    /// Takes what an agent tells. Returns how much of it could not be read.
    pub(super) fn take(&mut self, agent: usize, told: &Stays) -> u64 {
        let now_ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.take_at(agent, told, now_ms)
    }

    /// As [`Met::take`]; `now_ms` is a time that goes on.
    pub(super) fn take_at(&mut self, agent: usize, told: &Stays, now_ms: u64) -> u64 {
        let host = agent as u32;
        self.meeting.left_out(host, told.left_out);
        let numbers: Vec<Option<u32>> = told.places().iter().map(|place| self.number(place)).collect();
        let mut malformed = 0;
        for stay in told.read() {
            let Some(stay) = stay else {
                malformed += 1;
                continue;
            };
            let placed = |sight: Sight| {
                let place = numbers.get(sight.place as usize).copied().flatten()?;
                Some(Sight { place, ..sight })
            };
            match (placed(stay.entry), placed(stay.exit)) {
                (Some(entry), Some(exit)) => self.meeting.add(host, Stay { entry, exit, ..stay }, now_ms),
                _ => self.meeting.left_out(host, 1),
            }
        }
        if now_ms.saturating_sub(self.turned_ms) >= TURN_EVERY_MS {
            self.turned_ms = now_ms;
            self.meeting.turn(now_ms);
        }
        malformed
    }

    fn number(&mut self, place: &PacketPlace) -> Option<u32> {
        if let Some(number) = self.numbers.get(place) {
            return Some(*number);
        }
        if self.places.len() >= PLACES {
            return None;
        }
        let number = self.places.len() as u32;
        self.places.push(place.clone());
        self.numbers.insert(place.clone(), number);
        Some(number)
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self) {
        self.meeting.finish();
    }

    /// The tables, and for each agent what became of its packets.
    pub(super) fn show(&mut self, agents: &mut [FleetAgent]) -> (Vec<BetweenView>, Vec<ClockView>) {
        for (host, agent) in (0u32..).zip(agents.iter_mut()) {
            agent.met = Some(met(&self.meeting, host));
        }
        let name = |host: u32| agents.get(host as usize).map(|agent| agent.agent.clone()).unwrap_or_default();
        let place = |number: u32| self.places.get(number as usize).cloned().unwrap_or_default();
        let between = |(passage, of): (&Passage, &Between)| {
            let ((from, left), (to, came)) = *passage;
            let quantiles = of.quantiles([0.5, 0.99, 0.999]).map(|all| all.map(TimeView::from));
            let quantile = |n: usize| quantiles.and_then(|all| all.get(n).copied());
            BetweenView {
                from_agent: name(from),
                from: place(left),
                to_agent: name(to),
                to: place(came),
                packets: of.packets(),
                unknown: of.unknown(),
                p50: quantile(0),
                p99: quantile(1),
                p999: quantile(2),
                times: heat(of.heat()),
            }
        };
        let clock = |of: Compared| ClockView {
            agent: name(of.hosts.1),
            than: name(of.hosts.0),
            at_ns: of.at_ns,
            low_ns: of.ahead.map(|ahead| ahead.low_ns.floor() as i64),
            high_ns: of.ahead.map(|ahead| ahead.high_ns.ceil() as i64),
            drift_low_ppm: of.drift.least * 1e6,
            drift_high_ppm: of.drift.most * 1e6,
            packets_to: of.packets.0,
            packets_back: of.packets.1,
            set: of.set,
        };
        let between = self.meeting.passages().take(ROWS).map(between).collect();
        (between, self.meeting.clocks().take(ROWS).map(clock).collect())
    }
}

fn met(meeting: &Meeting, host: u32) -> MetView {
    let of = meeting.tally(host);
    MetView {
        whole: of.whole,
        met: of.met,
        only_left: of.only_left,
        only_came: of.only_came,
        dropped: of.dropped,
        unclear: of.unclear,
        unordered: of.unordered,
        left_out: of.left_out,
    }
}
