//! A trace, and a trace in one line, as JSON.

use super::{HopView, LinkView, SdkToldView, SpanCallsView, SpanLinkView, SpanView, SpanWaitsView};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;
use wirespan_model::{Span, SpanId, Trace};

/// An assembled trace.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TraceView {
    /// 32 hex digits.
    pub id: String,
    /// Start of the earliest span, Unix ns.
    pub start_ns: String,
    /// End of the latest span, Unix ns.
    pub end_ns: String,
    /// From the start to the end, ns.
    pub duration_ns: u64,
    /// False if a limit cut the search for spans short.
    pub complete: bool,
    /// Number of spans that are errors.
    pub errors: u32,
    /// Services in the trace, most spans first.
    pub services: Vec<ServiceCount>,
    /// Depth-first, parents before children, siblings by start.
    pub spans: Vec<TraceSpanView>,
}

/// A span in its trace.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TraceSpanView {
    /// Depth below its root, 0 for a root.
    pub depth: u32,
    /// Its parent; absent for a root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<LinkView>,
    /// Spans of other traces that moved the same messages through a broker.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<SpanLinkView>,
    /// Start of the span since the start of the trace, ns.
    pub offset_ns: u64,
    /// First byte of the response since the start of the trace, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_offset_ns: Option<u64>,
    /// How its request came here from the parent, and its response back; absent unless the parent saw the same request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hop: Option<HopView>,
    /// The same from the process before; absent unless devices are between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hop_over_devices: Option<HopView>,
    /// What its threads waited for; absent if that was not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<SpanWaitsView>,
    /// The system calls that its threads made; absent if they were not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syscalls: Option<SpanCallsView>,
    /// Events and links of an SDK's span; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub told: Option<SdkToldView>,
    /// The span.
    pub span: SpanView,
}

/// Number of spans that a service has in a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ServiceCount {
    /// `service.name`.
    pub service: String,
    /// Number of its spans.
    pub spans: u32,
}

/// A trace in one line.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct TraceSummary {
    /// 32 hex digits.
    pub(crate) id: String,
    /// Span id of the first root, 16 hex digits. It finds the same trace again.
    pub(crate) root_id: String,
    /// Name of the root.
    pub(crate) name: String,
    /// Service of the root.
    pub(crate) service: String,
    /// Protocol of the root.
    pub(crate) protocol: String,
    /// Status of the root.
    pub(crate) status: &'static str,
    /// Whether any span is an error.
    pub(crate) error: bool,
    /// Start, Unix ns.
    pub(crate) start_ns: String,
    /// Duration of the whole trace, ns.
    pub(crate) duration_ns: u64,
    /// Number of spans.
    pub(crate) spans: u32,
    /// Number of spans that are errors.
    pub(crate) errors: u32,
    /// Services, most spans first.
    pub(crate) services: Vec<ServiceCount>,
    /// Ids of the spans that matched the search, 16 hex digits each; at most 100. The root comes first if it matched.
    pub(crate) matched: Vec<String>,
    /// False if a limit cut the search for spans short.
    pub(crate) complete: bool,
}

/// Traces found by a search.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct TraceList {
    /// The traces, in the order in which their first matching span was found.
    pub(crate) traces: Vec<TraceSummary>,
    /// Whether a limit was reached, so that there may be more.
    pub(crate) limited: bool,
}

fn bounds(trace: &Trace) -> (u64, u64) {
    let start = trace.spans.iter().map(|s| s.span.start_ns).min().unwrap_or(0);
    let end = trace.spans.iter().map(|s| s.span.end_ns).max().unwrap_or(0);
    (start, end.max(start))
}

fn is_error(span: &Span) -> bool {
    span.status.is_error(span.kind)
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn services(trace: &Trace) -> Vec<ServiceCount> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for s in &trace.spans {
        *counts.entry(&s.span.resource.service).or_default() += 1;
    }
    let mut counts: Vec<ServiceCount> =
        counts.into_iter().map(|(service, spans)| ServiceCount { service: service.to_owned(), spans }).collect();
    counts.sort_by_key(|c| std::cmp::Reverse(c.spans));
    counts
}

impl From<&Trace> for TraceView {
    fn from(trace: &Trace) -> Self {
        let (start, end) = bounds(trace);
        TraceView {
            id: trace.id.to_string(),
            start_ns: start.to_string(),
            end_ns: end.to_string(),
            duration_ns: end - start,
            complete: trace.complete,
            errors: count(trace.spans.iter().filter(|s| is_error(&s.span)).count()),
            services: services(trace),
            spans: trace
                .spans
                .iter()
                .zip(wirespan_trace::hops(trace))
                .map(|(s, hops)| TraceSpanView {
                    depth: s.depth,
                    parent: s.link.as_ref().map(LinkView::from),
                    links: s.links.iter().map(SpanLinkView::from).collect(),
                    offset_ns: s.span.start_ns - start,
                    response_offset_ns: (s.span.response_ns != 0).then(|| s.span.response_ns.saturating_sub(start)),
                    hop: hops.from_parent.map(HopView::from),
                    hop_over_devices: hops.over_devices.map(HopView::from),
                    waits: SpanWaitsView::of(&s.span),
                    syscalls: SpanCallsView::of(&s.span),
                    told: SdkToldView::of(&s.span),
                    span: SpanView::from(s.span.as_ref()),
                })
                .collect(),
        }
    }
}

/// The trace in one line; `None` if it has no span.
pub(crate) fn summarise(trace: &Trace, matched: &[SpanId]) -> Option<TraceSummary> {
    let root = trace.spans.iter().find(|s| s.link.is_none()).or(trace.spans.first())?;
    let (start, end) = bounds(trace);
    let errors = count(trace.spans.iter().filter(|s| is_error(&s.span)).count());
    // The root first: a link to the trace should lead to its root if the root matched as well.
    let is_root = matched.contains(&root.span.id).then_some(&root.span.id);
    let others = matched.iter().filter(|id| **id != root.span.id);
    let ids = is_root.into_iter().chain(others).take(100).map(ToString::to_string).collect();
    Some(TraceSummary {
        id: trace.id.to_string(),
        root_id: root.span.id.to_string(),
        name: root.span.name(),
        service: root.span.resource.service.to_string(),
        protocol: root.span.protocol.to_string(),
        status: root.span.status.as_str(),
        error: errors > 0,
        start_ns: start.to_string(),
        duration_ns: end - start,
        spans: count(trace.spans.len()),
        errors,
        services: services(trace),
        matched: ids,
        complete: trace.complete,
    })
}
