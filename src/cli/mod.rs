//! The command line. Progress and logs go to stderr; stdout carries the answer only.
//! Exit codes: 0 done, 1 failed, 2 wrong usage; `run` ends with the code of its command.

mod agent;
mod check;
mod client;
mod demo;
mod flows;
mod gate;
mod map;
mod replay;
mod run;
mod server;
mod status;
mod targets;
mod traces;
mod up;

use crate::config::{self, Config};
use anyhow::Result;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Zero-code distributed tracing: watches services from the Linux kernel and shows every request as a trace.
#[derive(Parser)]
#[command(version, max_term_width = 110)]
pub(crate) struct Cli {
    /// Configuration file (TOML); /etc/wirespan/wirespan.toml if it exists
    #[arg(long, global = true, env = "WIRESPAN_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Describe protocols of your own (TOML, see docs/protocols/custom.md); may be given more than once
    #[arg(long, global = true, value_name = "FILE")]
    protocol_file: Vec<PathBuf>,
    /// Read a protocol with a WebAssembly plug-in (see docs/plugins.md); may be given more than once
    #[arg(long, global = true, value_name = "FILE")]
    plugin: Vec<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Trace a command and all it starts; print its traces
    Run(run::RunArgs),
    /// Agent, store and UI on this machine, for the targets given
    Up(up::UpArgs),
    /// Trace the targets given and send their spans to a server
    Agent(agent::AgentArgs),
    /// Receive spans from agents and SDKs, store them, serve the UI
    Server(server::ServerArgs),
    /// Decode capture files (pcap, pcapng) into spans; needs no privilege
    Replay(replay::ReplayArgs),
    /// Search the spans of a running wirespan
    Traces(traces::TracesArgs),
    /// Show one trace as a tree
    Trace(traces::TraceArgs),
    /// The dependency map of a running wirespan
    Map(map::MapArgs),
    /// Flow records of a running wirespan, or of a store: who exchanged how much with whom
    Flows(flows::FlowsArgs),
    /// What this kernel allows, and what is lost
    Check(check::CheckArgs),
    /// State and counters of a running wirespan
    Status(status::StatusArgs),
    /// The demo services, traced
    Demo(demo::DemoArgs),
    /// Waits until it is told to go on, then becomes the command (internal)
    #[command(name = "__gate", hide = true)]
    Gate(gate::GateArgs),
    /// Prints docs/configuration.md (internal)
    #[command(name = "__config", hide = true)]
    ConfigReference,
}

/// Form of the answer on stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Text,
    /// One JSON document, or JSON lines
    Json,
}

/// Where spans go besides the store.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct OutputArgs {
    /// Write every span to this file as OTLP JSON lines
    #[arg(long, value_name = "FILE")]
    pub(crate) otlp_file: Option<PathBuf>,
    /// Export to an OpenTelemetry collector: http://HOST:4317 (gRPC) or http://HOST:4318 (HTTP)
    #[arg(long, value_name = "URL")]
    pub(crate) otlp_endpoint: Option<String>,
    /// Export also the metrics of the dependency map there: OpenTelemetry's service graphs, once a minute
    #[arg(long)]
    pub(crate) otlp_metrics: bool,
    /// Keep spans in this directory (else in memory)
    #[arg(long, value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,
}

/// Where the dependency map is written at the end.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct MapFileArgs {
    /// Write the dependency map to this file at the end, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) map_file: Option<PathBuf>,
}

/// Whether packets of targets may be changed.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct PropagateArgs {
    /// Put trace context (W3C traceparent) into HTTP/1 requests of the targets, as far as a self-test shows it to be
    /// safe
    #[arg(long)]
    propagate: bool,
    /// Put trace context beside other requests, into an option of TCP; not every network lets it pass
    #[arg(long)]
    propagate_option: bool,
}

impl PropagateArgs {
    /// The flag says what the configuration leaves open.
    pub(crate) fn apply(&self, config: &mut Config) {
        if self.propagate && config.capture.propagate == "off" {
            config.capture.propagate = "auto".into();
        }
        config.capture.propagate_option |= self.propagate_option;
    }
}

/// Where the UI and the query API are served.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct UiArgs {
    /// Address of the UI and the query API [default: 127.0.0.1:9473]
    #[arg(long, value_name = "ADDR")]
    pub(crate) ui: Option<SocketAddr>,
    /// Serve no UI
    #[arg(long, conflicts_with = "ui")]
    pub(crate) no_ui: bool,
}

impl Cli {
    /// Runs the subcommand.
    pub(crate) fn dispatch(self) -> Result<ExitCode> {
        if let Command::Gate(args) = self.command {
            return gate::gate(&args);
        }
        let mut config = config::load(self.config.as_deref())?;
        config.protocols.files.extend(self.protocol_file);
        config.plugin.extend(self.plugin.into_iter().map(config::Plugin::of_file));
        match self.command {
            Command::Run(args) => run::run(args, config),
            Command::Up(args) => up::up(args, config),
            Command::Agent(args) => agent::agent(args, config),
            Command::Server(args) => server::server(args, config),
            Command::Replay(args) => replay::replay(args, config),
            Command::Traces(args) => traces::traces(args, &config),
            Command::Trace(args) => traces::trace(args, &config),
            Command::Map(args) => map::map(args, &config),
            Command::Flows(args) => flows::flows(args, &config),
            Command::Check(args) => check::check(args, &config),
            Command::Status(args) => status::status(args, &config),
            Command::Demo(args) => demo::demo(args, config),
            Command::ConfigReference => {
                print!("{}", config::reference()?);
                Ok(ExitCode::SUCCESS)
            }
            Command::Gate(_) => unreachable!("handled above"),
        }
    }
}

/// Capture options from the configuration.
fn capture_options(config: &Config) -> Result<wirespan_capture::Options> {
    let c = &config.capture;
    let rung = std::env::var("WIRESPAN_RUNG").ok().or_else(|| Some(c.rung.clone())).filter(|r| !r.is_empty());
    let propagate = wirespan_capture::Propagate::from_word(&c.propagate);
    Ok(wirespan_capture::Options {
        payload_bytes: c.payload_bytes,
        young_bytes: c.young_kib << 10,
        ring_bytes: c.ring_mib.saturating_mul(1 << 20),
        rung,
        without: c.without.clone(),
        messages: c.messages,
        flows: config
            .flows
            .enabled
            .then_some(wirespan_capture::FlowOptions { bundles: config.flows.bundles, sockets: config.flows.sockets }),
        hooks_from_start: c.hooks_from_start,
        propagate_options: c.propagate_option,
        runtimes: c.runtimes,
        actors: c.actors,
        propagate: propagate.map_err(|why| anyhow::anyhow!("capture.propagate: {why}"))?,
    })
}

/// When flows are drained and told.
fn flow_rhythm(config: &Config) -> crate::flows::Rhythm {
    crate::flows::Rhythm {
        drain: Duration::from_millis(config.flows.drain_ms.max(10)),
        window: Duration::from_secs(config.flows.window_s),
    }
}

/// Join limits and protocols from the configuration.
fn join_config(config: &Config) -> Result<wirespan_join::JoinConfig> {
    Ok(wirespan_join::JoinConfig {
        protocols: crate::protocols::registry(config)?,
        window_ns: config.join.window_s.saturating_mul(1_000_000_000),
        max_connections: config.join.max_connections,
        copy_bytes: config.capture.payload_bytes,
        ..wirespan_join::JoinConfig::default()
    })
}
