//! `wirespan run -- CMD…`: trace a command and all it starts, print its traces.

use super::gate::Gated;
use crate::config::{
    AttachArgs, Config, MapFileArgs, OutputArgs, ProgramArgs, PropagateArgs, UiArgs, WaitArgs, WatchArgs,
};
use crate::packet::Mirrors;
use crate::session::{Request, Session};
use anyhow::Result;
use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::process::{Child, ExitCode, Stdio};
use std::time::{Duration, Instant};
use wirespan_capture::Targets;
use wirespan_store::Store;
use wirespan_trace::Limits;

/// How often the wait looks for the end of the command, and does the work of the session.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const DUE_EVERY: Duration = Duration::from_secs(1);

#[derive(Args)]
pub(crate) struct RunArgs {
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
    /// Print at most this many traces at the end, the slowest first
    #[arg(long, value_name = "N", default_value_t = 5)]
    print: usize,
    /// Go on serving the UI when the command has ended, until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// The command and its arguments
    // No hyphens for the first word: `run --prnit 3 -- CMD` is a mistake in an option, not a command `--prnit`.
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: RunArgs, mut config: Config) -> Result<ExitCode> {
    args.propagate.apply(&mut config);
    args.attach.apply(&mut config);
    args.waits.apply(&mut config);
    args.watch.apply(&mut config);
    args.programs.apply(&mut config);
    let request = Request {
        mode: "run",
        // The command is added when it waits at the gate.
        targets: Targets::default(),
        described: describe(&args.command),
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
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    if let Some(view) = session.view() {
        eprintln!("wirespan: UI on {}", view.url());
    }
    let gated = Gated::start(&args.command, Stdio::inherit())?;
    session.add_pid(gated.child.id(), gated.program())?;
    let mut child = gated.open()?;
    crate::own::publish();
    // The command runs already, so that it does not inherit the filter.
    crate::lockdown::close();

    let code = wait(&mut child, &mut signals, &session)?;
    let ended = session.close()?;
    if let Some(store) = &ended.store {
        print_traces(store.as_ref(), args.print, config.traces.housekeeping)?;
    }
    ended.report_losses();
    if let (true, Some(view)) = (args.keep, &ended.view) {
        eprintln!("wirespan: the command has ended; UI on {} until Ctrl-C", view.url());
        signals.forever().next();
    }
    Ok(code)
}

fn describe(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|w| w.to_string_lossy()).collect();
    format!("{} and all it starts", words.join(" "))
}

/// Waits for the command. The first signal is passed on to the command; the second one kills it.
fn wait(child: &mut Child, signals: &mut Signals, session: &Session) -> Result<ExitCode> {
    use std::os::unix::process::ExitStatusExt as _;
    let (mut seen, mut due) = (0, Instant::now());
    loop {
        if let Some(status) = child.try_wait()? {
            let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
            return Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)));
        }
        for signal in signals.pending() {
            seen += 1;
            // The terminal sends Ctrl-C to the command, too; SIGTERM came to this process alone.
            let forward = match (seen, signal) {
                (1, SIGTERM) => Some(rustix::process::Signal::TERM),
                (1, _) => None,
                _ => Some(rustix::process::Signal::KILL),
            };
            if let (Some(signal), Some(pid)) = (forward, rustix::process::Pid::from_raw(child.id() as i32)) {
                let _ = rustix::process::kill_process(pid, signal);
            }
        }
        if due.elapsed() >= DUE_EVERY {
            session.run_due();
            due = Instant::now();
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Prints the slowest traces of the store as trees.
fn print_traces(store: &dyn Store, limit: usize, housekeeping: bool) -> Result<()> {
    let colour = std::io::stdout().is_terminal();
    let traces = super::traces::slowest(store, limit, &Limits::default(), housekeeping)?;
    if traces.is_empty() && limit > 0 {
        eprintln!("wirespan: no request was seen");
    }
    for trace in traces {
        println!("{}", super::trace::render(&trace, colour));
    }
    Ok(())
}
