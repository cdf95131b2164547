//! Attaches rarely needed programs only when the first target needs them. The reason is cost: a hook slows every call
//! on every socket of the machine, even if its program has nothing to do. The kernel programs set a bit in
//! `hooks_wanted` when they meet a need.
//!
//! The call that shows the need comes before the program is attached. Its records are then less exact:
//!
//! | first use | what its records show |
//! |---|---|
//! | a long send | it seems to begin when its last packet left |
//! | splice() out of a socket | a gap in the sequence numbers |
//! | a process that takes messages from a queue and has children | what they read from pipes is not followed |
//! | an io_uring, in its first 20 ms or so | bytes that cannot be read |

use crate::beside;
use crate::features::{Program, PERF_EVENT};
use crate::object::WirespanSkel;
use crate::perf;
use crate::prepared::Prepared;
use crate::privilege;
use crate::refused::Refused;
use crate::targets::Targets;
use crate::wire::contract::{
    WS_HOOK_CALLS, WS_HOOK_IO_URING, WS_HOOK_PIPES, WS_HOOK_SENDS, WS_HOOK_SPLICE, WS_HOOK_WAITS, WS_SAMPLES_PER_SECOND,
};
use crate::Options;
use libbpf_rs::skel::Skel as _;
use libbpf_rs::{Link, ProgramType};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::{channel, Receiver};
use std::time::{Duration, Instant};

/// The program of the clocks of the processors, of which each has a link.
const SAMPLES: &str = "cpu_sample";
/// How often it is looked whether a processor has come or gone.
const LOOK_EVERY: Duration = Duration::from_secs(1);

const PROGRAMS: [(&str, u32); 10] = [
    ("tcp_sendmsg_locked", WS_HOOK_SENDS),
    ("skb_copy_datagram_iovec", WS_HOOK_IO_URING),
    ("tcp_rcv_space_adjust", WS_HOOK_SPLICE),
    ("pipe_read", WS_HOOK_PIPES),
    ("wait_switch", WS_HOOK_WAITS),
    ("wait_waking", WS_HOOK_WAITS),
    ("wait_fork", WS_HOOK_WAITS),
    (SAMPLES, WS_HOOK_WAITS),
    ("call_enter", WS_HOOK_CALLS),
    ("call_exit", WS_HOOK_CALLS),
];

/// Whether the program is attached only when a target needs it.
pub(crate) fn waits(program: &str) -> bool {
    PROGRAMS.iter().any(|(name, _)| *name == program)
}

/// Whether the program may even be loaded after the start: few need it, and the kernel verifies it for long.
pub(crate) fn may_be_late(program: &Program, options: &Options) -> bool {
    let waits = if options.waits.is_none() { WS_HOOK_WAITS } else { 0 };
    let hook = PROGRAMS.iter().find(|(name, _)| *name == program.name).map_or(0, |(_, hook)| *hook);
    let is_late = hook & (WS_HOOK_SPLICE | waits) != 0 && program.tracepoint != PERF_EVENT;
    is_late && !options.programs_from_start && !options.hooks_from_start
}

