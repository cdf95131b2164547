//! Process → resource: service name, executable, container, pod, host.
//!
//! Also the true ends of connections behind NAT ([`Nat`]).
//!
//! Takes: pids of targets, and [`TaskEvent`]s. Gives: one shared [`Resource`] per program that a process runs.
//!
//! `/proc` is read once per program: at its `exec`, so that short-lived processes are named too, else at the first
//! span. A forked child shares its parent's resource until it executes another program. A process that ended before it
//! could be read is named after its task. The entry of a process stays [`LINGER`] after its end, for spans that finish
//! late.
#![forbid(unsafe_code)]

mod cache;
mod cgroup;
mod host;
mod name;
mod nat;
mod pods;
mod proc;
mod published;

pub use host::{Host, Roots};
pub use nat::{Ends, Nat, NatStats};
pub use pods::addresses_of;

use cache::{Cache, Entry};
use published::{Asked, Published, Refused};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};
use wirespan_model::event::{Actor, TaskChange, TaskEvent};
use wirespan_model::Resource;

/// How long the resource of an ended process is kept.
pub const LINGER: Duration = Duration::from_secs(60);

/// Counters of the enricher since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Resources asked for.
    pub lookups: u64,
    /// Processes read from `/proc`.
    pub reads: u64,
    /// Processes that were gone before they could be read: named after their task.
    pub gone: u64,
    /// Processes with a file that could not be read for lack of permission.
    pub denied: u64,
    /// Contexts of processes that were read as OTEP 4719 has it.
    pub published: u64,
    /// The same that could not be understood.
    pub refused: u64,
    /// Cached pids that turned out to belong to another process.
    pub reused: u64,
    /// Processes in the cache.
    pub cached: u64,
}

impl Stats {
    /// The counters by name.
    pub fn counters(&self) -> [(&'static str, u64); 8] {
        [
            ("lookups", self.lookups),
            ("reads", self.reads),
            ("gone", self.gone),
            ("denied", self.denied),
            ("contexts_read", self.published),
            ("contexts_refused", self.refused),
            ("reused", self.reused),
            ("cached", self.cached),
        ]
    }
}

#[derive(Default)]
struct Counters {
    lookups: AtomicU64,
    reads: AtomicU64,
    gone: AtomicU64,
    denied: AtomicU64,
    published: AtomicU64,
    refused: AtomicU64,
    reused: AtomicU64,
}

/// Names processes. May be shared between threads.
pub struct Enricher {
    roots: Roots,
    host: Host,
    nobody: Arc<Resource>,
    cache: RwLock<Cache>,
    counters: Counters,
}

impl Default for Enricher {
    fn default() -> Self {
        Enricher::new()
    }
}

impl Enricher {
    /// Reads the host's `/proc` and `/etc`.
    pub fn new() -> Self {
        Enricher::with_roots(Roots::default())
    }

    /// Reads other directories, for tests and for an agent in a container (`/host/proc`).
    pub fn with_roots(roots: Roots) -> Self {
        let host = Host::read(&roots);
        Enricher { roots, host, nobody: Arc::default(), cache: RwLock::default(), counters: Counters::default() }
    }

    /// Identity of this host and boot, for [`Span::host_id`](wirespan_model::Span::host_id).
    pub fn host_id(&self) -> u64 {
        self.host.boot_hash
    }

    /// Facts of this host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The resource of a process. Pid 0 (a capture file) has an empty resource. The first call for a process reads five
    /// small files; later calls cost one hash look-up.
    pub fn resource(&self, actor: &Actor) -> Arc<Resource> {
        self.counters.lookups.fetch_add(1, Relaxed);
        if actor.pid == 0 {
            return self.nobody.clone();
        }
        let now = Instant::now();
        if let Some(entry) = self.read().get(actor.pid).filter(|e| e.is_fresh(now)) {
            return entry.resource.clone();
        }
        self.look_again(actor, now)
    }

    /// Follows births, new programs and ends of processes. Call it with every task event, in order and without delay:
    /// the files of a process that lives for one millisecond can only be read in that millisecond.
    pub fn task_event(&self, event: &TaskEvent) {
        let now = Instant::now();
        let pid = event.actor.pid;
        match event.change {
            // A new thread changes nothing.
            TaskChange::Fork if event.parent_pid == pid || pid == 0 => {}
            TaskChange::Fork => {
                let mut cache = self.write();
                match cache.get(event.parent_pid).map(|p| (p.resource.clone(), p.asked.at_ns)) {
                    Some((resource, at_ns)) => {
                        // A child does not inherit what its parent publishes.
                        let asked = at_ns.map_or_else(|| Asked::first(None, now), |at| Asked::inherited(Some(at), now));
                        let (start_ticks, checked, ended, provisional) = (None, now, None, false);
                        cache.insert(pid, Entry { resource, start_ticks, checked, ended, provisional, asked }, now);
                    }
                    // The pid is new, so a cached process with this pid has ended.
                    None => cache.remove(pid),
                }
            }
            TaskChange::Exec => self.refresh(&event.actor, now),
            TaskChange::Exit => self.write().end(pid, now),
        }
    }

    /// Counts since the start.
    pub fn stats(&self) -> Stats {
        let c = &self.counters;
        Stats {
            lookups: c.lookups.load(Relaxed),
            reads: c.reads.load(Relaxed),
            gone: c.gone.load(Relaxed),
            denied: c.denied.load(Relaxed),
            published: c.published.load(Relaxed),
            refused: c.refused.load(Relaxed),
            reused: c.reused.load(Relaxed),
            cached: self.read().len() as u64,
        }
    }

