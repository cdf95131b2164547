//! ICMP of both versions (RFC 792 and RFC 4443): what it says, and of which packet.

use super::ip::{self, Packet};
use std::net::IpAddr;

pub(super) const ICMP: u8 = 1;
pub(super) const ICMP_V6: u8 = 58;

/// A message of ICMP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Icmp {
    /// Who says it.
    pub source: IpAddr,
    /// Whether it is of ICMPv6.
    pub is_v6: bool,
    /// Type.
    pub kind: u8,
    /// Code.
    pub code: u8,
    /// The packet that it is about. Only errors have one; `None`, too, if its header is not there.
    pub about: Option<About>,
}

/// The packet that an error of ICMP is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// Where it was to go.
    pub destination: IpAddr,
    /// Number of its protocol (IANA).
    pub protocol: u8,
    /// The port there, of TCP and UDP, if it is known.
    pub port: Option<u16>,
}

/// Whether a message of this type has the beginning of another packet inside.
fn is_error(is_v6: bool, kind: u8) -> bool {
    match is_v6 {
        true => kind < 128 || kind == 137,
        false => matches!(kind, 3 | 4 | 5 | 11 | 12),
    }
}

/// Bytes before the packet that an error is about. A redirect of ICMPv6 has it in an option, which is not read.
const BEFORE: usize = 8;

pub(super) fn message(packet: &Packet<'_>) -> Result<Icmp, &'static str> {
    let [kind, code] = packet.payload.array(0).ok_or("icmp_cut")?;
    let is_v6 = packet.protocol == ICMP_V6;
    let inside = packet.payload.skip(BEFORE).filter(|_| is_error(is_v6, kind));
    let about = inside.and_then(|view| ip::header(view).ok()).map(|(lost, piece)| {
        let has_ports = matches!(lost.protocol, 6 | 17) && piece.is_none_or(|piece| piece.offset == 0);
        let port = if has_ports { lost.payload.u16(2) } else { None };
        About { destination: lost.destination, protocol: lost.protocol, port }
    });
    Ok(Icmp { source: packet.source, is_v6, kind, code, about })
}
