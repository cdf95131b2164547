//! One run of a command that traces: agent, store, view. `run`, `up`, `agent` and `demo` each open one.

use crate::agent::{self, Agent, Concerns, Wanted};
use crate::claims::{self, Claim};
use crate::config::{
    capture_options, export_config, flow_rhythm, join_config, slow, Config, OutputArgs, Serve, UiArgs,
};
use crate::counters::Counters;
use crate::descriptors::Slots;
use crate::lockdown::without_privileges;
use crate::memory;
use crate::otlp_receiver::Otlp;
use crate::packet::{Allowed, Mirrors, Obedience, Obeying, Programs, Watch};
use crate::pipeline::{open_store, Causes, Pipeline};
use crate::stop_signal::StopSignal;
use crate::view::{About, Orders, View};
use anyhow::{anyhow, bail, Result};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wirespan_capture::{privilege, Targets};
use wirespan_ship::link::Sender;
use wirespan_store::{Embedded, Store};
use wirespan_view::WhyOrder;

/// How long captured spans wait for a store that is behind. Nobody else has them, so waiting is better than losing
/// them.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);

/// The session that a command asks for.
pub(crate) struct Request<'a> {
    /// Subcommand.
    pub(crate) mode: &'static str,
    pub(crate) targets: Targets,
    /// The targets in words.
    pub(crate) described: String,
    pub(crate) outputs: &'a OutputArgs,
    /// Where the dependency map is written at the end.
    pub(crate) map_file: Option<&'a Path>,
    /// System calls that are recorded from the start on.
    pub(crate) calls: Option<WhyOrder>,
    /// The link to a server.
    pub(crate) link: Option<Sender>,
    /// The packet programs of that server are run.
    pub(crate) obedience: Option<Obedience>,
    /// Devices whose packets are read.
    pub(crate) mirror: Option<Mirrors>,
    /// `None`: the command has no view, and keeps spans only where the user names a directory.
    pub(crate) ui: Option<&'a UiArgs>,
    /// Where a command without a view serves its state.
    pub(crate) status: Option<SocketAddr>,
}

/// A running agent with its store and its view.
pub(crate) struct Session {
    agent: Agent,
    programs: Option<Programs>,
    obeying: Option<Obeying>,
    otlp: Option<Otlp>,
    counters: Arc<Counters>,
    view: Option<View>,
    store: Option<Arc<dyn Store>>,
    mode: &'static str,
    /// Servers and collectors that get the spans.
    to: Vec<String>,
    claims: Mutex<Vec<Claim>>,
}

impl Session {
    /// Starts tracing; returns when the kernel programs are attached. Says on stderr what this kernel does not allow.
    pub(crate) fn open(request: Request<'_>, config: &Config) -> Result<Session> {
        privilege::keep_what_tracing_uses(config.capture.attach_java);
        let Request { mode, targets, described, outputs, map_file, calls, link, obedience, mirror, ui, status } =
            request;
        let mut to: Vec<String> = link.iter().map(|link| link.server().to_string()).collect();
        to.extend(export_config(outputs, config)?.map(|export| export.url));
        let claims = claims::claim(&targets, mode, &to)?.into_iter().collect();
        let counters = Arc::new(Counters::new(config));
        let store = match ui.is_some() || outputs.store.is_some() {
            true => Some(open_store(outputs, config, PATIENCE)?),
            false => None,
        };
        let (kept, counted) = (store.clone(), Arc::clone(&counters));
        let answers = link.as_ref().map(Sender::answers);
        let mut pipeline = Pipeline::open(Causes::InferredHere, outputs, config, kept, link, counted)?;
        pipeline.write_map_to(map_file)?;
        let (capture, join, rhythm) = (capture_options(config)?, join_config(config)?, flow_rhythm(config));
        let watch = Watch::new(&config.packets)?;
        let wanted = Wanted { slow: slow(config)?, watch, mirror };
        let agent = agent::start(capture, join, rhythm, wanted, targets, pipeline, Arc::clone(&counters))?;
        if let Some(order) = calls {
            agent.why(Concerns::Anything)(&order).map_err(|(_, why)| anyhow!("--syscalls: {why}"))?;
        }
        let missing = agent.features.iter().filter(|f| !f.lost.is_empty());
        let notes: Vec<_> = missing.map(|f| format!("{}: {} ({})", f.feature, f.lost, f.remedy)).collect();
        notes.iter().for_each(|note| eprintln!("wirespan: {note}"));
        let housekeeping = config.traces.housekeeping;
        let about = About { mode, targets: described, notes, housekeeping, status_only: status.is_some() };
        // With the privileges of tracing, and before those of the view are given up.
        let wanted = ui.is_some_and(|ui| !ui.no_ui) && config.packets.programs;
        let programs = wanted.then(Programs::start).transpose()?;
        let obeying = obedience.zip(answers).map(|(obedience, answers)| {
            let why = config.waits.orders.then(|| agent.why(Concerns::OwnServices));
            obedience.start(answers, Allowed { packets: config.packets.programs, why })
        });
        let obeying = obeying.transpose()?;
        let view = match (ui, &store) {
            (Some(ui), Some(store)) => {
                let (store, counters) = (Arc::clone(store), Arc::clone(&counters));
                let orders = Orders {
                    why: Some(agent.why(Concerns::Anything)),
                    packets: programs.as_ref().map(Programs::source),
                    fleet: None,
                };
                without_privileges(|| serve(ui, config, store, counters, about, orders))?
            }
            _ => status
                .map(|ui| {
                    let store = store.clone().map_or_else(no_store, Ok)?;
                    let serve = Serve { ui, ..config.serve.clone() };
                    let counters = Arc::clone(&counters);
                    without_privileges(|| View::serve(&serve, store, counters, about, Orders::default()))
                })
                .transpose()?,
        };
        // Who looks at spans here has SDKs send theirs here, too.
        let otlp = ui.is_some().then(|| {
            let sink = agent.sink();
            without_privileges(|| Otlp::start(&config.serve, &Slots::of_this_process(), sink))
        });
        if let Some(otlp) = &otlp {
            otlp.announce();
        }
        Ok(Session { agent, programs, obeying, otlp, counters, view, store, mode, to, claims: Mutex::new(claims) })
    }

