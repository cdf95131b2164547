//! The head of a reply: its type, its length, and for errors and pushes their first words.

use super::head::{Cursor, Stop, Text, MAX_CHANNEL, MAX_ELEMENTS, MAX_HEAD};

/// Longest first string of an aggregate that is looked at, bytes.
const MAX_FIRST: usize = 16;

/// The kind of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape<'a> {
    /// `+`: the line.
    Simple(&'a [u8]),
    /// `-` or `!`: the text.
    Error(&'a [u8]),
    /// `:`, `,`, `(`, `#`, `_`, and null strings and arrays.
    Scalar,
    /// `$`, `=`: length of the string.
    Bulk(u64),
    /// `*`, `~`, `%`: its first string, if asked for.
    Aggregate(Option<&'a [u8]>),
    /// `>`: its first string.
    Push(Option<&'a [u8]>),
    /// `|`: stands before the reply.
    Attribute,
}

/// Head of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reply<'a> {
    pub(super) shape: Shape<'a>,
    /// The line goes on behind the head.
    pub(super) open_line: bool,
    /// Bytes of the string that the head ended in, its line end included.
    pub(super) tail: u64,
    /// Elements behind that.
    pub(super) left: u64,
    /// A type that only RESP3 has.
    pub(super) resp3: bool,
    /// Channel of a published message.
    pub(super) channel: Option<&'a [u8]>,
}

/// Reads the head of a reply; also says how long it is. `first` asks for the first string of any aggregate. If the rest
/// was `cut` off, the type is enough.
pub(super) fn reply(bytes: &[u8], first: bool, cut: bool) -> Result<(Reply<'_>, usize), Stop> {
    let mut at = Cursor::new(bytes);
    let sigil = at.peek()?;
    let mut reply = Reply {
        shape: Shape::Scalar,
        open_line: false,
        tail: 0,
        left: 0,
        resp3: b"_#,(!=~%>|".contains(&sigil),
        channel: None,
    };
    match sigil {
        b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => {
            let (line, open) = line(&mut at)?;
            reply.open_line = open;
            reply.shape = match sigil {
                b'+' => Shape::Simple(line),
                b'-' => Shape::Error(line),
                _ if scalar_ok(sigil, line) => Shape::Scalar,
                _ => return Err(Stop::Bad),
            };
        }
        b'$' | b'=' => {
            if let (_, Some(len)) = at.count()? {
                reply.shape = Shape::Bulk(len);
                reply.tail = len.saturating_add(2);
            }
        }
        b'!' => {
            let (_, len) = at.count()?;
            let len = len.ok_or(Stop::Bad)?;
            let known = at.rest();
            let want = crate::text::at_most(len, MAX_HEAD / 2);
            if known.len() < want && !cut {
                return Err(Stop::More);
            }
            let text = known.get(..want).unwrap_or(known);
            reply.shape = Shape::Error(text);
            reply.tail = len.saturating_sub(crate::text::len64(text.len())).saturating_add(2);
            at.skip(text.len());
        }
        b'*' | b'~' | b'%' | b'>' | b'|' => {
            let (_, count) = at.count()?;
            let count = count.unwrap_or(0);
            if count > MAX_ELEMENTS {
                return Err(Stop::Bad);
            }
            reply.left = if matches!(sigil, b'%' | b'|') { count.saturating_mul(2) } else { count };
            let mut name = None;
            if reply.left > 0 && (first && sigil == b'*' || sigil == b'>') {
                match next_string(&mut at, &mut reply, MAX_FIRST) {
                    Err(Stop::More) if cut => {}
                    read => name = read?,
                }
                // A message has its channel behind its kind; one that a pattern found has the pattern between.
                let behind = match name {
                    Some(b"message" | b"smessage") => 1,
                    Some(b"pmessage") => 2,
                    _ => 0,
                };
                for _ in 0..behind {
                    reply.channel = match next_string(&mut at, &mut reply, MAX_CHANNEL) {
                        Err(Stop::More) if cut => None,
                        read => read?,
                    };
                    if reply.channel.is_none() {
                        break;
                    }
                }
            }
            reply.shape = match sigil {
                b'>' => Shape::Push(name),
                b'|' => Shape::Attribute,
                _ => Shape::Aggregate(name),
            };
        }
        _ => return Err(Stop::Bad),
    }
    Ok((reply, at.at()))
}

fn next_string<'a>(at: &mut Cursor<'a>, reply: &mut Reply<'_>, max: usize) -> Result<Option<&'a [u8]>, Stop> {
    if reply.left == 0 || at.peek()? != b'$' || at.rest().starts_with(b"$-") {
        return Ok(None);
    }
    let text = at.text(max)?;
    reply.left = reply.left.saturating_sub(1);
    match text {
        Text::Short(text) => Ok(Some(text)),
        Text::Long(len) => {
            reply.tail = len.saturating_add(2);
            Ok(None)
        }
    }
}

/// The text of a line behind its sigil, and whether the line is longer than the part that is kept.
fn line<'a>(at: &mut Cursor<'a>) -> Result<(&'a [u8], bool), Stop> {
    let bytes = at.rest();
    let window = bytes.get(..MAX_HEAD / 2).unwrap_or(bytes);
    match memchr::memchr(b'\n', window) {
        Some(end) => {
            at.skip(end.saturating_add(1));
            let line = window.get(1..end).and_then(|l| l.strip_suffix(b"\r")).ok_or(Stop::Bad)?;
            if line.contains(&b'\r') {
                return Err(Stop::Bad);
            }
            Ok((line, false))
        }
        None if window.len() < MAX_HEAD / 2 => Err(Stop::More),
        None => {
            at.skip(window.len());
            Ok((window.get(1..).unwrap_or_default(), true))
        }
    }
}

/// Whether the text suits the type.
fn scalar_ok(sigil: u8, line: &[u8]) -> bool {
    let number = |extra: &[u8]| !line.is_empty() && line.iter().all(|b| b.is_ascii_digit() || extra.contains(b));
    match sigil {
        b':' | b'(' => number(b"+-"),
        b',' => number(b"+-.eEinfa"),
        b'#' => matches!(line, b"t" | b"f"),
        _ => line.is_empty(),
    }
}
