//! The state machine of one HTTP/2 connection: finds frames and keeps the place. What header blocks mean is read in
//! [`blocks`](super::blocks).

use super::blocks::Pending;
use super::chain::{walk, PREFACE};
use super::detect::ALONE;
use super::frame::{Frame, CONTINUATION, DATA, END_STREAM, GOAWAY, HEADER, HEADERS, PADDED, PUSH_PROMISE, RST_STREAM};
use super::hpack::{Decoder, Head};
use super::reason;
use super::streams::Streams;
use crate::framing::Out;
use crate::mask::KeptHttp;
use crate::text::{at_most, len64};
use crate::{Parser, MAX_BUFFERED};
use std::sync::Arc;
use wirespan_model::{Chunk, Item, Side};

/// Most bytes of one header block, and of one frame of it, that are kept; the rest counts as not captured.
pub(super) const MAX_BLOCK: usize = MAX_BUFFERED / 2 - 64;
/// Points that make a chain where a call begins: the caller knows already that this is HTTP/2.
const FRESH: u32 = 2;
/// Points that make a chain when nothing more will come.
const AT_THE_END: u32 = 3;

/// Parser of one connection.
#[derive(Debug, Default)]
pub struct Http2Parser {
    pub(super) ends: [End; 2],
    pub(super) streams: Streams,
    pub(super) head: Head,
    /// The values that the user lets through.
    pub(super) kept: Option<Arc<KeptHttp>>,
}

/// One direction.
#[derive(Debug, Default)]
pub(super) struct End {
    /// Offset of the first byte that was not taken; buffered bytes start here.
    pub(super) offset: u64,
    state: State,
    /// Bytes that make no frame (or no chain) yet.
    buf: Vec<u8>,
    pub(super) decoder: Decoder,
    /// A header block that goes on in CONTINUATION frames.
    pub(super) pending: Option<Pending>,
}

/// Where a direction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In search of a frame; `fresh` if the next byte is the first of a call.
    Seek { fresh: bool },
    /// At the start of a frame.
    Frame,
    /// In a payload.
    Payload(Payload),
}

impl Default for State {
    fn default() -> Self {
        State::Seek { fresh: true }
    }
}

/// The rest of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Payload {
    left: u64,
    /// Number of padding bytes among those that are left.
    padding: u64,
    /// The next byte says how many.
    padded: bool,
    stream: u32,
    data: bool,
    end: bool,
}

impl Parser for Http2Parser {
    fn feed(&mut self, chunk: Chunk<'_>, out: &mut dyn FnMut(Item<'_, '_>)) {
        let (side, mut bytes) = (chunk.side, chunk.bytes);
        while !self.end(side).buf.is_empty() && !bytes.is_empty() {
            let (now, later) = bytes.split_at(self.wanted(side).clamp(1, bytes.len()));
            bytes = later;
            let mut buf = std::mem::take(&mut self.end(side).buf);
            buf.extend_from_slice(now);
            let taken = self.run(side, &buf, out);
            buf.drain(..taken.min(buf.len()));
            self.end(side).buf = buf;
        }
        if !bytes.is_empty() {
            let taken = self.run(side, bytes, out);
            let rest = bytes.get(taken..).unwrap_or_default();
            self.end(side).buf.extend_from_slice(rest);
        }
        if chunk.missing > 0 {
            self.gap(side, chunk.missing, out);
        }
    }

    fn finish(&mut self, out: &mut dyn FnMut(Item<'_, '_>)) {
        for side in [Side::Client, Side::Server] {
            self.break_off(side, AT_THE_END, out);
            self.end(side).buf = Vec::new();
            self.end(side).decoder.lose();
        }
        self.streams.clear();
    }

    fn buffered(&self) -> usize {
        self.ends.iter().fold(0usize, |sum, end| {
            let block = end.pending.as_ref().map_or(0, |p| p.block.len());
            sum.saturating_add(end.buf.len()).saturating_add(block)
        })
    }
}

impl Http2Parser {
    pub(super) fn end(&mut self, side: Side) -> &mut End {
        let [client, server] = &mut self.ends;
        match side {
            Side::Client => client,
            Side::Server => server,
        }
    }

    /// How many more bytes than the buffered ones may help.
    fn wanted(&mut self, side: Side) -> usize {
        let end = self.end(side);
        let all = match (end.state, Frame::read(&end.buf)) {
            (State::Seek { .. }, _) => MAX_BUFFERED,
            (_, Some(frame)) => needed(frame),
            _ => HEADER,
        };
        all.saturating_sub(end.buf.len())
    }

