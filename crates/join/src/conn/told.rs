//! The end of a TLS connection that cannot be read: its spans are told by the other end.
//!
//! Both ends of a connection on one host move the same ciphertext, and know its TCP sequence numbers. If the plaintext
//! of one end is not seen (a stripped program with BoringSSL inside, Java), but that of the other end is, the other end
//! knows which request was in which bytes. This end knows when it moved these bytes, by which thread and for which
//! cause. Together they are the span of this end.

use super::{index, Conn, Ctx};
use crate::env::Env;
use crate::spans::{cause_of_call, comm, place, span_id, weaken_connect_cause};
use crate::stream::Mark;
use std::borrow::Cow;
use std::collections::VecDeque;
use wirespan_model::{DataEvent, Direction, ExchangeRange, Role, Span, SpanKind, Transport, Value};

/// Most calls kept per direction, before and after the other end has told the first span.
const KEPT_UNTOLD: usize = 32;
const KEPT: usize = 256;
/// Most spans that wait for the rest of their bytes.
const MAX_WAITING: usize = 256;
/// Tells the id of such a span from those of other spans of its connection.
const TAG: u8 = 0xf0;
/// Attribute of these spans: at which end of the connection their messages were read.
const READ_AT: &str = "wirespan.read_at";

/// What this end knows of its ciphertext, and what the other end has told.
#[derive(Default)]
pub(super) struct Told {
    /// Calls that moved ciphertext, by [`index`] of their direction, oldest first.
    calls: [VecDeque<Mark>; 2],
    /// Spans of the other end whose last bytes this end has not moved yet.
    waiting: VecDeque<Span>,
    /// The other end has told a span.
    heard: bool,
    /// For a while after a span was told, no plaintext of this end came. Before, it may still come: a thread that sends
    /// a request is sometimes seen only after the answer was read.
    is_unread: bool,
    /// Plaintext of this end is read now: requests from this sequence number on are read here.
    until: Option<u32>,
}

impl Told {
    /// Remembers a call that moved ciphertext.
    pub(super) fn call(&mut self, d: &DataEvent) {
        let calls = &mut self.calls[index(d.direction)];
        if calls.len() >= if self.heard { KEPT } else { KEPT_UNTOLD } {
            calls.pop_front();
        }
        calls.push_back(Mark::of_call(d, 0));
    }

    /// The call that moved the byte with this sequence number.
    fn of_byte(&self, direction: Direction, seq: u32) -> Option<&Mark> {
        let holds = |m: &&Mark| m.seq.is_some_and(|first| u64::from(seq.wrapping_sub(first)) < m.end);
        self.calls[index(direction)].iter().rev().find(holds)
    }

    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether a request that begins at this sequence number is read at this end.
    fn is_read_here(&self, seq: u32) -> bool {
        self.until.is_some_and(|until| is_from(seq, until))
    }

    /// The span of this end, from that of the other end. `None` if this end did not move the request, or, unless it is
    /// `late`, has not moved all of the answer yet.
    fn span(&self, other: &Span, late: bool, ctx: &Ctx<'_>) -> Option<Span> {
        let asks = ctx.conn.role == Role::Client;
        let [out, back] = directions(ctx.conn.role);
        let request = self.of_byte(out, other.request_seq?)?;
        let answer = other.response_seq.and_then(|seq| self.of_byte(back, seq));
        let rest = u32::try_from(other.response_bytes.saturating_sub(1)).unwrap_or(u32::MAX);
        let end = other.response_seq.and_then(|seq| self.of_byte(back, seq.wrapping_add(rest)));
        if other.response_seq.is_some() && (answer.is_none() || end.is_none()) && !late {
            return None;
        }
        let start_ns = request.first_ns();
        let (tap, _) = place(&request.actor, asks);
        let (cause, cause_evidence) = if asks { cause_of_call(request, ctx) } else { (None, None) };
        // On a connection of many requests, the call that answers may belong to another one.
        let last = answer.filter(|_| other.message_id.is_none()).map_or(0, |m| m.exchange);
        let exchange = (!asks && request.exchange != 0)
            .then(|| ExchangeRange { first: request.exchange, last: last.max(request.exchange) });
        let (key, owner) = (&ctx.conn.key, &ctx.conn.owner);
        let mut attrs = other.attrs.clone();
        attrs.push((Cow::Borrowed(READ_AT), Value::Str("other-end".into())));
        Some(Span {
            id: span_id(ctx.host_id, key.socket, key.peer, TAG, u64::from(other.request_seq?), start_ns),
            tap,
            kind: opposite(other.kind),
            start_ns,
            response_ns: answer.map_or(other.response_ns, Mark::first_ns),
            end_ns: end.or(answer).map_or(other.end_ns, |m| m.exit_ns).max(start_ns),
            socket: key.socket.0,
            pid: request.actor.pid,
            tid: request.actor.tid,
            coroutine: request.actor.coroutine,
            comm: comm(&request.actor),
            netns: request.actor.netns,
            cgroup_id: request.actor.cgroup_id,
            exchange,
            cause,
            cause_evidence,
            attrs,
            tcp: ctx.conn.tcp,
            resource: owner.resource.clone(),
            ..other.clone()
        })
    }
}