/// The programs that are not attached yet, and those that are attached for a time.
#[derive(Default)]
pub(crate) struct OnDemand {
    waiting: Vec<(&'static str, u32)>,
    /// Hooks that users ask for, for a time.
    wanted: u32,
    /// The programs that are attached for them.
    for_a_time: Vec<(&'static str, u32, Link)>,
    late: Late,
    /// Late programs that are attached.
    late_attached: Vec<(&'static str, u32, OwnedFd)>,
    /// The processors that have a clock, and when it was last looked whether they are others.
    online: String,
    looked: Option<Instant>,
    /// Number of programs attached since the start.
    pub(crate) attached: u64,
}

impl OnDemand {
    /// Keeps those programs that were loaded. A program is wanted at once if a target needs it already, or if no kernel
    /// program could report the need.
    pub(crate) fn new(
        loaded: &[&str],
        skel: &mut WirespanSkel<'static>,
        targets: &Targets,
        late: Vec<Prepared>,
        refused: Refused,
    ) -> io::Result<Self> {
        let waiting = PROGRAMS.into_iter().filter(|(name, _)| loaded.contains(name)).collect();
        if !loaded.contains(&"io_uring_create") || targets.all {
            want(skel, WS_HOOK_SENDS | WS_HOOK_IO_URING);
        }
        look_for_rings(skel, &targets.processes());
        Ok(OnDemand { waiting, late: Late::load(late, refused)?, ..OnDemand::default() })
    }

    /// Detaches the programs of waits and of system calls, and attaches nothing from now on.
    pub(crate) fn end(&mut self) {
        self.for_a_time.clear();
        self.late_attached.retain(|(_, hook, _)| !is_for_a_time(*hook));
        self.waiting.clear();
    }

    /// Attaches the programs of waits with the next look, or detaches them. They hang on each switch of threads of the
    /// machine, so they are attached only while the user asks what slow requests waited for.
    pub(crate) fn want_waits(&mut self, wanted: bool) {
        self.want_for_a_time(WS_HOOK_WAITS, wanted);
    }

    /// The same for the programs of system calls, which hang on each system call of the machine.
    pub(crate) fn want_calls(&mut self, wanted: bool) {
        self.want_for_a_time(WS_HOOK_CALLS, wanted);
    }

    /// A processor that comes has no clock, and the kernel ends that of one that goes: then all are set anew.
    fn look_at_processors(&mut self) {
        let is_due = self.looked.is_none_or(|at| at.elapsed() >= LOOK_EVERY);
        if !is_due || self.for_a_time.iter().all(|(name, ..)| *name != SAMPLES) {
            return;
        }
        self.looked = Some(Instant::now());
        let online = perf::online();
        // If the kernel does not tell, all stays as it is.
        if !online.is_empty() && online != self.online {
            tracing::info!(online, "processors came or went: samples are taken at these from now on");
            self.for_a_time.retain(|(name, ..)| *name != SAMPLES);
            self.waiting.push((SAMPLES, WS_HOOK_WAITS));
        }
    }

    fn want_for_a_time(&mut self, hook: u32, wanted: bool) {
        if wanted {
            self.wanted |= hook;
            return;
        }
        self.wanted &= !hook;
        let mut names: Vec<_> =
            self.for_a_time.extract_if(.., |(_, of, _)| *of == hook).map(|(name, ..)| name).collect();
        names.extend(self.late_attached.extract_if(.., |(_, of, _)| *of == hook).map(|(name, ..)| name));
        // The clock of each processor has a link of its own.
        names.dedup();
        self.waiting.extend(names.into_iter().map(|name| (name, hook)));
    }

    /// Attaches the programs that have become needed.
    pub(crate) fn attach(&mut self, skel: &mut WirespanSkel<'static>, links: &mut Vec<Link>) {
        self.late.take();
        self.look_at_processors();
        let wanted = skel.maps.bss_data.as_ref().map_or(0, |bss| bss.hooks_wanted);
        let wanted = wanted | self.wanted;
        if self.waiting.iter().all(|(_, hook)| wanted & hook == 0) {
            return;
        }
        let late = &self.late;
        let can = |name: &str, hook: &u32| wanted & hook != 0 && !late.is_loading(name);
        let (now, later): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(|(name, hook)| can(name, hook));
        self.waiting = later;
        for (name, hook) in &now {
            let Some(program) = self.late.loaded.get(*name) else { continue };
            match beside::attach(program) {
                Ok(link) => {
                    self.late_attached.push((name, *hook, link));
                    self.attached += 1;
                }
                Err(error) => tracing::warn!(%error, program = *name, "a kernel program was not attached"),
            }
        }
        for program in skel.object_mut().progs_mut() {
            let is = |name: &str| program.autoload() && program.name().to_str() == Some(name);
            let Some((name, hook)) = now.iter().find(|(name, _)| is(name)) else { continue };
            let attached = match program.prog_type() {
                ProgramType::PerfEvent => {
                    self.online = perf::online();
                    perf::attach(&program, WS_SAMPLES_PER_SECOND, &self.online)
                }
                _ => program.attach().map(|link| vec![link]),
            };
            match attached {
                Ok(all) => {
                    if is_for_a_time(*hook) {
                        self.for_a_time.extend(all.into_iter().map(|link| (*name, *hook, link)));
                    } else {
                        links.extend(all);
                    }
                    self.attached += 1;
                }
                Err(error) => tracing::warn!(%error, program = ?program.name(), "a kernel program was not attached"),
            }
        }
    }
}

fn is_for_a_time(hook: u32) -> bool {
    matches!(hook, WS_HOOK_WAITS | WS_HOOK_CALLS)
}

/// Programs that are loaded while the first targets are traced already.
#[derive(Default)]
struct Late {
    /// Those that a thread loads at present.
    loading: Vec<String>,
    done: Option<Receiver<(Prepared, io::Result<OwnedFd>)>>,
    loaded: HashMap<String, OwnedFd>,
    refused: Refused,
}

impl Late {
    fn load(programs: Vec<Prepared>, refused: Refused) -> io::Result<Late> {
        let loading = programs.iter().map(|program| program.name.clone()).collect();
        let (tell, done) = channel();
        std::thread::Builder::new().name("verify".into()).spawn(move || {
            privilege::keep_what_tracing_uses(false);
            for program in programs {
                let loaded = program.load();
                let _ = tell.send((program, loaded)); // fails if tracing has ended
            }
        })?;
        Ok(Late { loading, done: Some(done), loaded: HashMap::new(), refused })
    }

    fn take(&mut self) {
        for (Prepared { name, .. }, loaded) in self.done.iter().flat_map(Receiver::try_iter) {
            self.loading.retain(|of| *of != name);
            match loaded {
                Ok(program) => {
                    self.loaded.insert(name, program);
                }
                Err(error) => self.refused.add(&name, &error),
            }
        }
    }

    fn is_loading(&self, program: &str) -> bool {
        self.loading.iter().any(|name| name == program)
    }
}

fn want(skel: &mut WirespanSkel<'static>, hooks: u32) {
    if let Some(bss) = skel.maps.bss_data.as_mut() {
        bss.hooks_wanted |= hooks;
    }
}

/// Wants the program that times long sends. A context in an option of TCP goes out beside the first byte of a send, so
/// the time of that byte must be known from the first send on.
pub(crate) fn want_sends(skel: &mut WirespanSkel<'static>) {
    want(skel, WS_HOOK_SENDS);
}

/// Wants every program that a target may need, whether needed or not.
pub(crate) fn want_all(skel: &mut WirespanSkel<'static>) {
    want(skel, WS_HOOK_SENDS | WS_HOOK_IO_URING | WS_HOOK_SPLICE | WS_HOOK_PIPES);
}

/// Wants the programs for io_uring if one of these processes has an io_uring already.
pub(crate) fn look_for_rings(skel: &mut WirespanSkel<'static>, pids: &[u32]) {
    let has = |pid: &u32| {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.into_iter().any(|f| std::fs::read_link(f.path()).is_ok_and(|to| to == Path::new("anon_inode:[io_uring]")))
    };
    if pids.iter().any(has) {
        want(skel, WS_HOOK_SENDS | WS_HOOK_IO_URING);
    }
}
