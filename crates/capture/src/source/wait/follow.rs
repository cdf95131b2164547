//! Follows waits from thread to thread: of a thread that was woken by another one, the waits of that one are asked for,
//! as they may say why it came so late.

use super::path::Paths;
use super::record;
use super::samples::Samples;
use super::stacks::Stacks;
use super::turns::Turns;
use super::who;
use super::WaitOptions;
use crate::boxes;
use crate::clock::Clock;
use crate::object::WirespanSkel;
use crate::source::flow::run;
use crate::wire::contract::{WaitTake, WS_SAMPLE, WS_WAITS};
use crate::wire::BadRecord;
use libbpf_rs::skel::Skel as _;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};
use wirespan_model::wait::{ThreadSample, ThreadWaits, Waker};
use wirespan_model::{Direction, Event, ExchangeRange, Text};

/// Longest chain of threads.
const DEEPEST: u8 = 6;
/// Shortest wait whose waker is asked, ns.
const SHORTEST_NS: u64 = 200_000;
/// Most wakers that are asked because of one record, and because of all records of a second.
const MOST_AT_ONCE: usize = 8;
const MOST_PER_SECOND: u32 = 1_000;
/// Processes that can have a threshold of their own.
const PROCESSES: u32 = 16_384;
/// Most requests whose threads are remembered.
const MOST_REQUESTS: usize = 8_192;

/// Reads records of waits, and asks for more.
pub(crate) struct Follower {
    /// Sends the waits of a thread; `None` if the kernel has refused it.
    take: Option<OwnedFd>,
    /// What ends waits is seen.
    sees_wakers: bool,
    /// Waits are asked for.
    on: bool,
    /// From which duration on requests are slow, by process; while waits are asked for.
    thresholds: Option<MapHandle>,
    paths: Paths,
    pub(crate) stacks: Stacks,
    samples: Samples,
    turns: Turns,
    /// Threads that have moved messages of a request.
    threads: FxHashMap<u64, FxHashSet<u32>>,
    requests: VecDeque<u64>,
    second: Instant,
    this_second: u32,
    /// Threads that were not asked.
    pub(crate) not_followed: u64,
}

