//! The start in two stages, so that messages are seen soon.
//!
//! The programs that look into runtimes are four fifths of what the kernel must verify. The first stage loads what
//! shows messages, connections, flows and TLS. Its programs of messages know no runtime (`with_runtimes`): the verifier
//! passes over the code of runtimes, which no process can reach. The second stage loads the rest behind it, in threads,
//! while messages are seen already: the whole programs of messages, and those that hang on functions of runtimes.
//!
//! Files of runtimes are probed, and facts about their processes told, once the second stage is there. The whole
//! programs of messages take the place of the plain ones at once, by a jump in `bpf/core/stage.h`.
//!
//! It pays only where the kernel verifies a global function when it is called (Linux 6.8), not always. Injection needs
//! all programs for its self-test. Elsewhere there is one stage.

use crate::error::{clear_log, failed_program, reason};
use crate::features::{MessageRung, Program};
use crate::inject::Propagate;
use crate::object::{types, WirespanSkel, WirespanSkelBuilder};
use crate::runtime::RUNTIMES;
use crate::Options;
use libbpf_rs::btf::types::{Composite, Struct};
use libbpf_rs::btf::Btf;
use libbpf_rs::skel::{OpenSkel as _, Skel as _, SkelBuilder as _};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, OpenObject};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::thread::JoinHandle;

/// Programs of which a plain variant is attached first.
const STAGED: [&str; 5] =
    ["sock_send_length", "sock_recv_length", "inet_sock_set_state", "sched_waking", "sched_process_fork"];
/// Programs of the second stage that belong to no runtime.
const LATER: [&str; 3] = ["tcp_rcv_space_adjust", "tls_go_enter", "tls_go_exit"];
/// The program that is attached in the place of a staged one, and the table in which it finds the variant.
const STAGE: &str = "_stage";
const TABLE: &str = "_now";
/// Part of the names of maps of constants. They are not shared: in one of them stands what the variants differ by.
const CONSTANTS: &str = ".rodata";

/// Off: a JVM's first seconds were without causes (java-reactor with one user: 0 of 60 traces right).
const ALLOWED: bool = false;

/// Whether there are two stages: the kernel verifies global functions when they are called.
pub(crate) fn are_two(btf: &Btf<'_>, rung: MessageRung, options: &Options) -> bool {
    let is_lazy = btf
        .type_by_name::<Struct<'_>>("bpf_func_info_aux")
        .is_some_and(|aux| Composite::from(aux).iter().any(|m| m.name == Some("called".as_ref())));
    let injects = options.propagate != Propagate::Off || options.propagate_options;
    ALLOWED
        && is_lazy
        && rung == MessageRung::SocketTracepoints
        && options.messages
        && !injects
        && !options.hooks_from_start
}

/// Whether this program is loaded in the second stage only.
pub(crate) fn is_later(program: &str) -> bool {
    LATER.contains(&program) || RUNTIMES.iter().flat_map(|runtime| runtime.programs()).any(|p| p.name == program)
}

/// Whether the second stage loads this program, for the first time or whole.
pub(crate) fn is_second(program: &str) -> bool {
    is_staged(program) || is_later(program)
}

/// Whether this program is reached by a jump if there are two stages, and attached if not.
pub(crate) fn is_staged(program: &str) -> bool {
    STAGED.contains(&program)
}

/// The program behind the jump that this one makes.
pub(crate) fn jumps_to(program: &str) -> Option<&str> {
    program.strip_suffix(STAGE).filter(|name| is_staged(name))
}

/// Lets every jump lead to the plain variants.
pub(crate) fn begin(skel: &WirespanSkel<'static>) -> libbpf_rs::Result<()> {
    for program in skel.object().progs() {
        let name = program.name().to_string_lossy();
        if is_staged(&name) && program.autoload() {
            lead(skel, &name, program.as_fd().as_raw_fd())?;
        }
    }
    Ok(())
}

fn lead(skel: &WirespanSkel<'static>, name: &str, to: i32) -> libbpf_rs::Result<()> {
    let table = skel.object().maps().find(|map| map.name().to_str() == Some(&format!("{name}{TABLE}")));
    table.map_or(Ok(()), |table| table.update(&0u32.to_ne_bytes(), &to.to_ne_bytes(), MapFlags::ANY))
}

/// A program of the second stage.
pub(crate) struct Added {
    pub(crate) program: &'static Program,
    pub(crate) fd: OwnedFd,
}

