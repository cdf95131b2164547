//! Loads and attaches the programs that this kernel takes, and reads what they emit.

use crate::clock::{self, Clock};
use crate::features::{self, Feature, MessageRung, Program, PROGRAMS};
use crate::flow::{self, FlowOptions, FlowSource};
use crate::inject::{self, Propagate};
use crate::object::{OpenWirespanSkel, WirespanSkel, WirespanSkelBuilder};
use crate::on_demand::{self, OnDemand};
use crate::targets::{descendants, Targets};
use crate::tls::{FactMaps, Programs, TlsPrograms, Watcher};
use crate::wire;
use crate::Verdict;
use libbpf_rs::btf::types::{Struct, Typedef};
use libbpf_rs::skel::{OpenSkel as _, Skel as _, SkelBuilder as _};
use libbpf_rs::{
    Link, MapCore as _, MapFlags, MapHandle, OpenObject, PrintLevel, ProgramMut, ProgramType, RingBuffer,
    RingBufferBuilder,
};
use std::cell::RefCell;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::Path;
use std::rc::Rc;
use std::sync::Mutex;
use std::time::Duration;
use wirespan_model::{Event, SocketId};

/// Records that one call of [`Capture::drain_some`] takes at most.
const SOME: usize = 64;
/// The ring of records if there are none of messages, only of tasks.
const TASKS_RING_BYTES: u32 = 256 << 10;

/// What to capture, and how much of it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Payload bytes per call by default; at most 4096.
    pub payload_bytes: u32,
    /// Bytes of records of a new connection that carry all their payload, until a verdict says what to copy.
    pub young_bytes: u32,
    /// Size of the ring buffer, bytes; a power of two.
    pub ring_bytes: u32,
    /// Force a rung of [`MessageRung`] by name.
    pub rung: Option<String>,
    /// Leave out these optional programs.
    pub without: Vec<String>,
    /// See messages; without them only flows are bundled.
    pub messages: bool,
    /// Bundle flows.
    pub flows: Option<FlowOptions>,
    /// Put trace context into what targets send.
    pub propagate: Propagate,
    /// Attach at once what is attached when a target first needs it (io_uring, splice(), the begin of long sends).
    pub hooks_from_start: bool,
    /// Put trace context into an option of TCP where no header of HTTP/1 carries it.
    pub propagate_options: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            payload_bytes: 512,
            young_bytes: 256 << 10,
            ring_bytes: 8 << 20,
            rung: None,
            without: Vec::new(),
            messages: true,
            flows: Some(FlowOptions::default()),
            propagate: Propagate::Off,
            hooks_from_start: false,
            propagate_options: false,
        }
    }
}

/// Why there is nothing to see.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// Not root, and without the capabilities.
    #[error("tracing needs root, or the capabilities CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN and CAP_SYS_RESOURCE: run it with sudo")]
    Privilege,
    /// No BTF.
    #[error("this kernel has no BTF (/sys/kernel/btf/vmlinux): wirespan needs a kernel built with CONFIG_DEBUG_INFO_BTF, as all distributions' since 2021 are")]
    NoBtf,
    /// A required program does not load.
    #[error("the kernel refused {program}, and without it {lost}: {reason}")]
    Refused {
        /// Program.
        program: &'static str,
        /// What is lost.
        lost: &'static str,
        /// The kernel's words.
        reason: String,
    },
    /// Bad input.
    #[error("{0}")]
    Config(String),
    /// libbpf said no.
    #[error("{context}: {source}")]
    Bpf {
        /// What was being done.
        context: &'static str,
        /// The error.
        source: libbpf_rs::Error,
    },
}

fn bpf(context: &'static str) -> impl FnOnce(libbpf_rs::Error) -> CaptureError {
    move |source| CaptureError::Bpf { context, source }
}

