//! Packets: fixed header, and the parts of the others that are kept.

use crate::framing::frames::Measure;
use crate::framing::Cursor;
use crate::text::len64;
use wirespan_model::Side;

/// Most bytes of a packet that are looked at: a topic and properties.
pub(super) const WANT: u64 = 2048;

/// Packet types.
pub(super) mod kind {
    pub(crate) const CONNECT: u8 = 1;
    pub(crate) const CONNACK: u8 = 2;
    pub(crate) const PUBLISH: u8 = 3;
    pub(crate) const PUBACK: u8 = 4;
    pub(crate) const PUBREC: u8 = 5;
    pub(crate) const PUBREL: u8 = 6;
    pub(crate) const PUBCOMP: u8 = 7;
    pub(crate) const SUBSCRIBE: u8 = 8;
    pub(crate) const SUBACK: u8 = 9;
    pub(crate) const UNSUBSCRIBE: u8 = 10;
    pub(crate) const UNSUBACK: u8 = 11;
    pub(crate) const PINGREQ: u8 = 12;
    pub(crate) const PINGRESP: u8 = 13;
    pub(crate) const DISCONNECT: u8 = 14;
    pub(crate) const AUTH: u8 = 15;
}

/// A fixed header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) kind: u8,
    pub(super) flags: u8,
    /// Length of the header itself, 2 to 5 bytes.
    pub(super) len: usize,
    /// Length of the packet behind the header.
    pub(super) remaining: u64,
}

impl Header {
    pub(super) fn qos(self) -> u8 {
        (self.flags >> 1) & 3
    }

    /// Length of the packet.
    pub(super) fn total(self) -> u64 {
        len64(self.len).saturating_add(self.remaining)
    }
}

/// Reads a fixed header; `Err(true)` asks for more bytes.
pub(super) fn header(bytes: &[u8]) -> Result<Header, bool> {
    let first = *bytes.first().ok_or(true)?;
    let (kind, flags) = (first >> 4, first & 15);
    let flags_ok = match kind {
        0 => false,
        kind::PUBLISH => flags & 6 != 6,
        kind::PUBREL | kind::SUBSCRIBE | kind::UNSUBSCRIBE => flags == 2,
        _ => flags == 0,
    };
    if !flags_ok {
        return Err(false);
    }
    let (mut remaining, mut shift) = (0u64, 0u32);
    for (i, b) in bytes.iter().enumerate().skip(1).take(4) {
        remaining |= u64::from(b & 0x7f) << shift;
        shift = shift.saturating_add(7);
        if b & 0x80 == 0 {
            // The standard asks for the shortest form.
            let shortest = *b != 0 || i == 1;
            let head = Header { kind, flags, len: i.saturating_add(1), remaining };
            return if shortest && head.lengths_ok() { Ok(head) } else { Err(false) };
        }
    }
    Err(bytes.len() < 5)
}

impl Header {
    /// Lengths that the type rules out in every version are nonsense.
    fn lengths_ok(self) -> bool {
        let n = self.remaining;
        match self.kind {
            kind::PINGREQ | kind::PINGRESP => n == 0,
            kind::CONNECT => n >= 10,
            kind::CONNACK | kind::PUBACK | kind::PUBREC | kind::PUBREL | kind::PUBCOMP | kind::UNSUBACK => {
                (2..0x1_0000).contains(&n)
            }
            kind::PUBLISH => n >= 2,
            kind::SUBSCRIBE | kind::UNSUBSCRIBE => n >= 5,
            kind::SUBACK => n >= 3,
            _ => n < 0x1_0000,
        }
    }
}

/// Whether this end may send packets of this type.
pub(super) fn allowed(side: Side, kind: u8) -> bool {
    match kind {
        kind::CONNECT | kind::SUBSCRIBE | kind::UNSUBSCRIBE | kind::PINGREQ => side == Side::Client,
        kind::CONNACK | kind::SUBACK | kind::UNSUBACK | kind::PINGRESP => side == Side::Server,
        _ => true,
    }
}

/// Topic names and filters are UTF-8 without control characters.
pub(super) fn is_topic(bytes: &[u8], filter: bool) -> bool {
    std::str::from_utf8(bytes)
        .is_ok_and(|t| !t.is_empty() && !t.chars().any(|c| c.is_control() || (!filter && matches!(c, '+' | '#'))))
}

