//! A trace: spans and the links between them, each link with its evidence.

use crate::listed::listed_enum;
use crate::span::{Span, SpanId, TraceId};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::Arc;

listed_enum! {
    /// Why a span is the child of another. The codes to `Inferred` go from the strongest evidence to the weakest (the
    /// causality ladder of DESIGN.md).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Evidence {
        /// Trace context in the message named the parent span.
        Carried = 1,
        /// The same bytes on the wire, by TCP sequence number or message id.
        Wire = 2,
        /// The same X-Request-ID on both sides of a process.
        RequestId = 3,
        /// One thread received the request and sent this one.
        Thread = 4,
        /// The same goroutine or coroutine, or a descendant of it.
        Coroutine = 5,
        /// A thread or process that the handler started.
        ChildTask = 6,
        /// The handling thread connected the socket.
        Connect = 7,
        /// The handling thread woke the thread that sent this request.
        WakeUp = 8,
        /// An event loop acts for the socket that it last read.
        EventLoop = 9,
        /// The same trace id, without a named parent span.
        TraceId = 10,
        /// Timing and call structure only.
        Inferred = 11,
        /// The same messages at a broker, by place and offset (links between traces).
        Broker = 12,
        /// The same trace context or X-Request-ID at the caller and at the called process. What forwarded the request
        /// was not seen.
        Forwarded = 13,
    }
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
            Evidence::Forwarded => "forwarded",
        }
    }
}

/// Link from a span to its parent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParentLink {
    /// Id of the parent span.
    pub parent: SpanId,
    /// Why the two spans belong together.
    pub evidence: Evidence,
    /// Confidence in the link, 0–1.
    pub confidence: f32,
}

/// Link between a span and a span of another trace that moved the same broker messages (a span link of OpenTelemetry).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpanLink {
    /// Id of the other span.
    pub span: SpanId,
    /// Trace of the other span, if it is known.
    pub trace: Option<TraceId>,
    /// True if the other span sent what this one received; false if this one sent and the other received.
    pub sent: bool,
    /// Why the two spans belong together.
    pub evidence: Evidence,
    /// Confidence in the link, 0–1.
    pub confidence: f32,
}

/// A span in its trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceSpan {
    /// The span.
    pub span: Arc<Span>,
    /// Link to its parent; `None` for a root.
    pub link: Option<ParentLink>,
    /// Number of links between the span and its root; 0 for a root.
    pub depth: u32,
    /// Links to spans of other traces that moved the same messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<SpanLink>,
}

/// An assembled trace. Spans stand in depth-first order, siblings by start time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The trace id that a message carried, else an id derived from the first root's span id.
    pub id: TraceId,
    /// Spans. A parent stands before its children.
    pub spans: Vec<TraceSpan>,
    /// False if a limit ended the search for spans early.
    pub complete: bool,
}

impl Trace {
    /// The parent id of each span, in the order of `spans`, for export to other systems. A linked span has the parent
    /// of its link. A root has the parent that it carried, unless that span is in this trace: then the parent is a span
    /// of an SDK, or a span that another agent exports. SkyWalking's spans have no id that another system knows.
    pub fn parents(&self) -> impl Iterator<Item = Option<SpanId>> + '_ {
        let carried = |s: &TraceSpan| {
            let named = s.span.parent_span_id.filter(|_| s.span.trace_id == Some(self.id));
            named.filter(|_| !s.span.carries_foreign_trace())
        };
        let roots_carry = self.spans.iter().any(|s| s.link.is_none() && carried(s).is_some());
        let seen: HashSet<SpanId> =
            if roots_carry { self.spans.iter().map(|s| s.span.id).collect() } else { HashSet::new() };
        self.spans.iter().map(move |s| match s.link {
            Some(link) => Some(link.parent),
            None => carried(s).filter(|parent| !seen.contains(parent)),
        })
    }
}