    /// Reads as far as `data` goes, which starts at the offset of the end. Returns how many bytes were taken.
    fn run(&mut self, side: Side, data: &[u8], out: Out<'_>) -> usize {
        let mut at = 0usize;
        while let Some(rest) = data.get(at..).filter(|rest| !rest.is_empty()) {
            let before = self.end(side).state;
            let taken = match before {
                State::Seek { fresh } => self.seek(side, rest, fresh),
                State::Payload(payload) => self.payload(side, rest, payload, out),
                State::Frame => self.frame(side, rest, out),
            };
            at = at.saturating_add(taken);
            if taken == 0 && self.end(side).state == before {
                break;
            }
        }
        at
    }

    /// Looks for the start of a frame. The bytes taken start none.
    fn seek(&mut self, side: Side, data: &[u8], fresh: bool) -> usize {
        let mut at = 0usize;
        while let Some(rest) = data.get(at..).filter(|rest| !rest.is_empty()) {
            let window = rest.get(..MAX_BUFFERED).unwrap_or(rest);
            let opening = window.get(..PREFACE.len()).unwrap_or(window);
            if side == Side::Client && PREFACE.starts_with(opening) {
                if opening.len() == PREFACE.len() {
                    at = at.saturating_add(PREFACE.len());
                    self.end(side).state = State::Frame;
                    self.end(side).decoder = Decoder::from_start();
                }
                break;
            }
            let bar = if fresh && at == 0 { FRESH } else { ALONE };
            let chain = walk(window, bar);
            let other = chain.sender.is_some_and(|sender| sender != side);
            if !chain.refuted && !other {
                if chain.points >= bar {
                    self.end(side).state = State::Frame;
                    break;
                }
                if window.len() < MAX_BUFFERED {
                    break;
                }
            }
            // A usual frame begins with a zero, the preface with a `P`.
            let behind = rest.get(1..).unwrap_or_default();
            let next = memchr::memchr2(0, b'P', behind).unwrap_or(behind.len());
            at = at.saturating_add(next).saturating_add(1);
        }
        let end = self.end(side);
        end.offset = end.offset.saturating_add(len64(at));
        if at > 0 && matches!(end.state, State::Seek { .. }) {
            end.state = State::Seek { fresh: false };
        }
        at
    }

    /// Takes a frame, as much of it as is needed.
    fn frame(&mut self, side: Side, data: &[u8], out: Out<'_>) -> usize {
        let Some(frame) = Frame::read(data) else { return 0 };
        if !frame.is_valid() {
            out(Item::Malformed { side, reason: reason::BAD_FRAME });
            self.lose(side, false, out);
            return 0;
        }
        let Some(bytes) = data.get(..needed(frame)) else { return 0 };
        self.take(side, frame, bytes, false, out);
        bytes.len()
    }

    /// Acts on a frame of which `bytes` are there; the rest will pass by, or is `cut` off.
    fn take(&mut self, side: Side, frame: Frame, bytes: &[u8], cut: bool, out: Out<'_>) {
        let payload = bytes.get(HEADER..).unwrap_or_default();
        let left = u64::from(frame.len).saturating_sub(len64(payload.len()));
        if self.end(side).pending.as_ref().is_some_and(|p| frame.kind != CONTINUATION || frame.stream != p.frame.stream)
        {
            // Nothing may come between the parts of a block.
            out(Item::Malformed { side, reason: reason::BAD_BLOCK });
            self.give_up_block(side, out);
        }
        match frame.kind {
            HEADERS | PUSH_PROMISE => self.begin_block(side, frame, bytes, cut || left > 0, out),
            CONTINUATION => self.go_on(side, frame, payload, cut || left > 0, out),
            RST_STREAM => self.reset(side, frame, payload, bytes.len(), out),
            GOAWAY => self.go_away(side, payload, bytes.len(), out),
            _ => {}
        }
        let end = self.end(side);
        end.offset = end.offset.saturating_add(len64(bytes.len()));
        let data = frame.kind == DATA;
        let rest = Payload {
            left,
            padding: 0,
            padded: data && frame.has(PADDED),
            stream: frame.stream,
            data,
            end: data && frame.has(END_STREAM),
        };
        end.state = if left > 0 { State::Payload(rest) } else { State::Frame };
        if left == 0 && rest.end {
            self.end_of_data(side, frame.stream, out);
        }
    }

