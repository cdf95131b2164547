//! `wirespan server`: receive spans from agents and SDKs, store them, serve the UI.

use super::{up, OutputArgs, UiArgs};
use crate::config::Config;
use crate::counters::Counters;
use crate::outputs::{open_store, Outputs};
use crate::server::{self, About};
use anyhow::{bail, Context as _, Result};
use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wirespan_ship::link::{Receiver, ReceiverConfig};
use wirespan_store::Store;

#[derive(Args)]
pub(crate) struct ServerArgs {
    /// Where agents connect [default: 127.0.0.1:9474]
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Secret that agents must present
    #[arg(long, env = "WIRESPAN_TOKEN", default_value = "", hide_env_values = true)]
    token: String,
    #[command(flatten)]
    outputs: OutputArgs,
    #[command(flatten)]
    ui: UiArgs,
    /// End after this many seconds
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
}

pub(crate) fn server(args: ServerArgs, config: Config) -> Result<ExitCode> {
    crate::memory::sparing();
    let listen = args.listen.unwrap_or(config.serve.agents);
    if !listen.ip().is_loopback() && args.token.is_empty() {
        eprintln!("wirespan: {listen} is open to the network and takes spans from anyone: set a secret with --token");
    }
    let counters = Arc::new(Counters::new(&config));
    let store = open_store(&args.outputs, &config.store)?;
    let outputs = Arc::new(Mutex::new(Outputs::open(
        &args.outputs,
        &config,
        Some(Arc::clone(&store)),
        None,
        Arc::clone(&counters.spans),
    )?));
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let (sink, flows) = (Arc::clone(&outputs), Arc::clone(&outputs));
    let receiver = Receiver::bind_with_flows(
        listen,
        ReceiverConfig { token: args.token.clone(), ..ReceiverConfig::default() },
        server::sink(sink),
        server::flow_sink(flows),
    )
    .with_context(|| format!("listening for agents on {listen}"))?;
    let otlp = server::otlp(&config.serve, Arc::clone(&outputs));
    let addr = args.ui.ui.unwrap_or(config.serve.ui);
    let about = About { mode: "server", ..About::default() };
    let view = server::view(addr, Arc::clone(&store), Arc::clone(&counters), about)?;
    eprintln!("wirespan: agents on {}, UI on {}; Ctrl-C ends", receiver.local_addr(), view.url());
    match &otlp {
        Ok(Some(otlp)) => eprintln!("wirespan: OTLP on {:?}", otlp.local_addrs()),
        Ok(None) => {}
        // Another collector may stand there: agents' spans matter more.
        Err(error) => eprintln!("wirespan: no OTLP is received: {error:#}"),
    }
    let started = std::time::Instant::now();
    while signals.pending().next().is_none() && args.seconds.is_none_or(|s| started.elapsed().as_secs() < s) {
        std::thread::sleep(Duration::from_millis(100));
        let Ok(mut outputs) = outputs.lock() else { bail!("a thread panicked while it held the outputs") };
        // What agents sent is taken as it comes.
        outputs.sign();
        outputs.tick();
        outputs.publish(&counters);
        counters.set("receive", receiver.status().counters());
        if let Ok(Some(otlp)) = &otlp {
            counters.set("otlp-receive", otlp.status().counters());
        }
    }
    drop(receiver);
    if let Ok(mut outputs) = outputs.lock() {
        outputs.finish();
    }
    Ok(ExitCode::SUCCESS)
}

/// Serves a store until a signal comes.
pub(super) fn serve_until_signal(
    ui: &UiArgs,
    config: &Config,
    store: Arc<dyn Store>,
    counters: Arc<Counters>,
    mode: &'static str,
) -> Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let about = About { mode, ..About::default() };
    let view = server::view(ui.ui.unwrap_or(config.serve.ui), store, counters, about)?;
    eprintln!("wirespan: UI on {}; Ctrl-C ends", view.url());
    up::wait(&mut signals, None, || true);
    Ok(())
}
