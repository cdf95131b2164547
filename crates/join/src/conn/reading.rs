//! What the bytes mean: the protocol is guessed, then its parser is fed.

use super::{Conn, Mode, MAX_GUESSES, MAX_MALFORMED, MAX_UPGRADES};
use crate::flow::Flow;
use crate::infer::guess;
use crate::joiner::Env;
use crate::session::{Ending, Manner, Out, Session};
use crate::spans::{index, Ctx};
use crate::verdict::{CopyRule, Verdict};
use wirespan_decode::{Handover, Need, Pairing, Protocol, Verdict as Guess};
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
        match guess(&env.config.protocols, calls, self.role, &mut env.scratch) {
            Guess::Known { protocol, first_is_client } => {
                let calls = std::mem::take(calls);
                self.understood(protocol, first_is_client, &calls, env);
                let upgrades = self.upgrades;
                for d in calls {
                    match self.mode {
                        _ if self.upgrades != upgrades => self.next(d, env, sink),
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
        self.start(protocol, env);
        let copy = match protocol.need() {
            Need::FirstCall => CopyRule::FirstCallOnly(env.config.copy_bytes),
            Need::EveryCall(bytes) => CopyRule::EveryCall(bytes.max(env.config.copy_bytes)),
            Need::WholeCalls => CopyRule::EveryCall(env.config.whole_bytes),
        };
        self.decide(protocol.name(), copy, env);
    }

    fn start(&mut self, protocol: &'static dyn Protocol, env: &Env) {
        self.base = [self.streams[0].offset, self.streams[1].offset];
        self.session = Session::new(protocol.pairing());
        self.mode = Mode::Reading { protocol, parser: env.config.protocols.parser(protocol, self.transport) };
    }

    pub(super) fn not_understood(&mut self, env: &mut Env) {
        env.stats.unknown_protocol += 1;
        self.mode = Mode::Opaque(None);
        self.decide("", CopyRule::EveryCall(0), env);
    }

    fn decide(&mut self, protocol: &'static str, copy: CopyRule, env: &mut Env) {
        if self.copy != Some(copy) && self.owner_pid != 0 {
            self.copy = Some(copy);
            self.tell(protocol, copy, env);
        }
    }

    fn tell(&self, protocol: &'static str, copy: CopyRule, env: &mut Env) {
        let (plaintext, Manner { shared, delivers }) = (self.is_plaintext(), self.session.manner);
        env.verdict(self.key.socket, Verdict { protocol, copy, plaintext, shared, delivers });
    }

    /// Gives a call to the parser.
    pub(super) fn read(&mut self, d: &DataEvent, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        let stream = &mut self.streams[index(d.direction)];
        let side = side_of(self.role, d.direction);
        let (before, manner) = (self.session.messages, self.session.manner);
        let open = self.session.is_open(side);
        stream.mark(d, !open);
        let captured = d.payload.len().min(usize::try_from(d.len).unwrap_or(usize::MAX));
        self.feed(d.direction, &d.payload[..captured], d.len - captured as u64, env, sink);
        if let Some(name) = self.session.upgraded.take() {
            return self.upgrade(name, Some(d), env, sink);
        }
        let Mode::Reading { protocol, parser } = &self.mode else { return };
        let needs_whole = parser.needs_whole();
        let (name, first_only) = (protocol.name(), protocol.need() == Need::FirstCall);
        if let Some(copy) = self.copy.filter(|_| self.session.manner != manner && self.owner_pid != 0) {
            self.tell(name, copy, env);
        }
        let unseen = first_only && d.payload.is_empty() && !open && self.session.messages == before;
        env.stats.unseen_calls += u64::from(unseen);
        // One call carries many messages: what is cut off of it are whole messages. Where answers of one request may be
        // of any length, a hole in them is none.
        let many = !first_only || self.session.pipelined;
        if std::mem::take(&mut self.session.holed) && many || needs_whole {
            self.decide(name, CopyRule::EveryCall(env.config.whole_bytes), env);
        } else if (unseen || first_only && many) && !self.shows_whole(env) {
            self.decide(name, CopyRule::EveryCall(env.config.pipelined_bytes), env);
        }
    }

    /// Calls are copied to their end already.
    fn shows_whole(&self, env: &Env) -> bool {
        self.copy == Some(CopyRule::EveryCall(env.config.whole_bytes))
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
                attrs: &self.attrs,
                streams: &self.streams,
                base: self.base,
                tcp: self.tcp,
                resent: self.resent.as_deref(),
                connect_cause: self.connect_cause,
                told: &self.told,
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
            (self.connect_cause, self.tcp.connect_ns, self.tcp.retransmits) = (0, 0, 0);
        }
        if self.session.malformed >= MAX_MALFORMED {
            self.wind_up(Ending::Abandoned, env, sink);
            self.not_understood(env);
        }
    }

    /// The connection speaks another protocol from here on. `last` is the call that said so: what it holds behind the
    /// last byte of the old protocol is the beginning of the new one.
    pub(super) fn upgrade(
        &mut self,
        name: &'static str,
        last: Option<&DataEvent>,
        env: &mut Env,
        sink: &mut dyn FnMut(Span),
    ) {
        let (old, handover) = match &mut self.mode {
            Mode::Reading { protocol, parser } => (protocol.name(), parser.handover()),
            _ => ("", Handover::default()),
        };
        let next = env.config.protocols.find(name).filter(|_| name != old);
        let rest = last.and_then(|d| self.behind(d, &handover, next.is_some()));
        // The request that asked for HTTP/2 is its stream 1 (RFC 7540, 3.2).
        let first = if name == "http2" { self.session.take_waiting(Side::Client) } else { None };
        self.wind_up(Ending::Closed, env, sink);
        self.flow = Flow::default();
        self.upgrades += 1;
        for (key, value) in handover.attrs {
            self.attrs.retain(|(k, _)| *k != key);
            self.attrs.push((key, value));
        }
        if let Some(rest) = &rest {
            self.streams[index(rest.direction)].rewind(rest.len);
        }
        match next {
            _ if self.upgrades > MAX_UPGRADES => self.not_understood(env),
            Some(protocol) => {
                self.start(protocol, env);
                if let Some(first) = first {
                    self.session.wait(1, first);
                }
                let bytes = match protocol.need() {
                    Need::FirstCall => 0,
                    Need::EveryCall(bytes) => bytes,
                    Need::WholeCalls => env.config.whole_bytes,
                };
                self.decide(protocol.name(), CopyRule::EveryCall(bytes.max(env.config.copy_bytes)), env);
            }
            None if name.is_empty() => {
                self.session = Session::new(Pairing::InOrder);
                self.mode = Mode::Probing { calls: Vec::new(), seen: 0, guesses: 0 };
                self.decide("", CopyRule::EveryCall(env.config.copy_bytes), env);
            }
            None => {
                self.mode = Mode::Opaque(Some(name));
                self.decide(name, CopyRule::EveryCall(0), env);
            }
        }
        if let Some(rest) = rest {
            self.next(rest, env, sink);
        }
    }

    /// What a call that was fed holds behind the last byte of the old protocol, as a call of its own.
    fn behind(&self, d: &DataEvent, handover: &Handover, readable: bool) -> Option<DataEvent> {
        let side = side_of(self.role, d.direction) as usize;
        let i = index(d.direction);
        let end = self.streams[i].offset;
        let begin = match handover.at {
            Some(at) => self.base[i].saturating_add(at[side]),
            // A parser that does not say it ended with its last head.
            None if readable => self.session.head_end[side],
            None => end,
        };
        let begin = begin.max(end.saturating_sub(d.len));
        let len = end.checked_sub(begin).filter(|len| *len > 0)?;
        let seen = d.len - len;
        let payload = d.payload.get(usize::try_from(seen).ok()?..).unwrap_or_default().to_vec();
        Some(DataEvent { len, seq: d.seq.map(|s| s.wrapping_add(seen as u32)), payload, ..d.clone() })
    }
}

/// Who sends the bytes of this direction.
fn side_of(role: Role, direction: Direction) -> Side {
    match (role, direction) {
        (Role::Server, Direction::Egress) | (Role::Client | Role::Unknown, Direction::Ingress) => Side::Server,
        _ => Side::Client,
    }
}
