//! A record of the kernel programs (`struct ws_packet`) → [`Sighting`].

use super::stack::Stacks;
use crate::clock::Clock;
#[allow(clippy::wildcard_imports)] // the numbers of the contract
use crate::wire::contract::*;
use compact_str::CompactString;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use wirespan_model::packet::{Headers, Point, Route, Sighting, Tunnel, NOT_IP};

/// Longest name of a device (`IFNAMSIZ`, without the zero at its end).
pub(super) const MAX_DEVICE_LEN: usize = 15;

/// The name of a device as the kernel programs compare it.
pub(super) fn device_words(name: &str) -> [u64; 2] {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(name.bytes().take(MAX_DEVICE_LEN)).for_each(|(to, byte)| *to = byte);
    [0, 8].map(|at| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i])))
}

/// An end of connections, at whichever host, as the kernel programs look it up (`struct ws_packet_end`).
pub(super) fn end(of: SocketAddr) -> Vec<u8> {
    let address = match of.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    PacketEnd { address: address.octets(), port: of.port().into(), netns: 0 }.to_bytes().to_vec()
}

fn point(code: u32) -> Option<Point> {
    Some(match code {
        WS_P_SEND => Point::Send,
        WS_P_QUEUE => Point::Queue,
        WS_P_XMIT => Point::Xmit,
        WS_P_RECEIVE => Point::Receive,
        WS_P_TCP => Point::Tcp,
        WS_P_READY => Point::Ready,
        WS_P_COPIED => Point::Copied,
        WS_P_DROP => Point::Drop,
        WS_P_RESENT => Point::Resent,
        WS_P_FUNCTION => Point::Function,
        WS_P_MARK => Point::Mark,
        WS_P_EGRESS => Point::Egress,
        WS_P_INGRESS => Point::Ingress,
        _ => return None,
    })
}

fn tunnel(code: u32) -> Option<Tunnel> {
    Some(match code {
        WS_T_NONE => Tunnel::None,
        WS_T_VXLAN => Tunnel::Vxlan,
        WS_T_GENEVE => Tunnel::Geneve,
        WS_T_GRE => Tunnel::Gre,
        WS_T_IPIP => Tunnel::Ipip,
        _ => return None,
    })
}

/// Reads records, and knows the functions whose numbers they have.
pub(super) struct Reader {
    functions: Vec<CompactString>,
    marks: Vec<CompactString>,
    stacks: Stacks,
}

impl Reader {
    pub(super) fn new(functions: Vec<CompactString>, marks: Vec<CompactString>) -> Self {
        Reader { functions, marks, stacks: Stacks::default() }
    }

    /// `None` if the record is not of this version.
    pub(super) fn read(&mut self, bytes: &[u8], clock: &Clock) -> Option<Sighting> {
        let mut seen = read(bytes, clock)?;
        let functions = match seen.point {
            Point::Function => &self.functions,
            Point::Mark => &self.marks,
            _ => &Vec::new(),
        };
        if !functions.is_empty() {
            seen.function = functions.get(seen.reason as usize)?.clone();
            seen.reason = 0;
        }
        let rest = bytes.get(Packet::SIZE..).filter(|rest| !rest.is_empty());
        let Some(rest) = rest else { return Some(seen) };
        if rest.len() == PacketWas::SIZE {
            seen.was = was(rest, &seen.route);
            return Some(seen);
        }
        let more = PacketMore::read(rest)?;
        let rest = rest.get(PacketMore::SIZE..)?;
        let (headers, stack) = rest.split_at_checked(WS_M_HEADERS as usize)?;
        if more.headers > 0 {
            let bytes = headers.get(..more.headers.into())?.into();
            seen.headers = Some(Box::new(Headers { link_len: more.link, frame_len: more.frame, bytes }));
        }
        let (stack, behind) = stack.split_at_checked(8 * WS_M_STACK as usize)?;
        if more.was != 0 {
            seen.was = was(behind, &seen.route);
        }
        let places = stack.chunks_exact(8).take(more.stack.into());
        let addresses: Vec<u64> = places.filter_map(|b| Some(u64::from_ne_bytes(*b.first_chunk()?))).collect();
        if !addresses.is_empty() {
            seen.stack = self.stacks.name(&addresses);
        }
        Some(seen)
    }
}

fn ip(octets: [u8; 16]) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(octets)).to_canonical()
}

/// The ends that a packet had before they were translated.
fn was(bytes: &[u8], now: &Route) -> Option<Box<Route>> {
    let PacketWas { source, destination, source_port, destination_port, .. } = PacketWas::read(bytes)?;
    let (source, destination) = (ip(source), ip(destination));
    Some(Box::new(Route { source, destination, source_port, destination_port, ..*now }))
}

