//! `--attach-java`: loads an agent of our own into each Java machine of the targets, without a restart, so that it
//! tells which task is handed over, begins and ends. docs/java-attach.md says what that changes in the machine.
//!
//! | module | concern |
//! |---|---|
//! | here | which processes were asked, what became of each, and the end |
//! | [`process`] | what must be known of a process before it is asked |
//! | [`files`] | the files that the machine opens, in its own root folder |
//! | [`hotspot`] | the protocol of the machine |
//!
//! Each machine is asked by a thread of its own, because it answers when it likes, and because that thread takes the
//! user of the machine. Every wait has a limit.

mod files;
mod hotspot;
mod process;
#[cfg(test)]
mod tests;

use hotspot::Refusal;
use process::{Machine, State};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The agent, a shared library for this architecture (`agent/java`).
pub(crate) const JAVA_AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/java_agent.so"));

/// How long a machine may need to start.
const START: Duration = Duration::from_secs(60);
/// Between two looks at a machine that starts.
const PAUSE: Duration = Duration::from_millis(50);
/// Before a machine is asked again that was not ready: it may keep the library of each request.
const AGAIN: Duration = Duration::from_millis(250);
/// Most machines that are asked at a time.
const AT_A_TIME: usize = 32;

/// What became of the request to a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Asked,
    Attached(Duration),
    Refused(String),
}

#[derive(Default)]
struct Inner {
    outcomes: BTreeMap<u32, Outcome>,
    /// The pipe of each agent. When it is closed, the agent gives all classes their own code back.
    pipes: HashMap<u32, OwnedFd>,
    /// Processes that have mapped the agent since the last call of [`Agents::take_loaded`].
    loaded: Vec<u32>,
    asking: usize,
    closed: bool,
}

/// The agents in the Java machines of the targets.
#[derive(Clone)]
pub(crate) struct Agents {
    inner: Arc<Mutex<Inner>>,
    /// An `eventfd` that is rung when a machine has answered.
    bell: Arc<OwnedFd>,
}

impl Agents {
    pub(crate) fn new(bell: Arc<OwnedFd>) -> Self {
        Agents { inner: Arc::default(), bell }
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the machine of this process to load the agent, unless that was done before.
    pub(crate) fn ask(&self, pid: u32) {
        let mut inner = self.inner();
        if inner.closed || inner.asking >= AT_A_TIME || inner.outcomes.contains_key(&pid) {
            return;
        }
        inner.outcomes.insert(pid, Outcome::Asked);
        inner.asking += 1;
        let theirs = self.clone();
        let asks = move || {
            let (outcome, pipe) = match attach(pid) {
                Ok((took, pipe)) => (Outcome::Attached(took), Some(pipe)),
                Err(why) => (Outcome::Refused(why), None),
            };
            theirs.is_answered(pid, outcome, pipe);
        };
        if std::thread::Builder::new().name("attach".into()).spawn(asks).is_err() {
            inner.asking -= 1;
            inner.outcomes.insert(pid, Outcome::Refused("no thread could be started".into()));
        }
    }

    fn is_answered(&self, pid: u32, outcome: Outcome, pipe: Option<OwnedFd>) {
        let mut inner = self.inner();
        inner.asking -= 1;
        // If tracing has ended, or the process has, the pipe is closed here.
        if inner.closed || !std::path::Path::new(&format!("/proc/{pid}")).exists() {
            inner.outcomes.remove(&pid);
            return;
        }
        match &outcome {
            Outcome::Refused(why) => tracing::warn!("no agent in the Java machine {pid}: {why}"),
            _ => tracing::info!(pid, ?outcome, "agent in a Java machine"),
        }
        if let Some(pipe) = pipe {
            inner.pipes.insert(pid, pipe);
            inner.loaded.push(pid);
            let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
        }
        inner.outcomes.insert(pid, outcome);
    }

    /// Whether the machine of this process has answered that it has loaded the agent.
    pub(crate) fn has(&self, pid: u32) -> bool {
        matches!(self.inner().outcomes.get(&pid), Some(Outcome::Attached(_)))
    }

    /// Processes that have loaded the agent since the last call.
    pub(crate) fn take_loaded(&self) -> Vec<u32> {
        std::mem::take(&mut self.inner().loaded)
    }

    /// A process has ended, or has become another program. One that is being asked stays so: two requests at a time
    /// would write the same files.
    pub(crate) fn ended(&self, pid: u32) {
        let mut inner = self.inner();
        if inner.outcomes.get(&pid) != Some(&Outcome::Asked) {
            inner.outcomes.remove(&pid);
            inner.pipes.remove(&pid);
        }
    }

    /// Ends all agents, and those that are being loaded as soon as they are.
    pub(crate) fn end(&self) {
        let mut inner = self.inner();
        inner.closed = true;
        inner.pipes.clear();
    }

    /// How many machines have the agent, and how many were asked in vain.
    pub(crate) fn counters(&self) -> [(&'static str, u64); 2] {
        let inner = self.inner();
        let count = |of: fn(&Outcome) -> bool| inner.outcomes.values().filter(|o| of(o)).count() as u64;
        [
            ("java_agents", count(|o| matches!(o, Outcome::Attached(_)))),
            ("java_agents_declined", count(|o| matches!(o, Outcome::Refused(_)))),
        ]
    }

    /// A sentence about each machine that was asked.
    pub(crate) fn notes(&self) -> Vec<String> {
        let inner = self.inner();
        let note = |(pid, outcome): (&u32, &Outcome)| match outcome {
            Outcome::Asked => format!("Java machine {pid}: is asked to load the agent"),
            Outcome::Attached(took) => format!("Java machine {pid}: has the agent ({} ms)", took.as_millis()),
            Outcome::Refused(why) => format!("Java machine {pid}: has no agent: {why}"),
        };
        inner.outcomes.iter().map(note).collect()
    }
}

/// How long the request took, and the pipe that keeps the agent awake.
type Attached = (Duration, OwnedFd);

/// Waits until the machine can be asked, and asks it; an error says why there is no agent.
fn attach(pid: u32) -> Result<Attached, String> {
    let began = Instant::now();
    loop {
        let late = began.elapsed() > START;
        match process::look(pid)? {
            State::Ready(machine) => {
                let asked = Instant::now();
                match load(&machine) {
                    Ok(pipe) => return Ok((asked.elapsed(), pipe)),
                    Err(Refusal::Early(_)) if !late => std::thread::sleep(AGAIN),
                    Err(Refusal::Early(why) | Refusal::Library(why) | Refusal::Machine(why)) => return Err(why),
                }
            }
            State::Starts if late => return Err(process::NO_SIGNAL.into()),
            State::Starts => {}
        }
        std::thread::sleep(PAUSE);
    }
}

/// Tries one folder after the other: a machine cannot load a library from a file system that forbids programs.
fn load(machine: &Machine) -> Result<OwnedFd, Refusal> {
    let mut last = String::from("no folder of the process takes files");
    for folder in files::FOLDERS {
        let files = match files::Files::write(machine, folder, JAVA_AGENT) {
            Ok(files) => files,
            Err(error) => {
                last = format!("{folder} takes no files: {error}");
                continue;
            }
        };
        match hotspot::load(machine, &files.library(), &files.pipe()) {
            Ok(()) => return files.into_pipe().ok_or_else(|| Refusal::Machine("its pipe is gone".into())),
            Err(Refusal::Library(why)) => last = why,
            Err(other) => return Err(other),
        }
    }
    Err(Refusal::Library(last))
}
