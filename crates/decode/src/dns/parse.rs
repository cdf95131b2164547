//! DNS over UDP (one datagram, one message) and over TCP (a length before each message; RFC 7766).

use super::emit::{self, Place, Scratch};
use super::{detect, reason};
use crate::framing::Out;
use crate::text::{at_most, len64};
use crate::{Parser, MAX_BUFFERED};
use wirespan_model::{Chunk, Item, Side, Transport};

pub use super::emit::MAX_ANSWERS;

/// Parser of one connection, or of one pair of UDP ends.
#[derive(Debug)]
pub struct DnsParser {
    stream: bool,
    client: Stream,
    server: Stream,
    scratch: Scratch,
}

#[derive(Debug, Default)]
struct Stream {
    /// Offset of the first byte that was not taken; buffered bytes start here.
    offset: u64,
    /// Beginning of a message, its length included.
    buf: Vec<u8>,
    /// Bytes of an emitted message that are still to come.
    skip: u64,
    /// Looks for a message at the start of a chunk.
    lost: bool,
}

impl DnsParser {
    /// A fresh parser.
    pub fn new(transport: Transport) -> Self {
        let stream = transport.is_stream();
        DnsParser { stream, client: Stream::default(), server: Stream::default(), scratch: Scratch::default() }
    }
}

impl Parser for DnsParser {
    fn feed(&mut self, chunk: Chunk<'_>, out: &mut dyn FnMut(Item<'_, '_>)) {
        let Self { stream, client, server, scratch } = self;
        let side = match chunk.side {
            Side::Client => client,
            Side::Server => server,
        };
        if *stream {
            side.feed(chunk, scratch, out);
            return;
        }
        let place = Place::datagram(chunk.side, side.offset, chunk.bytes.len(), chunk.missing);
        side.offset = side.offset.saturating_add(place.len);
        if place.len > 0 {
            emit::emit(chunk.bytes, place, scratch, out);
        }
    }

    fn finish(&mut self, out: &mut dyn FnMut(Item<'_, '_>)) {
        let Self { client, server, scratch, .. } = self;
        client.broken_off(Side::Client, scratch, out);
        server.broken_off(Side::Server, scratch, out);
    }

    fn buffered(&self) -> usize {
        self.client.buf.len().saturating_add(self.server.buf.len())
    }
}

impl Stream {
    fn feed(&mut self, chunk: Chunk<'_>, scratch: &mut Scratch, out: Out<'_>) {
        let mut rest = chunk.bytes;
        if self.lost && self.buf.is_empty() {
            if detect::whole_stream(rest) {
                self.lost = false;
            } else {
                self.offset = self.offset.saturating_add(len64(rest.len()));
                rest = &[];
            }
        }
        while !rest.is_empty() {
            let taken = self.step(chunk.side, rest, scratch, out).max(1);
            rest = rest.get(taken..).unwrap_or_default();
        }
        if chunk.missing > 0 {
            self.gap(chunk.side, chunk.missing, scratch, out);
        }
    }

    /// Takes at least one byte.
    fn step(&mut self, side: Side, bytes: &[u8], scratch: &mut Scratch, out: Out<'_>) -> usize {
        if self.skip > 0 {
            let taken = at_most(self.skip, bytes.len());
            self.skip = self.skip.saturating_sub(len64(taken));
            self.offset = self.offset.saturating_add(len64(taken));
            return taken;
        }
        if self.buf.is_empty() {
            if let Some(keep) = kept(bytes) {
                if let Some(view) = bytes.get(..keep) {
                    self.emit(side, view, false, scratch, out);
                    return keep;
                }
            }
        }
        // Bring the buffer to the length that is known: two bytes first, then the message.
        let want = kept(&self.buf).unwrap_or(2);
        let taken = want.saturating_sub(self.buf.len()).min(bytes.len());
        self.buf.extend_from_slice(bytes.get(..taken).unwrap_or_default());
        if kept(&self.buf).is_some_and(|keep| self.buf.len() >= keep) {
            let buf = std::mem::take(&mut self.buf);
            self.emit(side, &buf, false, scratch, out);
            self.put_back(buf);
        }
        taken
    }

    fn put_back(&mut self, mut buf: Vec<u8>) {
        buf.clear();
        buf.shrink_to(1024);
        self.buf = buf;
    }

    /// Emits the message in `view`, which starts at the offset with its length; what `view` lacks is skipped.
    fn emit(&mut self, side: Side, view: &[u8], cut: bool, scratch: &mut Scratch, out: Out<'_>) {
        let len = len64(view.len());
        let rest = wire_len(view).unwrap_or(0).saturating_sub(len);
        let place = Place { side, offset: self.offset, len, rest, cut: cut || rest > 0, stream: true };
        emit::emit(view.get(2..).unwrap_or_default(), place, scratch, out);
        self.offset = self.offset.saturating_add(len);
        self.skip = rest;
    }

    /// The rest of a buffered message will not come. Reads the part that is there.
    fn broken_off(&mut self, side: Side, scratch: &mut Scratch, out: Out<'_>) {
        let buf = std::mem::take(&mut self.buf);
        if wire_len(&buf).is_some() {
            self.emit(side, &buf, true, scratch, out);
        } else {
            self.offset = self.offset.saturating_add(len64(buf.len()));
        }
        self.put_back(buf);
    }

    fn gap(&mut self, side: Side, missing: u64, scratch: &mut Scratch, out: Out<'_>) {
        self.broken_off(side, scratch, out);
        self.offset = self.offset.saturating_add(missing);
        if missing <= self.skip {
            self.skip = self.skip.saturating_sub(missing);
        } else if !self.lost {
            (self.skip, self.lost) = (0, true);
            out(Item::Malformed { side, reason: reason::GAP });
        }
    }
}

/// Bytes of the message at the start of `bytes` on the wire, its length included.
fn wire_len(bytes: &[u8]) -> Option<u64> {
    let len = bytes.first_chunk::<2>()?;
    Some(u64::from(u16::from_be_bytes(*len)).saturating_add(2))
}

/// As [`wire_len`], but at most the kept length.
fn kept(bytes: &[u8]) -> Option<usize> {
    wire_len(bytes).map(|len| at_most(len, MAX_BUFFERED))
}
