//! Requests that something unseen forwarded: only a name in the messages joins caller and called.
#![allow(clippy::unwrap_used)]

mod world;
use std::sync::Arc;
use wirespan_model::span::FOREIGN_TRACE_ID;
use wirespan_model::{Evidence, SpanId, TapSide, TraceId};
use wirespan_trace::link;
use world::{cart, check, edge, link_of, proc, Call, Proc, World, MS, T0, US, USER};

/// A call through a proxy that is not traced: the caller's span and the called process' span, on two connections.
fn through_proxy(w: &mut World, cause: Option<Call>, from: Proc, to: Proc, start: u64, end: u64) -> Call {
    let call = w.call(cause, from, to, start, end);
    let server = &mut w.spans[call.server];
    server.start_ns = start + MS;
    server.end_ns = end - MS;
    server.request_seq = server.request_seq.map(|s| s ^ 0x5555);
    server.response_seq = server.response_seq.map(|s| s ^ 0x5555);
    server.tuple.client.port ^= 0x4000;
    w.spans[call.client].target = server_target(w, call);
    call
}

fn server_target(w: &World, call: Call) -> wirespan_model::Text {
    w.spans[call.server].target.clone()
}

fn name(w: &mut World, indices: &[usize], id: &str) {
    indices.iter().for_each(|i| w.spans[*i].request_id = Some(id.into()));
}

#[test]
fn a_request_id_joins_caller_and_called_around_an_unseen_proxy() {
    let mut w = World::default();
    let mut calls = Vec::new();
    for i in 0..30u64 {
        let t = T0 + i * MS;
        let a = w.call(None, USER, edge(), t, t + 20 * MS);
        let b = through_proxy(&mut w, Some(a), edge(), cart(), t + 2 * MS, t + 18 * MS);
        name(&mut w, &[b.client, b.server], &format!("5f1c-{i}"));
        calls.push(b);
    }
    let traces = link(w.arcs());
    assert_eq!(traces.len(), 30);
    traces.iter().for_each(check);
    for b in calls {
        assert_eq!(link_of(&traces, w.id(b.server)), Some((w.id(b.client), Evidence::Forwarded, 0.9)));
    }
}

#[test]
fn without_a_name_nothing_joins_them() {
    let mut w = World::default();
    let b = through_proxy(&mut w, None, edge(), cart(), T0, T0 + 18 * MS);
    let traces = link(w.arcs());
    assert_eq!((traces.len(), link_of(&traces, w.id(b.server))), (2, None));
}

/// A fan-out in which each call carries the id of the user's request.
fn fan_out(w: &mut World, targets: &[&str]) -> (Call, Vec<Call>) {
    let a = w.call(None, USER, edge(), T0, T0 + 20 * MS);
    name(w, &[a.server], "one-for-all");
    let calls: Vec<Call> = targets
        .iter()
        .enumerate()
        .map(|(i, target)| {
            let t = T0 + 2 * MS + i as u64 * 100 * US;
            let call = through_proxy(w, Some(a), edge(), cart(), t, t + 15 * MS);
            name(w, &[call.client, call.server], "one-for-all");
            for j in [call.client, call.server] {
                w.spans[j].target = (*target).into();
            }
            call
        })
        .collect();
    (a, calls)
}

#[test]
fn calls_at_the_same_time_with_one_id_are_told_apart_by_their_paths() {
    let mut w = World::default();
    let (_, calls) = fan_out(&mut w, &["/price/7", "/stock/7", "/reviews/7"]);
    let traces = link(w.arcs());
    assert_eq!(traces.len(), 1);
    for call in calls {
        assert_eq!(link_of(&traces, w.id(call.server)), Some((w.id(call.client), Evidence::Forwarded, 0.85)));
    }
}

#[test]
fn calls_at_the_same_time_that_nothing_tells_apart_are_not_joined() {
    let mut w = World::default();
    let (_, calls) = fan_out(&mut w, &["/price", "/price"]);
    let traces = link(w.arcs());
    for call in calls {
        assert_eq!(link_of(&traces, w.id(call.server)), None);
    }
    traces.iter().for_each(check);
}

