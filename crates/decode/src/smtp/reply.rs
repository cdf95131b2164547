//! Lines of a server.

use crate::text::decimal;
use wirespan_model::Outcome;

/// A line of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reply<'a> {
    pub(super) code: u16,
    /// Further lines of the same reply follow.
    pub(super) more: bool,
    /// Enhanced status code (RFC 3463), if the text begins with one.
    pub(super) enhanced: Option<&'a str>,
    pub(super) text: &'a [u8],
}

/// Reads a line without its end.
pub(super) fn reply(line: &[u8]) -> Option<Reply<'_>> {
    let (code, rest) = line.split_at_checked(3)?;
    let code = decimal(code).and_then(|n| u16::try_from(n).ok()).filter(|n| (200..=599).contains(n))?;
    let (more, text) = match rest {
        [] => (false, rest),
        [b' ', text @ ..] => (false, text),
        [b'-', text @ ..] => (true, text),
        _ => return None,
    };
    let word = text.split(|b| *b == b' ').next().unwrap_or_default();
    let enhanced = std::str::from_utf8(word).ok().filter(|w| is_enhanced(w, code));
    let text = enhanced.map_or(text, |w| text.get(w.len()..).unwrap_or_default()).trim_ascii();
    Some(Reply { code, more, enhanced, text })
}

/// Class, subject, detail; the class is that of the status code.
fn is_enhanced(word: &str, code: u16) -> bool {
    let mut parts = word.split('.');
    let class = parts.next().and_then(|p| decimal(p.as_bytes())) == Some(u64::from(code / 100));
    let number = |p: Option<&str>| p.is_some_and(|p| p.len() <= 3 && decimal(p.as_bytes()).is_some());
    class && number(parts.next()) && number(parts.next()) && parts.next().is_none()
}

/// Whose fault a status is.
pub(super) fn outcome(code: u16) -> Outcome {
    match code {
        ..=399 => Outcome::Ok,
        400..=499 => Outcome::ServerError,
        _ => Outcome::ClientError,
    }
}
