//! Packets that several agents saw, as the view shows them.

use super::super::board::{heat, ROWS};
use super::super::report::ends;
use super::super::Action;
use super::loss::{self, Lost};
use super::stays::Stays;
use std::collections::HashMap;
use std::time::Instant;
use wirespan_journey::meeting::{Between, Compared, Departed, Meeting, Passage, Sight, Stay};
use wirespan_view::fleet::{BetweenView, ClockView, FleetAgent, FleetView, LostBetween, MetView};
use wirespan_view::packets::{FlowEnds, LossView, PacketPlace};
use wirespan_view::TimeView;

/// How often packets are joined, ms.
const TURN_EVERY_MS: u64 = 500;
/// Places of all agents at most.
const PLACES: usize = 10_000;
/// Actions for which agents have to tell how their packets came and went.
const MEETS: [Action; 3] = [Action::Latency, Action::Loss, Action::Flows];

/// Joins what agents tell of their packets. Agents go by the number of their order.
pub(super) struct Met {
    meeting: Meeting,
    numbers: HashMap<PacketPlace, u32>,
    places: Vec<PacketPlace>,
    begun: Instant,
    turned_ms: u64,
    actions: Vec<Action>,
}

impl Met {
    /// For these actions; `None` if they need no such join.
    pub(super) fn of(actions: &[Action]) -> Option<Self> {
        if !MEETS.iter().any(|action| actions.contains(action)) {
            return None;
        }
        let (begun, meeting, actions) = (Instant::now(), Meeting::default(), actions.to_vec());
        Some(Met { meeting, numbers: HashMap::new(), places: Vec::new(), begun, turned_ms: 0, actions })
    }

    /// From now on these are the actions. What was joined stays.
    pub(super) fn act(&mut self, actions: &[Action]) {
        self.actions = actions.to_vec();
    }

    fn has(&self, action: Action) -> bool {
        self.actions.contains(&action)
    }

    /// Takes what an agent tells. Returns how much of it could not be read.
    pub(super) fn take(&mut self, agent: usize, told: &Stays) -> u64 {
        self.take_at(agent, told, self.now_ms())
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Joins what has waited long enough, also if agents tell of no more packets.
    pub(super) fn turn(&mut self) {
        self.turn_at(self.now_ms());
    }

    fn turn_at(&mut self, now_ms: u64) {
        if now_ms.saturating_sub(self.turned_ms) >= TURN_EVERY_MS {
            self.turned_ms = now_ms;
            self.meeting.turn(now_ms);
        }
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
        self.turn_at(now_ms);
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

    /// Puts the tables into `view`, and for each agent what became of its packets.
    pub(super) fn show(&mut self, view: &mut FleetView) {
        for (host, agent) in (0u32..).zip(view.agents.iter_mut()) {
            agent.met = Some(met(&self.meeting, host));
        }
        if self.has(Action::Latency) {
            (view.between, view.clocks) = self.times(&view.agents);
        }
        if self.has(Action::Loss) {
            view.loss = self.losses(&view.agents);
        }
        if self.has(Action::Flows) {
            loss::flows(view, &self.lost_flows());
        }
    }

    fn place(&self, number: u32) -> PacketPlace {
        self.places.get(number as usize).cloned().unwrap_or_default()
    }

    /// What left agents and did not arrive at others.
    fn losses(&self, agents: &[FleetAgent]) -> Vec<LostBetween> {
        let row = |((host, place), of): ((u32, u32), &Departed)| {
            let to = of.mostly();
            LostBetween {
                from_agent: name(agents, host),
                from: self.place(place),
                to_agent: to.map(|(host, _)| name(agents, host)).unwrap_or_default(),
                to: to.map(|(_, place)| self.place(place)),
                loss: LossView {
                    packets: of.packets,
                    went_on: of.reached,
                    dropped: 0,
                    missing: of.missing,
                    under_way: of.unknown(),
                },
                at_most: loss::is_at_most(agents, host as usize),
            }
        };
        self.meeting.departed().filter(|(_, of)| of.reached > 0).take(ROWS).map(row).collect()
    }

    /// What was lost between agents, by flow.
    fn lost_flows(&self) -> HashMap<Option<FlowEnds>, Lost> {
        let mut all: HashMap<Option<FlowEnds>, Lost> = HashMap::new();
        for (route, of) in self.meeting.departed_flows() {
            all.entry(route.map(ends)).or_default().add(of);
        }
        all
    }

    /// Times between agents, and how their clocks differ.
    fn times(&self, agents: &[FleetAgent]) -> (Vec<BetweenView>, Vec<ClockView>) {
        let name = |host: u32| name(agents, host);
        let between = |(passage, of): (&Passage, &Between)| {
            let ((from, left), (to, came)) = *passage;
            let quantiles = of.quantiles([0.5, 0.99, 0.999]).map(|all| all.map(TimeView::from));
            let quantile = |n: usize| quantiles.and_then(|all| all.get(n).copied());
            BetweenView {
                from_agent: name(from),
                from: self.place(left),
                to_agent: name(to),
                to: self.place(came),
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

fn name(agents: &[FleetAgent], host: u32) -> String {
    agents.get(host as usize).map(|agent| agent.agent.clone()).unwrap_or_default()
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
