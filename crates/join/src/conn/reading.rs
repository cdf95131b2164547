//! What the bytes mean: the protocol is guessed, then its parser is fed.

use super::{Conn, Mode, MAX_GUESSES, MAX_MALFORMED};
use crate::flow::Flow;
use crate::infer::guess;
use crate::joiner::Env;
use crate::session::{Ending, Out, Session};
use crate::spans::{index, Ctx};
use crate::verdict::{CopyRule, Verdict};
use wirespan_decode::{Pairing, Protocol, Verdict as Guess, REGISTRY};
use wirespan_model::{Chunk, DataEvent, Direction, Role, Side, Span};

impl Conn {
    pub(super) fn probe(&mut self, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        let Mode::Probing { calls, seen, guesses } = &mut self.mode else { return };
        // A capture file holds every byte, so that looking longer costs the kernel nothing.
        let limit = if self.owner_pid == 0 { env.config.probe_calls * 8 } else { env.config.probe_calls };
        let over = *seen >= limit || *guesses >= MAX_GUESSES;
        if calls.is_empty() {
            if over {
                self.not_understood(env);
            }
            return;
        }
        match guess(calls, self.role, &mut env.scratch) {
            Guess::Known { protocol, first_is_client } => {
                let calls = std::mem::take(calls);
                self.understood(protocol, first_is_client, &calls, env);
                for d in calls {
                    match self.mode {
                        Mode::Reading { .. } => self.read(&d, env, sink),
                        _ => self.pass(&d),
                    }
                }
            }
            Guess::NeedMore if !over => {}
            _ => {
                *guesses += 1;
                let over = over || *guesses >= MAX_GUESSES;
                for d in std::mem::take(calls) {
                    self.pass(&d);
                }
                if over {
                    self.not_understood(env);
                }
            }
        }
    }

    fn understood(
        &mut self,
        protocol: &'static dyn Protocol,
        first_is_client: bool,
        calls: &[DataEvent],
        env: &mut Env,
    ) {
        if let (Role::Unknown, Some(first)) = (self.role, calls.first()) {
            self.role = match (first.direction, first_is_client) {
                (Direction::Egress, true) | (Direction::Ingress, false) => Role::Client,
                _ => Role::Server,
            };
        }
        self.start(protocol);
        let copy = match protocol.pairing() {
            Pairing::InOrder => CopyRule::FirstCallOnly(env.config.copy_bytes),
            Pairing::ById => CopyRule::EveryCall(env.config.copy_bytes),
        };
        self.decide(protocol.name(), copy, env);
    }

    fn start(&mut self, protocol: &'static dyn Protocol) {
        self.base = [self.streams[0].offset, self.streams[1].offset];
        self.session = Session::new(protocol.pairing());
        self.mode = Mode::Reading { protocol, parser: protocol.parser(self.transport) };
    }

    pub(super) fn not_understood(&mut self, env: &mut Env) {
        env.stats.unknown_protocol += 1;
        self.mode = Mode::Opaque(None);
        self.decide("", CopyRule::EveryCall(0), env);
    }

    fn decide(&mut self, protocol: &'static str, copy: CopyRule, env: &mut Env) {
        if self.copy != Some(copy) && self.owner_pid != 0 {
            self.copy = Some(copy);
            env.verdict(self.key.socket, Verdict { protocol, copy });
        }
    }

    /// Gives a call to the parser.
    pub(super) fn read(&mut self, d: &DataEvent, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        let stream = &mut self.streams[index(d.direction)];
        let side = side_of(self.role, d.direction);
        let before = self.session.messages;
        let open = self.session.is_open(side);
        stream.mark(d, !open);
        let captured = d.payload.len().min(usize::try_from(d.len).unwrap_or(usize::MAX));
        self.feed(d.direction, &d.payload[..captured], d.len - captured as u64, env, sink);
        if let Mode::Reading { protocol, .. } = &self.mode {
            let protocol = *protocol;
            if protocol.pairing() == Pairing::InOrder {
                let unseen = d.payload.is_empty() && !open && self.session.messages == before;
                env.stats.unseen_calls += u64::from(unseen);
                if unseen || self.session.pipelined {
                    // One call carries many messages now: what is cut off of it are whole messages.
                    self.decide(protocol.name(), CopyRule::EveryCall(env.config.pipelined_bytes), env);
                }
            }
        }
    }

    pub(super) fn feed(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        missing: u64,
        env: &mut Env,
        sink: &mut dyn FnMut(Span),
    ) {
        let side = side_of(self.role, direction);
        let i = index(direction);
        let len = bytes.len() as u64 + missing;
        if missing > 0 {
            self.streams[i].lost_to = self.streams[i].offset + len;
        }
        let Mode::Reading { parser, .. } = &mut self.mode else { return };
        {
            let ctx = Ctx {
                config: &env.config,
                host_id: env.host_id,
                socket: self.key.socket,
                peer: self.key.peer,
                transport: self.transport,
                local: self.local,
                remote: self.remote,
                role: self.role,
                resource: &self.resource,
                streams: &self.streams,
                base: self.base,
                tcp: self.tcp,
                connect_cause: self.connect_cause,
            };
            let mut out = Out { stats: &mut env.stats, sink };
            let session = &mut self.session;
            parser.feed(Chunk { side, bytes, missing }, &mut |item| session.item(item, &ctx, &mut out));
            session.advanced(side, &ctx, &mut out);
        }
        self.streams[i].offset += len;
        if let Some(settled) = self.session.settled[side as usize].take() {
            self.streams[i].forget_before(settled);
        }
        if self.session.messages > 0 {
            self.connect_cause = 0;
        }
        if let Some(name) = self.session.upgraded.take() {
            self.upgrade(name, env, sink);
        } else if self.session.malformed >= MAX_MALFORMED {
            self.wind_up(Ending::Abandoned, env, sink);
            self.not_understood(env);
        }
    }

    /// The connection speaks another protocol from here on.
    fn upgrade(&mut self, name: &'static str, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        self.wind_up(Ending::Closed, env, sink);
        self.flow = Flow::default();
        match REGISTRY.iter().find(|p| p.name() == name) {
            Some(protocol) => {
                self.start(*protocol);
                self.decide(protocol.name(), CopyRule::EveryCall(env.config.copy_bytes), env);
            }
            None => {
                self.mode = Mode::Opaque(Some(name));
                self.decide(name, CopyRule::EveryCall(0), env);
            }
        }
    }
}

/// Who sends the bytes of this direction.
fn side_of(role: Role, direction: Direction) -> Side {
    match (role, direction) {
        (Role::Server, Direction::Egress) | (Role::Client | Role::Unknown, Direction::Ingress) => Side::Server,
        _ => Side::Client,
    }
}
