//! Whole traces against the truth.
#![allow(clippy::unwrap_used)]

mod world;
use std::sync::Arc;
use wirespan_model::event::by_stream;
use wirespan_model::{Evidence, ExchangeRange, SpanId, Status, TapSide, TraceId, Value};
use wirespan_trace::{derived_trace_id, link};
use world::{cart, check, edge, link_of, parents, proc, redis, Call, World, MS, S, T0, US, USER};

/// user → gateway → cart → redis twice, one after the other.
fn shop(w: &mut World, t: u64) -> [Call; 4] {
    let a = w.call(None, USER, edge(), t, t + 20 * MS);
    let b = w.call(Some(a), edge(), cart(), t + 2 * MS, t + 18 * MS);
    let c = w.call(Some(b), cart(), redis(), t + 4 * MS, t + 6 * MS);
    let d = w.call(Some(b), cart(), redis(), t + 8 * MS, t + 10 * MS);
    [a, b, c, d]
}

#[test]
fn nested_and_sequential_calls_are_exact() {
    let mut w = World::default();
    let calls = shop(&mut w, T0);
    let traces = link(w.arcs());
    assert_eq!(traces.len(), 1);
    check(&traces[0]);
    assert_eq!(parents(&traces), w.truth);
    let order: Vec<SpanId> = traces[0].spans.iter().map(|s| s.span.id).collect();
    let expected: Vec<SpanId> = calls.iter().flat_map(|c| [w.id(c.client), w.id(c.server)]).collect();
    assert_eq!(order, expected, "depth first, siblings by start");
    assert_eq!(link_of(&traces, w.id(calls[1].server)), Some((w.id(calls[1].client), Evidence::Wire, 1.0)));
    let (parent, evidence, confidence) = link_of(&traces, w.id(calls[2].client)).unwrap();
    assert_eq!((parent, evidence), (w.id(calls[1].server), Evidence::Thread));
    assert!(confidence > 0.9);
    assert_eq!(traces[0].id, derived_trace_id(w.id(calls[0].client)));
}

#[test]
fn calls_of_one_write_stand_in_the_order_of_their_bytes() {
    let mut w = World::default();
    let a = w.call(None, USER, cart(), T0, T0 + 20 * MS);
    let calls = [0, 1, 2, 3].map(|_| w.call(Some(a), cart(), redis(), T0 + 4 * MS, T0 + 6 * MS));
    // Ids are hashes: they do not grow with the bytes.
    for (place, call) in [2usize, 0, 3, 1].into_iter().zip(calls) {
        for (i, socket) in [(call.client, 71), (call.server, 72)] {
            let span = &mut w.spans[i];
            (span.socket, span.request_seq, span.exchange) = (socket, Some(5000 + 30 * place as u32), None);
        }
    }
    let traces = link(w.arcs());
    let order: Vec<SpanId> = traces[0].spans.iter().filter(|s| s.span.socket == 71).map(|s| s.span.id).collect();
    assert_eq!(order, [1, 3, 0, 2].map(|i: usize| w.id(calls[i].client)));
}

#[test]
fn many_users_at_once_share_threads_and_processes_but_not_traces() {
    let mut w = World::default();
    for user in 0..200 {
        shop(&mut w, T0 + user * 100 * US);
    }
    let traces = link(w.arcs());
    assert_eq!(traces.len(), 200);
    traces.iter().for_each(check);
    assert!(traces.iter().all(|t| t.spans.len() == 8));
    assert_eq!(parents(&traces), w.truth);
}

