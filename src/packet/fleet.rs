//! Packet programs on the agents of a server: hands them out, and collects what the agents tell.
//!
//! ```text
//! client ──program──▶ Fleet ──Ask──▶ agents          one program at a time
//! client ◀──tables, lines── Collected ◀──Told── agents
//! ```
//!
//! An agent tells something each second. One that tells nothing is shown as silent or gone, with what it told before.
//! It is waited for until a little after the program's time.

mod called;
mod joined;
mod loss;
mod met;
mod order;
mod stays;
mod why;

pub(crate) use joined::Joined;
pub(super) use stays::{Gathered, Stays};
pub(super) use why::ToldWhy;

use called::named;
use met::Met;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use why::Waiting;
use wirespan_ship::link::{AgentStatus, Agents, Answer, AnswerSink, Order};
use wirespan_view::fleet::{FleetAgent, FleetState, FleetView};
use wirespan_view::packets::{PacketsState, PacketsView};
use wirespan_view::WhyOrder;

/// Said to a client whose order nobody could carry out.
const NO_AGENT: &str = "no agent is connected to this server: start one with `wirespan agent --server ADDRESS`";
/// An agent that has told nothing for so long is silent.
const SILENT: Duration = Duration::from_secs(4);
/// After the program's time, agents are waited for so long.
const GRACE: Duration = Duration::from_secs(8);
/// A program of which nobody has asked anything for so long is ended: its client has gone.
const FORGOTTEN: Duration = Duration::from_secs(30);
/// Bytes of lines that wait for the client.
const LINES_BYTES: usize = 64 << 20;
/// Bytes of lines in one answer to the client.
const ANSWER_BYTES: usize = 8 << 20;

/// What an agent is asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ask {
    Run {
        program: String,
        /// Those that the program means by spans.
        servers: Vec<SocketAddr>,
        /// Whether to tell how each packet came and went, because other agents may have seen it, too.
        #[serde(default)]
        meets: bool,
    },
    /// To run another program instead, without a gap; the number of the order is that of the one that runs.
    Change {
        program: String,
        servers: Vec<SocketAddr>,
        #[serde(default)]
        meets: bool,
    },
    End,
    /// To record what slow requests of a service do.
    Why(WhyOrder),
}

/// What an agent tells of its program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) state: FleetState,
    pub(super) why: String,
    /// Orders to change the program that it has carried out, or tried to.
    #[serde(default)]
    pub(super) tried: u32,
    /// Lines that the agent made before these, sent or not.
    pub(super) before: u64,
    pub(super) lines: Vec<String>,
    /// Packets whose ways are not told yet.
    pub(super) under_way: u64,
    /// How packets came and went since the last answer.
    #[serde(default)]
    pub(super) stays: Option<Stays>,
    /// Its tables; `None`: as they were told before.
    pub(super) view: Option<PacketsView>,
}

/// One agent that was asked.
struct Asked {
    session: u64,
    shown: FleetAgent,
    heard: Instant,
    /// Number of its next line.
    next_line: u64,
    under_way: u64,
}

impl Asked {
    fn is_done(&self) -> bool {
        matches!(self.shown.state, FleetState::Ended | FleetState::Refused)
    }

    /// What it does, as far as is known.
    fn state(&self, connected: bool) -> FleetState {
        match self.shown.state {
            done @ (FleetState::Ended | FleetState::Refused) => done,
            _ if !connected => FleetState::Gone,
            _ if self.heard.elapsed() > SILENT => FleetState::Silent,
            as_told => as_told,
        }
    }
}

/// What came of the program that runs, or ran last.
#[derive(Default)]
struct Collected {
    number: u64,
    program: String,
    changes: u32,
    /// `None`: none was ordered.
    started: Option<Instant>,
    limit: Duration,
    /// How long it took, once it is over.
    took: Option<Duration>,
    agents: Vec<Asked>,
    lines: VecDeque<String>,
    first_line: u64,
    bytes: usize,
    lost_lines: u64,
    /// When a client has asked last.
    fetched: Option<Instant>,
    /// Packets that several agents saw, if that is asked.
    met: Option<Met>,
}

impl Collected {
    /// Takes an answer. One that belongs to no running program is of an earlier one.
    fn take(&mut self, session: u64, answer: &Answer) {
        let of_it = |agent: &Asked| agent.session == session && answer.number == self.number;
        let Some(nth) = self.agents.iter().position(of_it) else { return };
        let Some(agent) = self.agents.get_mut(nth) else { return };
        agent.heard = Instant::now();
        let Ok(told) = serde_json::from_slice::<Told>(&answer.body) else {
            agent.shown.malformed += 1;
            return;
        };
        if agent.is_done() {
            return;
        }
        let shown = &mut agent.shown;
        shown.state = told.state;
        // What an agent said before it knew of a change is said no more.
        if told.state != FleetState::Running || told.tried >= self.changes {
            shown.why = told.why;
        }
        shown.lost_lines += told.before.saturating_sub(agent.next_line);
        agent.next_line = told.before.saturating_add(told.lines.len() as u64);
        agent.under_way = told.under_way;
        if let Some(view) = told.view {
            shown.view = view;
        }
        if let (Some(met), Some(stays)) = (&mut self.met, &told.stays) {
            shown.malformed += met.take(nth, stays);
        }
        for line in told.lines {
            let Ok(Value::Object(mut line)) = serde_json::from_str(&line) else {
                shown.malformed += 1;
                continue;
            };
            line.insert("agent".into(), shown.agent.clone().into());
            let line = Value::Object(line).to_string();
            self.bytes += line.len();
            self.lines.push_back(line);
        }
        while self.bytes > LINES_BYTES && self.forget_one() {
            self.lost_lines += 1;
        }
    }

