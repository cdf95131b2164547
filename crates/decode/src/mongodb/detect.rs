//! Recognises MongoDB by a header and the beginning of the body that belongs to it, from any message on.
//!
//! Bias: against. Length, operation code, flags, and the first element of a document must all make sense, and of two
//! ends that speak one must ask (`responseTo` 0) and the other answer.

use super::bson::{self, int32};
use super::parse::{header, op, Header, CHECKSUM, EXHAUST_ALLOWED, HEADER, MORE_TO_COME};
use crate::{Detect, Probe};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    Silent,
    /// Fewer bytes than needed, nothing wrong with them.
    Short,
    Asks,
    Answers,
    Other,
}

fn looks(bytes: &[u8]) -> Looks {
    if bytes.is_empty() {
        return Looks::Silent;
    }
    if bytes.len() < HEADER {
        let fits = int32(bytes, 0).is_none_or(|len| (16..=64 * 1024 * 1024).contains(&len));
        return if fits { Looks::Short } else { Looks::Other };
    }
    let Some(header) = header(bytes) else { return Looks::Other };
    let body = bytes.get(HEADER..).unwrap_or_default();
    // An empty body tells nothing, and a short one could be cut anywhere.
    if body.len() < 30 && body.len() < header.len.saturating_sub(HEADER) {
        return Looks::Short;
    }
    match (is_message(&header, body), header.response_to) {
        (false, _) => Looks::Other,
        (true, 0) if header.op != op::REPLY => Looks::Asks,
        (true, 0) => Looks::Other,
        (true, _) => Looks::Answers,
    }
}

/// Whether the body suits the header.
pub(super) fn is_message(header: &Header, body: &[u8]) -> bool {
    let room = header.len.saturating_sub(HEADER);
    let document = |at: usize| {
        let Some(bytes) = body.get(at..) else { return false };
        let fits = bson::length(bytes).is_some_and(|len| len.saturating_add(at) <= room);
        fits && bson::plausible(bytes)
    };
    match header.op {
        op::MSG => {
            let flags = int32(body, 0).map_or(u32::MAX, i32::cast_unsigned);
            let known = flags & !(CHECKSUM | MORE_TO_COME | EXHAUST_ALLOWED) == 0;
            known
                && match body.get(4) {
                    Some(0) => document(5),
                    Some(1) => int32(body, 5).and_then(|n| usize::try_from(n).ok()).is_some_and(|n| n < room),
                    _ => false,
                }
        }
        op::COMPRESSED => {
            let original = int32(body, 0).unwrap_or(0);
            let size = int32(body, 4).unwrap_or(-1);
            let known = matches!(original, op::MSG | op::QUERY | op::REPLY);
            known && (0..=64 * 1024 * 1024).contains(&size) && body.get(8).is_some_and(|c| *c <= 3)
        }
        op::QUERY => {
            let name = body.get(4..).unwrap_or_default();
            let window = name.get(..256).unwrap_or(name);
            let Some(end) = memchr::memchr(0, window) else { return false };
            let name = window.get(..end).unwrap_or_default();
            name.contains(&b'.') && name.iter().all(u8::is_ascii_graphic) && document(end.saturating_add(13))
        }
        op::REPLY => {
            let returned = int32(body, 16).unwrap_or(-1);
            match returned {
                0 => room == 20,
                1.. => document(20),
                _ => false,
            }
        }
        // The older writes alone say too little.
        _ => false,
    }
}

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if !probe.transport.is_stream() {
        return Detect::No;
    }
    match (looks(probe.first), looks(probe.second)) {
        (Looks::Asks, Looks::Silent | Looks::Answers) if probe.first_is_client != Some(false) => {
            Detect::Yes { first_is_client: true }
        }
        (Looks::Answers, Looks::Asks) if probe.first_is_client != Some(true) => Detect::Yes { first_is_client: false },
        (Looks::Asks, Looks::Short) | (Looks::Short, Looks::Silent | Looks::Short | Looks::Answers | Looks::Asks) => {
            Detect::Maybe
        }
        (Looks::Answers, Looks::Silent | Looks::Short) => Detect::Maybe,
        _ => Detect::No,
    }
}
