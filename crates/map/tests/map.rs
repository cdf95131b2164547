//! The dependency map: both ends are one edge, whatever the order, through NAT, with flow records.
#![allow(clippy::unwrap_used)]

mod documents;
#[path = "../../trace/tests/world/mod.rs"]
mod world;

use documents::{document, flow, RANGE};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use wirespan_map::{Document, Edge, LiveConfig, LiveMap, NodeKind, ServiceMap, View};
use wirespan_model::{Endpoint, Flow, FlowCounts, Role, Span, Status, TapSide, Transport};
use world::{failing_shop, proc, World, MS, T0};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn edges(map: &ServiceMap) -> BTreeMap<(String, String, u16), u64> {
    let name = |at: usize| map.nodes[at].name.clone();
    map.edges.iter().map(|e| ((name(e.client), name(e.server), e.port), e.total.count)).collect()
}

/// The observed parts of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen {
    Both,
    Client,
    Server,
}

fn calls() -> impl Strategy<Value = Vec<(usize, usize, Seen, bool)>> {
    let seen = prop_oneof![Just(Seen::Both), Just(Seen::Client), Just(Seen::Server)];
    proptest::collection::vec((0..5usize, 0..5usize, seen, any::<bool>()), 0..60)
}

/// Spans of calls between services, each on a host of its own.
fn observed(calls: &[(usize, usize, Seen, bool)]) -> Vec<Span> {
    let mut w = World::default();
    let mut spans = Vec::new();
    for (n, (from, to, seen, fails)) in calls.iter().enumerate() {
        let end = |i: usize| proc(i as u64 + 1, i as u32 + 1, NAMES[i]);
        let c = w.call(None, end(*from), end(*to), T0 + n as u64 * MS, T0 + n as u64 * MS + MS);
        for i in [c.client, c.server] {
            if *fails {
                w.spans[i].status = Status::ServerError;
            }
        }
        spans.extend((*seen != Seen::Server).then(|| w.spans[c.client].clone()));
        spans.extend((*seen != Seen::Client).then(|| w.spans[c.server].clone()));
    }
    spans
}

