//! Recognises HTTP/2 by its preface, or from the middle by chains of frames.
//!
//! Bias: against. The preface is certain. From the middle, what both ends sent must hold together frame by frame, with
//! at least [`ENOUGH`] points, most of which only header blocks or frames of a fixed form give; a chain that does not
//! start with the first byte (the join fell into a frame) needs [`ALONE`] points of its own. Pseudo-headers tell which
//! end is the client, else the capture source does, else the answer is *maybe*.

use super::chain::{walk, Chain, PREFACE};
use crate::{Detect, Probe};
use wirespan_model::Side;

/// Points of both ends together.
pub(super) const ENOUGH: u32 = 5;
/// Points of a chain in the middle of an end's bytes.
pub(super) const ALONE: u32 = 5;
/// So far a probe is searched for a chain.
const SEARCHED: usize = 4096;
/// Bytes of the preface that no other protocol begins with.
const TELLING: usize = 16;

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if !probe.transport.is_stream() {
        return Detect::No;
    }
    let (first, second) = (preface(probe.first), preface(probe.second));
    if first == Some(true) || second == Some(true) {
        return Detect::Yes { first_is_client: first == Some(true) };
    }
    let (a, b) = (look(probe.first), look(probe.second));
    let points = a.points.saturating_add(b.points);
    let sender = match (a.sender, b.sender) {
        (Some(a), Some(b)) if a == b => return Detect::No,
        (Some(a), _) => Some(a),
        (None, Some(b)) => Some(b.peer()),
        (None, None) => None,
    };
    // Bytes of the other end that are no frames: a join in the middle of one, or no HTTP/2.
    let torn = a.refuted || b.refuted;
    let client = sender.map(|s| s == Side::Client).or(probe.first_is_client);
    match client {
        Some(first_is_client) if points >= ENOUGH && a.frames.saturating_add(b.frames) >= 2 && !torn => {
            Detect::Yes { first_is_client }
        }
        Some(first_is_client) if points >= ENOUGH.saturating_add(1) => Detect::Yes { first_is_client },
        _ if points > 0 || first == Some(false) || second == Some(false) => Detect::Maybe,
        _ => Detect::No,
    }
}

/// Whether the bytes begin with the preface; `Some(false)` if they may.
fn preface(bytes: &[u8]) -> Option<bool> {
    let n = bytes.len().min(PREFACE.len());
    let same = n > 0 && bytes.get(..n) == PREFACE.get(..n);
    same.then_some(n >= TELLING)
}

/// The best that can be said of one end.
fn look(bytes: &[u8]) -> Chain {
    let whole = walk(bytes, u32::MAX);
    if !whole.refuted {
        return whole;
    }
    let window = bytes.get(..SEARCHED).unwrap_or(bytes);
    // Every usual frame begins with the high byte of its length, 0.
    let inside = memchr::memchr_iter(0, window)
        .filter(|at| *at > 0)
        .filter_map(|at| bytes.get(at..))
        .map(|rest| walk(rest, u32::MAX))
        .find(|chain| !chain.refuted && chain.points >= ALONE);
    Chain { refuted: true, ..inside.unwrap_or_default() }
}