#[test]
fn the_only_call_that_is_left_is_the_caller_though_the_proxy_changed_the_path() {
    let mut w = World::default();
    let (_, calls) = fan_out(&mut w, &["/price/7", "/stock/7"]);
    w.spans[calls[1].server].target = "/v2/stock/7".into();
    let traces = link(w.arcs());
    let (parent, evidence, confidence) = link_of(&traces, w.id(calls[1].server)).unwrap();
    assert_eq!((parent, evidence), (w.id(calls[1].client), Evidence::Forwarded));
    assert!(confidence < 0.7, "{confidence}");
    // With two changed paths there are two ways.
    w.spans[calls[0].server].target = "/v2/price/7".into();
    let traces = link(w.arcs());
    assert!(calls.iter().all(|c| link_of(&traces, w.id(c.server)).is_none()));
}

#[test]
fn a_call_whose_other_end_was_seen_did_not_go_through_the_proxy() {
    let mut w = World::default();
    let a = w.call(None, USER, edge(), T0, T0 + 20 * MS);
    let seen = w.call(Some(a), edge(), proc(3, 70, "auth"), T0 + MS, T0 + 19 * MS);
    let b = through_proxy(&mut w, Some(a), edge(), cart(), T0 + 2 * MS, T0 + 18 * MS);
    name(&mut w, &[a.server, seen.client, seen.server, b.client, b.server], "5f1c");
    let traces = link(w.arcs());
    assert_eq!(link_of(&traces, w.id(b.server)).unwrap().0, w.id(b.client));
    // The called process without a caller is no child of the call that arrived elsewhere.
    w.spans.remove(b.client);
    let traces = link(w.arcs());
    assert_eq!(link_of(&traces, w.spans.last().unwrap().id), None);
}

#[test]
fn a_chain_through_two_proxies_goes_by_the_nearest_call() {
    let mut w = World::default();
    let a = through_proxy(&mut w, None, USER, edge(), T0, T0 + 30 * MS);
    let b = through_proxy(&mut w, Some(a), edge(), cart(), T0 + 5 * MS, T0 + 25 * MS);
    name(&mut w, &[a.client, a.server, b.client, b.server], "5f1c");
    for i in [a.client, a.server, b.client, b.server] {
        w.spans[i].target = "/".into();
    }
    let traces = link(w.arcs());
    assert_eq!(traces.len(), 1);
    assert_eq!(link_of(&traces, w.id(a.server)).unwrap().0, w.id(a.client));
    assert_eq!(link_of(&traces, w.id(b.server)).unwrap().0, w.id(b.client));
}

/// Hosts whose clocks differ by more than a request takes: only lengths tell which of two requests holds the other.
#[test]
fn a_caller_waits_longer_than_the_called_process_works() {
    for late in [false, true] {
        let mut w = World::default();
        let b = through_proxy(&mut w, None, edge(), cart(), T0, T0 + 18 * MS);
        name(&mut w, &[b.client, b.server], "5f1c");
        let server = &mut w.spans[b.server];
        if late {
            (server.start_ns, server.end_ns) = (server.start_ns + 40 * MS, server.end_ns + 40 * MS);
        } else {
            (server.start_ns, server.end_ns) = (server.start_ns - 40 * MS, server.end_ns - 40 * MS);
        }
        assert_eq!(link_of(&link(w.arcs()), w.id(b.server)).unwrap().0, w.id(b.client));
        w.spans[b.server].end_ns += 4 * MS;
        assert_eq!(link_of(&link(w.arcs()), w.id(b.server)), None, "{late}");
    }
}

#[test]
fn a_request_of_another_method_was_not_forwarded() {
    let mut w = World::default();
    let b = through_proxy(&mut w, None, edge(), cart(), T0, T0 + 18 * MS);
    name(&mut w, &[b.client, b.server], "5f1c");
    w.spans[b.client].operation = "POST".into();
    assert_eq!(link_of(&link(w.arcs()), w.id(b.server)), None);
}

