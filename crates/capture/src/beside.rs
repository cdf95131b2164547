//! Loads the programs that take longest to verify beside the others, each in a thread of its own.

use crate::prepared::{owned, Prepared};
use libbpf_rs::libbpf_sys::bpf_raw_tracepoint_open;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

/// Loads programs while something else is done.
pub(crate) fn load<T>(programs: &[Prepared], meanwhile: impl FnOnce() -> T) -> (T, io::Result<Vec<OwnedFd>>) {
    std::thread::scope(|scope| {
        let thread = || std::thread::Builder::new().name("verify".into());
        let threads: Vec<_> = programs.iter().map(|one| thread().spawn_scoped(scope, || one.load())).collect();
        let done = meanwhile();
        let end = |thread: io::Result<std::thread::ScopedJoinHandle<'_, _>>| {
            thread?.join().unwrap_or_else(|_| Err(io::Error::other("a thread has panicked")))
        };
        (done, threads.into_iter().map(end).collect())
    })
}

/// Attaches a program to its tracepoint, until what is returned is dropped.
pub(crate) fn attach(program: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: the program names its tracepoint itself.
    owned(unsafe { bpf_raw_tracepoint_open(std::ptr::null(), program.as_raw_fd()) })
}
