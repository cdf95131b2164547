//! The head of a command: its name, the words that belong to the operation, the number of its arguments.

use super::commands::{has_channel, is_container, key_is_first, Name, MAX_NAME};
use crate::text::decimal;

/// Longest head of a command or reply that is kept while incomplete, bytes.
pub(super) const MAX_HEAD: usize = 1024;
/// Longest line with a length or a count, bytes.
pub(super) const MAX_COUNT_LINE: usize = 24;
/// Most elements of one aggregate.
pub(super) const MAX_ELEMENTS: u64 = 1 << 32;

/// Why a head cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It goes on behind the bytes.
    More,
    /// No head starts here.
    Bad,
}

/// `CLIENT REPLY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyMode {
    On,
    Off,
    Skip,
}

/// Head of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Command {
    /// `None` if it is no name.
    pub(super) name: Option<Name>,
    /// Second word of the operation.
    pub(super) sub: Option<Name>,
    /// Arguments behind the operation.
    pub(super) arguments: u64,
    /// Bytes of the string that the head ended in, its line end included.
    pub(super) tail: u64,
    /// Strings behind that.
    pub(super) left: u64,
    /// Database of `SELECT`.
    pub(super) db: Option<u32>,
    /// Mode of `CLIENT REPLY`.
    pub(super) mode: Option<ReplyMode>,
    /// Channel of `PUBLISH` and `SUBSCRIBE` and their kin: the first.
    pub(super) channel: Option<Channel>,
    /// First key, if it may be shown.
    pub(super) key: Option<Channel>,
}

/// Longest name of a channel that is kept, bytes.
pub(super) const MAX_CHANNEL: usize = 64;

/// The name of a channel on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Channel {
    bytes: [u8; MAX_CHANNEL],
    len: usize,
}

impl Channel {
    /// Takes a name that is text.
    pub(super) fn new(name: &[u8]) -> Option<Channel> {
        let mut bytes = [0; MAX_CHANNEL];
        bytes.get_mut(..name.len())?.copy_from_slice(name);
        let clean = std::str::from_utf8(name).is_ok() && !crate::text::has_control(name);
        clean.then_some(Channel { bytes, len: name.len() })
    }

    /// The name.
    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(self.bytes.get(..self.len).unwrap_or_default()).unwrap_or_default()
    }
}

/// Reads forward through bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A string of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Text<'a> {
    /// Read whole.
    Short(&'a [u8]),
    /// Too long to matter: its length; its bytes were not read.
    Long(u64),
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, at: 0 }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn peek(&self) -> Result<u8, Stop> {
        self.bytes.get(self.at).copied().ok_or(Stop::More)
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    pub(super) fn skip(&mut self, n: usize) {
        self.at = self.at.saturating_add(n).min(self.bytes.len());
    }

    /// A sigil, a number and a line end. `None` for -1 (null).
    pub(super) fn count(&mut self) -> Result<(u8, Option<u64>), Stop> {
        let sigil = self.peek()?;
        let line = self.rest().get(1..).ok_or(Stop::More)?;
        let window = line.get(..MAX_COUNT_LINE).unwrap_or(line);
        let Some(end) = window.iter().position(|b| *b == b'\r') else {
            let digits = window.iter().all(|b| b.is_ascii_digit() || *b == b'-');
            return Err(if digits && window.len() < MAX_COUNT_LINE { Stop::More } else { Stop::Bad });
        };
        let (number, behind) = window.split_at_checked(end).ok_or(Stop::Bad)?;
        let value = match number {
            b"-1" => None,
            digits => Some(decimal(digits).ok_or(Stop::Bad)?),
        };
        match behind.get(1) {
            Some(b'\n') => self.skip(end.saturating_add(3)),
            Some(_) => return Err(Stop::Bad),
            None => return Err(Stop::More),
        }
        Ok((sigil, value))
    }

    /// A bulk string; its bytes only if they are at most `max`.
    pub(super) fn text(&mut self, max: usize) -> Result<Text<'a>, Stop> {
        if self.peek()? != b'$' {
            return Err(Stop::Bad);
        }
        let mut ahead = *self;
        let (_, len) = ahead.count()?;
        let len = len.ok_or(Stop::Bad)?;
        let Some(short) = usize::try_from(len).ok().filter(|n| *n <= max) else {
            *self = ahead;
            return Ok(Text::Long(len));
        };
        let body = ahead.rest();
        let (text, behind) = body.split_at_checked(short).ok_or(Stop::More)?;
        match behind {
            [b'\r', b'\n', ..] => {}
            [] | [b'\r'] => return Err(Stop::More),
            _ => return Err(Stop::Bad),
        }
        ahead.skip(short.saturating_add(2));
        *self = ahead;
        Ok(Text::Short(text))
    }
}

