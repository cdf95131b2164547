//! One connection: events in; bytes in order, then the protocol, then the pairing; spans out.

mod causes;
mod closing;
mod facts;
mod midway;
mod order;
mod protocol;
mod reading;
mod secure;
mod told;
mod upgrade;

pub(crate) use facts::{Ctx, Facts};

use crate::config::JoinConfig;
use crate::direction::index;
use crate::env::Env;
use crate::flow::{connect_failed, Flow};
use crate::session::{Ending, Out, Session};
use crate::stream::{Placed, Stream};
use crate::table::ConnKey;
use closing::Closing;
use protocol::{Mode, ProtocolState};
use secure::Secure;
use wirespan_decode::Pairing;
use wirespan_model::event::{Actor, ContextEvent, SocketChange, StreamCause, TcpTrouble};
use wirespan_model::{DataEvent, Direction, Endpoint, Role, SocketEvent, Span, Transport};

/// Most bytes that one event can stand for. A hole in a capture may be larger than one call.
const MAX_CALL_BYTES: u64 = 1 << 36;

/// One connection. For datagrams: one pair of ends.
pub(crate) struct Conn {
    facts: Facts,
    protocol: ProtocolState,
    /// Requests that wait for their responses.
    session: Session,
    /// Bytes and calls since the last span of the connection itself.
    flow: Flow,
    secure: Secure,
    closing: Closing,
    /// Captured bytes that this connection holds, as counted in [`Env::buffered`].
    buffered: usize,
    /// When the earliest timer goes off, Unix ns; 0 if none is set.
    pub(crate) armed_ns: u64,
}

impl Conn {
    pub(crate) fn new(
        key: ConnKey,
        transport: Transport,
        ends: (Endpoint, Endpoint),
        role: Role,
        actor: &Actor,
        env: &Env,
    ) -> Self {
        Conn {
            facts: Facts::new(key, transport, ends, role, actor, env),
            protocol: ProtocolState::default(),
            session: Session::new(Pairing::InOrder),
            flow: Flow::default(),
            secure: Secure::default(),
            closing: Closing::default(),
            buffered: 0,
            armed_ns: 0,
        }
    }

    /// True if the socket was closed and the connection only waits for late events.
    pub(crate) fn is_ending(&self) -> bool {
        self.closing.is_ended()
    }

