//! Links between traces, from the spans that sent messages to the spans that received them.
#![allow(clippy::unwrap_used)]

#[path = "world/memory.rs"]
mod memory;
mod world;
use memory::Mem;
use std::collections::HashMap;
use std::sync::Arc;
use wirespan_model::test_support::SpanBuilder;
use wirespan_model::{Endpoint, Evidence, ExchangeRange, Span, SpanId, SpanKind, Status, TapSide, Trace};
use wirespan_trace::{assemble, fill_links, link, Limits, Stream, StreamConfig};
use world::{parents, MS, S, T0};

fn kafka(id: u64, operation: &'static str, first: i64, last: i64, at: u64) -> Span {
    SpanBuilder::client(id)
        .request("kafka", operation, "")
        .status(Status::Ok, None)
        .time(at, at + MS)
        .process(id as u32, 0, "")
        .host(1)
        .sequence(id as u32 * 1000, id as u32 * 1000 + 1)
        .attr("messaging.destination.name", "orders")
        .attr("messaging.destination.partition.id", "0")
        .attr("kafka.offset", first)
        .attr("wirespan.kafka.last_offset", last)
        .build()
}

/// The same request, observed at the broker.
fn at_broker(id: u64, span: &Span) -> Span {
    Span { id: SpanId(id), tap: TapSide::ServerProcess, kind: SpanKind::Server, pid: 99, ..span.clone() }
}

fn arcs(spans: Vec<Span>) -> Vec<Arc<Span>> {
    spans.into_iter().map(Arc::new).collect()
}

fn linked(trace: &Trace, id: u64) -> Vec<u64> {
    let span = trace.spans.iter().find(|s| s.span.id == SpanId(id)).unwrap();
    assert!(span.links.iter().all(|l| l.evidence == Evidence::Broker));
    span.links.iter().map(|l| l.span.0).collect()
}

/// Two batches and one of another time; a fetch that takes the end of the first and the second, and one that takes all.
fn story() -> Vec<Span> {
    let mut spans = vec![
        kafka(1, "Produce", 0, 4, T0),
        kafka(2, "Produce", 5, 5, T0 + 10 * MS),
        kafka(3, "Produce", 6, 9, T0 + 20 * MS),
        kafka(4, "Fetch", 3, 5, T0 + 30 * MS),
        kafka(5, "Fetch", 0, 9, T0 + 40 * MS),
    ];
    let brokers: Vec<Span> = spans.iter().map(|s| at_broker(s.id.0 + 10, s)).collect();
    spans.extend(brokers);
    spans
}

#[test]
fn many_to_many_in_both_directions_at_the_ends() {
    let store = Mem::of(arcs(story()));
    let whole = |id| {
        let mut trace = assemble(&store, SpanId(id), &Limits::default()).unwrap();
        assert_eq!(trace.spans.len(), 2, "messages link traces, they do not join them");
        fill_links(&store, &mut trace, &Limits::default()).unwrap();
        trace
    };
    assert_eq!(linked(&whole(4), 4), [1, 2]);
    assert_eq!(linked(&whole(5), 5), [1, 2, 3]);
    assert_eq!(linked(&whole(1), 1), [4, 5]);
    assert_eq!(linked(&whole(3), 3), [5]);
    assert!(linked(&whole(5), 15).is_empty(), "the broker's span of the same request says it once");
    let link = whole(4).spans.iter().find(|s| s.span.id == SpanId(4)).unwrap().links[0];
    assert!(link.sent && link.confidence > 0.9);
    assert_eq!(link.trace, Some(whole(1).id));
    assert!(!whole(1).spans.iter().find(|s| s.span.id == SpanId(1)).unwrap().links[0].sent);
}

/// Records that a producer gathered from several requests have spans of their own, which say more than the produce.
#[test]
fn a_record_with_a_span_of_its_own_is_what_its_consumer_is_linked_to() {
    let gathered = Span { attrs: vec![("wirespan.kafka.created".into(), true.into())], ..Span::default() }.attrs;
    let mut sent = kafka(1, "Produce", 0, 2, T0);
    sent.attrs.extend(gathered);
    let record = |n: i64| Span { request_seq: None, response_seq: None, ..kafka(20 + n as u64, "create", n, n, T0) };
    let fetch = kafka(4, "Fetch", 0, 2, T0 + 30 * MS);
    let process =
        |n: i64| Span { request_seq: None, response_seq: None, ..kafka(40 + n as u64, "process", n, n, T0 + 40 * MS) };
    let mut spans = vec![at_broker(11, &sent), sent, at_broker(14, &fetch), fetch];
    spans.extend((0..3).flat_map(|n| [record(n), process(n)]));
    let store = Mem::of(arcs(spans));
    let links = |id| {
        let mut trace = assemble(&store, SpanId(id), &Limits::default()).unwrap();
        fill_links(&store, &mut trace, &Limits::default()).unwrap();
        linked(&trace, id)
    };
    assert_eq!([links(40), links(41), links(42)], [[20], [21], [22]]);
    assert_eq!(links(4), [20, 21, 22]);
    assert_eq!(links(21), [4, 41]);
}

