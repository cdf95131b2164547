//! Recognises Kafka by a request header, and more: its body read to the last byte, or a response with its correlation
//! id.
//!
//! Bias: against. A request has to be certain (known key and version, visible client id, no tagged fields, lengths that
//! agree with what was captured). Alone it is enough if it has a client id and its body ends where its length says;
//! otherwise the other end has to answer with the same correlation id, or with one shortly before it if the connection
//! was joined while requests were under way. A request without a client id needs both.

use super::facts::Facts;
use super::head::{self, frame_len, MAX_FRAME};
use super::request::{self, Read};
use super::wire::Stop;
use crate::text::at_most;
use crate::{Detect, Probe};

/// Most frames of one end that are looked at.
const MAX_FRAMES: usize = 8;
/// Requests that may be under way when a connection is joined.
const MAX_BEHIND: i32 = 64;

/// What one end's bytes look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    Silent,
    /// Requests.
    Asks {
        /// Lowest correlation id.
        first: i32,
        /// Highest correlation id.
        last: i32,
        /// One has a client id.
        named: bool,
        /// One with a client id was read to its end.
        certain: bool,
        /// One was read to its end.
        whole: bool,
    },
    /// Too short to tell.
    Start,
    Other,
}

fn looks(bytes: &[u8]) -> Looks {
    if bytes.is_empty() {
        return Looks::Silent;
    }
    let mut rest = bytes;
    let mut asks: Option<(i32, i32, bool, bool, bool)> = None;
    for _ in 0..MAX_FRAMES {
        let Some(len) = frame_len(rest) else { break };
        let view = rest.get(..at_most(len, usize::MAX)).unwrap_or(rest);
        let complete = rest.len() == view.len() && crate::text::len64(view.len()) == len || rest.len() > view.len();
        let (head, mut body) = match head::head(view, true) {
            Ok(read) => read,
            Err(Stop::More) if !complete => return if asks.is_some() { finish(asks) } else { Looks::Start },
            Err(_) => return Looks::Other,
        };
        let read = request::body(&head, &mut body, &mut Facts::default());
        let whole = match read {
            Ok(Read::Whole) if complete && body.rest().is_empty() && head.is_known() => true,
            Ok(Read::Whole) if complete && head.is_known() => return Looks::Other,
            Err(Stop::Bad) => return Looks::Other,
            Err(Stop::More) if complete => return Looks::Other,
            _ => false,
        };
        let named = head.client_id.is_some_and(|id| !id.is_empty());
        asks = Some(match asks {
            None => (head.correlation, head.correlation, named, named && whole, whole),
            // Clients count, but Java's may send a later one first.
            Some((first, last, a, b, c)) => {
                let id = head.correlation;
                (first.min(id), last.max(id), a || named, b || named && whole, c || whole)
            }
        });
        rest = rest.get(view.len()..).unwrap_or_default();
        if rest.is_empty() {
            break;
        }
    }
    finish(asks)
}

fn finish(asks: Option<(i32, i32, bool, bool, bool)>) -> Looks {
    match asks {
        Some((first, last, named, certain, whole)) => Looks::Asks { first, last, named, certain, whole },
        None => Looks::Start,
    }
}

/// Whether `bytes` are responses to requests with correlation ids up to `last`, from `first` on or shortly before it.
fn answers(bytes: &[u8], first: i32, last: i32) -> bool {
    let mut rest = bytes;
    let mut before = None;
    for _ in 0..MAX_FRAMES {
        let Some(len) = frame_len(rest).filter(|len| (8..=MAX_FRAME).contains(len)) else { break };
        let Some(id) = rest.get(4..8).and_then(|b| b.first_chunk::<4>()) else { break };
        let id = i32::from_be_bytes(*id);
        let near = id >= first.saturating_sub(MAX_BEHIND).max(0) && id <= last;
        if !near || before == Some(id) {
            return false;
        }
        before = Some(id);
        rest = rest.get(at_most(len, usize::MAX)..).unwrap_or_default();
        if rest.is_empty() {
            return true;
        }
    }
    // The rest is too short to be read.
    before.is_some() && rest.len() < 8
}

/// The verdict from the requests of one end and the bytes of the other.
fn verdict(asks: Looks, other: &[u8]) -> Option<bool> {
    let Looks::Asks { first, last, named, certain, whole } = asks else { return None };
    if other.is_empty() {
        return certain.then_some(true);
    }
    let answered = answers(other, first, last);
    Some(answered && (named || whole) || certain && other.len() < 8)
}

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if !probe.transport.is_stream() {
        return Detect::No;
    }
    let (first, second) = (looks(probe.first), looks(probe.second));
    for (asks, other, first_is_client) in [(first, probe.second, true), (second, probe.first, false)] {
        if probe.first_is_client.is_some_and(|known| known != first_is_client) {
            continue;
        }
        if verdict(asks, other) == Some(true) {
            return Detect::Yes { first_is_client };
        }
    }
    // Joined in the middle of a response, whose bytes then tell nothing: the next request decides.
    let inside = matches!(first, Looks::Other) && probe.first_is_client != Some(true);
    if inside && matches!(second, Looks::Asks { certain: true, .. }) {
        return Detect::Yes { first_is_client: false };
    }
    match (first, second) {
        (Looks::Asks { .. } | Looks::Start, Looks::Silent) => Detect::Maybe,
        (Looks::Other, Looks::Silent) if could_answer(probe.first) => Detect::Maybe,
        (Looks::Start, Looks::Start) => Detect::Maybe,
        (Looks::Start, Looks::Asks { .. }) | (Looks::Asks { .. }, Looks::Start) => Detect::Maybe,
        _ => Detect::No,
    }
}

/// Whether the first speaker may be a broker whose request was not seen.
fn could_answer(bytes: &[u8]) -> bool {
    frame_len(bytes).is_some_and(|len| (8..=MAX_FRAME).contains(&len)) && bytes.get(4).is_none_or(|b| b & 0x80 == 0)
}
