//! IPv4 and IPv6 headers, extension headers, and their payloads.

use super::fragment::Piece;
use super::icmp::{self, ICMP, ICMP_V6};
use super::transport;
use super::{Dissector, Out, Taken, Transported, View};
use crate::stats::Stats;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses and payload of one IP packet.
#[derive(Clone, Copy)]
pub(super) struct Packet<'a> {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) protocol: u8,
    /// IPv4 identification; 0 for IPv6. It tells a packet that was captured twice from one that was sent twice.
    pub(super) id: u16,
    /// Time to live, or hop limit.
    pub(super) ttl: u8,
    pub(super) payload: View<'a>,
}

const CUT: &str = "ip_cut";

/// Reads the headers of IP; a fragment has its place, too.
pub(super) fn header(view: View<'_>) -> Result<(Packet<'_>, Option<Piece>), &'static str> {
    match view.u8(0).ok_or(CUT)? >> 4 {
        4 => ipv4(view),
        6 => ipv6(view),
        _ => Err("ip_bad_version"),
    }
}

fn ipv4(view: View<'_>) -> Result<(Packet<'_>, Option<Piece>), &'static str> {
    let header = usize::from(view.u8(0).ok_or(CUT)? & 0x0f) * 4;
    let total = match usize::from(view.u16(2).ok_or(CUT)?) {
        0 => view.wire, // the sender offloads segmentation and leaves the length to the network card
        total => total,
    };
    if header < 20 || total < header {
        return Err("ip_bad_length");
    }
    let (source, destination) = (view.array::<4>(12).ok_or(CUT)?, view.array::<4>(16).ok_or(CUT)?);
    let id = view.u16(4).ok_or(CUT)?;
    let packet = Packet {
        source: Ipv4Addr::from(source).into(),
        destination: Ipv4Addr::from(destination).into(),
        protocol: view.u8(9).ok_or(CUT)?,
        id,
        ttl: view.u8(8).ok_or(CUT)?,
        payload: view.limit(total).skip(header).ok_or(CUT)?,
    };
    let flags = view.u16(6).ok_or(CUT)?;
    let piece = Piece { id: u32::from(id), offset: usize::from(flags & 0x1fff) * 8, last: flags & 0x2000 == 0 };
    Ok((packet, (flags & 0x3fff != 0).then_some(piece)))
}

fn ipv6(view: View<'_>) -> Result<(Packet<'_>, Option<Piece>), &'static str> {
    let (source, destination) = (view.array::<16>(8).ok_or(CUT)?, view.array::<16>(24).ok_or(CUT)?);
    let mut next = view.u8(6).ok_or(CUT)?;
    let ttl = view.u8(7).ok_or(CUT)?;
    let length = match usize::from(view.u16(4).ok_or(CUT)?) {
        0 => view.wire, // a jumbogram, or a sender that offloads segmentation
        length => length + 40,
    };
    let mut rest = view.limit(length).skip(40).ok_or(CUT)?;
    for _ in 0..super::MAX_DEPTH {
        let packet = |protocol, payload| Packet {
            source: Ipv6Addr::from(source).into(),
            destination: Ipv6Addr::from(destination).into(),
            protocol,
            id: 0,
            ttl,
            payload,
        };
        let after = match next {
            0 | 43 | 60 | 135 => rest.skip((usize::from(rest.u8(1).ok_or(CUT)?) + 1) * 8),
            51 => rest.skip((usize::from(rest.u8(1).ok_or(CUT)?) + 2) * 4),
            44 => {
                let (place, id) = (rest.u16(2).ok_or(CUT)?, rest.u32(4).ok_or(CUT)?);
                let packet = packet(rest.u8(0).ok_or(CUT)?, rest.skip(8).ok_or(CUT)?);
                let piece = Piece { id, offset: usize::from(place & 0xfff8), last: place & 1 == 0 };
                // An "atomic" fragment is whole.
                let is_whole = piece.offset == 0 && piece.last;
                return Ok((packet, (!is_whole).then_some(piece)));
            }
            _ => return Ok((packet(next, rest), None)),
        };
        next = rest.u8(0).ok_or(CUT)?;
        rest = after.ok_or(CUT)?;
    }
    Err("packet_too_deep")
}

impl Dissector {
    pub(super) fn ip(&mut self, view: View<'_>, stats: &mut Stats, out: Out<'_>) -> Taken {
        let view = view.deeper();
        if view.depth > super::MAX_DEPTH {
            return Err("packet_too_deep");
        }
        match header(view)? {
            (packet, None) => self.payload(packet, stats, out),
            (packet, Some(piece)) => self.fragment(packet, piece, stats, out),
        }
    }

    fn fragment(&mut self, packet: Packet<'_>, piece: Piece, stats: &mut Stats, out: Out<'_>) -> Taken {
        stats.bump("fragments");
        let Some(whole) = self.fragments.add(&packet, piece, self.time_ns, stats) else { return Ok(()) };
        let payload = View { data: &whole.data, wire: whole.wire, ..packet.payload };
        self.payload(Packet { protocol: whole.protocol, payload, ..packet }, stats, out)
    }

    fn payload(&mut self, packet: Packet<'_>, stats: &mut Stats, out: Out<'_>) -> Taken {
        match packet.protocol {
            6 => {
                let segment = transport::tcp(&packet, self.time_ns)?;
                stats.segments += 1;
                out(Transported::Tcp(segment), stats);
                Ok(())
            }
            17 => {
                let datagram = transport::udp(&packet, self.time_ns)?;
                if self.udp_tunnel(&packet, stats, out)? {
                    return Ok(());
                }
                stats.datagrams += 1;
                out(Transported::Udp(datagram), stats);
                Ok(())
            }
            4 | 41 => self.ip(packet.payload, stats, out),
            47 => self.gre(packet.payload, stats, out),
            137 => Err("ip_mpls"),
            ICMP | ICMP_V6 => {
                let message = icmp::message(&packet)?;
                stats.icmp += 1;
                out(Transported::Icmp(message), stats);
                Ok(())
            }
            50 => Err("ip_encrypted"),
            _ => Err("ip_other_protocol"),
        }
    }
}