/// Two proxies with QUIC between them: what the first sends cannot be read, and neither can what the second receives.
#[test]
fn a_request_id_joins_two_proxies_whose_connection_cannot_be_read() {
    let mut w = World::default();
    let (near, far) = (proc(1, 51, "near"), proc(2, 52, "far"));
    let a = w.call(None, USER, near, T0, T0 + 20 * MS);
    let b = w.call(None, far, cart(), T0 + 5 * MS, T0 + 15 * MS);
    name(&mut w, &[a.client, a.server, b.client, b.server], "5f1c");
    for i in [a.client, a.server, b.client, b.server] {
        w.spans[i].target = "/cart/7".into();
    }
    let traces = link(w.arcs());
    let (parent, evidence, confidence) = link_of(&traces, w.id(b.client)).unwrap();
    assert_eq!((parent, evidence), (w.id(a.server), Evidence::Forwarded));
    assert!(confidence < 0.9);
    // Another path: a service that calls, or two calls of one that was not seen. Nothing tells.
    w.spans[b.client].target = "/other".into();
    assert_eq!(link_of(&link(w.arcs()), w.id(b.client)), None);
}

/// The parent that a context names is one call's own: the caller's span stands between the SDK's span and the server.
#[test]
fn a_context_that_an_unseen_proxy_forwards_joins_the_call_and_not_only_the_sdk() {
    let mut w = World::default();
    let sdk = w.blank(edge(), TapSide::App, T0 - MS, T0 + 21 * MS);
    let b = through_proxy(&mut w, None, edge(), cart(), T0, T0 + 20 * MS);
    let other = through_proxy(&mut w, None, edge(), cart(), T0, T0 + 20 * MS);
    for i in [b.client, b.server, other.client, other.server] {
        w.spans[i].trace_id = Some(TraceId([3; 16]));
        w.spans[i].parent_span_id = Some(sdk.id);
    }
    for i in [other.client, other.server] {
        w.spans[i].parent_span_id = Some(SpanId(77));
    }
    let sdk_id = sdk.id;
    w.spans.push(sdk);
    w.spans.last_mut().unwrap().trace_id = Some(TraceId([3; 16]));
    let traces = link(w.arcs());
    assert_eq!(traces.len(), 1);
    assert_eq!(link_of(&traces, w.id(b.client)).unwrap().0, sdk_id);
    for call in [b, other] {
        let (parent, evidence, confidence) = link_of(&traces, w.id(call.server)).unwrap();
        assert_eq!((parent, evidence), (w.id(call.client), Evidence::Forwarded));
        assert!(confidence > 0.9);
    }
}

/// SkyWalking's agents forward its header through proxies; its spans do not come here.
#[test]
fn skywalkings_context_joins_and_its_parent_is_not_exported() {
    let mut w = World::default();
    let calls = [0, 1].map(|_| through_proxy(&mut w, None, edge(), cart(), T0, T0 + 20 * MS));
    for (n, call) in calls.iter().enumerate() {
        for i in [call.client, call.server] {
            let span = &mut w.spans[i];
            span.trace_id = Some(TraceId::of_foreign("abc.1.2"));
            span.parent_span_id = Some(SpanId(70 + n as u64));
            span.attrs.push((FOREIGN_TRACE_ID.into(), "abc.1.2".into()));
        }
    }
    let traces = link(w.arcs());
    assert_eq!(traces.len(), 1);
    for call in calls {
        assert_eq!(link_of(&traces, w.id(call.server)), Some((w.id(call.client), Evidence::Forwarded, 0.97)));
    }
    let roots = traces[0].parents().filter(Option::is_none).count();
    assert_eq!(roots, 2, "no span of SkyWalking is named");
}

#[test]
fn two_requests_of_a_process_with_one_id_are_told_apart_by_their_paths_or_not_at_all() {
    for (path, joined) in [("/b", true), ("/c", false)] {
        let mut w = World::default();
        let nginx = proc(1, 50, "nginx");
        let first = w.call(None, USER, nginx, T0, T0 + 20 * MS);
        let second = w.call(None, USER, nginx, T0 + MS, T0 + 20 * MS);
        let behind = w.call(None, nginx, cart(), T0 + 3 * MS, T0 + 15 * MS);
        name(&mut w, &[first.server, second.server, behind.client, behind.server], "5f1c");
        w.spans[first.server].target = "/a".into();
        w.spans[second.server].target = "/b".into();
        w.spans[behind.client].target = path.into();
        let parent = link_of(&link(w.arcs()), w.id(behind.client)).map(|l| l.0);
        assert_eq!(parent, joined.then(|| w.id(second.server)));
    }
}

