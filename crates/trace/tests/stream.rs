//! Traces from a live stream of spans.
#![allow(clippy::unwrap_used)]

mod world;
use proptest::prelude::{any, prop, proptest, ProptestConfig};
use std::collections::HashMap;
use std::sync::Arc;
use wirespan_model::{Span, SpanId, Trace};
use wirespan_trace::{link, Stream, StreamConfig};
use world::{check, proc, Call, World, MS, S, T0};

/// user → a → b → c, from the innermost span outwards, as they end.
fn chain(w: &mut World, t: u64) -> Vec<Call> {
    let p = |i: u32| proc(1, 10 + i, ["user", "a", "b", "c"][i as usize]);
    let mut calls: Vec<Call> = Vec::new();
    for i in 0..3u32 {
        let inset = u64::from(i) * 10 * MS;
        calls.push(w.call(calls.last().copied(), p(i), p(i + 1), t + inset, t + S - inset));
    }
    calls
}

fn by_end(w: &World) -> Vec<Arc<Span>> {
    let mut all = w.arcs();
    all.sort_by_key(|s| s.end_ns);
    all
}

#[test]
fn traces_come_out_whole_when_they_are_quiet() {
    let mut w = World::default();
    chain(&mut w, T0);
    chain(&mut w, T0 + 3 * MS);
    let mut out: Vec<Trace> = Vec::new();
    let mut stream = Stream::new(StreamConfig::default());
    stream.tick(T0, &mut |t| out.push(t));
    by_end(&w).into_iter().for_each(|s| stream.push(s, &mut |t| out.push(t)));
    stream.tick(T0 + S, &mut |t| out.push(t));
    assert!(out.is_empty());
    stream.tick(T0 + 3 * S, &mut |t| out.push(t));
    assert_eq!(out.iter().map(|t| t.spans.len()).collect::<Vec<_>>(), [6, 6]);
    assert_eq!(out, link(w.arcs()));
    assert!(stream.kept() > 0, "remembered for late spans");
    stream.tick(T0 + 100 * S, &mut |t| out.push(t));
    assert_eq!(stream.kept(), 0, "and forgotten");
}

#[test]
fn a_connection_that_many_share_all_the_time_is_many_traces() {
    let mut w = World::default();
    w.over_one_connection(100);
    let mut out: Vec<Trace> = Vec::new();
    let mut stream = Stream::new(StreamConfig::default());
    for span in by_end(&w) {
        stream.tick(span.end_ns, &mut |t| out.push(t));
        stream.push(span, &mut |t| out.push(t));
    }
    // Spans arrive for ten seconds; a trace that ended two seconds ago is exported.
    assert_eq!(out.len(), 80);
    assert_eq!(stream.stats().early_groups, 0);
    stream.finish(&mut |t| out.push(t));
    assert_eq!(out, link(w.arcs()));
    assert!(out.iter().all(|t| t.spans.len() == 4 && t.complete));
    assert_eq!(stream.kept(), 0);
}

#[test]
fn who_was_kept_from_pushing_does_not_take_that_time_for_silence() {
    let mut w = World::default();
    chain(&mut w, T0);
    let mut out: Vec<Trace> = Vec::new();
    let mut stream = Stream::new(StreamConfig::default());
    stream.tick(T0, &mut |t| out.push(t));
    // For five seconds no span is pushed, then two batches, with a tick between them.
    let spans = by_end(&w);
    let (first, second) = spans.split_at(3);
    for batch in [first, second] {
        stream.time(T0 + 5 * S);
        batch.iter().for_each(|s| stream.push(Arc::clone(s), &mut |t| out.push(t)));
        stream.tick(T0 + 5 * S, &mut |t| out.push(t));
        assert!(out.is_empty());
    }
    stream.tick(T0 + 8 * S, &mut |t| out.push(t));
    assert_eq!(out, link(w.arcs()));
}

#[test]
fn groups_wait_for_spans_that_are_delayed() {
    let mut w = World::default();
    chain(&mut w, T0);
    let mut out: Vec<Trace> = Vec::new();
    let mut stream = Stream::new(StreamConfig::default());
    stream.tick(T0, &mut |t| out.push(t));
    stream.expect_delay(5 * S);
    by_end(&w).into_iter().for_each(|s| stream.push(s, &mut |t| out.push(t)));
    stream.tick(T0 + 6 * S, &mut |t| out.push(t));
    assert!(out.is_empty());
    stream.tick(T0 + 7 * S, &mut |t| out.push(t));
    assert_eq!(out, link(w.arcs()));
}

#[test]
fn groups_wait_for_spans_whose_delay_was_not_known_when_they_came() {
    let mut w = World::default();
    chain(&mut w, T0);
    let mut out: Vec<Trace> = Vec::new();
    let mut stream = Stream::new(StreamConfig::default());
    stream.tick(T0, &mut |t| out.push(t));
    by_end(&w).into_iter().for_each(|s| stream.push(s, &mut |t| out.push(t)));
    stream.expect_delay(5 * S);
    stream.tick(T0 + 6 * S, &mut |t| out.push(t));
    assert!(out.is_empty());
    stream.tick(T0 + 7 * S, &mut |t| out.push(t));
    assert_eq!(out, link(w.arcs()));
}

