//! The state machine of one WebSocket connection.

use super::reason;
use crate::framing::Out;
use crate::text::{at_most, len64};
use crate::Parser;
use wirespan_model::{AttrVal, Body, Chunk, Item, Kind, Late, Message, Outcome, Side};

/// Longest frame header: two bytes, eight of length, four of mask.
const MAX_HEADER: usize = 14;
/// Longest payload of a control frame (RFC 6455, 5.5).
const MAX_CONTROL: u64 = 125;

const CONTINUATION: u8 = 0;
const CLOSE: u8 = 8;

/// Parser of one connection.
#[derive(Debug, Default)]
pub struct WebSocketParser {
    client: End,
    server: End,
}

#[derive(Debug, Default)]
struct End {
    offset: u64,
    /// Header bytes of a frame that is not complete.
    head: [u8; MAX_HEADER],
    have: usize,
    /// Where that frame begins: not always so many bytes before `offset`, which cannot count beyond its type.
    began: u64,
    state: State,
    /// The message whose fragments are under way.
    fragments: Option<Fragments>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Fragments {
    frames: i64,
    size: u64,
    control: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// At a frame.
    #[default]
    Frame,
    /// In a payload; `close` has the code as far as it was read.
    Payload { frame: Frame, left: u64, start: u64, code: [u8; 2] },
    /// The place is lost.
    Lost,
}

/// A frame header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Frame {
    fin: bool,
    compressed: bool,
    opcode: u8,
    mask: Option<[u8; 4]>,
    header: u64,
    len: u64,
}

/// The beginning of a frame.
enum Head {
    Short,
    Bad,
    Whole(Frame),
}

impl Frame {
    fn read(side: Side, bytes: &[u8]) -> Head {
        let [first, second, rest @ ..] = bytes else { return Head::Short };
        let (fin, opcode, masked) = (first & 0x80 != 0, first & 0x0f, second & 0x80 != 0);
        let control = opcode >= CLOSE;
        let (len, rest, header) = match second & 0x7f {
            126 => match rest.split_first_chunk::<2>() {
                Some((len, rest)) => (u64::from(u16::from_be_bytes(*len)), rest, 4u64),
                None => return Head::Short,
            },
            127 => match rest.split_first_chunk::<8>() {
                Some((len, rest)) => (u64::from_be_bytes(*len), rest, 10),
                None => return Head::Short,
            },
            len => (u64::from(len), rest, 2),
        };
        // The shortest form of the length, only the extension bit of compression, the mask of clients (RFC 6455, 5.2).
        let shortest = match header {
            4 => len > 125,
            10 => len > 0xffff && len < 1 << 63,
            _ => true,
        };
        let known = matches!(opcode, 0..=2 | 8..=10) && first & 0x30 == 0;
        let sound = !control || (fin && len <= MAX_CONTROL && first & 0x40 == 0);
        if !shortest || !known || !sound || masked != (side == Side::Client) {
            return Head::Bad;
        }
        let mask = if masked { rest.first_chunk().copied() } else { None };
        if masked && mask.is_none() {
            return Head::Short;
        }
        let header = header.saturating_add(if masked { 4 } else { 0 });
        Head::Whole(Frame { fin, compressed: first & 0x40 != 0, opcode, mask, header, len })
    }
}

impl Parser for WebSocketParser {
    fn feed(&mut self, chunk: Chunk<'_>, out: &mut dyn FnMut(Item<'_, '_>)) {
        let side = chunk.side;
        if self.end(side).state == State::Lost && fits(side, chunk) {
            self.end(side).state = State::Frame;
        }
        let mut rest = chunk.bytes;
        while !rest.is_empty() {
            let taken = self.step(side, rest, out).max(1);
            rest = rest.get(taken..).unwrap_or_default();
        }
        if chunk.missing > 0 {
            self.gap(side, chunk.missing, out);
        }
    }

