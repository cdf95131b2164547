//! Looks for files to probe in the processes of targets, and keeps the probes of each process.
//!
//! A process is searched when it is chosen, is born, or has changed its program; ten times a second while it is young,
//! and once a second later. Libraries that a new program is likely to load get their probes before the program maps
//! them. The kernel sets the breakpoints when the file is mapped, so that no first message is missed.

use super::detach::Detacher;
use super::facts::{FactMaps, Facts};
use super::link;
use super::maps::{self, FileId};
use super::plan::{self, Mapped, Plan, When};
use super::programs::Programs;
use super::tables::Tables;
use super::watcher::Counts;
use crate::attach::Agents;
use crate::runtime::{Learn, Process, RUNTIMES};
use crate::targets::Targets;
use crate::tls;
use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a process counts as young.
const YOUNG: Duration = Duration::from_secs(5);
/// How often a young process is looked at.
const LOOK_YOUNG: Duration = Duration::from_millis(100);
/// How often another process is looked at.
pub(super) const LOOK: Duration = Duration::from_secs(1);
/// Most processes that are followed.
const MAX_PROCESSES: usize = 16_384;

/// A process that is followed.
struct Followed {
    born: Instant,
    look_at: Instant,
    attached: HashSet<FileId>,
    /// Files with probes that wait until the process does this.
    waiting: Vec<(When, CString, Arc<Plan>)>,
    /// Files with probes that are in place while waits are asked for, and those probes.
    of_waits: Vec<(CString, Arc<Plan>)>,
    links_of_waits: Vec<OwnedFd>,
    links: Vec<OwnedFd>,
    facts: Vec<Facts>,
}

/// The processes of targets, and the files that they map.
pub(super) struct Search {
    counts: Arc<Counts>,
    programs: Programs,
    facts: FactMaps,
    tables: Tables,
    targets: Targets,
    follows_actors: bool,
    processes: HashMap<u32, Followed>,
    /// The plan for each file that was read; `None` if there is nothing to do.
    known: HashMap<FileId, Option<Arc<Plan>>>,
    discovered: Option<Instant>,
    detacher: Detacher,
    /// Waits are asked for.
    waits: bool,
    /// Agents in machines; `None` if the user does not want any.
    agents: Option<Agents>,
}

impl Drop for Search {
    fn drop(&mut self) {
        if let Some(agents) = &self.agents {
            agents.end();
        }
        let pids: Vec<u32> = self.processes.keys().copied().collect();
        pids.into_iter().for_each(|pid| self.ended(pid));
    }
}

impl Search {
    pub(super) fn new(
        counts: Arc<Counts>,
        programs: Programs,
        (facts, tables): (FactMaps, Tables),
        targets: Targets,
        follows_actors: bool,
        agents: Option<Agents>,
    ) -> std::io::Result<Self> {
        Ok(Search {
            counts,
            programs,
            facts,
            tables,
            targets,
            follows_actors,
            processes: HashMap::new(),
            known: HashMap::new(),
            discovered: None,
            detacher: Detacher::start()?,
            waits: false,
            agents,
        })
    }

    /// How long no process is due, and no program is to be loaded.
    pub(super) fn pause(&self) -> Duration {
        if self.programs.are_left() {
            return Duration::ZERO;
        }
        let next = self.processes.values().map(|p| p.look_at).min();
        next.map_or(LOOK, |at| at.saturating_duration_since(Instant::now())).min(LOOK)
    }

    /// A process was chosen or born, or has become another program.
    pub(super) fn started(&mut self, pid: u32) {
        let now = Instant::now();
        if self.processes.len() >= MAX_PROCESSES && !self.processes.contains_key(&pid) {
            return;
        }
        let p = self.processes.entry(pid).or_insert_with(|| Followed {
            born: now,
            look_at: now,
            attached: HashSet::new(),
            waiting: Vec::new(),
            of_waits: Vec::new(),
            links_of_waits: Vec::new(),
            links: Vec::new(),
            facts: Vec::new(),
        });
        (p.born, p.look_at) = (now, now);
        let old = std::mem::take(&mut p.facts);
        if let Some(agents) = &self.agents {
            agents.ended(pid); // what it was before
        }
        self.forget(pid, &old);
        self.attach_at_once(pid);
        self.expect(pid);
    }

    /// A process was chosen and waits to become this program. What it is now is of no interest: it is looked at when it
    /// has changed.
    pub(super) fn starting(&mut self, pid: u32, program: &Path) {
        self.started(pid);
        self.attach_file(pid, program);
        self.processes.entry(pid).and_modify(|p| p.look_at = Instant::now() + LOOK_YOUNG);
    }

    /// A process now does what some of its probes wait for.
    pub(super) fn is_needed(&mut self, pid: u32) {
        self.processes.entry(pid).and_modify(|p| p.look_at = Instant::now());
    }

    /// A process has ended. Removes its probes.
    pub(super) fn ended(&mut self, pid: u32) {
        if let Some(agents) = &self.agents {
            agents.ended(pid);
        }
        if let Some(process) = self.processes.remove(&pid) {
            self.forget(pid, &process.facts);
            self.detacher.close(process.links);
            self.detacher.close(process.links_of_waits);
        }
    }

