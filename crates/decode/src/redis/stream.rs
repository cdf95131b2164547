//! One direction of a Redis connection: where it is, and how to get past the bytes behind a head.

use super::elements::Elements;
use super::head::{Cursor, MAX_COUNT_LINE, MAX_ELEMENTS};
use super::reason;
use crate::framing::Out;
use crate::text::{at_most, len64};
use memchr::memchr;
use wirespan_model::{Body, Item, Late, Message, Side};

/// Where a side is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// At the start of a message; if `lost`, only at the start of a chunk.
    Start { lost: bool },
    /// At the start of an element.
    Element,
    /// In a string and its line end.
    Skip { left: u64 },
    /// In a line.
    Line,
}

/// Length of an empty string, and of a usual key or argument, with its head and line ends, bytes.
const SHORTEST: u64 = 6;
const USUAL: u64 = 256;

/// One direction.
#[derive(Debug)]
pub(super) struct Stream {
    /// Offset of the first byte that was not taken; buffered bytes start here.
    pub(super) offset: u64,
    pub(super) state: State,
    /// Beginning of a head, or of the line that starts an element.
    pub(super) buf: Vec<u8>,
    /// Elements of the message that have not begun.
    left: u64,
    /// The message asks for an [`Item::End`].
    end: bool,
    /// The message begins where a call begins.
    pub(super) heads_call: bool,
    /// Elements of the message, if it moves any.
    elements: Option<Box<Elements>>,
}

impl Default for Stream {
    fn default() -> Self {
        Stream {
            offset: 0,
            state: State::Start { lost: false },
            buf: Vec::new(),
            left: 0,
            end: false,
            heads_call: false,
            elements: None,
        }
    }
}

impl Stream {
    /// Counts bytes as taken.
    pub(super) fn pass(&mut self, n: u64) {
        self.offset = self.offset.saturating_add(n);
    }

    /// A message of this head length begins here, and so many strings follow. Those that are `elements` are told at its
    /// end.
    pub(super) fn begin(&mut self, message: &mut Message<'_>, len: usize, left: u64, elements: Option<Elements>) {
        message.head_len = len64(len);
        self.pass(message.head_len);
        self.left = left;
        self.elements = elements.filter(|_| message.body != Body::None).map(Box::new);
        if self.elements.is_some() {
            message.body = Body::Open;
        }
        self.end = message.body == Body::Open;
    }

    /// Elements follow that belong to no message of their own.
    pub(super) fn begin_silent(&mut self, len: usize, left: u64) {
        self.pass(len64(len));
        (self.left, self.end, self.elements) = (left, false, None);
    }

    /// Goes on behind a head: first the rest of its line, or the `tail` of its string, then the elements.
    pub(super) fn enter(&mut self, side: Side, tail: u64, open_line: bool, out: Out<'_>) {
        if open_line {
            self.state = State::Line;
        } else if tail > 0 {
            self.state = State::Skip { left: tail };
            // Of a command, the head ends in its key.
            if let Some(elements) = self.elements.as_mut().filter(|_| side == Side::Server) {
                elements.begin(tail.saturating_sub(2), self.left);
            }
        } else {
            self.next(side, out);
        }
    }

    /// Goes on behind an element.
    pub(super) fn next(&mut self, side: Side, out: Out<'_>) {
        if let Some(left) = self.left.checked_sub(1) {
            (self.left, self.state) = (left, State::Element);
            return;
        }
        self.state = State::Start { lost: false };
        if std::mem::take(&mut self.end) {
            let mut late = Late::default();
            if let Some(elements) = self.elements.take() {
                elements.tell(&mut late.attrs);
            }
            out(Item::End { side, id: None, offset: self.offset, late: &late });
        }
    }

    /// Counts nonsense and looks for the next message.
    pub(super) fn bad(&mut self, side: Side, reason: &'static str, out: Out<'_>) {
        self.lose();
        out(Item::Malformed { side, reason });
    }

    /// Looks for the next message.
    pub(super) fn lose(&mut self) {
        self.state = State::Start { lost: true };
        (self.left, self.end, self.elements) = (0, false, None);
        self.buf.clear();
    }

    /// Takes bytes inside a message; at least one.
    pub(super) fn inside(&mut self, side: Side, bytes: &[u8], out: Out<'_>) -> usize {
        match self.state {
            State::Skip { left } => self.skip(side, bytes, left, out),
            State::Line => {
                let end = memchr(b'\n', bytes).map(|i| i.saturating_add(1));
                let taken = end.unwrap_or(bytes.len());
                self.pass(len64(taken));
                if end.is_some() {
                    self.next(side, out);
                }
                taken
            }
            State::Element | State::Start { .. } => self.element(side, bytes, out),
        }
    }

