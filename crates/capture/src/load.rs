//! Loads the kernel programs: sizes the maps, writes the targets into them, and leaves out programs that the kernel
//! refuses.

use crate::beside;
use crate::clock;
use crate::error::{bpf, clear_log, failed_program, reason, CaptureError};
use crate::features::Program;
use crate::inject::{self, USES_SOCKET_MAP};
use crate::object::{OpenWirespanSkel, WirespanSkel, WirespanSkelBuilder};
use crate::on_demand;
use crate::preemption::Preemption;
use crate::prepared::{self, Prepared};
use crate::refused::Refused;
use crate::source::{Source, SOURCES};
use crate::targets::{descendants, Targets};
use crate::uprobe::{shapes, Programs, Shapes};
use crate::Options;
use libbpf_rs::btf::Btf;
use libbpf_rs::skel::{OpenSkel as _, Skel as _, SkelBuilder as _};
use libbpf_rs::{Link, MapCore as _, MapFlags, OpenObject, ProgramMut};
use std::ffi::OsStr;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;

fn open(
    options: &Options,
    targets: &Targets,
    load: &[&'static Program],
    preemption: Preemption,
) -> Result<OpenWirespanSkel<'static>, CaptureError> {
    // Leaked on purpose: a process loads one object, which lives as long as the process. Freeing its few bytes would
    // need a self-referential struct.
    let storage: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut skel = WirespanSkelBuilder::default().open(storage).map_err(bpf("opening the kernel programs"))?;
    let injects = load.iter().any(|p| p.name == inject::MESSAGES);
    if let Some(rodata) = skel.maps.rodata_data.as_mut() {
        rodata.tick_ns = clock::tick_ns();
        rodata.cgroup_count = targets.cgroups.len() as u32;
        rodata.by_netns = !targets.netns.is_empty();
        rodata.everything = targets.all;
        rodata.inject_salt = [random(), random()];
        rodata.keep_streams = injects;
        rodata.watch_lives = load.iter().any(|p| p.is_uprobe());
        rodata.preemptible = preemption.tracepoints;
        rodata.stack_is_shared = preemption.uprobes_share_a_stack;
    }
    if let Some(bss) = skel.maps.bss_data.as_mut() {
        bss.target_generation = 1;
    }
    for source in SOURCES {
        source.prepare(&mut skel, options, load).map_err(bpf("sizing the tables of a source"))?;
    }
    let processors = libbpf_rs::num_possible_cpus().map_err(bpf("counting the processors"))?;
    skel.maps.scratches.set_max_entries(processors as u32).map_err(bpf("making room for records"))?;
    if injects {
        skel.maps.stream_causes.set_max_entries(inject::STREAMS).map_err(bpf("making room for causes of streams"))?;
    }
    if !load.iter().any(|p| p.name.starts_with(USES_SOCKET_MAP)) {
        // The kernel makes a socket map only for a process that may change networks.
        skel.maps.inject_sockets.set_autocreate(false).map_err(bpf("leaving out a table"))?;
    }
    let left_out: Vec<_> = SOURCES.iter().flat_map(|source| source.left_out(load)).collect();
    let runs = SOURCES.iter().filter(|source| load.iter().any(|p| source.owns(p.name)));
    let run: Vec<_> = runs.flat_map(|source| source.run_by_user_space()).collect();
    for mut program in skel.open_object_mut().progs_mut() {
        let wanted = program.name().to_str().is_some_and(|n| {
            load.iter().any(|p| p.name == n && !left_out.contains(&n)) || run.iter().any(|name| **name == n)
        });
        program.set_autoload(wanted);
    }
    Ok(skel)
}

/// An unpredictable number, from the random keys of the standard library's hasher.
fn random() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    std::hash::RandomState::new().build_hasher().finish()
}

/// The oldest kernel that can load the required programs.
const OLDEST: (u32, u32) = (5, 12);

/// Major and minor number of a release, as `6.1.0-50-cloud-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Names the age of the kernel as the reason if the kernel is too old; else returns the error as it is.
pub(crate) fn blame_age(error: CaptureError) -> CaptureError {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    match version(&release) {
        Some(v) if v < OLDEST => CaptureError::Old { release, source: Box::new(error) },
        _ => error,
    }
}

