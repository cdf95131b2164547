//! The server on one screen: receive → pipeline → view.
//!
//! A receiver acknowledges a batch when the store has it, so nothing is queued here: the receivers' threads and
//! [`Server::run_due`] share the pipeline under a lock. If the store cannot take a batch, its sender is told so and
//! keeps it.

use crate::clock::now_ns;
use crate::conditions::Trouble;
use crate::config::{Config, OutputArgs};
use crate::counters::Counters;
use crate::descriptors::Slots;
use crate::otlp_receiver::Otlp;
use crate::packet::Fleet;
use crate::pipeline::{open_or_look, Causes, Pipeline};
use crate::view::{About, Orders, View};
use anyhow::{Context as _, Result};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use wirespan_ship::link::{Receiver, ReceiverConfig, ReceiverStatus, Sinks};
use wirespan_ship::{FlowSink, Sink, SinkError};
use wirespan_view::FleetSource;

/// An agent that was refused so long ago tries again or has given up, ns.
const REFUSED_NOW_NS: u64 = 60_000_000_000;
/// An agent that has gone is shown for this long, ns.
const GONE_SHOWN_NS: u64 = 3_600_000_000_000;

/// A running server.
pub(crate) struct Server {
    pipeline: Arc<Mutex<Pipeline>>,
    counters: Arc<Counters>,
    agents: Receiver,
    fleet: Arc<Fleet>,
    otlp: Otlp,
    view: View,
}

impl Server {
    /// Receives from agents at `listen`, which must present `token`, and from SDKs where the configuration says; serves
    /// the view.
    pub(crate) fn start(listen: SocketAddr, token: &str, outputs: &OutputArgs, config: &Config) -> Result<Server> {
        let counters = Arc::new(Counters::new(config));
        let store = open_or_look(outputs, config)?;
        let (kept, counted) = (Some(Arc::clone(&store)), Arc::clone(&counters));
        let pipeline = Pipeline::open(Causes::Decided, outputs, config, kept, None, counted)?;
        let pipeline = Arc::new(Mutex::new(pipeline));
        let slots = Slots::of_this_process();
        let limits = ReceiverConfig { token: token.into(), max_connections: slots.agents, ..ReceiverConfig::default() };
        let fleet = Arc::new(Fleet::default());
        let sinks = Sinks { spans: sink(&pipeline), flows: flow_sink(&pipeline), answers: fleet.sink() };
        let agents =
            Receiver::bind_with(listen, limits, sinks).with_context(|| format!("listening for agents on {listen}"))?;
        fleet.connect(agents.agents());
        let otlp = Otlp::start(&config.serve, &slots, sink(&pipeline));
        let about = About { mode: "server", housekeeping: config.traces.housekeeping, ..About::default() };
        let why = Some(fleet.why());
        let orders = Orders { why, fleet: Some(Arc::clone(&fleet) as Arc<dyn FleetSource>), ..Orders::default() };
        let view = View::serve(&config.serve, store, Arc::clone(&counters), about, orders)?;
        Ok(Server { pipeline, counters, agents, fleet, otlp, view })
    }

    /// Says on stderr where the server listens.
    pub(crate) fn announce(&self) {
        eprintln!("wirespan: agents on {}, UI on {}; Ctrl-C ends", self.agents.local_addr(), self.view.url());
        self.otlp.announce();
    }

    /// Does the work that is due by the clock. False if a thread has panicked while it held the pipeline.
    pub(crate) fn run_due(&self) -> bool {
        let Ok(mut pipeline) = self.pipeline.lock() else { return false };
        // The receivers put each batch into the pipeline at once, so no batch waits.
        pipeline.caught_up();
        pipeline.run_due(0);
        self.fleet.run_due();
        let agents = self.agents.status();
        self.counters.set("receive", agents.counters());
        self.say_how_agents_are(&agents);
        self.otlp.publish(&self.counters);
        true
    }

    /// Says which agents are refused, and which have gone.
    fn say_how_agents_are(&self, status: &ReceiverStatus) {
        let conditions = &self.counters.conditions;
        let ago = |at_ns: u64| now_ns().saturating_sub(at_ns);
        let refused = status.refused.as_ref().filter(|refused| ago(refused.at_ns) < REFUSED_NOW_NS);
        let refused = refused.map(|refused| Trouble {
            what: format!("an agent at {} is turned away: {}", refused.peer.ip(), refused.why),
            waits: "it keeps its spans for a while".into(),
            todo: "it must have this server's secret (--token, WIRESPAN_TOKEN) and version".into(),
        });
        conditions.set("refused agents", refused, "");
        for agent in &status.agents {
            let subject = format!("agent {} {}", agent.agent.host, agent.agent.pid);
            let gone = (!agent.connected && ago(agent.last_seen_ns) < GONE_SHOWN_NS).then(|| Trouble {
                what: format!("the agent on {} (process {}) has gone", agent.agent.host, agent.agent.pid),
                waits: format!("{} spans came from it", agent.spans),
                todo: "it has ended, or cannot reach this server".into(),
            });
            let fine = format!("the agent on {} (process {}) is connected", agent.agent.host, agent.agent.pid);
            conditions.set(&subject, gone, if agent.connected { &fine } else { "" });
        }
    }

    /// Ends the receivers, and takes what has come through all outputs.
    pub(crate) fn stop(self) {
        drop((self.agents, self.otlp));
        if let Ok(mut pipeline) = self.pipeline.lock() {
            pipeline.finish();
        };
    }
}

/// Takes spans into the pipeline.
fn sink(pipeline: &Arc<Mutex<Pipeline>>) -> Sink {
    let pipeline = Arc::clone(pipeline);
    Arc::new(move |spans| pipeline.lock().map_err(|_| gone())?.offer(spans))
}

/// Takes flows into the pipeline.
fn flow_sink(pipeline: &Arc<Mutex<Pipeline>>) -> FlowSink {
    let pipeline = Arc::clone(pipeline);
    Arc::new(move |flows| pipeline.lock().map_err(|_| gone())?.offer_flows(flows))
}

fn gone() -> SinkError {
    SinkError::Refused("a thread of the server has panicked".into())
}
