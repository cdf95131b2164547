//! `wirespan run -- CMD…`: trace a command and all it starts, print its traces.

use super::gate::Gated;
use super::{capture_options, flow_rhythm, join_config, MapFileArgs, OutputArgs, PropagateArgs, UiArgs};
use crate::agent::{self, Agent};
use crate::config::Config;
use crate::counters::Counters;
use crate::outputs::{open_store, Outputs};
use crate::server::{self, About, View};
use anyhow::Result;
use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::process::{Child, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;
use wirespan_capture::Targets;
use wirespan_store::Store;
use wirespan_trace::Limits;

#[derive(Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    outputs: OutputArgs,
    #[command(flatten)]
    map: MapFileArgs,
    #[command(flatten)]
    propagate: PropagateArgs,
    #[command(flatten)]
    ui: UiArgs,
    /// Print at most this many traces at the end, the slowest first
    #[arg(long, value_name = "N", default_value_t = 5)]
    print: usize,
    /// Go on serving the UI when the command has ended, until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: RunArgs, mut config: Config) -> Result<ExitCode> {
    args.propagate.apply(&mut config);
    let counters = Arc::new(Counters::new(&config));
    let store = open_store(&args.outputs, &config.store)?;
    let mut outputs =
        Outputs::open(&args.outputs, &config, Some(Arc::clone(&store)), None, Arc::clone(&counters.spans))?;
    outputs.write_map_to(args.map.map_file.as_deref())?;
    let agent = agent::start(
        capture_options(&config)?,
        join_config(&config)?,
        flow_rhythm(&config),
        Targets::default(),
        outputs,
        Arc::clone(&counters),
    )?;
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let view = serve(&args.ui, &config, &store, &counters, &agent, "run", describe(&args.command))?;
    if let Some(view) = &view {
        eprintln!("wirespan: UI on {}", view.url());
    }
    let gated = Gated::start(&args.command, Stdio::inherit())?;
    agent.add_pid(gated.child.id(), gated.program())?;
    let mut child = gated.open()?;

    let code = wait(&mut child, &mut signals)?;
    agent.stop()?;
    print_traces(store.as_ref(), args.print)?;
    report_losses(&counters);
    if let (true, Some(view)) = (args.keep, &view) {
        eprintln!("wirespan: the command has ended; UI on {} until Ctrl-C", view.url());
        signals.forever().next();
    }
    Ok(code)
}

fn describe(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|w| w.to_string_lossy()).collect();
    format!("{} and all it starts", words.join(" "))
}

/// Serves the view unless it was declined.
pub(super) fn serve(
    ui: &UiArgs,
    config: &Config,
    store: &Arc<dyn Store>,
    counters: &Arc<Counters>,
    agent: &Agent,
    mode: &'static str,
    targets: String,
) -> Result<Option<View>> {
    let missing = agent.features.iter().filter(|f| !f.lost.is_empty());
    let notes: Vec<_> = missing.map(|f| format!("{}: {} ({})", f.feature, f.lost, f.remedy)).collect();
    for note in &notes {
        eprintln!("wirespan: {note}");
    }
    if ui.no_ui {
        return Ok(None);
    }
    let addr = ui.ui.unwrap_or(config.serve.ui);
    let about = About { mode, targets, notes };
    match server::view(addr, Arc::clone(store), Arc::clone(counters), about) {
        Ok(view) => Ok(Some(view)),
        // The default port may be another wirespan's: tracing matters more than the UI.
        Err(error) if ui.ui.is_none() => {
            eprintln!("wirespan: no UI: {error:#}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Waits for the command. A signal is for the command; a second one ends it.
fn wait(child: &mut Child, signals: &mut signal_hook::iterator::Signals) -> Result<ExitCode> {
    use std::os::unix::process::ExitStatusExt as _;
    let mut seen = 0;
    loop {
        if let Some(status) = child.try_wait()? {
            let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
            return Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)));
        }
        for signal in signals.pending() {
            seen += 1;
            // Ctrl-C reaches the command by the terminal; SIGTERM came to us alone.
            let forward = match (seen, signal) {
                (1, SIGTERM) => Some(rustix::process::Signal::TERM),
                (1, _) => None,
                _ => Some(rustix::process::Signal::KILL),
            };
            if let (Some(signal), Some(pid)) = (forward, rustix::process::Pid::from_raw(child.id() as i32)) {
                let _ = rustix::process::kill_process(pid, signal);
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Prints the slowest traces of the store as trees.
pub(super) fn print_traces(store: &dyn Store, limit: usize) -> Result<()> {
    let colour = std::io::stdout().is_terminal();
    let traces = super::traces::slowest(store, limit, &Limits::default())?;
    if traces.is_empty() && limit > 0 {
        eprintln!("wirespan: no request was seen");
    }
    for trace in traces {
        println!("{}", super::traces::render(&trace, colour));
    }
    Ok(())
}

/// Says what was lost, if anything was.
pub(super) fn report_losses(counters: &Counters) {
    for (name, n) in counters.losses() {
        eprintln!("wirespan: lost: {name} {n}");
    }
}
