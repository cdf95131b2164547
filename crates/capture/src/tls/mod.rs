//! Uprobes: finds the TLS libraries of targets, also those loaded later, and Go's runtime, and attaches to these
//! processes.
//!
//! | module | concern |
//! |---|---|
//! | [`maps`] | which files a process has mapped |
//! | [`elf`], [`go`], [`rust`], [`library`], [`points`] | which library a file is, and where its functions are best probed |
//! | [`goroutines`] | where Go's runtime keeps its goroutines, and where they hand over |
//! | [`go_http`], [`node`] | where HTTP libraries tell for which request they act |
//! | [`python`] | where an executor's workers take their jobs |
//! | [`greenlet`] | where Python's greenlets are made and switched |
//! | [`haproxy`] | where HAProxy keeps which stream it runs, and where one is made |
//! | [`java`] | where a thread of Java says which virtual thread it has mounted |
//! | [`asyncio`] | where Python's tasks are made, stepped and woken |
//! | [`tokio`] | where tasks of tokio are made and run, and what they are sent |
//! | [`unread`] | which files hold TLS that cannot be probed |
//! | [`link`], [`detach`] | the probes of one process in one file, and their end |
//! | here | when to look: a thread of its own, because looking reads files and detaching waits for the kernel |
//!
//! A process is looked at when it is chosen, born, or has changed its program; ten times a second while it is young,
//! and once a second later. So that the first words of a new program are not missed, libraries that are known already
//! are attached before it maps them: the kernel then sets the breakpoints when it does.

mod asyncio;
mod detach;
mod elf;
mod go;
mod go_http;
mod goroutines;
mod greenlet;
mod haproxy;
mod java;
mod library;
mod link;
mod maps;
mod node;
mod points;
mod python;
mod rust;
mod tokio;
mod unread;

use crate::ring::Ring;
use crate::targets::Targets;
use crate::wire;
use detach::Detacher;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use library::{Convention, Plan};
use maps::FileId;
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use wirespan_model::event::TaskChange;

/// A process counts as young for so long, and is looked at so often.
const YOUNG: Duration = Duration::from_secs(5);
const LOOK_YOUNG: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_secs(1);
const ESRCH: i32 = 3;
/// Processes that are followed.
const MAX_PROCESSES: usize = 16_384;

/// Where distributions keep the libraries that most programs use.
const USUAL: [&str; 3] = ["libssl.so.3", "libssl.so.1.1", "libgnutls.so.30"];
const FOLDERS: [&str; 6] =
    ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib"];

/// The programs to attach; those that the kernel refused are missing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Programs {
    pub(crate) tls: Option<TlsPrograms>,
    pub(crate) birth: Option<RawFd>,
    pub(crate) send: Option<RawFd>,
    pub(crate) recv: Option<RawFd>,
    pub(crate) go_http: Option<RawFd>,
    pub(crate) node: Option<RawFd>,
    pub(crate) python_queue: Option<RawFd>,
    pub(crate) greenlet: Option<RawFd>,
    pub(crate) asyncio: Option<RawFd>,
    pub(crate) tokio: Option<RawFd>,
    pub(crate) haproxy: Option<RawFd>,
}

/// Those that make no sense without each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TlsPrograms {
    pub(crate) enter: RawFd,
    pub(crate) exit: RawFd,
    pub(crate) go_enter: RawFd,
    pub(crate) go_exit: RawFd,
    /// Entry and exit.
    pub(crate) rust: Option<(RawFd, RawFd)>,
}

impl TlsPrograms {
    /// The programs for the entries and the exits of a library's functions.
    fn of(&self, convention: Convention) -> Option<(RawFd, RawFd)> {
        match convention {
            Convention::C => Some((self.enter, self.exit)),
            Convention::Go => Some((self.go_enter, self.go_exit)),
            Convention::Rust => self.rust,
        }
    }
}

