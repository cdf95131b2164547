//! Recognises ZooKeeper by the request for a session, or from the middle by a request and the answer to it.
//!
//! Bias: against. The session's request alone is enough: 48 bytes with five fields that have one or few values. From
//! the middle both ends must show a whole frame, and either the answer has the number of the request or both are pings.

use super::names;
use super::parse::{frame, int32, is_connect, is_connected, path};
use crate::{Detect, Probe};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    Silent,
    Short,
    Connect,
    Connected,
    /// A request with this number.
    Asks(i32),
    /// An answer with this number.
    Answers(i32),
    Other,
}

fn looks(bytes: &[u8]) -> Looks {
    if bytes.is_empty() {
        return Looks::Silent;
    }
    if bytes.len() < 4 {
        return if bytes.first() == Some(&0) { Looks::Short } else { Looks::Other };
    }
    let Some(len) = frame(bytes).filter(|len| *len < 2 * 1024 * 1024) else { return Looks::Other };
    if is_connect(bytes, len) {
        return Looks::Connect;
    }
    if is_connected(bytes, len) {
        return Looks::Connected;
    }
    let Some((xid, second)) = int32(bytes, 4).zip(int32(bytes, 8)) else { return Looks::Short };
    let number = xid > 0 || matches!(xid, -2 | -4 | -8);
    if let Some((name, has_path)) = names::operation(second).filter(|_| number) {
        let ping = name == "ping" && len == 12 && xid == -2;
        let inside =
            int32(bytes, 12).and_then(|n| usize::try_from(n).ok()).is_some_and(|n| n.saturating_add(16) <= len);
        let paths = has_path && inside && path(bytes, 12).is_some_and(|p| !p.is_empty());
        if ping || paths {
            return Looks::Asks(xid);
        }
    }
    // Number, the high half of a transaction id (an epoch), the low half, the error.
    let error = int32(bytes, 16).is_some_and(|e| e == 0 || names::error(e).is_some());
    if number && error && len >= 20 && second >= 0 {
        return Looks::Answers(xid);
    }
    if bytes.len() < len.min(32) && (number || xid == 0) {
        return Looks::Short;
    }
    Looks::Other
}

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if !probe.transport.is_stream() {
        return Detect::No;
    }
    let client = |first_is_client| probe.agrees(first_is_client);
    match (looks(probe.first), looks(probe.second)) {
        (Looks::Connect, Looks::Silent | Looks::Short | Looks::Connected) => client(true),
        (Looks::Connected, Looks::Asks(_) | Looks::Connect) => client(false),
        (Looks::Asks(a), Looks::Answers(b)) if a == b => client(true),
        (Looks::Answers(a), Looks::Asks(b)) if a == b || b == a.saturating_add(1) && a > 0 => client(false),
        (Looks::Asks(_) | Looks::Answers(_) | Looks::Connected | Looks::Short, Looks::Silent | Looks::Short)
        | (Looks::Short, Looks::Asks(_) | Looks::Answers(_) | Looks::Connected)
        | (Looks::Asks(_), Looks::Asks(_)) => Detect::Maybe,
        _ => Detect::No,
    }
}
