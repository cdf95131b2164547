//! Who ended a wait, and who ran while the thread was ready.

use super::calls::{find, About};
use super::record::{text, Find, AF_UNIX, FIFO, NO_TIMEOUT, TYPE};
#[allow(clippy::wildcard_imports)] // the contract is this file's subject
use crate::wire::contract::*;
use std::time::Duration;
use wirespan_model::wait::{WaitKind, Waker};
use wirespan_model::Text;

/// What ended a wait. An interrupt within a system call of some thread looks as if that thread had done it, so the call
/// must be one that can end such a wait. If nobody was seen, it was no thread of a target: some machines do not run
/// programs while a process of their own runs, or is interrupted.
pub(super) fn waker(pid: u32, w: &Wait, kind: WaitKind) -> Waker {
    let thread = || Waker::Thread {
        pid: w.waker_pid,
        tid: w.waker_tid,
        name: if w.waker_pid == pid { text(&w.comm) } else { Text::default() },
        service: Text::default(),
    };
    let who = u32::from(w.waker);
    let is_unseen = w.woken_ns == 0;
    if is_unseen && w.ran_ns == 0 {
        return Waker::Unknown;
    }
    let own = who == WS_WAKER_TARGET && w.waker_pid == pid;
    let wakes = matches!(who, WS_WAKER_TARGET | WS_WAKER_OTHER) && may_end(kind, w, own);
    let woken_ns = if is_unseen { w.ran_ns } else { w.woken_ns };
    let past = Duration::from_nanos(woken_ns.saturating_sub(w.stopped_ns));
    let is_over = w.timeout_ms != NO_TIMEOUT && past >= Duration::from_millis(u64::from(w.timeout_ms));
    match kind {
        _ if wakes && who == WS_WAKER_TARGET => thread(),
        _ if wakes => Waker::Another,
        WaitKind::Disk | WaitKind::PageFault => Waker::Disk,
        WaitKind::Socket | WaitKind::Epoll if is_over => Waker::Timer,
        WaitKind::Socket if is_unseen && w.family == AF_UNIX => Waker::Unknown,
        WaitKind::Socket | WaitKind::Epoll => Waker::Network,
        // Only a futex and a semaphore are waited for until a time comes. The thread that gave up another lock was in
        // no system call: it had taken the lock of the memory for a page fault.
        WaitKind::Lock if !may_time_out(w) => Waker::Unknown,
        // No thread of the kernel ends a sleep or gives up a lock: the clock has interrupted it.
        WaitKind::Sleep | WaitKind::Lock => Waker::Timer,
        _ if is_unseen => Waker::Unknown,
        // What closed it may have been about to end.
        WaitKind::Pipe if w.file & TYPE == FIFO => Waker::Unknown,
        WaitKind::Pipe if who != WS_WAKER_KERNEL => Waker::Timer,
        _ => Waker::Kernel,
    }
}

/// Whether a wait for a lock may end without the lock.
fn may_time_out(w: &Wait) -> bool {
    find(w.call).is_some_and(|(name, _)| name.starts_with("futex") || name == "semtimedop")
}

/// Whether the waker's system call can have ended the wait.
fn may_end(kind: WaitKind, w: &Wait, own: bool) -> bool {
    let (call, about) = find(w.waker_call).map_or(("", None), |(name, about)| (name, Some(about)));
    let writes = matches!(call, "write" | "writev" | "sendto" | "sendmsg" | "sendmmsg" | "splice" | "sendfile");
    let reads = matches!(call, "read" | "readv" | "recvfrom" | "recvmsg" | "recvmmsg");
    let ends = matches!(call, "exit" | "exit_group" | "close" | "shutdown");
    match kind {
        WaitKind::Lock => call.starts_with("futex") || ends || about == Some(About::Only(WaitKind::Lock)),
        // A thread may hold the lock of a file.
        WaitKind::Disk => own && matches!(about, Some(About::File | About::OnlyFile(WaitKind::Disk))),
        WaitKind::Socket => w.family == AF_UNIX && (writes || reads || ends || call == "connect"),
        WaitKind::Pipe => writes || reads || ends || matches!(call, "dup2" | "dup3" | "execve" | "execveat"),
        WaitKind::Epoll => own && (writes || ends),
        WaitKind::Process => ends || call == "execve",
        WaitKind::Other => true,
        WaitKind::Sleep | WaitKind::PageFault | WaitKind::RunQueue | WaitKind::CpuLimit | WaitKind::Runtime => false,
    }
}

/// What ran while a thread was ready.
pub(super) fn ran(pid: u32, w: &Wait, facts: &mut Find<'_>) -> Waker {
    match w.ran_tid {
        0 => Waker::Unknown,
        WS_RAN_KERNEL => Waker::Kernel,
        WS_RAN_OTHER => Waker::Another,
        tid => {
            let name = if w.ran_pid == pid { (facts.thread)(pid, tid) } else { Text::default() };
            Waker::Thread { pid: w.ran_pid, tid, name, service: Text::default() }
        }
    }
}

/// The name of a thread of a target; empty if it has ended.
pub(super) fn thread_name(pid: u32, tid: u32) -> Text {
    let name = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
    name.trim_end_matches('\n').into()
}
