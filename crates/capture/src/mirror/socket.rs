//! The packet socket and its ring. rustix knows neither the addresses of packet sockets nor their options.

use super::block::{frames, Frame, STATUS_AT};
use super::{Begins, Link};
use crate::ring::Mapping;
use libc::{c_int, sock_filter};
use rustix::event::{poll, PollFd, PollFlags};
use rustix::mm::ProtFlags;
use rustix::net::netdevice::index_to_name;
use rustix::net::sockopt::socket_error;
use rustix::time::Timespec;
use std::ffi::c_void;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The ring: 32 blocks of 512 KiB. A frame must fit into one, also where devices join segments to 64 KiB.
const BLOCK: usize = 512 << 10;
const BLOCKS: usize = 32;
/// A block is given to us so long after its first frame, even if it is not full.
const RETIRE_MS: u32 = 20;
/// Kinds of devices (`ARPHRD_…` of linux/if_arp.h).
const ETHERNET: u16 = 1;
const LOOPBACK: u16 = 772;
const NONE: u16 = 65_534;
const RAW_IP: u16 = 519;

pub(super) struct Socket {
    fd: OwnedFd,
    ring: Option<Mapping>,
    next: usize,
}

impl Socket {
    /// A socket that receives nothing yet.
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: the call has no pointers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nobody else's.
        Ok(Socket { fd: unsafe { OwnedFd::from_raw_fd(fd) }, ring: None, next: 0 })
    }

    /// Asks for something about a device.
    fn ask(&self, device: &str, what: libc::Ioctl) -> io::Result<libc::ifreq> {
        // SAFETY: all zeros are a valid `ifreq`.
        let mut request: libc::ifreq = unsafe { zeroed() };
        let room = request.ifr_name.len() - 1;
        request.ifr_name.iter_mut().zip(device.bytes().take(room)).for_each(|(to, b)| *to = b as libc::c_char);
        // SAFETY: the kernel writes into `request`, which outlives the call.
        match unsafe { libc::ioctl(self.fd.as_raw_fd(), what, &mut request) } {
            error if error < 0 => Err(io::Error::last_os_error()),
            _ => Ok(request),
        }
    }

    /// Whether the device with this index is there, and up.
    pub(super) fn link(&self, index: u32) -> Link {
        let Ok(device) = index_to_name(&self.fd, index) else { return Link::Gone };
        let Ok(answer) = self.ask(&device, libc::SIOCGIFFLAGS) else { return Link::Gone };
        // SAFETY: this request fills the flags.
        let flags = unsafe { answer.ifr_ifru.ifru_flags };
        if c_int::from(flags) & libc::IFF_UP == 0 {
            Link::Down
        } else {
            Link::Up
        }
    }

    /// How the frames of a device begin; `None` if that is not known here.
    pub(super) fn begins(&self, device: &str) -> io::Result<Option<Begins>> {
        let answer = self.ask(device, libc::SIOCGIFHWADDR)?;
        // SAFETY: this request fills the address.
        let kind = unsafe { answer.ifr_ifru.ifru_hwaddr.sa_family };
        Ok(match kind {
            ETHERNET | LOOPBACK => Some(Begins::Ethernet),
            NONE | RAW_IP => Some(Begins::Ip),
            _ => None,
        })
    }

    fn set<T>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        let (at, len) = (std::ptr::from_ref(value).cast::<c_void>(), size_of::<T>() as libc::socklen_t);
        // SAFETY: `at` points to `len` bytes that outlive the call.
        match unsafe { libc::setsockopt(self.fd.as_raw_fd(), level, option, at, len) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Chooses frames by a program, which the kernel copies.
    pub(super) fn filter(&self, program: &[sock_filter]) -> io::Result<()> {
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
    }

    /// Maps the ring, and receives the frames of a device, also those that are not for this machine.
    pub(super) fn start(&mut self, index: u32) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V3 as c_int))?;
        let ring = libc::tpacket_req3 {
            tp_block_size: BLOCK as u32,
            tp_block_nr: BLOCKS as u32,
            tp_frame_size: 2048,
            tp_frame_nr: (BLOCK / 2048 * BLOCKS) as u32,
            tp_retire_blk_tov: RETIRE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        self.set(libc::SOL_PACKET, libc::PACKET_RX_RING, &ring)?;
        let both = ProtFlags::READ | ProtFlags::WRITE;
        self.ring = Some(Mapping::new(self.fd.as_fd(), both, 0, BLOCK * BLOCKS)?);
        let every = libc::packet_mreq {
            mr_ifindex: index as c_int,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &every)?;
        // SAFETY: all zeros are a valid `sockaddr_ll`.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index as c_int;
        let (at, len) = (std::ptr::from_ref(&address).cast(), size_of::<libc::sockaddr_ll>() as libc::socklen_t);
        // SAFETY: `at` points to `len` bytes that outlive the call.
        match unsafe { libc::bind(self.fd.as_raw_fd(), at, len) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(super) fn wait(&self, at_most: Duration) {
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        let _ = poll(&mut fds, Timespec::try_from(at_most).ok().as_ref());
        if fds[0].revents().contains(PollFlags::ERR) {
            // The device went down. The kernel would say so without a pause until it is asked for the error.
            let _ = socket_error(&self.fd);
        }
    }

    pub(super) fn drain(&mut self, show: &mut dyn FnMut(Frame<'_>)) {
        let Some(ring) = &self.ring else { return };
        for _ in 0..BLOCKS {
            let at = self.next * BLOCK;
            let status = ring.word(at + STATUS_AT);
            if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return;
            }
            frames(ring.bytes(at, BLOCK), show);
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % BLOCKS;
        }
    }

    /// Frames that the kernel had no room for since the last call.
    pub(super) fn lost_since(&self) -> u64 {
        // SAFETY: all zeros are a valid `tpacket_stats_v3`.
        let mut stats: libc::tpacket_stats_v3 = unsafe { zeroed() };
        let mut len = size_of::<libc::tpacket_stats_v3>() as libc::socklen_t;
        let at = std::ptr::from_mut(&mut stats).cast::<c_void>();
        // SAFETY: the kernel writes at most `len` bytes to `at`.
        let done =
            unsafe { libc::getsockopt(self.fd.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, at, &mut len) };
        if done == 0 {
            stats.tp_drops.into()
        } else {
            0
        }
    }
}