/// Reads the head of a command; also says how long it is. If the rest was `cut` off, the name is enough. `keys` asks
/// for the first key.
pub(super) fn command(bytes: &[u8], cut: bool, keys: bool) -> Result<(Command, usize), Stop> {
    let mut at = Cursor::new(bytes);
    if at.peek()? != b'*' {
        return inline(bytes);
    }
    let (_, count) = at.count()?;
    let count = count.unwrap_or(0);
    if count > MAX_ELEMENTS {
        return Err(Stop::Bad);
    }
    let mut command = Command { left: count, arguments: count.saturating_sub(1), ..Command::default() };
    if count > 0 {
        match words(&mut at, &mut command, keys) {
            Err(Stop::More) if cut && command.name.is_some() => {}
            read => read?,
        }
    }
    Ok((command, at.at()))
}

/// The name and what belongs to it.
fn words(at: &mut Cursor<'_>, command: &mut Command, keys: bool) -> Result<(), Stop> {
    let Some(name) = word(at, command, MAX_NAME)? else { return Ok(()) };
    command.name = Name::new(name);
    let Some(name) = command.name else { return Ok(()) };
    let select = name.as_str() == "SELECT";
    let channel = has_channel(name.as_str());
    if keys && command.left > 0 && key_is_first(name.as_str(), command.arguments) {
        let key = word(at, command, MAX_CHANNEL)?.unwrap_or_default();
        command.key = Channel::new(key).filter(|_| !key.is_empty() && !crate::url::looks_secret(key));
        return Ok(());
    }
    if command.left == 0 || !(select || channel || is_container(name.as_str())) {
        return Ok(());
    }
    let Some(second) = word(at, command, if channel { MAX_CHANNEL } else { MAX_NAME })? else { return Ok(()) };
    if channel {
        command.channel = Channel::new(second);
        return Ok(());
    }
    if select {
        command.db = decimal(second).and_then(|n| u32::try_from(n).ok());
        return Ok(());
    }
    command.sub = Name::new(second);
    command.arguments = command.arguments.saturating_sub(u64::from(command.sub.is_some()));
    let reply = name.as_str() == "CLIENT" && command.sub.is_some_and(|s| s.as_str() == "REPLY");
    if reply && command.left > 0 {
        let third = word(at, command, MAX_NAME)?.unwrap_or_default();
        command.mode = reply_mode(third);
    }
    Ok(())
}

fn word<'a>(at: &mut Cursor<'a>, command: &mut Command, max: usize) -> Result<Option<&'a [u8]>, Stop> {
    let text = at.text(max)?;
    command.left = command.left.saturating_sub(1);
    match text {
        Text::Short(text) => Ok(Some(text)),
        Text::Long(len) => {
            command.tail = len.saturating_add(2);
            Ok(None)
        }
    }
}

fn reply_mode(word: &[u8]) -> Option<ReplyMode> {
    const MODES: [(&[u8], ReplyMode); 3] =
        [(b"ON", ReplyMode::On), (b"OFF", ReplyMode::Off), (b"SKIP", ReplyMode::Skip)];
    MODES.iter().find(|(name, _)| word.eq_ignore_ascii_case(name)).map(|(_, mode)| *mode)
}

/// The words of a line as Redis splits it: quotes hold a word together, a backslash protects a quote. The quotes stay.
#[derive(Clone, Copy, Debug)]
struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest.trim_ascii_start();
        let (mut quote, mut protected) = (None, false);
        let end = rest.iter().position(|b| {
            let protects = *b == b'\\' && quote.is_some() && !protected;
            match quote {
                Some(q) if *b == q && !protected => quote = None,
                None if matches!(b, b'"' | b'\'') => quote = Some(*b),
                _ => {}
            }
            protected = protects;
            quote.is_none() && b.is_ascii_whitespace()
        });
        let (word, rest) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }
}

/// A command typed as a line.
fn inline(bytes: &[u8]) -> Result<(Command, usize), Stop> {
    let window = bytes.get(..MAX_HEAD).unwrap_or(bytes);
    let Some(end) = memchr::memchr(b'\n', window) else {
        let text = !window.iter().any(|b| b.is_ascii_control() && !matches!(b, b'\r' | b'\t'));
        return Err(if text && window.len() < MAX_HEAD { Stop::More } else { Stop::Bad });
    };
    let line = window.get(..end).unwrap_or_default().trim_ascii();
    let mut words = Words { rest: line };
    let name = Name::new(words.next().unwrap_or_default()).filter(Name::is_known).ok_or(Stop::Bad)?;
    let mut command = Command { name: Some(name), ..Command::default() };
    let mut arguments = words;
    if name.as_str() == "SELECT" {
        command.db = arguments.next().and_then(decimal).and_then(|n| u32::try_from(n).ok());
    } else if is_container(name.as_str()) {
        command.sub = words.next().and_then(Name::new);
        arguments = words;
        if name.as_str() == "CLIENT" && command.sub.is_some_and(|s| s.as_str() == "REPLY") {
            command.mode = arguments.next().and_then(reply_mode);
        }
    }
    command.arguments = crate::text::len64(words.count());
    Ok((command, end.saturating_add(1)))
}
