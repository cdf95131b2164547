//! Messages of ctnetlink (`include/uapi/linux/netfilter/nfnetlink_conntrack.h`): one question, one answer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wirespan_model::{Endpoint, Transport};

const HEADER: usize = 16;
/// `struct nfgenmsg`.
const FAMILY: usize = 4;
/// `NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET`; an answer is `IPCTNL_MSG_CT_NEW`.
const GET: u16 = 1 << 8 | 1;
const NEW: u16 = 1 << 8;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NLA_F_NESTED: u16 = 1 << 15;
const TYPE_MASK: u16 = 0x3fff;

const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
const CTA_IP_V4_SRC: u16 = 1;
const CTA_IP_V4_DST: u16 = 2;
const CTA_IP_V6_SRC: u16 = 3;
const CTA_IP_V6_DST: u16 = 4;
const CTA_PROTO_NUM: u16 = 1;
const CTA_PROTO_SRC_PORT: u16 = 2;
const CTA_PROTO_DST_PORT: u16 = 3;

const ENOENT: i32 = 2;

/// A packet's ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tuple {
    pub(super) transport: Transport,
    pub(super) source: Endpoint,
    pub(super) destination: Endpoint,
}

impl Tuple {
    pub(super) fn new(transport: Transport, source: Endpoint, destination: Endpoint) -> Self {
        Tuple { transport, source, destination }
    }
}

/// A tracked connection: its packets one way before any translation, and the other way after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) original: Tuple,
    pub(super) reply: Tuple,
}

/// Why there is no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The kernel's error number.
    Refused(i32),
    /// Not a message of this kind, or one cut short.
    Malformed,
}

fn attribute(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
    out.extend(length.to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

fn ip_bytes(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().into(),
        IpAddr::V6(ip) => ip.octets().into(),
    }
}

/// The question for the connection of this packet.
pub(super) fn question(tuple: &Tuple, sequence: u32) -> Vec<u8> {
    let v6 = tuple.source.ip.is_ipv6();
    let (source, destination) = if v6 { (CTA_IP_V6_SRC, CTA_IP_V6_DST) } else { (CTA_IP_V4_SRC, CTA_IP_V4_DST) };
    let (mut ip, mut proto, mut whole) = (Vec::new(), Vec::new(), Vec::new());
    attribute(&mut ip, source, &ip_bytes(tuple.source.ip));
    attribute(&mut ip, destination, &ip_bytes(tuple.destination.ip));
    attribute(&mut proto, CTA_PROTO_NUM, &[if tuple.transport == Transport::Udp { 17 } else { 6 }]);
    attribute(&mut proto, CTA_PROTO_SRC_PORT, &tuple.source.port.to_be_bytes());
    attribute(&mut proto, CTA_PROTO_DST_PORT, &tuple.destination.port.to_be_bytes());
    attribute(&mut whole, CTA_TUPLE_IP | NLA_F_NESTED, &ip);
    attribute(&mut whole, CTA_TUPLE_PROTO | NLA_F_NESTED, &proto);
    let mut body = vec![if v6 { 10 } else { 2 }, 0, 0, 0];
    attribute(&mut body, CTA_TUPLE_ORIG | NLA_F_NESTED, &whole);
    let mut out = Vec::with_capacity(HEADER + body.len());
    out.extend(u32::try_from(HEADER + body.len()).unwrap_or(u32::MAX).to_ne_bytes());
    out.extend(GET.to_ne_bytes());
    out.extend(NLM_F_REQUEST.to_ne_bytes());
    out.extend(sequence.to_ne_bytes());
    out.extend(0u32.to_ne_bytes());
    out.extend(body);
    out
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Attributes of a buffer, until it ends or one is cut short.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (length, kind) = (usize::from(u16_at(bytes, 0)?), u16_at(bytes, 2)?);
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & TYPE_MASK, value))
    })
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        16 => Some(IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)).to_canonical()),
        _ => None,
    }
}

