//! Link layers: Ethernet with tags, Linux cooked, loopback, raw IP, PPP. [`super::wifi`] reads 802.11, and
//! [`super::wrapped`] the headers that a capturing system puts before a packet.

use super::{Dissector, Out, Taken, View};
use crate::stats::Stats;

/// What the first byte of a frame is (<https://www.tcpdump.org/linktypes.html>).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Link {
    #[default]
    Ethernet,
    /// BSD loopback: an address family as the capturing machine numbers it, then IP.
    Null,
    /// IP of either version.
    Raw,
    /// Linux cooked, version 1 (`tcpdump -i any` of older releases).
    Sll,
    /// Linux cooked, version 2.
    Sll2,
    /// PPP, with or without the address and control bytes of HDLC.
    Ppp,
    /// PPP behind one byte that tells the direction.
    PppDirection,
    /// PPPoE without its Ethernet header.
    PppOe,
    /// Cisco HDLC.
    CiscoHdlc,
    /// 802.11.
    Wifi,
    /// Radiotap, then 802.11 (captures of a monitoring card).
    Radiotap,
    /// Per-Packet Information, then a packet of the link that it names.
    Ppi,
    /// Packets that a rule of netfilter logs.
    Nflog,
    /// Packets that a rule of pf logs.
    Pflog,
    /// Packets with the process that they belong to (macOS), of the link that each names.
    Pktap,
}

impl Link {
    pub(crate) fn from_number(number: u16) -> Option<Link> {
        match number {
            0 | 108 => Some(Link::Null),
            1 => Some(Link::Ethernet),
            12 | 14 | 101 | 228 | 229 => Some(Link::Raw),
            9 | 50 | 166 => Some(Link::Ppp),
            51 => Some(Link::PppOe),
            104 => Some(Link::CiscoHdlc),
            105 => Some(Link::Wifi),
            113 => Some(Link::Sll),
            117 => Some(Link::Pflog),
            127 => Some(Link::Radiotap),
            // 149 is free for any use; macOS used it before 258 was assigned, and the header tells.
            149 | 258 => Some(Link::Pktap),
            192 => Some(Link::Ppi),
            204 => Some(Link::PppDirection),
            239 => Some(Link::Nflog),
            276 => Some(Link::Sll2),
            _ => None,
        }
    }
}

/// What there is to say in an error's text of the links that are known.
pub(crate) const KNOWN: &str = "Ethernet, Linux cooked (SLL, SLL2), raw IP, loopback, PPP, Cisco HDLC, Wi-Fi (802.11, \
    radiotap, PPI), NFLOG, PFLOG and PKTAP";

pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86dd;
const TEB: u16 = 0x6558;

impl Dissector {
    pub(super) fn link(&mut self, link: Link, view: View<'_>, stats: &mut Stats, out: Out<'_>) -> Taken {
        const SHORT: &str = "link_cut";
        let view = view.deeper();
        if view.depth > super::MAX_DEPTH {
            return Err("packet_too_deep");
        }
        match link {
            Link::Ethernet => self.ethernet(view, stats, out),
            Link::Raw => self.ip(view, stats, out),
            // The family's number differs between systems. The IP version behind it does not.
            Link::Null => self.ip(view.skip(4).ok_or(SHORT)?, stats, out),
            Link::Sll => self.ether_type(view.u16(14).ok_or(SHORT)?, view.skip(16).ok_or(SHORT)?, stats, out),
            Link::Sll2 => self.ether_type(view.u16(0).ok_or(SHORT)?, view.skip(20).ok_or(SHORT)?, stats, out),
            Link::Ppp => self.ppp(view, stats, out),
            Link::PppDirection => self.ppp(view.skip(1).ok_or(SHORT)?, stats, out),
            Link::PppOe => self.ppp(view.skip(6).ok_or(SHORT)?, stats, out),
            Link::CiscoHdlc => self.ether_type(view.u16(2).ok_or(SHORT)?, view.skip(4).ok_or(SHORT)?, stats, out),
            Link::Wifi => self.wifi(view, false, stats, out),
            Link::Radiotap => self.radiotap(view, stats, out),
            Link::Ppi => self.ppi(view, stats, out),
            Link::Nflog => self.nflog(view, stats, out),
            Link::Pflog => self.pflog(view, stats, out),
            Link::Pktap => self.pktap(view, stats, out),
        }
    }

