//! Frames of devices that the user names, such as the one that a switch's mirror port is connected to.
//!
//! The kernel copies frames into a ring (`AF_PACKET`, `TPACKET_V3`) that this process has mapped. A classic BPF program
//! chooses them. Nothing is loaded into the machine's network, and nothing is sent.
//!
//! [`filter`] (ports → program) → [`socket`] (socket and ring) → [`block`] (a block of the ring → frames).

mod block;
mod filter;
mod socket;

pub use block::Frame;

use crate::error::CaptureError;
use socket::Socket;
use std::time::Duration;

/// Ports that can be chosen: the jumps of classic BPF are short.
pub const MAX_PORTS: usize = 32;

/// How the frames of a device begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// With a header of Ethernet.
    Ethernet,
    /// With that of IP.
    Ip,
}

/// Whether a device shows packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// It does.
    Up,
    /// Not until it is up again.
    Down,
    /// It was deleted, or moved to another network namespace. One that comes with its name is another device.
    Gone,
}

/// An open device. The kernel collects its frames until this is dropped.
pub struct Mirror {
    socket: Socket,
    index: u32,
    begins: Begins,
    /// Frames that the kernel had no room for.
    lost: u64,
}

impl Mirror {
    /// Opens a device of this process's network namespace. `ports`: only TCP and UDP from and to these; empty: all IP.
    /// ARP always.
    pub fn open(device: &str, ports: &[u16]) -> Result<Self, CaptureError> {
        if ports.len() > MAX_PORTS {
            return Err(CaptureError::Config(format!("at most {MAX_PORTS} ports can be chosen of a mirrored device")));
        }
        let failed = |what: &str, error: std::io::Error| {
            let hint = match error.kind() {
                std::io::ErrorKind::PermissionDenied => " (it needs root, or CAP_NET_RAW)",
                _ => "",
            };
            CaptureError::Config(format!("mirroring {device}: {what}: {error}{hint}"))
        };
        let index = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)
            .and_then(|any| rustix::net::netdevice::name_to_index(any, device))
            .map_err(|e| failed("no such device in this network namespace", e.into()))?;
        let mut socket = Socket::new().map_err(|e| failed("opening a socket", e))?;
        let begins = socket.begins(device).map_err(|e| failed("asking for its kind", e))?;
        let begins = begins
            .ok_or_else(|| CaptureError::Config(format!("mirroring {device}: it is neither of Ethernet nor of IP")))?;
        socket.filter(&filter::program(begins, ports)).map_err(|e| failed("choosing frames", e))?;
        socket.start(index).map_err(|e| failed("receiving its frames", e))?;
        Ok(Mirror { socket, index, begins, lost: 0 })
    }

    /// How its frames begin.
    pub fn begins(&self) -> Begins {
        self.begins
    }

    /// Whether it shows packets now.
    pub fn link(&self) -> Link {
        self.socket.link(self.index)
    }

    /// Waits until there are frames, at most so long.
    pub fn wait(&self, at_most: Duration) {
        self.socket.wait(at_most);
    }

    /// Shows the frames that are ready, at most those of the whole ring, in the order in which the kernel saw them.
    pub fn drain(&mut self, show: &mut dyn FnMut(Frame<'_>)) {
        self.socket.drain(show);
    }

    /// Frames since the start that the kernel had no room for.
    pub fn lost(&mut self) -> u64 {
        self.lost += self.socket.lost_since();
        self.lost
    }
}
