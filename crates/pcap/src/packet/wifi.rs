//! 802.11 frames and the radiotap header before them (IEEE 802.11-2020, section 9; <https://www.radiotap.org>).
//!
//! Only data frames in clear hold packets. What is encrypted is counted: a capture of a wireless network has to be
//! decrypted first.

use super::{Dissector, Out, Taken, View};
use crate::stats::Stats;

const CUT: &str = "link_cut";
/// Flags of a radiotap header.
const PADDED: u8 = 0x20;
const BAD_CHECKSUM: u8 = 0x40;
/// Bits of the first field of a frame, as the two bytes stand.
const DATA: u8 = 0x08;
const PROTECTED: u8 = 0x40;
const ORDER: u8 = 0x80;
/// Most packets in one frame that are read.
const MAX_AGGREGATED: usize = 64;

impl Dissector {
    pub(super) fn radiotap(&mut self, view: View<'_>, stats: &mut Stats, out: Out<'_>) -> Taken {
        let header = usize::from(u16::from_le_bytes(view.array(2).ok_or(CUT)?));
        if view.u8(0) != Some(0) || header < 8 {
            return Err("link_not_ip");
        }
        let flags = radiotap_flags(view).unwrap_or(0);
        if flags & BAD_CHECKSUM != 0 {
            return Err("link_bad_checksum");
        }
        self.wifi(view.skip(header).ok_or(CUT)?, flags & PADDED != 0, stats, out)
    }

    /// Reads a frame. `padded` says that the packet starts at a multiple of four bytes.
    pub(super) fn wifi(&mut self, view: View<'_>, padded: bool, stats: &mut Stats, out: Out<'_>) -> Taken {
        let [kind, flags] = view.array(0).ok_or(CUT)?;
        // Version 0, type data, and not one of the subtypes without content.
        if kind & 0x0f != DATA || kind & 0x40 != 0 {
            return Err("link_not_ip");
        }
        if flags & PROTECTED != 0 {
            return Err("link_encrypted");
        }
        let (quality, four) = (kind & 0x80 != 0, flags & 3 == 3);
        let mut header = if four { 30 } else { 24 };
        let mut aggregated = false;
        if quality {
            aggregated = view.u8(header).ok_or(CUT)? & 0x80 != 0;
            header += if flags & ORDER != 0 { 6 } else { 2 };
        }
        if padded {
            header = header.next_multiple_of(4);
        }
        let mut rest = view.skip(header).ok_or(CUT)?;
        if !aggregated {
            return self.llc(rest, stats, out);
        }
        let mut taken = Err("link_not_ip");
        for _ in 0..MAX_AGGREGATED {
            // Two addresses and a length; each part but the last is padded.
            let Some(len) = rest.u16(12).map(usize::from).filter(|len| *len > 0) else { break };
            let Some(part) = rest.skip(14) else { break };
            let was = self.llc(part.limit(len), stats, out);
            taken = taken.or(was);
            let Some(next) = rest.skip((14 + len).next_multiple_of(4)) else { break };
            rest = next;
        }
        taken
    }
}

/// The flags of a radiotap header, if it has them: behind the words of presence and, if there is one, the time.
fn radiotap_flags(view: View<'_>) -> Option<u8> {
    let mut at = 4;
    let first = u32::from_le_bytes(view.array(at)?);
    let mut present = first;
    while present & 0x8000_0000 != 0 {
        at += 4;
        present = u32::from_le_bytes(view.array(at)?);
    }
    at += 4;
    if first & 1 != 0 {
        at = at.next_multiple_of(8) + 8;
    }
    if first & 2 == 0 {
        return None;
    }
    view.u8(at)
}