/// Whether a sequence number lies at another one, or behind it.
fn is_from(seq: u32, other: u32) -> bool {
    seq.wrapping_sub(other) as i32 >= 0
}

/// In which direction requests and answers go at this end.
fn directions(role: Role) -> [Direction; 2] {
    match role {
        Role::Client => [Direction::Egress, Direction::Ingress],
        Role::Unknown | Role::Server => [Direction::Ingress, Direction::Egress],
    }
}

/// The same exchange, seen from the other end.
fn opposite(kind: SpanKind) -> SpanKind {
    match kind {
        SpanKind::Server => SpanKind::Client,
        SpanKind::Client => SpanKind::Server,
        SpanKind::Producer => SpanKind::Consumer,
        SpanKind::Consumer => SpanKind::Producer,
        SpanKind::Internal => SpanKind::Internal,
    }
}

impl Conn {
    /// The ends of a connection that speaks TLS, this one first; `None` if it does not, or has no addresses.
    pub(crate) fn tls_ends(&self) -> Option<(wirespan_model::Endpoint, wirespan_model::Endpoint)> {
        let (local, remote) = (self.facts.local, self.facts.remote);
        let known = local.port != 0 && remote.port != 0 && self.facts.transport == Transport::Tcp;
        (self.secure.is_tls() && known).then_some((local, remote))
    }

    /// The other end is a connection of this host, too: it may be able to tell what is in the bytes.
    pub(crate) fn meet(&mut self) {
        if self.secure.told.is_none() && !self.secure.is_plaintext() {
            self.secure.told = Some(Box::default());
        }
    }

    /// True if nothing reads the plaintext of this end, but the other end may tell it.
    pub(crate) fn listens(&self) -> bool {
        self.secure.told.is_some()
    }

    /// The first plaintext of this end was read, of a message in this direction. The library may have been met in the
    /// middle of an exchange: its request was sent unread, and only the other end can tell of it.
    pub(super) fn begins_to_read(&mut self, direction: Direction) {
        let is_known = |told: &Told| told.until.is_some() && told.waits();
        if direction == directions(self.facts.role)[0] && !self.secure.told.as_deref().is_some_and(is_known) {
            self.secure.told = None;
        }
    }

    /// A piece of plaintext of this end was read, and has a place among the ciphertext if that is known.
    pub(super) fn reads(&mut self, d: &DataEvent) {
        if self.secure.told.is_none() || d.direction != directions(self.facts.role)[0] {
            return;
        }
        match (&mut self.secure.told, d.seq) {
            (Some(told), Some(seq)) => {
                let until = *told.until.get_or_insert(seq);
                told.waiting.retain(|span| !span.request_seq.is_some_and(|seq| is_from(seq, until)));
                told.is_unread = true;
            }
            (told, _) => *told = None,
        }
    }

    /// Takes a span of the other end.
    pub(crate) fn hear(&mut self, span: Span, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        let Some(told) = &mut self.secure.told else { return };
        // The messages of a handshake were in clear, and this end has read them itself.
        let Some(seq) = span.request_seq.filter(|_| span.protocol != "tls") else { return };
        if told.is_read_here(seq) {
            if !told.waits() {
                self.secure.told = None;
            }
            return;
        }
        told.heard = true;
        let has_streams = span.message_id.is_some();
        told.waiting.push_back(span);
        let overflows = told.waiting.len() > MAX_WAITING;
        self.tell(if overflows { u64::MAX } else { 0 }, env, sink);
        // The connection may carry several requests at once. The kernel must know.
        if let Some(copy) = self.protocol.copy.filter(|_| has_streams && !self.session.usage.shared) {
            self.session.usage.shared = true;
            self.send_verdict("tls", copy, env);
        }
    }

    /// Reports the spans whose bytes this end has moved, and those that have waited since before `due_ns`.
    pub(super) fn tell(&mut self, due_ns: u64, env: &mut Env, sink: &mut dyn FnMut(Span)) {
        let Some(told) = &mut self.secure.told else { return };
        let waiting = std::mem::take(&mut told.waiting);
        let (ctx, out) = env.lend(&self.facts, sink);
        for other in waiting {
            let late = other.end_ns < due_ns;
            told.is_unread |= late;
            if !told.is_unread {
                told.waiting.push_back(other);
                continue;
            }
            match told.span(&other, late, &ctx) {
                Some(mut span) => {
                    weaken_connect_cause(&mut span);
                    out.stats.told_spans += 1;
                    out.stats.spans_out += 1;
                    (out.sink)(span);
                }
                None if late => out.stats.untold_spans += 1,
                None => told.waiting.push_back(other),
            }
        }
    }
}