#[test]
fn a_call_after_the_response_is_less_sure_and_long_after_no_link() {
    use Evidence::{Coroutine, Thread};
    for (after, evidence, expected) in [
        (0, Thread, Some(0.98)),
        (500 * MS, Thread, Some(0.588)),
        (500 * MS, Coroutine, Some(0.882)),
        (20 * S, Thread, Some(0.294)),
        (90 * S, Coroutine, None),
    ] {
        let mut w = World::default();
        let a = w.call(None, USER, edge(), T0, T0 + 20 * MS);
        let t = T0 + 20 * MS + after;
        let b = w.call(Some(a), edge(), cart(), t, t + MS);
        w.spans[b.client].cause_evidence = Some(evidence);
        let traces = link(w.arcs());
        let got = link_of(&traces, w.id(b.client)).map(|l| l.2);
        match (got, expected) {
            (Some(g), Some(e)) => assert!((g - e).abs() < 0.001, "{after}: {g}"),
            (g, e) => assert_eq!(g, e, "{after}"),
        }
        assert_eq!(traces.len(), if expected.is_some() { 1 } else { 2 });
    }
}

#[test]
fn a_cause_never_points_into_the_future() {
    let mut w = World::default();
    let a = w.call(None, USER, edge(), T0 + 50 * MS, T0 + 60 * MS);
    let b = w.call(Some(a), edge(), cart(), T0, T0 + 10 * MS);
    let traces = link(w.arcs());
    assert_eq!(link_of(&traces, w.id(b.client)), None);
}

#[test]
fn an_unanswered_request_still_owns_what_it_caused() {
    let mut w = World::default();
    let a = w.call(None, USER, edge(), T0, T0 + 20 * MS);
    for i in [a.client, a.server] {
        w.spans[i].status = Status::NoResponse;
        w.spans[i].end_ns = w.spans[i].start_ns + US;
        w.spans[i].response_ns = 0;
        w.spans[i].response_seq = None;
    }
    let b = w.call(Some(a), edge(), cart(), T0 + 5 * S, T0 + 6 * S);
    let traces = link(w.arcs());
    assert_eq!(traces.len(), 1);
    let (parent, _, confidence) = link_of(&traces, w.id(b.client)).unwrap();
    assert_eq!(parent, w.id(a.server));
    assert!(confidence > 0.9);
    let (_, evidence, confidence) = link_of(&traces, w.id(a.server)).unwrap();
    assert_eq!((evidence, confidence), (Evidence::Wire, 0.9), "half of the bytes is a little less sure");
}

#[test]
fn pipelined_requests_of_one_exchange_are_told_apart_by_their_answers() {
    let mut w = World::default();
    let a = w.call(None, USER, edge(), T0, T0 + 10 * MS);
    let b = w.call(None, USER, edge(), T0, T0 + 20 * MS);
    w.spans[b.server].exchange = w.spans[a.server].exchange;
    let first = w.call(Some(a), edge(), cart(), T0 + 2 * MS, T0 + 9 * MS);
    let second = w.call(Some(a), edge(), cart(), T0 + 12 * MS, T0 + 19 * MS);
    let traces = link(w.arcs());
    let (p1, _, c1) = link_of(&traces, w.id(first.client)).unwrap();
    let (p2, _, _) = link_of(&traces, w.id(second.client)).unwrap();
    assert_eq!((p1, p2), (w.id(a.server), w.id(b.server)));
    assert!(c1 < 0.9, "two owners: less sure ({c1})");
}

#[test]
fn one_request_of_several_runs_owns_all_their_exchanges() {
    let mut w = World::default();
    let a = w.call(None, USER, edge(), T0, T0 + 20 * MS);
    let e = w.spans[a.server].exchange.unwrap();
    w.spans[a.server].exchange = Some(ExchangeRange { first: e.first, last: e.last + 3 });
    let b = w.call(Some(a), edge(), cart(), T0 + 5 * MS, T0 + 9 * MS);
    w.spans[b.client].cause = Some(e.first + 2);
    assert_eq!(parents(&link(w.arcs())), w.truth);
}

