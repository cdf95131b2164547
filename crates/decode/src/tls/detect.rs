//! Recognises TLS by a hello, or by records at both ends.
//!
//! Bias: against. A ClientHello is enough: record and message must have lengths that fit, a version, a session id and
//! an even list of ciphers. One that is longer than its record goes on in the next. From the middle both ends must show
//! a record, and where a second one is in sight it must be one too.

use super::hello::old_form;
use super::parse::{record, ALERT, CHANGE_CIPHER, DATA, HANDSHAKE, HEAD};
use crate::{Detect, Probe, MAX_BUFFERED};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    Silent,
    Short,
    ClientHello,
    ServerHello,
    /// Any other record.
    Record(u8),
    Other,
}

fn looks(bytes: &[u8]) -> Looks {
    if bytes.is_empty() {
        return Looks::Silent;
    }
    if let Some(total) = old_form(bytes) {
        return if bytes.len() <= total { Looks::ClientHello } else { Looks::Other };
    }
    if bytes.len() < HEAD {
        let fits = [Some(&3), None].contains(&bytes.get(1)) && bytes.first().is_some_and(|b| (20..=23).contains(b));
        return if fits { Looks::Short } else { Looks::Other };
    }
    let Some((kind, len)) = record(bytes) else { return Looks::Other };
    if kind == HANDSHAKE {
        match hello(bytes.get(HEAD..).unwrap_or_default(), len) {
            Looks::Other if goes_on(bytes) => return Looks::ClientHello,
            Looks::Other => {}
            looks => return looks,
        }
    }
    let lengths = match kind {
        CHANGE_CIPHER => len == 1,
        ALERT => len == 2 || len >= 18,
        HANDSHAKE => len >= 4,
        DATA => len >= 17,
        _ => false,
    };
    let next = bytes.get(len.saturating_add(HEAD)..).unwrap_or_default();
    let follows = next.len() < HEAD || record(next).is_some();
    if lengths && follows {
        Looks::Record(kind)
    } else {
        Looks::Other
    }
}

/// The beginning of a client's hello that is longer than its record, and the record that continues it. A record may be
/// as short as one byte.
fn goes_on(bytes: &[u8]) -> bool {
    let (mut hello, mut records, mut rest) = ([0u8; 5], 0usize, bytes);
    let mut have = 0usize;
    while let Some((HANDSHAKE, len)) = record(rest) {
        records = records.saturating_add(1);
        let body = rest.get(HEAD..).unwrap_or_default();
        let body = body.get(..len).unwrap_or(body);
        for (to, from) in hello.iter_mut().skip(have).zip(body) {
            (*to, have) = (*from, have.saturating_add(1));
        }
        if have == hello.len() && records > 1 {
            let [kind, a, b, c, major] = hello;
            let len = usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap_or(usize::MAX);
            return kind == 1 && major == 3 && (38..=MAX_BUFFERED).contains(&len);
        }
        rest = rest.get(len.saturating_add(HEAD)..).unwrap_or_default();
    }
    false
}

/// A hello in a record with this length.
fn hello(body: &[u8], record: usize) -> Looks {
    let [kind @ 1..=2, a, b, c, 3, _, rest @ ..] = body else {
        return if body.len() < 6 && matches!(body.first(), None | Some(1..=2)) { Looks::Short } else { Looks::Other };
    };
    let len = usize::try_from(u32::from_be_bytes([0, *a, *b, *c])).unwrap_or(usize::MAX);
    // Others may follow the server's hello in its record.
    let fits = len >= 38 && if *kind == 1 { len.saturating_add(4) == record } else { len.saturating_add(4) <= record };
    let Some((session, rest)) = rest.get(32..).and_then(|r| r.split_first()) else {
        return if fits { Looks::Short } else { Looks::Other };
    };
    let behind = rest.get(usize::from(*session)..).unwrap_or_default();
    let ciphers = behind.first_chunk().map(|b| u16::from_be_bytes(*b));
    match (fits && *session <= 32, *kind, ciphers) {
        (false, ..) => Looks::Other,
        (true, _, None) => Looks::Short,
        (true, 1, Some(n)) if n >= 2 && n % 2 == 0 && usize::from(n) < record => Looks::ClientHello,
        (true, 2, Some(_)) if behind.get(2).is_none_or(|compression| *compression == 0) => Looks::ServerHello,
        _ => Looks::Other,
    }
}

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if !probe.transport.is_stream() {
        return Detect::No;
    }
    let client = |first_is_client| probe.agrees(first_is_client);
    match (looks(probe.first), looks(probe.second)) {
        (Looks::ClientHello, Looks::Silent | Looks::Short | Looks::ServerHello | Looks::Record(HANDSHAKE | ALERT)) => {
            client(true)
        }
        (Looks::ServerHello, Looks::Record(_)) => client(false),
        (Looks::Record(DATA), Looks::Record(DATA)) => {
            Detect::Yes { first_is_client: probe.first_is_client.unwrap_or(true) }
        }
        (Looks::Short, Looks::Silent | Looks::Short)
        | (Looks::Record(DATA) | Looks::ServerHello, Looks::Silent | Looks::Short) => Detect::Maybe,
        _ => Detect::No,
    }
}
