//! ICMP errors at a mirrored device: what could not be delivered, and why.
//!
//! Types and codes: RFC 792, RFC 1812 and RFC 4443.

use rustc_hash::FxHashMap;
use std::fmt;
use std::net::IpAddr;
use wirespan_model::packet::TCP;
use wirespan_pcap::{About, Icmp as Message};

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
fn kind(is_v6: bool, of: u8, code: u8) -> Option<usize> {
    Some(match (is_v6, of, code) {
        (false, 3, 0 | 6 | 8 | 11) | (true, 1, 0) => 0,
        (false, 3, 1 | 7 | 12) | (true, 1, 3) => 1,
        (false, 3, 2) => 2,
        (false, 3, 3) | (true, 1, 4) => 3,
        (false, 3, 4) | (true, 2, _) => 4,
        (false, 3, 9 | 10 | 13) | (true, 1, 1 | 5 | 6) => 5,
        (false, 3, _) | (true, 1, _) => 6,
        (false, 11, _) | (true, 3, _) => 7,
        (false, 12, _) | (true, 4, _) => 8,
        (false, 5, _) | (true, 137, _) => 9,
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

impl Icmp {
    /// Takes a message. Returns an error that was not told lately.
    pub(super) fn see(&mut self, time_ns: u64, message: &Message) -> Option<Undelivered> {
        let kind = kind(message.is_v6, message.kind, message.code)?;
        if let Some(count) = self.counts.get_mut(kind) {
            *count += 1;
        }
        let Some(About { destination, protocol, port }) = message.about else {
            self.malformed += 1;
            return None;
        };
        let key = (kind, destination);
        let is_new = self.told.get(&key).is_none_or(|at| time_ns.saturating_sub(*at) >= QUIET_NS);
        if !is_new || (self.told.len() >= TOLD && !self.told.contains_key(&key)) {
            return None;
        }
        self.told.insert(key, time_ns);
        let kind = KINDS.get(kind)?.1;
        Some(Undelivered { kind, from: message.source, to: destination, protocol, port })
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

    fn error(is_v6: bool, kind: u8, code: u8, protocol: u8, port: Option<u16>) -> Message {
        let about = Some(About { destination: [10, 0, 0, 2].into(), protocol, port });
        Message { source: [10, 0, 0, 1].into(), is_v6, kind, code, about }
    }

    fn counted(icmp: &Icmp) -> Vec<(&'static str, u64)> {
        icmp.counters().filter(|(_, n)| *n > 0).collect()
    }

    #[test]
    fn each_kind_is_counted_and_its_packet_is_told_once_a_minute() {
        let mut icmp = Icmp::default();
        let message = error(false, 3, 3, 17, Some(53));
        let told = icmp.see(0, &message).unwrap();
        assert_eq!(told.to_string(), "port unreachable, says 10.0.0.1 of a packet to 10.0.0.2, UDP port 53");
        assert_eq!(icmp.see(1, &message), None, "told already");
        assert!(icmp.see(QUIET_NS, &message).is_some());
        let told = icmp.see(0, &error(true, 2, 0, 47, None)).unwrap();
        assert_eq!(told.to_string(), "packet too big, says 10.0.0.1 of a packet to 10.0.0.2, IP protocol 47");
        assert_eq!(counted(&icmp), [("icmp_port_unreachable", 3), ("icmp_packet_too_big", 1)]);
    }

    #[test]
    fn what_is_no_error_is_not_counted_and_an_error_about_nothing_is_malformed() {
        let mut icmp = Icmp::default();
        for (is_v6, kind) in [(false, 8), (false, 0), (true, 135)] {
            assert_eq!(icmp.see(0, &Message { about: None, ..error(is_v6, kind, 0, 17, None) }), None);
        }
        assert_eq!(counted(&icmp), []);
        assert_eq!(icmp.see(0, &Message { about: None, ..error(false, 11, 0, 17, None) }), None);
        assert_eq!(counted(&icmp), [("icmp_time_exceeded", 1), ("icmp_malformed", 1)]);
    }
}