    /// Passes over a payload.
    fn payload(&mut self, side: Side, data: &[u8], mut p: Payload, out: Out<'_>) -> usize {
        let taken = if p.padded { 1 } else { at_most(p.left, data.len()) };
        if p.padded {
            p.padded = false;
            // Padding longer than the frame would be an error; nothing depends on it here.
            p.padding = data.first().map_or(0, |n| u64::from(*n)).min(p.left.saturating_sub(1));
        } else if p.data {
            let content = at_most(p.left.saturating_sub(p.padding), taken);
            if let Some(peek) = self.streams.get(p.stream).and_then(|s| s.peek.as_mut()) {
                peek.body(side, data.get(..content).unwrap_or_default());
            }
        }
        p.left = p.left.saturating_sub(len64(taken));
        let end = self.end(side);
        end.offset = end.offset.saturating_add(len64(taken));
        end.state = if p.left > 0 { State::Payload(p) } else { State::Frame };
        if p.left == 0 && p.end {
            self.end_of_data(side, p.stream, out);
        }
        taken
    }

    /// `missing` bytes were not captured.
    fn gap(&mut self, side: Side, missing: u64, out: Out<'_>) {
        self.break_off(side, FRESH, out);
        let end = self.end(side);
        let start = end.offset;
        match end.state {
            State::Payload(p) => {
                let passed = missing.min(p.left);
                let rest = Payload { left: p.left.saturating_sub(passed), padded: false, ..p };
                end.offset = start.saturating_add(passed);
                end.state = if rest.left > 0 { State::Payload(rest) } else { State::Frame };
                if let Some(peek) = self.streams.get(p.stream).and_then(|s| s.peek.as_mut()) {
                    peek.missing(side, passed);
                }
                if rest.left == 0 && p.end {
                    self.end_of_data(side, p.stream, out);
                }
                if missing > passed {
                    self.lose(side, true, out);
                }
            }
            State::Frame => self.lose(side, true, out),
            State::Seek { .. } => {
                end.state = State::Seek { fresh: true };
                end.decoder.lose();
            }
        }
        self.end(side).offset = start.saturating_add(missing);
    }

    /// Makes the best of buffered bytes behind which nothing was captured.
    fn break_off(&mut self, side: Side, bar: u32, out: Out<'_>) {
        let mut buf = std::mem::take(&mut self.end(side).buf);
        if let State::Seek { fresh } = self.end(side).state {
            let chain = walk(&buf, u32::MAX);
            let other = chain.sender.is_some_and(|sender| sender != side);
            let first = Frame::read(&buf).filter(|f| f.kind == HEADERS);
            let cut_block = fresh && first.is_some_and(|f| f.stream % 2 == 1 && begins_block(f, &buf));
            let enough = chain.points >= if fresh { FRESH } else { bar.max(AT_THE_END) };
            if !chain.refuted && !other && (enough || cut_block) {
                self.end(side).state = State::Frame;
                let taken = self.run(side, &buf, out);
                buf.drain(..taken.min(buf.len()));
            }
        }
        if self.end(side).state == State::Frame {
            if let Some(frame) = Frame::read(&buf) {
                self.take(side, frame, &buf, true, out);
                buf.clear();
            }
        }
        let end = self.end(side);
        end.offset = end.offset.saturating_add(len64(buf.len()));
        if !buf.is_empty() && end.state == State::Frame {
            // A header in two halves, one of them missing.
            self.lose(side, true, out);
        }
        buf.clear();
        self.end(side).buf = buf;
        self.give_up_block(side, out);
    }

    /// The place is lost, and with it what header blocks said meanwhile.
    fn lose(&mut self, side: Side, gap: bool, out: Out<'_>) {
        if gap {
            out(Item::Malformed { side, reason: reason::GAP });
        }
        self.give_up_block(side, out);
        let end = self.end(side);
        end.state = State::Seek { fresh: gap };
        end.decoder.lose();
    }
}

/// Bytes of a frame that are read; the others pass by.
fn needed(frame: Frame) -> usize {
    let len = usize::try_from(frame.len).unwrap_or(usize::MAX);
    let payload = match frame.kind {
        HEADERS | PUSH_PROMISE | CONTINUATION => len.min(MAX_BLOCK),
        RST_STREAM => 4,
        GOAWAY => 8,
        _ => 0,
    };
    HEADER.saturating_add(payload)
}

/// Whether the bytes behind a header begin a header block of which something is known.
fn begins_block(frame: Frame, bytes: &[u8]) -> bool {
    let mut head = Head::default();
    let payload = bytes.get(HEADER..).unwrap_or_default();
    let Some((block, _)) = super::frame::block(frame, payload, false) else { return false };
    let ended = Decoder::default().decode(block, &mut head, &[]);
    ended != super::hpack::Ended::Bad && !head.disorder && head.fields > head.unknown
}
