//! Conditions on derived attributes: a span has them, but the store keeps only the fields from which they follow.
//!
//! The store narrows the search by a field where it can. Then each found span is compared attribute by attribute, so
//! that the answer is the same as if the store kept the attributes.

use std::sync::Arc;
use wirespan_model::{semconv, waits_for_work, Span};
use wirespan_store::{Order, Query, Store, StoreError};

/// Names that [`semconv`] derives.
const DERIVED: [&str; 36] = [
    "http.request.method",
    "url.path",
    "http.response.status_code",
    "dns.question.name",
    "db.system.name",
    "db.operation.name",
    "network.transport",
    "network.type",
    "network.protocol.name",
    "client.address",
    "client.port",
    "server.address",
    "server.port",
    "network.peer.address",
    "network.peer.port",
    "error.type",
    "wirespan.error.message",
    "process.pid",
    "process.executable.name",
    "thread.id",
    "thread.name",
    "wirespan.tap_side",
    "wirespan.status",
    "wirespan.request.bytes",
    "wirespan.response.bytes",
    "wirespan.first_byte_ns",
    "wirespan.tcp.request_seq",
    "wirespan.tcp.response_seq",
    "wirespan.tcp.srtt_ns",
    "wirespan.tcp.retransmits",
    "wirespan.tcp.resets",
    "wirespan.tcp.connect_ns",
    "wirespan.tcp.queue_ns",
    "wirespan.socket",
    "wirespan.coroutine",
    "wirespan.request_id",
];

/// Spans asked of the store per wanted span, when the store cannot check all conditions itself.
const OVERSAMPLE: usize = 50;
/// Most spans asked of the store in this case.
const MAX_CANDIDATES: usize = 50_000;
/// So many calls that wait for work may be slower than the slowest of all others.
const WAITING: usize = 1_000;

/// A search, in two parts: the conditions that the store checks, and the conditions that are checked here.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Search {
    pub(crate) query: Query,
    derived: Vec<(String, String)>,
}

/// Spans of a search.
pub(crate) struct Hits {
    pub(crate) spans: Vec<Arc<Span>>,
    /// Whether there may be more.
    pub(crate) limited: bool,
}

impl From<Query> for Search {
    fn from(mut query: Query) -> Self {
        let (derived, kept) = std::mem::take(&mut query.attributes)
            .into_iter()
            .partition::<Vec<_>, _>(|(key, _)| DERIVED.contains(&key.as_str()));
        query.attributes = kept;
        for (key, value) in &derived {
            let slot = match key.as_str() {
                "http.request.method" | "db.operation.name" => &mut query.operation,
                "url.path" | "dns.question.name" => &mut query.endpoint,
                // HTTP/2 and gRPC are `http` there, and protocols of their own here.
                "network.protocol.name" if value != "http" => &mut query.protocol,
                "wirespan.tap_side" => &mut query.tap,
                "wirespan.status" => &mut query.status,
                _ => continue,
            };
            slot.get_or_insert_with(|| value.clone());
        }
        Search { query, derived }
    }
}

impl Search {
    /// At most `limit` spans that meet every condition. If the slowest are asked for, calls that wait for work (a poll
    /// of a broker, a stream) come behind all others: how long they take is no speed.
    pub(crate) fn run(&self, store: &dyn Store, limit: usize) -> Result<Hits, StoreError> {
        let slowest = self.query.order == Order::Slowest;
        if self.derived.is_empty() && !slowest {
            let spans = store.search(&Query { limit, ..self.query.clone() })?;
            return Ok(Hits { limited: spans.len() >= limit, spans });
        }
        let asked = if self.derived.is_empty() {
            limit.saturating_add(WAITING)
        } else {
            limit.saturating_mul(OVERSAMPLE).min(MAX_CANDIDATES).max(limit)
        };
        let mut spans = store.search(&Query { limit: asked, ..self.query.clone() })?;
        let cut = spans.len() >= asked;
        if !self.derived.is_empty() {
            spans.retain(|span| self.holds(span));
        }
        if slowest {
            spans.sort_by_key(|span| waits_for_work(span));
        }
        let limited = cut || spans.len() > limit;
        spans.truncate(limit);
        Ok(Hits { spans, limited })
    }

