//! Recognises MQTT by its CONNECT, or from the middle by packets of both ends that belong together.
//!
//! Bias: against. A packet begins with one byte that says little, so that joined in the middle the bytes of an end have
//! to be whole packets one behind the other, and the other end has to answer one of them by its packet id (or PINGREQ
//! by PINGRESP).

use super::packet::{allowed, connect_start, header, is_topic, kind, plausible, Header};
use crate::framing::Cursor;
use crate::{Detect, Probe};
use wirespan_model::Side;

/// Most packets of an end that are looked at.
const LOOKED_AT: usize = 16;

/// Why bytes are not read as packets.
enum Not {
    /// They are anything else.
    Packets,
    /// The first is not there to its end: clients and brokers read a header byte by byte, each with a call of its own.
    Yet,
}

/// Packets one behind the other: header and packet id (0 if it has none).
fn packets(bytes: &[u8]) -> Result<Vec<(Header, u16)>, Not> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() && found.len() < LOOKED_AT {
        let head = match header(rest) {
            Ok(head) => head,
            // A header that the probe cut off.
            Err(true) if !found.is_empty() => break,
            Err(true) => return Err(Not::Yet),
            Err(false) => return Err(Not::Packets),
        };
        if !plausible(head, rest) {
            return Err(Not::Packets);
        }
        let body = rest.get(head.len..).unwrap_or_default();
        let whole = usize::try_from(head.total()).ok().and_then(|n| rest.split_at_checked(n));
        let cut = || if whole.is_none() && found.is_empty() { Not::Yet } else { Not::Packets };
        let mut at = Cursor::new(body);
        let id = match head.kind {
            kind::PUBLISH => {
                let topic = at.bytes16().ok_or_else(cut)?;
                // None at all (an alias) tells nothing.
                if !is_topic(topic, false) {
                    return Err(Not::Packets);
                }
                if head.qos() > 0 {
                    at.u16().ok_or_else(cut)?
                } else {
                    0
                }
            }
            kind::SUBSCRIBE | kind::UNSUBSCRIBE => {
                let id = at.u16().ok_or_else(cut)?;
                if whole.is_some() && !filters(at.rest(), head.kind == kind::SUBSCRIBE) {
                    return Err(Not::Packets);
                }
                id
            }
            kind::PUBACK..=kind::PUBCOMP | kind::SUBACK | kind::UNSUBACK => at.u16().ok_or_else(cut)?,
            kind::CONNECT | kind::CONNACK | kind::AUTH => return Err(Not::Packets),
            _ => 0,
        };
        found.push((head, id));
        rest = whole.map_or(&[][..], |(_, rest)| rest);
    }
    if found.is_empty() {
        return Err(Not::Yet);
    }
    Ok(found)
}

/// Whether these are the topic filters of a SUBSCRIBE (each with its options) or UNSUBSCRIBE, perhaps behind
/// properties.
fn filters(bytes: &[u8], options: bool) -> bool {
    let read = |bytes| {
        let mut at = Cursor::new(bytes);
        while !at.is_empty() {
            let ok = at.bytes16().is_some_and(|t| is_topic(t, true));
            if !ok || (options && at.u8().is_none_or(|o| o & 3 == 3 || o & 0xc0 != 0)) {
                return false;
            }
        }
        true
    };
    let behind_properties = bytes.split_first().and_then(|(n, rest)| rest.get(usize::from(*n)..));
    read(bytes) || behind_properties.is_some_and(read)
}

/// Whether `b` answers `a`.
fn answers(a: (Header, u16), b: (Header, u16)) -> bool {
    let pair = match a.0.kind {
        kind::PUBLISH if a.0.qos() == 1 => b.0.kind == kind::PUBACK,
        kind::PUBLISH if a.0.qos() == 2 => b.0.kind == kind::PUBREC,
        kind::PUBREC => b.0.kind == kind::PUBREL,
        kind::PUBREL => b.0.kind == kind::PUBCOMP,
        kind::SUBSCRIBE => b.0.kind == kind::SUBACK,
        kind::UNSUBSCRIBE => b.0.kind == kind::UNSUBACK,
        kind::PINGREQ => b.0.kind == kind::PINGRESP,
        _ => false,
    };
    pair && a.1 == b.1
}

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if !probe.transport.is_stream() {
        return Detect::No;
    }
    for (bytes, first_is_client) in [(probe.first, true), (probe.second, false)] {
        if bytes.first() == Some(&(kind::CONNECT << 4)) {
            return match header(bytes) {
                Ok(head) if bytes.get(head.len..).and_then(connect_start).is_some() => Detect::Yes { first_is_client },
                Ok(_) if bytes.len() >= 14 => Detect::No,
                Ok(_) | Err(true) => Detect::Maybe,
                Err(false) => Detect::No,
            };
        }
    }
    let (first, second) = match (packets(probe.first), packets(probe.second)) {
        (Err(Not::Packets), _) | (_, Err(Not::Packets)) => return Detect::No,
        (Err(Not::Yet), _) | (_, Err(Not::Yet)) => return Detect::Maybe,
        (Ok(first), Ok(second)) => (first, second),
    };
    let fits = |side: Side, found: &[(Header, u16)]| found.iter().all(|(h, _)| allowed(side, h.kind));
    let as_client = fits(Side::Client, &first) && fits(Side::Server, &second);
    let as_server = fits(Side::Server, &first) && fits(Side::Client, &second);
    let answered = first.iter().any(|a| second.iter().any(|b| answers(*a, *b)))
        || second.iter().any(|a| first.iter().any(|b| answers(*a, *b)));
    // Short packets are few bytes: one pair of them is not enough unless it names a topic or is a whole call of its
    // own.
    let whole_ping = [probe.first, probe.second].iter().all(|b| b.len() == 2);
    let speaking = first.iter().chain(&second).any(|(h, _)| {
        matches!(h.kind, kind::PUBLISH | kind::SUBSCRIBE | kind::UNSUBSCRIBE) || (whole_ping && h.kind == kind::PINGREQ)
    });
    if !answered || !speaking || !(as_client || as_server) {
        return if as_client || as_server { Detect::Maybe } else { Detect::No };
    }
    let first_is_client = match (as_client, as_server, probe.first_is_client) {
        (true, false, _) => true,
        (false, true, _) => false,
        // Both ends publish: this does not tell which end is the broker.
        (_, _, known) => match known {
            Some(known) => known,
            None => return Detect::Maybe,
        },
    };
    Detect::Yes { first_is_client }
}
