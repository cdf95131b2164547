//! Spans of SDKs and spans of the kernel in one trace.
#![allow(clippy::unwrap_used)]

mod world;
use wirespan_model::{Evidence, Span, SpanId, SpanKind, TapSide, TraceId};
use wirespan_trace::link;
use world::{cart, check, edge, link_of, parents, redis, World, MS, T0, USER};

/// SDK spans in the caller: its client span's id travels in `traceparent`.
#[test]
fn sdk_spans_and_observed_spans_make_one_tree() {
    let mut w = World::default();
    let trace = TraceId([7; 16]);
    let mut root = w.blank(edge(), TapSide::App, T0, T0 + 20 * MS);
    root.kind = SpanKind::Server;
    let mut sdk = w.blank(edge(), TapSide::App, T0 + MS, T0 + 19 * MS);
    sdk.parent_span_id = Some(root.id);
    let a = w.call(None, edge(), cart(), T0 + 2 * MS, T0 + 18 * MS);
    let mut remote = w.blank(cart(), TapSide::App, T0 + 3 * MS, T0 + 17 * MS);
    remote.kind = SpanKind::Server;
    remote.parent_span_id = Some(sdk.id);
    for i in [a.client, a.server] {
        w.spans[i].parent_span_id = Some(sdk.id);
        w.spans[i].trace_id = Some(trace);
    }
    for s in [&mut root, &mut sdk, &mut remote] {
        s.trace_id = Some(trace);
    }
    let ids = [root.id, sdk.id, w.id(a.client), w.id(a.server), remote.id];
    w.spans.extend([root, sdk, remote]);
    let traces = link(w.arcs());
    assert_eq!(traces.len(), 1);
    assert_eq!(traces[0].id, trace);
    let order: Vec<SpanId> = traces[0].spans.iter().map(|s| s.span.id).collect();
    assert_eq!(order, ids, "{:#?}", parents(&traces));
    let evidence: Vec<_> = traces[0].spans.iter().filter_map(|s| s.link.map(|l| l.evidence)).collect();
    assert_eq!(evidence, [Evidence::Carried, Evidence::Carried, Evidence::Wire, Evidence::Carried]);
}

/// The user sends no context: the SDK of the gateway begins its own trace inside the request that was observed.
#[test]
fn an_sdk_root_belongs_under_the_request_that_it_served() {
    let mut w = World::default();
    let trace = TraceId([9; 16]);
    let a = w.call(None, USER, edge(), T0, T0 + 30 * MS);
    let mut root = w.blank(edge(), TapSide::App, T0 + MS, T0 + 29 * MS);
    root.kind = SpanKind::Server;
    let mut sdk = w.blank(edge(), TapSide::App, T0 + 2 * MS, T0 + 28 * MS);
    sdk.parent_span_id = Some(root.id);
    let b = w.call(Some(a), edge(), cart(), T0 + 3 * MS, T0 + 27 * MS);
    for i in [b.client, b.server] {
        w.spans[i].parent_span_id = Some(sdk.id);
        w.spans[i].trace_id = Some(trace);
    }
    (root.trace_id, sdk.trace_id) = (Some(trace), Some(trace));
    let ids = [w.id(a.client), w.id(a.server), root.id, sdk.id, w.id(b.client), w.id(b.server)];
    w.spans.extend([root, sdk]);
    let traces = link(w.arcs());
    assert_eq!(traces.len(), 1);
    let order: Vec<SpanId> = traces[0].spans.iter().map(|s| s.span.id).collect();
    assert_eq!((order, traces[0].id), (ids.to_vec(), trace));
    assert_eq!(traces[0].spans.last().unwrap().depth, 5);
    // Two SDK spans that name each other have no top.
    let n = w.spans.len();
    w.spans[n - 2].parent_span_id = Some(ids[3]);
    link(w.arcs()).iter().for_each(check);
}

/// A command of Redis carries no context: the SDK's view of it is known by the request, the protocol and the time.
#[test]
fn the_sdks_view_of_a_call_stands_above_the_sockets() {
    for carried in [true, false] {
        let mut w = World::default();
        let (trace, user) = (TraceId([7; 16]), Some(SpanId(0xabc)).filter(|_| carried));
        let a = w.call(None, USER, edge(), T0, T0 + 30 * MS);
        let mut served = w.blank(edge(), TapSide::App, T0 + MS, T0 + 29 * MS);
        (served.kind, served.parent_span_id) = (SpanKind::Server, user);
        let mut view = w.blank(edge(), TapSide::App, T0 + 2 * MS, T0 + 5 * MS);
        view.kind = SpanKind::Client;
        let mut http = view.clone();
        view.protocol = "redis".into();
        (http.id, http.end_ns) = (SpanId(0xdef), T0 + 28 * MS);
        (view.parent_span_id, http.parent_span_id) = (Some(served.id), Some(served.id));
        let seen = w.call(Some(a), edge(), redis(), T0 + 3 * MS, T0 + 4 * MS);
        let later = w.call(Some(a), edge(), redis(), T0 + 7 * MS, T0 + 8 * MS);
        let next = w.call(Some(a), edge(), cart(), T0 + 9 * MS, T0 + 27 * MS);
        for call in [seen, later] {
            w.spans[call.client].protocol = "redis".into();
        }
        for i in [next.client, next.server] {
            (w.spans[i].parent_span_id, w.spans[i].trace_id) = (Some(http.id), Some(trace));
        }
        for i in [a.client, a.server] {
            (w.spans[i].parent_span_id, w.spans[i].trace_id) = (user, user.map(|_| trace));
        }
        let (own, server) = (view.id, w.id(a.server));
        w.spans.extend([served, view, http].map(|s| Span { trace_id: Some(trace), ..s }));
        let traces = link(w.arcs());
        let parent = |i: usize| link_of(&traces, w.id(i)).map(|l| (l.0, l.1));
        assert_eq!(parent(seen.client), Some((own, Evidence::Thread)), "{carried} {:#?}", parents(&traces));
        assert_eq!(parent(later.client), Some((server, Evidence::Thread)), "the SDK has no view of it");
    }
}