    fn forget(&self, pid: u32, facts: &[Facts]) {
        if facts.is_empty() {
            return;
        }
        self.facts.forget(pid, facts);
        for runtime in RUNTIMES.iter().filter(|r| facts.iter().any(|f| r.maps().contains(&f.map))) {
            runtime.ended(&self.facts, pid);
        }
    }

    /// Probes the program itself before anything else if a runtime asks for it.
    fn attach_at_once(&mut self, pid: u32) {
        let program = PathBuf::from(format!("/proc/{pid}/exe"));
        let Some(id) = FileId::of(&program) else { return };
        let is_urgent = match self.known.get(&id) {
            Some(plan) => plan.as_ref().is_some_and(|p| p.is_urgent),
            None => plan::is_urgent(&program),
        };
        if is_urgent {
            self.attach(pid, &program, id, None);
        }
    }

    /// Calls [`Search::discover`] if the last call was long enough ago.
    pub(super) fn discover_if_due(&mut self) {
        if self.discovered.is_none_or(|at| at.elapsed() >= LOOK) {
            self.discover();
        }
    }

    /// Finds processes that were chosen by their cgroup or namespace, or with all others.
    pub(super) fn discover(&mut self) {
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

    /// Searches every process that is due.
    pub(super) fn look(&mut self) {
        let now = Instant::now();
        for pid in self.agents.iter().flat_map(Agents::take_loaded) {
            if let Some(process) = self.processes.get_mut(&pid) {
                process.look_at = now;
            }
        }
        let due: Vec<u32> = self.processes.iter().filter(|(_, p)| p.look_at <= now).map(|(pid, _)| *pid).collect();
        for pid in due {
            if self.look_at(pid).is_none() {
                self.ended(pid);
            }
        }
    }

    fn look_at(&mut self, pid: u32) -> Option<()> {
        let mut files = maps::code(pid)?;
        // Those that were read before come first: it takes long to read a file.
        files.sort_by_key(|(id, ..)| !self.known.contains_key(id));
        for (id, file, mapped) in files {
            self.attach(pid, &file, id, Some(mapped));
        }
        if self.processes.get(&pid).is_some_and(|p| !p.waiting.is_empty()) {
            let is_so = |when| match when {
                When::Takes => self.facts.takes(pid),
                When::Shares => self.facts.shares(pid),
                When::Always | When::Waits => false,
            };
            let so: Vec<When> = [When::Takes, When::Shares].into_iter().filter(|when| is_so(*when)).collect();
            let due = self.processes.get_mut(&pid).map(|p| p.waiting.extract_if(.., |w| so.contains(&w.0)).collect());
            for (when, path, plan) in due.into_iter().flat_map(|due: Vec<_>| due) {
                self.attach_sets(pid, &path, &plan, when);
            }
        }
        let p = self.processes.get_mut(&pid)?;
        let now = Instant::now();
        p.look_at = now + if now.duration_since(p.born) < YOUNG { LOOK_YOUNG } else { LOOK };
        Some(())
    }

    /// Probes the libraries that a new program is likely to load, before it maps them.
    fn expect(&mut self, pid: u32) {
        let root = PathBuf::from(format!("/proc/{pid}/root"));
        let runtimes: Vec<PathBuf> = RUNTIMES.iter().flat_map(|runtime| runtime.expected(pid, &root)).collect();
        self.learn_at_once(pid, &runtimes);
        tls::expected(&root).into_iter().for_each(|path| self.attach_file(pid, &path));
        runtimes.into_iter().for_each(|path| self.attach_file(pid, &path));
    }

    /// Tells what the program, and those of these files that it has mapped, say without any probe: to attach probes
    /// takes long, and the first requests may come before that.
    fn learn_at_once(&mut self, pid: u32, expected: &[PathBuf]) {
        if expected.is_empty() {
            return;
        }
        let program = PathBuf::from(format!("/proc/{pid}/exe"));
        let wanted: HashSet<FileId> = expected.iter().chain([&program]).filter_map(|path| FileId::of(path)).collect();
        for (id, file, mapped) in maps::code(pid).into_iter().flatten().filter(|(id, ..)| wanted.contains(id)) {
            if let Some(Some(plan)) = self.plan(pid, &file, id) {
                self.learn(pid, &plan, Some(mapped), |learn| learn.at_once);
            }
        }
    }

    /// Probes a file that the process may map later.
    fn attach_file(&mut self, pid: u32, file: &Path) {
        if let Some(id) = FileId::of(file) {
            self.attach(pid, file, id, None);
        }
    }

    fn attach(&mut self, pid: u32, file: &Path, id: FileId, mapped: Option<Mapped>) {
        if !self.processes.contains_key(&pid) {
            return;
        }
        // A file that could not be read is looked at again.
        let Some(plan) = self.plan(pid, file, id) else { return };
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let is_new = process.attached.insert(id);
        let Some(plan) = plan else { return };
        self.tables.make(&plan.tables, mapped.is_some());
        if is_new {
            if let Some(count) = plan.unread.and_then(|kind| self.counts.unread.get(kind)) {
                count.fetch_add(1, Ordering::Relaxed);
            }
            if let Ok(path) = CString::new(file.as_os_str().as_bytes()) {
                self.attach_sets(pid, &path, &plan, When::Always);
                if self.waits {
                    self.attach_sets(pid, &path, &plan, When::Waits);
                }
                let of_waits = plan.has(When::Waits).then(|| (path.clone(), Arc::clone(&plan)));
                let waits_for = [When::Takes, When::Shares].into_iter().filter(|when| plan.has(*when));
                let waiting: Vec<_> = waits_for.map(|when| (when, path.clone(), Arc::clone(&plan))).collect();
                self.processes.entry(pid).and_modify(|p| {
                    p.of_waits.extend(of_waits);
                    p.waiting.extend(waiting);
                });
            }
        }
        // The kernel programs follow actors once they have the facts. So facts are written after all probes are
        // attached: with half of the probes, half of the hand-overs would be missed.
        self.learn(pid, &plan, mapped, |_| true);
        if let Some(agents) = self.agents.as_ref().filter(|_| plan.takes_agent && mapped.is_some()) {
            agents.ask(pid);
        }
    }

    /// What is to be done for a file: nothing for most of them. `None` if it could not be read.
    fn plan(&mut self, pid: u32, file: &Path, id: FileId) -> Option<Option<Arc<Plan>>> {
        if let Some(plan) = self.known.get(&id) {
            return Some(plan.clone());
        }
        let plan = plan::plan(id.open(file)?, file, self.follows_actors).map(Arc::new);
        match plan.as_ref().map(|plan| plan.unread.and_then(|kind| tls::UNREAD.get(kind))) {
            Some(Some(kind)) => tracing::info!(
                pid,
                file = %file.display(),
                kind,
                "the content of this file's TLS connections cannot be read, only their times and sizes: see docs/tls.md"
            ),
            Some(None) => {
                let sets = plan.as_ref().map(|p| &p.sets);
                tracing::debug!(file = %file.display(), ?sets, "found functions to probe");
            }
            None => {}
        }
        self.known.insert(id, plan.clone());
        Some(plan)
    }

    /// Loads one of the programs that nobody has needed so far, so that the first process which does finds it.
    pub(super) fn load_next(&mut self) {
        self.programs.load_next();
    }

    /// Puts those probes in place, or takes those away, that are there only while waits are asked for.
    pub(super) fn want_waits(&mut self, wanted: bool) {
        if wanted == self.waits {
            return;
        }
        self.waits = wanted;
        if !wanted {
            let links = self.processes.values_mut().flat_map(|p| std::mem::take(&mut p.links_of_waits)).collect();
            self.detacher.close(links);
            return;
        }
        let files: Vec<_> =
            self.processes.iter().flat_map(|(pid, p)| p.of_waits.iter().map(|file| (*pid, file.clone()))).collect();
        for (pid, (path, plan)) in files {
            self.attach_sets(pid, &path, &plan, When::Waits);
        }
    }

    /// Attaches those probes of one file that are in place then.
    fn attach_sets(&mut self, pid: u32, path: &CString, plan: &Plan, when: When) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        for set in plan.sets.iter().filter(|set| set.when == when) {
            let Some(program) = self.programs.of(set) else { continue };
            match link::attach(program, path, &set.probes, set.at_return, pid) {
                Ok(link) if when == When::Waits => process.links_of_waits.push(link),
                Ok(link) => process.links.push(link),
                Err(error) => {
                    // A process may have ended meanwhile, which is no refusal.
                    let gone = error.kind() == std::io::ErrorKind::NotFound || link::is_no_process(&error);
                    self.counts.refused.fetch_add(u64::from(!gone), Ordering::Relaxed);
                    tracing::debug!(pid, file = ?path, %error, "probes were not attached");
                }
            }
        }
    }

    /// Learns those of these facts that are still missing, and tells them.
    fn learn(&mut self, pid: u32, plan: &Plan, mapped: Option<Mapped>, these: fn(&Learn) -> bool) {
        let Some(followed) = self.processes.get_mut(&pid) else { return };
        let is_probed = |program: &str| plan.probes(program, &self.programs);
        let has_agent = self.agents.as_ref().is_some_and(|agents| agents.has(pid));
        let follows_actors = self.follows_actors;
        let process = Process { pid, mapped, follows_actors, is_probed: &is_probed, has_agent };
        for learn in plan.facts.iter().filter(|learn| these(learn)) {
            if followed.facts.iter().any(|known| known.map == learn.map) {
                continue;
            }
            let Some(bytes) = (learn.bytes)(&process) else { continue };
            let new = Facts { map: learn.map, bit: learn.bit, bytes };
            tracing::debug!(pid, facts = ?new, "learnt facts of a process");
            followed.facts.push(new.clone());
            self.facts.tell(pid, &new, &followed.facts);
        }
    }
}
