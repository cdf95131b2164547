//! Tunnels: GRE (with Ethernet, IP or ERSPAN inside), VXLAN and its extensions, Geneve. The IP reader handles IP in IP.

use super::ip::Packet;
use super::{Dissector, Out, Taken, View};
use crate::stats::Stats;

const CUT: &str = "tunnel_cut";
const VXLAN: u64 = 1;
const GENEVE: u64 = 2;
const GRE: u64 = 3;
/// UDP ports of VXLAN: RFC 7348, the port that Linux used before a number was assigned, and VXLAN-GPE.
const VXLAN_PORTS: [u16; 2] = [4789, 8472];
const VXLAN_GPE_PORT: u16 = 4790;
/// The flag that the network's id is valid. All other bits are reserved or an extension's, and receivers must ignore
/// them (RFC 7348, section 5). Group policies use the bits of [`VXLAN_POLICY`] and the two bytes behind the flags.
const VXLAN_ID: u8 = 0x08;
const VXLAN_POLICY: u16 = 0x8048;
const GENEVE_PORT: u16 = 6081;

impl Dissector {
    /// Reads GRE (RFC 2784 and 2890) and ERSPAN (draft-foschiano-erspan).
    pub(super) fn gre(&mut self, view: View<'_>, stats: &mut Stats, out: Out<'_>) -> Taken {
        let flags = view.u16(0).ok_or(CUT)?;
        let kind = view.u16(2).ok_or(CUT)?;
        if flags & 0x4007 != 0 {
            return Err("tunnel_unsupported"); // source routes, or version 1 (PPTP)
        }
        let (checksum, key, sequence) = (flags & 0x8000 != 0, flags & 0x2000 != 0, flags & 0x1000 != 0);
        let mut inner = view.skip(4 + 4 * usize::from(checksum)).ok_or(CUT)?;
        if key {
            let id = inner.u32(0).ok_or(CUT)?;
            inner = inner.skip(4).ok_or(CUT)?.inside(GRE, id);
        }
        if sequence {
            inner = inner.skip(4).ok_or(CUT)?;
        }
        match kind {
            // ERSPAN headers: type I has none and no sequence number, II has eight bytes, III twelve or twenty.
            0x88be if !sequence => self.tunnelled_ethernet(inner, stats, out),
            0x88be => self.tunnelled_ethernet(inner.skip(8).ok_or(CUT)?, stats, out),
            0x22eb => {
                let platform = inner.u8(11).ok_or(CUT)? & 1 != 0;
                self.tunnelled_ethernet(inner.skip(if platform { 20 } else { 12 }).ok_or(CUT)?, stats, out)
            }
            kind => self.ether_type(kind, inner, stats, out),
        }
    }

    /// True if the datagram was a tunnel's. Its payload was read.
    pub(super) fn udp_tunnel(
        &mut self,
        packet: &Packet<'_>,
        stats: &mut Stats,
        out: Out<'_>,
    ) -> Result<bool, &'static str> {
        let (Some(port), Some(body)) = (packet.payload.u16(2), packet.payload.skip(8)) else { return Ok(false) };
        if port == GENEVE_PORT {
            return self.geneve(body, stats, out);
        }
        let (Some([flags, more, _, next]), Some(vni)) = (body.array::<4>(0), body.u32(4)) else { return Ok(false) };
        let Some(inner) = body.skip(8).filter(|_| flags & VXLAN_ID != 0) else { return Ok(false) };
        let inside = inner.inside(VXLAN, vni >> 8);
        if port == VXLAN_GPE_PORT {
            // The flag that the next protocol is told (draft-ietf-nvo3-vxlan-gpe).
            let next = if flags & 4 != 0 { next } else { 3 };
            match next {
                1 | 2 => self.ip(inside, stats, out)?,
                3 => self.tunnelled_ethernet(inside, stats, out)?,
                _ => return Err("tunnel_unsupported"),
            }
            return Ok(true);
        }
        // On another port, VXLAN is recognised by its flags and by a valid payload.
        let plain = u16::from_be_bytes([flags & !VXLAN_ID, more]) & !VXLAN_POLICY == 0 && vni & 0xff == 0;
        if VXLAN_PORTS.contains(&port) || plain && holds_ipv4(inner) {
            self.tunnelled_ethernet(inside, stats, out)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Reads Geneve (RFC 8926).
    fn geneve(&mut self, body: View<'_>, stats: &mut Stats, out: Out<'_>) -> Result<bool, &'static str> {
        let (Some(first), Some(kind), Some(vni)) = (body.u8(0), body.u16(2), body.u32(4)) else { return Ok(false) };
        if first >> 6 != 0 {
            return Ok(false);
        }
        let options = usize::from(first & 0x3f) * 4;
        let inner = body.skip(8 + options).ok_or(CUT)?;
        self.ether_type(kind, inner.inside(GENEVE, vni >> 8), stats, out)?;
        Ok(true)
    }

    fn tunnelled_ethernet(&mut self, view: View<'_>, stats: &mut Stats, out: Out<'_>) -> Taken {
        let view = view.deeper();
        if view.depth > super::MAX_DEPTH {
            return Err("packet_too_deep");
        }
        self.ethernet(view, stats, out)
    }
}

/// True for an Ethernet frame with an IPv4 header whose checksum is right.
fn holds_ipv4(frame: View<'_>) -> bool {
    if frame.u16(12) != Some(0x0800) {
        return false;
    }
    let header = frame.u8(14).filter(|first| first >> 4 == 4).map(|first| usize::from(first & 0x0f) * 4);
    let Some(header) = header.filter(|len| *len >= 20).and_then(|len| frame.data.get(14..14 + len)) else {
        return false;
    };
    let sum: u32 = header.chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    (sum & 0xffff) + (sum >> 16) == 0xffff
}
