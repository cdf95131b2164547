//! Loads and attaches the programs that this kernel takes, and reads their records.

use crate::beside;
use crate::clock::Clock;
use crate::error::{bpf, listen_to_libbpf, CaptureError};
use crate::features::{self, Feature, MessageRung, Program};
use crate::inject::{self, Propagate};
use crate::load::{at_root_cgroup, blame_age, choose, load_survivors, uprobes, Loaded};
use crate::object::WirespanSkel;
use crate::on_demand::{self, OnDemand};
use crate::privilege;
use crate::refused::Refused;
use crate::ring::Ring;
use crate::source::calls::{CallSet, Recorder};
use crate::source::wait::Follower;
use crate::source::{self, Source, SOURCES};
use crate::targets::{descendants, Targets};
use crate::uprobe::{FactMaps, Tables, Watcher};
use crate::verdicts::Verdicts;
use crate::wire;
use crate::Options;
use crate::Verdict;
use crate::WaitOptions;
use libbpf_rs::btf::types::{Func, Struct, Typedef};
use libbpf_rs::skel::Skel as _;
use libbpf_rs::{Link, MapCore as _, MapFlags, MapHandle, ProgramType};
use std::any::Any;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;
use std::time::Duration;
use wirespan_model::event::MAX_PAYLOAD_BYTES;
use wirespan_model::{Event, ExchangeRange, SocketId};

/// Records that one call of [`Capture::drain_some`] takes at most.
const SOME: usize = 64;

/// Loaded programs. Dropping it detaches everything and frees every map. Lives in one thread.
pub struct Capture {
    // The order of the fields is the order of dropping: first the hooks, then the reader, then the maps.
    /// The hooks of programs that were loaded beside the object, and the programs: so that their memory can be told.
    _beside: (Vec<OwnedFd>, Vec<OwnedFd>),
    links: Vec<Link>,
    on_demand: OnDemand,
    /// Attaches the uprobes.
    watcher: Option<Watcher>,
    ring: Ring,
    skel: WirespanSkel<'static>,
    clock: Clock,
    /// Records that were not understood.
    bad: u64,
    features: Vec<Feature>,
    refused_later: Refused,
    rung: MessageRung,
    retransmits: bool,
    messages: bool,
    sees_calls: bool,
    /// Sources that are told the sockets of new targets.
    adopting: Vec<&'static dyn Source>,
    verdicts: Verdicts,
    /// Tables that sources needed later. Kept open, so that the memory of the process can be told.
    grown: Vec<MapHandle>,
    /// Reads and follows waits, while they are asked for.
    waits: Follower,
    /// Reads system calls, while they are asked for.
    calls: Recorder,
    targets: Targets,
    /// Their readers, until each is taken.
    readers: Vec<Box<dyn Any + Send>>,
}

