//! The protocol of a connection: recognised from the first calls, and reported to the kernel.

use super::midway::Midway;
use super::Conn;
use crate::env::Env;
use crate::infer::guess;
use crate::session::{Session, Usage};
use crate::verdict::{CopyRule, Verdict};
use wirespan_decode::{Need, OpenEnd, Parser, Protocol, Verdict as Guess};
use wirespan_model::{DataEvent, Direction, Role, Side, Span, Transport};

/// Failed guesses after which a connection counts as not understood.
const MAX_GUESSES: u32 = 4;
/// Messages after which a connection is no longer new.
const EARLY_MESSAGES: u64 = 32;

/// What the bytes are read as.
pub(super) enum Mode {
    /// Not decided: the calls so far.
    Probing { calls: Vec<DataEvent>, seen: u32, guesses: u32 },
    /// Read by the parser of a protocol.
    Reading { protocol: &'static dyn Protocol, parser: Box<dyn Parser> },
    /// Not readable. The name of the protocol, if it is known.
    Opaque(Option<&'static str>),
}

/// The decision about the protocol, and what the kernel was told of it.
pub(super) struct ProtocolState {
    pub(super) mode: Mode,
    /// Number of times that one protocol gave way to another.
    pub(super) upgrades: u32,
    /// The copy rule last sent to the kernel.
    pub(super) copy: Option<CopyRule>,
    /// More is copied than the protocol asks for, because of an answer that lasts.
    pub(super) in_stream: bool,
    /// Whether a connection that is not understood may go on with TLS.
    pub(super) midway: Midway,
}

impl Default for ProtocolState {
    fn default() -> Self {
        ProtocolState { mode: Mode::undecided(), upgrades: 0, copy: None, in_stream: false, midway: Midway::default() }
    }
}

impl Mode {
    pub(super) fn undecided() -> Self {
        Mode::Probing { calls: Vec::new(), seen: 0, guesses: 0 }
    }
}

impl ProtocolState {
    pub(super) fn is_reading(&self) -> bool {
        matches!(self.mode, Mode::Reading { .. })
    }

    /// True if messages of this protocol are being read.
    pub(super) fn is(&self, name: &str) -> bool {
        matches!(&self.mode, Mode::Reading { protocol, .. } if protocol.name() == name)
    }

    /// The protocol whose connections are reported by their bytes, too, as most of them are not read.
    pub(super) fn counts_bytes(&self) -> Option<&'static str> {
        match &self.mode {
            Mode::Reading { protocol, .. } if matches!(protocol.need(), Need::LongHeaders(_)) => Some(protocol.name()),
            Mode::Opaque(name) => *name,
            _ => None,
        }
    }

    /// True if the connection is reported by its messages alone.
    pub(super) fn is_read(&self) -> bool {
        self.is_reading() && self.counts_bytes().is_none()
    }

    /// Captured bytes held by the waiting calls or by the parser.
    pub(super) fn buffered(&self) -> usize {
        match &self.mode {
            Mode::Probing { calls, .. } => calls.iter().map(|c| c.payload.len()).sum(),
            Mode::Reading { parser, .. } => parser.buffered(),
            Mode::Opaque(_) => 0,
        }
    }
}

impl Conn {
    /// Guesses the protocol from the calls so far.
    pub(super) fn probe(&mut self, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        let live = self.facts.is_live();
        let Mode::Probing { calls, seen, guesses } = &mut self.protocol.mode else { return };
        // A capture file holds every byte already, so that more calls cost the kernel nothing.
        let limit = if live { env.config.probe_calls } else { env.config.probe_calls * 8 };
        let over = *seen >= limit || *guesses >= MAX_GUESSES;
        if calls.is_empty() {
            if over {
                self.watch_or_give_up(env);
            }
            return;
        }
        match guess(&env.config.protocols, calls, self.facts.role, &mut env.scratch) {
            Guess::Known { protocol, first_is_client } => {
                let calls = std::mem::take(calls);
                self.understood(protocol, first_is_client, &calls, env);
                let upgrades = self.protocol.upgrades;
                for d in calls {
                    match self.protocol.mode {
                        _ if self.protocol.upgrades != upgrades => self.next(d, env, sink),
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
                    self.protocol.midway.said(&d);
                    self.pass(&d);
                }
                if over {
                    self.watch_or_give_up(env);
                }
            }
        }
    }

    pub(super) fn understood(
        &mut self,
        protocol: &'static dyn Protocol,
        first_is_client: bool,
        calls: &[DataEvent],
        env: &mut Env,
    ) {
        if let (Role::Unknown, Some(first)) = (self.facts.role, calls.first()) {
            self.facts.role = match (first.direction, first_is_client) {
                (Direction::Egress, true) | (Direction::Ingress, false) => Role::Client,
                _ => Role::Server,
            };
        }
        self.start(protocol, env);
        let copy = match protocol.need() {
            // Of the first such call, the rest would be lost: the kernel is told of a connection's manner too late. Of
            // Redis, a library sends a script with its arguments whole when it calls it for the first time.
            Need::FirstCall if protocol.pipelines() => CopyRule::FirstCallOnly(env.config.whole_bytes),
            Need::FirstCall => CopyRule::FirstCallOnly(env.config.copy_bytes),
            Need::Starts => CopyRule::EveryCall(env.config.copy_bytes),
            Need::EveryCall(bytes) => CopyRule::EveryCall(bytes.max(env.config.copy_bytes)),
            Need::LongHeaders(bytes) => CopyRule::LongHeaders(bytes),
            Need::WholeCalls => CopyRule::EveryCall(env.config.whole_bytes),
        };
        self.decide(protocol.name(), copy, env);
    }

    /// A connection that pipelines is no longer new, and none of its calls had to be seen whole.
    pub(super) fn no_longer_new(&mut self, protocol: &'static str, env: &mut Env) {
        let whole = CopyRule::FirstCallOnly(env.config.whole_bytes);
        if self.session.messages > EARLY_MESSAGES && self.protocol.copy == Some(whole) {
            let bytes = env.config.copy_bytes.max(env.config.pipelined_bytes);
            self.decide(protocol, CopyRule::FirstCallOnly(bytes), env);
        }
    }

    /// An answer without a length has lasted until a tick: to find its end, more of its calls is copied.
    pub(super) fn enter_stream(&mut self, env: &mut Env) {
        let Mode::Reading { protocol, parser } = &self.protocol.mode else { return };
        let (name, open) = (protocol.name(), parser.open_end(Side::Server) != OpenEnd::Other);
        if open && self.protocol.copy == Some(CopyRule::EveryCall(env.config.copy_bytes)) {
            self.protocol.in_stream = true;
            self.decide(name, CopyRule::EveryCall(env.config.pipelined_bytes), env);
        }
    }

    /// The next message has come behind such an answer.
    pub(super) fn leave_stream(&mut self, protocol: &'static str, env: &mut Env) {
        if std::mem::take(&mut self.protocol.in_stream) {
            self.decide(protocol, CopyRule::EveryCall(env.config.copy_bytes), env);
        }
    }

    /// Starts the parser of a protocol at the present offsets.
    pub(super) fn start(&mut self, protocol: &'static dyn Protocol, env: &Env) {
        let bytes = &mut self.facts.bytes;
        bytes.parser_base = [bytes.streams[0].offset, bytes.streams[1].offset];
        self.session = Session::new(protocol.pairing());
        let parser = env.config.protocols.parser(protocol, self.facts.transport);
        self.protocol.mode = Mode::Reading { protocol, parser };
    }

    /// Gives up on the connection's bytes. From now on only their lengths are counted.
    pub(super) fn not_understood(&mut self, env: &mut Env) {
        env.stats.unknown_protocol += 1;
        self.protocol.mode = Mode::Opaque(None);
        // Another peer of the same socket may still begin a connection that is understood.
        let handshakes = env.config.protocols.iter().find_map(|p| match p.need() {
            Need::LongHeaders(bytes) if self.facts.transport == Transport::Udp => Some(bytes),
            _ => None,
        });
        self.decide("", handshakes.map_or(CopyRule::EveryCall(0), CopyRule::LongHeaders), env);
    }

    /// Sends a verdict to the kernel if the copy rule changed. A capture file gets none.
    pub(super) fn decide(&mut self, protocol: &'static str, copy: CopyRule, env: &mut Env) {
        if self.protocol.copy != Some(copy) && self.facts.is_live() {
            self.protocol.copy = Some(copy);
            self.send_verdict(protocol, copy, env);
        }
    }

    pub(super) fn send_verdict(&self, protocol: &'static str, copy: CopyRule, env: &mut Env) {
        let (plaintext, Usage { shared, delivers, one_way, pipelined, gathers }) =
            (self.secure.is_plaintext(), self.session.usage);
        let socket = self.facts.key.socket;
        let copy = if self.facts.is_datagram() { env.datagrams.rule(socket, protocol, copy) } else { copy };
        env.verdict(socket, Verdict { protocol, copy, plaintext, shared, delivers, one_way, pipelined, gathers });
    }
}
