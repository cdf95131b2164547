//! Recognises Dubbo by its frames, also in the middle of a connection.
//!
//! Bias: against. Besides the magic, the header's fields must be values that Dubbo writes and the body must begin as
//! its serialization does; a frame by its header alone (kryo, …) counts only if the other end sends one too.

use super::header::{self, Header, HEADER};
use super::hessian::Hessian;
use crate::framing::{decide, Looks};
use crate::{rpc, Detect, Probe};

/// Whether the body begins as it must.
pub(super) fn body_fits(h: &Header, bytes: &[u8]) -> bool {
    let body = bytes.get(HEADER..).unwrap_or_default();
    match (h.serialization, h.request, h.event) {
        (_, _, true) => h.body <= 64,
        (2, true, false) => {
            let mut at = Hessian::new(body);
            let version = at.text().is_some_and(|v| v.first().is_some_and(u8::is_ascii_digit) && v.len() <= 16);
            version && at.text().is_some_and(|s| rpc::name(s).is_some())
        }
        (2, false, false) if h.status == 20 => matches!(body.first(), Some(0x90..=0x95)),
        (2, false, false) => Hessian::new(body).text().is_some(),
        (6, true, false) => body.first() == Some(&b'"'),
        _ => h.body > 0,
    }
}

fn looks(bytes: &[u8]) -> Looks {
    match header::read(bytes) {
        Ok(None) => Looks::More,
        Err(()) => Looks::Other,
        Ok(Some(h)) => {
            // Heartbeats are sent by both ends.
            let client = (!h.event).then_some(h.request);
            let telling = matches!((h.serialization, h.request, h.event), (2, _, false) | (6, true, false));
            match body_fits(&h, bytes) {
                true if telling => Looks::Certain(client),
                true => Looks::Likely(client),
                false if telling && bytes.len() < HEADER.saturating_add(2) => Looks::More,
                false => Looks::Other,
            }
        }
    }
}

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if !probe.transport.is_stream() {
        return Detect::No;
    }
    decide(probe, looks(probe.first), looks(probe.second))
}
