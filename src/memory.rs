//! How this process uses memory: sparingly, because it runs beside the programs that it traces; and how much, with its
//! part in the kernel, which no tool counts as the process's.

use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};
use std::collections::HashMap;
use std::sync::OnceLock;
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

/// Memory of the process itself. The rings that it reads are mapped; they are tables of the kernel, and count there.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    (number(&status, "VmRSS:").unwrap_or(0).saturating_sub(mapped_tables(&maps))) * 1024
}

/// KiB of kernel tables among the mappings of a process, as `/proc/PID/smaps` has them.
fn mapped_tables(smaps: &str) -> u64 {
    let mut is_table = false;
    let mut sum = 0;
    for line in smaps.lines() {
        if line.contains('-') && !line.contains("kB") {
            is_table = line.ends_with("anon_inode:bpf-map");
        } else if is_table {
            sum += number(line, "Rss:").unwrap_or(0);
        }
    }
    sum
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

    #[test]
    fn a_mapped_ring_counts_once() {
        let smaps = "7f00-7f10 r--s 00001000 00:0e 1054 anon_inode:bpf-map\nSize: 8200 kB\nRss:  8196 kB\n\
                     VmFlags: rd sh mr\n7f20-7f30 r-xp 0 fe:00 7 /usr/bin/bpf-map-tool\nRss: 100 kB\n";
        assert_eq!(mapped_tables(smaps), 8196);
    }

    #[test]
    fn this_process_is_resident() {
        assert!(taken().resident > 1 << 20);
    }
}
