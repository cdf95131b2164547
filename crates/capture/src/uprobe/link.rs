//! One `uprobe_multi` link: many places of one file, one process, one program.

use super::plan::Probe;
use libbpf_rs::libbpf_sys::{bpf_link_create, bpf_link_create_opts, BPF_F_UPROBE_MULTI_RETURN, BPF_TRACE_UPROBE_MULTI};
use std::ffi::CString;
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

/// `errno` of a process that does not exist.
const ESRCH: i32 = 3;

/// Whether attaching failed because there is no such process.
pub(super) fn is_no_process(error: &io::Error) -> bool {
    error.raw_os_error() == Some(ESRCH)
}

/// Attaches a program (Linux 6.6). Closing the descriptor detaches it. `pid` 0 means every process that maps the file;
/// else only that process gets breakpoints, also in what it maps later.
pub(super) fn attach(
    program: RawFd,
    path: &CString,
    probes: &[Probe],
    at_return: bool,
    pid: u32,
) -> io::Result<OwnedFd> {
    let offsets: Vec<std::os::raw::c_ulong> = probes.iter().map(|p| p.offset).collect();
    let cookies: Vec<u64> = probes.iter().map(|p| p.cookie.into()).collect();
    let mut opts = bpf_link_create_opts { sz: size_of::<bpf_link_create_opts>() as _, ..Default::default() };
    opts.__bindgen_anon_1.uprobe_multi.path = path.as_ptr();
    opts.__bindgen_anon_1.uprobe_multi.offsets = offsets.as_ptr();
    opts.__bindgen_anon_1.uprobe_multi.cookies = cookies.as_ptr();
    opts.__bindgen_anon_1.uprobe_multi.cnt = probes.len() as u32;
    opts.__bindgen_anon_1.uprobe_multi.flags = if at_return { BPF_F_UPROBE_MULTI_RETURN } else { 0 };
    opts.__bindgen_anon_1.uprobe_multi.pid = pid;
    // SAFETY: `opts` is a plain structure whose pointers refer to `path`, `offsets` and `cookies`, which outlive the
    // call, and to as many entries as `cnt` says; the kernel copies what it needs. A descriptor that it returns is ours
    // alone.
    unsafe {
        let fd = bpf_link_create(program, 0, BPF_TRACE_UPROBE_MULTI, &opts);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}