fn read(bytes: &[u8], clock: &Clock) -> Option<Sighting> {
    let r = Packet::read(bytes)?;
    let name = r.device.split(|b| *b == 0).next().unwrap_or_default();
    Some(Sighting {
        time_ns: clock.to_unix(r.time_ns),
        point: point(r.point.into())?,
        netns: r.netns,
        ifindex: r.ifindex,
        device: String::from_utf8_lossy(name).into(),
        function: CompactString::default(),
        cpu: r.cpu,
        route: Route {
            source: ip(r.source),
            destination: ip(r.destination),
            source_port: r.source_port,
            destination_port: r.destination_port,
            protocol: if u32::from(r.kind) == WS_N_OTHER { NOT_IP } else { r.protocol },
        },
        seq: r.seq,
        len: r.len,
        hash: r.hash,
        flags: r.flags,
        tunnel: tunnel(r.tunnel.into())?,
        fragment: u32::from(r.kind) == WS_N_FRAGMENT,
        reason: r.reason,
        queue_len: r.queue_len,
        was: None,
        headers: None,
        stack: Arc::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet() -> Packet {
        let mut device = [0; 16];
        device[..4].copy_from_slice(b"eth0");
        let mapped = |last| std::array::from_fn(|i| [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last][i]);
        let (point, tunnel) = (WS_P_QUEUE as u8, WS_T_VXLAN as u8);
        let (source, destination) = (mapped(1), mapped(2));
        Packet { device, source, destination, point, tunnel, protocol: 6, seq: 7, len: 9, ..Packet::default() }
    }

    #[test]
    fn a_record_is_read_as_the_header_says() {
        let seen = read(&packet().to_bytes(), &Clock::now()).expect("a record");
        assert_eq!((seen.device.as_str(), seen.point, seen.tunnel), ("eth0", Point::Queue, Tunnel::Vxlan));
        assert_eq!(seen.route.source, IpAddr::from([10, 0, 0, 1]));
        assert_eq!((seen.seq, seen.len), (7, 9));
    }

    #[test]
    fn headers_stack_and_function_follow_the_packet() {
        let packet = Packet { point: WS_P_FUNCTION as u8, reason: 1, ..packet() };
        let more = PacketMore { frame: 90, link: 14, headers: 54, ..PacketMore::default() };
        let mut bytes = [&packet.to_bytes()[..], &more.to_bytes()].concat();
        bytes.extend(0..WS_M_HEADERS as u8);
        bytes.extend([0; 8 * WS_M_STACK as usize]);
        let behind = bytes.len();
        bytes.extend(PacketWas::default().to_bytes());
        let mut reader = Reader::new(vec!["ip_rcv".into(), "ip_local_deliver".into()], Vec::new());
        let seen = reader.read(&bytes, &Clock::now()).expect("a record");
        assert_eq!((seen.function.as_str(), seen.reason, seen.stack.len()), ("ip_local_deliver", 0, 0));
        let headers = seen.headers.expect("headers");
        assert_eq!((headers.link_len, headers.frame_len, headers.bytes.len()), (14, 90, 54));
        assert_eq!(headers.bytes[53], 53);
        assert_eq!(seen.was, None, "what follows is not in use");
        assert_eq!(reader.read(&bytes[..Packet::SIZE + 100], &Clock::now()), None, "it is cut");
        bytes[Packet::SIZE + PacketMore::SIZE - 1] = 1;
        bytes.truncate(behind);
        bytes.extend(translated().to_bytes());
        let seen = reader.read(&bytes, &Clock::now()).expect("a record");
        assert_eq!(seen.was.expect("other ends").destination_port, 8080);
        let unknown = Packet { reason: 2, ..packet }.to_bytes();
        assert_eq!(reader.read(&unknown, &Clock::now()), None, "no such function was named");
    }

    fn translated() -> PacketWas {
        let source = std::array::from_fn(|i| [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 168, 0, 9][i]);
        PacketWas { source, destination: source, source_port: 40_000, destination_port: 8080, ..PacketWas::default() }
    }

    #[test]
    fn the_ends_before_a_translation_follow_the_packet() {
        let bytes = [&packet().to_bytes()[..], &translated().to_bytes()].concat();
        let seen = Reader::new(Vec::new(), Vec::new()).read(&bytes, &Clock::now()).expect("a record");
        let was = seen.was.expect("other ends");
        assert_eq!((was.source, was.source_port), (IpAddr::from([192, 168, 0, 9]), 40_000));
        assert_eq!((was.destination_port, was.protocol), (8080, seen.route.protocol));
    }

    #[test]
    fn a_record_of_another_version_is_refused() {
        let bytes = packet().to_bytes();
        assert_eq!(read(&bytes[..95], &Clock::now()), None);
        assert_eq!(read(&Packet { point: 99, ..packet() }.to_bytes(), &Clock::now()), None);
        assert_eq!(read(&Packet { tunnel: 99, ..packet() }.to_bytes(), &Clock::now()), None);
    }

    #[test]
    fn names_of_devices_are_compared_as_words() {
        let [first, second] = device_words("br-0123456789");
        assert_eq!(first.to_ne_bytes(), *b"br-01234");
        assert_eq!(second.to_ne_bytes(), *b"56789\0\0\0");
    }
}