    fn skip(&mut self, side: Side, bytes: &[u8], left: u64, out: Out<'_>) -> usize {
        let taken = at_most(left, bytes.len());
        let behind = left.saturating_sub(len64(taken));
        self.pass(len64(taken));
        self.state = State::Skip { left: behind };
        if let Some(elements) = &mut self.elements {
            elements.pass(bytes.get(..taken).unwrap_or_default());
        }
        if behind == 0 {
            self.end_string();
            if taken.checked_sub(1).and_then(|i| bytes.get(i)) == Some(&b'\n') {
                self.next(side, out);
            } else {
                self.bad(side, reason::BAD_ELEMENT, out);
            }
        }
        taken
    }

    /// Reads the line that starts an element.
    fn element(&mut self, side: Side, bytes: &[u8], out: Out<'_>) -> usize {
        let sigil = self.buf.first().or(bytes.first()).copied().unwrap_or_default();
        match (side, sigil) {
            (_, b'$') | (Side::Server, b'=' | b'!' | b'*' | b'~' | b'%' | b'>' | b'|') => {}
            (Side::Server, b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(') => {
                self.state = State::Line;
                self.pass(1);
                return 1;
            }
            _ => {
                self.pass(1);
                self.bad(side, reason::BAD_ELEMENT, out);
                return 1;
            }
        }
        let before = self.buf.len();
        let room = MAX_COUNT_LINE.saturating_add(1).saturating_sub(before);
        let window = bytes.get(..room).unwrap_or(bytes);
        let end = window.iter().position(|b| *b == b'\n').map(|i| i.saturating_add(1));
        let line = window.get(..end.unwrap_or(window.len())).unwrap_or(window);
        let count = if before == 0 {
            Cursor::new(line).count()
        } else {
            self.buf.extend_from_slice(line);
            Cursor::new(&self.buf).count()
        };
        match (count, end) {
            (Ok((_, count)), Some(_)) => {
                self.buf.clear();
                self.pass(len64(before.saturating_add(line.len())));
                self.counted(side, sigil, count, out);
            }
            (Err(super::head::Stop::More), None) => {
                if before == 0 {
                    self.buf.extend_from_slice(line);
                }
            }
            _ => {
                self.pass(len64(before.saturating_add(line.len())));
                self.bad(side, reason::BAD_ELEMENT, out);
            }
        }
        line.len()
    }

    /// Passes bytes inside a string that were not captured.
    pub(super) fn miss(&mut self, missing: u64) {
        self.pass(missing);
        if let Some(elements) = &mut self.elements {
            elements.lose();
        }
    }

    /// Whether the lost end of a call is no more than the end of its one command. `behind` bytes follow the string that
    /// was cut. A long script is followed by its keys and arguments, and is sent alone.
    pub(super) fn is_rest_of_command(&self, behind: u64) -> bool {
        let (least, most) = (self.left.saturating_mul(SHORTEST), self.left.saturating_mul(USUAL));
        self.heads_call && behind >= least && behind <= most && self.left > 0
    }

    /// The message ends here, though its last strings were not captured.
    pub(super) fn end_unseen(&mut self, missing: u64, side: Side, out: Out<'_>) {
        self.miss(missing);
        self.left = 0;
        self.next(side, out);
    }

    /// A string inside a message is over.
    pub(super) fn end_string(&mut self) {
        if let Some(elements) = &mut self.elements {
            elements.end();
        }
    }

    /// Acts on the length of a string or the count of an aggregate inside a message.
    fn counted(&mut self, side: Side, sigil: u8, count: Option<u64>, out: Out<'_>) {
        let Some(count) = count else { return self.next(side, out) };
        let elements = match sigil {
            b'$' | b'=' | b'!' => {
                self.state = State::Skip { left: count.saturating_add(2) };
                if let Some(elements) = &mut self.elements {
                    elements.begin(count, self.left);
                }
                return;
            }
            _ if count > MAX_ELEMENTS => return self.bad(side, reason::BAD_ELEMENT, out),
            b'%' => count.saturating_mul(2),
            // An attribute stands before the element that it belongs to.
            b'|' => count.saturating_mul(2).saturating_add(1),
            _ => count,
        };
        self.left = self.left.saturating_add(elements);
        self.next(side, out);
    }
}
