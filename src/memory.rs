//! How this process uses memory: sparingly, because it runs beside the programs that it traces; and how much, with its
//! part in the kernel, which no tool counts as the process's.

use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};
use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;
use wirespan_view::Memory;

/// Whether huge pages were disabled for this process when it started.
static HUGE_PAGES_WERE_DISABLED: OnceLock<bool> = OnceLock::new();

/// Saves memory in this process from now on. Transparent huge pages are off: they would double its memory, with no
/// measurable gain. Freed memory goes back to the system after 1 ms, not after 10 ms (100 ms for larger pieces), at no
/// measurable cost.
pub(crate) fn sparing() {
    let _ = HUGE_PAGES_WERE_DISABLED.set(transparent_huge_pages_are_disabled().unwrap_or(false));
    let _ = disable_transparent_huge_pages(true);
    give_back_soon();
}

#[allow(unsafe_code)]
fn give_back_soon() {
    use libmimalloc_sys::{mi_option_get, mi_option_set, mi_option_t};
    // `enum mi_option_e` of mimalloc 2.x; the crate does not name these two. Their default is 10: another value was
    // chosen by the user, or belongs to another option because the enum has changed. It is left alone.
    const PURGE_DELAY: mi_option_t = 15;
    const ARENA_PURGE_MULT: mi_option_t = 24;
    for option in [PURGE_DELAY, ARENA_PURGE_MULT] {
        // SAFETY: both functions read or set one number of the allocator; mimalloc allows that at any time.
        unsafe {
            if mi_option_get(option) == 10 {
                mi_option_set(option, 1);
            }
        }
    }
}

/// Starts a program with the setting of huge pages that this process was started with: a child inherits the setting.
pub(crate) fn spared<T>(start: impl FnOnce() -> T) -> T {
    let Some(before) = HUGE_PAGES_WERE_DISABLED.get() else { return start() };
    let _ = disable_transparent_huge_pages(*before);
    let started = start();
    let _ = disable_transparent_huge_pages(true);
    started
}

/// How long after the start all kernel programs are loaded, also those that tracing does not wait for.
pub(crate) const LOADED: Duration = Duration::from_secs(3);

/// Gives back what this thread has freed, and what threads that have ended have.
#[allow(unsafe_code)]
pub(crate) fn give_back() {
    // SAFETY: it may be called at any time.
    unsafe { libmimalloc_sys::mi_collect(true) };
}

/// Gives back what only the start needed: memory of threads that have ended, and parts of the program's own file, such
/// as the programs for the kernel. A page that is needed later comes again from the file.
#[allow(unsafe_code)]
pub(crate) fn started() {
    give_back();
    let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    for part in parts(&smaps).iter().filter(|part| part.is_file() && program.as_os_str() == part.path) {
        // SAFETY: nobody has written to these pages and nobody can, so they are those of the file, which does not
        // change while it runs (ETXTBSY).
        let _ = unsafe { rustix::mm::madvise(part.at as *mut _, part.bytes, rustix::mm::Advice::LinuxDontNeed) };
    }
}

/// A part of the address space, as `/proc/self/smaps` shows it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Mapped<'a> {
    at: usize,
    bytes: usize,
    path: &'a str,
    writable: bool,
    resident: u64,
    /// Bytes that are no longer those of the file.
    changed: u64,
}

impl Mapped<'_> {
    fn is_file(&self) -> bool {
        self.path.starts_with('/') && !self.writable && self.changed == 0
    }
}

fn parts(smaps: &str) -> Vec<Mapped<'_>> {
    let mut parts: Vec<Mapped<'_>> = Vec::new();
    for line in smaps.lines() {
        if let Some(part) = mapped(line) {
            parts.push(part);
        } else if let Some(part) = parts.last_mut() {
            part.resident += number(line, "Rss:").unwrap_or(0) * 1024;
            part.changed += number(line, "Anonymous:").unwrap_or(0) * 1024;
        }
    }
    parts
}

/// The first line of a part: addresses, rights, offset, device, inode, path.
fn mapped(line: &str) -> Option<Mapped<'_>> {
    let (addresses, rest) = line.split_once(' ')?;
    let (from, to) = addresses.split_once('-')?;
    let [from, to] = [from, to].map(|end| usize::from_str_radix(end, 16).ok());
    let (at, end) = (from?, to?);
    let mut words = rest.splitn(5, ' ');
    let writable = words.next()?.contains('w');
    let path = words.nth(3).unwrap_or_default().trim_start();
    Some(Mapped { at, bytes: end.checked_sub(at)?, path, writable, ..Mapped::default() })
}