/// What the second stage has brought.
#[derive(Default)]
pub(crate) struct Second {
    pub(crate) added: Vec<Added>,
    /// Programs that the kernel refused, each with its reason.
    pub(crate) refused: Vec<(&'static str, String)>,
}

impl Second {
    /// Lets the jumps lead to the whole programs.
    pub(crate) fn take_place(&self, skel: &WirespanSkel<'static>) -> libbpf_rs::Result<()> {
        let staged = self.added.iter().filter(|added| is_staged(added.program.name));
        staged.into_iter().try_for_each(|added| lead(skel, added.program.name, added.fd.as_raw_fd()))
    }
}

/// The second stage under way.
pub(crate) struct Loading(Vec<JoinHandle<Second>>);

impl Loading {
    /// Starts loading these programs: whole variants of what `first` has, and what it has left. They share its maps.
    pub(crate) fn start(
        first: &WirespanSkel<'static>,
        constants: types::rodata,
        programs: &[&'static Program],
    ) -> libbpf_rs::Result<Self> {
        // The programs of messages take the kernel about as long as all others.
        let (of_messages, others): (Vec<_>, Vec<_>) =
            programs.iter().copied().partition(|p| ["sock_send_length", "inet_sock_set_state"].contains(&p.name));
        let mut threads = Vec::new();
        for part in [of_messages, others] {
            let maps = maps(first)?;
            let load = move || load(&maps, constants, part);
            threads.push(std::thread::Builder::new().name("load".into()).spawn(load)?);
        }
        Ok(Loading(threads))
    }

    pub(crate) fn is_done(&self) -> bool {
        self.0.iter().all(JoinHandle::is_finished)
    }

    /// Waits for the end.
    pub(crate) fn finish(self) -> Second {
        let mut all = Second::default();
        for part in self.0.into_iter().filter_map(|thread| thread.join().ok()) {
            all.added.extend(part.added);
            all.refused.extend(part.refused);
        }
        all
    }
}

type Maps = Vec<(String, MapHandle)>;

/// The maps of the first stage that were made, except those of constants.
fn maps(first: &WirespanSkel<'static>) -> libbpf_rs::Result<Maps> {
    // The descriptor of a map that was not made is no map.
    let made = first.object().maps().filter(|map| map.autocreate());
    let shared = made.filter(|map| !map.name().to_string_lossy().contains(CONSTANTS));
    shared.map(|map| Ok((map.name().to_string_lossy().into_owned(), MapHandle::try_from(&map)?))).collect()
}

/// Loads as many of these programs as the kernel takes.
fn load(maps: &Maps, constants: types::rodata, mut programs: Vec<&'static Program>) -> Second {
    let mut refused = Vec::new();
    while !programs.is_empty() {
        clear_log();
        let error = match load_all(maps, constants, &programs) {
            Ok(added) => return Second { added, refused },
            Err(error) => error,
        };
        let (failed, why) = (failed_program(), reason());
        let why = if why.is_empty() { error.to_string() } else { why };
        match failed.and_then(|name| programs.iter().position(|p| p.name == name)) {
            Some(at) => refused.push((programs.remove(at).name, why)),
            // Not a single program failed, but all of them.
            None => refused.extend(programs.drain(..).map(|p| (p.name, why.clone()))),
        }
    }
    Second { added: Vec::new(), refused }
}

fn load_all(maps: &Maps, constants: types::rodata, programs: &[&'static Program]) -> libbpf_rs::Result<Vec<Added>> {
    let mut storage: MaybeUninit<OpenObject> = MaybeUninit::uninit();
    let mut skel = WirespanSkelBuilder::default().open(&mut storage)?;
    if let Some(rodata) = skel.maps.rodata_data.as_mut() {
        **rodata = constants;
        rodata.with_runtimes = u32::MAX;
    }
    for mut map in skel.open_object_mut().maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        match maps.iter().find(|(shared, _)| *shared == name) {
            Some((_, shared)) => map.reuse_fd(shared.as_fd())?,
            None if name.contains(CONSTANTS) => {}
            None => map.set_autocreate(false)?,
        }
    }
    for mut program in skel.open_object_mut().progs_mut() {
        let wanted = program.name().to_str().is_some_and(|name| programs.iter().any(|p| p.name == name));
        program.set_autoload(wanted);
    }
    let skel = skel.load()?;
    let mut added = Vec::new();
    for program in skel.object().progs() {
        if let Some(of) = programs.iter().find(|p| program.name().to_str() == Some(p.name)) {
            added.push(Added { program: of, fd: program.as_fd().try_clone_to_owned()? });
        }
    }
    Ok(added)
}
