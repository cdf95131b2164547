//! The state of one Pulsar connection.

use super::commands::{self, BEFORE, TELLING};
use super::session::Session;
use super::{emit, reason};
use crate::prefixed::{Frame, Framing, Out, Start, Stream};
use crate::{Parser, MAX_BUFFERED};
use wirespan_model::{Chunk, Item, Side};

/// Parser of one connection.
#[derive(Debug, Default)]
pub struct PulsarParser {
    client: Stream,
    server: Stream,
    session: Session,
}

impl Parser for PulsarParser {
    fn feed(&mut self, chunk: Chunk<'_>, out: &mut dyn FnMut(Item<'_, '_>)) {
        let stream = match chunk.side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        };
        stream.feed(chunk, &mut self.session, out);
    }

    fn finish(&mut self, out: &mut dyn FnMut(Item<'_, '_>)) {
        self.client.broken_off(Side::Client, &mut self.session, out);
        self.server.broken_off(Side::Server, &mut self.session, out);
    }

    fn buffered(&self) -> usize {
        self.client.buffered().saturating_add(self.server.buffered())
    }
}

impl Framing for Session {
    const BAD: &'static str = reason::BAD_FRAME;
    const GAP: &'static str = reason::GAP;
    const KEEP: usize = MAX_BUFFERED;

    fn start(&self, _side: Side, bytes: &[u8], _lost: bool) -> Start {
        match commands::start(bytes) {
            Ok(start) => Start::Frame(start.frame),
            Err(true) if bytes.len() < TELLING => Start::More,
            Err(_) => Start::Bad,
        }
    }

    fn frame(&mut self, frame: Frame<'_>, out: Out<'_>) {
        let Ok(start) = commands::start(frame.bytes) else { return };
        let behind = frame.bytes.get(BEFORE..).unwrap_or_default();
        let (base, behind) =
            behind.split_at_checked(usize::try_from(start.size).unwrap_or(usize::MAX)).unwrap_or((behind, &[]));
        emit::emit(self, &frame, &start, base, behind, out);
    }
}
