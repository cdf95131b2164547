//! A packet seen at one point of its way.

use crate::listed::listed_enum;
use compact_str::CompactString;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

listed_enum! {
    /// A point that a packet passes, in the order of its way.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Point {
        /// A program gives bytes to TCP.
        Send = 1,
        /// Given to a device, before its queue.
        Queue = 2,
        /// Given to the driver of the device, after its queue.
        Xmit = 3,
        /// Came out of a device.
        Receive = 4,
        /// An established TCP connection takes the segment.
        Tcp = 5,
        /// The reader is told that there are bytes.
        Ready = 6,
        /// Copied to the reader.
        Copied = 7,
        /// Dropped by the kernel.
        Drop = 8,
        /// TCP has sent the segment again.
        Resent = 9,
        /// A function of the kernel that the user names.
        Function = 10,
        /// A program has come to a function that the user names: a mark in time, without a packet.
        Mark = 11,
        /// Given to a chosen device, by a program of that device: before its queue.
        Egress = 12,
        /// Came out of a chosen device, by a program of that device.
        Ingress = 13,
    }
}

impl Point {
    /// The points that need no name of a function or a device.
    pub const FIXED: [Point; 9] = [
        Point::Send,
        Point::Queue,
        Point::Xmit,
        Point::Receive,
        Point::Tcp,
        Point::Ready,
        Point::Copied,
        Point::Drop,
        Point::Resent,
    ];

    /// Its name in packet programs and output.
    pub fn as_str(self) -> &'static str {
        match self {
            Point::Send => "send",
            Point::Queue => "queue",
            Point::Xmit => "xmit",
            Point::Receive => "receive",
            Point::Tcp => "tcp",
            Point::Ready => "ready",
            Point::Copied => "copied",
            Point::Drop => "drop",
            Point::Resent => "resent",
            Point::Function => "function",
            Point::Mark => "mark",
            Point::Egress => "egress",
            Point::Ingress => "ingress",
        }
    }

    /// Whether the packet has just come out of a device.
    pub fn is_arrival(self) -> bool {
        matches!(self, Point::Receive | Point::Ingress)
    }

    /// Whether the packet is about to be sent by a device.
    pub fn is_departure(self) -> bool {
        matches!(self, Point::Egress | Point::Queue | Point::Xmit)
    }

    /// Whether the packet itself is seen here; at the others, only its connection.
    pub fn has_packet(self) -> bool {
        !matches!(self, Point::Send | Point::Ready | Point::Resent | Point::Mark)
    }
}

impl Serialize for Point {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Point {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = Cow::<str>::deserialize(from)?;
        let found = Point::ALL.into_iter().find(|point| point.as_str() == name);
        found.ok_or_else(|| D::Error::custom(format_args!("no point `{name}`")))
    }
}

/// The tunnel in which a packet is carried at a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tunnel {
    /// None.
    #[default]
    None,
    /// VXLAN (RFC 7348).
    Vxlan,
    /// Geneve (RFC 8926).
    Geneve,
    /// GRE (RFC 2784).
    Gre,
    /// IP in IP (RFC 2003, RFC 2473, RFC 4213).
    Ipip,
}

impl Tunnel {
    /// Its name in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Tunnel::None => "none",
            Tunnel::Vxlan => "vxlan",
            Tunnel::Geneve => "geneve",
            Tunnel::Gre => "gre",
            Tunnel::Ipip => "ipip",
        }
    }
}

/// Protocol numbers (IANA) that have an identity of their own.
pub const TCP: u8 = 6;
/// UDP.
pub const UDP: u8 = 17;
/// An acknowledgement of TCP without payload, where it is followed as a datagram (reserved by IANA).
pub const ACKNOWLEDGEMENT: u8 = 255;

/// TCP flags (RFC 9293).
pub const FIN: u8 = 1;
/// SYN.
pub const SYN: u8 = 2;
/// RST.
pub const RST: u8 = 4;

/// Stands for the protocol of a frame that is not of IP. IPv4 and IPv6 have no packet with this one: it is an extension
/// header.
pub const NOT_IP: u8 = 0;
/// Kind of Ethernet frame (IEEE 802): IPv4.
pub const ETHER_IPV4: u16 = 0x0800;
/// ARP.
pub const ETHER_ARP: u16 = 0x0806;
/// IPv6.
pub const ETHER_IPV6: u16 = 0x86dd;

/// Addresses, ports and protocol of a packet, in its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Route {
    /// Address of the sender.
    pub source: IpAddr,
    /// Address of the receiver.
    pub destination: IpAddr,
    /// Port of the sender; of ICMP the type; of [`NOT_IP`] the kind of Ethernet frame.
    pub source_port: u16,
    /// Port of the receiver; of ICMP the code; of ARP the operation.
    pub destination_port: u16,
    /// Number of the protocol (IANA).
    pub protocol: u8,
}

