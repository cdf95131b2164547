//! Lines of the text protocol.

use crate::text::{decimal, visible};
use crate::url::looks_secret;

/// How a command is written and answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Keys behind the name; answered by values and `END`.
    Get,
    /// A time, then keys.
    GetAndTouch,
    /// Key, flags, time, length; a value follows.
    Store,
    /// One key, perhaps a number.
    Key,
    /// Anything else.
    Other,
    /// `quit`: never answered.
    Quit,
    /// A meta command with a key and flags.
    Meta,
    /// `ms`: a meta command with a value.
    MetaSet,
    /// `mn`: answered by `MN` only.
    MetaNoop,
}

static COMMANDS: [(&str, Class); 30] = [
    ("get", Class::Get),
    ("gets", Class::Get),
    ("gat", Class::GetAndTouch),
    ("gats", Class::GetAndTouch),
    ("set", Class::Store),
    ("add", Class::Store),
    ("replace", Class::Store),
    ("append", Class::Store),
    ("prepend", Class::Store),
    ("cas", Class::Store),
    ("delete", Class::Key),
    ("incr", Class::Key),
    ("decr", Class::Key),
    ("touch", Class::Key),
    ("stats", Class::Other),
    ("flush_all", Class::Other),
    ("version", Class::Other),
    ("verbosity", Class::Other),
    ("cache_memlimit", Class::Other),
    ("slabs", Class::Other),
    ("lru", Class::Other),
    ("lru_crawler", Class::Other),
    ("shutdown", Class::Other),
    ("quit", Class::Quit),
    ("mg", Class::Meta),
    ("md", Class::Meta),
    ("ma", Class::Meta),
    ("me", Class::Meta),
    ("ms", Class::MetaSet),
    ("mn", Class::MetaNoop),
];

/// Longest key that is shown, bytes.
const MAX_KEY: usize = 64;
/// Arguments that are written as `?` one by one.
const MAX_MARKS: usize = 8;

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) name: &'static str,
    pub(super) class: Class,
    /// Number of keys, if the line is whole.
    pub(super) keys: i64,
    /// Bytes of the value behind the line, its line end included.
    pub(super) value: u64,
    /// No answer is asked for.
    pub(super) quiet: bool,
    /// Hash of the opaque token of a meta command.
    pub(super) opaque: Option<u64>,
}

fn words(line: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> + Clone {
    line.split(|b| *b == b' ').filter(|w| !w.is_empty())
}

/// Reads a line without its end; none if it is no command. Of a line that was `cut`, the name is enough.
pub(super) fn command(line: &[u8], cut: bool) -> Option<Command> {
    let mut rest = words(line);
    let first = rest.next()?;
    let (name, class) = *COMMANDS.iter().find(|(name, _)| name.as_bytes() == first)?;
    let mut command = Command { name, class, keys: 0, value: 0, quiet: class == Class::Quit, opaque: None };
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let noreply = || rest.clone().next_back() == Some(b"noreply");
    match class {
        Class::Get => command.keys = count(rest.count()),
        Class::GetAndTouch => command.keys = count(rest.count().saturating_sub(1)),
        Class::Store => {
            (command.keys, command.quiet) = (1, noreply());
            match rest.nth(3).and_then(decimal) {
                Some(len) => command.value = len.saturating_add(2),
                None if cut => {}
                None => return None,
            }
        }
        Class::Key => (command.keys, command.quiet) = (1, noreply()),
        Class::Other => command.quiet = noreply(),
        Class::Meta | Class::MetaSet => {
            command.keys = 1;
            rest.next();
            if class == Class::MetaSet {
                match rest.next().and_then(decimal) {
                    Some(len) => command.value = len.saturating_add(2),
                    None if cut => {}
                    None => return None,
                }
            }
            command.quiet = rest.clone().any(|flag| flag == b"q");
            command.opaque = opaque(rest);
        }
        Class::Quit | Class::MetaNoop => {}
    }
    let complete = cut || !matches!(class, Class::Get | Class::GetAndTouch) || command.keys > 0;
    complete.then_some(command)
}

/// A key that may be shown.
pub(super) fn key(word: &[u8]) -> Option<&str> {
    visible(word, MAX_KEY).filter(|_| word.len() <= MAX_KEY && !looks_secret(word))
}

/// A command with its first key; its other arguments are hidden.
pub(super) fn shown(line: &[u8], command: &Command) -> String {
    let first = match command.class {
        _ if command.keys == 0 => None,
        Class::GetAndTouch => Some(1),
        _ => Some(0),
    };
    let mut text = command.name.to_owned();
    for (at, word) in words(line).skip(1).take(MAX_MARKS).enumerate() {
        text.push(' ');
        text.push_str(key(word).filter(|_| first == Some(at)).unwrap_or("?"));
    }
    text
}

/// A command of another version or a mistake: a word, and text behind it.
pub(super) fn unknown(line: &[u8]) -> Option<Command> {
    let word = words(line).next()?;
    let text =
        line.iter().all(|b| (b' '..=b'~').contains(b)) && word.iter().all(|b| b.is_ascii_lowercase() || *b == b'_');
    text.then_some(Command { name: "_OTHER", class: Class::Other, keys: 0, value: 0, quiet: false, opaque: None })
}

fn opaque<'a>(mut flags: impl Iterator<Item = &'a [u8]>) -> Option<u64> {
    let token = flags.find_map(|f| f.strip_prefix(b"O"))?;
    Some(token.iter().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3)))
}

/// The kind of a server's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// A value of a retrieval follows, this long with its line end.
    Value(u64),
    /// A line of a list that `END` ends.
    Listed,
    /// The end of values or of a list.
    End,
    /// A whole answer: its word, and the length of the value behind it (`VA`).
    Word { word: &'static str, value: u64, opaque: Option<u64> },
    /// An error: its word and text.
    Error { word: &'static str, text: &'a [u8] },
}

static WORDS: [&str; 19] = [
    "STORED",
    "NOT_STORED",
    "EXISTS",
    "NOT_FOUND",
    "DELETED",
    "TOUCHED",
    "OK",
    "RESET",
    "VERSION",
    "HD",
    "EN",
    "NS",
    "EX",
    "NF",
    "MN",
    "ME",
    "VA",
    "BUSY",
    "BADCLASS",
];

/// Reads a line without its end.
pub(super) fn line(line: &[u8]) -> Option<Line<'_>> {
    let mut rest = words(line);
    let first = rest.next()?;
    match first {
        b"VALUE" => return Some(Line::Value(rest.nth(2).and_then(decimal)?.saturating_add(2))),
        b"STAT" | b"ITEM" => return Some(Line::Listed),
        b"END" if line.len() == 3 => return Some(Line::End),
        b"ERROR" => return Some(Line::Error { word: "ERROR", text: b"" }),
        b"CLIENT_ERROR" => return Some(Line::Error { word: "CLIENT_ERROR", text: line.get(13..).unwrap_or_default() }),
        b"SERVER_ERROR" => return Some(Line::Error { word: "SERVER_ERROR", text: line.get(13..).unwrap_or_default() }),
        number if decimal(number).is_some() => {
            // The new value of a counter; older servers pad it with spaces.
            return rest.next().is_none().then_some(Line::Word { word: "", value: 0, opaque: None });
        }
        _ => {}
    }
    let word = *WORDS.iter().find(|w| w.as_bytes() == first)?;
    let mut value = 0;
    if word == "VA" {
        value = rest.next().and_then(decimal)?.saturating_add(2);
    }
    Some(Line::Word { word, value, opaque: opaque(rest) })
}
