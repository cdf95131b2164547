//! `wirespan agent`: trace the targets given, send their spans to a server.

use super::targets::TargetArgs;
use crate::config::{AttachArgs, Config, MapFileArgs, OutputArgs, ProgramArgs, PropagateArgs, WaitArgs, WatchArgs};
use crate::packet::{Mirrors, Obedience};
use crate::session::{Request, Session};
use crate::stop_signal::StopSignal;
use anyhow::{bail, Context as _, Result};
use clap::Args;
use std::net::SocketAddr;
use std::process::ExitCode;
use wirespan_ship::link::{AgentInfo, Order, Sender, SenderConfig};

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
    #[command(flatten)]
    attach: AttachArgs,
    #[command(flatten)]
    waits: WaitArgs,
    #[command(flatten)]
    watch: WatchArgs,
    #[command(flatten)]
    programs: ProgramArgs,
    /// Let the server have recorded here what slow requests do (`wirespan trace-why` at the server; docs/why.md). The
    /// programs for that cost every process of this machine something meanwhile
    #[arg(long)]
    why_orders: bool,
    /// Serve the state of this agent here: /metrics, /healthz, and what `wirespan status --server ADDR` shows
    #[arg(long, value_name = "ADDR")]
    status: Option<SocketAddr>,
    /// End after this many seconds
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
}

pub(crate) fn agent(args: AgentArgs, mut config: Config) -> Result<ExitCode> {
    crate::descriptors::raise_limit();
    args.propagate.apply(&mut config);
    args.attach.apply(&mut config);
    args.waits.apply(&mut config);
    args.watch.apply(&mut config);
    args.programs.apply(&mut config);
    config.waits.orders |= args.why_orders;
    let mirror = Mirrors::open(&config)?;
    // Before any thread begins: a thread starts with the capabilities of the one that starts it.
    wirespan_capture::privilege::keep_what_tracing_uses(config.capture.attach_java);
    let targets = args.targets.resolve(&config.packets.mirror)?;
    let o = &args.outputs;
    if args.server.is_none() && o.store.is_none() && o.otlp_file.is_none() && o.otlp_endpoint.is_none() {
        bail!("nowhere to send spans: give --server HOST:PORT, --otlp-endpoint URL, --otlp-file FILE or --store DIR");
    }
    let obeys = config.packets.programs || config.waits.orders;
    let (orders, obedience) = (obeys && args.server.is_some()).then(Obedience::new).unzip();
    let link = args.server.as_ref().map(|server| link(server, &args.token, orders)).transpose()?;
    let mut stop = StopSignal::catch()?;
    let request = Request {
        mode: "agent",
        targets,
        described: args.targets.describe(&config.packets.mirror),
        outputs: &args.outputs,
        calls: args.waits.calls.order(),
        map_file: args.map.map_file.as_deref(),
        link,
        obedience,
        mirror,
        ui: None,
        status: args.status,
    };
    let session = Session::open(request, &config)?;
    crate::own::publish();
    crate::lockdown::close();
    let state = session.view().map(|view| format!(", state on {}", view.url())).unwrap_or_default();
    eprintln!("wirespan: tracing {}{state}; Ctrl-C ends", args.targets.describe(&config.packets.mirror));
    session.run_until(&mut stop, args.seconds)?;
    Ok(ExitCode::SUCCESS)
}

/// Starts the link to a server. Its orders go to `orders`.
fn link(server: &str, token: &str, orders: Option<crossbeam_channel::Sender<Order>>) -> Result<Sender> {
    if server.rsplit_once(':').is_none_or(|(host, port)| host.is_empty() || port.parse::<u16>().is_err()) {
        bail!("--server {server}: give HOST:PORT, like {server}:9474");
    }
    let host = wirespan_enrich::Enricher::new();
    let info = AgentInfo {
        host: host.host().name.to_string(),
        host_id: host.host_id(),
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        takes_orders: orders.is_some(),
    };
    let config = SenderConfig { token: token.into(), orders, ..SenderConfig::new(server, info) };
    Sender::start(config).context("starting the link to the server")
}
