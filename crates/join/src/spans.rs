//! Messages → the fields of a span.

use crate::config::JoinConfig;
use crate::pending::{Pending, OPEN};
use crate::resent::Resent;
use crate::stream::{Mark, Stream};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use wirespan_model::broker::pulls;
use wirespan_model::event::{Actor, ContextEvent, StreamCause, STREAM_BITS};
use wirespan_model::key::hash64;
use wirespan_model::{
    Attr, AttrVal, Carried, Direction, Endpoint, Evidence, ExchangeRange, FiveTuple, Late, Message, Outcome, Resource,
    Role, Side, SocketId, Span, SpanId, SpanKind, Status, TapSide, TcpHealth, Text, TraceId, Transport, Value,
};

/// What is known of a connection while its bytes are read.
pub(crate) struct Ctx<'a> {
    pub(crate) config: &'a JoinConfig,
    pub(crate) host_id: u64,
    pub(crate) socket: SocketId,
    pub(crate) peer: u64,
    pub(crate) transport: Transport,
    pub(crate) local: Endpoint,
    pub(crate) remote: Endpoint,
    pub(crate) role: Role,
    pub(crate) resource: &'a Arc<Resource>,
    /// Attributes of every span of the connection.
    pub(crate) attrs: &'a [Attr],
    /// By direction, see [`index`].
    pub(crate) streams: &'a [Stream; 2],
    /// Offsets at which the parser was made, by direction.
    pub(crate) base: [u64; 2],
    pub(crate) tcp: TcpHealth,
    pub(crate) resent: Option<&'a Resent>,
    /// Causal id of the thread that connected the socket.
    pub(crate) connect_cause: u64,
    /// For whom requests are sent, by their streams; the newest last.
    pub(crate) told: &'a VecDeque<StreamCause>,
}

/// Place of a direction in arrays.
pub(crate) fn index(direction: Direction) -> usize {
    match direction {
        Direction::Ingress => 0,
        Direction::Egress => 1,
    }
}

impl Ctx<'_> {
    /// Whether the process that was observed is this side.
    pub(crate) fn is_local(&self, side: Side) -> bool {
        (side == Side::Server) == (self.role == Role::Server)
    }

    fn direction(&self, side: Side) -> usize {
        index(if self.is_local(side) { Direction::Egress } else { Direction::Ingress })
    }

    /// Bytes that this side sent.
    pub(crate) fn stream(&self, side: Side) -> &Stream {
        &self.streams[self.direction(side)]
    }

    /// Segments sent again that held bytes of this side from `first` to the offset `end`.
    fn resent(&self, side: Side, first: Option<u32>, end: u64) -> u32 {
        let (Some(resent), Some(first)) = (self.resent, first) else { return 0 };
        let behind = self.stream(side).seq_behind(end);
        behind.map_or(0, |behind| resent.inside(self.direction(side), first, behind))
    }

    /// Offset of the stream for an offset of the parser.
    pub(crate) fn offset(&self, side: Side, parser_offset: u64) -> u64 {
        self.base[self.direction(side)].saturating_add(parser_offset)
    }

    /// Ends of the connection with the asking side as the client.
    pub(crate) fn tuple(&self, asker: Side) -> FiveTuple {
        let (client, server) = if self.is_local(asker) { (self.local, self.remote) } else { (self.remote, self.local) };
        FiveTuple { transport: self.transport, client, server }
    }
}

/// Observation point and kind of a span whose request was sent by `asker_is_local`.
pub(crate) fn place(actor: &Actor, asker_is_local: bool) -> (TapSide, SpanKind) {
    match (actor.pid, asker_is_local) {
        (0, _) => (TapSide::Capture, SpanKind::Client),
        (_, true) => (TapSide::ClientProcess, SpanKind::Client),
        (_, false) => (TapSide::ServerProcess, SpanKind::Server),
    }
}

