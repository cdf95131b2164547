//! One connection: bytes in order, then the protocol, then the pairing.

mod reading;
mod secure;

use crate::config::JoinConfig;
use crate::errno;
use crate::flow::{connect_failed, Flow};
use crate::joiner::Env;
use crate::resent::{Resent, Segments};
use crate::session::{Ending, Out, Session};
use crate::spans::{index, Ctx};
use crate::stream::{Placed, Stream};
use crate::table::ConnKey;
use crate::tls::Tls;
use crate::verdict::CopyRule;
use std::collections::VecDeque;
use std::sync::Arc;
use wirespan_decode::{Pairing, Parser, Protocol};
use wirespan_model::event::{Actor, ContextEvent, SocketChange, StreamCause, TcpTotals, TcpTrouble};
use wirespan_model::{Attr, DataEvent, Direction, Endpoint, Resource, Role, SocketEvent, Span, TcpHealth, Transport};

/// Complaints of a parser without a message after which the guess of the protocol counts as wrong.
const MAX_MALFORMED: u32 = 64;
/// Failed guesses after which a connection counts as not understood.
const MAX_GUESSES: u32 = 4;
/// Changes of the protocol after which a connection counts as not understood.
const MAX_UPGRADES: u32 = 8;
/// Streams of which it is known for whom their requests are sent; a peer allows 100 at a time, as a rule.
const MAX_TOLD: usize = 512;

/// Most bytes that one event can stand for (a hole of a capture may be larger than a call).
const MAX_CALL: u64 = 1 << 36;

