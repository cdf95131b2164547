//! Bytes for the parser, and how many bytes the kernel should copy for it.

use super::protocol::Mode;
use super::{index, Conn};
use crate::env::Env;
use crate::session::Ending;
use crate::verdict::CopyRule;
use wirespan_decode::{Need, OpenEnd};
use wirespan_model::{Chunk, DataEvent, Direction, Span};

/// Complaints of a parser without a message in between, after which the guess of the protocol counts as wrong.
const MAX_MALFORMED: u32 = 64;

impl Conn {
    /// Gives a call to the parser.
    pub(super) fn read(&mut self, d: &DataEvent, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        let side = self.facts.sender(d.direction);
        let (before, usage) = (self.session.messages, self.session.usage);
        let open = self.session.is_open(side);
        self.facts.stream_mut(d.direction).mark(d, !open);
        let captured = d.payload.len().min(usize::try_from(d.len).unwrap_or(usize::MAX));
        self.feed(d.direction, &d.payload[..captured], d.len - captured as u64, env, sink);
        if let Some(name) = self.session.upgraded.take() {
            return self.upgrade(name, Some(d), env, sink);
        }
        let Mode::Reading { protocol, parser } = &self.protocol.mode else { return };
        let (needs_whole, open_end) = (parser.needs_whole(), parser.open_end(side));
        let (name, first_only) = (protocol.name(), matches!(protocol.need(), Need::FirstCall | Need::Starts));
        self.session.open_ends[side as usize] = open_end;
        if self.session.messages > before && open_end == OpenEnd::Other {
            self.leave_stream(name, env);
        }
        if let Some(copy) = self.protocol.copy.filter(|_| self.session.usage != usage && self.facts.is_live()) {
            self.send_verdict(name, copy, env);
        }
        let unseen = first_only && d.payload.is_empty() && !open && self.session.messages == before;
        env.stats.unseen_calls += u64::from(unseen);
        // If one call carries many messages, bytes that were not copied are whole messages. If the answer to one
        // request may be of any length, a gap in it hides no message.
        let many = !first_only || self.session.pipelined;
        if std::mem::take(&mut self.session.holed) && many || needs_whole {
            self.decide(name, CopyRule::EveryCall(env.config.whole_bytes), env);
        } else if (unseen || first_only && many) && !self.copies_whole_calls(env) {
            self.decide(name, CopyRule::EveryCall(env.config.pipelined_bytes), env);
        } else {
            self.no_longer_new(name, env);
        }
    }

    /// True if the kernel copies calls to their end already.
    fn copies_whole_calls(&self, env: &Env) -> bool {
        self.protocol.copy == Some(CopyRule::EveryCall(env.config.whole_bytes))
    }

    /// Gives bytes to the parser; `missing` more bytes followed them and were not captured.
    pub(super) fn feed(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        missing: u64,
        env: &mut Env,
        sink: &mut dyn FnMut(Span),
    ) {
        let side = self.facts.sender(direction);
        let i = index(direction);
        let len = bytes.len() as u64 + missing;
        let stream = &mut self.facts.bytes.streams[i];
        if missing > 0 {
            stream.lost_to = stream.offset + len;
        }
        let Mode::Reading { parser, .. } = &mut self.protocol.mode else { return };
        {
            let (ctx, mut out) = env.lend(&self.facts, sink);
            let session = &mut self.session;
            parser.feed(Chunk { side, bytes, missing }, &mut |item| session.item(item, &ctx, &mut out));
            session.advanced(side, &ctx, &mut out);
        }
        let stream = &mut self.facts.bytes.streams[i];
        stream.offset += len;
        if let Some(settled) = self.session.settled[side as usize].take() {
            stream.forget_before(settled);
        }
        if self.session.messages > 0 {
            self.facts.causes.connect = 0;
            self.facts.forget_handshake();
        }
        if self.session.malformed >= MAX_MALFORMED {
            self.wind_up(Ending::Abandoned, env, sink);
            self.not_understood(env);
        }
    }
}
