//! The search: the same trace from each of its spans, one look-up per key, bounded.
#![allow(clippy::unwrap_used)]

#[path = "world/memory.rs"]
mod memory;
mod world;
use memory::Mem;
use proptest::prelude::{any, prop, proptest, ProptestConfig, Strategy};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;
use wirespan_model::{ExchangeRange, Key, KeyKind, Span, SpanId, Status, TapSide, Trace, TraceId};
use wirespan_trace::{assemble, link, AssembleError, Limits};
use world::{check, proc, World, MS, S, T0, US};

/// A tree of calls: each entry is the index of its parent among the earlier ones.
fn tree(w: &mut World, shape: &[usize], t: u64, host: u64) {
    let mut calls = Vec::new();
    for (i, up) in shape.iter().enumerate() {
        let i = i as u64;
        let parent = (!calls.is_empty()).then(|| calls[up % calls.len()]);
        let from = proc(host + (i * 7) % 5, 100 + i as u32, "from");
        let from = parent.map_or(from, |p: world::Call| {
            let s = &w.spans[p.server];
            proc(s.host_id, s.pid, "mid")
        });
        // All inside 10 s: each starts after its parent and ends before it.
        let (start, end) = match parent {
            None => (t, t + 10 * S),
            Some(p) => (w.spans[p.server].start_ns + US, w.spans[p.server].end_ns - US),
        };
        calls.push(w.call(parent, from, proc(host + (i * 3) % 5, 1000 + i as u32, "to"), start, end));
    }
}

#[test]
fn a_missing_span_is_named_in_the_error() {
    let e = assemble(&Mem::default(), SpanId(0xabc), &Limits::default()).unwrap_err();
    assert!(matches!(e, AssembleError::NotFound(_)));
    assert_eq!(e.to_string(), "there is no span 0000000000000abc");
}

#[test]
fn each_key_is_asked_once() {
    let mut w = World::default();
    tree(&mut w, &[0, 0, 0, 1, 1, 2, 3, 4], T0, 1);
    let store = Mem::of(w.arcs());
    let trace = assemble(&store, w.id(5), &Limits::default()).unwrap();
    assert_eq!(trace.spans.len(), 16);
    let asked: Vec<Key> = store.finds.lock().unwrap().iter().flatten().copied().collect();
    let distinct: HashSet<Key> = asked.iter().copied().collect();
    assert_eq!(asked.len(), distinct.len());
}

#[test]
fn requests_over_one_connection_are_not_one_search() {
    let mut w = World::default();
    let calls = w.over_one_connection(100);
    let store = Mem::of(w.arcs());
    let trace = assemble(&store, w.id(calls[50].server), &Limits::default()).unwrap();
    assert_eq!(trace.spans.len(), 4);
    let asked = store.finds.lock().unwrap().iter().flatten().count();
    assert!(asked < 20, "{asked} keys");
}

#[test]
fn a_thousand_and_five_thousand_spans() {
    for (calls, deep) in [(500, false), (2500, false), (500, true)] {
        let mut w = World::default();
        let shape: Vec<usize> = (0..calls).map(|i| if deep { i.max(1) - 1 } else { i / 3 }).collect();
        tree(&mut w, &shape, T0, 1);
        // As many unrelated spans again.
        tree(&mut w, &shape, T0, 100);
        let store = Mem::of(w.arcs());
        let begin = Instant::now();
        let trace = assemble(&store, w.id(calls), &Limits::default()).unwrap();
        let took = begin.elapsed();
        let rounds = store.finds.lock().unwrap().len();
        println!("{} spans{}: {took:?}, {rounds} look-ups", calls * 2, if deep { " in one chain" } else { "" });
        assert_eq!((trace.spans.len(), trace.complete), (calls * 2, true));
        check(&trace);
        for s in &trace.spans {
            assert_eq!(s.link.map(|l| l.parent), w.truth[&s.span.id]);
        }
        assert!(took.as_secs() < 20, "hangs");
    }
}

#[test]
fn a_limit_is_said() {
    let mut w = World::default();
    tree(&mut w, &(0..100).map(|i| i / 3).collect::<Vec<_>>(), T0, 1);
    let store = Mem::of(w.arcs());
    for max_spans in [1, 2, 50, 199] {
        let trace = assemble(&store, w.id(0), &Limits { max_spans, ..Limits::default() }).unwrap();
        assert!(!trace.complete, "{max_spans}");
        check(&trace);
    }
    assert!(assemble(&store, w.id(0), &Limits::default()).unwrap().complete);
    let trace = assemble(&store, w.id(0), &Limits { max_rounds: 2, ..Limits::default() }).unwrap();
    assert!(!trace.complete);
}

