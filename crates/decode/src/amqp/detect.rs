//! Recognises AMQP 0-9-1 by its protocol header, or from the middle by method frames that end where they say.
//!
//! Bias: against. A method frame is eight bytes of frame around a class and a method of which few exist, and its last
//! byte is fixed; the whole of it has to be seen. Body frames and heartbeats alone decide nothing.

use super::methods::{frame_head, known_method, method, Sender};
use crate::{Detect, Probe};
use wirespan_model::Side;

/// What one end's bytes look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    Silent,
    /// Method frames; which end sends them, if that can be told.
    Methods(Option<Side>),
    /// Other frames, or the start of one.
    Frames,
    Other,
}

fn looks(bytes: &[u8]) -> Looks {
    let mut rest = bytes;
    let mut seen = Looks::Silent;
    while !rest.is_empty() {
        let Some((kind, channel, size)) = frame_head(rest) else {
            let begins = matches!(rest.first(), Some(1..=3 | 8));
            return match seen {
                Looks::Silent if begins => Looks::Frames,
                _ if begins => seen,
                _ => Looks::Other,
            };
        };
        if !matches!((kind, channel, size), (1, _, 4..=0x2_0000) | (2 | 3, 1.., _) | (8, 0, 0)) {
            return Looks::Other;
        }
        if kind == 1 && rest.len() >= 11 && known_method(rest, None).is_none() {
            return Looks::Other;
        }
        let end = usize::try_from(size).ok().and_then(|n| n.checked_add(8));
        let Some((whole, next)) = end.and_then(|n| rest.split_at_checked(n)) else {
            return if seen == Looks::Silent { Looks::Frames } else { seen };
        };
        if whole.last() != Some(&0xce) {
            return Looks::Other;
        }
        if let Some((_, from, _)) = known_method(whole, None).filter(|_| kind == 1).and_then(method) {
            let side = match from {
                Sender::Client => Some(Side::Client),
                Sender::Server => Some(Side::Server),
                Sender::Both => None,
            };
            seen = match seen {
                Looks::Methods(Some(known)) if side.is_some_and(|s| s != known) => return Looks::Other,
                Looks::Methods(known) => Looks::Methods(known.or(side)),
                _ => Looks::Methods(side),
            };
        } else if seen == Looks::Silent {
            seen = Looks::Frames;
        }
        rest = next;
    }
    seen
}

/// The protocol header that this protocol begins with, in all its spellings.
fn header(bytes: &[u8]) -> Option<Detect> {
    let known = [b"AMQP\x00\x00\x09\x01", b"AMQP\x01\x01\x00\x09", b"AMQP\x01\x01\x08\x00", b"AMQP\x01\x01\x09\x01"];
    let begins = |h: &[u8; 8]| h.starts_with(bytes.get(..bytes.len().min(8)).unwrap_or_default());
    if bytes.is_empty() || !known.iter().any(|h| begins(h)) {
        return None;
    }
    Some(if bytes.len() < 8 { Detect::Maybe } else { Detect::Yes { first_is_client: true } })
}

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if !probe.transport.is_stream() {
        return Detect::No;
    }
    if let Some(said) = header(probe.first) {
        return said;
    }
    let yes = |side| Detect::Yes { first_is_client: side == Side::Client };
    match (looks(probe.first), looks(probe.second)) {
        (Looks::Other, _) | (_, Looks::Other) => Detect::No,
        (Looks::Methods(Some(a)), Looks::Methods(Some(b))) if a == b => Detect::No,
        (Looks::Methods(Some(side)), _) => yes(side),
        (_, Looks::Methods(Some(side))) => yes(side.peer()),
        (Looks::Methods(None), _) | (_, Looks::Methods(None)) => {
            probe.first_is_client.map_or(Detect::Maybe, |first_is_client| Detect::Yes { first_is_client })
        }
        _ => Detect::Maybe,
    }
}