/// What the bytes are taken for.
enum Mode {
    /// Not known yet: the calls seen so far.
    Probing { calls: Vec<DataEvent>, seen: u32, guesses: u32 },
    /// A protocol.
    Reading { protocol: &'static dyn Protocol, parser: Box<dyn Parser> },
    /// Nothing we can read; the name if it has one.
    Opaque(Option<&'static str>),
}

/// One connection (for datagrams: one pair of ends).
pub(crate) struct Conn {
    key: ConnKey,
    transport: Transport,
    local: Endpoint,
    remote: Endpoint,
    role: Role,
    owner_pid: u32,
    owner_epoch: u32,
    resource: Arc<Resource>,
    streams: [Stream; 2],
    base: [u64; 2],
    mode: Mode,
    session: Session,
    flow: Flow,
    tcp: TcpHealth,
    /// What was sent again; `None` while nothing was.
    resent: Option<Box<Resent>>,
    connect_cause: u64,
    /// For whom requests are sent, by their streams.
    told: VecDeque<StreamCause>,
    /// What every span of the connection is told (a proxy's header).
    attrs: Vec<Attr>,
    /// Protocols that gave way to another.
    upgrades: u32,
    ending: Option<(Ending, u64)>,
    errno: i32,
    last_ns: u64,
    buffered: usize,
    copy: Option<CopyRule>,
    /// Records and plaintext, if it speaks TLS.
    tls: Option<Box<Tls>>,
    /// Calls looked at for the start of TLS.
    looked: u8,
    /// When the timer that counts goes off, Unix ns; 0 if none is set.
    pub(crate) armed_ns: u64,
}

impl Conn {
    pub(crate) fn new(
        key: ConnKey,
        transport: Transport,
        (local, remote): (Endpoint, Endpoint),
        role: Role,
        actor: &Actor,
        env: &Env,
    ) -> Self {
        Conn {
            key,
            transport,
            local,
            remote,
            role,
            owner_pid: actor.pid,
            owner_epoch: env.epoch,
            resource: env.resources.resource(actor),
            streams: [Stream::default(), Stream::default()],
            base: [0, 0],
            mode: Mode::Probing { calls: Vec::new(), seen: 0, guesses: 0 },
            session: Session::new(Pairing::InOrder),
            flow: Flow::default(),
            tcp: TcpHealth::default(),
            resent: None,
            connect_cause: 0,
            attrs: Vec::new(),
            upgrades: 0,
            told: VecDeque::new(),
            ending: None,
            errno: 0,
            last_ns: 0,
            buffered: 0,
            copy: None,
            tls: None,
            looked: 0,
            armed_ns: 0,
        }
    }

    /// Whether the connection was closed and only waits for late events.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Takes a call.
    pub(crate) fn data(&mut self, mut d: DataEvent, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        if self.owner_pid != d.actor.pid || self.owner_epoch != env.epoch {
            self.owner_pid = d.actor.pid;
            self.owner_epoch = env.epoch;
            self.resource = env.resources.resource(&d.actor);
        }
        if self.role == Role::Unknown {
            self.role = d.role;
        }
        if self.local == Endpoint::UNSPECIFIED {
            self.local = d.local;
        }
        if self.remote == Endpoint::UNSPECIFIED {
            self.remote = d.remote;
        }
        self.last_ns = self.last_ns.max(d.exit_ns);
        if d.srtt_ns != 0 {
            self.tcp.srtt_ns = d.srtt_ns;
        }
        if d.errno != 0 && errno::is_fatal(d.errno) {
            self.errno = d.errno;
        }
        if d.len == 0 {
            env.stats.empty_calls += 1;
            return;
        }
        // What claims more must not overflow the offsets.
        d.len = d.len.min(MAX_CALL);
        if self.secure(&mut d, env, sink) {
            self.account(env);
            return;
        }
        let direction = d.direction;
        match self.streams[index(direction)].place(&mut d, &mut env.stats) {
            Placed::Next => self.next(d, env, sink),
            Placed::Ahead => self.streams[index(direction)].hold(d, &mut env.stats),
            Placed::Duplicate => return,
        }
        if self.streams[index(direction)].has_held() {
            self.drain(direction, env, sink);
            if self.streams[index(direction)].is_overdue(self.last_ns, &env.config) {
                self.release(direction, env, sink);
            }
        }
        self.account(env);
        if env.buffered > env.config.max_buffered && self.buffered > 0 {
            env.stats.buffer_overflow += 1;
            self.give_up_buffers(env, sink);
            self.account(env);
        }
    }

    /// Takes for whom the request of a stream is sent, whose bytes come later.
    pub(crate) fn told(&mut self, c: &StreamCause) {
        if self.told.len() >= MAX_TOLD {
            self.told.pop_front();
        }
        self.told.push_back(*c);
    }

    /// Takes the context of a request whose bytes come next.
    pub(crate) fn context(&mut self, c: &ContextEvent) {
        self.streams[index(c.direction)].context(c);
    }

    /// Lets the calls go on that no longer wait for anything.
    fn drain(&mut self, direction: Direction, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        while let Some(mut d) = self.streams[index(direction)].take_ready() {
            if self.streams[index(direction)].place(&mut d, &mut env.stats) == Placed::Next {
                self.next(d, env, sink);
            }
        }
    }

    /// Stops waiting for bytes that do not come.
    fn release(&mut self, direction: Direction, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        let i = index(direction);
        let Some(hole) = self.streams[i].hole() else { return };
        env.stats.gaps += 1;
        env.stats.gap_bytes += hole;
        self.streams[i].skip(hole);
        self.streams[i].rearm(self.last_ns);
        if matches!(self.mode, Mode::Reading { .. }) {
            self.feed(direction, &[], hole, env, sink);
            if let Some(name) = self.session.upgraded.take() {
                self.upgrade(name, None, env, sink);
            }
        } else {
            self.streams[i].offset += hole;
        }
        self.drain(direction, env, sink);
    }

    /// The call's bytes are the next of their stream.
    fn next(&mut self, d: DataEvent, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        // The account of bytes is only told of connections without a message.
        if self.session.messages == 0 || matches!(self.mode, Mode::Opaque(_)) {
            self.flow.data(&d);
        }
        match &mut self.mode {
            Mode::Reading { .. } => self.read(&d, env, sink),
            Mode::Opaque(_) => self.pass(&d),
            Mode::Probing { calls, seen, .. } => {
                *seen += 1;
                if d.payload.is_empty() && calls.is_empty() {
                    self.pass(&d);
                } else {
                    // The sequence must go on while the calls wait here.
                    self.streams[index(d.direction)].expect_after(&d);
                    calls.push(d);
                }
                self.probe(env, sink);
            }
        }
    }

    /// Bytes that nobody reads.
    fn pass(&mut self, d: &DataEvent) {
        let stream = &mut self.streams[index(d.direction)];
        stream.mark(d, false);
        stream.offset += d.len;
        stream.forget_before(stream.offset);
    }

    /// Takes a change of the socket.
    pub(crate) fn socket(&mut self, e: &SocketEvent, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        if self.role == Role::Unknown {
            self.role = e.role;
        }
        self.last_ns = self.last_ns.max(e.time_ns);
        self.health(&e.totals);
        match e.change {
            SocketChange::Open => {
                // What the handshake cost is told by the first span.
                (self.tcp.connect_ns, self.tcp.retransmits) = (e.totals.connect_ns, e.totals.retransmits);
                if self.role == Role::Client && self.session.messages == 0 {
                    self.connect_cause = e.cause;
                }
                self.flow.opened(e.time_ns.saturating_sub(e.totals.connect_ns));
            }
            SocketChange::Close if self.errno != 0 => self.ending = Some((Ending::Reset(self.errno), e.time_ns)),
            SocketChange::Close => self.ending = Some((Ending::Closed, e.time_ns)),
            SocketChange::Reset(errno) => {
                self.flow.opened(e.time_ns);
                self.ending = Some((Ending::Reset(errno), e.time_ns));
            }
            SocketChange::ConnectFailed(errno) => {
                self.with(env, sink, |_, ctx, out| {
                    out.stats.spans_out += 1;
                    (out.sink)(connect_failed(e, errno, ctx));
                });
                self.flow = Flow::default();
                self.ending = Some((Ending::Abandoned, e.time_ns));
            }
        }
    }

    fn health(&mut self, totals: &TcpTotals) {
        if totals.srtt_ns != 0 {
            self.tcp.srtt_ns = totals.srtt_ns;
        }
    }

    /// Something went wrong below the bytes.
    pub(crate) fn trouble(&mut self, t: &TcpTrouble) {
        match Segments::of(&t.kind) {
            Some(segments) => self.resent.get_or_insert_default().add(t.direction, segments),
            None => self.tcp.resets = self.tcp.resets.saturating_add(1),
        }
    }

    /// Time passed. True if the connection is over and can be forgotten.
    pub(crate) fn tick(&mut self, now_ns: u64, env: &mut Env, sink: &mut dyn FnMut(Span)) -> bool {
        for direction in [Direction::Ingress, Direction::Egress] {
            while self.streams[index(direction)].is_overdue(now_ns, &env.config) {
                self.release(direction, env, sink);
            }
        }
        self.release_plaintext(Some(now_ns), env);
        self.account(env);
        if let Some((_, at)) = self.ending {
            if now_ns.saturating_sub(at.max(self.last_ns)) >= env.config.reorder_ns {
                self.finish(env, sink);
                return true;
            }
            return false;
        }
        if self.session.is_idle() {
            self.session.rest();
        } else {
            self.with(env, sink, |session, ctx, out| session.tick(now_ns, ctx, out));
        }
        let datagram = matches!(self.transport, Transport::Udp | Transport::UnixDgram);
        if datagram && now_ns.saturating_sub(self.last_ns) >= env.config.datagram_idle_ns {
            self.finish(env, sink);
            return true;
        }
        let period = now_ns.saturating_sub(self.flow.start_ns) >= env.config.flow_period_ns;
        if self.flow.start_ns != 0 && period {
            if matches!(self.mode, Mode::Reading { .. }) {
                self.flow = Flow::default();
            } else {
                self.flow_span(None, now_ns, env, sink);
            }
        }
        false
    }

    /// When to look again, Unix ns; `None` if nothing waits.
    pub(crate) fn deadline(&self, now_ns: u64, config: &JoinConfig) -> Option<u64> {
        let held =
            self.streams.iter().any(Stream::has_held) || self.tls.as_ref().is_some_and(|t| t.waits_since().is_some());
        let datagram = matches!(self.transport, Transport::Udp | Transport::UnixDgram);
        if self.ending.is_some() || held {
            Some(now_ns + config.reorder_ns)
        } else if !self.session.is_idle() {
            Some(now_ns + config.idle_flush_ns / 2)
        } else if datagram {
            Some(now_ns + config.datagram_idle_ns)
        } else if self.flow.start_ns != 0 && !matches!(self.mode, Mode::Reading { .. }) {
            Some(now_ns + config.flow_period_ns)
        } else {
            None
        }
    }

    /// Reports everything that waits; the connection is not used afterwards.
    pub(crate) fn finish(&mut self, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        for direction in [Direction::Ingress, Direction::Egress] {
            while self.streams[index(direction)].has_held() {
                self.release(direction, env, sink);
            }
        }
        self.release_plaintext(None, env);
        if let Mode::Probing { calls, seen, .. } = &mut self.mode {
            env.stats.unknown_protocol += u64::from(*seen > 0);
            for d in std::mem::take(calls) {
                self.pass(&d);
            }
        }
        let (ending, at) = self.ending.unwrap_or((Ending::Abandoned, self.last_ns));
        let silent = self.session.messages == 0;
        self.wind_up(ending, env, sink);
        if silent || matches!(self.mode, Mode::Opaque(_)) {
            self.flow_span(Some(ending), at, env, sink);
        }
        env.buffered = env.buffered.saturating_sub(self.buffered);
        self.buffered = 0;
    }

    fn wind_up(&mut self, ending: Ending, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        let at = self.ending.map_or(self.last_ns, |(_, at)| at);
        let mut mode = std::mem::replace(&mut self.mode, Mode::Opaque(None));
        self.with(env, sink, |session, ctx, out| {
            // A head that will not be finished any more is still a request that was made.
            if let Mode::Reading { parser, .. } = &mut mode {
                parser.finish(&mut |item| session.item(item, ctx, out));
            }
            session.finish(ending, at, ctx, out);
        });
        self.mode = mode;
    }

    fn flow_span(&mut self, ending: Option<Ending>, at_ns: u64, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        let protocol = match self.mode {
            Mode::Opaque(Some(name)) => name,
            _ => self.transport.as_str(),
        };
        let mut flow = std::mem::take(&mut self.flow);
        let again = self.resent.as_mut().map_or(0, |r| std::mem::take(&mut r.since));
        self.with(env, sink, |_, ctx, out| {
            if let Some(mut span) = flow.span(protocol, ending, at_ns, ctx) {
                span.tcp.retransmits += again;
                out.stats.spans_out += 1;
                out.stats.flow_spans_out += 1;
                (out.sink)(span);
            }
        });
        self.flow = flow;
        (self.tcp.connect_ns, self.tcp.retransmits) = (0, 0);
    }

    /// Runs `work` on the session with the connection's facts.
    fn with(
        &mut self,
        env: &mut Env,
        sink: &mut dyn FnMut(Span),
        work: impl FnOnce(&mut Session, &Ctx<'_>, &mut Out<'_>),
    ) {
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
        work(&mut self.session, &ctx, &mut Out { stats: &mut env.stats, sink });
    }

    /// Brings the account of buffered bytes up to date.
    fn account(&mut self, env: &mut Env) {
        let mode = match &self.mode {
            Mode::Probing { calls, .. } => calls.iter().map(|c| c.payload.len()).sum(),
            Mode::Reading { parser, .. } => parser.buffered(),
            Mode::Opaque(_) => 0,
        };
        let tls = self.tls.as_ref().map_or(0, |t| t.buffered());
        let now = mode + tls + self.streams.iter().map(Stream::held_bytes).sum::<usize>();
        env.buffered = env.buffered + now - self.buffered.min(env.buffered);
        self.buffered = now;
    }

    /// Too much is kept in all: this connection gives its share back.
    fn give_up_buffers(&mut self, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        for direction in [Direction::Ingress, Direction::Egress] {
            while self.streams[index(direction)].has_held() {
                self.release(direction, env, sink);
            }
        }
        if let Mode::Probing { calls, .. } = &mut self.mode {
            for d in std::mem::take(calls) {
                self.pass(&d);
            }
        }
        if let Mode::Reading { parser, .. } = &self.mode {
            if parser.buffered() > 0 {
                self.wind_up(Ending::Abandoned, env, sink);
                self.not_understood(env);
            }
        }
    }
}
