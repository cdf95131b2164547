//! Recognises Cassandra by its start, by a statement in a frame that fits, or by two ends that agree on version and
//! stream.
//!
//! Bias: against. A header alone is nine bytes that others could have: one end decides only with `STARTUP` and its one
//! mandatory option, with a statement of CQL whose lengths fit, or with a segment whose checksum is right and which
//! holds a message.

use super::envelope::{long_string, op, segment, string, Envelope, HEADER, SEGMENT};
use crate::compression;
use crate::framing::Cursor;
use crate::mask::{Dialect, Masker, Rules};
use crate::text::at_most;
use crate::{Detect, Probe};
use wirespan_model::Side;

/// The first message of one end, and how sure it is that it is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    Other,
    Silent,
    Shaped(Envelope),
    Sure,
}

fn looks(side: Side, bytes: &[u8]) -> Looks {
    if bytes.is_empty() {
        return Looks::Silent;
    }
    if let Some(segment) = segment(bytes) {
        let inner = bytes.get(segment.header..).unwrap_or_default();
        let mut unpacked = Vec::new();
        if segment.unpacked > 0 {
            compression::lz4(inner, &mut unpacked, HEADER);
        }
        let (inner, len) = match segment.unpacked {
            0 => (inner, segment.len),
            len => (unpacked.as_slice(), len),
        };
        let fits = Envelope::read(side, inner).is_some_and(|e| e.version == 5 && len >= 9);
        return if fits { Looks::Sure } else { Looks::Other };
    }
    if bytes.len() < HEADER {
        let versions = if side == Side::Client { 3..=5 } else { 0x83..=0x85 };
        return if bytes.first().is_some_and(|b| versions.contains(b)) { Looks::Silent } else { Looks::Other };
    }
    let Some(envelope) = Envelope::read(side, bytes) else { return Looks::Other };
    let body = bytes.get(HEADER..).unwrap_or_default();
    let len = at_most(u64::from(envelope.len), usize::MAX);
    // The next bytes are a message as well.
    if body.len() > len && !chain(side, body.get(len..).unwrap_or_default()) {
        return Looks::Other;
    }
    let whole = body.len() >= len;
    let body = body.get(..len).unwrap_or(body);
    let sure = match envelope.op {
        op::STARTUP => {
            let mut view = Cursor::new(body);
            let count = view.u16().unwrap_or(0);
            let named = string(&mut view).is_some_and(|name| name.is_ascii());
            (1..=16).contains(&count) && named && memchr::memmem::find(body, b"CQL_VERSION").is_some()
        }
        op::QUERY | op::PREPARE if envelope.flags == 0 => is_statement(envelope, body, whole),
        _ => false,
    };
    if sure {
        Looks::Sure
    } else {
        Looks::Shaped(envelope)
    }
}

/// Whether a body is a statement whose length fits that of the body.
fn is_statement(envelope: Envelope, body: &[u8], whole: bool) -> bool {
    let mut view = Cursor::new(body);
    let Some((text, complete)) = long_string(&mut view) else { return false };
    let behind = view.rest().len();
    let fits = if envelope.op == op::PREPARE { behind <= 4 } else { behind >= 3 };
    if (whole && !(complete && fits)) || text.iter().any(|b| b.is_ascii_control() && !b.is_ascii_whitespace()) {
        return false;
    }
    let mut masker = Masker::default();
    masker.read(text.get(..256).unwrap_or(text), Rules::of(Dialect::Cql));
    !masker.operation().is_empty()
}

/// Whether bytes are messages of a side, up to where they end.
pub(super) fn chain(side: Side, bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while rest.len() >= HEADER {
        let Some(envelope) = Envelope::read(side, rest) else { return false };
        rest = rest.get(at_most(u64::from(envelope.len), usize::MAX).saturating_add(HEADER)..).unwrap_or_default();
    }
    rest.len() < bytes.len() || bytes.is_empty()
}

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if !probe.transport.is_stream() {
        return Detect::No;
    }
    let ask = |client: &[u8], server: &[u8]| match (looks(Side::Client, client), looks(Side::Server, server)) {
        (Looks::Sure, answer) => answer != Looks::Other,
        (Looks::Silent, Looks::Sure) => server.len() > SEGMENT,
        // Nine bytes at each end that agree.
        (Looks::Shaped(a), Looks::Shaped(b)) => {
            let fits = match a.op {
                op::OPTIONS => matches!(b.op, op::SUPPORTED | op::ERROR),
                op::REGISTER => matches!(b.op, op::READY | op::ERROR | op::EVENT),
                _ => matches!(b.op, op::RESULT | op::ERROR | op::AUTH_SUCCESS | op::AUTH_CHALLENGE),
            };
            fits && (a.version == b.version || b.op == op::ERROR) && (a.stream == b.stream || b.op == op::RESULT)
        }
        _ => false,
    };
    if probe.first_is_client != Some(false) && ask(probe.first, probe.second) {
        return Detect::Yes { first_is_client: true };
    }
    if probe.first_is_client != Some(true) && ask(probe.second, probe.first) {
        return Detect::Yes { first_is_client: false };
    }
    let half = |client: &[u8], server: &[u8]| {
        looks(Side::Client, client) != Looks::Other && looks(Side::Server, server) != Looks::Other
    };
    if half(probe.first, probe.second) || half(probe.second, probe.first) {
        Detect::Maybe
    } else {
        Detect::No
    }
}