    fn forget_one(&mut self) -> bool {
        let line = self.lines.pop_front();
        self.bytes -= line.as_ref().map_or(0, String::len);
        self.first_line += u64::from(line.is_some());
        line.is_some()
    }

    /// Whether it runs. It is over when each agent has told everything, or was waited for.
    fn runs(&mut self, connected: impl Fn(u64) -> bool) -> bool {
        let (Some(started), None) = (self.started, self.took) else { return false };
        let elapsed = started.elapsed();
        let gone = |agent: &Asked| !connected(agent.session);
        let over = self.agents.iter().all(Asked::is_done)
            || (elapsed > self.limit && self.agents.iter().all(|agent| agent.is_done() || gone(agent)))
            || elapsed > self.limit + GRACE;
        if over {
            self.took = Some(elapsed);
            self.met.iter_mut().for_each(Met::finish);
        }
        !over
    }

    fn view(&mut self, connected: impl Fn(u64) -> bool, had_lines: Option<u64>) -> FleetView {
        let runs = self.runs(&connected);
        self.fetched = Some(Instant::now());
        while had_lines.is_some_and(|had| self.first_line < had) && self.forget_one() {}
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let elapsed = self.took.or(self.started.map(|at| at.elapsed())).unwrap_or_default();
        let agents = self.agents.iter().map(|agent| {
            let state = agent.state(connected(agent.session));
            let waited = matches!(state, FleetState::Silent | FleetState::Gone);
            let incomplete = if waited { agent.under_way } else { 0 };
            FleetAgent { state, incomplete, heard_ms: ms(agent.heard.elapsed()), ..agent.shown.clone() }
        });
        let agents: Vec<FleetAgent> = agents.collect();
        let mut bytes = 0;
        let some = self.lines.iter().filter(|_| had_lines.is_some()).take_while(|line| {
            bytes += line.len();
            bytes <= ANSWER_BYTES
        });
        let mut view = FleetView {
            state: match self.started {
                None => PacketsState::Idle,
                Some(_) if runs => PacketsState::Running,
                Some(_) => PacketsState::Ended,
            },
            number: self.number,
            program: self.program.clone(),
            changes: self.changes,
            connected: Vec::new(),
            elapsed_ms: ms(elapsed),
            limit_ms: ms(self.limit),
            agents,
            lines: some.cloned().collect(),
            first_line: self.first_line,
            lost_lines: self.lost_lines,
            ..FleetView::default()
        };
        if let Some(met) = &mut self.met {
            if runs {
                met.turn();
            }
            met.show(&mut view);
        }
        view
    }
}

/// The agents of a server, as far as orders are concerned.
#[derive(Default)]
pub(crate) struct Fleet {
    /// Of the last order.
    last: AtomicU64,
    /// Orders other than programs, whose answers are waited for.
    whys: Mutex<Vec<Waiting>>,
    answered: Condvar,
    collected: Mutex<Collected>,
    agents: OnceLock<Agents>,
}

impl Fleet {
    fn collected(&self) -> MutexGuard<'_, Collected> {
        self.collected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the receiver's answers go.
    pub(crate) fn sink(self: &Arc<Self>) -> AnswerSink {
        let fleet = Arc::clone(self);
        Arc::new(move |session, answer| {
            if !fleet.take_why(session, &answer) {
                fleet.collected().take(session, &answer);
            }
        })
    }

    /// The number of the next order. Answers to an earlier one, also of an earlier run of this server, have a lower
    /// number. It is one that JavaScript keeps exactly (2⁵³).
    fn number(&self) -> u64 {
        let now_us = crate::clock::now_ns() / 1000;
        let mut number = now_us;
        let _ = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
            number = now_us.max(last + 1);
            Some(number)
        });
        number
    }

    /// The receiver's agents. Without them, there are none.
    pub(crate) fn connect(&self, agents: Agents) {
        let _ = self.agents.set(agents);
    }

    fn list(&self) -> BTreeMap<u64, AgentStatus> {
        let all = self.agents.get().map(Agents::list).unwrap_or_default();
        all.into_iter().filter(|(_, status)| status.connected).collect()
    }

    /// Ends a program whose client has gone.
    pub(crate) fn run_due(&self) {
        let connected = self.list();
        let forgotten = {
            let mut collected = self.collected();
            let runs = collected.runs(|session| connected.contains_key(&session));
            runs && collected.fetched.is_some_and(|at| at.elapsed() > FORGOTTEN)
        };
        if forgotten {
            self.end();
        }
    }

    /// Ends the program at all agents that run it.
    fn end(&self) {
        let (number, sessions) = {
            let mut collected = self.collected();
            let elapsed = collected.started.map(|at| at.elapsed()).unwrap_or_default();
            collected.limit = collected.limit.min(elapsed);
            let left = collected.agents.iter().filter(|agent| !agent.is_done());
            (collected.number, left.map(|agent| agent.session).collect::<Vec<_>>())
        };
        for session in sessions {
            // One that is gone ends it by itself.
            let _ = self.ask(session, number, &Ask::End);
        }
    }

    fn ask(&self, session: u64, number: u64, ask: &Ask) -> Result<(), String> {
        let body = serde_json::to_vec(ask).map_err(|e| e.to_string())?;
        let agents = self.agents.get().ok_or("this server has no agents")?;
        agents.order(session, Order { number, body }).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
#[path = "fleet/tests.rs"]
mod tests;