#[test]
fn a_hub_does_not_pull_in_everything() {
    // A client that never changes its X-Request-ID: 3000 requests, one per second.
    let mut w = World::default();
    for i in 0..3000 {
        let c = w.call(None, proc(1, 1, "bot"), proc(2, 2, "api"), T0 + i * 3 * S, T0 + i * 3 * S + MS);
        for j in [c.client, c.server] {
            w.spans[j].request_id = Some("constant".into());
        }
    }
    let store = Mem::of(w.arcs());
    let trace = assemble(&store, w.id(3001), &Limits::default()).unwrap();
    assert_eq!(trace.spans.len(), 2);
}

fn ids(spans: &[Arc<Span>]) -> Vec<SpanId> {
    spans.iter().map(|s| s.id).collect()
}

/// Spans whose keys are all drawn from a small set, so that they contradict each other.
fn chaos() -> impl Strategy<Value = Vec<Arc<Span>>> {
    let one = (
        (0u8..9, 0u64..40, 0u64..40, 0u8..9),
        prop::option::of(0u32..4),
        prop::option::of(0u32..4),
        (prop::option::of(1u64..6), prop::option::of(1u64..6)),
        (prop::option::of(0u64..12), prop::option::of(0u8..3)),
        (prop::option::of(0u8..3), prop::option::of(0u64..3), 0u32..3, 0u64..2),
        any::<bool>(),
    );
    prop::collection::vec(one, 1..60).prop_map(|all| {
        let statuses = [Status::Ok, Status::NoResponse, Status::OneWay];
        let spans = all.into_iter().enumerate().map(|(i, s)| {
            let ((tap, start, len, status), request_seq, response_seq, (exchange, cause), carried, ids, port) = s;
            Arc::new(Span {
                id: SpanId(i as u64),
                tap: TapSide::ALL[tap as usize],
                start_ns: T0 + start * 500 * MS,
                end_ns: T0 + (start + len) * 500 * MS,
                status: statuses[status as usize % 3],
                request_seq,
                response_seq,
                exchange: exchange.map(|e| ExchangeRange { first: e, last: e + 2 }),
                cause,
                parent_span_id: carried.0.map(SpanId),
                trace_id: carried.1.map(|t| TraceId([t; 16])),
                request_id: ids.0.map(|r| format!("r{r}").into()),
                message_id: ids.1,
                pid: ids.2,
                host_id: ids.3,
                tuple: wirespan_model::FiveTuple {
                    client: wirespan_model::Endpoint::new([10, 0, 0, 1].into(), 1000 + u16::from(port)),
                    server: wirespan_model::Endpoint::new([10, 0, 0, 2].into(), 80),
                    ..Default::default()
                },
                ..Span::default()
            })
        });
        spans.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn links_are_a_forest_whatever_the_spans(spans in chaos()) {
        let traces = link(spans.clone());
        traces.iter().for_each(check);
        let mut out: Vec<SpanId> = traces.iter().flat_map(|t| &t.spans).map(|s| s.span.id).collect();
        out.sort_unstable();
        assert_eq!(out, ids(&spans), "every span in one trace");
    }

    #[test]
    fn links_do_not_depend_on_the_order(spans in chaos(), seed in any::<u64>()) {
        let mut other = spans.clone();
        other.sort_by_key(|s| s.id.0.wrapping_mul(seed | 1).rotate_left(17));
        assert_eq!(link(spans), link(other));
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn chaos_gives_the_same_trace_from_each_span(spans in chaos()) {
        let store = Mem::of(spans.iter().cloned());
        let all: HashMap<SpanId, Trace> =
            spans.iter().map(|s| (s.id, assemble(&store, s.id, &Limits::default()).unwrap())).collect();
        for (id, trace) in &all {
            check(trace);
            assert!(trace.spans.iter().any(|s| s.span.id == *id));
            for other in &trace.spans {
                assert_eq!(&all[&other.span.id], trace);
            }
        }
    }

    #[test]
    fn trees_come_back_whole_from_each_span(shapes in prop::collection::vec(prop::collection::vec(0usize..20, 1..20),
        1..4)) {
        let mut w = World::default();
        for (i, shape) in shapes.iter().enumerate() {
            tree(&mut w, shape, T0 + i as u64 * 100 * MS, 1);
        }
        let store = Mem::of(w.arcs());
        let mut sizes = Vec::new();
        for s in &w.spans {
            let trace = assemble(&store, s.id, &Limits::default()).unwrap();
            for t in &trace.spans {
                assert_eq!(t.link.map(|l| l.parent), w.truth[&t.span.id]);
            }
            assert!(trace.complete);
            sizes.push(trace.spans.len());
        }
        let expected: Vec<usize> = shapes.iter().flat_map(|s| std::iter::repeat_n(s.len() * 2, s.len() * 2)).collect();
        assert_eq!(sizes, expected);
    }
}

#[test]
fn keys_of_every_kind_are_used() {
    // A new kind of key in the model needs a rule in the search.
    assert_eq!(KeyKind::ALL.len(), 7);
}