impl Capture {
    /// Loads and attaches the programs. The targets are traced when it returns.
    pub fn open(options: &Options, targets: &Targets) -> Result<Self, CaptureError> {
        privilege::require()?;
        if options.payload_bytes > MAX_PAYLOAD_BYTES || !options.ring_bytes.is_power_of_two() {
            return Err(CaptureError::Config(format!(
                "payload_bytes is {} (at most {MAX_PAYLOAD_BYTES}), ring_bytes is {} (a power of two)",
                options.payload_bytes, options.ring_bytes
            )));
        }
        listen_to_libbpf();
        let btf = libbpf_rs::btf::Btf::from_vmlinux().map_err(|_| CaptureError::NoBtf)?;
        let has = |name: &str| {
            btf.type_by_name::<Typedef<'_>>(name).is_some()
                || btf.type_by_name::<Struct<'_>>(name).is_some()
                || btf.type_by_name::<Func<'_>>(name).is_some()
        };
        let rung = features::choose_rung(has, options.rung.as_deref()).map_err(CaptureError::Config)?;
        let mut wanted = features::wanted(rung, has);
        let asked = |p: &Program| source::is_asked(p, options);
        wanted.retain(|p| asked(p));
        let networks = privilege::may_change_networks();
        wanted.retain(|p| networks || !p.is_cgroup());
        let propagates = options.propagate != Propagate::Off || options.propagate_options;
        if propagates && networks && rung == MessageRung::SocketTracepoints {
            wanted.extend(inject::programs(options.propagate, options.propagate_options));
        }
        wanted.retain(|p| p.required || !options.without.iter().any(|w| w == p.name));

        let Loaded { mut skel, mut programs, mut refused, shapes, beside, late, of_probes } =
            load_survivors(options, targets, &wanted, &btf).map_err(blame_age)?;
        choose(&mut skel, targets)?;
        let verdicts = Verdicts::open(&skel, options.messages)?;
        let mut ring =
            Ring::open(&skel.maps.events).map_err(|e| bpf("mapping the ring buffer")(libbpf_rs::Error::from(e)))?;
        let mut links = Vec::new();
        // The map is made only if a program uses it.
        let injects = programs.iter().any(|p| p.name.starts_with(inject::USES_SOCKET_MAP));
        let sockets = if injects { skel.maps.inject_sockets.as_fd().as_raw_fd() } else { -1 };
        let mut injection = Vec::new();
        let hooks: io::Result<Vec<_>> = beside.iter().map(beside::attach).collect();
        let beside = (hooks.map_err(|e| bpf("attaching a kernel program")(e.into()))?, beside);
        for last in [false, true] {
            for program in skel.object_mut().progs_mut() {
                let name = program.name().to_str();
                if name.is_some_and(|n| SOURCES.iter().any(|s| s.attaches_last() && s.owns(n))) != last {
                    continue;
                }
                if on_demand::waits(name.unwrap_or_default()) {
                    continue;
                }
                if program.autoload() && !matches!(program.prog_type(), ProgramType::Kprobe | ProgramType::Syscall) {
                    if program.prog_type() == ProgramType::SkMsg {
                        program.attach_sockmap(sockets).map_err(bpf("attaching to the map of sockets"))?;
                        continue;
                    }
                    if matches!(program.prog_type(), ProgramType::CgroupSockAddr | ProgramType::SockOps) {
                        match at_root_cgroup(&program) {
                            Ok(link) => links.push(link),
                            Err(why) => {
                                let lost = programs.iter().position(|p| program.name().to_str() == Some(p.name));
                                refused.extend(lost.map(|i| (programs.remove(i).name, why)));
                            }
                        }
                        continue;
                    }
                    links.push(program.attach().map_err(bpf("attaching a kernel program"))?);
                }
            }
            if !last && propagates && networks {
                let names: Vec<_> = programs.iter().map(|p| p.name).collect();
                if options.propagate != Propagate::Off {
                    injection.push(inject::start(&mut skel, options.propagate, &names, targets));
                }
                if options.propagate_options {
                    injection.push(inject::start_options(&mut skel, options.propagate, &names, targets));
                }
                // Drops the records of the self-test.
                ring.take(usize::MAX, &mut |_| ());
            }
        }
        let names: Vec<_> = programs.iter().map(|p| p.name).collect();
        let mut readers = Vec::new();
        for source in SOURCES {
            readers.extend(source.open(&mut skel, &names).map_err(bpf("opening the tables of a source"))?);
        }
        let adopting: Vec<_> = SOURCES.iter().copied().filter(|source| source.adopts(&names)).collect();
        if options.hooks_from_start {
            on_demand::want_all(&mut skel);
        }
        let mut waits = Follower::new(&skel, &names);
        waits.record(&mut skel, options.waits, || targets.processes());
        let refused_later = Refused::default();
        let on_demand = OnDemand::new(&names, &mut skel, targets, late, refused_later.clone());
        let mut on_demand = on_demand.map_err(|e| bpf("loading kernel programs")(e.into()))?;
        on_demand.want_waits(options.waits.is_some());
        on_demand.attach(&mut skel, &mut links);
        let mut features = features::table(rung, &names, &refused, has);
        features.retain(|f| features::programs().any(|p| p.feature == f.feature && asked(p)));
        features.extend(injection);
        features.extend(privilege::features());
        let mut grown = Vec::new();
        if !adopting.is_empty() {
            source::adopt(&adopting, &skel, &targets.processes(), &mut grown);
        }
        let uprobes = uprobes(&skel, &programs, of_probes, refused_later.clone());
        let watcher = if features::programs().any(|p| p.is_uprobe() && names.contains(&p.name)) {
            let facts = FactMaps::open(skel.object()).map_err(bpf("opening the maps of facts"))?;
            let lives = MapHandle::try_from(&skel.maps.lives).map_err(bpf("opening the ring of processes"))?;
            let tables = Tables::open(skel.object(), &shapes, options.actors).map_err(bpf("opening tables"))?;
            let maps = (facts, tables);
            Watcher::start(uprobes, lives, maps, targets, options.runtimes, options.attach_java).ok()
        } else {
            None
        };
        watcher.iter().for_each(|watcher| watcher.want_waits(options.waits.is_some()));
        let retransmits = names.contains(&"tcp_retransmit_skb");
        let messages = options.messages;
        let sees_calls = ["call_enter", "call_exit"].iter().all(|name| names.contains(name));
        let clock = Clock::now();
        Ok(Capture {
            _beside: beside,
            on_demand,
            links,
            watcher,
            ring,
            skel,
            clock,
            bad: 0,
            features,
            refused_later,
            rung,
            retransmits,
            messages,
            sees_calls,
            adopting,
            verdicts,
            grown,
            waits,
            calls: Recorder::default(),
            targets: targets.clone(),
            readers,
        })
    }

