//! Recognises ZMTP by its greeting.
//!
//! Bias: against. A frame is two bytes and then anything, so a connection is not recognised from the middle. Both ends
//! greet at once and may do so byte by byte. A greeting is certain when its version and mechanism are seen, or when
//! both ends begin with the ten bytes of the signature. The mechanism tells which end is the server, if it has one;
//! else the capture source does.

use super::command::{begun, greeting, Begun};
use crate::{Detect, Probe};

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if !probe.transport.is_stream() {
        return Detect::No;
    }
    let (first, second) = (begun(probe.first), begun(probe.second));
    if first == Begun::No || second == Begun::No {
        return Detect::No;
    }
    let read = |bytes| match begun(bytes) {
        Begun::Is(len) if len == super::command::GREETING => greeting(bytes),
        _ => None,
    };
    let (a, b) = (read(probe.first), read(probe.second));
    // A whole greeting, but an invalid one.
    let broken = |bytes: &[u8], begun, read: Option<_>| {
        matches!(begun, Begun::Is(n) if bytes.len() >= n && n > 12) && read.is_none()
    };
    if broken(probe.first, first, a.map(drop)) || broken(probe.second, second, b.map(drop)) {
        return Detect::No;
    }
    let signed = probe.first.len() >= 10 && probe.second.len() >= 10;
    let versioned = matches!(first, Begun::Is(_)) || matches!(second, Begun::Is(_));
    if !(a.is_some() || b.is_some() || (signed && versioned)) {
        return Detect::Maybe;
    }
    let serves = match (a.map(|g| g.as_server), b.map(|g| g.as_server)) {
        (Some(true), Some(true)) => None,
        (Some(true), _) => Some(false),
        (_, Some(true)) => Some(true),
        _ => None,
    };
    match probe.first_is_client.or(serves) {
        Some(first_is_client) => Detect::Yes { first_is_client },
        None => Detect::Maybe,
    }
}
