//! Connections whose protocol is not recognised: one span per connection, or per period of a long one.

use crate::conn::Ctx;
use crate::direction::index;
use crate::errno;
use crate::session::Ending;
use crate::spans::{comm, place, span_id};
use crate::stream::Mark;
use std::borrow::Cow;
use wirespan_model::event::Actor;
use wirespan_model::{
    DataEvent, Direction, Evidence, ExchangeRange, FiveTuple, Role, SocketEvent, Span, SpanKind, Status, TapSide,
    TcpHealth, Transport, Value,
};

/// Account of a connection's bytes and calls since its last span.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// Time of the first byte or the handshake, Unix ns; 0 if nothing happened.
    pub(crate) start_ns: u64,
    last_ns: u64,
    bytes: [u64; 2],
    calls: u64,
    /// First call per direction.
    first: [Option<Box<Mark>>; 2],
    exchanges: Option<ExchangeRange>,
    periods: u32,
    /// Actor of the last call, earlier periods included.
    actor: Option<Actor>,
}

impl Flow {
    /// Counts a call.
    pub(crate) fn data(&mut self, d: &DataEvent) {
        let i = index(d.direction);
        if self.start_ns == 0 {
            self.start_ns = d.exit_ns;
        }
        self.last_ns = self.last_ns.max(d.exit_ns);
        self.bytes[i] += d.len;
        self.calls += 1;
        self.actor = Some(d.actor);
        if self.first[i].is_none() {
            self.first[i] = Some(Box::new(Mark::of_call(d, 0)));
        }
        if d.exchange != 0 {
            let range = self.exchanges.get_or_insert(ExchangeRange { first: d.exchange, last: d.exchange });
            range.last = range.last.max(d.exchange);
        }
    }

    /// Starts the account at the handshake, unless it has started.
    pub(crate) fn opened(&mut self, at_ns: u64) {
        if self.start_ns == 0 {
            self.start_ns = at_ns;
            self.last_ns = at_ns;
        }
    }

