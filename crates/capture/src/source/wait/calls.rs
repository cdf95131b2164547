//! System calls in which threads wait, by their numbers.

use wirespan_model::wait::WaitKind;

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// This, whatever its arguments are.
    Only(WaitKind),
    /// This; its first argument is a descriptor.
    OnlyFile(WaitKind),
    /// What its first argument, a descriptor, stands for.
    File,
    /// The one file, or an event of one of several.
    Poll,
}

#[cfg(target_arch = "x86_64")]
macro_rules! number {
    ($x86:literal, $arm:literal) => {
        $x86
    };
}
#[cfg(not(target_arch = "x86_64"))]
macro_rules! number {
    ($x86:literal, $arm:literal) => {
        $arm
    };
}

use About::{File, Only, OnlyFile, Poll};
use WaitKind::{Disk, Epoll, Lock, Process, Sleep, Socket};

/// Number, name, and what it is about; -2: the architecture does not have it.
const CALLS: &[(i16, &str, About)] = &[
    (number!(202, 98), "futex", Only(Lock)),
    (number!(449, 449), "futex_waitv", Only(Lock)),
    (number!(455, 455), "futex_wait", Only(Lock)),
    (number!(65, 193), "semop", Only(Lock)),
    (number!(220, 192), "semtimedop", Only(Lock)),
    (number!(73, 32), "flock", OnlyFile(Lock)),
    (number!(72, 25), "fcntl", OnlyFile(Lock)),
    (number!(9, 222), "mmap", Only(Lock)),
    (number!(10, 226), "mprotect", Only(Lock)),
    (number!(11, 215), "munmap", Only(Lock)),
    (number!(12, 214), "brk", Only(Lock)),
    (number!(28, 233), "madvise", Only(Lock)),
    (number!(0, 63), "read", File),
    (number!(1, 64), "write", File),
    (number!(19, 65), "readv", File),
    (number!(20, 66), "writev", File),
    (number!(17, 67), "pread64", File),
    (number!(18, 68), "pwrite64", File),
    (number!(295, 69), "preadv", File),
    (number!(296, 70), "pwritev", File),
    (number!(327, 286), "preadv2", File),
    (number!(328, 287), "pwritev2", File),
    (number!(40, 71), "sendfile", File),
    (number!(275, 76), "splice", File),
    (number!(16, 29), "ioctl", File),
    (number!(3, 57), "close", File),
    (number!(45, 207), "recvfrom", OnlyFile(Socket)),
    (number!(47, 212), "recvmsg", OnlyFile(Socket)),
    (number!(299, 243), "recvmmsg", OnlyFile(Socket)),
    (number!(44, 206), "sendto", OnlyFile(Socket)),
    (number!(46, 211), "sendmsg", OnlyFile(Socket)),
    (number!(307, 269), "sendmmsg", OnlyFile(Socket)),
    (number!(42, 203), "connect", OnlyFile(Socket)),
    (number!(43, 202), "accept", OnlyFile(Socket)),
    (number!(288, 242), "accept4", OnlyFile(Socket)),
    (number!(74, 82), "fsync", OnlyFile(Disk)),
    (number!(75, 83), "fdatasync", OnlyFile(Disk)),
    (number!(277, 84), "sync_file_range", OnlyFile(Disk)),
    (number!(306, 267), "syncfs", OnlyFile(Disk)),
    (number!(162, 81), "sync", Only(Disk)),
    (number!(26, 227), "msync", Only(Disk)),
    (number!(285, 47), "fallocate", OnlyFile(Disk)),
    (number!(77, 46), "ftruncate", OnlyFile(Disk)),
    (number!(217, 61), "getdents64", OnlyFile(Disk)),
    (number!(2, -2), "open", Only(Disk)),
    (number!(257, 56), "openat", Only(Disk)),
    (number!(437, 437), "openat2", Only(Disk)),
    (number!(4, -2), "stat", Only(Disk)),
    (number!(6, -2), "lstat", Only(Disk)),
    (number!(262, 79), "newfstatat", Only(Disk)),
    (number!(332, 291), "statx", Only(Disk)),
    (number!(82, -2), "rename", Only(Disk)),
    (number!(264, 38), "renameat", Only(Disk)),
    (number!(316, 276), "renameat2", Only(Disk)),
    (number!(83, -2), "mkdir", Only(Disk)),
    (number!(258, 34), "mkdirat", Only(Disk)),
    (number!(87, -2), "unlink", Only(Disk)),
    (number!(263, 35), "unlinkat", Only(Disk)),
    (number!(35, 101), "nanosleep", Only(Sleep)),
    (number!(230, 115), "clock_nanosleep", Only(Sleep)),
    (number!(34, -2), "pause", Only(Sleep)),
    (number!(128, 137), "rt_sigtimedwait", Only(Sleep)),
    (number!(130, 133), "rt_sigsuspend", Only(Sleep)),
    (number!(7, -2), "poll", Poll),
    (number!(271, 73), "ppoll", Poll),
    (number!(23, -2), "select", Only(Epoll)),
    (number!(270, 72), "pselect6", Only(Epoll)),
    (number!(232, -2), "epoll_wait", Only(Epoll)),
    (number!(281, 22), "epoll_pwait", Only(Epoll)),
    (number!(441, 441), "epoll_pwait2", Only(Epoll)),
    (number!(426, 426), "io_uring_enter", Only(Epoll)),
    (number!(208, 4), "io_getevents", Only(Disk)),
    (number!(61, 260), "wait4", Only(Process)),
    (number!(247, 95), "waitid", Only(Process)),
    (number!(60, 93), "exit", Only(Process)),
    (number!(231, 94), "exit_group", Only(Process)),
    (number!(48, 210), "shutdown", OnlyFile(Socket)),
    (number!(33, -2), "dup2", File),
    (number!(59, 221), "execve", Only(Process)),
    (number!(58, -2), "vfork", Only(Process)),
    (number!(56, 220), "clone", Only(Process)),
    (number!(435, 435), "clone3", Only(Process)),
];

/// Name of a system call, and what it is about.
pub(super) fn find(number: i16) -> Option<(&'static str, About)> {
    CALLS.iter().find(|(own, ..)| *own == number).map(|(_, name, about)| (*name, *about))
}

#[cfg(test)]
mod tests {
    use super::CALLS;

    #[test]
    fn no_number_and_no_name_stands_twice() {
        for (number, name, _) in CALLS.iter().filter(|(number, ..)| *number >= 0) {
            assert_eq!(CALLS.iter().filter(|c| c.0 == *number || c.1 == *name).count(), 1, "{name}");
        }
    }
}