/// What the kernel programs are told of processes.
#[derive(Debug)]
pub(crate) struct FactMaps {
    pub(crate) processes: MapHandle,
    pub(crate) epoch: MapHandle,
    /// Where threads of Java allocate, by process and chunk.
    pub(crate) java: MapHandle,
    /// Whether threads may be believed to act for what they read last (`bpf/cause/trust.h`).
    pub(crate) doubts: MapHandle,
}

/// `struct process_facts` of `bpf/core/maps.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Facts {
    go: [u8; 8],
    java: java::Machine,
    locks: (u64, u64),
    haproxy: haproxy::Facts,
}

/// Of `go`: whether `crypto/tls` is probed.
const GO_TLS: usize = 7;

/// `WS_MARK_CHUNKS` of `bpf/runtime/java/allocation.h`.
const MARK_CHUNKS: u32 = 4;

impl FactMaps {
    /// It need not be learnt of this process, only unlearnt: what was learnt before its frames were seen says nothing.
    fn in_turn(&self, pid: u32) {
        let _ = self.doubts.update(&pid.to_ne_bytes(), &0u32.to_ne_bytes(), MapFlags::ANY);
    }

    /// It has ended, or become another program.
    fn not_known(&self, pid: u32) {
        let _ = self.doubts.delete(&pid.to_ne_bytes());
    }

    fn tell(&self, pid: u32, facts: &Facts) {
        let key = pid.to_ne_bytes();
        let told = if *facts == Facts::default() {
            let all = (0..=MARK_CHUNKS).map(|chunk| [key, chunk.to_ne_bytes()].concat());
            let _ = all.map(|key| self.java.delete(&key)).find(Result::is_err); // all of them, or none
            self.processes.delete(&key)
        } else {
            let (from, to) = (facts.locks.0.to_ne_bytes(), facts.locks.1.to_ne_bytes());
            let all = [&facts.go[..], &facts.java.bytes(), &from, &to, &facts.haproxy.bytes()].concat();
            self.processes.update(&key, &all, MapFlags::ANY)
        };
        let zero = 0u32.to_ne_bytes();
        let epoch = self.epoch.lookup(&zero, MapFlags::ANY).ok().flatten();
        let epoch = epoch.and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes);
        if told.is_ok() {
            let _ = self.epoch.update(&zero, &epoch.wrapping_add(1).to_ne_bytes(), MapFlags::ANY);
        }
    }
}

#[derive(Default)]
struct Inbox {
    /// Processes to look at now, and the program that each is about to become.
    pids: Vec<(u32, Option<PathBuf>)>,
    stop: bool,
    /// How often somebody asked, and how many of these were answered.
    asked: u64,
    answered: u64,
}

struct Shared {
    inbox: Mutex<Inbox>,
    answered: Condvar,
    /// Wakes the thread, which waits for processes to be born.
    bell: OwnedFd,
    /// Sets of probes that the kernel did not attach.
    refused: AtomicU64,
    /// Processes that hold TLS which cannot be probed, as [`unread::KINDS`].
    unread: [AtomicU64; unread::KINDS.len()],
}

impl Shared {
    fn inbox(&self) -> std::sync::MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

/// The thread that looks. Dropping it detaches everything.
pub(crate) struct Watcher {
    shared: Arc<Shared>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Watcher {
    /// Starts looking. The programs must outlive it; `lives` tells which processes of targets are born, change and end.
    pub(crate) fn start(
        programs: Programs,
        lives: MapHandle,
        facts: FactMaps,
        targets: &Targets,
        runtimes: bool,
    ) -> std::io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (inbox, refused) = (Mutex::default(), AtomicU64::new(0));
        let shared = Arc::new(Shared { inbox, answered: Condvar::new(), bell, refused, unread: Default::default() });
        let mut search = Search {
            shared: Arc::clone(&shared),
            programs,
            facts,
            targets: targets.clone(),
            runtimes,
            processes: HashMap::new(),
            known: HashMap::new(),
            discovered: None,
            detacher: Detacher::start()?,
        };
        // The targets that live already are covered before tracing is said to have begun.
        search.discover();
        search.look();
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("tls".into()).spawn(move || search.run(&lives, &theirs))?;
        Ok(Watcher { shared, thread: Some(thread) })
    }

