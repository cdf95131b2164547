//! Spans of SDKs, as their process publishes them.

use crate::{SpanId, TraceId};

/// A thread acted for a request when its SDK had published this span as the one in which the thread was (OTEP 4947).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SdkSpan {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// As in [`crate::DataEvent`]; 0 if no request is known.
    pub cause: u64,
    /// Trace of the SDK.
    pub trace_id: TraceId,
    /// The span.
    pub span_id: SpanId,
    /// When it was read, Unix ns.
    pub time_ns: u64,
}