/// The last words of libbpf: the verifier's reason stands near the end of its log.
static LAST_WORDS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn listen_to_libbpf() {
    fn note(level: PrintLevel, text: String) {
        tracing::debug!(target: "libbpf", ?level, "{}", text.trim_end());
        if let Ok(mut lines) = LAST_WORDS.lock() {
            lines.extend(text.lines().map(str::to_string));
            let surplus = lines.len().saturating_sub(200);
            lines.drain(..surplus);
        }
    }
    libbpf_rs::set_print(Some((PrintLevel::Warn, note)));
}

/// The line of the log that tells why: the one before the verifier's statistics, or libbpf's last.
fn reason() -> String {
    let Ok(lines) = LAST_WORDS.lock() else { return String::new() };
    let end = lines.iter().rposition(|l| l.starts_with("processed ")).unwrap_or(lines.len());
    let line = lines[..end].iter().rev().find(|l| !l.trim().is_empty() && !l.contains("-- END PROG"));
    line.map(|l| l.trim().trim_start_matches("libbpf: ").to_string()).unwrap_or_default()
}

/// The program at which loading ended, by libbpf's words: `prog 'NAME': failed to load: …`.
fn failed_program() -> Option<String> {
    let lines = LAST_WORDS.lock().ok()?;
    let line = lines.iter().rev().find(|l| l.contains("': failed to load"))?;
    line.split('\'').nth(1).map(str::to_string)
}

fn forget_words() {
    if let Ok(mut lines) = LAST_WORDS.lock() {
        lines.clear();
    }
}

struct Batch {
    clock: Clock,
    events: Vec<Event>,
    bad: u64,
}

/// Loaded programs. Dropping it detaches everything and frees every map. Lives in one thread.
pub struct Capture {
    // Dropped in this order: first nothing fires any more, then nothing reads, then the maps go.
    links: Vec<Link>,
    on_demand: OnDemand,
    /// Attaches to TLS libraries.
    tls: Option<Watcher>,
    ring: RingBuffer<'static>,
    skel: WirespanSkel<'static>,
    batch: Rc<RefCell<Batch>>,
    features: Vec<Feature>,
    rung: MessageRung,
    retransmits: bool,
    messages: bool,
    /// Whether flows are bundled; and their source, until it is taken.
    bundles: bool,
    flows: Option<FlowSource>,
}

fn open(
    options: &Options,
    targets: &Targets,
    load: &[&'static Program],
) -> Result<OpenWirespanSkel<'static>, CaptureError> {
    // One loaded object per process, alive until its end: its few bytes are not worth a self-referential struct.
    let storage: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut skel = WirespanSkelBuilder::default().open(storage).map_err(bpf("opening the kernel programs"))?;
    if let Some(rodata) = skel.maps.rodata_data.as_mut() {
        rodata.default_bytes = options.payload_bytes;
        rodata.young_bytes = options.young_bytes;
        rodata.tick_ns = clock::tick_ns();
        rodata.cgroup_count = targets.cgroups.len() as u32;
        rodata.by_netns = !targets.netns.is_empty();
        rodata.everything = targets.all;
        rodata.inject_salt = [random(), random()];
        rodata.waited_for = !options.messages;
        rodata.watch_lives = load.iter().any(|p| p.is_uprobe());
        // All or none: one that was left out is not to come in with the messages.
        rodata.flows_with_messages = load.iter().filter(|p| p.joins_messages(load)).count() == 2;
        rodata.by_syscalls = load.iter().any(|p| p.rung == Some(MessageRung::SyscallTracepoints));
    }
    if let Some(bss) = skel.maps.bss_data.as_mut() {
        bss.target_generation = 1;
    }
    let ring = if options.messages { options.ring_bytes } else { options.ring_bytes.min(TASKS_RING_BYTES) };
    skel.maps.events.set_max_entries(ring).map_err(bpf("sizing the ring buffer"))?;
    if !options.messages {
        let m = &mut skel.maps;
        let only_of_messages =
            [&mut m.verdicts, &mut m.tls_conns, &mut m.goroutines, &mut m.go_calls, &mut m.contexts, &mut m.doubts];
        for map in only_of_messages {
            map.set_max_entries(1).map_err(bpf("sizing the tables of messages"))?;
        }
    }
    if !load.iter().any(|p| p.rung == Some(MessageRung::SyscallTracepoints)) {
        skel.maps.socks_by_address.set_max_entries(1).map_err(bpf("sizing the table of sockets"))?;
    }
    let flows = load.iter().any(|p| p.is_flow());
    flow::size(&mut skel, options.flows.filter(|_| flows)).map_err(bpf("sizing the tables of flows"))?;
    let processors = libbpf_rs::num_possible_cpus().map_err(bpf("counting the processors"))?;
    skel.maps.scratches.set_max_entries(processors as u32).map_err(bpf("making room for records"))?;
    let joined = skel.maps.rodata_data.as_ref().is_some_and(|r| r.flows_with_messages);
    for mut program in skel.open_object_mut().progs_mut() {
        let wanted = program.name().to_str().is_some_and(|n| {
            let own = load.iter().any(|p| p.name == n && !(joined && p.joins_messages(load)));
            own || (flows && flow::RUN.contains(&n))
        });
        program.set_autoload(wanted);
    }
    Ok(skel)
}

