//! Records of waits → [`ThreadWaits`].

use super::calls::{find, About};
use super::path::FilePath;
use super::who::{ran, waker};
use crate::clock::Clock;
#[allow(clippy::wildcard_imports)] // the contract is this file's subject
use crate::wire::contract::*;
use std::net::{IpAddr, Ipv6Addr};
use wirespan_model::stack::NamedLater;
use wirespan_model::wait::{ThreadWait, ThreadWaits, WaitKind, Waker};
use wirespan_model::{Endpoint, Text};

pub(super) const TYPE: u16 = 0o170_000;
const SOCKET: u16 = 0o140_000;
pub(super) const FIFO: u16 = 0o010_000;
const REGULAR: u16 = 0o100_000;
const BLOCK: u16 = 0o060_000;
const DIRECTORY: u16 = 0o040_000;
pub(super) const NO_TIMEOUT: u16 = 0xffff;
pub(super) const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// A record, and what is needed to follow its waits.
pub(crate) struct Read {
    pub(crate) waits: ThreadWaits,
    /// How many threads lie between the one that answered and this one.
    pub(crate) depth: u8,
    /// Since when the waits are of interest, in the kernel's time.
    pub(crate) since_ns: u64,
    /// When they were sent, in the kernel's time.
    pub(crate) time_ns: u64,
    /// The actor that sent the answer; 0: the thread itself.
    pub(crate) actor: u64,
}

/// Stacks of shorter waits are not named, nor is told who ran for a shorter time.
const SHORTEST_NS: u64 = 50_000;

/// What a record refers to, each of a process.
pub(crate) struct Find<'a> {
    /// The kernel programs see what ends waits.
    pub(crate) sees_wakers: bool,
    /// The path of a file.
    pub(crate) path: &'a mut dyn FnMut(u32, &FilePath<'_>) -> Text,
    /// The name of a thread.
    pub(crate) thread: &'a mut dyn FnMut(u32, u32) -> Text,
    /// The stack with a number.
    pub(crate) stack: &'a mut dyn FnMut(u32, u64) -> Option<NamedLater>,
}

/// Reads a record.
pub(crate) fn read(record: &[u8], clock: &Clock, find: &mut Find<'_>) -> Option<Read> {
    let head = Waits::read(record)?;
    let mut raw: Vec<Wait> = record
        .get(Waits::SIZE..)?
        .chunks_exact(Wait::SIZE)
        .take(head.count as usize)
        .filter_map(Wait::read)
        // A wait that the kernel was writing at that moment may be torn.
        .filter(|w| w.stopped_ns != 0 && w.stopped_ns <= head.time_ns && (w.ran_ns == 0 || w.ran_ns >= w.stopped_ns))
        // An answer brings all that is new: another request of the thread may need what was before this one.
        .filter(|w| head.exchange != 0 || w.ran_ns == 0 || w.ran_ns >= head.since_ns)
        .collect();
    raw.sort_by_key(|w| w.stopped_ns);
    let waits = raw.iter().enumerate().map(|(n, w)| wait(head.pid, w, &raw[n + 1..], clock, find)).collect();
    let waits = ThreadWaits {
        pid: head.pid,
        tid: head.tid,
        thread: text(&head.comm),
        exchange: head.exchange,
        slow: head.slow != 0,
        runs_actors: head.runs_actors != 0,
        waits,
        samples: Vec::new(),
        turns: Vec::new(),
    };
    let Waits { depth, since_ns, time_ns, actor, .. } = head;
    Some(Read { waits, depth, since_ns, time_ns, actor })
}

pub(super) fn text(bytes: &[u8]) -> Text {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    Text::from_utf8_lossy(&bytes[..end])
}