#[test]
fn what_the_brokers_end_shows_of_a_fetch_counts() {
    let mut spans =
        vec![kafka(1, "Produce", 0, 4, T0), kafka(2, "Produce", 5, 9, T0 + MS), kafka(3, "Fetch", 0, 0, T0 + 10 * MS)];
    let mut broker = at_broker(13, &spans[2]);
    broker.attrs = kafka(0, "Fetch", 0, 9, 0).attrs;
    spans.push(broker);
    let spans = arcs(spans);
    let mut trace = assemble(&Mem::of(spans.clone()), SpanId(3), &Limits::default()).unwrap();
    fill_links(&Mem::of(spans.clone()), &mut trace, &Limits::default()).unwrap();
    assert_eq!(linked(&trace, 3), [1, 2]);
    let mut out: Vec<Trace> = Vec::new();
    let mut stream = Stream::new(StreamConfig::default());
    stream.tick(T0, &mut |t| out.push(t));
    spans.into_iter().for_each(|s| stream.push(s, &mut |t| out.push(t)));
    stream.finish(&mut |t| out.push(t));
    assert_eq!(linked(out.last().unwrap(), 3), [1, 2]);
}

#[test]
fn what_came_before_it_was_sent_is_of_another_time() {
    let mut spans = story();
    spans.push(kafka(6, "Fetch", 6, 9, T0 - S));
    let mut other = kafka(7, "Fetch", 6, 9, T0 + S);
    other.tuple.server = Endpoint { ip: "10.0.0.9".parse().unwrap(), port: 9092 };
    spans.push(other);
    let store = Mem::of(arcs(spans));
    let mut trace = assemble(&store, SpanId(6), &Limits::default()).unwrap();
    fill_links(&store, &mut trace, &Limits::default()).unwrap();
    assert!(linked(&trace, 6).is_empty());
    let mut trace = assemble(&store, SpanId(7), &Limits::default()).unwrap();
    fill_links(&store, &mut trace, &Limits::default()).unwrap();
    assert_eq!(linked(&trace, 7), [3]);
    assert!(trace.spans[0].links[0].confidence < 0.9, "another address may be another cluster");
}

#[test]
fn exported_traces_name_their_senders() {
    for (reversed, ended) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut spans = arcs(story());
        if reversed {
            spans.reverse();
        }
        let mut out: Vec<Trace> = Vec::new();
        let mut stream = Stream::new(StreamConfig::default());
        stream.tick(T0, &mut |t| out.push(t));
        spans.into_iter().for_each(|s| stream.push(s, &mut |t| out.push(t)));
        if ended {
            stream.finish(&mut |t| out.push(t));
        }
        for second in 1..40 {
            stream.tick(T0 + second * S, &mut |t| out.push(t));
        }
        assert_eq!(out.len(), 5);
        let of = |id| out.iter().find(|t| t.spans.iter().any(|s| s.span.id == SpanId(id))).unwrap();
        assert_eq!(linked(of(5), 5), [1, 2, 3]);
        assert!(linked(of(5), 15).is_empty() && linked(of(1), 1).is_empty(), "export points back only");
        for link in &of(4).spans.iter().find(|s| s.span.id == SpanId(4)).unwrap().links {
            assert_eq!(link.trace, Some(of(link.span.0).id));
        }
        stream.tick(T0 + 200 * S, &mut |t| out.push(t));
        assert_eq!(stream.kept(), 0);
    }
}

#[test]
fn a_message_that_waited_for_long_still_names_its_sender() {
    let mut out: Vec<Trace> = Vec::new();
    let mut stream = Stream::new(StreamConfig::default());
    stream.push(Arc::new(kafka(1, "Produce", 0, 4, T0)), &mut |t| out.push(t));
    for minute in 0..20 {
        stream.tick(T0 + minute * 60 * S, &mut |t| out.push(t));
    }
    assert_eq!((out.len(), stream.kept()), (1, 0), "its trace is forgotten");
    stream.push(Arc::new(kafka(2, "Fetch", 0, 4, T0 + 1200 * S)), &mut |t| out.push(t));
    stream.finish(&mut |t| out.push(t));
    let links = &out[1].spans[0].links;
    assert_eq!(links.iter().map(|l| (l.span, l.trace)).collect::<Vec<_>>(), [(SpanId(1), Some(out[0].id))]);
}

