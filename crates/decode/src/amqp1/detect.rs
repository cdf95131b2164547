//! Recognises AMQP 1.0 by its protocol header, or from the middle by frames with a valid performative.
//!
//! Bias: against. A frame names its size, the size of its head, its type and then the descriptor of its performative,
//! which must be a list. That makes the protocol certain. It does not tell which end is the client; only the capture
//! source can.

use super::frame::{head, performative};
use crate::{Detect, Probe};

/// What one end's bytes look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    Silent,
    /// A protocol header.
    Header,
    Frames,
    Start,
    Other,
}

fn looks(bytes: &[u8]) -> Looks {
    if bytes.is_empty() {
        return Looks::Silent;
    }
    let layers: [&[u8; 8]; 3] = [b"AMQP\x00\x01\x00\x00", b"AMQP\x02\x01\x00\x00", b"AMQP\x03\x01\x00\x00"];
    let short = bytes.get(..8).unwrap_or(bytes);
    if layers.iter().any(|l| l.starts_with(short)) {
        return if bytes.len() >= 8 { Looks::Header } else { Looks::Start };
    }
    let mut rest = bytes;
    let mut seen = Looks::Start;
    while !rest.is_empty() {
        let head = match head(rest) {
            Ok(head) => head,
            Err(true) => return seen,
            Err(false) => return Looks::Other,
        };
        let empty = head.size == 8;
        if !empty && rest.len() >= head.body.saturating_add(12) && performative(head, rest).is_none() {
            return Looks::Other;
        }
        let size = usize::try_from(head.size).unwrap_or(usize::MAX);
        if !empty && performative(head, rest).is_some() {
            seen = Looks::Frames;
        }
        match rest.get(size..) {
            Some(next) => rest = next,
            None => return seen,
        }
    }
    seen
}

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if !probe.transport.is_stream() {
        return Detect::No;
    }
    match (looks(probe.first), looks(probe.second)) {
        (Looks::Other, _) | (_, Looks::Other) => Detect::No,
        // The connecting end begins.
        (Looks::Header, _) => Detect::Yes { first_is_client: probe.first_is_client.unwrap_or(true) },
        (Looks::Frames, _) | (_, Looks::Frames) => {
            probe.first_is_client.map_or(Detect::Maybe, |first_is_client| Detect::Yes { first_is_client })
        }
        _ => Detect::Maybe,
    }
}
