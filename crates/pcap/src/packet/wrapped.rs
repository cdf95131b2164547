//! Headers that a capturing system puts before a packet: NFLOG, PFLOG, PKTAP, PPI.
//!
//! See <https://www.tcpdump.org/linktypes.html>.

use super::link::{Link, IPV4, IPV6};
use super::{Dissector, Out, Taken, View};
use crate::stats::Stats;

const CUT: &str = "link_cut";
/// The attribute of NFLOG that holds the packet (`NFULA_PAYLOAD`).
const PAYLOAD: u16 = 9;
/// Most attributes of a packet; the kernel knows fewer than 30.
const MAX_ATTRIBUTES: usize = 64;

fn le16(view: View<'_>, at: usize) -> Option<u16> {
    view.array(at).map(u16::from_le_bytes)
}

fn le32(view: View<'_>, at: usize) -> Option<u32> {
    view.array(at).map(u32::from_le_bytes)
}

impl Dissector {
    /// Family, version, number of the group; then attributes with length and type in the byte order of the machine.
    pub(super) fn nflog(&mut self, view: View<'_>, stats: &mut Stats, out: Out<'_>) -> Taken {
        let family = view.u8(0).ok_or(CUT)?;
        let mut rest = view.skip(4).ok_or(CUT)?;
        for _ in 0..MAX_ATTRIBUTES {
            let (little, big) = (le16(rest, 2).ok_or(CUT)?, rest.u16(2).ok_or(CUT)?);
            // Types are small, so that their bytes tell the byte order of the machine.
            let (len, kind) = if little <= 0xff { (le16(rest, 0), little) } else { (rest.u16(0), big) };
            let len = len.ok_or(CUT)?;
            let len = usize::from(len);
            if len < 4 {
                return Err("link_not_ip");
            }
            if kind == PAYLOAD {
                let packet = rest.limit(len).skip(4).ok_or(CUT)?;
                return match family {
                    2 => self.ether_type(IPV4, packet, stats, out),
                    10 => self.ether_type(IPV6, packet, stats, out),
                    // Bridges log frames whose Ethernet header stands in another attribute.
                    _ => self.ip(packet, stats, out),
                };
            }
            rest = rest.skip(len.next_multiple_of(4)).ok_or(CUT)?;
        }
        Err("link_not_ip")
    }

    /// The length of the header, padded to four bytes.
    pub(super) fn pflog(&mut self, view: View<'_>, stats: &mut Stats, out: Out<'_>) -> Taken {
        let header = usize::from(view.u8(0).ok_or(CUT)?).next_multiple_of(4);
        if header < 28 {
            return Err("link_not_ip");
        }
        self.ip(view.skip(header).ok_or(CUT)?, stats, out)
    }

    /// Length of the header, type of the record (1 is a packet), link of the packet.
    pub(super) fn pktap(&mut self, view: View<'_>, stats: &mut Stats, out: Out<'_>) -> Taken {
        let (len, kind, link) = (le32(view, 0).ok_or(CUT)?, le32(view, 4).ok_or(CUT)?, le32(view, 8).ok_or(CUT)?);
        let len = usize::try_from(len).ok().filter(|len| (108..=4096).contains(len) && kind == 1);
        self.named(link, view.skip(len.ok_or("link_not_ip")?).ok_or(CUT)?, stats, out)
    }

    /// Version, flags, length of the header, link of the packet.
    pub(super) fn ppi(&mut self, view: View<'_>, stats: &mut Stats, out: Out<'_>) -> Taken {
        let (len, link) = (le16(view, 2).ok_or(CUT)?, le32(view, 4).ok_or(CUT)?);
        if view.u8(0) != Some(0) || len < 8 {
            return Err("link_not_ip");
        }
        self.named(link, view.skip(usize::from(len)).ok_or(CUT)?, stats, out)
    }

    fn named(&mut self, link: u32, view: View<'_>, stats: &mut Stats, out: Out<'_>) -> Taken {
        let link = u16::try_from(link).ok().and_then(Link::from_number).ok_or("link_unsupported")?;
        self.link(link, view, stats, out)
    }
}