proptest! {
    #[test]
    fn every_call_counts_once_whoever_saw_it(calls in calls()) {
        let map = ServiceMap::of_spans(&observed(&calls));
        let total: u64 = map.edges.iter().map(|e| e.total.count).sum();
        prop_assert_eq!(total, calls.len() as u64);
        let failed = calls.iter().filter(|c| c.3).count() as u64;
        prop_assert_eq!(map.edges.iter().map(|e| e.total.errors).sum::<u64>(), failed);
        let views = |f: fn(&Edge) -> &Option<View>| -> u64 {
            map.edges.iter().filter_map(|e| f(e).as_ref()).map(|v| v.calls.count).sum()
        };
        prop_assert_eq!(views(|e| &e.client_view), calls.iter().filter(|c| c.2 != Seen::Server).count() as u64);
        prop_assert_eq!(views(|e| &e.server_view), calls.iter().filter(|c| c.2 != Seen::Client).count() as u64);
        // A call that was seen at both ends is between the two services, and on no other edge.
        let found = edges(&map);
        for (from, to, seen, _) in &calls {
            if *seen == Seen::Both {
                prop_assert!(found.contains_key(&(NAMES[*from].into(), NAMES[*to].into(), 80)));
            }
        }
    }

    #[test]
    fn the_order_of_the_evidence_does_not_matter(calls in calls(), seed in any::<u64>()) {
        let spans = observed(&calls);
        let mut shuffled = spans.clone();
        shuffled.sort_by_key(|s| wirespan_model::key::hash64(&[&seed.to_le_bytes(), &s.id.0.to_le_bytes()]));
        let mut flows: Vec<Flow> = calls.iter().flat_map(|(from, to, seen, _)| {
            let (a, b) = ([10, 0, 0, *from as u8 + 1], [10, 0, 0, *to as u8 + 1]);
            let counts = FlowCounts { opened: 1, bytes_sent: 7, bytes_received: 11, retransmits: 1,
                ..FlowCounts::default() };
            let client = (*seen != Seen::Server).then(|| flow(NAMES[*from], Role::Client, a, b, counts.clone()));
            let server = (*seen != Seen::Client).then(|| flow(NAMES[*to], Role::Server, b, a, counts));
            [client, server].into_iter().flatten()
        }).collect();
        let map = ServiceMap::of_evidence(&spans, &flows);
        flows.reverse();
        let again = ServiceMap::of_evidence(&shuffled, &flows);
        prop_assert_eq!(&map, &again);
        prop_assert_eq!(Document::new(&map, RANGE), Document::new(&again, RANGE));
    }

    #[test]
    fn what_passes_by_adds_up_to_the_map(calls in calls(), seed in any::<u64>(), max_edges in 1..30usize) {
        let mut spans = observed(&calls);
        spans.sort_by_key(|s| wirespan_model::key::hash64(&[&seed.to_le_bytes(), &s.id.0.to_le_bytes()]));
        let now = Instant::now();
        let mut live = LiveMap::new(LiveConfig { max_edges, ..LiveConfig::default() }, now);
        spans.iter().for_each(|s| live.span(&Arc::new(s.clone()), now));
        live.tick(now);
        prop_assert!(live.calls().is_empty(), "nothing is counted before its time");
        live.tick(now + LiveConfig::default().wait);
        let found = live.calls();
        prop_assert!(found.len() <= max_edges + 1);
        prop_assert_eq!(found.iter().map(|(_, sums)| sums.requests).sum::<u64>(), calls.len() as u64);
        let failed = calls.iter().filter(|c| c.3).count() as u64;
        prop_assert_eq!(found.iter().map(|(_, sums)| sums.failed).sum::<u64>(), failed);
        let views: u64 = found.iter().map(|(_, s)| s.client.counts.iter().chain(&s.server.counts).sum::<u64>()).sum();
        prop_assert_eq!(views, spans.len() as u64);
        if live.stats().folded_requests == 0 {
            let mut whole: BTreeMap<(String, String), u64> = BTreeMap::new();
            for ((from, to, _), n) in edges(&ServiceMap::of_spans(&spans)) {
                *whole.entry((from, to)).or_default() += n;
            }
            let live: BTreeMap<_, _> =
                found.iter().map(|(e, s)| ((e.client.to_string(), e.server.to_string()), s.requests)).collect();
            prop_assert_eq!(whole, live);
        }
    }

    #[test]
    fn flow_records_of_both_ends_never_double(pairs in proptest::collection::vec((0..5u8, 0..5u8, 1..100u64, 0..3u8),
        0..20)) {
        // Per pair of services one flow with `n` connections, seen by one or both ends.
        let mut truth: BTreeMap<(u8, u8), (u64, u8)> = BTreeMap::new();
        for (a, b, n, seen) in pairs.into_iter().filter(|p| p.0 != p.1) {
            truth.insert((a, b), (n, seen));
        }
        let mut flows = Vec::new();
        for ((a, b), (n, seen)) in &truth {
            let (from, to) = ([10, 0, 0, a + 1], [10, 0, 0, b + 1]);
            let counts = |sent, received| FlowCounts {
                opened: *n, active: 1, bytes_sent: sent, bytes_received: received, retransmits: 2, resets_sent: 1,
                    ..FlowCounts::default()
            };
            if *seen != 1 {
                flows.push(flow(NAMES[*a as usize], Role::Client, from, to, counts(n * 10, n * 20)));
            }
            if *seen != 2 {
                flows.push(flow(NAMES[*b as usize], Role::Server, to, from, counts(n * 20, n * 10)));
            }
        }
        let document = Document::new(&ServiceMap::of_evidence(&[], &flows), RANGE);
        prop_assert_eq!(document.edges.len(), truth.len());
        for e in &document.edges {
            prop_assert!(e.tcp.from_flows);
            prop_assert_eq!((e.tcp.request_bytes, e.tcp.response_bytes), (e.tcp.opened * 10, e.tcp.opened * 20));
            prop_assert_eq!(e.tcp.active, 1);
            let ends = u64::from(e.client.is_some()) + u64::from(e.server.is_some());
            prop_assert_eq!((e.tcp.retransmits, e.tcp.resets), (2 * ends, 1));
        }
        prop_assert_eq!(document.edges.iter().map(|e| e.tcp.opened).sum::<u64>(),
            truth.values().map(|t| t.0).sum::<u64>());
    }
}

#[test]
fn nat_between_two_observed_ends_is_seen_through() {
    let mut w = World::default();
    for n in 0..3 {
        let c = w.call(None, proc(1, 1, "web"), proc(2, 2, "cart"), T0 + n * MS, T0 + n * MS + MS);
        // The client calls a virtual address; the server sees a router's.
        w.spans[c.client].tuple.server = Endpoint::new([10, 96, 0, 1].into(), 8080);
        w.spans[c.server].tuple.client = Endpoint::new([10, 0, 9, 9].into(), 40_000 + n as u16);
    }
    let map = ServiceMap::of_spans(&w.spans);
    assert_eq!(edges(&map), [(("web".into(), "cart".into(), 80), 3)].into());
    assert_eq!(map.nodes.len(), 2, "neither the virtual address nor the router is a node: {:?}", map.nodes);
}