impl Follower {
    /// Keeps no waits until it is asked to.
    pub(crate) fn new(skel: &WirespanSkel<'static>, loaded: &[&'static str]) -> Follower {
        let program = skel.object().progs().find(|p| p.name() == "wait_take");
        let take = program.filter(|_| loaded.contains(&"wait_take"));
        let take = take.and_then(|program| program.as_fd().try_clone_to_owned().ok());
        Follower {
            take,
            sees_wakers: loaded.contains(&"wait_waking"),
            on: false,
            thresholds: None,
            paths: Paths::default(),
            stacks: Stacks::default(),
            samples: Samples::default(),
            turns: Turns::default(),
            threads: FxHashMap::default(),
            requests: VecDeque::new(),
            second: Instant::now(),
            this_second: 0,
            not_followed: 0,
        }
    }

    /// Keeps waits from now on by these options, or no longer. `pids`: the processes of all targets.
    pub(crate) fn record(
        &mut self,
        skel: &mut WirespanSkel<'static>,
        options: Option<WaitOptions>,
        pids: impl FnOnce() -> Vec<u32>,
    ) {
        let begins = options.is_some() && !self.on;
        self.on = options.is_some();
        let wanted = options.map(|options| (options.kernel_stack, options.user_stack));
        self.stacks.keep(skel, wanted.unwrap_or_default());
        self.turns.keep(skel, self.on);
        if let Some(bss) = skel.maps.bss_data.as_mut() {
            if let Some(options) = options {
                bss.wait_threshold_ns = options.threshold_ns;
                bss.wait_one_of = options.one_of;
                bss.waits_kernel_stack = u8::from(options.kernel_stack);
                bss.waits_user_stack = u8::from(options.user_stack);
            }
            bss.waits_epoch = bss.waits_epoch.wrapping_add(u32::from(begins));
            bss.waits_on = u8::from(self.on);
        }
        let place = &skel.maps.wait_thresholds;
        if begins {
            let table = boxes::make_table(place, "wait_thresholds", (4, 8), PROCESSES);
            let none = |error: &_| tracing::warn!(%error, "no memory for thresholds of processes: one holds for all");
            self.thresholds = table.inspect_err(none).ok();
            self.begin(&pids());
        }
        if !self.on {
            self.threads.clear();
            self.requests.clear();
            self.samples.clear();
            self.thresholds = None;
            let _ = place.delete(&boxes::PLACE);
        }
    }

    /// Begins to keep the waits of the threads that these processes have.
    pub(crate) fn begin(&mut self, pids: &[u32]) {
        for pid in pids.iter().filter(|_| self.on) {
            let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            let tids = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
            tids.for_each(|tid| {
                self.run(WaitTake { tid, make: 1, ..WaitTake::default() });
            });
        }
    }

    /// Requests of whose actor not all turns are known, as others took their places in the kernel's table.
    pub(crate) fn turns_lost(&self) -> u64 {
        self.turns.lost
    }

    /// Whether waits are asked for.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    fn run(&self, what: WaitTake) {
        if let Some(program) = &self.take {
            // A thread that has ended has no waits any more.
            let _ = run(program.as_fd(), &mut what.to_bytes());
        }
    }

    /// Asks for the waits of the threads of a request that has just ended, by the thread that read it.
    pub(crate) fn take_waits(&mut self, tid: u32, exchange: ExchangeRange) {
        let exchanges = (exchange.first..=exchange.last).take(MOST_AT_ONCE);
        let acted = exchanges.filter_map(|own| self.threads.get(&own)).flatten().copied();
        let mut tids: Vec<u32> = acted.chain([tid]).collect();
        tids.sort_unstable();
        tids.dedup();
        tids.truncate(MOST_AT_ONCE);
        if self.on {
            tids.into_iter().for_each(|tid| self.ask(WaitTake { tid, ..WaitTake::default() }));
        }
    }

    /// Tells the kernel from which duration on requests of these processes are slow, ns.
    pub(crate) fn set_thresholds(&self, processes: &[(u32, u64)]) {
        let Some(map) = &self.thresholds else { return };
        for (pid, threshold_ns) in processes {
            if let Err(error) = map.update(&pid.to_ne_bytes(), &threshold_ns.to_ne_bytes(), MapFlags::ANY) {
                tracing::debug!(%error, pid, "the threshold of a process stays the general one");
            }
        }
    }

    /// Whether a record is of waits.
    pub(crate) fn owns(record: &[u8]) -> bool {
        record.first().is_some_and(|kind| u32::from(*kind) == WS_WAITS) || Samples::owns(record)
    }

    /// Reads a record of waits, and asks for those of their wakers; or a sample, which is kept.
    pub(crate) fn read(&mut self, record: &[u8], clock: &Clock, out: &mut Vec<Event>) -> Result<(), BadRecord> {
        if Samples::owns(record) {
            return self
                .samples
                .read(record, &self.stacks)
                .ok_or(BadRecord { kind: WS_SAMPLE as u8, len: record.len() });
        }
        let Follower { paths, stacks, .. } = self;
        let mut names: FxHashMap<u32, Text> = FxHashMap::default();
        let mut find = record::Find {
            sees_wakers: self.sees_wakers,
            path: &mut |pid, file| paths.find(pid, file),
            thread: &mut |pid, tid| names.entry(tid).or_insert_with(|| who::thread_name(pid, tid)).clone(),
            stack: &mut |pid, number| stacks.find(pid, number),
        };
        let read = record::read(record, clock, &mut find);
        let mut read = read.ok_or(BadRecord { kind: WS_WAITS as u8, len: record.len() })?;
        let (pid, tid) = (read.waits.pid, read.waits.tid);
        for (time_ns, stack) in self.samples.take(pid, tid, read.since_ns, read.time_ns) {
            let stack = self.stacks.name(stack);
            read.waits.samples.extend(stack.map(|stack| ThreadSample { time_ns: clock.to_unix(time_ns), stack }));
        }
        read.waits.turns = self.turns.of(pid, read.actor, (read.since_ns, read.time_ns), clock);
        if read.depth < DEEPEST {
            for tid in self.others(&read.waits) {
                self.ask(WaitTake { tid, depth: read.depth + 1, since_ns: read.since_ns, ..WaitTake::default() });
            }
        }
        out.push(Event::Waits(Box::new(read.waits)));
        Ok(())
    }

    /// The threads that may tell why this one waited: those that ran the request's actor or moved messages of the
    /// request, and those that woke this one.
    fn others(&self, waits: &ThreadWaits) -> Vec<u32> {
        let mut long: Vec<_> = waits.waits.iter().filter(|w| w.woken_ns - w.stopped_ns >= SHORTEST_NS).collect();
        long.sort_by_key(|w| std::cmp::Reverse(w.woken_ns - w.stopped_ns));
        let wakers = long.into_iter().filter_map(|w| match &w.waker {
            Waker::Thread { tid, .. } => Some(*tid),
            _ => None,
        });
        let ran = waits.turns.iter().map(|turn| turn.tid);
        let acted = self.threads.get(&waits.exchange).into_iter().flatten().copied();
        let mut found = Vec::new();
        for tid in ran.chain(acted).chain(wakers).filter(|tid| *tid != waits.tid) {
            if !found.contains(&tid) && found.len() < MOST_AT_ONCE {
                found.push(tid);
            }
        }
        found
    }

    fn ask(&mut self, what: WaitTake) {
        if self.second.elapsed() >= Duration::from_secs(1) {
            (self.second, self.this_second) = (Instant::now(), 0);
        }
        if self.this_second >= MOST_PER_SECOND {
            self.not_followed += 1;
            return;
        }
        self.this_second += 1;
        self.run(what);
    }

    /// Remembers which threads act for which request.
    pub(crate) fn note(&mut self, event: &Event) {
        let Event::Data(data) = event else { return };
        let request = match data.direction {
            Direction::Ingress => data.exchange,
            Direction::Egress => data.cause,
        };
        if request == 0 || self.take.is_none() {
            return;
        }
        if !self.threads.contains_key(&request) {
            self.requests.push_back(request);
            if self.requests.len() > MOST_REQUESTS {
                self.requests.pop_front().and_then(|old| self.threads.remove(&old));
            }
        }
        self.threads.entry(request).or_default().insert(data.actor.tid);
    }
}