    fn buffered(&self) -> usize {
        0
    }
}

/// Whether a call consists of whole frames: where the place was lost nothing less is believed.
fn fits(side: Side, chunk: Chunk<'_>) -> bool {
    let mut rest = chunk.bytes;
    while let Head::Whole(frame) = Frame::read(side, rest) {
        let size = frame.header.saturating_add(frame.len);
        match usize::try_from(size).ok().and_then(|size| rest.get(size..)) {
            Some([]) => return chunk.missing == 0,
            Some(behind) => rest = behind,
            None => return len64(rest.len()).saturating_add(chunk.missing) == size,
        }
    }
    false
}

impl WebSocketParser {
    fn end(&mut self, side: Side) -> &mut End {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    fn step(&mut self, side: Side, bytes: &[u8], out: Out<'_>) -> usize {
        let end = self.end(side);
        match end.state {
            State::Lost => {
                end.offset = end.offset.saturating_add(len64(bytes.len()));
                bytes.len()
            }
            State::Payload { frame, left, start, mut code } => {
                let taken = at_most(left, bytes.len());
                if frame.opcode == CLOSE {
                    let done = frame.len.saturating_sub(left);
                    for (at, b) in (done..2).zip(bytes) {
                        let at = at_most(at, 2);
                        let mask = frame.mask.and_then(|m| m.get(at).copied()).unwrap_or(0);
                        if let Some(place) = code.get_mut(at) {
                            *place = b ^ mask;
                        }
                    }
                }
                end.offset = end.offset.saturating_add(len64(taken));
                self.passed(side, frame, left.saturating_sub(len64(taken)), start, code, true, out);
                taken
            }
            State::Frame => {
                let Some(room) = end.head.get_mut(end.have..) else { return 1 };
                let n = room.len().min(bytes.len());
                if let (Some(to), Some(from)) = (room.get_mut(..n), bytes.get(..n)) {
                    to.copy_from_slice(from);
                }
                let have = end.have;
                if have == 0 {
                    end.began = end.offset;
                }
                let all = have.saturating_add(n);
                match Frame::read(side, end.head.get(..all).unwrap_or_default()) {
                    Head::Short => {
                        end.have = all;
                        end.offset = end.offset.saturating_add(len64(n));
                        n
                    }
                    Head::Bad => {
                        out(Item::Malformed { side, reason: reason::BAD_FRAME });
                        self.lose(side, out);
                        let end = self.end(side);
                        end.offset = end.offset.saturating_add(len64(bytes.len()));
                        bytes.len()
                    }
                    Head::Whole(frame) => {
                        let taken = at_most(frame.header, all).saturating_sub(have);
                        end.have = 0;
                        let start = end.began;
                        end.offset = end.offset.saturating_add(len64(taken));
                        self.begin(side, frame, start, out);
                        taken
                    }
                }
            }
        }
    }

    /// A frame header is complete.
    fn begin(&mut self, side: Side, frame: Frame, start: u64, out: Out<'_>) {
        let end = self.end(side);
        match (&mut end.fragments, frame.opcode) {
            (Some(f), CONTINUATION) => {
                f.frames = f.frames.saturating_add(1);
                f.size = f.size.saturating_add(frame.len);
            }
            (Some(f), 9 | 10) => f.control = f.control.saturating_add(1),
            (_, CLOSE) => {}
            (None, CONTINUATION) => {
                // Of a message whose first frame was lost.
            }
            (fragments, _) => {
                *fragments = (!frame.fin).then_some(Fragments { frames: 1, size: frame.len, control: 0 });
                emit(side, frame, start, None, out);
            }
        }
        self.passed(side, frame, frame.len, start, [0, 0], true, out);
    }

    /// `left` bytes of a payload are to go. `seen` says whether those before were captured.
    #[allow(clippy::too_many_arguments)] // The parts of one frame.
    fn passed(&mut self, side: Side, frame: Frame, left: u64, start: u64, code: [u8; 2], seen: bool, out: Out<'_>) {
        let end = self.end(side);
        if left > 0 {
            end.state = State::Payload { frame, left, start, code };
            return;
        }
        end.state = State::Frame;
        let offset = end.offset;
        if frame.opcode == CLOSE {
            let code = (seen && frame.len >= 2).then(|| u16::from_be_bytes(code));
            emit(side, frame, start, code, out);
        } else if frame.fin && frame.opcode == CONTINUATION {
            if let Some(f) = end.fragments.take() {
                let mut late = Late::default();
                late.attrs.push(("wirespan.websocket.message.size", size(f.size)));
                late.attrs.push(("wirespan.websocket.fragments", AttrVal::Int(f.frames)));
                if f.control > 0 {
                    late.attrs.push(("wirespan.websocket.control_frames", AttrVal::Int(f.control)));
                }
                out(Item::End { side, id: None, offset, late: &late });
            }
        }
    }

    /// `missing` bytes were not captured.
    fn gap(&mut self, side: Side, missing: u64, out: Out<'_>) {
        let end = self.end(side);
        let from = end.offset;
        match end.state {
            State::Payload { frame, left, start, code } => {
                let passed = missing.min(left);
                end.offset = from.saturating_add(passed);
                let seen = frame.len.saturating_sub(left) >= 2;
                self.passed(side, frame, left.saturating_sub(passed), start, code, seen, out);
                if missing > passed {
                    self.lose(side, out);
                }
            }
            State::Frame => self.lose(side, out),
            State::Lost => {}
        }
        let end = self.end(side);
        end.offset = from.saturating_add(missing);
    }

    fn lose(&mut self, side: Side, out: Out<'_>) {
        out(Item::Malformed { side, reason: reason::GAP });
        let end = self.end(side);
        (end.state, end.have, end.fragments) = (State::Lost, 0, None);
    }
}

fn size(n: u64) -> AttrVal<'static> {
    AttrVal::Int(i64::try_from(n).unwrap_or(i64::MAX))
}

