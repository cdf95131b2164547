//! Packets that several agents recorded → the tables that a server has of them while they come.

use super::super::board::place;
use super::super::{Action, Names};
use super::met::Met;
use super::stays::Gathered;
use serde_json::{json, Value};
use wirespan_journey::Journey;
use wirespan_model::packet::Sighting;
use wirespan_view::fleet::{FleetAgent, FleetView};

/// Journeys that are handed on together: fewer than are left out for their number.
const TOGETHER: usize = 10_000;

/// Joins what agents recorded. Agents go by number.
pub(crate) struct Joined {
    met: Met,
    gathered: Vec<Gathered>,
    agents: Vec<FleetAgent>,
    /// Time goes on by the clock of the first agent, because the lines of all agents were written as they came.
    first_ns: Option<u64>,
    now_ms: u64,
    any: bool,
}

impl Joined {
    /// `None` if the actions need no join, or if there is one agent only.
    pub(crate) fn of(agents: &[&str], actions: &[Action]) -> Option<Self> {
        let met = Met::of(actions).filter(|_| agents.len() > 1)?;
        let named = |agent: &&str| FleetAgent { agent: (*agent).to_owned(), ..FleetAgent::default() };
        let (gathered, agents) = (agents.iter().map(|_| Gathered::default()).collect(), agents.iter().map(named));
        Some(Joined { met, gathered, agents: agents.collect(), first_ns: None, now_ms: 0, any: false })
    }

    /// Takes a sighting, in the order in which they were written.
    pub(crate) fn see(&mut self, agent: usize, s: &Sighting) {
        if agent == 0 {
            let first_ns = *self.first_ns.get_or_insert(s.time_ns);
            self.now_ms = self.now_ms.max(s.time_ns.saturating_sub(first_ns) / 1_000_000);
        }
        self.gathered.get_mut(agent).into_iter().for_each(|all| all.see(s));
    }

    /// Takes the journeys of an agent that are known by now.
    pub(crate) fn add(&mut self, agent: usize, journeys: &[Journey], names: &Names, ends: bool) {
        let Some(gathered) = self.gathered.get_mut(agent) else { return };
        self.any |= !journeys.is_empty();
        let mut hand_on = |gathered: &mut Gathered| {
            for stays in gathered.take(|of| place(of, names)) {
                self.met.take_at(agent, &stays, self.now_ms);
            }
        };
        for some in journeys.chunks(TOGETHER) {
            some.iter().for_each(|journey| gathered.add(journey));
            hand_on(gathered);
        }
        gathered.add_acknowledgements(ends);
        hand_on(gathered);
    }

    /// Whether there were any journeys.
    pub(crate) fn any(&self) -> bool {
        self.any
    }

    /// The tables, as a server gives them.
    pub(crate) fn show(mut self) -> Value {
        self.met.finish();
        let mut view = FleetView { agents: self.agents, ..FleetView::default() };
        self.met.show(&mut view);
        let FleetView { between, clocks, loss, agents, .. } = view;
        json!({"between": between, "clocks": clocks, "loss": loss, "agents": agents})
    }
}
