//! Searches, suggestions and scans against a model that is too simple to be wrong.
#![allow(clippy::unwrap_used)]

mod support;

use proptest::prelude::*;
use std::sync::Arc;
use wirespan_model::Span;
use wirespan_store::{Embedded, Field, Options, Order, Query, Store, StoreError, TimeRange};

fn matches(q: &Query, s: &Span) -> bool {
    let equal = |want: &Option<String>, have: &str| want.as_ref().is_none_or(|w| w == have);
    let resource = [
        ("service.name", &s.resource.service),
        ("host.name", &s.resource.host),
        ("process.executable.path", &s.resource.executable),
        ("container.id", &s.resource.container),
    ];
    let has = |key: &str, want: &str| {
        s.attrs.iter().any(|(k, v)| k == key && v.to_string() == want)
            || s.resource.extra.iter().any(|(k, v)| **k == *key && **v == *want)
            || resource.iter().any(|(k, v)| *k == key && ***v == *want)
    };
    q.range.from_ns <= s.start_ns
        && s.start_ns < q.range.to_ns
        && equal(&q.service, &s.resource.service)
        && q.operation.as_ref().is_none_or(|o| **o == *s.operation || *o == s.name())
        && q.endpoint.as_ref().is_none_or(|e| s.target.contains(e.as_str()))
        && equal(&q.protocol, &s.protocol)
        && q.status
            .as_ref()
            .is_none_or(|w| if w == "error" { s.status.is_error(s.kind) } else { w == s.status.as_str() })
        && equal(&q.tap, s.tap.as_str())
        && q.min_duration_ns.is_none_or(|d| s.duration_ns() >= d)
        && q.max_duration_ns.is_none_or(|d| s.duration_ns() <= d)
        && q.attributes.iter().all(|(k, v)| has(k, v))
}

fn rank(order: Order, s: &Span) -> u64 {
    match order {
        Order::Newest => s.start_ns,
        Order::Slowest => s.duration_ns(),
    }
}

fn pick(values: &'static [&'static str]) -> impl Strategy<Value = Option<String>> {
    prop::option::weighted(0.25, prop::sample::select(values).prop_map(Into::into))
}

prop_compose! {
    fn query()(range in prop_oneof![Just((0, u64::MAX)), (0u64..1_000, 0u64..2_000_000_000),
        Just((1_000_000_000, 1_000_000_500))],
               service in pick(&["", "front", "cart", "nobody"]),
                   operation in pick(&["GET", "GET /cart/1", "http /", "amqp", "SET", ""]),
               endpoint in pick(&["/cart", "1", "nowhere"]), protocol in pick(&["http", "redis"]),
               status in pick(&["ok", "error", "client-error", "unset"]), tap in pick(&["app", "capture"]),
               min in prop::option::weighted(0.3, 0u64..6), more in prop::option::weighted(0.3, 0u64..1_000_000_000),
               attribute in prop::option::weighted(0.2,
                   prop::sample::select(vec![("host.name", "node-1"), ("service.name", "cart"), ("", ""),
                       ("GET", "GET"), ("shop", "true")])),
               order in prop::sample::select(vec![Order::Newest, Order::Slowest]),
                   limit in prop_oneof![0usize..5, Just(1_000)])
        -> Query {
        Query {
            range: TimeRange { from_ns: range.0.min(range.1), to_ns: range.0.max(range.1) },
            service, operation, endpoint, protocol, status, tap, order, limit,
            min_duration_ns: min,
            max_duration_ns: more.map(|m| m + min.unwrap_or(0)),
            attributes: attribute.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
        }
    }
}

fn check(store: &Embedded, spans: &[Arc<Span>], query: &Query, when: &str) {
    let mut expected: Vec<&Arc<Span>> = spans.iter().filter(|s| matches(query, s)).collect();
    expected.sort_by_key(|s| std::cmp::Reverse(rank(query.order, s)));
    expected.truncate(query.limit);
    let found = store.search(query).unwrap();
    let ranks = |spans: Vec<&Arc<Span>>| spans.into_iter().map(|s| rank(query.order, s)).collect::<Vec<_>>();
    // Among equal values, the order is not specified.
    assert_eq!(ranks(found.iter().collect()), ranks(expected), "{when}: {query:?}");
    for span in &found {
        let original = spans.iter().find(|s| s.id == span.id);
        assert!(
            matches(query, span) && original == Some(span),
            "{when}: {query:?} found {span:#?}, which was {original:#?}"
        );
    }
    let mut ids: Vec<_> = found.iter().map(|s| s.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), found.len(), "{when}: a span twice");
}

