//! Sightings as a pcapng file (draft-ietf-opsawg-pcapng) for Wireshark: one interface for each device, and a comment
//! that says at which point each packet was seen.
//!
//! No payload is copied. The headers are those of the packet if the program tells them (`snap`). Otherwise they are
//! made again from what a sighting has, so identification, acknowledgement number, window and options are not those of
//! the packet.

use super::names::Reason;
use super::Names;
use rustc_hash::FxHashMap;
use std::io::{Result, Write};
use std::net::IpAddr;
use wirespan_journey::Place;
use wirespan_model::packet::{Point, Sighting, Tunnel, NOT_IP, TCP, UDP};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
/// Packets begin with the link header (`LINKTYPE_ETHERNET`).
const ETHERNET: u16 = 1;
/// Packets begin with the IP header (`LINKTYPE_RAW`).
const RAW_IP: u16 = 101;
const COMMENT: u16 = 1;
const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;

/// Writes a file.
pub(crate) struct Pcapng<W: Write> {
    out: W,
    /// By machine, namespace, device and how packets begin.
    interfaces: FxHashMap<(String, u32, String, u16), u32>,
}

fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn option(code: u16, value: &[u8]) -> Vec<u8> {
    // Longer than any name or comment here.
    let value = value.get(..1 << 12).unwrap_or(value);
    let mut bytes = code.to_le_bytes().to_vec();
    bytes.extend((value.len() as u16).to_le_bytes());
    bytes.extend(value);
    padded(bytes)
}

impl<W: Write> Pcapng<W> {
    /// Begins a file.
    pub(crate) fn new(out: W) -> Result<Self> {
        let mut file = Pcapng { out, interfaces: FxHashMap::default() };
        let mut body = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
        body.extend([1, 0, 0, 0]);
        body.extend(u64::MAX.to_le_bytes());
        let about = "wirespan packet: payload is left out; headers are made again from what was seen of each packet, \
                     unless the program has `snap`";
        body.extend(option(COMMENT, about.as_bytes()));
        body.extend(option(0, b""));
        file.block(SECTION, &body)?;
        Ok(file)
    }

    fn block(&mut self, kind: u32, body: &[u8]) -> Result<()> {
        let total = (body.len() as u32 + 12).to_le_bytes();
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&total)?;
        self.out.write_all(body)?;
        self.out.write_all(&total)
    }

    /// The number of the interface for a device; its block comes before its first packet.
    fn interface(&mut self, agent: &str, s: &Sighting, link: u16, names: &Names) -> Result<u32> {
        let key = (agent.to_owned(), s.netns, s.device.to_string(), link);
        if let Some(number) = self.interfaces.get(&key) {
            return Ok(*number);
        }
        let device = if s.device.is_empty() { "sockets" } else { s.device.as_str() };
        let netns = names.netns(s.netns);
        let name = if netns.is_empty() { device.to_owned() } else { format!("{device} in {netns}") };
        let name = if agent.is_empty() { name } else { format!("{name} at {agent}") };
        let mut body = link.to_le_bytes().to_vec();
        body.extend([0; 6]);
        body.extend(option(2, name.as_bytes()));
        // Times are in 10⁻⁹ s.
        body.extend(option(9, &[9]));
        body.extend(option(0, b""));
        self.block(INTERFACE, &body)?;
        let number = self.interfaces.len() as u32;
        self.interfaces.insert(key, number);
        Ok(number)
    }

    /// Writes a sighting. At points of a connection there is no packet, and nothing is written.
    pub(crate) fn write(&mut self, s: &Sighting, names: &Names, reason: &Reason<'_>) -> Result<()> {
        self.write_of("", s, names, reason)
    }

    /// As [`Pcapng::write`], of a machine among others; `names` are its own.
    pub(crate) fn write_of(&mut self, agent: &str, s: &Sighting, names: &Names, reason: &Reason<'_>) -> Result<()> {
        if !s.point.has_packet() {
            return Ok(());
        }
        let (link, headers, whole) = match &s.headers {
            Some(own) if own.link_len > 0 => (ETHERNET, own.bytes.to_vec(), own.frame_len),
            Some(own) if s.route.protocol != NOT_IP => (RAW_IP, own.bytes.to_vec(), own.frame_len),
            // Of another frame nothing can be made again.
            _ if s.route.protocol == NOT_IP => return Ok(()),
            _ => {
                let (made, whole) = headers(s);
                (RAW_IP, made, whole)
            }
        };
        let whole = whole.max(headers.len() as u32);
        let interface = self.interface(agent, s, link, names)?;
        let captured = headers.len() as u32;
        let mut body = interface.to_le_bytes().to_vec();
        body.extend(((s.time_ns >> 32) as u32).to_le_bytes());
        body.extend((s.time_ns as u32).to_le_bytes());
        body.extend(captured.to_le_bytes());
        body.extend(whole.to_le_bytes());
        body.extend(padded(headers));
        let mut said = comment(s, names, reason);
        if !agent.is_empty() {
            said += &format!(", at {agent}");
        }
        body.extend(option(COMMENT, said.as_bytes()));
        let direction: u32 = match s.point {
            point if point.is_arrival() || matches!(point, Point::Tcp | Point::Copied) => 1,
            point if point.is_departure() => 2,
            _ => 0,
        };
        body.extend(option(2, &direction.to_le_bytes()));
        body.extend(option(0, b""));
        self.block(PACKET, &body)
    }

    /// Writes what is still in memory.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.out.flush()
    }
}