    /// Does the work that is due by the clock. False if the agent has ended by itself.
    pub(crate) fn run_due(&self) -> bool {
        if let Some(otlp) = &self.otlp {
            otlp.publish(&self.counters);
        }
        self.agent.running()
    }

    /// Traces a process and its descendants from now on; `program` is the file that it is about to become.
    pub(crate) fn add_pid(&self, pid: u32, program: Option<PathBuf>) -> Result<()> {
        let targets = Targets { pids: vec![pid], ..Targets::default() };
        if let (Some(claim), Ok(mut claims)) = (claims::claim(&targets, self.mode, &self.to)?, self.claims.lock()) {
            claims.push(claim);
        }
        self.agent.add_pid(pid, program)
    }

    /// The view, unless it was declined or its default port is taken.
    pub(crate) fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    /// The store, if the command keeps one.
    pub(crate) fn store(&self) -> Option<&dyn Store> {
        self.store.as_deref()
    }

    /// Traces until a signal comes, or for this many seconds; then ends. An error if the agent ended by itself.
    pub(crate) fn run_until(self, stop: &mut StopSignal, seconds: Option<u64>) -> Result<()> {
        let mut loading = Some(Instant::now());
        let healthy = stop.wait(seconds, || {
            if loading.take_if(|began| began.elapsed() > memory::LOADED).is_some() {
                memory::started();
            }
            self.run_due()
        });
        self.close()?.report_losses();
        if !healthy {
            bail!("tracing has ended by itself");
        }
        Ok(())
    }

    /// Stops the agent, and takes everything that was captured through all outputs.
    pub(crate) fn close(self) -> Result<Closed> {
        self.run_due();
        let Session { agent, programs, obeying, otlp, counters, view, store, .. } = self;
        drop(otlp);
        let ended = programs.map_or(Ok(()), Programs::stop);
        // Its last words need the link, which ends with the agent.
        let obeyed = obeying.map_or(Ok(()), Obeying::stop);
        agent.stop().and(ended).and(obeyed)?;
        Ok(Closed { counters, view, store })
    }
}

/// The rest of a session whose agent has stopped: counters and view.
pub(crate) struct Closed {
    counters: Arc<Counters>,
    /// Still serves the store.
    pub(crate) view: Option<View>,
    pub(crate) store: Option<Arc<dyn Store>>,
}

impl Closed {
    /// Prints a line for each kind of loss, with what can be done about it.
    pub(crate) fn report_losses(&self) {
        for (name, n) in self.counters.losses() {
            let todo = wirespan_view::what_to_do(&name);
            let todo = if todo.is_empty() { String::new() } else { format!("; {todo}") };
            eprintln!("wirespan: lost: {name} {n}{todo}");
        }
    }
}

/// A store of a process that keeps no spans.
fn no_store() -> Result<Arc<dyn Store>> {
    Ok(Arc::new(Embedded::memory(wirespan_store::Options::default())?))
}

/// Serves the view unless it was declined.
fn serve(
    ui: &UiArgs,
    config: &Config,
    store: Arc<dyn Store>,
    counters: Arc<Counters>,
    about: About,
    orders: Orders,
) -> Result<Option<View>> {
    if ui.no_ui {
        return Ok(None);
    }
    let mut serve = config.serve.clone();
    ui.apply(&mut serve);
    match View::serve(&serve, store, counters, about, orders) {
        Ok(view) => Ok(Some(view)),
        // The default port may be another wirespan's: tracing matters more than the UI.
        Err(error) if ui.ui.is_none() => {
            eprintln!("wirespan: no UI: {}", crate::failure::words(&error));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
