//! The command line. Progress and logs go to stderr; stdout carries the answer only.
//! Exit codes: 0 done, 1 failed, 2 wrong usage; `run` ends with the code of its command.

mod agent;
mod check;
mod client;
mod demo;
mod explain;
mod flame;
mod flows;
mod gate;
mod map;
mod packet;
mod packet_fleet;
mod packet_recorded;
mod packet_replace;
mod packet_spans;
mod program_file;
mod replay;
mod run;
mod server;
mod status;
mod targets;
mod trace;
mod trace_why;
mod traces;
mod up;

use crate::config;
use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};
pub(crate) use client::encode;
use std::path::PathBuf;
use std::process::ExitCode;

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
    Trace(trace::TraceArgs),
    /// Say where the time of one request went, and what is usual
    Explain(explain::ExplainArgs),
    /// Record for a time what slow requests of a service wait for, and say it of the slowest
    TraceWhy(trace_why::TraceWhyArgs),
    /// The dependency map of a running wirespan
    Map(map::MapArgs),
    /// Flow records of a running wirespan, or of a store: what each process exchanged with each peer
    Flows(flows::FlowsArgs),
    /// Where packets went and where they waited, by a program (YAML)
    Packet(packet::PacketArgs),
    /// What this kernel allows, and what is lost
    Check(check::CheckArgs),
    /// State and counters of a running wirespan
    Status(status::StatusArgs),
    /// The demo services, traced
    Demo(demo::DemoArgs),
    /// Waits at a pipe, then becomes the command (internal)
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
            Command::Trace(args) => trace::trace(args, &config),
            Command::Explain(args) => explain::explain(args, &config),
            Command::TraceWhy(args) => trace_why::trace_why(&args, &config),
            Command::Map(args) => map::map(args, &config),
            Command::Flows(args) => flows::flows(args, &config),
            Command::Packet(args) => packet::packet(&args, &config),
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