#[test]
fn what_a_consumer_calls_belongs_to_the_fetch_that_brought_its_work_last() {
    let exchange = |n| Some(ExchangeRange { first: n, last: n + 1 });
    let fetch = |id, n, at| Span { exchange: exchange(n), ..kafka(id, "Fetch", n as i64, n as i64 + 2, at) };
    let call = |id, cause, at| {
        let (cause, cause_evidence) = (Some(cause), Some(Evidence::Thread));
        Span { operation: "SET".into(), protocol: "redis".into(), cause, cause_evidence, ..kafka(id, "", 0, 0, at) }
    };
    let mut empty = fetch(3, 12, T0 + 80 * MS);
    empty.attrs.clear();
    let mut more = fetch(4, 14, T0 + 100 * MS);
    (more.cause, more.cause_evidence) = (Some(11), Some(Evidence::Thread));
    let spans = vec![
        fetch(1, 10, T0),
        call(11, 11, T0 + 20 * MS),
        // Two fetches belong to exchange 11. The later one read the messages that the process works on now.
        fetch(2, 11, T0 + 30 * MS),
        call(12, 11, T0 + 60 * MS),
        empty,
        call(13, 13, T0 + 90 * MS),
        more,
        call(14, 14, T0 + 100 * S),
    ];
    let parents: HashMap<SpanId, Option<SpanId>> = parents(&link(arcs(spans)));
    let parent = |id| parents[&SpanId(id)].map(|p| p.0);
    assert_eq!((parent(11), parent(12)), (Some(1), Some(2)));
    assert_eq!(parent(13), None, "nothing came with it");
    assert_eq!(parent(4), None, "more work is asked for by nobody");
    assert_eq!(parent(14), None, "long after");
}

fn redis(id: u64, operation: &'static str, key: &'static str, elements: &'static str, at: u64) -> Span {
    SpanBuilder::client(id)
        .request("redis", operation, "")
        .status(Status::Ok, None)
        .time(at, at + MS)
        .process(id as u32, 0, "")
        .host(1)
        .sequence(id as u32 * 1000, id as u32 * 1000 + 1)
        .attr(key, elements)
        .build()
}

#[test]
fn an_element_of_redis_has_one_sender_and_one_taker() {
    let (put, taken) = ("wirespan.redis.put", "wirespan.redis.taken");
    let mut spans = vec![
        redis(1, "LPUSH", put, "a1", T0),
        redis(2, "LPUSH", put, "b2 c3", T0 + 10 * MS),
        redis(3, "BRPOP", taken, "a1", T0 + 20 * MS),
        // Failed, put aside until later, and tried again.
        redis(4, "ZADD", put, "a1", T0 + 30 * MS),
        redis(5, "ZPOPMIN", taken, "a1", T0 + 40 * MS),
        // A batch; its members have a text in common with one that came before.
        redis(6, "XADD", put, "d4 e5", T0 + 50 * MS),
        redis(7, "XADD", put, "d4 f6", T0 + 60 * MS),
        redis(8, "XREADGROUP", taken, "d4 e5", T0 + 70 * MS),
        redis(9, "BRPOP", taken, "", T0 + 80 * MS),
    ];
    let servers: Vec<Span> = spans.iter().map(|s| at_broker(s.id.0 + 20, s)).collect();
    spans.extend(servers);
    let store = Mem::of(arcs(spans));
    let links = |id| {
        let mut trace = assemble(&store, SpanId(id), &Limits::default()).unwrap();
        fill_links(&store, &mut trace, &Limits::default()).unwrap();
        linked(&trace, id)
    };
    assert_eq!(links(3), [1]);
    assert_eq!(links(5), [4], "the last one that has put it");
    assert_eq!(links(1), [3], "the first one that has taken it");
    assert_eq!(links(8), [6], "a text that several have in common tells nothing");
    assert!(links(9).is_empty() && links(2).is_empty());
}

/// BullMQ gives and takes jobs by scripts. Jobs have their options in common, or even all they say, and a script may
/// return what it was told.
#[test]
fn a_text_of_few_senders_tells_more_and_no_span_is_its_own_sender() {
    let (put, taken) = ("wirespan.redis.put", "wirespan.redis.taken");
    let script = |id, key, elements, at| redis(id, "EVALSHA", key, elements, at);
    let mut take = script(5, taken, "b2 f9 e5", T0 + 40 * MS);
    take.attrs.push((put.into(), "e5".into()));
    let spans = vec![
        script(1, put, "a1 f9", T0),
        script(2, put, "b2 f9", T0 + 10 * MS),
        script(3, put, "b2 f9", T0 + 20 * MS),
        script(4, put, "c3 f9", T0 + 30 * MS),
        take,
    ];
    let store = Mem::of(arcs(spans));
    let mut trace = assemble(&store, SpanId(5), &Limits::default()).unwrap();
    fill_links(&store, &mut trace, &Limits::default()).unwrap();
    assert_eq!(linked(&trace, 5), [3]);
}