#[test]
fn a_request_id_is_believed_before_a_guess() {
    let mut w = World::default();
    let (a, b) = (w.call(None, USER, edge(), T0, T0 + 20 * MS), w.call(None, USER, edge(), T0, T0 + 20 * MS));
    let call = w.call(Some(b), edge(), cart(), T0 + 3 * MS, T0 + 9 * MS);
    w.spans[call.client].cause_evidence = Some(Evidence::Inferred);
    name(&mut w, &[a.server, call.client], "5f1c");
    assert_eq!(link_of(&link(w.arcs()), w.id(call.client)).unwrap().0, w.id(a.server));
}

fn context(w: &mut World, indices: &[usize]) {
    for i in indices {
        w.spans[*i].trace_id = Some(TraceId([3; 16]));
        w.spans[*i].parent_span_id = Some(SpanId(77));
        w.spans[*i].target = "/cart/7".into();
    }
}

/// A client that sends one context with all its requests: a quick one lies within a slow one, and is not made by it.
#[test]
fn a_repeated_context_is_no_sign_that_one_request_made_the_other() {
    let (left, right) = (proc(2, 31, "cart"), proc(2, 32, "cart"));
    for (slow_at, quick_at) in [(left, left), (left, right), (left, proc(3, 33, "cart"))] {
        for client_is_seen in [true, false] {
            let mut w = World::default();
            let slow = w.call(None, USER, slow_at, T0, T0 + 20 * MS);
            let quick = w.call(None, USER, quick_at, T0 + 5 * MS, T0 + 15 * MS);
            context(&mut w, &[slow.client, slow.server, quick.client, quick.server]);
            let (calls, requests) = ([slow.client, quick.client], [slow.server, quick.server]);
            let none = calls.iter().chain(&requests[..]).map(|i| w.id(*i)).collect::<Vec<_>>();
            let mut spans = w.spans.clone();
            spans.retain(|s| client_is_seen || s.tap == TapSide::ServerProcess);
            let traces = link(spans.into_iter().map(Arc::new).collect());
            for id in none.iter().skip(if client_is_seen { 0 } else { 2 }) {
                let found = link_of(&traces, *id);
                assert!(found.is_none_or(|l| l.1 == Evidence::Wire), "{quick_at:?} {client_is_seen} {found:?}");
            }
        }
    }
}

/// The calls of a client that nothing else is known of go elsewhere by their addresses, which a gateway translates.
#[test]
fn a_client_that_repeats_a_context_is_not_called_by_what_it_calls() {
    let mut w = World::default();
    let slow = w.call(None, USER, cart(), T0, T0 + 20 * MS);
    let quick = w.call(None, USER, cart(), T0 + 5 * MS, T0 + 15 * MS);
    context(&mut w, &[slow.client, slow.server, quick.client, quick.server]);
    w.spans[slow.server].tuple.server.port = 8080;
    w.spans[slow.server].tuple.client.ip = [10, 0, 9, 9].into();
    let found = link_of(&link(w.arcs()), w.id(quick.client));
    assert_eq!(found, None);
}

/// Proxies with a connection between them that cannot be read, which forward the context as it is.
#[test]
fn a_context_joins_two_proxies_whose_connection_cannot_be_read() {
    let mut w = World::default();
    let (near, far) = (proc(3, 51, "near"), proc(4, 52, "far"));
    let a = w.call(None, USER, near, T0, T0 + 20 * MS);
    let b = w.call(None, far, cart(), T0 + 5 * MS, T0 + 15 * MS);
    context(&mut w, &[a.client, a.server, b.client, b.server]);
    assert_eq!(link_of(&link(w.arcs()), w.id(b.client)), Some((w.id(a.server), Evidence::Forwarded, 0.75)));
    // The far proxy is not traced either.
    w.spans.remove(b.client);
    let server = w.spans.last().unwrap().id;
    assert_eq!(link_of(&link(w.arcs()), server), Some((w.id(a.server), Evidence::Forwarded, 0.75)));
}
