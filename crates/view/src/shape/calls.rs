//! The system calls of a span, as JSON.

use serde::Serialize;
use utoipa::ToSchema;
use wirespan_model::syscalls::{SpanCall, SpanCalls};
use wirespan_model::Span;

/// The recorded system calls of a span.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SpanCallsView {
    /// How they are shown: `spans` below this one, `events` or `attributes`.
    pub form: &'static str,
    /// All calls by name, those that took longest first.
    pub sums: Vec<CallSumView>,
    /// Each call, if they are shown as events; the first ones if there are very many.
    pub events: Vec<CallView>,
    /// Number of further calls, which are in the sums only.
    pub left_out: u64,
    /// Number of calls that the kernel could not tell; they are in no sum.
    pub lost: u64,
}

/// The calls of one name.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CallSumView {
    /// Name of the system call.
    pub name: String,
    /// How many.
    pub count: u64,
    /// How many of them returned an error.
    pub failed: u64,
    /// How long all took together, ns.
    pub total_ns: u64,
    /// How long the longest took, ns.
    pub longest_ns: u64,
}

/// One system call.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CallView {
    /// Name of the system call.
    pub name: String,
    /// When it began, since the start of the span, ns.
    pub offset_ns: u64,
    /// How long it took, ns.
    pub duration_ns: u64,
    /// What it returned; negative: an error.
    pub result: i64,
    /// The thread.
    pub tid: u32,
}

impl SpanCallsView {
    /// The calls that a span carries; `None` if they were not recorded.
    pub(crate) fn of(span: &Span) -> Option<Self> {
        let all = SpanCalls::of(span)?;
        let call = |call: &SpanCall| CallView {
            name: all.name(call).to_string(),
            offset_ns: call.start_ns.saturating_sub(span.start_ns),
            duration_ns: call.duration_ns,
            result: call.result,
            tid: call.tid,
        };
        let sums = all.sums.iter().map(|sum| CallSumView {
            name: sum.name.to_string(),
            count: sum.count,
            failed: sum.failed,
            total_ns: sum.total_ns,
            longest_ns: sum.longest_ns,
        });
        Some(SpanCallsView {
            form: all.form.as_str(),
            sums: sums.collect(),
            events: all.events().iter().map(call).collect(),
            left_out: all.left_out,
            lost: all.lost,
        })
    }
}