#[test]
fn a_relay_is_a_node_between_two_edges() {
    let mut w = World::default();
    let (client, relay, server) = (proc(1, 1, "web"), proc(2, 2, "nginx"), proc(3, 3, "cart"));
    let first = w.call(None, client, relay, T0, T0 + 10 * MS);
    w.call(Some(first), relay, server, T0 + MS, T0 + 9 * MS);
    let map = ServiceMap::of_spans(&w.spans);
    let want = [(("nginx".into(), "cart".into(), 80), 1), (("web".into(), "nginx".into(), 80), 1)];
    assert_eq!(edges(&map), want.into());
}

#[test]
fn unobserved_ends_have_the_best_name_known() {
    let mut w = World::default();
    let mut ends = vec![[93, 184, 216, 34], [8, 8, 8, 8], [10, 5, 5, 5]];
    ends.extend((0..40).map(|n| [10, 6, 6, n]));
    for (n, end) in (0u64..).zip(&ends) {
        let c = w.call(None, proc(1, 1, "web"), proc(2, 2, "x"), T0 + n * MS, T0 + n * MS + MS);
        w.spans[c.client].tuple.server = Endpoint::new((*end).into(), 443);
        w.spans.truncate(c.server);
    }
    let mut lookup = w.blank(proc(1, 1, "web"), TapSide::ClientProcess, T0, T0 + MS);
    lookup.protocol = "dns".into();
    lookup.target = "api.example.com".into();
    lookup.attrs = vec![("dns.answers".into(), "alias.example.net,93.184.216.34".into())];
    lookup.tuple.transport = Transport::Udp;
    lookup.tuple.client = Endpoint::new([10, 0, 0, 1].into(), 5353);
    lookup.tuple.server = Endpoint::new([10, 0, 0, 53].into(), 53);
    w.spans.push(lookup);
    let document = Document::new(&ServiceMap::of_spans(&w.spans), RANGE);
    let ids: Vec<&str> = document.nodes.iter().map(|n| n.id.as_str()).collect();
    assert_eq!(
        ids,
        [
            "address:10.0.0.53:53",
            "address:10.5.5.5:443",
            "block:10.6.6.0/24",
            "name:api.example.com",
            "internet:internet",
            "service:web"
        ]
    );
    let dns = document.edges.iter().find(|e| e.to.ends_with(":53")).unwrap();
    assert_eq!((dns.transport.as_str(), dns.protocol.as_str()), ("udp", "dns"));
    let block = document.edges.iter().find(|e| e.to.starts_with("block")).unwrap();
    assert_eq!(block.calls.count, 40);
}

#[test]
fn a_shared_address_is_not_guessed() {
    // Two services of one host call over loopback: the server's one record cannot say which of them.
    let local = [127, 0, 0, 1];
    let mut flows = vec![
        flow("a", Role::Client, local, local, FlowCounts { opened: 2, ..FlowCounts::default() }),
        flow("b", Role::Client, local, local, FlowCounts { opened: 3, ..FlowCounts::default() }),
        flow("s", Role::Server, local, local, FlowCounts { opened: 5, ..FlowCounts::default() }),
    ];
    for (n, flow) in flows.iter_mut().enumerate() {
        flow.key.host_id = 7;
        flow.key.pid = n as u32;
    }
    let document = Document::new(&ServiceMap::of_evidence(&[], &flows), RANGE);
    let got: Vec<_> = document.edges.iter().map(|e| (e.from.as_str(), e.to.as_str(), e.tcp.opened)).collect();
    assert_eq!(got, [("service:b", "service:s", 3), ("service:a", "service:s", 2)]);
}

#[test]
fn how_long_a_connection_lasts_is_not_how_fast_it_answers() {
    let mut w = World::default();
    let c = w.call(None, proc(1, 1, "web"), proc(2, 2, "vault"), T0, T0 + 40_000 * MS);
    for i in [c.client, c.server] {
        w.spans[i].protocol = "".into();
    }
    let one = |map: &Document| {
        (map.edges[0].calls.count, map.edges[0].calls.p95_ns, map.edges[0].client.clone().unwrap().calls.p95_ns)
    };
    let map = Document::new(&ServiceMap::of_spans(&w.spans), RANGE);
    assert_eq!(one(&map), (1, 0, 0));
    // Beside understood calls it is counted separately.
    w.call(None, proc(1, 1, "web"), proc(2, 2, "vault"), T0, T0 + 3 * MS);
    let map = Document::new(&ServiceMap::of_spans(&w.spans), RANGE);
    assert_eq!((map.edges[0].calls.count, map.edges[0].opaque), (1, 1));
    assert!((2 * MS..4 * MS).contains(&map.edges[0].calls.p95_ns), "{:?}", map.edges);
}