/// The standard library's source of unpredictable numbers.
fn random() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    std::hash::RandomState::new().build_hasher().finish()
}

/// What became of the programs: the loaded object, those in it, and those that the kernel refused, with its words.
struct Loaded {
    skel: WirespanSkel<'static>,
    programs: Vec<&'static Program>,
    refused: Vec<(&'static str, String)>,
}

/// Loads what can be loaded: whatever the kernel refuses is left out, and the rest is tried again.
fn load_survivors(options: &Options, targets: &Targets, wanted: &[&'static Program]) -> Result<Loaded, CaptureError> {
    let mut programs = wanted.to_vec();
    let mut refused = Vec::new();
    loop {
        forget_words();
        let error = match open(options, targets, &programs)?.load() {
            Ok(skel) => return Ok(Loaded { skel, programs, refused }),
            Err(error) => error,
        };
        // It names the program unless something else is wrong: no memory, a map that this kernel does not know.
        let Some(at) = failed_program().and_then(|name| programs.iter().position(|p| p.name == name)) else {
            return Err(bpf("loading the kernel programs")(error));
        };
        let program = programs.remove(at);
        let why = reason();
        let why = if why.is_empty() { error.to_string() } else { why };
        if program.required {
            return Err(CaptureError::Refused { program: program.name, lost: program.lost, reason: why });
        }
        refused.push((program.name, why));
    }
}

/// Where every process of this machine (or container) is below.
const ROOT_CGROUPS: [&str; 2] = ["/sys/fs/cgroup/cgroup.controllers", "/sys/fs/cgroup/unified/cgroup.controllers"];

fn at_root_cgroup(program: &ProgramMut<'_>) -> Result<Link, String> {
    let root = ROOT_CGROUPS.iter().map(Path::new).find(|p| p.exists()).and_then(Path::parent);
    let root = root.ok_or("no cgroup v2 is mounted at /sys/fs/cgroup")?;
    let directory = File::open(root).map_err(|e| format!("{}: {e}", root.display()))?;
    program.attach_cgroup(directory.as_raw_fd()).map_err(|e| format!("attaching to {}: {e}", root.display()))
}

impl Capture {
    /// Loads and attaches. From here on the targets are traced.
    pub fn open(options: &Options, targets: &Targets) -> Result<Self, CaptureError> {
        if !rustix::process::geteuid().is_root() {
            return Err(CaptureError::Privilege);
        }
        if options.payload_bytes > 4096 || !options.ring_bytes.is_power_of_two() {
            return Err(CaptureError::Config(format!(
                "payload_bytes is {} (at most 4096), ring_bytes is {} (a power of two)",
                options.payload_bytes, options.ring_bytes
            )));
        }
        listen_to_libbpf();
        let btf = libbpf_rs::btf::Btf::from_vmlinux().map_err(|_| CaptureError::NoBtf)?;
        let has = |name: &str| {
            btf.type_by_name::<Typedef<'_>>(name).is_some() || btf.type_by_name::<Struct<'_>>(name).is_some()
        };
        let rung = features::choose_rung(has, options.rung.as_deref()).map_err(CaptureError::Config)?;
        let mut wanted = features::wanted(rung, has);
        let asked = |p: &Program| match (p.is_flow(), p.sees_messages()) {
            (true, _) => options.flows.is_some(),
            (_, true) => options.messages,
            _ => true,
        };
        wanted.retain(|p| asked(p));
        let propagates = options.propagate != Propagate::Off || options.propagate_options;
        if propagates && rung == MessageRung::SocketTracepoints {
            wanted.extend(inject::PROGRAMS);
            wanted.extend(inject::OPTION_PROGRAMS.iter().filter(|_| options.propagate_options));
        }
        wanted.retain(|p| p.required || !options.without.iter().any(|w| w == p.name));

        let Loaded { mut skel, mut programs, mut refused } = load_survivors(options, targets, &wanted)?;
        choose(&mut skel, targets)?;
        let batch = Rc::new(RefCell::new(Batch { clock: Clock::now(), events: Vec::new(), bad: 0 }));
        let sink = Rc::clone(&batch);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&skel.maps.events, move |record| {
                let Batch { clock, events, bad } = &mut *sink.borrow_mut();
                if wire::read(record, clock, events).is_err() {
                    *bad += 1;
                }
                0
            })
            .map_err(bpf("mapping the ring buffer"))?;
        let ring = builder.build().map_err(bpf("mapping the ring buffer"))?;
        let mut links = Vec::new();
        let sockets = skel.maps.inject_sockets.as_fd().as_raw_fd();
        let mut injection = Vec::new();
        // Flows last: they would bundle the sockets of the self-test.
        for flows in [false, true] {
            for program in skel.object_mut().progs_mut() {
                let name = program.name().to_str();
                if PROGRAMS.iter().any(|p| name == Some(p.name) && p.is_flow()) != flows {
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
            if !flows && propagates {
                let names: Vec<_> = programs.iter().map(|p| p.name).collect();
                if options.propagate != Propagate::Off {
                    injection.push(inject::start(&mut skel, options.propagate, &names, targets));
                }
                if options.propagate_options {
                    injection.push(inject::start_options(&mut skel, &names, targets));
                }
                // What the self-test left behind.
                ring.consume().map_err(bpf("reading the ring buffer"))?;
                batch.borrow_mut().events.clear();
            }
        }
        if let Some(bss) = skel.maps.bss_data.as_mut() {
            bss.flows_open = true;
        }
        let names: Vec<_> = programs.iter().map(|p| p.name).collect();
        if options.hooks_from_start {
            on_demand::want_all(&mut skel);
        }
        let mut on_demand = OnDemand::new(&names, &mut skel, targets);
        on_demand.attach(&mut skel, &mut links);
        let mut features = features::table(rung, &names, &refused, has);
        features.retain(|f| PROGRAMS.iter().any(|p| p.feature == f.feature && asked(p)));
        features.extend(injection);
        let flows =
            names.contains(&"flow_state").then(|| FlowSource::new(&skel).map_err(bpf("opening the tables of flows")));
        let flows = flows.transpose()?;
        if flows.is_some() {
            flow::adopt(&skel, &flow::processes(targets));
        }
        let uprobes = uprobes(&skel, &names);
        let tls = if PROGRAMS.iter().any(|p| p.is_uprobe() && names.contains(&p.name)) {
            let handle = |map| MapHandle::try_from(map).map_err(bpf("opening the map of processes"));
            let facts = FactMaps { processes: handle(&skel.maps.processes)?, epoch: handle(&skel.maps.facts_epoch)? };
            Watcher::start(uprobes, handle(&skel.maps.lives)?, facts, targets).ok()
        } else {
            None
        };
        let (retransmits, bundles) = (names.contains(&"tcp_retransmit_skb"), flows.is_some());
        let messages = options.messages;
        Ok(Capture { on_demand, links, tls, ring, skel, batch, features, rung, retransmits, messages, bundles, flows })
    }

    /// The rung by which messages are seen.
    pub fn rung(&self) -> MessageRung {
        self.rung
    }

    /// Whether [`Event::Trouble`] tells of segments that are sent again.
    pub fn sees_retransmits(&self) -> bool {
        self.retransmits
    }

    /// Whether messages are seen, or flows only.
    pub fn sees_messages(&self) -> bool {
        self.messages
    }

    /// Waits for the start of a program, at most so long: only if there are no messages, which wake nobody up.
    pub fn wait(&self, at_most: Duration) {
        // What comes stays in the batch for the next drain; an interruption is no news.
        let _ = self.ring.poll(at_most);
    }

    /// What works, and what does not.
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// The bundles of flows, for another thread to drain; `None` if none are made, or at the second call. After
    /// [`Capture::detach`] they can be drained once more.
    pub fn take_flows(&mut self) -> Option<FlowSource> {
        self.flows.take()
    }

    /// Takes what the kernel has emitted since the last call, without waiting; `into` is not cleared.
    pub fn drain(&mut self, into: &mut Vec<Event>) -> Result<(), CaptureError> {
        while self.drain_some(into)? {}
        Ok(())
    }

    /// Takes little of it at a time, so that who reads it finds it in the processor's cache; returns whether there may be more.
    pub fn drain_some(&mut self, into: &mut Vec<Event>) -> Result<bool, CaptureError> {
        self.on_demand.attach(&mut self.skel, &mut self.links);
        let taken = self.ring.consume_raw_n(SOME);
        if taken < 0 {
            return Err(bpf("reading the ring buffer")(libbpf_rs::Error::from_raw_os_error(-taken)));
        }
        into.append(&mut self.batch.borrow_mut().events);
        Ok(taken as usize >= SOME)
    }

    /// Follows a stepped wall clock, and makes every task decide anew whether it is a target. Call about once a second.
    pub fn refresh(&mut self) {
        self.batch.borrow_mut().clock.refresh();
        self.bump_generation();
    }

    fn bump_generation(&mut self) {
        if let Some(bss) = self.skel.maps.bss_data.as_mut() {
            // The kernel reads it concurrently; a torn or late value only delays the decision.
            bss.target_generation = bss.target_generation.wrapping_add(1).max(1);
        }
    }

    /// Adds a process and its living descendants to the targets.
    pub fn add_pid(&mut self, pid: u32) -> Result<(), CaptureError> {
        let pids = descendants(pid);
        for &pid in &pids {
            self.skel
                .maps
                .target_pids
                .update(&pid.to_ne_bytes(), &[1], MapFlags::ANY)
                .map_err(bpf("adding a target process"))?;
            if let Some(tls) = &self.tls {
                tls.cover(pid);
            }
        }
        self.bump_generation();
        on_demand::look_for_rings(&mut self.skel, &pids);
        if self.bundles {
            flow::adopt(&self.skel, &pids);
        }
        Ok(())
    }

    /// Tells the kernel what was decided about connections.
    pub fn decide(&mut self, verdicts: &[(SocketId, Verdict)]) -> Result<(), CaptureError> {
        if verdicts.is_empty() {
            return Ok(());
        }
        for (socket, verdict) in verdicts {
            let [low, high] = verdict.bytes.to_ne_bytes();
            let flags = u8::from(verdict.plaintext) | u8::from(verdict.shared) << 1;
            let value = [low, high, verdict.copy as u8, flags];
            self.skel
                .maps
                .verdicts
                .update(&socket.0.to_ne_bytes(), &value, MapFlags::ANY)
                .map_err(bpf("deciding about a connection"))?;
        }
        if let Some(bss) = self.skel.maps.bss_data.as_mut() {
            bss.verdict_epoch = bss.verdict_epoch.wrapping_add(1);
        }
        Ok(())
    }

    /// Counters of the kernel side since the start, summed over CPUs (`enum ws_counter`), and records not understood.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        const NAMES: [&str; 13] = [
            "records",
            "lost_ring_full",
            "lost_no_state",
            "peeks",
            "would_block",
            "unreadable_payloads",
            "ignored_calls",
            "paired",
            "plaintext_records",
            "plaintext_without_socket",
            "flows_spilled",
            "lost_flows",
            "flow_sockets_beyond_table",
        ];
        let mut out: Vec<_> = (0u32..)
            .zip(NAMES)
            .map(|(i, name)| {
                let per_cpu = self.skel.maps.counters.lookup_percpu(&i.to_ne_bytes(), MapFlags::ANY);
                let sum = per_cpu.ok().flatten().unwrap_or_default().into_iter().filter_map(|v| {
                    let bytes: [u8; 8] = v.get(..8)?.try_into().ok()?;
                    Some(u64::from_ne_bytes(bytes))
                });
                (name, sum.sum())
            })
            .collect();
        out.extend(inject::counters(&self.skel));
        out.push(("hooks_attached_later", self.on_demand.attached));
        out.push(("bad_records", self.batch.borrow().bad));
        out
    }

    /// Detaches every program; what is in the ring buffer can still be drained.
    pub fn detach(&mut self) {
        self.links.clear();
        self.on_demand.end();
        self.tls = None;
    }
}

/// The uprobe programs that were loaded.
fn uprobes(skel: &WirespanSkel<'static>, loaded: &[&str]) -> Programs {
    let progs = &skel.progs;
    let fd = |name: &str, program: &libbpf_rs::Program<'_>| {
        loaded.contains(&name).then(|| program.as_fd().as_raw_fd()).filter(|fd| *fd >= 0)
    };
    let tls = || {
        Some(TlsPrograms {
            enter: fd("tls_enter", &progs.tls_enter)?,
            exit: fd("tls_exit", &progs.tls_exit)?,
            go_enter: fd("tls_go_enter", &progs.tls_go_enter)?,
            go_exit: fd("tls_go_exit", &progs.tls_go_exit)?,
        })
    };
    Programs {
        tls: tls(),
        birth: fd("go_birth", &progs.go_birth),
        send: fd("go_send", &progs.go_send),
        recv: fd("go_recv", &progs.go_recv),
    }
}

/// Writes the targets into the maps.
fn choose(skel: &mut WirespanSkel<'static>, targets: &Targets) -> Result<(), CaptureError> {
    let maps = &skel.maps;
    for pid in targets.pids.iter().flat_map(|p| descendants(*p)) {
        maps.target_pids.update(&pid.to_ne_bytes(), &[1], MapFlags::ANY).map_err(bpf("adding a target process"))?;
    }
    for inode in &targets.netns {
        maps.target_netns
            .update(&inode.to_ne_bytes(), &[1], MapFlags::ANY)
            .map_err(bpf("adding a target namespace"))?;
    }
    for (i, path) in (0u32..).zip(&targets.cgroups) {
        let dir = std::fs::File::open(path).map_err(|e| {
            CaptureError::Config(format!("cgroup {}: {e}; give a directory of the cgroup2 file system", path.display()))
        })?;
        maps.target_cgroups.update(&i.to_ne_bytes(), &dir.as_raw_fd().to_ne_bytes(), MapFlags::ANY).map_err(|e| {
            CaptureError::Config(format!(
                "cgroup {}: {e}; it must be a directory of a cgroup2 file system",
                path.display()
            ))
        })?;
    }
    Ok(())
}
