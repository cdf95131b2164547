//! The server on one screen: receive → pipeline → view.
//!
//! A receiver acknowledges a batch when the pipeline has taken it, so nothing is queued here: the receivers' threads
//! and [`Server::run`] share the pipeline under a lock.

use crate::config::{Config, OutputArgs, Serve};
use crate::counters::Counters;
use crate::pipeline::{open_store, Causes, Pipeline};
use crate::view::{About, View};
use anyhow::{Context as _, Result};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use wirespan_ship::link::{Receiver, ReceiverConfig};
use wirespan_ship::otlp::receive::{OtlpReceiver, ReceiveConfig};
use wirespan_ship::{FlowSink, Sink, SinkError};

/// A running server.
pub(crate) struct Server {
    pipeline: Arc<Mutex<Pipeline>>,
    counters: Arc<Counters>,
    agents: Receiver,
    otlp: Result<Option<OtlpReceiver>>,
    view: View,
}

impl Server {
    /// Receives from agents at `listen`, which must present `token`, and from SDKs where the configuration says;
    /// serves the view at `ui`.
    pub(crate) fn start(
        listen: SocketAddr,
        token: &str,
        ui: SocketAddr,
        outputs: &OutputArgs,
        config: &Config,
    ) -> Result<Server> {
        let counters = Arc::new(Counters::new(config));
        let store = open_store(outputs, config)?;
        let (kept, counted) = (Some(Arc::clone(&store)), Arc::clone(&counters));
        let pipeline = Pipeline::open(Causes::Decided, outputs, config, kept, None, counted)?;
        let pipeline = Arc::new(Mutex::new(pipeline));
        let limits = ReceiverConfig { token: token.into(), ..ReceiverConfig::default() };
        let agents = Receiver::bind_with_flows(listen, limits, sink(&pipeline), flow_sink(&pipeline))
            .with_context(|| format!("listening for agents on {listen}"))?;
        let otlp = receive_otlp(&config.serve, sink(&pipeline));
        let view = View::serve(ui, store, Arc::clone(&counters), About { mode: "server", ..About::default() })?;
        Ok(Server { pipeline, counters, agents, otlp, view })
    }

    /// Says on stderr where the server listens.
    pub(crate) fn announce(&self) {
        eprintln!("wirespan: agents on {}, UI on {}; Ctrl-C ends", self.agents.local_addr(), self.view.url());
        match &self.otlp {
            Ok(Some(otlp)) => eprintln!("wirespan: OTLP on {:?}", otlp.local_addrs()),
            Ok(None) => {}
            // The port may belong to another collector: a server without OTLP still serves its agents.
            Err(error) => eprintln!("wirespan: no OTLP is received: {error:#}"),
        }
    }

    /// Does the work that is due by the clock. False if a thread has panicked while it held the pipeline.
    pub(crate) fn run_due(&self) -> bool {
        let Ok(mut pipeline) = self.pipeline.lock() else { return false };
        // The receivers put each batch into the pipeline at once, so no batch waits.
        pipeline.caught_up();
        pipeline.run_due(0);
        self.counters.set("receive", self.agents.status().counters());
        if let Ok(Some(otlp)) = &self.otlp {
            self.counters.set("otlp-receive", otlp.status().counters());
        }
        true
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
    Arc::new(move |spans| pipeline.lock().map(|mut p| p.take(spans)).map_err(|_| gone()))
}

/// Takes flows into the pipeline.
fn flow_sink(pipeline: &Arc<Mutex<Pipeline>>) -> FlowSink {
    let pipeline = Arc::clone(pipeline);
    Arc::new(move |flows| pipeline.lock().map(|mut p| p.take_flows(flows)).map_err(|_| gone()))
}

fn gone() -> SinkError {
    SinkError::Refused("a thread of the server has panicked".into())
}

/// Receives OTLP where the configuration says; `None` if nowhere. The spans name their parents: no cause is inferred.
fn receive_otlp(config: &Serve, sink: Sink) -> Result<Option<OtlpReceiver>> {
    let addresses = [("serve.otlp_grpc", &config.otlp_grpc), ("serve.otlp_http", &config.otlp_http)];
    let listen = addresses
        .iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(key, text)| text.parse().with_context(|| format!("{key}: {text} is not an address like 127.0.0.1:4317")))
        .collect::<Result<Vec<SocketAddr>>>()?;
    if listen.is_empty() {
        return Ok(None);
    }
    let words: Vec<_> = listen.iter().map(ToString::to_string).collect();
    let receiver = OtlpReceiver::start(ReceiveConfig::new(listen), sink);
    Ok(Some(receiver.with_context(|| format!("receiving OTLP on {}", words.join(" and ")))?))
}