/// `later`: the thread's later waits.
fn wait(pid: u32, w: &Wait, later: &[Wait], clock: &Clock, facts: &mut Find<'_>) -> ThreadWait {
    let (syscall, about) = find(w.call).map_or(("", None), |(name, about)| (name, Some(about)));
    let ready = is_ready(w);
    let woken_ns = if ready { w.stopped_ns } else { w.woken_ns.max(w.stopped_ns) };
    let woken_ns = if !ready && w.woken_ns == 0 { w.ran_ns.max(w.stopped_ns) } else { woken_ns };
    let kind = match about {
        // Half of the time at least: a group may be held back on another processor meanwhile.
        _ if ready && u64::from(w.limited_us) * 2_000 >= w.ran_ns.saturating_sub(w.stopped_ns).max(1) => {
            WaitKind::CpuLimit
        }
        _ if ready => WaitKind::RunQueue,
        None if w.call < 0 => WaitKind::PageFault,
        None => WaitKind::Other,
        Some(about) => kind(about, w),
    };
    let waker = if ready || !facts.sees_wakers { Waker::Unknown } else { waker(pid, w, kind) };
    let kind = if is_timeout(pid, w, later, kind, &waker) { WaitKind::Sleep } else { kind };
    let on_file = !ready && matches!(about, Some(About::File | About::OnlyFile(_) | About::Poll)) && w.fd >= 0;
    let resource = match w.file & TYPE {
        _ if kind == WaitKind::Lock && syscall.starts_with("futex") => format!("{:#x}", w.about).into(),
        SOCKET if on_file => peer(w),
        REGULAR | BLOCK | DIRECTORY if on_file => {
            let name = text(&w.name);
            (facts.path)(pid, &FilePath { fd: w.fd, inode: w.about, name: &name })
        }
        _ => Text::default(),
    };
    let is_long = w.ran_ns == 0 || w.ran_ns - w.stopped_ns >= SHORTEST_NS;
    let ready_ns = w.ran_ns.saturating_sub(woken_ns);
    let ran = if ready_ns >= SHORTEST_NS && kind != WaitKind::CpuLimit { ran(pid, w, facts) } else { Waker::Unknown };
    let stack = if w.stack != 0 && is_long { (facts.stack)(pid, w.stack) } else { None };
    ThreadWait {
        stopped_ns: clock.to_unix(w.stopped_ns),
        woken_ns: clock.to_unix(woken_ns),
        ran_ns: if w.ran_ns == 0 { 0 } else { clock.to_unix(w.ran_ns) },
        kind,
        syscall,
        resource,
        socket: if on_file && w.file & TYPE == SOCKET { w.about } else { 0 },
        waker,
        ran,
        stack,
    }
}

/// Whether it could have gone on all the time. Woken before it had stopped: it was ready, too.
fn is_ready(w: &Wait) -> bool {
    u32::from(w.state) == WS_WAIT_READY || (w.woken_ns != 0 && w.woken_ns <= w.stopped_ns)
}

fn kind(about: About, w: &Wait) -> WaitKind {
    match about {
        About::Only(kind) | About::OnlyFile(kind) => kind,
        About::Poll if w.several == 0 => WaitKind::Sleep,
        About::Poll if w.several > 1 => WaitKind::Epoll,
        About::File | About::Poll => match w.file & TYPE {
            SOCKET => WaitKind::Socket,
            REGULAR | BLOCK | DIRECTORY => WaitKind::Disk,
            _ => WaitKind::Pipe,
        },
    }
}

/// Who waits for a lock until a time that comes has slept. But who waits for the same lock at once again, until a
/// thread wakes it, did wait for the lock: an interpreter's lock is asked for every few milliseconds. Java's sleep may
/// wait twice as its time is not over yet: a time ends the last wait, too.
fn is_timeout(pid: u32, w: &Wait, later: &[Wait], kind: WaitKind, waker: &Waker) -> bool {
    if kind != WaitKind::Lock || *waker != Waker::Timer {
        return false;
    }
    let mut again = later.iter().take_while(|next| next.call == w.call && next.about & !7 == w.about & !7);
    again.all(|next| is_ready(next) || self::waker(pid, next, kind) == Waker::Timer)
}