fn comment(s: &Sighting, names: &Names, reason: &Reason<'_>) -> String {
    let place = Place { tunnel: Tunnel::None, ..Place::of(s) };
    let mut text = format!("{}, cpu {}", names.place(&place), s.cpu);
    if s.queue_len > 0 {
        text += &format!(", {} wait in the queue", s.queue_len);
    }
    if s.tunnel != Tunnel::None {
        text += &format!(", in a tunnel ({})", s.tunnel.as_str());
    }
    if s.point == Point::Drop {
        text += &format!(", dropped: {}", reason(s.reason));
    }
    text
}

/// Headers of the packet, as far as the sighting knows them, and the length of the whole packet.
fn headers(s: &Sighting) -> (Vec<u8>, u32) {
    let l4 = if s.fragment { Vec::new() } else { l4(s) };
    // Of TCP and UDP, `len` is without the header.
    let header = if matches!(s.route.protocol, TCP | UDP) { l4.len() } else { 0 };
    let whole = (header + s.len as usize).max(l4.len());
    let protocol = s.route.protocol;
    let mut ip = match (s.route.source, s.route.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            // A packet that a network card is to cut may be longer than the field can say: then it is 0.
            let total = u16::try_from(whole + 20).unwrap_or(0);
            let (id, offset) = if s.fragment { (s.hash as u16, (s.seq / 8) as u16 & 0x1fff) } else { (0, 0) };
            let mut h = vec![0x45, 0];
            [total, id, offset].iter().for_each(|n| h.extend(n.to_be_bytes()));
            h.extend([64, protocol, 0, 0]);
            h.extend(source.octets());
            h.extend(destination.octets());
            let sum: u32 = h.chunks_exact(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
            let sum = (sum & 0xffff) + (sum >> 16);
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            h[10..12].copy_from_slice(&sum.to_be_bytes());
            h
        }
        (source, destination) => {
            let octets = |ip| match ip {
                IpAddr::V4(v4) => std::net::Ipv4Addr::to_ipv6_mapped(&v4).octets(),
                IpAddr::V6(v6) => v6.octets(),
            };
            let mut h = vec![0x60, 0, 0, 0];
            h.extend(u16::try_from(whole).unwrap_or(0).to_be_bytes());
            h.extend([protocol, 64]);
            h.extend(octets(source));
            h.extend(octets(destination));
            h
        }
    };
    let whole = (ip.len() + whole) as u32;
    ip.extend(l4);
    (ip, whole)
}

fn l4(s: &Sighting) -> Vec<u8> {
    let mut h = Vec::new();
    let mut ports = || [s.route.source_port, s.route.destination_port].iter().for_each(|p| h.extend(p.to_be_bytes()));
    match s.route.protocol {
        TCP => {
            ports();
            h.extend(s.seq.to_be_bytes());
            h.extend([0, 0, 0, 0, 0x50, s.flags, 0xff, 0xff, 0, 0, 0, 0]);
        }
        UDP => {
            ports();
            h.extend(u16::try_from(s.len + 8).unwrap_or(0).to_be_bytes());
            h.extend([0, 0]);
        }
        ICMP | ICMP_V6 => {
            h.extend([s.route.source_port as u8, s.route.destination_port as u8, 0, 0]);
            h.extend((s.hash as u16).to_be_bytes());
            h.extend((s.seq as u16).to_be_bytes());
        }
        _ => {}
    }
    h
}