    /// Takes a call.
    pub(crate) fn data(&mut self, mut d: DataEvent, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        self.facts.learn(&d, env);
        self.closing.call(&d);
        if d.len == 0 {
            env.stats.empty_calls += 1;
            return;
        }
        // An absurd length must not overflow the offsets.
        d.len = d.len.min(MAX_CALL_BYTES);
        if self.secure(&mut d, env, sink) {
            self.account(env);
            return;
        }
        let direction = d.direction;
        match self.facts.stream_mut(direction).place(&mut d, &mut env.stats) {
            Placed::Next => self.next(d, env, sink),
            Placed::Ahead => self.facts.stream_mut(direction).hold(d, &mut env.stats),
            Placed::Duplicate => return,
        }
        if self.facts.stream(direction).has_held() {
            self.drain(direction, env, sink);
            if self.facts.stream(direction).is_overdue(self.closing.last_ns, &env.config) {
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

    /// Takes the authoritative cause of a stream's request. Its bytes come later.
    pub(crate) fn stream_cause(&mut self, c: &StreamCause) {
        self.facts.causes.add_stream(c);
    }

    /// Takes the trace context of a request. Its bytes come next.
    pub(crate) fn context(&mut self, c: &ContextEvent) {
        self.facts.stream_mut(c.direction).contexts.add(c);
    }

    /// Takes a change of the socket.
    pub(crate) fn socket(&mut self, e: &SocketEvent, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        self.facts.learn_role(e.role);
        self.closing.last_ns = self.closing.last_ns.max(e.time_ns);
        self.facts.learn_srtt(e.totals.srtt_ns);
        match e.change {
            SocketChange::Open => {
                // The first span reports the cost of the handshake.
                let tcp = &mut self.facts.tcp;
                (tcp.connect_ns, tcp.retransmits) = (e.totals.connect_ns, e.totals.retransmits);
                if self.facts.role == Role::Client && self.session.messages == 0 {
                    self.facts.causes.connect = e.cause;
                }
                self.flow.opened(e.time_ns.saturating_sub(e.totals.connect_ns));
            }
            SocketChange::Close => {}
            SocketChange::Reset(_) => self.flow.opened(e.time_ns),
            SocketChange::ConnectFailed(errno) => {
                self.with(env, sink, |_, ctx, out| {
                    out.stats.spans_out += 1;
                    (out.sink)(connect_failed(e, errno, ctx));
                });
                self.flow = Flow::default();
            }
        }
        self.closing.end(e.change, e.time_ns);
    }

    /// Takes a retransmission or a reset.
    pub(crate) fn trouble(&mut self, t: &TcpTrouble) {
        self.facts.trouble(t);
    }

    /// Reports what has waited long enough by `now_ns`. True if the connection is over and can be forgotten.
    pub(crate) fn tick(&mut self, now_ns: u64, env: &mut Env, sink: &mut dyn FnMut(Span)) -> bool {
        for direction in [Direction::Ingress, Direction::Egress] {
            while self.facts.stream(direction).is_overdue(now_ns, &env.config) {
                self.release(direction, env, sink);
            }
        }
        self.release_plaintext(Some(now_ns), env, sink);
        self.tell(now_ns.saturating_sub(env.config.reorder_ns), env, sink);
        self.account(env);
        if self.closing.is_ended() {
            let over = self.closing.is_over(now_ns, env.config.reorder_ns);
            if over {
                self.finish(env, sink);
            }
            return over;
        }
        if self.session.is_idle() {
            self.session.rest();
        } else {
            self.with(env, sink, |session, ctx, out| session.tick(now_ns, ctx, out));
            self.enter_stream(env);
        }
        let silent_ns = now_ns.saturating_sub(self.closing.last_ns);
        if self.facts.is_datagram() && silent_ns >= env.config.datagram_idle_ns {
            self.finish(env, sink);
            return true;
        }
        let period = now_ns.saturating_sub(self.flow.start_ns) >= env.config.flow_period_ns;
        if self.flow.start_ns != 0 && period {
            if self.protocol.is_read() {
                self.flow = Flow::default();
            } else {
                self.flow_span(None, now_ns, env, sink);
            }
        }
        false
    }

    /// When to call [`Conn::tick`] next, Unix ns; `None` if nothing waits.
    pub(crate) fn deadline(&self, now_ns: u64, config: &JoinConfig) -> Option<u64> {
        let held = self.facts.bytes.streams.iter().any(Stream::has_held) || self.secure.waits_since().is_some();
        let held = held || self.secure.is_told();
        if self.closing.is_ended() || held {
            Some(now_ns + config.reorder_ns)
        } else if !self.session.is_idle() {
            Some(now_ns + config.idle_flush_ns / 2)
        } else if self.facts.is_datagram() {
            Some(now_ns + config.datagram_idle_ns)
        } else if self.flow.start_ns != 0 && !self.protocol.is_read() {
            Some(now_ns + config.flow_period_ns)
        } else {
            None
        }
    }

    /// Reports everything that waits. The connection is not used afterwards.
    pub(crate) fn finish(&mut self, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        self.release_plaintext(None, env, sink);
        self.release_all(env, sink);
        self.tell(u64::MAX, env, sink);
        if let Mode::Probing { calls, seen, .. } = &mut self.protocol.mode {
            env.stats.unknown_protocol += u64::from(*seen > 0);
            for d in std::mem::take(calls) {
                self.pass(&d);
            }
        }
        let (ending, at_ns) = self.closing.ending();
        let silent = self.session.messages == 0;
        self.wind_up(ending, env, sink);
        if silent || !self.protocol.is_read() {
            self.flow_span(Some(ending), at_ns, env, sink);
        }
        env.buffered = env.buffered.saturating_sub(self.buffered);
        self.buffered = 0;
    }

    /// Ends the parser and the session: every request that waits becomes a span with this ending.
    fn wind_up(&mut self, ending: Ending, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        let (_, at_ns) = self.closing.ending();
        let mut mode = std::mem::replace(&mut self.protocol.mode, Mode::Opaque(None));
        self.with(env, sink, |session, ctx, out| {
            // A head that stays unfinished is still a request that was made.
            if let Mode::Reading { parser, .. } = &mut mode {
                parser.finish(&mut |item| session.item(item, ctx, out));
            }
            session.finish(ending, at_ns, ctx, out);
        });
        self.protocol.mode = mode;
    }

    /// Reports the connection itself as a span, and starts a new account of its bytes.
    fn flow_span(&mut self, ending: Option<Ending>, at_ns: u64, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        let protocol = self.protocol.counts_bytes().unwrap_or(self.facts.transport.as_str());
        let mut flow = std::mem::take(&mut self.flow);
        let resent = self.facts.resent.as_mut().map_or(0, |r| std::mem::take(&mut r.since_flow_span));
        self.with(env, sink, |_, ctx, out| {
            if let Some(mut span) = flow.span(protocol, ending, at_ns, ctx) {
                span.tcp.retransmits += resent;
                out.stats.spans_out += 1;
                out.stats.flow_spans_out += 1;
                (out.sink)(span);
            }
        });
        self.flow = flow;
        self.facts.forget_handshake();
    }

    /// Runs `work` on the session with the connection's facts.
    fn with(
        &mut self,
        env: &mut Env,
        sink: &mut dyn FnMut(Span),
        work: impl FnOnce(&mut Session, &Ctx<'_>, &mut Out<'_>),
    ) {
        let (ctx, mut out) = env.lend(&self.facts, sink);
        work(&mut self.session, &ctx, &mut out);
    }

    /// Brings the count of buffered bytes up to date.
    fn account(&mut self, env: &mut Env) {
        let held = self.facts.bytes.streams.iter().map(Stream::held_bytes).sum::<usize>();
        let now = self.protocol.buffered() + self.secure.buffered() + held;
        env.buffered = env.buffered + now - self.buffered.min(env.buffered);
        self.buffered = now;
    }

    /// Too many bytes are held in all: this connection gives up those that it holds.
    fn give_up_buffers(&mut self, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        self.release_all(env, sink);
        if let Mode::Probing { calls, .. } = &mut self.protocol.mode {
            for d in std::mem::take(calls) {
                self.pass(&d);
            }
        }
        if let Mode::Reading { parser, .. } = &self.protocol.mode {
            if parser.buffered() > 0 {
                self.wind_up(Ending::Abandoned, env, sink);
                self.not_understood(env);
            }
        }
    }
}
