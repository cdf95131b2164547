//! `wirespan up TARGETS`: agent, store and UI on this machine, until a signal.

use super::targets::TargetArgs;
use super::{capture_options, flow_rhythm, join_config, run, MapFileArgs, OutputArgs, PropagateArgs, UiArgs};
use crate::agent;
use crate::config::Config;
use crate::counters::Counters;
use crate::outputs::{open_store, Outputs};
use anyhow::{bail, Result};
use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    targets: TargetArgs,
    #[command(flatten)]
    outputs: OutputArgs,
    #[command(flatten)]
    map: MapFileArgs,
    #[command(flatten)]
    propagate: PropagateArgs,
    #[command(flatten)]
    ui: UiArgs,
    /// End after this many seconds
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
}

pub(crate) fn up(args: UpArgs, mut config: Config) -> Result<ExitCode> {
    args.propagate.apply(&mut config);
    let targets = args.targets.resolve()?;
    let counters = Arc::new(Counters::new(&config));
    let store = open_store(&args.outputs, &config.store)?;
    let mut outputs =
        Outputs::open(&args.outputs, &config, Some(Arc::clone(&store)), None, Arc::clone(&counters.spans))?;
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
    let view = run::serve(&args.ui, &config, &store, &counters, &agent, "up", args.targets.describe())?;
    eprintln!(
        "wirespan: tracing {}{}; Ctrl-C ends",
        args.targets.describe(),
        view.as_ref().map(|v| format!(", UI on {}", v.url())).unwrap_or_default()
    );
    let healthy = wait(&mut signals, args.seconds, || agent.running());
    agent.stop()?;
    run::report_losses(&counters);
    if !healthy {
        bail!("tracing has ended by itself");
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits for a signal or the time; false if `alive` says no first.
pub(super) fn wait(
    signals: &mut signal_hook::iterator::Signals,
    seconds: Option<u64>,
    alive: impl Fn() -> bool,
) -> bool {
    let started = Instant::now();
    loop {
        if signals.pending().next().is_some() || seconds.is_some_and(|s| started.elapsed() >= Duration::from_secs(s)) {
            return true;
        }
        if !alive() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
