//! ICMP errors at a mirrored device: what could not be delivered, and why.
//!
//! Types and codes: RFC 792, RFC 1812 and RFC 4443.

use super::ethernet::u16_at;
use rustc_hash::FxHashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wirespan_model::packet::{TCP, UDP};

const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;
/// Headers of IPv6 that stand before the payload: options of hops, routing, options of the destination.
const EXTENSIONS: [u8; 3] = [0, 43, 60];
/// Most of them that are looked behind.
const MOST_EXTENSIONS: usize = 8;
/// The same error of the same address is told once in this time.
const QUIET_NS: u64 = 60_000_000_000;
/// Addresses whose errors were told.
const TOLD: usize = 1024;

/// The counters, by kind.
const KINDS: [(&str, &str); 10] = [
    ("icmp_network_unreachable", "network unreachable"),
    ("icmp_host_unreachable", "host unreachable"),
    ("icmp_protocol_unreachable", "protocol unreachable"),
    ("icmp_port_unreachable", "port unreachable"),
    ("icmp_packet_too_big", "packet too big"),
    ("icmp_prohibited", "administratively prohibited"),
    ("icmp_other_unreachable", "unreachable"),
    ("icmp_time_exceeded", "time exceeded"),
    ("icmp_parameter_problem", "parameter problem"),
    ("icmp_redirect", "redirect"),
];

/// Place in [`KINDS`]; `None` for what is no error, such as an echo.
fn kind(protocol: u8, of: u8, code: u8) -> Option<usize> {
    Some(match (protocol, of, code) {
        (ICMP, 3, 0 | 6 | 8 | 11) | (ICMP_V6, 1, 0) => 0,
        (ICMP, 3, 1 | 7 | 12) | (ICMP_V6, 1, 3) => 1,
        (ICMP, 3, 2) => 2,
        (ICMP, 3, 3) | (ICMP_V6, 1, 4) => 3,
        (ICMP, 3, 4) | (ICMP_V6, 2, _) => 4,
        (ICMP, 3, 9 | 10 | 13) | (ICMP_V6, 1, 1 | 5 | 6) => 5,
        (ICMP, 3, _) | (ICMP_V6, 1, _) => 6,
        (ICMP, 11, _) | (ICMP_V6, 3, _) => 7,
        (ICMP, 12, _) | (ICMP_V6, 4, _) => 8,
        (ICMP, 5, _) | (ICMP_V6, 137, _) => 9,
        _ => return None,
    })
}

/// Counts of a device.
#[derive(Default)]
pub(super) struct Icmp {
    counts: [u64; KINDS.len()],
    malformed: u64,
    /// When an error was told last, by kind and by the address that was to be reached, ns.
    told: FxHashMap<(usize, IpAddr), u64>,
}

/// An error, and the packet that it is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Undelivered {
    kind: &'static str,
    from: IpAddr,
    to: IpAddr,
    protocol: u8,
    port: Option<u16>,
}

impl fmt::Display for Undelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Undelivered { kind, from, to, protocol, port } = self;
        write!(f, "{kind}, says {from} of a packet to {to}")?;
        match (port, *protocol) {
            (Some(port), TCP) => write!(f, ", TCP port {port}"),
            (Some(port), _) => write!(f, ", UDP port {port}"),
            (None, protocol) => write!(f, ", IP protocol {protocol}"),
        }
    }
}

/// A packet of IP, and what it carries.
struct Ip<'a> {
    protocol: u8,
    source: IpAddr,
    destination: IpAddr,
    payload: &'a [u8],
}

impl<'a> Ip<'a> {
    /// `None` for a later fragment, and for what is no packet of IP.
    fn read(packet: &'a [u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => {
                let address = |at: usize| <[u8; 4]>::try_from(packet.get(at..at + 4)?).ok().map(Ipv4Addr::from);
                if u16_at(packet, 6)? & 0x1fff != 0 {
                    return None;
                }
                let header = usize::from(packet.first()? & 15) * 4;
                let (source, destination) = (address(12)?.into(), address(16)?.into());
                let payload = packet.get(header.max(20)..)?;
                Some(Ip { protocol: *packet.get(9)?, source, destination, payload })
            }
            6 => {
                let address = |at: usize| <[u8; 16]>::try_from(packet.get(at..at + 16)?).ok().map(Ipv6Addr::from);
                let (source, destination) = (address(8)?.into(), address(24)?.into());
                let (mut protocol, mut payload) = (*packet.get(6)?, packet.get(40..)?);
                for _ in 0..MOST_EXTENSIONS {
                    if !EXTENSIONS.contains(&protocol) {
                        break;
                    }
                    let words = usize::from(*payload.get(1)?) + 1;
                    (protocol, payload) = (*payload.first()?, payload.get(words * 8..)?);
                }
                Some(Ip { protocol, source, destination, payload })
            }
            _ => None,
        }
    }
}

