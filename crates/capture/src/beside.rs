//! Loads the programs that take longest to verify beside the others, each in a thread of its own.

use crate::prepared::{owned, Prepared};
use libbpf_rs::libbpf_sys::bpf_raw_tracepoint_open;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::thread::JoinHandle;

/// Programs that are being loaded.
pub(crate) struct Beside(Vec<JoinHandle<io::Result<OwnedFd>>>);

impl Beside {
    /// Begins to load them. The object's other programs can be loaded meanwhile.
    pub(crate) fn begin(programs: Vec<Prepared>) -> io::Result<Beside> {
        let begin = |program: Prepared| std::thread::Builder::new().name("verify".into()).spawn(move || program.load());
        programs.into_iter().map(begin).collect::<io::Result<_>>().map(Beside)
    }

    /// Waits until all are loaded.
    pub(crate) fn end(self) -> io::Result<Vec<OwnedFd>> {
        let ended: Vec<_> = self.0.into_iter().map(JoinHandle::join).collect();
        let all = ended.into_iter().map(|one| one.unwrap_or_else(|_| Err(io::Error::other("a thread has panicked"))));
        all.collect()
    }
}

/// Attaches a program to its tracepoint, until what is returned is dropped.
pub(crate) fn attach(program: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: the program names its tracepoint itself.
    owned(unsafe { bpf_raw_tracepoint_open(std::ptr::null(), program.as_raw_fd()) })
}
