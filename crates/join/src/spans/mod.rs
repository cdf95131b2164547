//! Messages → the fields of a span.

mod cause;
mod identity;

pub(crate) use cause::{cause_of_call, leave_cause_to_solver, set_stream_cause, weaken_connect_cause};
pub(crate) use identity::{comm, place, span_id};

use crate::conn::Ctx;
use crate::pending::{Pending, Response, OPEN};
use crate::stream::Mark;
use cause::{set_carried_context, set_context_beside};
use identity::messaging_kind;
use std::borrow::Cow;
use wirespan_model::attr::{ANSWER_COROUTINE, ANSWER_THREAD};
use wirespan_model::broker::may_ask_for_messages;
use wirespan_model::event::exchange_socket;
use wirespan_model::{
    Attr, AttrVal, Direction, ExchangeRange, Late, Message, Outcome, Side, Span, Status, TapSide, Value,
};

/// Time for which received bytes had waited for their reader, µs.
fn queue_us(mark: &Mark) -> u32 {
    u32::try_from(mark.waited_ns.div_ceil(1000)).unwrap_or(u32::MAX)
}

/// A span with everything that the first message tells, apart from its outcome and its lengths.
fn blank(m: &Message<'_>, mark: &Mark, start: u64, ctx: &Ctx<'_>, asker: Side) -> Span {
    let asker_is_local = ctx.is_local(asker);
    let (tap, kind) = place(&mark.actor, asker_is_local);
    let kind = messaging_kind(m, tap, kind);
    let start_ns = mark.first_ns();
    let tag = (m.kind as u8) << 1 | m.side as u8;
    let (cause, cause_evidence) = if asker_is_local { cause_of_call(mark, ctx) } else { (None, None) };
    Span {
        id: span_id(ctx.host_id, ctx.conn.key.socket, ctx.conn.key.peer, tag, start, start_ns),
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
        socket: ctx.conn.key.socket.0,
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
            // Room for the response's attributes too: one allocation per span.
            let mut attrs = Vec::with_capacity(m.attrs.len() + ctx.conn.attrs.len() + 4);
            attrs.extend(m.attrs.iter().map(|(k, v)| (Cow::Borrowed(*k), v.to_value())));
            attrs.extend(ctx.conn.attrs.iter().filter(|(k, _)| !m.attrs.iter().any(|(own, _)| own == k)).cloned());
            attrs
        },
        tcp: ctx.conn.tcp,
        resource: ctx.conn.owner.resource.clone(),
    }
}

/// A pending span from a request or a one-way message at the stream offsets `start..end`.
pub(crate) fn request(m: &Message<'_>, mark: &Mark, start: u64, end: u64, one_way: bool, ctx: &Ctx<'_>) -> Pending {
    let mut span = blank(m, mark, start, ctx, m.side);
    let stream = ctx.stream(m.side);
    span.request_seq = stream.seq_at(mark, start);
    set_carried_context(&mut span, &m.carried);
    if let Some(c) = span.request_seq.and_then(|seq| stream.contexts.of(seq, m.id)) {
        set_context_beside(&mut span, c);
    }
    span.tcp.queue_us = queue_us(mark);
    let mut pending = Pending {
        one_way,
        request_start: start,
        request_end: end,
        ..Pending::new(span, m.side, ctx.conn.tcp.retransmits)
    };
    if one_way {
        // A one-way message may tell its own outcome: a server that refuses a connection, a broker that closes one.
        pending.span.status = match m.outcome {
            Outcome::ClientError | Outcome::ServerError => status(m.outcome),
            _ => Status::OneWay,
        };
        pending.span.status_code = m.status_code;
        pending.span.error = m.error.as_ref().into();
    }
    touch_exchange(&mut pending, mark.exchange);
    pending
}

/// A pending span from a response whose request was not observed. It has the response's status until it is reported.
/// `late`: its request was reported as unanswered before.
pub(crate) fn orphan(m: &Message<'_>, mark: &Mark, start: u64, end: u64, late: bool, ctx: &Ctx<'_>) -> Pending {
    let asker = m.side.peer();
    let mut span = blank(m, mark, start, ctx, asker);
    // The cause of the thread that received the response says nothing about the request.
    (span.cause, span.cause_evidence) = (None, None);
    span.attrs = ctx.conn.attrs.to_vec();
    let mut pending = Pending { orphan: true, late, ..Pending::new(span, asker, ctx.conn.tcp.retransmits) };
    answer(&mut pending, m, mark, start, end, ctx);
    if late {
        pending.span.attrs.push((Cow::Borrowed("wirespan.late"), Value::Bool(true)));
    }
    pending
}