#[test]
fn a_document_survives_its_file() {
    let map = document(30, 2, Some("redis"));
    let json = serde_json::to_string(&map).unwrap();
    assert_eq!(serde_json::from_str::<Document>(&json).unwrap(), map);
}

#[test]
fn the_map_knows_who_calls_whom_and_counts_each_call_once() {
    let w = failing_shop();
    let map = ServiceMap::of_spans(&w.spans);
    let name = |i: usize| (map.nodes[i].name.as_str(), map.nodes[i].kind);
    let edges: Vec<_> = map
        .edges
        .iter()
        .map(|e| (name(e.client).0, name(e.server).0, e.protocol(), e.total.count, e.total.errors))
        .collect();
    assert_eq!(
        edges,
        [
            ("10.0.0.9", "gateway", "http", 10, 0),
            ("cart", "10.0.0.3:80", "redis", 10, 1),
            ("gateway", "cart", "http", 10, 0),
        ]
    );
    assert_eq!(name(map.edges[0].client).1, NodeKind::Caller);
    assert_eq!(name(map.edges[1].server).1, NodeKind::Address);
    let cart = &map.edges[2];
    assert!(cart.client_view.is_some() && cart.server_view.is_some() && map.edges[0].client_view.is_none());
    assert!(cart.total.latency.percentile_ns(0.5).abs_diff(10 * MS) < MS);
    let mut turned = w.spans.clone();
    turned.reverse();
    assert_eq!(ServiceMap::of_spans(&turned), map, "the order of spans does not matter");
    let requests: Vec<_> = map.nodes.iter().map(|n| n.requests).collect();
    assert_eq!(requests.iter().sum::<u64>(), 20);
}

#[test]
fn loopback_addresses_are_those_of_their_host() {
    let mut w = World::default();
    for host in [1, 2] {
        let names = if host == 1 { ["c1", "s1"] } else { ["c2", "s2"] };
        let c = w.call(None, proc(host, 1, names[0]), proc(host, 2, names[1]), T0, T0 + MS);
        for i in [c.client, c.server] {
            w.spans[i].tuple.client = Endpoint::new([127, 0, 0, 1].into(), 5000);
            w.spans[i].tuple.server = Endpoint::new([127, 0, 0, 1].into(), 80);
        }
    }
    assert_eq!(w.spans[0].tap, TapSide::ClientProcess);
    let map = ServiceMap::of_spans(&w.spans);
    let pairs: Vec<_> = map.edges.iter().map(|e| (&*map.nodes[e.client].name, &*map.nodes[e.server].name)).collect();
    assert_eq!(pairs, [("c1", "s1"), ("c2", "s2")]);
}

#[test]
fn a_client_error_is_a_failure_of_the_call_at_both_ends() {
    let mut w = World::default();
    let c = w.call(None, proc(1, 1, "a"), proc(2, 2, "b"), T0, T0 + MS);
    for i in [c.client, c.server] {
        w.spans[i].status = Status::ClientError;
    }
    for seen in [vec![c.client, c.server], vec![c.client], vec![c.server]] {
        let spans: Vec<Span> = seen.iter().map(|i| w.spans[*i].clone()).collect();
        let map = ServiceMap::of_spans(&spans);
        let edge = &map.edges[0];
        let views = [&edge.client_view, &edge.server_view].into_iter().flatten();
        assert!(edge.total.errors == 1 && views.clone().all(|view| view.calls.errors == 1), "{edge:?}");
        assert_eq!(map.nodes.iter().map(|node| node.errors).sum::<u64>(), 0, "the server did its work");
    }
}

#[test]
fn calls_that_wait_for_work_are_counted_without_a_latency() {
    let mut w = World::default();
    let quick = w.call(None, proc(1, 1, "a"), proc(2, 2, "b"), T0, T0 + MS);
    let waits = w.call(None, proc(1, 1, "a"), proc(2, 2, "b"), T0, T0 + 5000 * MS);
    for (call, operation) in [(quick, "GET"), (waits, "BLPOP")] {
        for i in [call.client, call.server] {
            (w.spans[i].protocol, w.spans[i].operation) = ("redis".into(), operation.into());
        }
    }
    let total = &ServiceMap::of_spans(&w.spans).edges[0].total;
    assert_eq!((total.count, total.latency.count()), (2, 1));
    assert!(total.latency.max_ns() < 100 * MS, "{total:?}");
}
