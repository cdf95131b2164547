//! `wirespan demo`: the demo shop in a cgroup and a network namespace of its own, traced.

use super::gate::Gated;
use super::targets::cgroup_root;
use crate::config::{Config, OutputArgs, UiArgs};
use crate::session::{Request, Session};
use crate::stop_signal::StopSignal;
use anyhow::{anyhow, bail, Context as _, Result};
use clap::Args;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};
use std::time::{Duration, Instant};
use wirespan_capture::Targets;
use wirespan_model::{Evidence, Trace};
use wirespan_store::Store;

#[derive(Args)]
pub(crate) struct DemoArgs {
    /// End after this many seconds
    #[arg(long, value_name = "SECONDS", env = "DEMO_SECONDS")]
    seconds: Option<u64>,
    /// Customers at the same time
    #[arg(long, default_value_t = 5)]
    users: u32,
    /// Requests per second, all customers together
    #[arg(long, default_value_t = 20)]
    rate: u32,
    /// The shop's launcher
    #[arg(long, default_value = "tests/apps/shop/run.py", value_name = "FILE")]
    shop: PathBuf,
    #[command(flatten)]
    outputs: OutputArgs,
    #[command(flatten)]
    ui: UiArgs,
}

/// Parts of the shop that the demo adds: a TLS hop with PostgreSQL, and Kafka, as far as they are installed.
const PARTS: &str = "payment,shipping";
/// How long spans are let come before a trace is printed, and how long its last ones are waited for.
const SETTLING: Duration = Duration::from_secs(2);
const LONGEST_SETTLING: Duration = Duration::from_secs(15);

/// A cgroup; when dropped, its processes are killed and it is removed.
struct Cgroup(PathBuf);