/// Emits a message, or a whole close with its code.
fn emit(side: Side, frame: Frame, start: u64, code: Option<u16>, out: Out<'_>) {
    let mut m = Message::new("websocket", side, Kind::OneWay, start);
    m.head_len = frame.header;
    m.body = match (frame.fin, frame.len) {
        (false, _) => Body::Open,
        (true, 0) => Body::None,
        (true, n) => Body::Length(n),
    };
    m.operation = match frame.opcode {
        1 => "text",
        2 => "binary",
        9 => "ping",
        10 => "pong",
        _ => "close",
    };
    if frame.fin {
        m.attrs.push(("wirespan.websocket.message.size", size(frame.len)));
    }
    if frame.compressed {
        m.attrs.push(("wirespan.websocket.compressed", AttrVal::Bool(true)));
    }
    if let Some(code) = code {
        m.status_code = Some(i32::from(code));
        // A code complains about the other end (RFC 6455, 7.4.1), except 1011 and higher codes.
        m.outcome = match (code, side) {
            (1000 | 1001 | 1005, _) => Outcome::Ok,
            // Only the application knows the meaning of these.
            (3000.., _) => Outcome::Unset,
            (1011.., Side::Server) | (..=1010, Side::Client) => Outcome::ServerError,
            _ => Outcome::ClientError,
        };
        if !matches!(code, 1000 | 1001 | 1005) {
            m.error = close_name(code).into();
        }
    }
    out(Item::Message(&m));
}

fn close_name(code: u16) -> &'static str {
    match code {
        1002 => "protocol error",
        1003 => "unsupported data",
        1007 => "invalid payload",
        1008 => "policy violation",
        1009 => "message too big",
        1010 => "extension missing",
        1011 => "internal error",
        1012 => "service restart",
        1013 => "try again later",
        1014 => "bad gateway",
        _ => "",
    }
}
