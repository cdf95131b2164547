//! What a SASL layer puts around messages: a length, then a token of the mechanism (RFC 4422, section 3.7).
//!
//! A layer that only signs leaves the messages readable inside the token. One token may hold several messages, and a
//! checksum before or behind them:
//!
//! - **Kerberos** (GSSAPI, GSS-SPNEGO), RFC 4121, section 4.2.6.2: sixteen bytes, the messages, a checksum; the whole
//!   behind the header is rotated, so that the checksum may come first
//! - **Kerberos of old**, RFC 1964, section 1.2.2: a head in ASN.1, two algorithms, sequence, checksum, confounder
//! - **NTLM** (GSS-SPNEGO), MS-NLMP, section 2.2.2.9: a signature of sixteen bytes
//! - **DIGEST-MD5**, RFC 2831, section 2.3: nothing before, sixteen bytes behind

use super::parse::envelope;
use crate::ber::Stop;

/// Bytes of a token that are looked at: its head, and the head of the first message.
const MAX_HEAD: usize = 96;
/// Largest token that is believed: 16 MiB is what most implementations allow.
const MAX_TOKEN: usize = 16 * 1024 * 1024;
/// Of Kerberos' token the flag that it is encrypted.
const SEALED: u8 = 2;
/// Most bytes behind the messages of a token: a checksum of SHA-2 or the trailer of DIGEST-MD5.
pub(super) const MAX_BEHIND: usize = 24;

/// A token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// Bytes of the whole token, with its length.
    pub(super) total: usize,
    /// Bytes before the first message; `None` if the token is encrypted, or of an unknown kind.
    pub(super) before: Option<usize>,
}

/// Reads the head of the token at the start of `bytes`. `all`: no more bytes will come.
pub(super) fn token(bytes: &[u8], all: bool) -> Result<Token, Stop> {
    let Some((length, body)) = bytes.split_first_chunk::<4>() else {
        return Err(if bytes.first().is_none_or(|b| *b == 0) { Stop::More } else { Stop::Bad });
    };
    let len = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    // A message that is not in a token starts with 0x30, so that the two are told apart.
    if !(17..=MAX_TOKEN).contains(&len) {
        return Err(Stop::Bad);
    }
    let total = len.saturating_add(4);
    if bytes.len() < total.min(MAX_HEAD) && !all {
        return Err(Stop::More);
    }
    // How the bytes come in pieces must change nothing.
    let body = body.get(..MAX_HEAD.saturating_sub(4)).unwrap_or(body);
    let holds = |at: usize| {
        let inside = body.get(at..len.min(body.len()))?;
        match envelope(inside) {
            Ok(e) if e.total <= len.saturating_sub(at) => Some(at.saturating_add(4)),
            _ => None,
        }
    };
    let before = start(body).and_then(holds).or_else(|| holds(16)).or_else(|| holds(0));
    Ok(Token { total, before })
}

/// Where Kerberos' token holds its first message, if it is not encrypted.
fn start(body: &[u8]) -> Option<usize> {
    match body {
        [5, 4, flags, 0xff, _, _, a, b, ..] if flags & SEALED == 0 => {
            let rotated = usize::from(u16::from_be_bytes([*a, *b]));
            Some(rotated.saturating_add(16))
        }
        [0x60, ..] => {
            let outer = crate::ber::head(body).ok()?;
            let oid = crate::ber::head(body.get(outer.head..)?).ok().filter(|oid| oid.tag == 6)?;
            let at = outer.head.saturating_add(oid.total());
            match body.get(at..)? {
                // Wrap, the checksum's algorithm, no encryption, filler.
                [2, 1, _, _, 0xff, 0xff, 0xff, 0xff, ..] => Some(at.saturating_add(32)),
                _ => None,
            }
        }
        _ => None,
    }
}