fn peer(w: &Wait) -> Text {
    let address = || w.name.first_chunk::<16>().map(|a| IpAddr::V6(Ipv6Addr::from(*a)).to_canonical());
    match (w.family, address()) {
        (AF_UNIX, _) => "unix socket".into(),
        (AF_INET | AF_INET6, Some(ip)) if ip.is_unspecified() => format!("port {}", w.port).into(),
        (AF_INET | AF_INET6, Some(ip)) => Endpoint::new(ip, w.port).to_string().into(),
        _ => Text::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(w: Wait) -> ThreadWait {
        read_one(w, true)
    }

    fn read_one(w: Wait, sees_wakers: bool) -> ThreadWait {
        let head = Waits { kind: WS_WAITS as u8, count: 1, pid: 7, tid: 8, time_ns: 1 << 40, ..Waits::default() };
        let record = [&head.to_bytes()[..], &w.to_bytes()].concat();
        let (path, stack) = (&mut |_, file: &FilePath<'_>| format!("/{}", file.name).into(), &mut |_, _| None);
        let thread = &mut |_, tid| format!("t{tid}").into();
        let read = read(&record, &Clock::now(), &mut Find { sees_wakers, path, thread, stack }).expect("it is whole");
        read.waits.waits.into_iter().next().expect("one wait")
    }

    fn waited() -> Wait {
        Wait {
            stopped_ns: 1_000,
            woken_ns: 5_000,
            ran_ns: 6_000,
            state: WS_WAIT_SLEEPS as u8,
            timeout_ms: NO_TIMEOUT,
            ..Wait::default()
        }
    }

    #[test]
    fn a_descriptor_tells_what_was_waited_for() {
        let read = find_number("read");
        let w = |file: u16| one(Wait { call: read, fd: 3, file, ..waited() });
        assert_eq!(w(SOCKET | 0o777).kind, WaitKind::Socket);
        assert_eq!(w(REGULAR | 0o600).kind, WaitKind::Disk);
        assert_eq!(w(0o010_600).kind, WaitKind::Pipe);
        let mut name = [0; WS_WAIT_NAME as usize];
        name[..3].copy_from_slice(b"log");
        let fsync = one(Wait { call: find_number("fsync"), fd: 3, file: REGULAR, name, ..waited() });
        assert_eq!((fsync.kind, &*fsync.resource, fsync.syscall), (WaitKind::Disk, "/log", "fsync"));
        let times = (fsync.woken_ns - fsync.stopped_ns, fsync.ran_ns - fsync.stopped_ns);
        assert_eq!(times, (4_000, 5_000));
    }

    #[test]
    fn a_thread_that_was_ready_waited_for_a_processor_or_for_its_limit() {
        let w = Wait { state: WS_WAIT_READY as u8, call: -1, woken_ns: 0, ..waited() };
        let queued = one(w);
        assert_eq!((queued.kind, queued.woken_ns), (WaitKind::RunQueue, queued.stopped_ns));
        assert_eq!(one(Wait { limited_us: 3, ..w }).kind, WaitKind::CpuLimit);
        let (call, waker) = (find_number("futex"), WS_WAKER_INTERRUPT as u8);
        let early = one(Wait { call, waker, woken_ns: w.stopped_ns, ..waited() });
        assert_eq!((early.kind, early.waker), (WaitKind::RunQueue, Waker::Unknown));
        assert_eq!(one(Wait { state: WS_WAIT_UNINTERRUPTIBLE as u8, ..w }).kind, WaitKind::PageFault);
    }

    #[test]
    fn what_ran_while_a_thread_was_ready_is_named_if_it_is_a_target() {
        const MS: u64 = 1_000_000;
        let w = Wait { state: WS_WAIT_READY as u8, call: -1, woken_ns: 0, ran_ns: MS, ..waited() };
        let of = |ran_pid, ran_tid| one(Wait { ran_pid, ran_tid, ..w }).ran;
        let thread = |pid, tid, name: &str| Waker::Thread { pid, tid, name: name.into(), service: Text::default() };
        assert_eq!((of(7, 9), of(99, 9)), (thread(7, 9, "t9"), thread(99, 9, "")));
        assert_eq!(
            [of(0, WS_RAN_OTHER), of(0, WS_RAN_KERNEL), of(0, 0)],
            [Waker::Another, Waker::Kernel, Waker::Unknown]
        );
        assert_eq!(one(Wait { ran_tid: 9, limited_us: 1_000, ..w }).ran, Waker::Unknown, "its limit held it back");
        assert_eq!(one(Wait { ran_tid: 9, ran_ns: 2_000, ..w }).ran, Waker::Unknown, "not worth a look-up");
        let slept = Wait { woken_ns: 2_000, ran_ns: MS, call: find_number("futex"), ..waited() };
        assert_eq!(one(Wait { ran_pid: 7, ran_tid: 9, ..slept }).ran, thread(7, 9, "t9"));
    }

    #[test]
    fn a_lock_that_is_not_asked_for_again_was_a_sleep() {
        let w = Wait { call: find_number("futex"), waker: WS_WAKER_INTERRUPT as u8, about: 64, ..waited() };
        assert_eq!(one(w).kind, WaitKind::Sleep);
        let waker_call = find_number("futex");
        let woken = Wait { waker: WS_WAKER_TARGET as u8, waker_pid: 7, waker_tid: 9, waker_call, ..w };
        let later = |w: Wait| Wait { stopped_ns: 7_000, woken_ns: 7_500, ran_ns: 8_000, about: 68, ..w };
        let slept = |later: &[Wait]| is_timeout(7, &w, later, WaitKind::Lock, &Waker::Timer);
        assert!(slept(&[later(w)]) && slept(&[later(w), Wait { about: 128, ..later(woken) }]));
        assert!(!slept(&[later(woken)]) && !slept(&[later(w), later(woken)]));
        // It still waits.
        assert!(!slept(&[Wait { woken_ns: 0, ran_ns: 0, ..later(w) }]));
        assert_eq!((one(woken).kind, &*one(woken).resource), (WaitKind::Lock, "0x40"));
    }

    #[test]
    fn a_lock_of_the_kernel_is_no_sleep() {
        let w = Wait { waker: WS_WAKER_INTERRUPT as u8, ..waited() };
        let of = |name: &str| one(Wait { call: find_number(name), ..w });
        assert_eq!((of("mprotect").kind, of("mprotect").waker), (WaitKind::Lock, Waker::Unknown));
        assert_eq!((of("futex").kind, of("futex").waker), (WaitKind::Sleep, Waker::Timer));
    }

    #[test]
    fn a_thread_of_another_process_has_no_name_here() {
        let mut comm = [0; 16];
        comm[0] = b'x';
        let call = find_number("futex");
        let w = Wait { call, waker_call: call, waker: WS_WAKER_TARGET as u8, ..waited() };
        let w = Wait { waker_pid: 99, waker_tid: 9, comm, ..w };
        assert!(matches!(one(w).waker, Waker::Thread { pid: 99, name, .. } if name.is_empty()));
    }

    #[test]
    fn an_interrupt_in_the_call_of_another_thread_is_not_that_thread() {
        // Number 39 is no call that ends a wait.
        let w = Wait { waker: WS_WAKER_TARGET as u8, waker_pid: 7, waker_tid: 9, waker_call: 39, ..waited() };
        let of = |name: &str, file: u16, w: Wait| one(Wait { call: find_number(name), fd: 3, file, ..w }).waker;
        assert_eq!(of("futex", 0, w), Waker::Timer);
        let in_kernel = Wait { waker: WS_WAKER_KERNEL as u8, ..waited() };
        assert_eq!(of("clock_nanosleep", 0, in_kernel), Waker::Timer);
        assert_eq!(of("read", 0o600, in_kernel), Waker::Kernel);
        assert_eq!(of("fsync", REGULAR, w), Waker::Disk);
        // The number of the process is that of an earlier waker.
        let other = Wait { waker: WS_WAKER_OTHER as u8, waker_call: find_number("write"), ..w };
        assert_eq!(of("fsync", REGULAR, other), Waker::Disk);
        assert_eq!(of("recvfrom", SOCKET, w), Waker::Network);
        assert_eq!(of("epoll_pwait", 0, w), Waker::Network);
        assert_eq!(of("epoll_pwait", 0, Wait { timeout_ms: 0, ..w }), Waker::Timer);
        let writes = Wait { waker_call: find_number("write"), ..w };
        assert!(matches!(of("read", FIFO | 0o600, writes), Waker::Thread { tid: 9, .. }));
        let runs = Wait { waker_call: find_number("execve"), ..w };
        assert!(matches!(of("read", FIFO | 0o600, runs), Waker::Thread { tid: 9, .. }));
        assert_eq!(of("read", FIFO | 0o600, w), Waker::Unknown);
        assert_eq!(of("recvfrom", SOCKET, writes), Waker::Network);
    }

    #[test]
    fn an_end_that_nobody_was_seen_to_make_is_none_of_a_thread_of_a_target() {
        let of = |name: &str, file: u16| {
            let w = one(Wait { call: find_number(name), fd: 3, file, woken_ns: 0, ..waited() });
            (w.kind, w.waker, w.woken_ns - w.stopped_ns)
        };
        assert_eq!(of("clock_nanosleep", 0), (WaitKind::Sleep, Waker::Timer, 5_000));
        assert_eq!(of("futex", 0), (WaitKind::Sleep, Waker::Timer, 5_000));
        assert_eq!(of("fsync", REGULAR), (WaitKind::Disk, Waker::Disk, 5_000));
        assert_eq!(of("recvfrom", SOCKET), (WaitKind::Socket, Waker::Network, 5_000));
        assert_eq!(of("read", FIFO | 0o600), (WaitKind::Pipe, Waker::Unknown, 5_000));
        let lasts = Wait { call: find_number("futex"), woken_ns: 0, ran_ns: 0, ..waited() };
        assert_eq!((one(lasts).kind, one(lasts).waker), (WaitKind::Lock, Waker::Unknown));
        let blind = read_one(Wait { call: find_number("futex"), woken_ns: 0, ..waited() }, false);
        assert_eq!((blind.kind, blind.waker), (WaitKind::Lock, Waker::Unknown));
    }

    #[test]
    fn empty_and_torn_waits_are_left_out_and_short_records_refused() {
        let head = Waits { kind: WS_WAITS as u8, count: 3, time_ns: 10_000, ..Waits::default() };
        let torn = Wait { ran_ns: 500, ..waited() };
        let record = [&head.to_bytes()[..], &Wait::default().to_bytes(), &torn.to_bytes(), &waited().to_bytes()];
        let record = record.concat();
        let (path, stack) = (&mut |_, _: &FilePath<'_>| Text::default(), &mut |_, _| None);
        let mut find = Find { sees_wakers: true, path, thread: &mut crate::source::wait::who::thread_name, stack };
        assert_eq!(read(&record, &Clock::now(), &mut find).expect("whole").waits.waits.len(), 1);
        assert!(read(&record[..20], &Clock::now(), &mut find).is_none());
    }

    fn find_number(name: &str) -> i16 {
        (0..500).find(|n| find(*n).is_some_and(|(own, _)| own == name)).expect("a known call")
    }
}
