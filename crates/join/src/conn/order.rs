//! Calls in the order of their bytes, and calls that nobody reads.

use super::protocol::Mode;
use super::{index, Conn};
use crate::env::Env;
use wirespan_model::{DataEvent, Direction, Span};

impl Conn {
    /// Handles the held calls whose earlier bytes have come.
    pub(super) fn drain(&mut self, direction: Direction, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        while let Some(mut d) = self.facts.stream_mut(direction).take_ready() {
            if self.facts.stream_mut(direction).place(&mut d, &mut env.stats) == crate::stream::Placed::Next {
                self.next(d, env, sink);
            }
        }
    }

    /// Stops waiting for the bytes before the first held call: they count as a gap.
    pub(super) fn release(&mut self, direction: Direction, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        let now_ns = self.closing.last_ns;
        let stream = self.facts.stream_mut(direction);
        let Some(hole) = stream.hole() else { return };
        env.stats.gaps += 1;
        env.stats.gap_bytes += hole;
        stream.skip(hole);
        stream.rearm(now_ns);
        if self.protocol.is_reading() {
            self.feed(direction, &[], hole, env, sink);
            if let Some(name) = self.session.upgraded.take() {
                self.upgrade(name, None, env, sink);
            }
        } else {
            stream.offset += hole;
        }
        self.drain(direction, env, sink);
    }

    /// Stops waiting for missing bytes in both directions.
    pub(super) fn release_all(&mut self, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        for direction in [Direction::Ingress, Direction::Egress] {
            while self.facts.stream(direction).has_held() {
                self.release(direction, env, sink);
            }
        }
    }

    /// Handles a call whose bytes are the next of their stream.
    pub(super) fn next(&mut self, d: DataEvent, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        if self.begins_tls(&d, env, sink) {
            return;
        }
        // Only a connection without a message is reported by its bytes.
        if self.session.messages == 0 || !self.protocol.is_read() {
            self.flow.data(&d);
        }
        match &mut self.protocol.mode {
            Mode::Reading { .. } => self.read(&d, env, sink),
            Mode::Opaque(_) => self.pass(&d),
            Mode::Probing { calls, seen, .. } => {
                *seen += 1;
                if d.payload.is_empty() && calls.is_empty() {
                    self.pass(&d);
                } else {
                    // While calls wait here, the stream's next sequence number must go on.
                    self.facts.bytes.streams[index(d.direction)].expect_after(&d);
                    calls.push(d);
                }
                self.probe(env, sink);
            }
        }
    }

    /// Passes over bytes that no parser reads.
    pub(super) fn pass(&mut self, d: &DataEvent) {
        let stream = self.facts.stream_mut(d.direction);
        stream.mark(d, false);
        stream.offset += d.len;
        stream.forget_before(stream.offset);
    }
}
