//! Frames that mean something: header blocks with their continuations, resets, the end of data, the end of the
//! connection.

use super::emit::{self, Place};
use super::frame::{self, Frame, END_HEADERS, END_STREAM, HEADER, PUSH_PROMISE};
use super::hpack::{Ended, Field};
use super::parse::{Http2Parser, MAX_BLOCK};
use super::reason;
use super::streams::Rpc;
use crate::framing::Out;
use crate::semantics::{Ask, Peek};
use crate::text::len64;
use wirespan_model::{Item, Late, Outcome, Side};

/// A header block of which more is to come.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) frame: Frame,
    pub(super) block: Vec<u8>,
    offset: u64,
    promised: u32,
    cut: bool,
}

impl Http2Parser {
    /// Takes a HEADERS or PUSH_PROMISE frame, which starts at the offset of the end.
    pub(super) fn begin_block(&mut self, side: Side, frame: Frame, bytes: &[u8], cut: bool, out: Out<'_>) {
        let payload = bytes.get(HEADER..).unwrap_or_default();
        let offset = self.end(side).offset;
        let parts = frame::block(frame, payload, !cut);
        if parts.is_none() && !cut {
            out(Item::Malformed { side, reason: reason::BAD_FRAME });
        }
        let (cut, (block, promised)) = (cut || parts.is_none(), parts.unwrap_or_default());
        if frame.has(END_HEADERS) || cut {
            self.block(side, frame, promised, (offset, len64(bytes.len())), block, cut, out);
        } else {
            let pending = Pending { frame, block: block.to_vec(), offset, promised, cut: false };
            self.end(side).pending = Some(pending);
        }
    }

    /// Takes a CONTINUATION frame.
    pub(super) fn go_on(&mut self, side: Side, frame: Frame, payload: &[u8], cut: bool, out: Out<'_>) {
        let end = self.end(side);
        let Some(mut pending) = end.pending.take() else {
            // Of a block whose beginning was lost: it may have inserted anything.
            end.decoder.lose();
            return;
        };
        let room = MAX_BLOCK.saturating_sub(pending.block.len());
        pending.cut |= cut || payload.len() > room;
        if !pending.cut {
            pending.block.extend_from_slice(payload);
        }
        if frame.has(END_HEADERS) || cut {
            let len = end
                .offset
                .saturating_sub(pending.offset)
                .saturating_add(len64(HEADER))
                .saturating_add(len64(payload.len()));
            let (frame, promised, cut) = (pending.frame, pending.promised, pending.cut);
            self.block(side, frame, promised, (pending.offset, len), &pending.block, cut, out);
        } else {
            end.pending = Some(pending);
        }
    }

    /// The rest of a pending block will not come.
    pub(super) fn give_up_block(&mut self, side: Side, out: Out<'_>) {
        let end = self.end(side);
        if let Some(pending) = end.pending.take() {
            let len = end.offset.saturating_sub(pending.offset).max(1);
            self.block(side, pending.frame, pending.promised, (pending.offset, len), &pending.block, true, out);
        }
    }

    #[allow(clippy::too_many_arguments)] // The parts of one block, from two places.
    fn block(
        &mut self,
        side: Side,
        frame: Frame,
        promised: u32,
        (offset, len): (u64, u64),
        block: &[u8],
        cut: bool,
        out: Out<'_>,
    ) {
        let mut head = std::mem::take(&mut self.head);
        let kept = self.kept.clone();
        let decoder = &mut self.end(side).decoder;
        let ended = decoder.decode(block, &mut head, kept.as_deref().map_or(&[], |k| k.names(side)));
        if cut || ended != Ended::Whole {
            decoder.lose();
        }
        if ended == Ended::Bad || (ended == Ended::Cut && !cut) {
            out(Item::Malformed { side, reason: reason::BAD_BLOCK });
        }
        let cut = cut || ended != Ended::Whole;
        let place = Place { offset, len, stream: frame.stream, last: frame.has(END_STREAM), cut };
        self.head = head;
        match side {
            _ if frame.kind == PUSH_PROMISE => {
                if side == Side::Server && promised != 0 && promised.is_multiple_of(2) {
                    emit::promise(&self.head, place, promised, out);
                }
            }
            // Even streams are pushes, of which only the promise is told.
            _ if frame.stream.is_multiple_of(2) => {}
            Side::Client => self.request(place, out),
            Side::Server => self.response(place, out),
        }
    }

    fn request(&mut self, place: Place, out: Out<'_>) {
        let head = &self.head;
        let pseudo = [Field::Method, Field::Path, Field::Scheme].into_iter().any(|f| head.get(f).is_some());
        let known = self.streams.get(place.stream).is_some_and(|s| s.asked);
        if known || !pseudo && head.unknown_early == 0 && !place.cut {
            // Trailers, perhaps of a stream that began before we looked.
            if place.last {
                self.ended(Side::Client, place.stream, place.offset.saturating_add(place.len), Late::default(), out);
            }
            return;
        }
        let peek = Peek::of(&Ask {
            method: head.get(Field::Method).unwrap_or_default(),
            path: head.get(Field::Path).unwrap_or_default(),
            content_type: head.get(Field::ContentType).unwrap_or_default(),
            agent: head.get(Field::UserAgent).unwrap_or_default(),
            body: !place.last,
        });
        let rpc = emit::request(head, place, peek.as_deref(), self.kept.as_deref(), out);
        if let Some(stream) = self.streams.open(place.stream) {
            (stream.rpc, stream.asked, stream.peek) = (rpc, true, peek);
            stream.ended = [place.last, stream.ended[1]];
        }
    }