#[test]
fn the_same_exchange_on_another_host_is_another_request() {
    let mut w = World::default();
    let a = w.call(None, USER, edge(), T0, T0 + 20 * MS);
    let b = w.call(Some(a), proc(9, 20, "stranger"), cart(), T0 + 5 * MS, T0 + 9 * MS);
    let traces = link(w.arcs());
    assert_eq!(traces.len(), 2);
    assert_eq!(link_of(&traces, w.id(b.client)), None);
}

/// nginx reads on an event loop: its thread does not show the current request, but it forwards X-Request-ID.
fn proxied(w: &mut World, t: u64, request_id: &str) -> [Call; 2] {
    let nginx = proc(1, 50, "nginx");
    let a = w.call(None, USER, nginx, t, t + 20 * MS);
    let b = w.call(None, nginx, cart(), t + 2 * MS, t + 18 * MS);
    for i in [a.server, b.client, b.server] {
        w.spans[i].request_id = Some(request_id.into());
    }
    let truth = w.id(a.server);
    w.truth.insert(w.spans[b.client].id, Some(truth));
    [a, b]
}

#[test]
fn a_proxy_is_crossed_by_request_id() {
    let mut w = World::default();
    let mut last = None;
    for i in 0..50 {
        last = Some(proxied(&mut w, T0 + i * MS, &format!("r-{i}")));
    }
    let traces = link(w.arcs());
    assert_eq!((traces.len(), parents(&traces)), (50, w.truth.clone()));
    let [_, b] = last.unwrap();
    assert_eq!(link_of(&traces, w.id(b.client)).unwrap().1, Evidence::RequestId);
}

#[test]
fn a_retry_with_the_same_request_id_is_another_trace() {
    let mut w = World::default();
    proxied(&mut w, T0, "same");
    proxied(&mut w, T0 + 25 * MS, "same");
    proxied(&mut w, T0 + 10 * S, "same");
    let traces = link(w.arcs());
    assert_eq!((traces.len(), parents(&traces)), (3, w.truth.clone()));
}

#[test]
fn a_retry_inside_the_proxy_belongs_to_one_request() {
    let mut w = World::default();
    let nginx = proc(1, 50, "nginx");
    let a = w.call(None, USER, nginx, T0, T0 + 20 * MS);
    let tries =
        [w.call(None, nginx, cart(), T0 + MS, T0 + 5 * MS), w.call(None, nginx, cart(), T0 + 6 * MS, T0 + 9 * MS)];
    for i in [a.server, tries[0].client, tries[0].server, tries[1].client, tries[1].server] {
        w.spans[i].request_id = Some("r".into());
    }
    let traces = link(w.arcs());
    assert_eq!(traces.len(), 1);
    for t in tries {
        assert_eq!(link_of(&traces, w.id(t.client)).unwrap().0, w.id(a.server));
    }
}

#[test]
fn observation_points_stand_in_the_order_of_the_path() {
    let mut w = World::default();
    let a = w.call(None, USER, edge(), T0, T0 + 20 * MS);
    let taps = [TapSide::ServerNic, TapSide::ClientNode, TapSide::ClientNic, TapSide::ServerNode, TapSide::Gateway];
    for tap in taps {
        let mut s = w.blank(USER, tap, T0 + 10 * US + tap as u64, T0 + 19 * MS);
        let c = &w.spans[a.client];
        (s.request_seq, s.response_seq) = (c.request_seq, c.response_seq);
        // Behind a NAT the addresses differ; the sequence numbers do not.
        s.pid = 0;
        w.spans.push(s);
    }
    let traces = link(w.arcs());
    assert_eq!(traces.len(), 1);
    let order: Vec<TapSide> = traces[0].spans.iter().map(|s| s.span.tap).collect();
    assert!(order.windows(2).all(|p| p[0] < p[1]), "{order:?}");
    assert_eq!(traces[0].spans.last().unwrap().depth, 6);
}

