//! The cause of a span and the trace context of its request.

use crate::conn::Ctx;
use crate::pending::Pending;
use crate::stream::Mark;
use std::borrow::Cow;
use wirespan_model::event::ContextEvent;
use wirespan_model::order::has_streams;
use wirespan_model::span::FOREIGN_TRACE_ID;
use wirespan_model::{Carried, Direction, Evidence, Span, SpanId, TraceId, Value};

/// Cause and evidence of a request that the observed process sends with this call: the cause of the call, else of the
/// thread that connected the socket.
pub(crate) fn cause_of_call(mark: &Mark, ctx: &Ctx<'_>) -> (Option<u64>, Option<Evidence>) {
    let connect = ctx.conn.causes.connect;
    if mark.cause != 0 {
        (Some(mark.cause), Some(mark.cause_evidence.unwrap_or(Evidence::Thread)))
    } else if mark.cause_evidence == Some(Evidence::Inferred) {
        // One of several requests. The solver knows all of them, and picks one.
        (None, Some(Evidence::Inferred))
    } else if connect != 0 {
        (Some(connect), Some(Evidence::Connect))
    } else {
        (None, None)
    }
}

/// Sets the authoritative cause of the request's stream. False if the program named none.
pub(crate) fn set_stream_cause(pending: &mut Pending, ctx: &Ctx<'_>) -> bool {
    let Some(id) = pending.span.message_id.filter(|_| ctx.is_local(pending.side)) else { return false };
    let Some(c) = ctx.conn.causes.of_stream(id) else { return false };
    pending.span.cause = (c.cause != 0).then_some(c.cause);
    pending.span.cause_evidence = c.evidence;
    true
}

/// Weakens the evidence of a connecting thread on a protocol with streams. Requests of several causes may wait for one
/// connection, so that its connecting thread is no more than a guess.
pub(crate) fn weaken_connect_cause(span: &mut Span) {
    if span.cause_evidence == Some(Evidence::Connect) && has_streams(&span.protocol) {
        span.cause_evidence = Some(Evidence::Inferred);
    }
}

/// The request was sent for one of several causes. Which one is left to the solver.
pub(crate) fn leave_cause_to_solver(pending: &mut Pending) {
    (pending.span.cause, pending.span.cause_evidence) = (None, Some(Evidence::Inferred));
}

/// Writes the trace context that the message carried. A trace id that is not 128-bit hexadecimal is hashed to one, and
/// kept as an attribute.
pub(super) fn set_carried_context(span: &mut Span, carried: &Carried<'_>) {
    span.trace_id = carried.trace_id.map(TraceId);
    span.parent_span_id = carried.span_id.map(|s| SpanId(u64::from_be_bytes(s))).filter(|s| s.0 != 0);
    span.request_id = carried.request_id.map(Into::into);
    if let Some(text) = &carried.foreign_trace_id {
        if span.trace_id.is_none() {
            span.trace_id = Some(TraceId::of_foreign(text));
        }
        span.attrs.push((Cow::Borrowed(FOREIGN_TRACE_ID), Value::Str(text.as_ref().into())));
    }
}

/// Writes a trace context that travelled beside the request's bytes, unless the application put one into them.
pub(super) fn set_context_beside(span: &mut Span, c: &ContextEvent) {
    if span.trace_id.is_some() || span.parent_span_id.is_some() {
        return;
    }
    span.trace_id = Some(c.trace_id);
    match c.direction {
        Direction::Egress => span.id = c.span_id,
        Direction::Ingress => span.parent_span_id = Some(c.span_id),
    }
}