/// The loaded object, the programs in it, and the programs that the kernel refused, each with the kernel's reason.
pub(crate) struct Loaded {
    pub(crate) skel: WirespanSkel<'static>,
    pub(crate) programs: Vec<&'static Program>,
    pub(crate) refused: Vec<(&'static str, String)>,
    /// The shapes of tables that are made later.
    pub(crate) shapes: Shapes,
    /// Programs that were loaded beside the object.
    pub(crate) beside: Vec<OwnedFd>,
    /// Programs that are loaded after the start.
    pub(crate) late: Vec<Prepared>,
    /// Programs of probes that are loaded when a process needs them.
    pub(crate) of_probes: Vec<Prepared>,
}

/// Loads as many programs as the kernel takes: leaves out each program that it refuses, and tries the rest again.
pub(crate) fn load_survivors(
    options: &Options,
    targets: &Targets,
    wanted: &[&'static Program],
    btf: &Btf<'_>,
) -> Result<Loaded, CaptureError> {
    let mut programs = wanted.to_vec();
    let mut refused = Vec::new();
    let preemption = Preemption::of(btf);
    let mut side_by_side = std::thread::available_parallelism().is_ok_and(|n| n.get() > 1);
    loop {
        clear_log();
        let mut open = open(options, targets, &programs, preemption)?;
        let shapes = shapes(open.open_object_mut()).map_err(bpf("leaving out tables"))?;
        prepared::prepare(&mut open).map_err(bpf("preparing the kernel programs"))?;
        let is = |name: &str, of: &dyn Fn(&Program) -> bool| programs.iter().any(|p| p.name == name && of(p));
        let of_probes = |name: &str| !options.programs_from_start && is(name, &Program::is_uprobe);
        let late = |name: &str| is(name, &|p| on_demand::may_be_late(p, options));
        let beside = if side_by_side { longest(&mut open) } else { Vec::new() };
        let beside = |name: &str| beside.iter().any(|of| of == name);
        let mut take = |which: &dyn Fn(&str) -> bool| prepared::take(&mut open, btf, which);
        let (of_probes, late, beside) = (take(&of_probes), take(&late), take(&beside));
        let error = match beside::load(&beside, || open.load()) {
            (Ok(skel), Ok(beside)) => return Ok(Loaded { skel, programs, refused, shapes, beside, late, of_probes }),
            // One after the other, libbpf says which program the kernel refuses, and why.
            (Ok(_), Err(error)) => {
                tracing::debug!(%error, "programs are loaded one after the other");
                side_by_side = false;
                continue;
            }
            (Err(error), _) => error,
        };
        let failed = failed_program();
        let why = reason();
        let why = if why.is_empty() { error.to_string() } else { why };
        // A program that user space runs serves a whole source: without it, all programs of that source are left out.
        let runs = |source: &&&dyn Source| failed.as_deref().is_some_and(|n| source.run_by_user_space().contains(&n));
        if let Some(source) = SOURCES.iter().find(runs) {
            let lost = programs.extract_if(.., |p| source.owns(p.name));
            refused.extend(lost.map(|p| (p.name, why.clone())));
            continue;
        }
        // libbpf names a program only if the verifier refused it, not if memory or a kind of map is missing.
        let Some(at) = failed.and_then(|name| programs.iter().position(|p| p.name == name)) else {
            return Err(bpf("loading the kernel programs")(error));
        };
        let program = programs.remove(at);
        if program.required {
            return Err(CaptureError::Refused { program: program.name, lost: program.lost, reason: why });
        }
        refused.push((program.name, why));
    }
}

/// Programs that are verified in threads of their own.
const BESIDE: usize = 4;

/// The longest programs of a prepared object, of those that are attached once, with the first ones, to a tracepoint.
fn longest(open: &mut OpenWirespanSkel<'static>) -> Vec<String> {
    let mut all = Vec::new();
    for program in open.open_object_mut().progs_mut() {
        let (Some(name), Some(section)) = (program.name().to_str(), program.section().to_str()) else { continue };
        let is_first = !on_demand::waits(name) && !SOURCES.iter().any(|s| s.attaches_last() && s.owns(name));
        if program.autoload() && is_first && section.starts_with(prepared::TRACEPOINT) {
            all.push((program.insn_cnt(), name.to_string()));
        }
    }
    all.sort_unstable_by(|a, b| b.cmp(a));
    all.into_iter().take(BESIDE).map(|(_, name)| name).collect()
}

/// Files that show where the root of the cgroups is mounted; every process of this machine or container is below it.
const ROOT_CGROUPS: [&str; 2] = ["/sys/fs/cgroup/cgroup.controllers", "/sys/fs/cgroup/unified/cgroup.controllers"];

pub(crate) fn at_root_cgroup(program: &ProgramMut<'_>) -> Result<Link, String> {
    let root = ROOT_CGROUPS.iter().map(Path::new).find(|p| p.exists()).and_then(Path::parent);
    let root = root.ok_or("no cgroup v2 is mounted at /sys/fs/cgroup")?;
    let directory = File::open(root).map_err(|e| format!("{}: {e}", root.display()))?;
    program.attach_cgroup(directory.as_raw_fd()).map_err(|e| format!("attaching to {}: {e}", root.display()))
}

/// The uprobe programs: those that were loaded, and those that are loaded later.
pub(crate) fn uprobes(
    skel: &WirespanSkel<'static>,
    programs: &[&'static Program],
    later: Vec<Prepared>,
    refused: Refused,
) -> Programs {
    let uprobes: Vec<_> = programs.iter().filter(|p| p.is_uprobe()).map(|p| p.name).collect();
    let of = |name: &OsStr| uprobes.iter().copied().find(|uprobe| name.to_str() == Some(*uprobe));
    let later = later.into_iter().filter_map(|one| Some((of(OsStr::new(&one.name))?, one)));
    let loaded = skel.object().progs().filter(|program| program.autoload());
    let loaded = loaded.filter_map(|program| Some((of(program.name())?, program.as_fd().as_raw_fd())));
    Programs::new(loaded, later, refused)
}

/// Writes the targets into the maps.
pub(crate) fn choose(skel: &mut WirespanSkel<'static>, targets: &Targets) -> Result<(), CaptureError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_numbers_first() {
        assert_eq!(version("6.1.0-50-cloud-amd64"), Some((6, 1)));
        assert_eq!(version("5.10.0-46"), Some((5, 10)));
        assert_eq!(version("7.2+deb"), Some((7, 2)));
        assert_eq!((version("next"), version("")), (None, None));
        assert!(version("5.10.1") < Some(OLDEST) && version("5.15.0") > Some(OLDEST));
    }
}