    /// Makes the span of this account, which starts anew. `None` if nothing happened. `ending` is `None` at the end of
    /// a period.
    pub(crate) fn span(
        &mut self,
        protocol: &'static str,
        ending: Option<Ending>,
        at_ns: u64,
        ctx: &Ctx<'_>,
    ) -> Option<Span> {
        let periods = self.periods;
        let next = Flow { periods: periods + 1, actor: self.actor, ..Flow::default() };
        let mut old = std::mem::replace(self, next);
        if old.start_ns == 0 {
            // Nothing since the last period. Only the connection's end is worth a span.
            if periods == 0 || !matches!(ending, Some(Ending::Closed | Ending::Reset(_))) {
                return None;
            }
            old.opened(at_ns);
        }
        let role = match ctx.conn.role {
            // A server listens on the lower port in most cases.
            Role::Unknown if ctx.conn.local.port != 0 && ctx.conn.local.port < ctx.conn.remote.port => Role::Server,
            Role::Unknown => Role::Client,
            known => known,
        };
        let is_client = role == Role::Client;
        let [ingress, egress] = old.first;
        let (request, response) = if is_client { (&egress, &ingress) } else { (&ingress, &egress) };
        let seq = |m: &Option<Box<Mark>>| m.as_ref().and_then(|m| m.seq);
        let first = request.as_ref().or(response.as_ref()).map(|m| m.actor).or(old.actor);
        let actor = first.unwrap_or_default();
        let (tap, kind) = match (actor.pid, is_client) {
            (0, _) if first.is_some() => (TapSide::Capture, SpanKind::Client),
            (_, true) => (TapSide::ClientProcess, SpanKind::Client),
            (_, false) => (TapSide::ServerProcess, SpanKind::Server),
        };
        let start_ns = request.as_ref().map_or(old.start_ns, |m| m.first_ns().min(old.start_ns));
        let (client, server) =
            if is_client { (ctx.conn.local, ctx.conn.remote) } else { (ctx.conn.remote, ctx.conn.local) };
        let (up, down) = (index(Direction::Egress), index(Direction::Ingress));
        let (sent, received) = (old.bytes[up], old.bytes[down]);
        let cause = if !is_client {
            None
        } else {
            egress
                .as_ref()
                .filter(|m| m.cause != 0)
                .map(|m| (m.cause, m.cause_evidence.unwrap_or(Evidence::Thread)))
                .or((ctx.conn.causes.connect != 0).then_some((ctx.conn.causes.connect, Evidence::Connect)))
        };
        let (status, error) = match ending {
            Some(Ending::Reset(errno)) => (Status::Reset, errno::text(errno)),
            Some(Ending::Closed) => (Status::Ok, "".into()),
            _ => (Status::Unset, "".into()),
        };
        let end_ns = if matches!(ending, Some(Ending::Closed | Ending::Reset(_))) { at_ns } else { old.last_ns };
        Some(Span {
            id: span_id(ctx.host_id, ctx.conn.key.socket, ctx.conn.key.peer, b'F', u64::from(periods), start_ns),
            tap,
            kind,
            protocol: Cow::Borrowed(protocol),
            start_ns,
            response_ns: response.as_ref().map_or(0, |m| m.first_ns()),
            end_ns: end_ns.max(old.last_ns).max(start_ns),
            status,
            error,
            request_bytes: if is_client { sent } else { received },
            response_bytes: if is_client { received } else { sent },
            tuple: FiveTuple { transport: ctx.conn.transport, client, server },
            socket: ctx.conn.key.socket.0,
            pid: actor.pid,
            tid: actor.tid,
            coroutine: actor.coroutine,
            comm: comm(&actor),
            netns: actor.netns,
            cgroup_id: actor.cgroup_id,
            host_id: ctx.host_id,
            exchange: old.exchanges.filter(|_| tap == TapSide::ServerProcess),
            cause: cause.map(|c| c.0),
            cause_evidence: cause.map(|c| c.1),
            request_seq: seq(request),
            response_seq: seq(response),
            attrs: std::iter::once((Cow::Borrowed("wirespan.calls"), Value::Int(old.calls as i64)))
                .chain(ctx.conn.attrs.iter().cloned())
                .collect(),
            tcp: ctx.conn.tcp,
            resource: ctx.conn.owner.resource.clone(),
            ..Span::default()
        })
    }
}

/// Span of a failed attempt to connect.
pub(crate) fn connect_failed(e: &SocketEvent, errno: i32, ctx: &Ctx<'_>) -> Span {
    let start_ns = e.time_ns.saturating_sub(e.totals.connect_ns);
    let (tap, kind) = place(&e.actor, true);
    Span {
        id: span_id(ctx.host_id, ctx.conn.key.socket, ctx.conn.key.peer, b'C', 0, e.time_ns),
        tap,
        kind,
        protocol: Cow::Borrowed(e.transport.as_str()),
        start_ns,
        end_ns: e.time_ns,
        status: Status::Reset,
        status_code: Some(errno),
        error: errno::text(errno),
        operation: "connect".into(),
        target: match e.transport {
            Transport::Tcp | Transport::Udp => e.remote.to_string().into(),
            _ => "".into(),
        },
        tuple: FiveTuple { transport: e.transport, client: e.local, server: e.remote },
        socket: e.socket.0,
        pid: e.actor.pid,
        tid: e.actor.tid,
        coroutine: e.actor.coroutine,
        comm: comm(&e.actor),
        netns: e.actor.netns,
        cgroup_id: e.actor.cgroup_id,
        host_id: ctx.host_id,
        cause: (e.cause != 0).then_some(e.cause),
        cause_evidence: (e.cause != 0).then_some(e.cause_evidence.unwrap_or(Evidence::Thread)),
        tcp: TcpHealth { connect_ns: e.totals.connect_ns, retransmits: e.totals.retransmits, ..ctx.conn.tcp },
        resource: ctx.conn.owner.resource.clone(),
        ..Span::default()
    }
}
