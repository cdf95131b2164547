//! Time and place: when equal keys may be believed.

use wirespan_model::{Attr, Key, KeyKind, Span, Status, TapSide, Transport, Value};

/// Clock error allowed between two observation points of one host, ns.
const SAME_HOST_NS: u64 = 1_000_000;
/// Clock error allowed between hosts, ns.
const OTHER_HOST_NS: u64 = 100_000_000;
/// Longest time between the end of a request and the last call that it still causes, ns.
pub(crate) const AFTERMATH_NS: u64 = 60_000_000_000;
/// Longest time between spans of one X-Request-ID, ns: a retry with the same id is another request.
const REQUEST_ID_NS: u64 = 1_000_000_000;
/// Longest time between spans of one datagram id, ns: 16-bit ids come back soon.
const DATAGRAM_ID_NS: u64 = 5_000_000_000;

/// Clock error to allow between two spans, ns.
pub(crate) fn tolerance(a: &Span, b: &Span) -> u64 {
    if a.host_id == b.host_id {
        SAME_HOST_NS
    } else {
        OTHER_HOST_NS
    }
}

/// The latest time, as far as known, at which the handling of this request ended, Unix ns. If the answer was not seen,
/// it may have come later.
pub(crate) fn handled_until(span: &Span) -> u64 {
    span.end_ns.saturating_add(match span.status {
        Status::NoResponse | Status::Reset | Status::Closed => 30_000_000_000,
        Status::OneWay => AFTERMATH_NS,
        _ => 0,
    })
}

/// Whether the second span lies inside the first.
pub(crate) fn contains(outer: &Span, inner: &Span) -> bool {
    let t = tolerance(outer, inner);
    inner.start_ns.saturating_add(t) >= outer.start_ns && inner.end_ns <= handled_until(outer).saturating_add(t)
}

/// Whether both spans were seen in the same process.
pub(crate) fn same_process(a: &Span, b: &Span) -> bool {
    a.pid != 0 && a.pid == b.pid && a.host_id == b.host_id
}

/// Whether this is a connection over datagrams of which nothing is read, or only how it began (QUIC). It carries
/// requests that are not seen: it is no request itself, makes no call and is made for none. (One datagram of an unknown
/// protocol and its answer may be a call.)
pub(crate) fn is_datagram_connection(span: &Span) -> bool {
    let calls = |(key, value): &Attr| match value {
        Value::Int(calls) if key == "wirespan.calls" => Some(*calls),
        _ => None,
    };
    let most = match &*span.protocol {
        "udp" => 2,
        "quic" => 0,
        _ => return false,
    };
    span.attrs.iter().find_map(calls).is_some_and(|calls| calls > most)
}

/// Whether no call was made for this span: such a connection, or its handshake. A handshake itself is made for a
/// request.
pub(crate) fn causes_nothing(span: &Span) -> bool {
    is_datagram_connection(span) || span.protocol == "quic"
}

/// Whether this is a connection of an unknown protocol on which nothing was answered, and so no request: loops wake
/// themselves by such connections.
pub(crate) fn is_silent_connection(span: &Span) -> bool {
    span.protocol == "tcp" && span.response_bytes == 0
}

/// Time between two spans, ns; 0 if they overlap.
fn gap(a: &Span, b: &Span) -> u64 {
    a.start_ns.max(b.start_ns).saturating_sub(a.end_ns.min(b.end_ns).max(a.start_ns.min(b.start_ns)))
}

/// Whether the addresses say anything (Unix sockets have none).
pub(crate) fn has_address(span: &Span) -> bool {
    !matches!(span.tuple.transport, Transport::UnixStream | Transport::UnixDgram)
        && (span.tuple.client.port != 0 || span.tuple.server.port != 0)
}

/// How sure it is that two spans saw the same bytes; `None` if they did not.
pub(crate) fn same_bytes(a: &Span, b: &Span) -> Option<f32> {
    if a.tap == TapSide::App || b.tap == TapSide::App {
        return None;
    }
    if a.is_named_by_id() && a.message_id.is_some() {
        let same = a.protocol == b.protocol && a.message_id == b.message_id;
        return (same && gap(a, b) <= DATAGRAM_ID_NS).then_some(1.0);
    }
    match (a.request_seq.zip(b.request_seq), a.response_seq.zip(b.response_seq)) {
        (Some((x, y)), _) | (None, Some((x, y))) if x != y => None,
        (_, Some((x, y))) if x != y => None,
        (Some(_), Some(_)) => Some(1.0),
        (Some(_), None) | (None, Some(_)) => (has_address(a) && a.tuple == b.tuple).then_some(0.9),
        (None, None) => {
            let ends = if a.tuple.transport == Transport::Udp { a.tuple.agrees(&b.tuple) } else { a.tuple == b.tuple };
            let same = a.message_id.is_some() && a.message_id == b.message_id && ends && has_address(a);
            (same && a.protocol == b.protocol && gap(a, b) <= DATAGRAM_ID_NS).then_some(0.9)
        }
    }
}

/// Replaces the kind of a parent id by that of a span id, so that a parent id finds the span with that id.
pub(crate) fn normal(key: Key) -> Key {
    match key.kind {
        KeyKind::Parent => Key { kind: KeyKind::Span, value: key.value },
        _ => key,
    }
}

/// Keys of a span with parent and own ids as one kind, sorted, no duplicates.
pub(crate) fn keys(span: &Span) -> smallvec::SmallVec<[Key; 8]> {
    let mut keys = span.keys();
    // Message keys link traces; they do not join spans into one trace.
    keys.retain(|k| k.kind != KeyKind::Message);
    keys.iter_mut().for_each(|k| *k = normal(*k));
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// The exchange keys of a span, by which the spans of its calls name it as their cause.
pub(crate) fn own_names(span: &Span) -> impl Iterator<Item = Key> + '_ {
    span.exchanges().map(|e| span.exchange_key(e))
}

/// Whether the cause of this span is the exchange with this key.
pub(crate) fn acts_for(span: &Span, name: Key) -> bool {
    span.cause.is_some_and(|c| span.exchange_key(c) == name)
}

/// Whether two spans that share this key may belong to one trace. The function is symmetric, so that the search finds
/// the same set from each of its spans.
///
/// Requests on one connection may share an exchange key. This alone does not put them into one trace.
pub(crate) fn may_join(a: &Span, b: &Span, key: Key, window_ns: u64) -> bool {
    let limit = match key.kind {
        KeyKind::RequestId => REQUEST_ID_NS,
        KeyKind::Exchange if !acts_for(a, key) && !acts_for(b, key) => return false,
        KeyKind::Exchange => AFTERMATH_NS,
        KeyKind::Wire => return same_bytes(a, b).is_some() && gap(a, b) <= window_ns,
        KeyKind::Message => return false,
        KeyKind::Span | KeyKind::Parent | KeyKind::Trace => window_ns,
    };
    gap(a, b) <= limit.min(window_ns)
}