    pub(super) fn ethernet(&mut self, view: View<'_>, stats: &mut Stats, out: Out<'_>) -> Taken {
        let kind = view.u16(12).ok_or("link_cut")?;
        self.ether_type(kind, view.skip(14).ok_or("link_cut")?, stats, out)
    }

    /// Reads the payload of an EtherType. VLAN tags are no part of a connection's identity, as a mirror port may show
    /// only one direction tagged.
    pub(super) fn ether_type(&mut self, kind: u16, view: View<'_>, stats: &mut Stats, out: Out<'_>) -> Taken {
        let view = view.deeper();
        if view.depth > super::MAX_DEPTH {
            return Err("packet_too_deep");
        }
        match kind {
            IPV4 | IPV6 => self.ip(view, stats, out),
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => {
                let inner = view.u16(2).ok_or("link_cut")?;
                self.ether_type(inner, view.skip(4).ok_or("link_cut")?, stats, out)
            }
            0x8847 | 0x8848 => self.mpls(view, stats, out),
            0x8864 => self.ppp(view.skip(6).ok_or("link_cut")?, stats, out),
            // 802.3: no type but a length, and LLC behind it.
            ..=1500 => self.llc(view.limit(usize::from(kind)), stats, out),
            TEB => self.ethernet(view, stats, out),
            _ => Err("link_not_ip"),
        }
    }

    /// Reads PPP (RFC 1661, RFC 1662): address and control may be left out, and so may a protocol's first byte.
    fn ppp(&mut self, view: View<'_>, stats: &mut Stats, out: Out<'_>) -> Taken {
        const SHORT: &str = "link_cut";
        // Some systems write the direction (0 or 1) in place of the address.
        let framed = matches!(view.u16(0).ok_or(SHORT)?, 0xff03 | 0x0003 | 0x0103);
        let view = if framed { view.skip(2).ok_or(SHORT)? } else { view };
        let first = view.u8(0).ok_or(SHORT)?;
        let (protocol, len) = if first & 1 == 1 { (u16::from(first), 1) } else { (view.u16(0).ok_or(SHORT)?, 2) };
        let inner = view.skip(len).ok_or(SHORT)?;
        match protocol {
            0x0021 | 0x0057 => self.ip(inner, stats, out),
            0x0281 | 0x0283 => self.mpls(inner, stats, out),
            _ => Err("link_not_ip"),
        }
    }

    /// Reads LLC with SNAP (802.2): an EtherType behind it.
    pub(super) fn llc(&mut self, view: View<'_>, stats: &mut Stats, out: Out<'_>) -> Taken {
        match view.array::<6>(0).ok_or("link_cut")? {
            [0xaa, 0xaa, 3, 0, 0, 0] => {
                let kind = view.u16(6).filter(|kind| *kind > 1500).ok_or("link_not_ip")?;
                self.ether_type(kind, view.skip(8).ok_or("link_cut")?, stats, out)
            }
            _ => Err("link_not_ip"),
        }
    }

    /// Skips MPLS labels up to the last. No field tells the payload's protocol, so the IP version must.
    fn mpls(&mut self, mut view: View<'_>, stats: &mut Stats, out: Out<'_>) -> Taken {
        for _ in 0..super::MAX_DEPTH {
            let label = view.u32(0).ok_or("link_cut")?;
            view = view.skip(4).ok_or("link_cut")?;
            if label & 0x100 != 0 {
                return self.ip(view, stats, out);
            }
        }
        Err("packet_too_deep")
    }
}