    fn holds(&self, span: &Span) -> bool {
        let mut own = semconv::attributes(span);
        own.extend(semconv::resource_attributes(&span.resource, span.pid));
        self.derived.iter().all(|(key, want)| own.iter().any(|(k, v)| k == key && v.to_string() == *want))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use wirespan_model::test_support::SpanBuilder;
    use wirespan_model::{Resource, SpanId, Status};
    use wirespan_store::{Embedded, Options};

    /// Every name that the semantic conventions derive is on the list, so that the store is never asked for one in
    /// vain.
    #[test]
    fn the_list_is_complete() {
        let mut span =
            Span { id: SpanId(1), pid: 1, tid: 1, start_ns: 1, response_ns: 2, end_ns: 3, ..Span::default() };
        span.status = Status::ServerError;
        span.error = "e".into();
        span.comm = "c".into();
        span.operation = "o".into();
        span.target = "t".into();
        span.status_code = Some(500);
        span.socket = 1;
        span.coroutine = 1;
        span.request_id = Some("r".into());
        (span.request_seq, span.response_seq) = (Some(1), Some(1));
        (span.tcp.srtt_ns, span.tcp.retransmits, span.tcp.connect_ns) = (1, 1, 1);
        (span.tcp.queue_us, span.tcp.resets) = (1, 1);
        (span.tuple.client.port, span.tuple.server.port) = (1, 1);
        span.resource = Arc::new(Resource { executable: "/e".into(), ..Resource::default() });
        // The store keeps these attributes, or no search needs them.
        let kept = ["service.name", "process.executable.path"];
        for protocol in ["http", "dns", "redis"] {
            span.protocol = protocol.into();
            let mut all = semconv::attributes(&span);
            all.extend(semconv::resource_attributes(&span.resource, span.pid));
            for (key, _) in all {
                assert!(DERIVED.contains(&key.as_ref()) || kept.contains(&key.as_ref()), "{key}");
            }
        }
    }

    #[test]
    fn derived_attributes_are_found_as_if_they_were_kept() {
        let store = Embedded::memory(Options::default()).unwrap();
        let span = |n: u64, protocol: &'static str, target: &str, code| {
            let span = SpanBuilder::client(n).request(protocol, "GET", target).time(n, n);
            Arc::new(span.status(Status::Unset, code).build())
        };
        store
            .append(vec![
                span(1, "http", "/x", Some(200)),
                span(2, "http", "/x/y", Some(404)),
                span(3, "redis", "/x", None),
            ])
            .unwrap();
        let ids = |conditions: &[(&str, &str)]| {
            let attributes = conditions.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let hits = Search::from(Query { attributes, ..Query::default() }).run(&store, 10).unwrap();
            assert!(!hits.limited);
            hits.spans.iter().map(|s| s.id.0).collect::<Vec<_>>()
        };
        assert_eq!(ids(&[("http.request.method", "GET")]), [2, 1]);
        assert_eq!(ids(&[("url.path", "/x")]), [1]);
        assert_eq!(ids(&[("http.response.status_code", "404")]), [2]);
        assert_eq!(ids(&[("db.system.name", "redis"), ("db.operation.name", "GET")]), [3]);
        assert_eq!(ids(&[("http.response.status_code", "500")]), [0u64; 0]);
    }

    #[test]
    fn calls_that_wait_for_work_come_behind_the_slowest() {
        let store = Embedded::memory(Options::default()).unwrap();
        let span = |n: u64, operation: &'static str, took: u64| {
            Arc::new(SpanBuilder::client(n).request("redis", operation, "list").time(n, n + took).build())
        };
        store.append(vec![span(1, "BLPOP", 900), span(2, "GET", 10), span(3, "SET", 20)]).unwrap();
        let slowest = |limit| {
            let hits = Search::from(Query { order: Order::Slowest, ..Query::default() }).run(&store, limit).unwrap();
            (hits.spans.iter().map(|s| s.id.0).collect::<Vec<_>>(), hits.limited)
        };
        assert_eq!(slowest(5), (vec![3, 2, 1], false));
        assert_eq!(slowest(1), (vec![3], true));
    }
}
