//! `wirespan up TARGETS`: agent, store and UI on this machine, until a signal.

use super::targets::TargetArgs;
use crate::config::{
    AttachArgs, Config, MapFileArgs, OutputArgs, ProgramArgs, PropagateArgs, UiArgs, WaitArgs, WatchArgs,
};
use crate::packet::Mirrors;
use crate::session::{Request, Session};
use crate::stop_signal::StopSignal;
use anyhow::Result;
use clap::Args;
use std::process::ExitCode;

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
    attach: AttachArgs,
    #[command(flatten)]
    waits: WaitArgs,
    #[command(flatten)]
    watch: WatchArgs,
    #[command(flatten)]
    programs: ProgramArgs,
    #[command(flatten)]
    ui: UiArgs,
    /// End after this many seconds
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
}

pub(crate) fn up(args: UpArgs, mut config: Config) -> Result<ExitCode> {
    crate::descriptors::raise_limit();
    args.propagate.apply(&mut config);
    args.attach.apply(&mut config);
    args.waits.apply(&mut config);
    args.watch.apply(&mut config);
    args.programs.apply(&mut config);
    let targets = args.targets.resolve(&config.packets.mirror)?;
    let mut stop = StopSignal::catch()?;
    let request = Request {
        mode: "up",
        targets,
        described: args.targets.describe(&config.packets.mirror),
        outputs: &args.outputs,
        calls: args.waits.calls.order(),
        map_file: args.map.map_file.as_deref(),
        link: None,
        obedience: None,
        mirror: Mirrors::open(&config)?,
        ui: Some(&args.ui),
        status: None,
    };
    let session = Session::open(request, &config)?;
    crate::own::publish();
    crate::lockdown::close();
    let ui = session.view().map(|view| format!(", UI on {}", view.url())).unwrap_or_default();
    eprintln!("wirespan: tracing {}{ui}; Ctrl-C ends", args.targets.describe(&config.packets.mirror));
    session.run_until(&mut stop, args.seconds)?;
    Ok(ExitCode::SUCCESS)
}
