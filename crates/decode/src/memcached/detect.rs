//! Recognises memcached, from any message on.
//!
//! Bias: against. Text: a command in its exact form *and* an answer that suits it, because Redis, beanstalkd and others
//! also take words and lines. Binary: a header whose lengths are exactly those of its operation, and no invalid answer.

use super::binary;
use super::text::{self, Class, Line};
use crate::{Detect, Probe};

fn stream(probe: &Probe<'_>) -> bool {
    probe.transport.is_stream()
}

/// The first line, if it is whole.
fn line(bytes: &[u8]) -> Option<&[u8]> {
    let window = bytes.get(..2048).unwrap_or(bytes);
    let end = memchr::memchr(b'\n', window)?;
    window.get(..end)?.strip_suffix(b"\r").filter(|l| !l.iter().any(u8::is_ascii_control))
}

/// Whether these bytes could be the start of a line of text.
fn unfinished(bytes: &[u8]) -> bool {
    !bytes.contains(&b'\n') && bytes.iter().all(|b| (b' '..=b'~').contains(b) || *b == b'\r')
}

fn is_command(bytes: &[u8]) -> Option<(&'static str, Class)> {
    let line = line(bytes)?;
    let command = text::command(line, false)?;
    let words: Vec<&[u8]> = line.split(|b| *b == b' ').filter(|w| !w.is_empty()).take(8).collect();
    let number = |i: usize| words.get(i).is_some_and(|w| w.iter().all(u8::is_ascii_digit));
    let keys_fit = words.iter().skip(1).all(|w| w.len() <= 250);
    let exact = match command.class {
        Class::Get | Class::MetaNoop => true,
        Class::GetAndTouch => number(1),
        Class::Store => number(2) && number(4) && matches!(words.len(), 5..=7),
        // beanstalkd deletes and touches by number.
        Class::Key if command.name == "delete" => matches!(words.len(), 2 | 3) && !number(1),
        Class::Key => matches!(words.len(), 3 | 4) && number(2),
        Class::Meta => matches!(words.len(), 2..),
        Class::MetaSet => number(2),
        Class::Other => matches!(command.name, "stats" | "version" | "flush_all"),
        Class::Quit => false,
    };
    (exact && keys_fit).then_some((command.name, command.class))
}

/// Whether a line of a server answers this command.
fn answers(bytes: &[u8], name: &str, class: Class) -> bool {
    let Some(said) = line(bytes).and_then(text::line) else { return false };
    let word = match said {
        Line::Value(_) | Line::End => return matches!(class, Class::Get | Class::GetAndTouch),
        Line::Listed => return name == "stats",
        Line::Error { word, .. } => return word != "ERROR" && class != Class::Other,
        Line::Word { word, .. } => word,
    };
    match class {
        Class::Store => matches!(word, "STORED" | "NOT_STORED" | "EXISTS" | "NOT_FOUND"),
        Class::Key => match name {
            "delete" => matches!(word, "DELETED" | "NOT_FOUND"),
            "touch" => matches!(word, "TOUCHED" | "NOT_FOUND"),
            _ => matches!(word, "" | "NOT_FOUND"),
        },
        Class::Meta | Class::MetaSet => matches!(word, "VA" | "HD" | "EN" | "NS" | "EX" | "NF" | "MN" | "ME"),
        Class::MetaNoop => word == "MN",
        Class::Other => word == "VERSION" && name == "version",
        Class::Get | Class::GetAndTouch | Class::Quit => false,
    }
}

/// The text protocol.
pub(super) fn text(probe: &Probe<'_>) -> Detect {
    if !stream(probe) {
        return Detect::No;
    }
    let (a, b) = (probe.first, probe.second);
    if let Some((name, class)) = is_command(a) {
        return match b {
            _ if probe.first_is_client == Some(false) => Detect::No,
            [] => Detect::Maybe,
            b if answers(b, name, class) => Detect::Yes { first_is_client: true },
            b if unfinished(b) && b.len() < 300 => Detect::Maybe,
            _ => Detect::No,
        };
    }
    if let Some((name, class)) = is_command(b) {
        // The answer to an earlier command came first: any line of a server that is no other protocol's.
        let server = line(a).and_then(text::line).is_some_and(|l| match l {
            Line::Value(_) => true,
            Line::End | Line::Listed | Line::Error { .. } => answers(a, name, class),
            Line::Word { word, .. } => word.len() > 3 && word != "VERSION" && answers(a, name, class),
        });
        return match (server, probe.first_is_client) {
            (true, Some(false) | None) => Detect::Yes { first_is_client: false },
            _ => Detect::No,
        };
    }
    let may =
        |bytes: &[u8]| line(bytes).is_some_and(|l| text::line(l).is_some()) || unfinished(bytes) && bytes.len() < 300;
    match b {
        [] if may(a) => Detect::Maybe,
        _ => Detect::No,
    }
}

/// The binary protocol.
pub(super) fn binary(probe: &Probe<'_>) -> Detect {
    if !stream(probe) {
        return Detect::No;
    }
    let looks = |bytes: &[u8], magic: u8| match bytes {
        [] => Some(false),
        [first, ..] if *first != magic => None,
        _ if bytes.len() < binary::HEADER => Some(false),
        _ => binary::header(bytes).filter(binary::is_exact).map(|_| true),
    };
    let ends = |client: &[u8], server: &[u8]| Some((looks(client, binary::REQUEST)?, looks(server, binary::RESPONSE)?));
    if let Some((asks, _)) = ends(probe.first, probe.second).filter(|_| probe.first_is_client != Some(false)) {
        return if asks { Detect::Yes { first_is_client: true } } else { Detect::Maybe };
    }
    match ends(probe.second, probe.first).filter(|_| probe.first_is_client != Some(true)) {
        Some((true, true)) => Detect::Yes { first_is_client: false },
        Some((false, _)) if probe.second.len() < binary::HEADER => Detect::Maybe,
        _ => Detect::No,
    }
}
