//! Recognises LDAP by a bind or a search, or from the middle by a request and the answer to it.
//!
//! Bias: against. A message of BER is easily something else (SNMP, Kerberos), so that lengths must fit exactly, and the
//! operation must begin as it has to. Other requests need an answer with their id.

use super::emit;
use super::layer::{self, Token};
use super::parse::{envelope, first_number};
use crate::ber::{elements, Stop};
use crate::{Detect, Probe};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    Silent,
    Short,
    /// A request that nothing else can be.
    Surely,
    Asks(u64, u8),
    Answers(u64, u8),
    Other,
}

fn looks(bytes: &[u8]) -> Looks {
    if bytes.is_empty() {
        return Looks::Silent;
    }
    // The first message of a token whose layer only signs.
    let bytes = match layer::token(bytes, bytes.len() >= 1024) {
        Ok(Token { before: Some(before), total }) => bytes.get(before..total.min(bytes.len())).unwrap_or_default(),
        _ => bytes,
    };
    let e = match envelope(bytes) {
        Ok(e) if e.exact => e,
        Ok(_) | Err(Stop::Bad) => return Looks::Other,
        Err(Stop::More) => return if bytes.len() < 16 { Looks::Short } else { Looks::Other },
    };
    let mut parts = elements(e.content);
    match e.tag {
        // Version, name, authentication.
        0x60 => {
            let version = matches!(parts.next(), Some((2, [2 | 3])));
            let name = parts.next().is_some_and(|(tag, _)| tag == 4);
            let how = parts.next().map(|(tag, _)| tag);
            match how {
                Some(0x80 | 0xa3 | 0x89..=0x8b) if version && name && e.id > 0 => Looks::Surely,
                _ => Looks::Other,
            }
        }
        // Base, scope, aliases, two limits, types only.
        0x63 => {
            let base = matches!(parts.next(), Some((4, _)));
            let scope = matches!(parts.next(), Some((10, [0..=3])));
            let aliases = matches!(parts.next(), Some((10, [0..=3])));
            let limits = [parts.next(), parts.next()].iter().all(|l| matches!(l, Some((2, [_, ..]))));
            let types = matches!(parts.next(), Some((1, [0 | 0xff | 1])));
            if base && scope && aliases && limits && types && e.id > 0 {
                Looks::Surely
            } else {
                Looks::Other
            }
        }
        emit::ENTRY if parts.next().is_some_and(|(tag, _)| tag == 4) => Looks::Answers(e.id, e.tag),
        emit::REFERENCE => Looks::Answers(e.id, e.tag),
        tag if emit::asks(tag) && e.id > 0 => Looks::Asks(e.id, tag),
        tag if !emit::asks(tag) && first_number(e.content).is_some_and(|code| code <= 123) => Looks::Answers(e.id, tag),
        _ => Looks::Other,
    }
}

/// Whether an operation is answered by another: results have the next tag.
fn fits(asks: u8, answers: u8) -> bool {
    match asks {
        0x77 => answers == 0x78,
        0x4a => answers == 0x6b,
        tag => tag.checked_add(1) == Some(answers),
    }
}

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if !probe.transport.is_stream() {
        return Detect::No;
    }
    let client = |first_is_client| probe.agrees(first_is_client);
    match (looks(probe.first), looks(probe.second)) {
        (Looks::Surely, Looks::Silent | Looks::Short | Looks::Answers(..)) => client(true),
        (Looks::Answers(..), Looks::Surely) => client(false),
        (Looks::Asks(a, asks), Looks::Answers(b, answers)) if a == b && fits(asks, answers) => client(true),
        (Looks::Asks(..) | Looks::Answers(..) | Looks::Short, Looks::Silent | Looks::Short) => Detect::Maybe,
        _ => Detect::No,
    }
}
