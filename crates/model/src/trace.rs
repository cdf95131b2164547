//! A trace: spans and the links between them, each with its evidence.

use crate::span::{Span, SpanId, TraceId};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::Arc;

/// Why a span is believed to be the child of another, strongest first (the causality ladder of DESIGN.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Evidence {
    /// Trace context in the message named the parent span.
    Carried = 1,
    /// The same bytes on the wire, by TCP sequence or message id.
    Wire = 2,
    /// The same X-Request-ID on both sides of a process.
    RequestId = 3,
    /// The same thread received the request and sent this one.
    Thread = 4,
    /// The same goroutine or coroutine, or its descendant.
    Coroutine = 5,
    /// A thread or process that the handler started.
    ChildTask = 6,
    /// The socket was connected by the handling thread.
    Connect = 7,
    /// A thread woken by the handling thread.
    WakeUp = 8,
    /// The event loop acted for the socket it last read.
    EventLoop = 9,
    /// The same trace id, without a named parent span.
    TraceId = 10,
    /// Timing and call structure only.
    Inferred = 11,
    /// The same messages at a broker, by place and offset (links between traces).
    Broker = 12,
}

impl Evidence {
    /// Short name, as shown and as written to JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Evidence::Carried => "carried",
            Evidence::Wire => "wire",
            Evidence::RequestId => "request-id",
            Evidence::Thread => "thread",
            Evidence::Coroutine => "coroutine",
            Evidence::ChildTask => "child-task",
            Evidence::Connect => "connect",
            Evidence::WakeUp => "wake-up",
            Evidence::EventLoop => "event-loop",
            Evidence::TraceId => "trace-id",
            Evidence::Inferred => "inferred",
            Evidence::Broker => "broker",
        }
    }
}

/// Link from a span to its parent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParentLink {
    /// The parent.
    pub parent: SpanId,
    /// Why.
    pub evidence: Evidence,
    /// 0–1.
    pub confidence: f32,
}

/// Link between a span and one of another trace that moved the same messages (OpenTelemetry's span link).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpanLink {
    /// The other span.
    pub span: SpanId,
    /// Its trace, if it is known.
    pub trace: Option<TraceId>,
    /// The other span sent what this one received; false if it is the other way round.
    pub sent: bool,
    /// Why.
    pub evidence: Evidence,
    /// 0–1.
    pub confidence: f32,
}

/// A span in its trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceSpan {
    /// The span.
    pub span: Arc<Span>,
    /// Its parent; `None` for a root.
    pub link: Option<ParentLink>,
    /// Depth below its root, 0 for a root.
    pub depth: u32,
    /// Spans of other traces that moved the same messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<SpanLink>,
}

/// An assembled trace: depth-first order, siblings by start time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The carried trace id if there is one, else derived from the first root's span id.
    pub id: TraceId,
    /// Spans, parents before children.
    pub spans: Vec<TraceSpan>,
    /// False if a limit cut the search short.
    pub complete: bool,
}

impl Trace {
    /// The parent of each span, for those who read it elsewhere: that of its link, else, of a root that carried the
    /// context of a span that was not seen here (an SDK's, or one that another agent exports), that one.
    pub fn parents(&self) -> impl Iterator<Item = Option<SpanId>> + '_ {
        let carried = |s: &TraceSpan| s.span.parent_span_id.filter(|_| s.span.trace_id == Some(self.id));
        let roots_carry = self.spans.iter().any(|s| s.link.is_none() && carried(s).is_some());
        let seen: HashSet<SpanId> =
            if roots_carry { self.spans.iter().map(|s| s.span.id).collect() } else { HashSet::new() };
        self.spans.iter().map(move |s| match s.link {
            Some(link) => Some(link.parent),
            None => carried(s).filter(|parent| !seen.contains(parent)),
        })
    }
}
