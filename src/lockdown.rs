//! What this process gives up once tracing has begun: capabilities (see [`wirespan_capture::privilege`]) and system
//! calls that it never needs again. A bug in a parser then cannot start a program, change another process's memory, or
//! change the machine.

use anyhow::{anyhow, Result};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
use std::collections::BTreeMap;
use wirespan_capture::privilege;

/// System calls that fail with EPERM from then on.
const FORBIDDEN: &[(&str, i64)] = &[
    ("execve", libc::SYS_execve),
    ("execveat", libc::SYS_execveat),
    ("ptrace", libc::SYS_ptrace),
    ("process_vm_writev", libc::SYS_process_vm_writev),
    ("process_madvise", libc::SYS_process_madvise),
    ("pidfd_getfd", libc::SYS_pidfd_getfd),
    ("init_module", libc::SYS_init_module),
    ("finit_module", libc::SYS_finit_module),
    ("delete_module", libc::SYS_delete_module),
    ("kexec_load", libc::SYS_kexec_load),
    ("reboot", libc::SYS_reboot),
    ("mount", libc::SYS_mount),
    ("umount2", libc::SYS_umount2),
    ("pivot_root", libc::SYS_pivot_root),
    ("swapon", libc::SYS_swapon),
    ("keyctl", libc::SYS_keyctl),
    ("userfaultfd", libc::SYS_userfaultfd),
];

/// Forbids all threads of this process, and all programs that they could start, the system calls above. Call when the
/// command of `run` has begun: a child inherits the filter.
pub(crate) fn close() {
    if let Err(error) = filter().and_then(|f| Ok(seccompiler::apply_filter_all_threads(&f)?)) {
        eprintln!("wirespan: goes on without a filter of system calls: {error:#}");
    }
}

fn filter() -> Result<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|e| anyhow!("{e}"))?;
    let rules: BTreeMap<i64, Vec<_>> = FORBIDDEN.iter().map(|(_, number)| (*number, Vec::new())).collect();
    let forbidden = SeccompAction::Errno(libc::EPERM as u32);
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, forbidden, arch)?.try_into()?)
}

/// Starts something that serves strangers: its threads get no capability except that of reading and writing the files
/// of the store.
pub(crate) fn without_privileges<T: Send>(start: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            privilege::keep_what_serving_uses();
            start()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: &str = "WIRESPAN_TEST_LOCKDOWN";

    /// In a process of its own, because the filter stays.
    #[test]
    fn forbidden_calls_fail() {
        if std::env::var_os(ALONE).is_some() {
            let file = std::fs::File::create("/proc/self/comm");
            assert!(file.is_ok(), "files are opened as before");
            std::process::Command::new("true").status().expect("starts before");
            close();
            let error = std::process::Command::new("true").status().expect_err("no program starts");
            assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
            let thread = std::thread::spawn(|| std::process::Command::new("true").status().map_err(|e| e.kind()));
            assert!(thread.join().expect("threads start").is_err(), "nor in a thread");
            assert_eq!(rustix::thread::no_new_privs(), Ok(true));
            println!("all of it failed");
            return;
        }
        let alone = std::process::Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "lockdown::tests::forbidden_calls_fail", "--nocapture"])
            .env(ALONE, "1")
            .output()
            .expect("runs");
        let text = String::from_utf8_lossy(&alone.stdout);
        assert!(alone.status.success() && text.contains("all of it failed"), "{text}");
    }

    #[test]
    fn every_forbidden_call_has_its_number_once() {
        let numbers: std::collections::BTreeSet<_> = FORBIDDEN.iter().map(|f| f.1).collect();
        assert_eq!(numbers.len(), FORBIDDEN.len());
        for needed in [libc::SYS_bpf, libc::SYS_setns, libc::SYS_kill, libc::SYS_perf_event_open] {
            assert!(!numbers.contains(&needed));
        }
    }
}