    /// Tells of a process that was chosen, and of the program that it is about to become; waits until both have been
    /// looked at.
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
}

impl Watcher {
    /// Sets of probes that the kernel did not attach.
    pub(crate) fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// Processes that hold TLS which cannot be probed, by its kind.
    pub(crate) fn unread(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        unread::KINDS.into_iter().zip(self.shared.unread.iter().map(|n| n.load(Ordering::Relaxed)))
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

struct Process {
    born: Instant,
    look_at: Instant,
    attached: HashSet<FileId>,
    links: Vec<OwnedFd>,
    facts: Facts,
    /// Its runtime is known to deal with one event after the other.
    in_turn: bool,
}

struct Search {
    shared: Arc<Shared>,
    programs: Programs,
    facts: FactMaps,
    targets: Targets,
    runtimes: bool,
    processes: HashMap<u32, Process>,
    /// What each file is.
    known: HashMap<FileId, Option<Arc<Plan>>>,
    discovered: Option<Instant>,
    detacher: Detacher,
}

impl Drop for Search {
    fn drop(&mut self) {
        let pids: Vec<u32> = self.processes.keys().copied().collect();
        pids.into_iter().for_each(|pid| self.ended(pid));
    }
}

impl Search {
    fn run(mut self, lives: &MapHandle, shared: &Shared) {
        let mut born = Vec::new();
        // Without the ring, processes are found by looking.
        let mut ring = Ring::open(lives).ok();
        loop {
            self.wait(ring.as_ref(), shared);
            if let Some(ring) = &mut ring {
                ring.take(usize::MAX, &mut |record| born.extend(wire::read_life(record)));
            }
            for (pid, change) in born.drain(..) {
                match change {
                    TaskChange::Fork | TaskChange::Exec => self.started(pid),
                    TaskChange::Exit => self.ended(pid),
                }
            }
            let (pids, asked) = {
                let mut inbox = shared.inbox();
                if inbox.stop {
                    return;
                }
                (std::mem::take(&mut inbox.pids), inbox.asked)
            };
            for (pid, program) in pids {
                self.started(pid);
                if let Some((program, id)) = program.and_then(|p| FileId::of(&p).map(|id| (p, id))) {
                    self.attach(pid, &program, id, None);
                }
            }
            if self.discovered.is_none_or(|at| at.elapsed() >= LOOK) {
                self.discover();
            }
            self.look();
            let mut inbox = shared.inbox();
            if inbox.answered != asked {
                inbox.answered = asked;
                shared.answered.notify_all();
            }
        }
    }

    /// Waits for the bell, for a process, or until one is to be looked at again.
    fn wait(&self, ring: Option<&Ring>, shared: &Shared) {
        let pause = Timespec::try_from(self.pause()).ok();
        let mut fds = vec![PollFd::new(&shared.bell, PollFlags::IN)];
        if let Some(ring) = ring {
            fds.push(PollFd::new(ring, PollFlags::IN));
        }
        let _ = poll(&mut fds, pause.as_ref());
        let _ = rustix::io::read(&shared.bell, &mut [0u8; 8]);
    }

    fn pause(&self) -> Duration {
        let next = self.processes.values().map(|p| p.look_at).min();
        next.map_or(LOOK, |at| at.saturating_duration_since(Instant::now())).min(LOOK)
    }

    fn started(&mut self, pid: u32) {
        let now = Instant::now();
        if self.processes.len() >= MAX_PROCESSES && !self.processes.contains_key(&pid) {
            return;
        }
        let p = self.processes.entry(pid).or_insert_with(|| Process {
            born: now,
            look_at: now,
            attached: HashSet::new(),
            links: Vec::new(),
            facts: Facts::default(),
            in_turn: false,
        });
        (p.born, p.look_at) = (now, now);
        if std::mem::take(&mut p.facts) != Facts::default() {
            self.facts.tell(pid, &Facts::default()); // it may have become another program
        }
        if std::mem::take(&mut p.in_turn) {
            self.facts.not_known(pid);
        }
        self.runtime(pid);
        self.expect(pid);
    }

    /// A Go program is looked into first: until then its threads stand for its goroutines, which is wrong from its
    /// first request on.
    fn runtime(&mut self, pid: u32) {
        let program = PathBuf::from(format!("/proc/{pid}/exe"));
        let Some(id) = FileId::of(&program) else { return };
        let is_go = match self.known.get(&id) {
            Some(plan) => plan.as_ref().is_some_and(|p| p.goroutines.is_some()),
            None => library::is_go(&program),
        };
        if is_go {
            self.attach(pid, &program, id, None);
        }
    }

    /// Processes that were chosen by something other than their id.
    fn discover(&mut self) {
        let mut pids = Vec::new();
        if self.discovered.is_none() {
            pids.extend(self.targets.pids.iter().flat_map(|p| crate::targets::descendants(*p)));
        }
        self.discovered = Some(Instant::now());
        pids.extend(self.targets.members());
        for pid in pids {
            if !self.processes.contains_key(&pid) {
                self.started(pid);
            }
        }
    }

    /// Looks at every process whose time has come.
    fn look(&mut self) {
        let now = Instant::now();
        let due: Vec<u32> = self.processes.iter().filter(|(_, p)| p.look_at <= now).map(|(pid, _)| *pid).collect();
        for pid in due {
            if self.look_at(pid).is_none() {
                self.ended(pid);
            }
        }
    }

    fn ended(&mut self, pid: u32) {
        if let Some(process) = self.processes.remove(&pid) {
            if process.facts != Facts::default() {
                self.facts.tell(pid, &Facts::default());
            }
            if process.in_turn {
                self.facts.not_known(pid);
            }
            self.detacher.close(process.links);
        }
    }

    fn look_at(&mut self, pid: u32) -> Option<()> {
        for mapping in maps::executable(pid)? {
            let Some(id) = FileId::of(&mapping.file) else { continue };
            self.attach(pid, &mapping.file, id, Some((mapping.start, mapping.offset)));
        }
        let p = self.processes.get_mut(&pid)?;
        let now = Instant::now();
        p.look_at = now + if now.duration_since(p.born) < YOUNG { LOOK_YOUNG } else { LOOK };
        Some(())
    }

    /// Attaches what a new program is likely to load, before it does.
    fn expect(&mut self, pid: u32) {
        let root = PathBuf::from(format!("/proc/{pid}/root"));
        let usual = FOLDERS.iter().flat_map(|folder| USUAL.iter().map(move |name| Path::new(folder).join(name)));
        for path in usual {
            let Ok(below) = path.strip_prefix("/") else { continue };
            let path = root.join(below);
            if let Some(id) = FileId::of(&path) {
                self.attach(pid, &path, id, None);
            }
        }
        for path in python::expected(pid, &root) {
            if let Some(id) = FileId::of(&path) {
                self.attach(pid, &path, id, None);
            }
        }
    }

    fn attach(&mut self, pid: u32, file: &Path, id: FileId, mapped: Option<(u64, u64)>) {
        let Some(process) = self.processes.get(&pid) else { return };
        let is_known = process.attached.contains(&id);
        if is_known && process.facts != Facts::default() {
            return;
        }
        let plan = match self.known.get(&id) {
            Some(plan) => plan.clone(),
            None => {
                let plan = library::plan(file).map(|plan| if self.runtimes { plan } else { plan.without_runtimes() });
                let plan = plan.map(Arc::new);
                match plan.as_ref().map(|plan| plan.unread.and_then(|kind| unread::KINDS.get(kind))) {
                    Some(Some(kind)) => tracing::info!(
                        pid,
                        file = %file.display(),
                        kind,
                        "what this says inside TLS cannot be read, only that it speaks: see docs/tls.md"
                    ),
                    Some(None) => tracing::debug!(file = %file.display(), ?plan, "something to probe"),
                    None => {}
                }
                self.known.insert(id, plan.clone());
                plan
            }
        };
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let is_new = process.attached.insert(id);
        if let Some(count) = plan.as_ref().and_then(|p| self.shared.unread.get(p.unread?)).filter(|_| is_new) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let (Some(plan), Ok(path)) = (plan, CString::new(file.as_os_str().as_bytes())) else { return };
        let programs = self.programs;
        if !plan.node.enter.is_empty() && !std::mem::replace(&mut process.in_turn, true) {
            self.facts.in_turn(pid);
        }
        let mut facts = process.facts;
        if let Some(goroutines) = &plan.goroutines {
            facts.go = goroutines.layout.bytes(programs.birth.is_some() && !goroutines.birth.is_empty());
        }
        if plan.convention == Convention::Go && !plan.exit.is_empty() {
            facts.go[GO_TLS] = u8::from(programs.tls.is_some());
        }
        if let Some((locks, mapped)) = plan.locks.zip(mapped) {
            facts.locks = locks.range(mapped);
        }
        if let Some((java, mapped)) = plan.java.as_ref().zip(mapped) {
            facts.java = java.learn(pid, mapped).unwrap_or_default();
            tracing::debug!(pid, machine = ?facts.java, "Java's threads");
        }
        if let Some((haproxy, mapped)) = plan.haproxy.as_ref().zip(mapped).filter(|_| programs.haproxy.is_some()) {
            facts.haproxy = haproxy.facts(mapped);
        }
        // Goroutines are followed from when their probes are there: half of what passes between them would be wrong.
        let tell = facts != process.facts;
        process.facts = facts;
        if is_known {
            if tell {
                self.facts.tell(pid, &facts);
            }
            return;
        }
        let mut sets = Vec::new();
        if let Some(g) = &plan.goroutines {
            let probes = [
                (programs.birth, &g.birth),
                (programs.send, &g.send),
                (programs.recv, &g.recv),
                (programs.go_http, &g.http),
            ];
            sets.extend(probes.into_iter().filter_map(|(program, probes)| Some((program?, probes, false))));
        }
        if let Some(program) = programs.node {
            sets.extend([(program, &plan.node.enter, false), (program, &plan.node.end, true)]);
        }
        sets.extend(programs.greenlet.map(|program| (program, &plan.greenlet, false)));
        sets.extend(programs.tokio.map(|program| (program, &plan.tokio, false)));
        if let Some((program, haproxy)) = programs.haproxy.zip(plan.haproxy.as_ref()) {
            sets.push((program, &haproxy.made, false));
        }
        if let Some(program) = programs.asyncio {
            sets.extend([(program, &plan.asyncio.enter, false), (program, &plan.asyncio.end, true)]);
        }
        if let Some((program, queue)) = programs.python_queue.zip(plan.queue.as_ref()) {
            sets.extend([(program, &queue.put, false), (program, &queue.got, true)]);
        }
        if let Some((enter, exit)) = programs.tls.and_then(|tls| tls.of(plan.convention)) {
            sets.extend([(enter, &plan.enter, false), (exit, &plan.exit, false), (exit, &plan.returns, true)]);
        }
        for (program, probes, at_return) in sets.into_iter().filter(|s| !s.1.is_empty()) {
            match link::attach(program, &path, probes, at_return, pid) {
                Ok(link) => process.links.push(link),
                Err(error) => {
                    // A process may have ended meanwhile, which is no refusal.
                    let refused = error.kind() != std::io::ErrorKind::NotFound && error.raw_os_error() != Some(ESRCH);
                    self.shared.refused.fetch_add(u64::from(refused), Ordering::Relaxed);
                    tracing::debug!(pid, file = %file.display(), %error, "probes were not attached");
                }
            }
        }
        if tell {
            self.facts.tell(pid, &facts);
        }
    }
}
