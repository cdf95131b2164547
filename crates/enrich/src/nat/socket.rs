//! A netlink socket in a network namespace.

use super::message::{answer, question, sequence, Entry, Failure, Tuple};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::netlink;
use rustix::net::{recv, send, socket_with, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Inode of a process's network namespace.
pub(super) fn netns(process: &Path) -> Option<u32> {
    u32::try_from(std::fs::metadata(process.join("ns/net")).ok()?.ino()).ok()
}

pub(super) struct Socket {
    fd: OwnedFd,
    sequence: Cell<u32>,
}

impl Socket {
    /// In the namespace of this thread.
    pub(super) fn here() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::NETFILTER))?;
        Ok(Socket { fd, sequence: Cell::new(0) })
    }

    /// In the namespace of a process, if that is the one meant. `None` if the process is gone or elsewhere now.
    pub(super) fn of(process: &Path, inode: u32) -> Option<io::Result<Self>> {
        let namespace = File::open(process.join("ns/net")).ok()?;
        if u32::try_from(namespace.metadata().ok()?.ino()).ok()? != inode {
            return None;
        }
        // A thread of its own enters, so that this one stays where it is; the socket belongs where it was made.
        let made = std::thread::spawn(move || {
            let kind = Some(rustix::thread::LinkNameSpaceType::Network);
            rustix::thread::move_into_link_name_space(namespace.as_fd(), kind)?;
            Socket::here()
        });
        Some(made.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked"))))
    }

    /// The tracked connection of this packet. The kernel answers within the call that asks.
    pub(super) fn ask(&self, tuple: &Tuple) -> Result<Option<Entry>, Failure> {
        let number = self.sequence.get().wrapping_add(1);
        self.sequence.set(number);
        let refused = |e: rustix::io::Errno| Failure::Refused(e.raw_os_error());
        send(&self.fd, &question(tuple, number), SendFlags::empty()).map_err(refused)?;
        let mut buffer = [0u8; 4096];
        loop {
            let (length, _) = recv(&self.fd, &mut buffer[..], RecvFlags::DONTWAIT).map_err(refused)?;
            let bytes = buffer.get(..length).unwrap_or_default();
            // Of an earlier question that went wrong.
            if sequence(bytes) == Some(number) {
                return answer(bytes);
            }
        }
    }
}
