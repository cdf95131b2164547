//! The thread that watches the processes of targets. It is a thread of its own because reading files takes time, and
//! detaching waits for the kernel.

use super::facts::FactMaps;
use super::programs::Programs;
use super::search::{Search, LOOK};
use super::tables::Tables;
use crate::attach::Agents;
use crate::ring::Ring;
use crate::targets::Targets;
use crate::tls;
use crate::wire;
use libbpf_rs::MapHandle;
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use wirespan_model::event::TaskChange;

#[derive(Default)]
struct Inbox {
    /// Processes to look at now, and the program that each is about to become.
    pids: Vec<(u32, Option<PathBuf>)>,
    stop: bool,
    /// Waits are asked for.
    waits: bool,
    /// Number of requests to look, and the number of those that were answered.
    asked: u64,
    answered: u64,
}

/// Counters of the search.
#[derive(Default)]
pub(super) struct Counts {
    /// Sets of probes that the kernel did not attach.
    pub(super) refused: AtomicU64,
    /// Processes that hold TLS which cannot be probed, in the order of [`tls::UNREAD`].
    pub(super) unread: [AtomicU64; tls::UNREAD.len()],
}

struct Shared {
    inbox: Mutex<Inbox>,
    answered: Condvar,
    /// Wakes the thread.
    bell: Arc<OwnedFd>,
    counts: Arc<Counts>,
}

impl Shared {
    fn inbox(&self) -> std::sync::MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
    }
}

/// The watching thread. Dropping it detaches every probe.
pub(crate) struct Watcher {
    shared: Arc<Shared>,
    agents: Option<Agents>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Watcher {
    /// Starts watching. The programs must outlive it; `lives` reports the processes of targets that are born, change
    /// their program, and end. `follows_actors` is false if only TLS is wanted; `attach_java`: agents are loaded into
    /// Java machines.
    pub(crate) fn start(
        programs: Programs,
        lives: MapHandle,
        maps: (FactMaps, Tables),
        targets: &Targets,
        follows_actors: bool,
        attach_java: bool,
    ) -> std::io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let counts = Arc::new(Counts::default());
        let bell = Arc::new(bell);
        let agents = attach_java.then(|| Agents::new(Arc::clone(&bell)));
        let (told, chosen) = (Arc::clone(&counts), targets.clone());
        let mut search = Search::new(told, programs, maps, chosen, follows_actors, agents.clone())?;
        let shared = Arc::new(Shared { inbox: Mutex::default(), answered: Condvar::new(), bell, counts });
        // Processes that live already are probed before [`Watcher::start`] returns.
        search.discover();
        search.look();
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("uprobe".into()).spawn(move || run(search, &lives, &theirs))?;
        Ok(Watcher { shared, agents, thread: Some(thread) })
    }

    /// Probes a process that was chosen, and the program that it is about to run. Returns when the probes are in place.
    pub(crate) fn cover(&self, pid: u32, program: Option<&Path>) {
        let mut inbox = self.shared.inbox();
        inbox.pids.push((pid, program.map(Path::to_path_buf)));
        inbox.asked += 1;
        let ticket = inbox.asked;
        self.shared.ring();
        let started = Instant::now();
        while inbox.answered < ticket && started.elapsed() < LOOK {
            inbox = self.shared.answered.wait_timeout(inbox, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Puts those probes in place, or takes those away, that are there only while waits are asked for.
    pub(crate) fn want_waits(&self, wanted: bool) {
        self.shared.inbox().waits = wanted;
        self.shared.ring();
    }

    /// Counters since the start: sets of probes that the kernel refused, and processes with TLS that cannot be probed.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let counts = &self.shared.counts;
        let refused = ("probes_refused", counts.refused.load(Ordering::Relaxed));
        let unread = tls::UNREAD.into_iter().zip(counts.unread.iter().map(|n| n.load(Ordering::Relaxed)));
        let agents = self.agents.iter().flat_map(Agents::counters);
        std::iter::once(refused).chain(unread).chain(agents)
    }

    /// A sentence about each machine that was asked to load an agent.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.agents.as_ref().map(Agents::notes).unwrap_or_default()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.inbox().stop = true;
        self.shared.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(mut search: Search, lives: &MapHandle, shared: &Shared) {
    let mut changes = Vec::new();
    // Without the ring, new processes are found when their files are looked at.
    let mut ring = Ring::open(lives).ok();
    loop {
        wait(search.pause(), ring.as_ref(), shared);
        if let Some(ring) = &mut ring {
            ring.take(usize::MAX, &mut |record| changes.extend(wire::read_life(record)));
        }
        for (pid, change) in changes.drain(..) {
            match change {
                Some(TaskChange::Fork | TaskChange::Exec) => search.started(pid),
                Some(TaskChange::Exit) => search.ended(pid),
                None => search.is_needed(pid),
            }
        }
        let (pids, asked, waits) = {
            let mut inbox = shared.inbox();
            if inbox.stop {
                return;
            }
            (std::mem::take(&mut inbox.pids), inbox.asked, inbox.waits)
        };
        search.want_waits(waits);
        for (pid, program) in pids {
            match program {
                Some(program) => search.starting(pid, &program),
                None => search.started(pid),
            }
        }
        search.discover_if_due();
        search.look();
        let mut inbox = shared.inbox();
        if inbox.answered != asked {
            inbox.answered = asked;
            shared.answered.notify_all();
        }
        drop(inbox);
        search.load_next();
    }
}

/// Waits for the bell, for a change of a process, or until a process is to be looked at again.
fn wait(pause: Duration, ring: Option<&Ring>, shared: &Shared) {
    let pause = Timespec::try_from(pause).ok();
    let mut fds = vec![PollFd::new(&*shared.bell, PollFlags::IN)];
    if let Some(ring) = ring {
        fds.push(PollFd::new(ring, PollFlags::IN));
    }
    let _ = poll(&mut fds, pause.as_ref());
    let _ = rustix::io::read(&*shared.bell, &mut [0u8; 8]);
}