/// Writes the head of a response into the span of its request.
pub(crate) fn answer(pending: &mut Pending, m: &Message<'_>, mark: &Mark, start: u64, end: u64, ctx: &Ctx<'_>) {
    let span = &mut pending.span;
    span.response_ns = mark.first_ns();
    span.end_ns = mark.exit_ns.max(span.start_ns);
    span.response_seq = ctx.stream(m.side).seq_at(mark, start);
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
    if span.tap == TapSide::ServerProcess {
        let (read, answers) = ((span.tid, span.coroutine), (mark.actor.tid, mark.actor.coroutine));
        if answers.0 != read.0 {
            span.attrs.push((Cow::Borrowed(ANSWER_THREAD), Value::Int(answers.0.into())));
        }
        if answers.1 != read.1 {
            span.attrs.push((Cow::Borrowed(ANSWER_COROUTINE), Value::Int(answers.1 as i64)));
        }
    }
    pending.response = Some(Response { start, end });
    touch_by_response(pending, mark.exchange);
}

/// Sets an attribute. If both messages have it, the response's value counts.
fn set(attrs: &mut Vec<Attr>, key: &'static str, value: &AttrVal<'_>) {
    match attrs.iter_mut().find(|(k, _)| k == key) {
        Some((_, Value::Str(old))) if matches!(value, AttrVal::Str(new) if **new == **old) => {}
        // The list of unknown attributes grows: an attribute that only the request leaves unknown stays listed.
        Some((_, Value::Str(list))) if key == UNKNOWN => {
            if let AttrVal::Str(more) = value {
                *list = format!("{list},{more}").into();
            }
        }
        Some((_, old)) => *old = value.to_value(),
        None => attrs.push((Cow::Borrowed(key), value.to_value())),
    }
}

/// Attribute that lists the attributes whose values could not be known.
const UNKNOWN: &str = "wirespan.unknown";

/// Gives a request its response, if the response was observed first (threads on two processors).
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

/// Completes lengths, times and exchanges. `end` is the stream offset behind the last byte of the response, or of the
/// request if there is no response.
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
            if may_ask_for_messages(&pending.span) {
                touch_exchange(pending, exchange);
            }
        }
    }
    let span = &mut pending.span;
    if span.tap == TapSide::ServerProcess || may_ask_for_messages(span) {
        span.exchange = pending.exchanges;
    }
    let tcp = &mut span.tcp;
    (tcp.srtt_ns, tcp.resets, tcp.retransmits) = (ctx.conn.tcp.srtt_ns, ctx.conn.tcp.resets, resent);
}

/// Adds the exchange of a call that brought more of a request. On a connection that many requests share, each call is
/// an exchange of its own, and the request's reader acts for the exchange that completed the request.
pub(crate) fn touch_by_request(pending: &mut Pending, mark: Option<&Mark>) {
    if let Some(mark) = mark.filter(|_| pending.span.message_id.is_some()) {
        touch_exchange(pending, mark.exchange);
    }
}

/// Adds the exchange of a response's call. With message ids it is ignored: other requests may have been read in the
/// meantime, and the exchange may be theirs.
fn touch_by_response(pending: &mut Pending, id: u64) {
    if pending.orphan || pending.span.message_id.is_none() {
        touch_exchange(pending, id);
    }
}

/// Widens the range of exchanges. Ids of one socket count up; an id of another socket is ignored.
fn touch_exchange(pending: &mut Pending, id: u64) {
    if id == 0 {
        return;
    }
    match &mut pending.exchanges {
        None => pending.exchanges = Some(ExchangeRange { first: id, last: id }),
        Some(range) => {
            if exchange_socket(id) == exchange_socket(range.first) {
                range.last = range.last.max(id);
            }
        }
    }
}

/// Writes the facts that only the end of a message tells.
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