#[test]
fn datagrams_with_a_reused_id_are_not_mixed_up() {
    let mut w = World::default();
    let resolver = proc(3, 60, "dns");
    let mut pairs = Vec::new();
    for i in 0..4u64 {
        let c = w.call(None, USER, resolver, T0 + i * 3 * S, T0 + i * 3 * S + 5 * MS);
        for j in [c.client, c.server] {
            let s = &mut w.spans[j];
            (s.request_seq, s.response_seq, s.message_id) = (None, None, Some(4711));
            s.protocol = "dns".into();
            s.tuple.client.port = 5353;
        }
        pairs.push(c);
    }
    let traces = link(w.arcs());
    assert_eq!(traces.len(), 4);
    for p in pairs {
        assert_eq!(link_of(&traces, w.id(p.server)).unwrap().0, w.id(p.client));
    }
}

#[test]
fn datagrams_of_sockets_that_do_not_know_their_own_address_are_joined() {
    let any: std::net::IpAddr = std::net::Ipv6Addr::UNSPECIFIED.into();
    let elsewhere: std::net::IpAddr = "192.0.2.7".parse().unwrap();
    for (client, server, joined) in [(any, None, true), (any, Some(any), true), (elsewhere, None, false)] {
        let mut w = World::default();
        let call = w.call(None, USER, proc(3, 60, "dns"), T0, T0 + 5 * MS);
        for i in [call.client, call.server] {
            let s = &mut w.spans[i];
            (s.request_seq, s.response_seq, s.message_id) = (None, None, Some(4711));
            (s.protocol, s.tuple.transport) = ("dns".into(), wirespan_model::Transport::Udp);
        }
        w.spans[call.client].tuple.client.ip = client;
        w.spans[call.server].tuple.server.ip = server.unwrap_or(w.spans[call.server].tuple.server.ip);
        let traces = link(w.arcs());
        assert_eq!(traces.len(), if joined { 1 } else { 2 }, "{client} {server:?}");
    }
}

#[test]
fn unix_sockets_without_address_are_not_joined_by_chance() {
    let mut w = World::default();
    let a = w.call(None, USER, edge(), T0, T0 + MS);
    for i in [a.client, a.server] {
        let s = &mut w.spans[i];
        (s.request_seq, s.response_seq, s.message_id) = (None, None, Some(1));
        s.tuple = Default::default();
        s.tuple.transport = wirespan_model::Transport::UnixStream;
    }
    assert_eq!(link(w.arcs()).len(), 2);
}

/// A proxy that speaks HTTP/3 on one side: the requests inside its datagrams are not seen.
#[test]
fn datagrams_of_a_connection_make_no_calls_and_one_datagram_may() {
    let forms = [("udp", Some(40), false), ("udp", Some(2), true), ("quic", Some(40), false), ("quic", None, false)];
    for (protocol, calls, is_request) in forms {
        let mut w = World::default();
        let a = w.call(None, USER, edge(), T0, T0 + 30 * MS);
        let b = w.call(Some(a), edge(), cart(), T0 + 3 * MS, T0 + 27 * MS);
        for i in [a.client, a.server] {
            let span = &mut w.spans[i];
            (span.protocol, span.operation, span.target) = (protocol.into(), "".into(), "".into());
            span.attrs.extend(calls.map(|calls| ("wirespan.calls".into(), Value::Int(calls))));
        }
        let traces = link(w.arcs());
        let parent = link_of(&traces, w.id(b.client)).map(|l| l.0);
        assert_eq!(parent, is_request.then_some(w.id(a.server)), "{:#?}", parents(&traces));
    }
}

