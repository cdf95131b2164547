//! Link layers: Ethernet with tags, Linux cooked, loopback, raw IP.

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
}

impl Link {
    pub(crate) fn from_number(number: u16) -> Option<Link> {
        match number {
            0 | 108 => Some(Link::Null),
            1 => Some(Link::Ethernet),
            12 | 14 | 101 | 228 | 229 => Some(Link::Raw),
            113 => Some(Link::Sll),
            276 => Some(Link::Sll2),
            _ => None,
        }
    }
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TEB: u16 = 0x6558;

impl Dissector {
    pub(super) fn link(&mut self, link: Link, view: View<'_>, stats: &mut Stats, out: Out<'_>) -> Taken {
        const SHORT: &str = "link_cut";
        match link {
            Link::Ethernet => self.ethernet(view, stats, out),
            Link::Raw => self.ip(view, stats, out),
            // The family's number differs between systems. The IP version behind it does not.
            Link::Null => self.ip(view.skip(4).ok_or(SHORT)?, stats, out),
            Link::Sll => self.ether_type(view.u16(14).ok_or(SHORT)?, view.skip(16).ok_or(SHORT)?, stats, out),
            Link::Sll2 => self.ether_type(view.u16(0).ok_or(SHORT)?, view.skip(20).ok_or(SHORT)?, stats, out),
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
            0x8864 => match view.u16(6) {
                Some(0x0021 | 0x0057) => self.ip(view.skip(8).ok_or("link_cut")?, stats, out),
                _ => Err("link_not_ip"),
            },
            TEB => self.ethernet(view, stats, out),
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
