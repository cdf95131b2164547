//! Addresses and five-tuples.

use crate::listed::listed_enum;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

listed_enum! {
    /// Transport protocol of a socket.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum Transport {
        /// TCP over IPv4 or IPv6.
        #[default]
        Tcp = 1,
        /// UDP over IPv4 or IPv6.
        Udp = 2,
        /// Unix domain stream or seqpacket socket.
        UnixStream = 3,
        /// Unix domain datagram socket.
        UnixDgram = 4,
    }
}

impl Transport {
    /// Value of the OpenTelemetry attribute `network.transport`.
    pub fn as_str(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
            Transport::UnixStream | Transport::UnixDgram => "unix",
        }
    }

    /// True if the transport delivers bytes in order and keeps no boundary between two sends.
    pub fn is_stream(self) -> bool {
        matches!(self, Transport::Tcp | Transport::UnixStream)
    }
}

/// One end of a connection. An IPv4-mapped IPv6 address is stored as IPv4. A Unix socket has the address `0.0.0.0:0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Endpoint {
    /// IP address.
    pub ip: IpAddr,
    /// Port, host byte order.
    pub port: u16,
}

impl Endpoint {
    /// The endpoint of a connection of which the address is not known, and of a Unix socket.
    pub const UNSPECIFIED: Endpoint = Endpoint { ip: IpAddr::V4(Ipv4Addr::UNSPECIFIED), port: 0 };

    /// Makes an endpoint. An IPv4-mapped IPv6 address becomes IPv4.
    pub fn new(ip: IpAddr, port: u16) -> Self {
        Endpoint { ip: ip.to_canonical(), port }
    }
}

impl Default for Endpoint {
    fn default() -> Self {
        Endpoint::UNSPECIFIED
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(a: SocketAddr) -> Self {
        Endpoint::new(a.ip(), a.port())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::new(self.ip, self.port).fmt(f)
    }
}

/// Both ends of a connection and the transport between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FiveTuple {
    /// Transport protocol.
    pub transport: Transport,
    /// The end that opened the connection or sent the request.
    pub client: Endpoint,
    /// The end that answers.
    pub server: Endpoint,
}

impl FiveTuple {
    /// Whether both may be seen of the same datagram. A socket that is bound to all addresses does not tell which of
    /// them is its own, so that an unspecified address agrees with any other.
    pub fn agrees(&self, other: &Self) -> bool {
        let same = |a: Endpoint, b: Endpoint| {
            a.port == b.port && (a.ip == b.ip || a.ip.is_unspecified() || b.ip.is_unspecified())
        };
        self.transport == other.transport && same(self.client, other.client) && same(self.server, other.server)
    }
}
