//! What slow requests do (`trace-why`), asked of the agents of a server.
//!
//! ```text
//! client ──WhyOrder──▶ server ──Ask::Why──▶ agents        each records it if it has processes of the service
//! client ◀──who records── server ◀──ToldWhy── agents      what they record comes with their spans
//! ```
//!
//! The server waits a few seconds for the answers. An agent that has not answered by then is named as silent: it is
//! not known whether it records.

use super::{named, Ask, Fleet, NO_AGENT};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use wirespan_ship::link::Answer;
use wirespan_view::{WhyAgent, WhyBegun, WhyOrder, WhySource, WhyState};

/// How long an agent may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Why an agent that takes no orders at all does not record.
const TAKES_NONE: &str = "it was started without --why-orders";

/// What an agent answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::packet) struct ToldWhy {
    /// Processes of the service that it traces; if there are none, it records nothing.
    pub(in crate::packet) processes: usize,
    /// When it ends, Unix ns.
    pub(in crate::packet) until_ns: u64,
    /// Why it does not obey; empty if it does.
    pub(in crate::packet) refused: String,
}

/// An order whose answers are waited for.
pub(super) struct Waiting {
    number: u64,
    agents: Vec<(u64, WhyAgent)>,
    until_ns: u64,
}

impl Waiting {
    fn is_answered(&self) -> bool {
        self.agents.iter().all(|(_, agent)| agent.state != WhyState::Silent)
    }

    fn take(&mut self, session: u64, answer: &Answer) {
        let Some((_, agent)) = self.agents.iter_mut().find(|(own, _)| *own == session) else { return };
        let told = serde_json::from_slice(&answer.body).unwrap_or_else(|_| ToldWhy {
            refused: "its answer is not understood: is it of another version?".into(),
            ..ToldWhy::default()
        });
        agent.state = match (told.refused.is_empty(), told.processes) {
            (false, _) => WhyState::Refused,
            (true, 0) => WhyState::NoProcess,
            (true, _) => WhyState::Records,
        };
        (agent.why, agent.processes) = (told.refused, told.processes);
        self.until_ns = self.until_ns.max(told.until_ns);
    }
}

impl Fleet {
    /// Takes an answer to such an order. False if it belongs to none.
    pub(super) fn take_why(&self, session: u64, answer: &Answer) -> bool {
        let mut waiting = self.whys.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(order) = waiting.iter_mut().find(|order| order.number == answer.number) else { return false };
        order.take(session, answer);
        self.answered.notify_all();
        true
    }

    /// Asks every agent, and waits for their answers.
    pub(crate) fn why(self: &Arc<Self>) -> Arc<WhySource> {
        let fleet = Arc::clone(self);
        Arc::new(move |order: &WhyOrder| fleet.ask_why(order))
    }

    fn ask_why(&self, order: &WhyOrder) -> Result<WhyBegun, (&'static str, String)> {
        crate::agent::understood(order)?;
        let connected = self.list();
        if connected.is_empty() {
            return Err(("", NO_AGENT.into()));
        }
        let number = self.number();
        let agents = named(&connected).into_iter().map(|(session, agent, status)| {
            let takes = status.agent.takes_orders;
            let state = if takes { WhyState::Silent } else { WhyState::Refused };
            let why = if takes { String::new() } else { TAKES_NONE.into() };
            (session, WhyAgent { agent, state, why, processes: 0 })
        });
        let agents: Vec<_> = agents.collect();
        let asked: Vec<u64> = agents.iter().filter(|(_, a)| a.state == WhyState::Silent).map(|(s, _)| *s).collect();
        let mut waiting = self.whys.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(Waiting { number, agents, until_ns: 0 });
        drop(waiting);
        for session in asked {
            // One that cannot be reached stays silent.
            let _ = self.ask(session, number, &Ask::Why(order.clone()));
        }
        Ok(self.wait_for(number))
    }

    /// What the agents have answered, once all have, or after some time.
    fn wait_for(&self, number: u64) -> WhyBegun {
        let until = Instant::now() + PATIENCE;
        let mut waiting = self.whys.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let at = waiting.iter().position(|order| order.number == number);
            let Some(at) = at else { return WhyBegun::default() };
            if waiting[at].is_answered() || left.is_zero() {
                let done = waiting.swap_remove(at);
                let agents: Vec<WhyAgent> = done.agents.into_iter().map(|(_, agent)| agent).collect();
                let processes = agents.iter().map(|agent| agent.processes).sum();
                return WhyBegun { until_ns: done.until_ns, processes, agents };
            }
            let woken = self.answered.wait_timeout(waiting, left);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn agents_that_record_have_no_such_service_refuse_or_are_silent_are_told_apart() {
        let agent = |n| (n, WhyAgent { agent: format!("node-{n}"), state: WhyState::Silent, ..WhyAgent::default() });
        let fleet = Fleet::default();
        fleet.whys.lock().unwrap().push(Waiting { number: 7, agents: (1..=5).map(agent).collect(), until_ns: 0 });
        let told = |processes, refused: &str| ToldWhy { processes, until_ns: 90, refused: refused.into() };
        let answer = |told: &ToldWhy| Answer { number: 7, body: serde_json::to_vec(told).unwrap() };
        assert!(fleet.take_why(1, &answer(&told(2, ""))));
        assert!(fleet.take_why(2, &answer(&told(0, ""))));
        assert!(fleet.take_why(3, &answer(&told(0, "it was started without --why-orders"))));
        assert!(fleet.take_why(4, &Answer { number: 7, body: b"{".to_vec() }));
        assert!(!fleet.take_why(5, &Answer { number: 8, body: Vec::new() }), "of another order");
        let begun = fleet.wait_for(7);
        let states: Vec<_> = begun.agents.iter().map(|agent| agent.state).collect();
        use WhyState::{NoProcess, Records, Refused, Silent};
        assert_eq!(states, [Records, NoProcess, Refused, Refused, Silent]);
        assert_eq!((begun.processes, begun.until_ns), (2, 90));
        assert!(fleet.whys.lock().unwrap().is_empty(), "a late answer finds no order");
    }
}
