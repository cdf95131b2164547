//! Id, tap side, kind and thread name of a span.

use wirespan_model::event::Actor;
use wirespan_model::{AttrVal, Message, SocketId, SpanId, SpanKind, TapSide, Text};

/// Tap side and kind of a span whose request was sent by `asker_is_local`. An actor without a pid is of a capture file.
pub(crate) fn place(actor: &Actor, asker_is_local: bool) -> (TapSide, SpanKind) {
    match (actor.pid, asker_is_local) {
        (0, _) => (TapSide::Capture, SpanKind::Client),
        (_, true) => (TapSide::ClientProcess, SpanKind::Client),
        (_, false) => (TapSide::ServerProcess, SpanKind::Server),
    }
}

/// Kind of a span by `messaging.operation.type`, as in OpenTelemetry's messaging spans; `kind` without it.
///
/// The sender of a message is a producer, and the process that is handed a message is a consumer. A broker's spans stay
/// those of a server, except that handing messages on makes it a producer. Asking for messages (`receive`) and
/// acknowledging them (`settle`) are calls.
pub(super) fn messaging_kind(m: &Message<'_>, tap: TapSide, kind: SpanKind) -> SpanKind {
    let operation = m.attrs.iter().find_map(|(key, value)| match value {
        AttrVal::Str(s) if *key == "messaging.operation.type" => Some(&**s),
        _ => None,
    });
    match (operation, tap) {
        (Some("create" | "send"), TapSide::ClientProcess | TapSide::Capture) => SpanKind::Producer,
        (Some("process"), TapSide::ClientProcess) => SpanKind::Producer,
        (Some("process"), TapSide::ServerProcess | TapSide::Capture) => SpanKind::Consumer,
        _ => kind,
    }
}

/// Id of a span: unique, and the same on every replay. `tag` and `offset` tell the spans of one connection apart.
pub(crate) fn span_id(host_id: u64, socket: SocketId, peer: u64, tag: u8, offset: u64, start_ns: u64) -> SpanId {
    // A multiply and a fold per word (the finaliser of SplitMix64): bijective in each word, and a tenth of the time of
    // hashing bytes.
    let mut id = 0x9e37_79b9_7f4a_7c15_u64;
    for word in [host_id, socket.0, peer, u64::from(tag), offset, start_ns] {
        id = (id ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        id ^= id >> 29;
        id = id.wrapping_mul(0x94d0_49bb_1331_11eb);
        id ^= id >> 32;
    }
    SpanId(id.max(1))
}

/// Text of a NUL-padded thread name.
pub(crate) fn comm(actor: &Actor) -> Text {
    let end = actor.comm.iter().position(|b| *b == 0).unwrap_or(actor.comm.len());
    match std::str::from_utf8(&actor.comm[..end]) {
        Ok(name) => name.into(),
        Err(_) => Text::from_utf8_lossy(&actor.comm[..end]),
    }
}