    /// The rung by which messages are seen.
    pub fn rung(&self) -> MessageRung {
        self.rung
    }

    /// Whether [`Event::Trouble`] reports segments that are sent again.
    pub fn sees_retransmits(&self) -> bool {
        self.retransmits
    }

    /// Whether messages are seen; if not, only other sources give events.
    pub fn sees_messages(&self) -> bool {
        self.messages
    }

    /// Waits until a program starts, at most so long. Of use only where messages are not seen: they do not wake the
    /// reader.
    pub fn wait(&self, at_most: Duration) {
        self.ring.wait(at_most);
    }

    /// The features, each with whether it is active and what is lost without it.
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// The reader that a source has given, for use in another thread; `None` if there is none or it was taken before.
    pub(crate) fn take_reader<T: 'static>(&mut self) -> Option<T> {
        let at = self.readers.iter().position(|reader| reader.is::<T>())?;
        self.readers.swap_remove(at).downcast().ok().map(|reader| *reader)
    }

    /// Appends the events since the last call to `into`, without waiting.
    pub fn drain(&mut self, into: &mut Vec<Event>) {
        while self.drain_some(into) {}
    }

    /// Takes at most a few records, so that the next stage finds their events in the processor's cache. Returns whether
    /// there may be more.
    pub fn drain_some(&mut self, into: &mut Vec<Event>) -> bool {
        self.on_demand.attach(&mut self.skel, &mut self.links);
        let Capture { ring, clock, bad, waits, calls, .. } = self;
        let from = into.len();
        let taken = ring.take(SOME, &mut |record| {
            let read = match Follower::owns(record) {
                true => waits.read(record, clock, into),
                false => wire::read(record, clock, into),
            };
            *bad += u64::from(read.is_err());
        });
        if waits.is_on() {
            into.iter().skip(from).for_each(|event| waits.note(event));
        }
        calls.take(clock, into, bad) || taken >= SOME
    }

    /// Follows the wall clock, and makes the kernel decide again for each task whether it is a target. Call about once
    /// a second.
    pub fn refresh(&mut self) {
        self.clock.refresh();
        self.bump_generation();
        for source in SOURCES {
            source::grow(*source, &self.skel, &mut self.grown);
        }
    }

    fn bump_generation(&mut self) {
        if let Some(bss) = self.skel.maps.bss_data.as_mut() {
            // The kernel reads it concurrently; a torn or late value only delays the decision.
            bss.target_generation = bss.target_generation.wrapping_add(1).max(1);
        }
    }

    /// Adds a process and its living descendants to the targets.
    pub fn add_pid(&mut self, pid: u32) -> Result<(), CaptureError> {
        self.add_starting(pid, None)
    }

    /// The same for a process that is about to run this program. Its probes are in place before its first instruction.
    pub fn add_starting(&mut self, pid: u32, program: Option<&Path>) -> Result<(), CaptureError> {
        let pids = descendants(pid);
        for &pid in &pids {
            self.skel
                .maps
                .target_pids
                .update(&pid.to_ne_bytes(), &[1], MapFlags::ANY)
                .map_err(bpf("adding a target process"))?;
            if let Some(watcher) = &self.watcher {
                watcher.cover(pid, program);
            }
        }
        self.bump_generation();
        on_demand::look_for_rings(&mut self.skel, &pids);
        self.waits.begin(&pids);
        self.targets.pids.push(pid);
        source::adopt(&self.adopting, &self.skel, &pids, &mut self.grown);
        Ok(())
    }

    /// Tells the kernel from which duration on requests of these processes are slow, ns.
    pub fn set_slow(&mut self, processes: &[(u32, u64)]) {
        self.waits.set_thresholds(processes);
    }

    /// Records waits by these options from now on, or no longer. The programs hang on the scheduler only meanwhile.
    pub fn record_waits(&mut self, options: Option<WaitOptions>) {
        let Capture { waits, skel, targets, .. } = self;
        waits.record(skel, options, || targets.processes());
        self.on_demand.want_waits(options.is_some());
        self.watcher.iter().for_each(|watcher| watcher.want_waits(options.is_some()));
    }

    /// Asks for the waits of a request that has just ended: they come as if it had been slow.
    pub fn take_waits(&mut self, tid: u32, exchange: ExchangeRange) {
        self.waits.take_waits(tid, exchange);
    }

    /// Whether the kernel took the programs of system calls.
    pub fn can_record_calls(&self) -> bool {
        self.sees_calls
    }

    /// The processes of all targets.
    pub fn processes(&self) -> Vec<u32> {
        self.targets.processes()
    }

    /// Records these system calls of these processes from now on, and none of others. The programs hang on the system
    /// calls of the machine only while there are any. `into` gets what was recorded until now.
    pub fn record_calls(&mut self, processes: &[(u32, CallSet)], into: &mut Vec<Event>) {
        let Capture { calls, skel, on_demand, links, clock, bad, .. } = self;
        let on = calls.record(skel, processes);
        on_demand.want_calls(on);
        on_demand.attach(skel, links);
        if !on {
            while calls.take(clock, into, bad) {}
            calls.close(skel);
        }
    }

    /// Tells the kernel the verdicts about connections.
    pub fn decide(&mut self, verdicts: &[(SocketId, Verdict)]) -> Result<(), CaptureError> {
        if verdicts.is_empty() {
            return Ok(());
        }
        self.verdicts.tell(verdicts)?;
        if let Some(bss) = self.skel.maps.bss_data.as_mut() {
            bss.verdict_epoch = bss.verdict_epoch.wrapping_add(1);
        }
        Ok(())
    }

    /// Counters since the start: those of the kernel programs, summed over CPUs, and the number of records that could
    /// not be read.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut out: Vec<_> = SOURCES.iter().flat_map(|source| source.counters(&self.skel)).collect();
        out.extend(inject::counters(&self.skel));
        out.extend(self.watcher.iter().flat_map(Watcher::counters));
        out.push(("hooks_attached_later", self.on_demand.attached));
        out.push(("waits_not_followed", self.waits.not_followed));
        out.push(("turns_lost", self.waits.turns_lost()));
        out.extend(self.waits.stacks.counters());
        out.extend(self.calls.counters());
        out.push(("bad_records", self.bad));
        out
    }

    /// What became of each process that was asked to load an agent ([`Options::attach_java`]), and what is lost with
    /// programs that the kernel has refused since the start, in words.
    pub fn notes(&self) -> Vec<String> {
        self.watcher.iter().flat_map(Watcher::notes).chain(self.refused_later.notes()).collect()
    }

    /// Detaches every program. Records in the ring buffer can still be drained.
    pub fn detach(&mut self) {
        self.links.clear();
        self.on_demand.end();
        self.watcher = None;
    }
}
