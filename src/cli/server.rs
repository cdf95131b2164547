//! `wirespan server`: receive spans from agents and SDKs, store them, serve the UI.

use crate::config::{Config, OutputArgs, UiArgs};
use crate::server::Server;
use crate::stop_signal::StopSignal;
use anyhow::{bail, Result};
use clap::Args;
use std::net::SocketAddr;
use std::process::ExitCode;

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

pub(crate) fn server(args: ServerArgs, mut config: Config) -> Result<ExitCode> {
    crate::memory::sparing();
    crate::descriptors::raise_limit();
    let listen = args.listen.unwrap_or(config.serve.agents);
    if !listen.ip().is_loopback() && args.token.is_empty() {
        eprintln!("wirespan: {listen} is open to the network and takes spans from anyone: set a secret with --token");
    }
    wirespan_capture::privilege::keep_what_serving_uses();
    let mut stop = StopSignal::catch()?;
    args.ui.apply(&mut config.serve);
    let server = Server::start(listen, &args.token, &args.outputs, &config)?;
    crate::own::publish();
    crate::lockdown::close();
    server.announce();
    if !stop.wait(args.seconds, || server.run_due()) {
        bail!("a thread panicked while it held the pipeline");
    }
    server.stop();
    Ok(ExitCode::SUCCESS)
}