#[test]
fn a_group_waits_longer_for_the_request_it_acted_for() {
    let mut w = World::default();
    let calls = chain(&mut w, T0);
    let spans = w.arcs();
    let (early, last): (Vec<_>, Vec<_>) =
        spans.into_iter().partition(|s| s.id != w.id(calls[0].client) && s.id != w.id(calls[0].server));
    let mut out: Vec<Trace> = Vec::new();
    let mut stream = Stream::new(StreamConfig::default());
    stream.tick(T0, &mut |t| out.push(t));
    early.into_iter().for_each(|s| stream.push(s, &mut |t| out.push(t)));
    stream.tick(T0 + 20 * S, &mut |t| out.push(t));
    assert!(out.is_empty(), "the cause has not ended");
    last.into_iter().for_each(|s| stream.push(s, &mut |t| out.push(t)));
    stream.tick(T0 + 23 * S, &mut |t| out.push(t));
    assert_eq!(out, link(w.arcs()));
}

#[test]
fn a_late_span_keeps_the_trace_and_finds_its_parent() {
    let mut w = World::default();
    let calls = chain(&mut w, T0);
    let late = w.id(calls[2].server);
    let (late, early): (Vec<_>, Vec<_>) = w.arcs().into_iter().partition(|s| s.id == late);
    let mut out: Vec<Trace> = Vec::new();
    let mut stream = Stream::new(StreamConfig::default());
    stream.tick(T0, &mut |t| out.push(t));
    early.into_iter().for_each(|s| stream.push(s, &mut |t| out.push(t)));
    stream.tick(T0 + 5 * S, &mut |t| out.push(t));
    late.into_iter().for_each(|s| stream.push(s, &mut |t| out.push(t)));
    stream.tick(T0 + 10 * S, &mut |t| out.push(t));
    assert_eq!(out.iter().map(|t| t.spans.len()).collect::<Vec<_>>(), [5, 1]);
    assert_eq!(out[1].id, out[0].id);
    assert_eq!(out[1].spans[0].link.unwrap().parent, w.id(calls[2].client));
    assert_eq!(stream.stats().late_spans, 1);
}

#[test]
fn a_span_twice_is_one() {
    let mut w = World::default();
    chain(&mut w, T0);
    let mut out = 0;
    let mut stream = Stream::new(StreamConfig::default());
    for s in w.arcs().into_iter().chain(w.arcs()) {
        stream.push(s, &mut |_| out += 1);
    }
    stream.finish(&mut |t| out += t.spans.len());
    assert_eq!((out, stream.stats().duplicates), (6, 6));
}

#[test]
fn memory_is_bounded_and_nothing_is_lost() {
    let mut w = World::default();
    for i in 0..2000 {
        let c = w.call(None, proc(1, 1, "a"), proc(2, 2, "b"), T0 + i * MS, T0 + i * MS + MS);
        // Every tenth span has the same trace id, so one group never ends.
        if i % 10 == 0 {
            w.spans[c.client].trace_id = Some(wirespan_model::TraceId([1; 16]));
        }
    }
    let config = StreamConfig { max_spans: 200, max_group: 50, ..StreamConfig::default() };
    let mut out: HashMap<SpanId, usize> = HashMap::new();
    let mut count = |t: Trace| t.spans.iter().for_each(|s| *out.entry(s.span.id).or_default() += 1);
    let mut stream = Stream::new(config);
    for s in w.arcs() {
        stream.push(s, &mut count);
        assert!(stream.kept() <= 200);
    }
    stream.finish(&mut count);
    assert_eq!((stream.kept(), out.len()), (0, 4000));
    assert!(out.values().all(|n| *n == 1));
    assert!(stream.stats().early_groups > 0);
}

/// More spans than are kept, each trace of them in two batches half a second apart.
#[test]
fn exported_traces_are_dropped_before_incomplete_ones() {
    let mut w = World::default();
    for i in 0..300 {
        chain(&mut w, T0 + i * 100 * MS);
    }
    let mut out: Vec<Trace> = Vec::new();
    let mut stream = Stream::new(StreamConfig { max_spans: 400, ..StreamConfig::default() });
    let mut ticked = T0;
    for s in by_end(&w) {
        while s.end_ns > ticked + 100 * MS {
            ticked += 100 * MS;
            stream.tick(ticked, &mut |t| out.push(t));
        }
        stream.push(s, &mut |t| out.push(t));
        assert!(stream.kept() <= 400);
    }
    stream.finish(&mut |t| out.push(t));
    assert_eq!((stream.stats().early_groups, stream.stats().late_spans), (0, 0));
    assert_eq!(out.iter().map(|t| t.spans.len()).collect::<Vec<_>>(), vec![6; 300]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_order_gives_the_traces_of_the_whole(
        seeds in prop::collection::vec(any::<u64>(), 30),
        starts in prop::collection::vec(0u64..5000, 1..5),
    ) {
        let mut w = World::default();
        starts.iter().for_each(|t| drop(chain(&mut w, T0 + t * MS)));
        let mut spans: Vec<_> = w.arcs().into_iter().zip(seeds.iter().cycle()).collect();
        spans.sort_by_key(|(s, seed)| s.id.0.wrapping_mul(**seed | 1));
        let mut out: Vec<Trace> = Vec::new();
        let mut stream = Stream::new(StreamConfig::default());
        spans.into_iter().for_each(|(s, _)| stream.push(s, &mut |t| out.push(t)));
        stream.finish(&mut |t| out.push(t));
        out.iter().for_each(check);
        out.sort_by_key(|t| (t.spans[0].span.start_ns, t.spans[0].span.id));
        assert_eq!(out, link(w.arcs()));
    }
}