/// Whether the bytes behind a header fit the header, as far as they are there.
pub(super) fn plausible(head: Header, packet: &[u8]) -> bool {
    let body = packet.get(head.len..).unwrap_or_default();
    let mut at = Cursor::new(body);
    let whole = len64(body.len()) >= head.remaining;
    match head.kind {
        kind::CONNECT => connect_start(body).is_some(),
        kind::PUBLISH => {
            let topic = at.bytes16();
            let id_ok = head.qos() == 0 || at.u16().map_or(!whole, |id| id != 0);
            topic.map_or(!whole, |t| is_topic(t, false)) && id_ok
        }
        kind::SUBSCRIBE | kind::UNSUBSCRIBE => at.u16().is_none_or(|id| id != 0),
        kind::PUBACK | kind::PUBREC | kind::PUBREL | kind::PUBCOMP | kind::SUBACK | kind::UNSUBACK => {
            at.u16().is_none_or(|id| id != 0)
        }
        kind::CONNACK => at.u8().is_none_or(|flags| flags < 2),
        _ => true,
    }
}

/// Version of a CONNECT whose protocol name and level are right.
pub(super) fn connect_start(body: &[u8]) -> Option<u8> {
    let mut at = Cursor::new(body);
    let name = at.bytes16()?;
    let level = at.u8()?;
    let known = match name {
        // The high bit of the level marks a bridge.
        b"MQTT" => matches!(level & 0x7f, 4 | 5),
        b"MQIsdp" => level & 0x7f == 3,
        _ => false,
    };
    known.then_some(level & 0x7f)
}

/// How long is the packet that starts here?
pub(super) fn measure(side: Side, bytes: &[u8], lost: bool) -> Measure {
    let head = match header(bytes) {
        Ok(head) if allowed(side, head.kind) => head,
        Err(true) => return Measure::More,
        _ => return Measure::Bad,
    };
    if lost {
        if !plausible(head, bytes) {
            return Measure::Bad;
        }
        // The next bytes must be a packet too.
        let next = usize::try_from(head.total()).ok().and_then(|n| bytes.get(n..)).unwrap_or_default();
        if !next.is_empty() && !matches!(header(next), Ok(_) | Err(true)) {
            return Measure::Bad;
        }
    }
    // The one packet that starts a connection tells by its name whether it is one.
    if head.kind == kind::CONNECT && bytes.len() >= head.len.saturating_add(9) && !plausible(head, bytes) {
        return Measure::Bad;
    }
    Measure::Frame { len: head.total(), want: WANT }
}

/// Properties of MQTT 5 that are kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Properties<'a> {
    pub(super) context: crate::carried::Context<'a>,
    pub(super) alias: Option<u16>,
    pub(super) correlation: Option<&'a [u8]>,
    pub(super) response_topic: Option<&'a [u8]>,
}

/// A variable byte integer.
fn varint(at: &mut Cursor<'_>) -> Option<u64> {
    let mut n = 0u64;
    for shift in [0u32, 7, 14, 21] {
        let b = at.u8()?;
        n |= u64::from(b & 0x7f) << shift;
        if b & 0x80 == 0 {
            return Some(n);
        }
    }
    None
}

/// Reads properties (MQTT 5, table 2-4) as far as they are there. `None`: not all of them.
pub(super) fn properties<'a>(at: &mut Cursor<'a>, into: &mut Properties<'a>) -> Option<()> {
    let len = usize::try_from(varint(at)?).ok()?;
    let rest = at.rest();
    let whole = rest.get(..len);
    let mut p = Cursor::new(whole.unwrap_or(rest));
    while !p.is_empty() {
        match varint(&mut p)? {
            0x01 | 0x17 | 0x19 | 0x24 | 0x25 | 0x28 | 0x29 | 0x2a => drop(p.u8()?),
            0x23 => into.alias = Some(p.u16()?),
            0x13 | 0x21 | 0x22 => drop(p.u16()?),
            0x02 | 0x11 | 0x18 | 0x27 => drop(p.u32()?),
            0x0b => drop(varint(&mut p)?),
            0x08 => into.response_topic = Some(p.bytes16()?),
            0x09 => into.correlation = Some(p.bytes16()?),
            0x03 | 0x12 | 0x15 | 0x16 | 0x1a | 0x1c | 0x1f => drop(p.bytes16()?),
            0x26 => {
                let (name, value) = (p.bytes16()?, p.bytes16()?);
                into.context.field(name, value);
            }
            _ => return None,
        }
    }
    at.take(whole?.len()).map(drop)
}
