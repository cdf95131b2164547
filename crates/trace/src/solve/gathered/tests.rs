use super::*;
use wirespan_model::broker::message_ranges;
use wirespan_model::test_support::SpanBuilder;
use wirespan_model::SpanKind;

const MS: u64 = 1_000_000;

/// A produce of records 5 to `last` of one partition, and of record 9 of another one if `others`.
fn produce(id: u64, last: u64, others: bool) -> Arc<Span> {
    let span = SpanBuilder::client(id)
        .request("kafka", "Produce", "ship")
        .status(Status::Ok, None)
        .time(MS, 2 * MS)
        .sequence(700, Some(70))
        .attr("messaging.system.name", "kafka")
        .attr("messaging.destination.name", "ship")
        .attr("messaging.destination.partition.id", "0")
        .attr("kafka.offset", 5_i64)
        .attr("wirespan.kafka.last_offset", last as i64);
    let span = match others {
        true => span.attr("wirespan.kafka.partitions", &*format!("ship/0:5-{last} pay/1:9-9")),
        false => span,
    };
    let span = span.cause(77, Evidence::WakeUp).build();
    Arc::new(Span { kind: SpanKind::Producer, socket: 3, ..span })
}

/// Gives each record the cause that is decided for it.
fn decided(all: &mut Gathered, span: &Arc<Span>, causes: &[Option<u64>]) -> Vec<Arc<Span>> {
    let records = all.split(&mut span.clone()).expect("several records");
    assert_eq!(records.len(), causes.len());
    let mut out = Vec::new();
    for (record, cause) in records.into_iter().zip(causes) {
        assert_eq!((&*record.operation, record.cause), ("Produce", None), "a call like a produce of one record");
        let evidence = cause.map(|_| Evidence::Inferred);
        let record = Span { cause: *cause, cause_evidence: evidence, ..Span::clone(&record) };
        all.give(Arc::new(record), &mut |span| out.push(span));
    }
    assert!(all.sent.is_empty() && all.parts.is_empty());
    out
}

#[test]
fn records_of_several_requests_have_spans_of_their_own() {
    let (mut all, sent) = (Gathered::default(), produce(1, 6, true));
    let out = decided(&mut all, &sent, &[Some(100), Some(200), None]);
    let [whole, first, second, third] = &out[..] else { panic!("{out:?}") };
    assert_eq!((whole.id, whole.cause, whole.cause_evidence), (sent.id, None, None));
    assert!(whole.attrs.iter().any(|(key, _)| key == KAFKA_CREATED));
    assert_eq!([first.cause, second.cause, third.cause], [Some(100), Some(200), None]);
    assert_eq!([first.name(), second.name(), third.name()], ["create ship", "create ship", "create pay"]);
    assert!(out[1..].iter().all(|record| record.request_seq.is_none() && record.start_ns == sent.start_ns));
    // Together they are at the same places as what the produce sent.
    let whole = message_ranges(whole);
    let places: Vec<_> = out[1..].iter().flat_map(|record| message_ranges(record)).collect();
    assert_eq!(places.iter().map(|p| p.first).collect::<Vec<_>>(), [5, 6, 9]);
    assert!(places.iter().all(|p| whole.iter().any(|w| w.overlaps(p))));
}

#[test]
fn records_of_one_request_stay_together() {
    let mut all = Gathered::default();
    let out = decided(&mut all, &produce(1, 7, false), &[Some(100); 3]);
    assert_eq!(out.len(), 1);
    assert_eq!((out[0].cause, out[0].cause_evidence), (Some(100), Some(Evidence::Inferred)));
    // Of what nothing is known, an inherited claim says nothing either.
    let out = decided(&mut all, &produce(2, 7, false), &[None; 3]);
    assert_eq!((out.len(), out[0].cause), (1, None));
}

#[test]
fn a_single_record_loses_its_claim_only_where_records_of_several_requests_are_gathered() {
    let mut all = Gathered::default();
    let claim = |all: &mut Gathered| {
        let mut span = produce(9, 5, false);
        assert!(all.split(&mut span).is_none());
        span.cause
    };
    assert_eq!(claim(&mut all), Some(77), "nothing was gathered");
    decided(&mut all, &produce(1, 6, false), &[Some(1), Some(2)]);
    assert_eq!(claim(&mut all), None);
    // A connection on which each produce is for one request.
    let mut all = Gathered::default();
    (0..20).for_each(|n| drop(decided(&mut all, &produce(n, 6, false), &[Some(1); 2])));
    assert_eq!(claim(&mut all), Some(77));
}

#[test]
fn what_the_thread_of_a_request_sends_is_for_that_request() {
    let mut all = Gathered::default();
    let own = Span { cause_evidence: Some(Evidence::Thread), ..Span::clone(&produce(1, 6, false)) };
    assert!(!may_be_gathered(&own));
    let refused = Span { status: Status::ServerError, ..Span::clone(&produce(1, 6, false)) };
    assert!(!may_be_gathered(&refused) && may_be_gathered(&produce(1, 6, false)));
    assert!(all.split(&mut produce(1, 5 + MAX_RECORDS, false)).is_none(), "too many");
}

/// Two requests are read, their records are sent together, and both are answered when the broker has answered.
#[test]
fn what_is_sent_before_the_first_answer_is_for_several_requests_too() {
    use super::super::{Solver, SolverConfig};
    let sent = Span { start_ns: 5 * MS, end_ns: 6 * MS, pid: 9, cause: None, ..Span::clone(&produce(1, 6, false)) };
    let sent = Arc::new(Span { cause_evidence: Some(Evidence::Inferred), ..sent });
    let request = |n: u64| {
        let span = SpanBuilder::server(n).request("http", "GET", "/job").time(n * MS, (10 + n) * MS);
        Arc::new(Span { pid: 9, socket: n, ..span.status(Status::Ok, 200).exchange(n << 24, n << 24).build() })
    };
    let (mut solver, mut out) = (Solver::new(SolverConfig::default()), Vec::new());
    [sent.clone(), request(2), request(3)].into_iter().for_each(|span| solver.push(span, &mut |s| out.push(s)));
    solver.finish(&mut |span| out.push(span));
    let created: Vec<_> = out.iter().filter(|span| span.operation == CREATE).map(|span| span.cause).collect();
    assert_eq!(created, [Some(2 << 24), Some(3 << 24)], "{out:?}");
}