fn check_suggestions(store: &Embedded, spans: &[Arc<Span>], range: TimeRange, prefix: &str, when: &str) {
    let inside = || spans.iter().filter(|s| range.from_ns <= s.start_ns && s.start_ns < range.to_ns);
    let fields = [Field::Service, Field::Operation, Field::Endpoint, Field::Protocol, Field::AttributeKey];
    for field in fields {
        let values: Vec<String> = inside()
            .flat_map(|s| match field {
                Field::Service => vec![s.resource.service.to_string()],
                Field::Operation => vec![s.operation.to_string()],
                Field::Endpoint => vec![s.target.to_string()],
                Field::Protocol => vec![s.protocol.to_string()],
                Field::AttributeKey => s.attrs.iter().map(|(k, _)| k.to_string()).collect(),
            })
            .filter(|v| !v.is_empty() && v.to_lowercase().starts_with(&prefix.to_lowercase()))
            .collect();
        let mut expected: Vec<(usize, String)> = Vec::new();
        for value in &values {
            if !expected.iter().any(|(_, v)| v == value) {
                expected.push((values.iter().filter(|v| *v == value).count(), value.clone()));
            }
        }
        expected.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let expected: Vec<String> = expected.into_iter().map(|(_, v)| v).take(3).collect();
        assert_eq!(store.suggest(field, prefix, range, 3).unwrap(), expected, "{when}: {field:?} {prefix:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn searches_agree_with_the_model(
        spans in support::spans(60),
        queries in prop::collection::vec(query(), 20),
        cuts in (0usize..60, 0usize..60),
        prefix in prop::sample::select(vec!["", "g", "F", "/cart"]),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { merge_count: 100, ..support::options() };
        let store = Embedded::open(dir.path(), options).unwrap();
        let (a, b) = (cuts.0.min(cuts.1).min(spans.len()), cuts.0.max(cuts.1).min(spans.len()));
        store.append(spans[..a].to_vec()).unwrap();
        store.compact().unwrap();
        store.append(spans[a..b].to_vec()).unwrap();
        store.flush().unwrap();
        store.append(spans[b..].to_vec()).unwrap();
        let memory = Embedded::memory(support::options()).unwrap();
        memory.append(spans.clone()).unwrap();
        for query in &queries {
            check(&store, &spans, query, "segment, chunk and tail");
            check(&memory, &spans, query, "in memory");
            check_suggestions(&store, &spans, query.range, prefix, "segment, chunk and tail");
        }
        store.compact().unwrap();
        for query in &queries {
            check(&store, &spans, query, "in two segments");
        }
    }
}

#[test]
fn pages_are_pruned_without_losing_rows() {
    let dir = tempfile::tempdir().unwrap();
    let store = Embedded::open(dir.path(), Options { flush_rows: 50_000, ..support::options() }).unwrap();
    // 120,000 spans over 120 µs; every thousandth is slow, in no order.
    let all: Vec<Arc<Span>> = (0..120_000u64)
        .map(|n| {
            let start_ns = 1_000_000 + n * 7_919 % 120_000;
            let duration = if n % 1_000 == 7 { 1_000_000 + n } else { n % 500 };
            Arc::new(Span { end_ns: start_ns + duration, ..(*support::plain(n + 1, start_ns)).clone() })
        })
        .collect();
    for batch in all.chunks(1_000) {
        store.append(batch.to_vec()).unwrap();
    }
    store.compact().unwrap();
    for order in [Order::Newest, Order::Slowest] {
        for (from_ns, to_ns) in [(0, u64::MAX), (1_050_000, 1_050_100), (1_020_000, 1_090_001), (1_119_999, 1_120_000)]
        {
            for (min, max) in [(None, None), (Some(1_000), None), (None, Some(3)), (Some(499), Some(1_000_007))] {
                for target in [None, Some("/item/4")] {
                    let query = Query {
                        range: TimeRange { from_ns, to_ns },
                        min_duration_ns: min,
                        max_duration_ns: max,
                        endpoint: target.map(Into::into),
                        order,
                        limit: 37,
                        ..Query::default()
                    };
                    let mut expected: Vec<u64> =
                        all.iter().filter(|s| matches(&query, s)).map(|s| rank(order, s)).collect();
                    expected.sort_unstable_by(|a, b| b.cmp(a));
                    expected.truncate(37);
                    let found = store.search(&query).unwrap();
                    assert!(found.iter().all(|s| matches(&query, s)));
                    assert_eq!(found.iter().map(|s| rank(order, s)).collect::<Vec<_>>(), expected, "{query:?}");
                }
            }
        }
    }
}

#[test]
fn an_invalid_query_is_refused_with_the_wrong_part() {
    let store = Embedded::memory(support::options()).unwrap();
    let range = TimeRange { from_ns: 2, to_ns: 1 };
    for (query, part) in [
        (Query { status: Some("fine".into()), ..Query::default() }, "status \"fine\""),
        (Query { tap: Some("kernel".into()), ..Query::default() }, "tap \"kernel\""),
        (Query { range, ..Query::default() }, "range"),
        (Query { min_duration_ns: Some(2), max_duration_ns: Some(1), ..Query::default() }, "duration"),
    ] {
        match store.search(&query) {
            Err(StoreError::Query(text)) => assert!(text.contains(part), "{text}"),
            other => panic!("{other:?}"),
        }
    }
}
