//! Orders of clients: to run, change or end a packet program on agents.

use super::super::run::{checked, whose};
use super::super::Program;
use super::called::{named, wanted};
use super::met::Met;
use super::{Ask, Asked, Collected, Fleet, NO_AGENT};
use std::net::SocketAddr;
use std::time::Instant;
use wirespan_ship::link::AgentStatus;
use wirespan_view::fleet::{ConnectedView, FleetAgent, FleetState, FleetView};
use wirespan_view::{FleetOrder, FleetSource, Whose};

impl Fleet {
    /// Runs another program at the agents that run this one. An agent that cannot goes on as before, and says why.
    fn change(
        &self,
        number: u64,
        order: &FleetOrder,
        program: &Program,
        servers: Vec<SocketAddr>,
    ) -> Result<(), (&'static str, String)> {
        let connected = self.list();
        let (sessions, meets) = {
            let mut collected = self.collected();
            let runs = collected.runs(|session| connected.contains_key(&session));
            if !runs || collected.number != number {
                return Err(("change", "this program has ended, so it cannot be changed".into()));
            }
            let elapsed = collected.started.map(|at| at.elapsed()).unwrap_or_default();
            let met = Met::of(&program.actions).filter(|_| collected.agents.len() > 1);
            let meets = met.is_some();
            collected.program.clone_from(&order.program);
            collected.limit = elapsed + program.time;
            collected.changes += 1;
            match &mut collected.met {
                Some(met) => met.act(&program.actions),
                none => *none = met,
            }
            let running = collected.agents.iter_mut().filter(|agent| !agent.is_done());
            let asked = running.map(|agent| {
                agent.shown.why.clear();
                agent.session
            });
            (asked.collect::<Vec<_>>(), meets)
        };
        let ask = Ask::Change { program: order.program.clone(), servers, meets };
        self.ask_all(sessions, number, &ask, |shown, why| shown.why = format!("the change did not reach it: {why}"));
        Ok(())
    }

    /// Asks these agents; `unreached` notes why one was not reached.
    fn ask_all(
        &self,
        sessions: impl IntoIterator<Item = u64>,
        number: u64,
        ask: &Ask,
        unreached: impl Fn(&mut FleetAgent, String),
    ) {
        for session in sessions {
            let Err(why) = self.ask(session, number, ask) else { continue };
            let mut collected = self.collected();
            if let Some(agent) = collected.agents.iter_mut().find(|agent| agent.session == session) {
                unreached(&mut agent.shown, why);
            }
        }
    }
}

impl FleetSource for Fleet {
    fn now(&self, had_lines: Option<u64>) -> FleetView {
        let connected = self.list();
        let mut view = self.collected().view(|session| connected.contains_key(&session), had_lines);
        let shown = |(_, agent, status): (u64, String, &AgentStatus)| ConnectedView {
            agent,
            takes_orders: status.agent.takes_orders,
        };
        view.connected = named(&connected).into_iter().map(shown).collect();
        view
    }

    fn whose(&self, order: &FleetOrder) -> Result<Option<Whose>, (&'static str, String)> {
        whose(&order.program).map_err(|why| ("program", format!("{why:#}")))
    }

    fn order(&self, order: &FleetOrder, servers: Vec<SocketAddr>) -> Result<(), (&'static str, String)> {
        if order.program.trim().is_empty() {
            self.end();
            return Ok(());
        }
        let program = checked(&order.program).map_err(|why| ("program", format!("{why:#}")))?;
        if program.whose().is_some() && servers.is_empty() {
            return Err(("program", "no server is known that answered such a request over TCP".into()));
        }
        if let Some(number) = order.change {
            return self.change(number, order, &program, servers);
        }
        let connected = self.list();
        if connected.is_empty() {
            return Err(("agents", NO_AGENT.into()));
        }
        let chosen = wanted(named(&connected), &order.agents).map_err(|why| ("agents", why))?;
        let now = Instant::now();
        let meets;
        let number = {
            let mut collected = self.collected();
            if collected.runs(|session| connected.contains_key(&session)) {
                return Err((
                    "",
                    "agents run another packet program, until its time is over or its client ends".into(),
                ));
            }
            let asked = chosen.iter().map(|(session, name, status)| {
                let mut shown = FleetAgent { agent: name.clone(), ..FleetAgent::default() };
                if !status.agent.takes_orders {
                    shown.state = FleetState::Refused;
                    shown.why = "it was started without --packet-programs".into();
                }
                Asked { session: *session, shown, heard: now, next_line: 0, under_way: 0 }
            });
            // One agent alone has nobody whom its packets could meet.
            let met = Met::of(&program.actions).filter(|_| chosen.len() > 1);
            meets = met.is_some();
            *collected = Collected {
                number: self.number(),
                program: order.program.clone(),
                started: Some(now),
                limit: program.time,
                agents: asked.collect(),
                fetched: Some(now),
                met,
                ..Collected::default()
            };
            collected.number
        };
        let ask = Ask::Run { program: order.program.clone(), servers, meets };
        let takers = chosen.iter().filter(|(.., status)| status.agent.takes_orders).map(|(session, ..)| *session);
        self.ask_all(takers, number, &ask, |shown, why| {
            (shown.state, shown.why) = (FleetState::Refused, format!("it was not reached: {why}"));
        });
        Ok(())
    }
}