/// Memory at present; zeros where the kernel does not say.
pub(crate) fn taken() -> Memory {
    let descriptors = std::fs::read_dir("/proc/self/fdinfo").into_iter().flatten().flatten();
    let parts = descriptors.filter_map(|entry| kernel_part(&std::fs::read_to_string(entry.path()).ok()?));
    // Several descriptors may stand for one table.
    let parts: HashMap<Part, u64> = parts.collect();
    let sum = |wanted: fn(&Part) -> bool| parts.iter().filter(|(part, _)| wanted(part)).map(|(_, bytes)| bytes).sum();
    Memory {
        kernel_tables: sum(|part| matches!(part, Part::Table(_))),
        kernel_programs: sum(|part| matches!(part, Part::Program(_))),
        resident: resident(),
    }
}

/// A part of the kernel that belongs to this process, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    Table(u64),
    Program(u64),
}

/// Memory of the process itself. Tables of the kernel that are mapped here (its rings) count as resident, too, and are
/// told with the other tables.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    (number(&status, "VmRSS:").unwrap_or(0) * 1024).saturating_sub(tables_in(&smaps))
}

fn tables_in(smaps: &str) -> u64 {
    parts(smaps).iter().filter(|part| part.path == "anon_inode:bpf-map").map(|part| part.resident).sum()
}

/// What a descriptor stands for, and its bytes. A link names its program, too, but no size.
fn kernel_part(text: &str) -> Option<(Part, u64)> {
    let bytes = number(text, "memlock:")?;
    let table = number(text, "map_id:").map(Part::Table);
    Some((table.or_else(|| number(text, "prog_id:").map(Part::Program))?, bytes))
}

fn number(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_what_a_descriptor_takes() {
        let table = "pos:\t0\nmap_type:\t9\nmax_entries:\t16\nmemlock:\t4096\nmap_id:\t7\nfrozen:\t0\n";
        let program = "prog_type:\t26\nmemlock:\t8192\nprog_id:\t9\nrun_time_ns:\t0\n";
        let link = "link_type:\ttracing\nlink_id:\t3\nprog_id:\t9\n";
        assert_eq!(kernel_part(table), Some((Part::Table(7), 4096)));
        assert_eq!(kernel_part(program), Some((Part::Program(9), 8192)));
        assert_eq!(kernel_part(link), None);
        assert_eq!(kernel_part("pos:\t0\n"), None);
    }

    const SMAPS: &str = "\
561951b60000-561951b70000 r-xp 00834000 fe:00 1234                       /opt/a b/wirespan
Size:                 64 kB
Rss:                  40 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
561951b70000-561951b80000 r--p 00844000 fe:00 1234                       /opt/a b/wirespan
Rss:                  64 kB
Anonymous:            64 kB
7fef8cc82000-7fef8d483000 r--s 00000000 00:0e 1043                       anon_inode:bpf-map
Rss:                8196 kB
Anonymous:             0 kB
32bf6000000-32c36000000 rw-p 00000000 00:00 0 
Rss:                5788 kB
Anonymous:          5788 kB
";

    #[test]
    fn tables_of_the_kernel_count_once_and_only_pages_of_the_file_are_given_back() {
        assert_eq!(tables_in(SMAPS), 8196 * 1024);
        let all = parts(SMAPS);
        assert_eq!(all.len(), 4, "{all:?}");
        assert_eq!((all[0].at, all[0].bytes, all[0].path), (0x5619_51b6_0000, 0x1_0000, "/opt/a b/wirespan"));
        // The second holds addresses that were filled in at the start.
        let given: Vec<bool> = all.iter().map(Mapped::is_file).collect();
        assert_eq!(given, [true, false, false, false]);
    }

    #[test]
    fn this_process_is_resident_and_runs_on_when_it_gave_back() {
        let program = std::fs::read_link("/proc/self/exe").unwrap_or_default().display().to_string();
        let of_file = || -> u64 {
            let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
            parts(&smaps).iter().filter(|p| p.is_file() && p.path == program).map(|p| p.resident).sum()
        };
        // Other tests, which run beside this one, may need more of the file meanwhile.
        let fewer = || {
            let before = of_file();
            started();
            of_file() < before
        };
        assert!((0..20).any(|_| fewer()));
        assert!(taken().resident > 1 << 20);
    }
}
