//! `wirespan agent`: trace the targets given, send their spans to a server.

use super::targets::TargetArgs;
use super::{capture_options, flow_rhythm, join_config, run, up, MapFileArgs, OutputArgs, PropagateArgs};
use crate::agent;
use crate::config::Config;
use crate::counters::Counters;
use crate::outputs::{open_store, Outputs};
use anyhow::{bail, Context as _, Result};
use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::process::ExitCode;
use std::sync::Arc;
use wirespan_ship::link::{AgentInfo, Sender, SenderConfig};

#[derive(Args)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    targets: TargetArgs,
    /// Server that takes the spans
    #[arg(long, value_name = "HOST:PORT")]
    server: Option<String>,
    /// Secret shared with the server
    #[arg(long, env = "WIRESPAN_TOKEN", default_value = "", hide_env_values = true)]
    token: String,
    #[command(flatten)]
    outputs: OutputArgs,
    #[command(flatten)]
    map: MapFileArgs,
    #[command(flatten)]
    propagate: PropagateArgs,
    /// End after this many seconds
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
}

pub(crate) fn agent(args: AgentArgs, mut config: Config) -> Result<ExitCode> {
    args.propagate.apply(&mut config);
    let targets = args.targets.resolve()?;
    let o = &args.outputs;
    if args.server.is_none() && o.store.is_none() && o.otlp_file.is_none() && o.otlp_endpoint.is_none() {
        bail!("nowhere to send spans: give --server HOST:PORT, --otlp-endpoint URL, --otlp-file FILE or --store DIR");
    }
    let counters = Arc::new(Counters::new(&config));
    let link = match &args.server {
        Some(server) => {
            let host = wirespan_enrich::Enricher::new();
            let info = AgentInfo {
                host: host.host().name.to_string(),
                host_id: host.host_id(),
                version: env!("CARGO_PKG_VERSION").into(),
                pid: std::process::id(),
            };
            let config = SenderConfig { token: args.token.clone(), ..SenderConfig::new(server.clone(), info) };
            Some(Sender::start(config).context("starting the link to the server")?)
        }
        None => None,
    };
    let store = match &args.outputs.store {
        Some(_) => Some(open_store(&args.outputs, &config.store)?),
        None => None,
    };
    let mut outputs = Outputs::open(&args.outputs, &config, store, link, Arc::clone(&counters.spans))?;
    outputs.write_map_to(args.map.map_file.as_deref())?;
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let agent = agent::start(
        capture_options(&config)?,
        join_config(&config)?,
        flow_rhythm(&config),
        targets,
        outputs,
        Arc::clone(&counters),
    )?;
    for f in agent.features.iter().filter(|f| !f.lost.is_empty()) {
        eprintln!("wirespan: {}: {} ({})", f.feature, f.lost, f.remedy);
    }
    eprintln!("wirespan: tracing {}; Ctrl-C ends", args.targets.describe());
    let healthy = up::wait(&mut signals, args.seconds, || agent.running());
    agent.stop()?;
    run::report_losses(&counters);
    if !healthy {
        bail!("tracing has ended by itself");
    }
    Ok(ExitCode::SUCCESS)
}