impl Cgroup {
    fn create() -> Result<Self> {
        let root = cgroup_root()
            .ok_or_else(|| anyhow!("no cgroup2 file system is mounted (mount -t cgroup2 none /sys/fs/cgroup)"))?;
        let path = root.join(format!("wirespan-demo-{}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("cgroup {}: the demo needs root", path.display()))?;
        Ok(Cgroup(path))
    }

    fn add(&self, pid: u32) -> Result<()> {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string()).context("moving the shop into its cgroup")
    }

    fn is_empty(&self) -> bool {
        std::fs::read_to_string(self.0.join("cgroup.procs")).is_ok_and(|p| p.trim().is_empty())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("cgroup.kill"), "1");
        for _ in 0..200 {
            if self.is_empty() && std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        eprintln!("wirespan: {} could not be removed", self.0.display());
    }
}

pub(crate) fn demo(args: DemoArgs, mut config: Config) -> Result<ExitCode> {
    if !args.shop.is_file() {
        bail!(
            "the demo shop is not at {}: run this from a checkout of wirespan, or give --shop FILE",
            args.shop.display()
        );
    }
    if config.waits.threshold.is_empty() {
        config.waits.threshold = "auto".into();
    }
    let mut stop = StopSignal::catch()?;
    let work = WorkDir::create()?;
    build(&args.shop)?;
    let cgroup = Cgroup::create()?;
    let request = Request {
        mode: "demo",
        targets: Targets { cgroups: vec![cgroup.0.clone()], ..Targets::default() },
        described: "the demo shop".into(),
        outputs: &args.outputs,
        calls: None,
        map_file: None,
        link: None,
        obedience: None,
        mirror: None,
        ui: Some(&args.ui),
        status: None,
    };
    let session = Session::open(request, &config)?;

    let gated = Gated::start(&command(&args, &work.0), Stdio::null())?;
    cgroup.add(gated.child.id())?;
    let mut shop = gated.open()?;
    eprintln!("wirespan: the shop is starting");
    let started = Instant::now();
    let shown = match session.store() {
        Some(store) => show_one(store, &mut shop, &mut stop, started, args.seconds)?,
        None => Shown::Nothing,
    };
    if let (Shown::Trace, Some(view)) = (shown, session.view()) {
        eprintln!("wirespan: UI on {}; Ctrl-C ends", view.url());
    }
    if shown != Shown::Stopped {
        let left = args.seconds.map(|s| s.saturating_sub(started.elapsed().as_secs()));
        stop.wait(left, || session.run_due());
    }
    end(&mut shop);
    session.close()?.report_losses();
    if shown == Shown::Nothing {
        bail!("no request of the shop was seen; its log is in the lines above");
    }
    Ok(ExitCode::SUCCESS)
}

fn command(args: &DemoArgs, dir: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["python3".into(), args.shop.clone().into(), "--netns".into(), "--dir".into()];
    words.push(dir.into());
    words.extend(["--with".into(), PARTS.into()]);
    for (flag, n) in [("--users", args.users), ("--rate", args.rate), ("--load", u32::MAX / 2)] {
        words.push(flag.into());
        words.push(n.to_string().into());
    }
    words
}

/// Builds the shop's programs before it is traced: compilers are not part of the demo.
fn build(shop: &Path) -> Result<()> {
    let status = std::process::Command::new("python3")
        .arg(shop)
        .args(["--build-only", "--with", PARTS])
        .stdout(Stdio::null())
        .status();
    match status.context("python3")? {
        s if s.success() => Ok(()),
        s => bail!("building the demo shop failed ({s})"),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Trace,
    Nothing,
    Stopped,
}

/// Whether each hop was seen. Calls whose cause is inferred come later; meanwhile only what a request carried joins its
/// ends.
fn is_whole(trace: &Trace) -> bool {
    trace.spans.iter().all(|s| s.link.is_none_or(|link| link.evidence != Evidence::Forwarded))
}

/// How much of the shop a trace shows: services, and spans.
fn breadth(trace: &Trace) -> (usize, usize) {
    let services: HashSet<&str> = trace.spans.iter().map(|s| &*s.span.resource.service).collect();
    (services.len(), trace.spans.len())
}

/// Waits until the widest trace grows no more, then prints it.
fn show_one(
    store: &dyn Store,
    shop: &mut Child,
    stop: &mut StopSignal,
    started: Instant,
    seconds: Option<u64>,
) -> Result<Shown> {
    let (mut enough_since, mut widest) = (None, ((0, 0), Instant::now()));
    loop {
        if stop.came() {
            return Ok(Shown::Stopped);
        }
        if let Some(status) = shop.try_wait()? {
            bail!("the shop has ended ({status})");
        }
        if store.status().spans >= 200 {
            enough_since.get_or_insert_with(Instant::now);
        }
        let late = seconds.is_some_and(|s| started.elapsed() + Duration::from_secs(2) >= Duration::from_secs(s));
        let enough_for = enough_since.map_or(Duration::ZERO, |t: Instant| t.elapsed());
        if late || enough_for > SETTLING {
            let traces = super::traces::slowest(store, 50, &wirespan_trace::Limits::default(), false)?;
            let Some(trace) = traces.iter().max_by_key(|t| breadth(t)) else { return Ok(Shown::Nothing) };
            if breadth(trace) != widest.0 {
                widest = (breadth(trace), Instant::now());
            }
            // What a queue has handed on, and what is inferred, comes later than the rest.
            let is_settled = is_whole(trace) && widest.1.elapsed() > SETTLING;
            if late || enough_for > LONGEST_SETTLING || is_settled {
                use std::io::IsTerminal as _;
                println!("{}", super::trace::render(trace, std::io::stdout().is_terminal()));
                let story = super::explain::slow_in_words(store, &traces);
                if let Some(story) = story.or_else(|| super::explain::longest_in_words(trace)) {
                    println!("{story}");
                }
                return Ok(Shown::Trace);
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Asks the shop's launcher to end, and waits. The launcher ends the processes that it started.
fn end(shop: &mut Child) {
    if let Some(pid) = rustix::process::Pid::from_raw(shop.id() as i32) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    for _ in 0..1000 {
        if !matches!(shop.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A temporary directory; removed when dropped.
struct WorkDir(PathBuf);

impl WorkDir {
    fn create() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("wirespan-demo-{}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("{}", path.display()))?;
        Ok(WorkDir(path))
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