    /// Checks the process of a missing or old entry.
    fn look_again(&self, actor: &Actor, now: Instant) -> Arc<Resource> {
        let start = proc::stat(&self.roots.proc.join(actor.pid.to_string())).map(|(start, _)| start);
        {
            let mut cache = self.write();
            if let Some(entry) = cache.get_mut(actor.pid) {
                match (entry.start_ticks, start) {
                    // The process has ended, unnoticed or long ago. Its cached name is still the best one.
                    (_, None) => entry.ended = Some(now),
                    // The entry was inherited at fork. The start time becomes known now.
                    (None, Some(_)) if entry.ended.is_none() => entry.start_ticks = start,
                    _ => {}
                }
                let same = start.is_none() || entry.start_ticks == start;
                let due = same && start.is_some() && !entry.provisional && entry.asked.is_due(now);
                if due {
                    drop(cache);
                    return self.ask_again(actor, now);
                }
                if same && (start.is_none() || !entry.provisional) {
                    entry.checked = now;
                    return entry.resource.clone();
                }
                if !same {
                    self.counters.reused.fetch_add(1, Relaxed);
                    cache.remove(actor.pid);
                }
            }
        }
        self.refresh(actor, now);
        self.read().get(actor.pid).map_or_else(|| self.nobody.clone(), |e| e.resource.clone())
    }

    /// Asks a process again for what it publishes. If that is not the same, all is read again.
    fn ask_again(&self, actor: &Actor, now: Instant) -> Arc<Resource> {
        let published = published::read(&self.roots.proc.join(actor.pid.to_string()));
        let at_ns = published.as_ref().ok().map(|published| published.at_ns);
        let is_same = {
            let mut cache = self.write();
            let known = cache.get_mut(actor.pid);
            // While it changes, what was known before is the best.
            let is_same = known.as_ref().is_none_or(|e| e.asked.at_ns == at_ns) || published == Err(Refused::Changing);
            if let Some(entry) = known.filter(|_| is_same) {
                let at_ns = entry.asked.at_ns;
                entry.asked.again(at_ns, now);
                entry.checked = now;
            }
            is_same
        };
        if !is_same {
            self.refresh(actor, now);
        }
        self.read().get(actor.pid).map_or_else(|| self.nobody.clone(), |e| e.resource.clone())
    }

    /// Reads the process and replaces its entry.
    fn refresh(&self, actor: &Actor, now: Instant) {
        if actor.pid == 0 {
            return;
        }
        let comm = comm(actor);
        let entry = match proc::look(&self.roots.proc, actor.pid, &comm) {
            Some(look) => {
                self.counters.reads.fetch_add(1, Relaxed);
                if look.denied {
                    self.counters.denied.fetch_add(1, Relaxed);
                }
                let start_ticks = Some(look.start_ticks);
                // Some processes have no arguments at all, so a second read is enough.
                let again = self.read().get(actor.pid).is_some_and(|e| e.provisional && e.start_ticks == start_ticks);
                let provisional = look.too_early && !again;
                match &look.published {
                    Ok(_) => self.counters.published.fetch_add(1, Relaxed),
                    Err(Refused::Absent) => 0,
                    Err(_) => self.counters.refused.fetch_add(1, Relaxed),
                };
                let asked = Asked::first(look.published.as_ref().ok().map(|published| published.at_ns), now);
                Entry { resource: self.resource_of(look), start_ticks, checked: now, ended: None, provisional, asked }
            }
            None => {
                self.counters.gone.fetch_add(1, Relaxed);
                // Container and host are those of the parent at the fork. Only the task name of the new program is
                // known.
                let old = self.read().get(actor.pid).map(|e| e.resource.clone());
                let place = old.map_or_else(|| self.empty(), |r| Resource { executable: "".into(), ..(*r).clone() });
                let service = if comm.is_empty() { "unknown".into() } else { comm.into() };
                let extra = place.extra.iter().filter(|(k, _)| &**k != RUNTIME).cloned().collect();
                let resource = self.write().intern(Resource { service, extra, ..place });
                let asked = Asked::first(None, now);
                Entry { resource, start_ticks: None, checked: now, ended: Some(now), provisional: false, asked }
            }
        };
        self.write().insert(actor.pid, entry, now);
    }

    fn empty(&self) -> Resource {
        Resource {
            host: self.host.name.clone(),
            extra: vec![("host.id".into(), self.host.stable_id.clone())],
            ..Resource::default()
        }
    }

    fn resource_of(&self, look: proc::Look) -> Arc<Resource> {
        let mut resource = self.empty();
        resource.service = look.named.service.into();
        resource.executable = look.executable;
        resource.container = look.container.id.unwrap_or_default();
        if let Some(uid) = look.container.pod_uid {
            resource.extra.push(("k8s.pod.uid".into(), uid));
        }
        if let Some(runtime) = look.named.runtime {
            resource.extra.push((RUNTIME.into(), runtime.into()));
        }
        let Published { extra, .. } = look.published.unwrap_or_default();
        resource.extra.extend(extra.into_iter().map(|(key, value)| (key.into(), value.into())));
        resource.extra.sort_unstable();
        self.write().intern(resource)
    }

    fn read(&self) -> RwLockReadGuard<'_, Cache> {
        self.cache.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Cache> {
        self.cache.write().unwrap_or_else(PoisonError::into_inner)
    }
}

const RUNTIME: &str = "process.runtime.name";

fn comm(actor: &Actor) -> String {
    let end = actor.comm.iter().position(|b| *b == 0).unwrap_or(actor.comm.len());
    String::from_utf8_lossy(&actor.comm[..end]).into_owned()
}
