//! Clocks of processors: a software event of perf on each runs a kernel program many times a second.

use libbpf_rs::{Link, ProgramMut};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, IntoRawFd as _, OwnedFd};

/// `PERF_TYPE_SOFTWARE`, `PERF_COUNT_SW_CPU_CLOCK` (include/uapi/linux/perf_event.h).
const SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;
/// The bit `exclude_idle`: a processor without work does not ring.
const EXCLUDE_IDLE: u64 = 1 << 7;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_AT_EXEC: u64 = 1 << 3;

/// The first version of `struct perf_event_attr`.
#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    period_ns: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config1: u64,
}

/// Runs the program on each of these processors, so many times a second while that processor has work.
pub(crate) fn attach(program: &ProgramMut<'_>, per_second: u32, online: &str) -> libbpf_rs::Result<Vec<Link>> {
    let mut links = Vec::new();
    let mut refused = None;
    for cpu in ranges(online) {
        match clock_of(cpu, 1_000_000_000 / u64::from(per_second.max(1))) {
            Ok(clock) => {
                links.push(program.attach_perf_event(clock.as_raw_fd())?);
                // The link closes it.
                let _ = clock.into_raw_fd();
            }
            // A processor may go while this runs.
            Err(error) => refused = Some(error),
        }
    }
    match (links.is_empty(), refused) {
        (true, Some(error)) => Err(libbpf_rs::Error::from(error)),
        _ => Ok(links),
    }
}

fn clock_of(cpu: u32, period_ns: u64) -> io::Result<OwnedFd> {
    let size = size_of::<Attr>() as u32;
    let attr = Attr { kind: SOFTWARE, size, config: CPU_CLOCK, period_ns, flags: EXCLUDE_IDLE, ..Attr::default() };
    let (every_process, no_group) = (-1, -1);
    // SAFETY: the kernel reads `size` bytes of the struct, which live until the call returns.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &attr, every_process, cpu, no_group, CLOSE_AT_EXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given this descriptor to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The processors that run at present, as the kernel writes them (`0-3,5`).
pub(crate) fn online() -> String {
    std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default().trim().to_owned()
}

/// `0-3,5` as numbers.
fn ranges(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_listed_as_ranges() {
        assert_eq!(ranges("0-3,5,8-9"), [0, 1, 2, 3, 5, 8, 9]);
        assert_eq!(ranges("0"), [0]);
        assert_eq!(ranges(""), [0; 0]);
        assert!(!ranges(&online()).is_empty());
    }
}