    fn response(&mut self, place: Place, out: Out<'_>) {
        let head = &self.head;
        let status = emit::status(head);
        let stream = self.streams.get(place.stream);
        if stream.as_ref().is_some_and(|s| s.cancelled) {
            if place.last {
                self.streams.remove(place.stream);
            }
            return;
        }
        let (rpc, answered) = stream.as_ref().map_or((Rpc::Unknown, false), |s| (s.rpc, s.answered));
        if answered {
            if place.last {
                let late = emit::trailers(head, place, rpc);
                let end = place.offset.saturating_add(place.len);
                self.ended(Side::Server, place.stream, end, late, out);
            }
            return;
        }
        if status == 0 && !place.cut && stream.is_none() {
            // The trailers of a response that began before we looked, or so it seems: nothing is said.
            return;
        }
        let peek = stream.as_ref().and_then(|s| s.peek.as_deref());
        // A content type that the request hid may stand in the response.
        let rpc = match head.get(Field::ContentType) {
            Some(content_type) if rpc == Rpc::Unknown => Rpc::of(content_type),
            _ => rpc,
        };
        emit::response(head, place, rpc, peek, self.kept.as_deref(), out);
        if (100..200).contains(&status) {
            return;
        }
        if let Some(stream) = self.streams.open(place.stream) {
            (stream.rpc, stream.answered) = (rpc, true);
            stream.ended = [stream.ended[0] || !stream.asked, place.last];
            if stream.ended == [true, true] {
                self.streams.remove(place.stream);
            }
        }
    }

    /// The last byte of a body.
    pub(super) fn end_of_data(&mut self, side: Side, id: u32, out: Out<'_>) {
        let offset = self.end(side).offset;
        self.ended(side, id, offset, Late::default(), out);
    }

    /// An end sends no more on a stream.
    fn ended(&mut self, side: Side, id: u32, offset: u64, mut late: Late<'static>, out: Out<'_>) {
        let Some(stream) = self.streams.get(id) else { return };
        let [client, server] = &mut stream.ended;
        let mine = if side == Side::Client { client } else { server };
        let told = if side == Side::Client { stream.asked } else { stream.answered };
        let before = std::mem::replace(mine, true);
        if !before && told && !stream.cancelled {
            if let Some(peek) = &mut stream.peek {
                let body = peek.late(side);
                if late.outcome == Outcome::Unset {
                    (late.outcome, late.error, late.status_code) = (body.outcome, body.error, body.status_code);
                }
                late.attrs.extend(body.attrs);
            }
            out(Item::End { side, id: Some(u64::from(id)), offset, late: &late });
        }
        if stream.ended == [true, true] {
            self.streams.remove(id);
        }
    }

    /// RST_STREAM: ends the stream at once, in both directions.
    pub(super) fn reset(&mut self, side: Side, frame: Frame, payload: &[u8], len: usize, out: Out<'_>) {
        let Some(code) = payload.first_chunk().map(|b| u32::from_be_bytes(*b)) else { return };
        let (here, there) = (self.end(side).offset, self.end(Side::Server).offset);
        let Some(stream) = self.streams.get(frame.stream) else { return };
        let (code, id) = (frame::error_name(code), Some(u64::from(frame.stream)));
        let place = Place { offset: here, len: len64(len), stream: frame.stream, last: true, cut: false };
        let behind = here.saturating_add(len64(len));
        if stream.answered && !stream.ended[1] {
            let offset = if side == Side::Server { behind } else { there };
            out(Item::End { side: Side::Server, id, offset, late: &emit::reset(side, code) });
        } else if stream.asked && !stream.answered && !stream.cancelled {
            match side {
                Side::Server => emit::refused(place, stream.rpc, "RST_STREAM", code, out),
                Side::Client => out(Item::End { side, id, offset: behind, late: &emit::reset(side, code) }),
            }
        }
        if side == Side::Client && !stream.answered {
            // A response may be on its way; it answers no request.
            (stream.cancelled, stream.peek, stream.ended) = (true, None, [true, false]);
        } else {
            self.streams.remove(frame.stream);
        }
    }

    /// GOAWAY: the server will not answer the streams above the last that it names.
    pub(super) fn go_away(&mut self, side: Side, payload: &[u8], len: usize, out: Out<'_>) {
        let word = |at: usize| payload.get(at..).and_then(|p| p.first_chunk()).map(|b| u32::from_be_bytes(*b));
        let (Side::Server, Some(last), Some(code)) = (side, word(0), word(4)) else { return };
        let offset = self.end(side).offset;
        for stream in self.streams.above(last & 0x7fff_ffff) {
            let place = Place { offset, len: len64(len), stream: stream.id, last: true, cut: false };
            emit::refused(place, stream.rpc, "GOAWAY", frame::error_name(code), out);
            (stream.answered, stream.ended) = (true, [true, true]);
        }
        self.streams.forget_ended();
    }
}