impl Icmp {
    /// Takes a packet of IP. Returns an error that was not told lately.
    pub(super) fn see(&mut self, time_ns: u64, packet: &[u8]) -> Option<Undelivered> {
        let error = Ip::read(packet)?;
        if !matches!(error.protocol, ICMP | ICMP_V6) {
            return None;
        }
        let [of, code, ..] = *error.payload else {
            self.malformed += 1;
            return None;
        };
        let kind = kind(error.protocol, of, code)?;
        if let Some(count) = self.counts.get_mut(kind) {
            *count += 1;
        }
        // Behind a header of eight bytes is the beginning of the packet that was not delivered.
        let Some(lost) = error.payload.get(8..).and_then(Ip::read) else {
            self.malformed += 1;
            return None;
        };
        let key = (kind, lost.destination);
        let is_new = self.told.get(&key).is_none_or(|at| time_ns.saturating_sub(*at) >= QUIET_NS);
        if !is_new || (self.told.len() >= TOLD && !self.told.contains_key(&key)) {
            return None;
        }
        self.told.insert(key, time_ns);
        let port = matches!(lost.protocol, TCP | UDP).then(|| u16_at(lost.payload, 2)).flatten();
        let kind = KINDS.get(kind)?.1;
        Some(Undelivered { kind, from: error.source, to: lost.destination, protocol: lost.protocol, port })
    }

    pub(super) fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let kinds = KINDS.iter().zip(self.counts).map(|((name, _), n)| (*name, n));
        kinds.chain(std::iter::once(("icmp_malformed", self.malformed)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn ipv4(protocol: u8, to: [u8; 4], payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 20];
        (packet[0], packet[9]) = (0x45, protocol);
        packet[12..16].copy_from_slice(&[10, 0, 0, 1]);
        packet[16..20].copy_from_slice(&to);
        packet.extend(payload);
        packet
    }

    fn ipv6(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 40];
        (packet[0], packet[6], packet[23], packet[39]) = (0x60, protocol, 1, 2);
        packet.extend(payload);
        packet
    }

    /// An error about a packet.
    fn error(of: u8, code: u8, about: &[u8]) -> Vec<u8> {
        [&[of, code, 0, 0, 0, 0, 0, 0], about].concat()
    }

    /// Ports of a datagram or a segment: 4660 to 53.
    const PORTS: [u8; 8] = [0x12, 0x34, 0, 53, 0, 8, 0, 0];

    fn counted(icmp: &Icmp) -> Vec<(&'static str, u64)> {
        icmp.counters().filter(|(_, n)| *n > 0).collect()
    }

    #[test]
    fn each_kind_is_counted_and_its_packet_is_told_once_a_minute() {
        let mut icmp = Icmp::default();
        let packet = ipv4(ICMP, [10, 0, 0, 9], &error(3, 3, &ipv4(UDP, [10, 0, 0, 2], &PORTS)));
        let told = icmp.see(0, &packet).unwrap();
        assert_eq!(told.to_string(), "port unreachable, says 10.0.0.1 of a packet to 10.0.0.2, UDP port 53");
        assert_eq!(icmp.see(1, &packet), None, "told already");
        assert!(icmp.see(QUIET_NS, &packet).is_some());
        let big = ipv6(60, &[&[ICMP_V6, 0, 0, 0, 0, 0, 0, 0][..], &error(2, 0, &ipv6(TCP, &PORTS))].concat());
        let told = icmp.see(0, &big).unwrap();
        assert_eq!(told.to_string(), "packet too big, says ::1 of a packet to ::2, TCP port 53", "behind options");
        assert_eq!(counted(&icmp), [("icmp_port_unreachable", 3), ("icmp_packet_too_big", 1)]);
    }

    #[test]
    fn echoes_and_other_packets_are_no_errors() {
        let mut icmp = Icmp::default();
        for packet in [
            ipv4(ICMP, [10, 0, 0, 2], &error(8, 0, b"ping")),
            ipv6(ICMP_V6, &error(135, 0, b"who is there")),
            ipv4(UDP, [10, 0, 0, 2], &PORTS),
        ] {
            assert_eq!(icmp.see(0, &packet), None);
        }
        assert_eq!(counted(&icmp), []);
    }

    #[test]
    fn what_is_cut_at_any_byte_is_counted_and_ends_nothing() {
        let inner = ipv4(TCP, [10, 0, 0, 2], &PORTS);
        let whole = ipv4(ICMP, [10, 0, 0, 9], &error(11, 0, &inner));
        for len in 0..whole.len() {
            let mut icmp = Icmp::default();
            let told = icmp.see(0, &whole[..len]);
            let count = |name: &str| icmp.counters().find(|(n, _)| *n == name).unwrap().1;
            assert_eq!(told.is_some(), len >= 48, "{len}: as soon as the inner header is there");
            assert_eq!(count("icmp_time_exceeded"), u64::from(len >= 22), "{len}");
            assert_eq!(count("icmp_malformed"), u64::from((20..48).contains(&len)), "{len}");
        }
    }
}