/// A proxy that forwards `traceparent` unchanged: its own span stands between, by thread or by process.
#[test]
fn a_forwarded_context_does_not_skip_the_proxy() {
    for with_cause in [true, false] {
        let mut w = World::default();
        let proxy = proc(1, 50, "envoy");
        let sdk = w.blank(USER, TapSide::App, T0 - MS, T0 + 21 * MS);
        let a = w.call(None, USER, proxy, T0, T0 + 20 * MS);
        let b = w.call(with_cause.then_some(a), proxy, cart(), T0 + 2 * MS, T0 + 18 * MS);
        for i in [a.client, a.server, b.client, b.server] {
            w.spans[i].parent_span_id = Some(sdk.id);
            w.spans[i].trace_id = Some(TraceId([3; 16]));
        }
        let ids = [sdk.id, w.id(a.client), w.id(a.server), w.id(b.client), w.id(b.server)];
        w.spans.push(sdk);
        w.spans.last_mut().unwrap().trace_id = Some(TraceId([3; 16]));
        let traces = link(w.arcs());
        let order: Vec<SpanId> = traces[0].spans.iter().map(|s| s.span.id).collect();
        assert_eq!((traces.len(), order), (1, ids.to_vec()));
        assert_eq!(traces[0].spans.last().unwrap().depth, 4);
    }
}

#[test]
fn contradictory_evidence_gives_a_forest() {
    // Each of two spans names the other as its parent; a third names itself.
    let mut w = World::default();
    let mut a = w.blank(USER, TapSide::App, T0, T0 + MS);
    let mut b = w.blank(USER, TapSide::App, T0, T0 + MS);
    let mut c = w.blank(USER, TapSide::App, T0, T0 + MS);
    a.parent_span_id = Some(b.id);
    b.parent_span_id = Some(a.id);
    c.parent_span_id = Some(c.id);
    let traces = link(vec![Arc::new(a), Arc::new(b), Arc::new(c)]);
    traces.iter().for_each(check);
    assert_eq!(traces.iter().map(|t| t.spans.len()).sum::<usize>(), 3);
}

#[test]
fn spans_of_a_lost_request_stay_together() {
    let mut w = World::default();
    let [a, ..] = shop(&mut w, T0);
    let gone = [w.id(a.client), w.id(a.server)];
    let rest: Vec<_> = w.arcs().into_iter().filter(|s| !gone.contains(&s.id)).collect();
    let b = w.call(Some(a), edge(), redis(), T0 + 18 * MS, T0 + 19 * MS);
    let more = [w.spans[b.client].clone(), w.spans[b.server].clone()].map(Arc::new);
    let traces = link(rest.into_iter().chain(more).collect());
    assert_eq!(traces.len(), 1, "two calls for one request that was not seen");
    assert_eq!(traces[0].spans.iter().filter(|s| s.link.is_none()).count(), 2);
}

#[test]
fn a_request_is_named_by_its_stream_where_several_were_read_together() {
    let mut w = World::default();
    let both = [0, 1].map(|_| w.call(None, USER, cart(), T0, T0 + 20 * MS));
    let calls = [0, 1].map(|i| w.call(Some(both[1 - i]), cart(), redis(), T0 + 2 * MS, T0 + 4 * MS));
    for (i, call) in both.iter().enumerate() {
        let s = &mut w.spans[call.server];
        (s.protocol, s.socket, s.message_id) = ("http2".into(), 9, Some(2 * i as u64 + 1));
        s.exchange = Some(ExchangeRange { first: 9 << 24 | 4, last: 9 << 24 | 4 });
    }
    for (i, call) in calls.iter().enumerate() {
        let c = &mut w.spans[call.client];
        (c.cause, c.cause_evidence) = (by_stream(9, 2 * (1 - i as u64) + 1), Some(Evidence::Coroutine));
    }
    let traces = link(w.arcs());
    assert_eq!(traces.len(), 2);
    assert_eq!(parents(&traces), w.truth);
    for (i, call) in calls.iter().enumerate() {
        let (parent, evidence, confidence) = link_of(&traces, w.id(call.client)).unwrap();
        assert_eq!((parent, evidence), (w.id(both[1 - i].server), Evidence::Coroutine));
        assert!(confidence > 0.9);
    }
}