fn tuple(bytes: &[u8]) -> Option<Tuple> {
    let (mut ips, mut ports, mut transport) = ([None; 2], [None; 2], None);
    for (kind, value) in attributes(bytes) {
        for (inner, value) in attributes(value) {
            match (kind, inner) {
                (CTA_TUPLE_IP, CTA_IP_V4_SRC | CTA_IP_V6_SRC) => ips[0] = ip(value),
                (CTA_TUPLE_IP, CTA_IP_V4_DST | CTA_IP_V6_DST) => ips[1] = ip(value),
                (CTA_TUPLE_PROTO, CTA_PROTO_NUM) => {
                    transport = match value.first() {
                        Some(6) => Some(Transport::Tcp),
                        Some(17) => Some(Transport::Udp),
                        _ => None,
                    };
                }
                (CTA_TUPLE_PROTO, CTA_PROTO_SRC_PORT) => ports[0] = value.try_into().ok().map(u16::from_be_bytes),
                (CTA_TUPLE_PROTO, CTA_PROTO_DST_PORT) => ports[1] = value.try_into().ok().map(u16::from_be_bytes),
                _ => {}
            }
        }
    }
    Some(Tuple {
        transport: transport?,
        source: Endpoint { ip: ips[0]?, port: ports[0]? },
        destination: Endpoint { ip: ips[1]?, port: ports[1]? },
    })
}

/// Sequence number of an answer.
pub(super) fn sequence(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(8..12)?.try_into().ok()?))
}

/// The answer; `None` if there is no such connection.
pub(super) fn answer(bytes: &[u8]) -> Result<Option<Entry>, Failure> {
    let kind = u16_at(bytes, 4).ok_or(Failure::Malformed)?;
    let body = bytes.get(HEADER..).ok_or(Failure::Malformed)?;
    match kind {
        NLMSG_ERROR => {
            let code: [u8; 4] = body.get(..4).and_then(|b| b.try_into().ok()).ok_or(Failure::Malformed)?;
            match i32::from_ne_bytes(code).saturating_neg() {
                0 | ENOENT => Ok(None),
                code => Err(Failure::Refused(code)),
            }
        }
        NEW => {
            let mut ends = [None; 2];
            for (kind, value) in attributes(body.get(FAMILY..).ok_or(Failure::Malformed)?) {
                match kind {
                    CTA_TUPLE_ORIG => ends[0] = tuple(value),
                    CTA_TUPLE_REPLY => ends[1] = tuple(value),
                    _ => {}
                }
            }
            match ends {
                [Some(original), Some(reply)] => Ok(Some(Entry { original, reply })),
                _ => Err(Failure::Malformed),
            }
        }
        _ => Err(Failure::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(ip: &str, port: u16) -> Endpoint {
        Endpoint::new(ip.parse().expect("an address"), port)
    }

    /// An answer is built of the same parts as a question.
    fn entry(original: &Tuple, reply: &Tuple) -> Vec<u8> {
        let mut out = question(original, 7);
        let mut second = question(reply, 7).split_off(HEADER + FAMILY);
        second[2..4].copy_from_slice(&(CTA_TUPLE_REPLY | NLA_F_NESTED).to_ne_bytes());
        out.extend(second);
        out[4..6].copy_from_slice(&NEW.to_ne_bytes());
        out
    }

    #[test]
    fn an_entry_is_read_whole_and_no_cut_or_flip_panics() {
        for (a, b, c) in [("10.0.0.1", "10.96.0.1", "10.0.1.2"), ("fd00::1", "fd00::96", "fd00::2")] {
            let original = Tuple::new(Transport::Tcp, end(a, 40_000), end(b, 80));
            let reply = Tuple::new(Transport::Tcp, end(c, 8080), end(a, 40_000));
            let bytes = entry(&original, &reply);
            assert_eq!(answer(&bytes), Ok(Some(Entry { original, reply })));
            assert_eq!(sequence(&bytes), Some(7));
            for cut in 0..bytes.len() {
                let _ = answer(&bytes[..cut]);
                for bit in 0..8 {
                    let mut flipped = bytes.clone();
                    flipped[cut] ^= 1 << bit;
                    let _ = answer(&flipped);
                }
            }
        }
    }

    #[test]
    fn errors_are_told_apart() {
        let error = |code: i32| {
            let mut bytes = vec![0; HEADER];
            bytes[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
            bytes.extend((-code).to_ne_bytes());
            bytes
        };
        assert_eq!(answer(&error(ENOENT)), Ok(None));
        assert_eq!(answer(&error(1)), Err(Failure::Refused(1)));
        assert_eq!(answer(&[]), Err(Failure::Malformed));
    }
}