impl Route {
    /// That of the answers.
    pub fn reversed(&self) -> Route {
        Route {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            protocol: self.protocol,
        }
    }

    /// The kind of Ethernet frame.
    pub fn ether_type(&self) -> u16 {
        match (self.protocol, self.source) {
            (NOT_IP, _) => self.source_port,
            (_, IpAddr::V4(_)) => ETHER_IPV4,
            (_, IpAddr::V6(_)) => ETHER_IPV6,
        }
    }
}

/// The first bytes of a packet, as they were; none of its payload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Headers {
    /// How many of `bytes` are the link header (Ethernet, with its VLAN tags); 0 if they begin with the network header.
    pub link_len: u8,
    /// Length of the whole packet, from the first of `bytes` on.
    pub frame_len: u32,
    /// The bytes; hex digits in JSON.
    #[serde(serialize_with = "to_hex", deserialize_with = "from_hex")]
    pub bytes: Box<[u8]>,
}

/// Two hex digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |n: u8| char::from_digit(n.into(), 16).unwrap_or('0');
    bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect()
}

fn to_hex<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&hex(bytes))
}

fn from_hex<'de, D: Deserializer<'de>>(from: D) -> Result<Box<[u8]>, D::Error> {
    let text = Cow::<str>::deserialize(from)?;
    let pairs = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap_or_default());
    let byte = |pair: &str| (pair.len() == 2).then(|| u8::from_str_radix(pair, 16).ok()).flatten();
    let read: Option<Box<[u8]>> = pairs.map(byte).collect();
    read.ok_or_else(|| D::Error::custom(format_args!("`{text}` is no row of bytes in hex")))
}

/// A packet at a point. In a tunnel, `route` and all that follows are of the inner packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    /// Unix ns.
    pub time_ns: u64,
    /// The point.
    pub point: Point,
    /// Inode of the network namespace.
    pub netns: u32,
    /// Number of the device in its namespace, at [`Point::Tcp`] and [`Point::Copied`] of the one by which the packet
    /// came; 0 where none is known.
    pub ifindex: u32,
    /// Name of the device; at [`Point::Mark`], of the thread.
    pub device: CompactString,
    /// Name of the function at [`Point::Function`] and [`Point::Mark`].
    #[serde(default, skip_serializing_if = "CompactString::is_empty")]
    pub function: CompactString,
    /// The processor.
    pub cpu: u16,
    /// Addresses and ports of the sender and the receiver.
    pub route: Route,
    /// TCP: sequence number of the first byte; ICMP echo: its number; a later fragment: its offset; a mark: the
    /// process.
    pub seq: u32,
    /// Bytes of payload; a mark: the thread.
    pub len: u32,
    /// UDP: of the payload; TCP without payload, SYN, FIN and RST: of what else its header has; 0 if the bytes were not
    /// at hand. ICMP echo and fragment: its id.
    pub hash: u32,
    /// Flags of TCP.
    pub flags: u8,
    /// The tunnel around the packet.
    pub tunnel: Tunnel,
    /// A later fragment, which has no ports.
    #[serde(default)]
    pub fragment: bool,
    /// Number of the reason of a drop; the kernel's names are given apart.
    pub reason: u32,
    /// Packets that wait in the device's queue; known at [`Point::Queue`].
    pub queue_len: u32,
    /// The addresses and ports with which it came to its network namespace, if conntrack has translated them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<Box<Route>>,
    /// Its headers, if the program asks for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<Box<Headers>>,
    /// The functions in which the kernel was, innermost first, if the program asks for them.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub stack: Arc<[CompactString]>,
}

/// A TCP segment with payload or SYN, as a capture saw it. Socket ids are those of the capture's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Id of the connection within its capture.
    pub socket: u64,
    /// When it was captured, Unix ns by the clock of the capture.
    pub time_ns: u64,
    /// Sequence number of the first byte.
    pub seq: u32,
    /// Bytes of payload that were sent.
    pub len: u32,
    /// Time to live (IPv4) or hop limit (IPv6). Each router takes one off.
    pub ttl: u8,
    /// Whether the sender is the smaller one of the two ends.
    pub ascending: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_hex_in_json() {
        let headers = Headers { link_len: 14, frame_len: 60, bytes: [0, 0x5e, 0xff].into() };
        let json = serde_json::to_value(&headers).expect("json");
        assert_eq!(json, serde_json::json!({"link_len": 14, "frame_len": 60, "bytes": "005eff"}));
        assert_eq!(Headers::deserialize(&json).expect("the same"), headers);
        for wrong in ["0", "0g", "005", "é0"] {
            let json = serde_json::json!({"link_len": 0, "frame_len": 1, "bytes": wrong});
            assert!(Headers::deserialize(&json).is_err(), "{wrong}");
        }
    }
}