/// Kind of the span of a message that is sent to somebody behind the connection (`messaging.operation.type`): who sends
/// one is a producer, who is handed one is a consumer. What a broker does stays that of a server, except that it hands
/// messages on. Asking for messages (`receive`) and acknowledging them (`settle`) are calls, as in OpenTelemetry's
/// messaging spans.
fn messaging_kind(m: &Message<'_>, tap: TapSide, kind: SpanKind) -> SpanKind {
    let operation = m.attrs.iter().find_map(|(key, value)| match value {
        AttrVal::Str(s) if *key == "messaging.operation.type" => Some(&**s),
        _ => None,
    });
    match (operation, tap) {
        (Some("create" | "send"), TapSide::ClientProcess | TapSide::Capture) => SpanKind::Producer,
        (Some("process"), TapSide::ClientProcess) => SpanKind::Producer,
        (Some("process"), TapSide::ServerProcess | TapSide::Capture) => SpanKind::Consumer,
        _ => kind,
    }
}

/// Unique and the same on every replay.
pub(crate) fn span_id(host_id: u64, socket: SocketId, peer: u64, tag: u8, offset: u64, start_ns: u64) -> SpanId {
    // A multiply and a fold per word (the finaliser of SplitMix64): bijective in each word, and a tenth of the time of
    // hashing bytes.
    let mut id = 0x9e37_79b9_7f4a_7c15_u64;
    for word in [host_id, socket.0, peer, u64::from(tag), offset, start_ns] {
        id = (id ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        id ^= id >> 29;
        id = id.wrapping_mul(0x94d0_49bb_1331_11eb);
        id ^= id >> 32;
    }
    SpanId(id.max(1))
}

/// How long what was received had waited for its reader, µs.
fn queue_us(mark: &Mark) -> u32 {
    u32::try_from(mark.waited_ns.div_ceil(1000)).unwrap_or(u32::MAX)
}

/// Text of a NUL-padded thread name.
pub(crate) fn comm(actor: &Actor) -> Text {
    let end = actor.comm.iter().position(|b| *b == 0).unwrap_or(actor.comm.len());
    match std::str::from_utf8(&actor.comm[..end]) {
        Ok(name) => name.into(),
        Err(_) => Text::from_utf8_lossy(&actor.comm[..end]),
    }
}

fn blank(m: &Message<'_>, mark: &Mark, start: u64, ctx: &Ctx<'_>, asker: Side) -> Span {
    let asker_is_local = ctx.is_local(asker);
    let (tap, kind) = place(&mark.actor, asker_is_local);
    let kind = messaging_kind(m, tap, kind);
    let start_ns = mark.first_ns();
    let tag = (m.kind as u8) << 1 | m.side as u8;
    let (mut cause, mut cause_evidence) = (None, None);
    if asker_is_local {
        if mark.cause != 0 {
            (cause, cause_evidence) = (Some(mark.cause), Some(mark.cause_evidence.unwrap_or(Evidence::Thread)));
        } else if mark.cause_evidence == Some(Evidence::Inferred) {
            // For one of several requests: which is left to who knows them all.
            cause_evidence = Some(Evidence::Inferred);
        } else if ctx.connect_cause != 0 {
            (cause, cause_evidence) = (Some(ctx.connect_cause), Some(Evidence::Connect));
        }
    }
    Span {
        id: span_id(ctx.host_id, ctx.socket, ctx.peer, tag, start, start_ns),
        tap,
        kind,
        protocol: Cow::Borrowed(m.protocol),
        start_ns,
        response_ns: 0,
        end_ns: mark.exit_ns.max(start_ns),
        status: Status::Unset,
        status_code: None,
        error: "".into(),
        operation: m.operation.into(),
        target: m.target.as_ref().into(),
        request_bytes: 0,
        response_bytes: 0,
        tuple: ctx.tuple(asker),
        socket: ctx.socket.0,
        pid: mark.actor.pid,
        tid: mark.actor.tid,
        coroutine: mark.actor.coroutine,
        comm: comm(&mark.actor),
        netns: mark.actor.netns,
        cgroup_id: mark.actor.cgroup_id,
        host_id: ctx.host_id,
        exchange: None,
        cause,
        cause_evidence,
        request_seq: None,
        response_seq: None,
        message_id: m.id,
        trace_id: None,
        parent_span_id: None,
        request_id: None,
        attrs: {
            // Room for those of the response too: one allocation per span.
            let mut attrs = Vec::with_capacity(m.attrs.len() + ctx.attrs.len() + 4);
            attrs.extend(m.attrs.iter().map(|(k, v)| (Cow::Borrowed(*k), v.to_value())));
            attrs.extend(ctx.attrs.iter().filter(|(k, _)| !m.attrs.iter().any(|(own, _)| own == k)).cloned());
            attrs
        },
        tcp: ctx.tcp,
        resource: ctx.resource.clone(),
    }
}

/// A pending span from a request or a one-way message that starts at `start` and ends at `end`.
pub(crate) fn request(m: &Message<'_>, mark: &Mark, start: u64, end: u64, one_way: bool, ctx: &Ctx<'_>) -> Pending {
    let mut span = blank(m, mark, start, ctx, m.side);
    span.request_seq = mark.seq_at(start);
    carry(&mut span, &m.carried);
    if let Some(c) = span.request_seq.and_then(|seq| ctx.stream(m.side).context_at(seq)) {
        beside(&mut span, c);
    }
    span.tcp.queue_us = queue_us(mark);
    let mut pending = Pending {
        span,
        side: m.side,
        one_way,
        orphan: false,
        late: false,
        complete: false,
        request_start: start,
        request_end: end,
        response: None,
        exchanges: None,
        handshake: ctx.tcp.retransmits,
    };
    if one_way {
        pending.span.status = Status::OneWay;
        // A one-way message may tell its outcome itself.
        pending.span.status_code = m.status_code;
        pending.span.error = m.error.as_ref().into();
    }
    touch_exchange(&mut pending, mark.exchange);
    pending
}

/// Writes for whom it was sent, if the program told that; false if not.
pub(crate) fn told(pending: &mut Pending, ctx: &Ctx<'_>) -> bool {
    let Some(id) = pending.span.message_id.filter(|_| ctx.is_local(pending.side)) else { return false };
    let Some(told) = ctx.told.iter().rev().find(|c| c.stream == id & STREAM_BITS) else { return false };
    pending.span.cause = (told.cause != 0).then_some(told.cause);
    pending.span.cause_evidence = told.evidence;
    true
}

/// Who connected is no more than a guess where requests of many wait for one connection.
pub(crate) fn doubt_connect(pending: &mut Pending) {
    let span = &mut pending.span;
    if span.cause_evidence == Some(Evidence::Connect) && matches!(&*span.protocol, "http2" | "grpc") {
        span.cause_evidence = Some(Evidence::Inferred);
    }
}

/// It was sent for one of several requests, not known which.
pub(crate) fn doubt(pending: &mut Pending) {
    (pending.span.cause, pending.span.cause_evidence) = (None, Some(Evidence::Inferred));
}

/// A pending span from a response whose request was not seen. Its status is that of the response until it is reported.
pub(crate) fn orphan(m: &Message<'_>, mark: &Mark, start: u64, end: u64, late: bool, ctx: &Ctx<'_>) -> Pending {
    let asker = m.side.peer();
    let mut span = blank(m, mark, start, ctx, asker);
    // What the thread acted for when it received an answer says nothing about the question.
    (span.cause, span.cause_evidence) = (None, None);
    span.attrs = ctx.attrs.to_vec();
    let mut pending = Pending {
        span,
        side: asker,
        one_way: false,
        orphan: true,
        late,
        complete: false,
        request_start: 0,
        request_end: 0,
        response: None,
        exchanges: None,
        handshake: ctx.tcp.retransmits,
    };
    answer(&mut pending, m, mark, start, end);
    if late {
        pending.span.attrs.push((Cow::Borrowed("wirespan.late"), Value::Bool(true)));
    }
    pending
}

/// Writes the head of a response into the span of its request.
pub(crate) fn answer(pending: &mut Pending, m: &Message<'_>, mark: &Mark, start: u64, end: u64) {
    let span = &mut pending.span;
    span.response_ns = mark.first_ns();
    span.end_ns = mark.exit_ns.max(span.start_ns);
    span.response_seq = mark.seq_at(start);
    if mark.direction == Direction::Ingress {
        span.tcp.queue_us = queue_us(mark);
    }
    span.status_code = m.status_code;
    span.status = status(m.outcome);
    if !m.error.is_empty() {
        span.error = m.error.as_ref().into();
    }
    for (key, value) in &m.attrs {
        set(&mut span.attrs, key, value);
    }
    if span.request_id.is_none() {
        span.request_id = m.carried.request_id.map(Into::into);
    }
    pending.response = Some(crate::pending::Response { start, end });
    touch_by_response(pending, mark.exchange);
}

/// Sets an attribute; of one that both messages have, the response's counts.
fn set(attrs: &mut Vec<Attr>, key: &'static str, value: &AttrVal<'_>) {
    match attrs.iter_mut().find(|(k, _)| k == key) {
        Some((_, Value::Str(old))) if matches!(value, AttrVal::Str(new) if **new == **old) => {}
        // What is unknown of the response does not make what is unknown of the request known.
        Some((_, Value::Str(list))) if key == UNKNOWN => {
            if let AttrVal::Str(more) = value {
                *list = format!("{list},{more}").into();
            }
        }
        Some((_, old)) => *old = value.to_value(),
        None => attrs.push((Cow::Borrowed(key), value.to_value())),
    }
}

/// The attribute that lists the attributes that could not be known.
const UNKNOWN: &str = "wirespan.unknown";

/// Gives a request the response that came before it was seen (threads on two processors).
pub(crate) fn adopt(request: &mut Pending, orphan: Pending) {
    let (to, from) = (&mut request.span, orphan.span);
    to.response_ns = from.response_ns;
    to.end_ns = from.end_ns;
    to.response_seq = from.response_seq;
    to.response_bytes = from.response_bytes;
    to.status_code = from.status_code;
    to.status = from.status;
    to.error = from.error;
    for (key, value) in from.attrs {
        match to.attrs.iter_mut().find(|(k, _)| *k == key) {
            Some((_, old)) => *old = value,
            None => to.attrs.push((key, value)),
        }
    }
    if to.request_id.is_none() {
        to.request_id = from.request_id;
    }
    to.tcp.queue_us = to.tcp.queue_us.max(from.tcp.queue_us);
    request.response = orphan.response;
    for id in orphan.exchanges.iter().flat_map(|e| [e.first, e.last]) {
        touch_exchange(request, id);
    }
}

/// Completes lengths, times and exchanges. `end` is the offset behind the last byte of the response (of the request if
/// there is none).
pub(crate) fn finish(pending: &mut Pending, end: u64, ctx: &Ctx<'_>) {
    let asker = pending.side;
    let mut resent = pending.handshake;
    if !pending.orphan {
        let stream = ctx.stream(asker);
        let request_end = match pending.request_end {
            OPEN if pending.response.is_none() => end.min(stream.marked_to()),
            OPEN => stream.marked_to(),
            end => end.min(stream.marked_to()),
        };
        pending.span.request_bytes = request_end.saturating_sub(pending.request_start);
        resent += ctx.resent(asker, pending.span.request_seq, request_end);
        if pending.response.is_none() {
            if let Some(mark) = stream.mark_before(request_end) {
                pending.span.end_ns = pending.span.end_ns.max(mark.exit_ns);
            }
        }
    }
    if let Some(r) = pending.response {
        let stream = ctx.stream(asker.peer());
        let end = end.min(stream.marked_to());
        pending.span.response_bytes = end.saturating_sub(r.start);
        resent += ctx.resent(asker.peer(), pending.span.response_seq, end);
        let mark = stream.mark_before(end).map(|m| (m.exit_ns, m.exchange));
        if let Some((exit_ns, exchange)) = mark {
            pending.span.end_ns = pending.span.end_ns.max(exit_ns);
            touch_by_response(pending, exchange);
            if pulls(&pending.span) {
                touch_exchange(pending, exchange);
            }
        }
    }
    let span = &mut pending.span;
    if span.tap == TapSide::ServerProcess || pulls(span) {
        span.exchange = pending.exchanges;
    }
    let tcp = &mut span.tcp;
    (tcp.srtt_ns, tcp.resets, tcp.retransmits) = (ctx.tcp.srtt_ns, ctx.tcp.resets, resent);
}

/// More of a request came with this call. On a connection that many requests share each call is an exchange of its own,
/// and the reader of the request acts for the one that completed it.
pub(crate) fn touch_by_request(pending: &mut Pending, mark: Option<&Mark>) {
    if let Some(mark) = mark.filter(|_| pending.span.message_id.is_some()) {
        touch_exchange(pending, mark.exchange);
    }
}

/// A response is sent in the exchange of its request, unless others were read in the meantime, which are answered in
/// any order.
fn touch_by_response(pending: &mut Pending, id: u64) {
    if pending.orphan || pending.span.message_id.is_none() {
        touch_exchange(pending, id);
    }
}

/// Widens the range of exchanges. Ids of one socket count up; anything else is not believed.
fn touch_exchange(pending: &mut Pending, id: u64) {
    if id == 0 {
        return;
    }
    match &mut pending.exchanges {
        None => pending.exchanges = Some(ExchangeRange { first: id, last: id }),
        Some(range) => {
            if id >> 24 == range.first >> 24 {
                range.last = range.last.max(id);
            }
        }
    }
}

fn carry(span: &mut Span, carried: &Carried<'_>) {
    span.trace_id = carried.trace_id.map(TraceId);
    span.parent_span_id = carried.span_id.map(|s| SpanId(u64::from_be_bytes(s))).filter(|s| s.0 != 0);
    span.request_id = carried.request_id.map(Into::into);
    if let Some(text) = &carried.foreign_trace_id {
        if span.trace_id.is_none() {
            let mut id = [0u8; 16];
            id[..8].copy_from_slice(&hash64(&[b"foreign", text.as_bytes()]).to_be_bytes());
            id[8..].copy_from_slice(&hash64(&[text.as_bytes(), b"foreign"]).to_be_bytes());
            span.trace_id = Some(TraceId(id));
        }
        span.attrs.push((Cow::Borrowed("wirespan.foreign_trace_id"), Value::Str(text.as_ref().into())));
    }
}

/// A context that travels beside the bytes of the request. One that the application put into them is believed more.
fn beside(span: &mut Span, c: &ContextEvent) {
    if span.trace_id.is_some() || span.parent_span_id.is_some() {
        return;
    }
    span.trace_id = Some(c.trace_id);
    match c.direction {
        Direction::Egress => span.id = c.span_id,
        Direction::Ingress => span.parent_span_id = Some(c.span_id),
    }
}

/// What only the end of a message told.
pub(crate) fn late(p: &mut Pending, late: &Late<'_>) {
    let span = &mut p.span;
    if late.status_code.is_some() {
        span.status_code = late.status_code;
    }
    if late.outcome != Outcome::Unset {
        span.status = status(late.outcome);
    }
    if !late.error.is_empty() {
        span.error = late.error.as_ref().into();
    }
    for (key, value) in &late.attrs {
        set(&mut span.attrs, key, value);
    }
}

/// Status of an answered request.
pub(crate) fn status(outcome: Outcome) -> Status {
    match outcome {
        Outcome::Unset => Status::Unset,
        Outcome::Ok => Status::Ok,
        Outcome::ClientError => Status::ClientError,
        Outcome::ServerError => Status::ServerError,
    }
}
