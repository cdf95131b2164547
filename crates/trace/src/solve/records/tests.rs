use super::*;
use wirespan_model::test_support::SpanBuilder;
use wirespan_model::Evidence;

const MS: u64 = 1_000_000;
const PLACE: [&str; 2] = ["orders", "bills"];

fn fetch(exchange: u64, topic: usize, first: i64, last: i64, at_ns: u64) -> Arc<Span> {
    let span = SpanBuilder::client(exchange)
        .request("kafka", "Fetch", PLACE[topic])
        .status(Status::Ok, None)
        .time(at_ns.saturating_sub(MS), at_ns)
        .exchange(exchange, exchange)
        .attr("messaging.system.name", "kafka")
        .attr("messaging.destination.name", PLACE[topic])
        .attr("messaging.destination.partition.id", "0")
        .attr("kafka.offset", first)
        .attr("wirespan.kafka.last_offset", last)
        .attr("messaging.batch.message_count", last - first + 1)
        .build();
    Arc::new(span)
}

fn call(id: u64, path: &str, at_ns: u64, cause: u64) -> Arc<Span> {
    let call = SpanBuilder::client(id).request("http", "GET", path).time(at_ns, at_ns + MS);
    Arc::new(call.status(Status::Ok, 200).cause(cause, Evidence::EventLoop).build())
}

/// Orders make two calls, bills one. Returns the spans, and for each call topic and offset of its record.
fn consumer(records: &mut Records) -> FxHashMap<SpanId, (usize, i64)> {
    let (mut truth, mut at_ns, mut next) = (FxHashMap::default(), MS, [0, 0]);
    for n in 0..60 {
        let (topic, exchange, many) = (n % 2, 1 << 24 | n as u64, 1 + n as i64 % 5);
        let first = next[topic];
        next[topic] += many;
        records.add(&fetch(exchange, topic, first, next[topic] - 1, at_ns));
        for offset in first..next[topic] {
            for path in [["/ship", "/pay"].as_slice(), &["/bill"]][topic] {
                at_ns += 2 * MS;
                let call = call(1_000 + truth.len() as u64, path, at_ns, exchange);
                truth.insert(call.id, (topic, offset));
                assert!(records.may_have_made(&call, false));
                records.add_call(call);
            }
        }
    }
    truth
}

#[test]
fn each_record_gets_its_calls() {
    let mut records = Records::default();
    let truth = consumer(&mut records);
    let (mut calls, mut made) = (Vec::new(), FxHashMap::default());
    while records.is_due(u64::MAX) {
        records.solve(u64::MAX, 0.5, &mut |span, verdict| match verdict {
            Verdict::Made => drop(made.insert(span.exchange.map_or(0, |e| e.first), span)),
            Verdict::Named(named) => calls.push((span, named)),
            _ => panic!("{span:?} {verdict:?}"),
        });
    }
    assert_eq!(calls.len(), truth.len());
    for (call, named) in &calls {
        let record = &made[&named.exchange];
        let (topic, offset) = truth[&call.id];
        let moved = kafka_records(record);
        assert_eq!((moved[0].topic, moved[0].first, moved[0].last), (PLACE[topic], offset as u64, offset as u64));
        assert!(record.start_ns <= call.start_ns && call.end_ns <= record.end_ns);
        assert_eq!((named.evidence, record.kind), (Evidence::EventLoop, SpanKind::Consumer));
    }
    assert_eq!(made.len(), 180, "a span for each record");
    assert!(!records.waits());
}

#[test]
fn only_calls_for_records_wait() {
    let mut records = Records::default();
    let claimed = call(1, "/ship", 9 * MS, 1 << 24 | 1);
    assert!(!records.may_have_made(&claimed, false), "nothing was fetched");
    records.add(&fetch(1 << 24 | 1, 0, 0, 3, MS));
    assert!(records.may_have_made(&claimed, true));
    assert!(!records.may_have_made(&call(2, "/ship", 9 * MS, 2 << 24 | 1), true), "made for a request");
    let nothing = Arc::new(Span { cause: None, cause_evidence: None, ..Span::clone(&claimed) });
    assert!(records.may_have_made(&nothing, false) && !records.may_have_made(&nothing, true));
    let beat = Arc::new(Span { protocol: "kafka".into(), operation: "Heartbeat".into(), ..Span::clone(&claimed) });
    assert!(!records.may_have_made(&beat, true));
}

#[test]
fn what_was_fetched_before_is_no_new_record() {
    let mut records = Records::default();
    records.add(&fetch(1 << 24 | 1, 0, 0, 3, MS));
    records.add(&fetch(1 << 24 | 2, 0, 2, 5, MS));
    let offsets: Vec<u64> = records.records.values().map(|record| record.offset).collect();
    assert_eq!(offsets, [0, 1, 2, 3, 4, 5]);
    records.add(&fetch(1 << 24 | 3, 0, 0, 1, MS));
    assert_eq!(records.records.len(), 8, "the consumer goes back");
}

#[test]
fn what_follows_the_last_record_that_was_seen_is_for_others() {
    let mut records = Records::default();
    consumer(&mut records);
    // The next fetch was captured as far as its second record. Its consumer works on ten.
    let start_ns = 100_000 * MS;
    let cut = fetch(9 << 24 | 1, 1, 500, 501, start_ns);
    let is_count = |(key, _): &(std::borrow::Cow<'static, str>, Value)| key == "messaging.batch.message_count";
    let attrs = cut.attrs.iter().filter(|attr| !is_count(attr)).cloned().collect();
    records.add(&Arc::new(Span { attrs, ..Span::clone(&cut) }));
    records.solve(start_ns - MS, 0.5, &mut |_, _| {});
    for n in 0..10 {
        records.add_call(call(5_000 + n, "/bill", start_ns + (2 + 2 * n) * MS, 9 << 24 | 1));
    }
    let mut named = Vec::new();
    records.solve(u64::MAX, 0.5, &mut |span, verdict| {
        if span.id.0 >= 5_000 && span.id.0 < 5_010 && matches!(verdict, Verdict::Named(_)) {
            named.push(span.id.0);
        }
    });
    assert!(named.len() <= 2, "{named:?}");
}
