//! From ids and searches to whole traces.

use crate::ahead::Ahead;
use crate::error::ApiError;
use crate::filter::Search;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wirespan_model::key::hash64;
use wirespan_model::{Key, KeyKind, Span, SpanId, Trace, TraceId};
use wirespan_store::{Query, Store, StoreError, TimeRange};
use wirespan_trace::{crossing_spans, derived_trace_id, AssembleError, Limits, SpanIndex};

/// Most matching spans read per wanted trace, so that a search for one trace with very many spans ends.
const SPANS_PER_TRACE: usize = 40;

/// Longest time for a list of traces; then the list is returned as it is.
const LIST_TIME: Duration = Duration::from_secs(8);

/// Requests so long before and after a trace compare the clocks of its hosts.
const COMPARES_NS: u64 = 30_000_000_000;
/// Most spans of a host, before and after, whose requests do so.
const COMPARING: usize = 500;

/// A trace and its spans that matched a search.
pub(crate) struct Found {
    pub(crate) trace: Trace,
    pub(crate) matched: Vec<SpanId>,
}

/// Traces of a search.
pub(crate) struct FoundTraces {
    pub(crate) traces: Vec<Found>,
    pub(crate) limited: bool,
}

/// The spans of a store, to assemble traces from.
pub struct StoredSpans<'a>(pub &'a dyn Store);

impl SpanIndex for StoredSpans<'_> {
    type Error = StoreError;

    fn span(&self, id: SpanId) -> Result<Option<Arc<Span>>, StoreError> {
        self.0.span(id)
    }

    fn find(&self, keys: &[Key], range: TimeRange, limit: usize) -> Result<Vec<Arc<Span>>, StoreError> {
        self.0.find(keys, range, limit)
    }
}

/// The trace of a span. `housekeeping`: that of drivers stays in the tree.
pub(crate) fn assemble(store: &dyn Store, from: SpanId, housekeeping: bool) -> Result<Trace, ApiError> {
    let mut trace = whole(store, from)?;
    let around = around(store, &trace)?;
    wirespan_trace::cross_hosts(&mut trace, around);
    if !housekeeping {
        wirespan_trace::fold(&mut trace);
    }
    Ok(trace)
}

/// Spans of requests that came to the same hosts at about the same time, also those of other traces: they say how the
/// clocks of these hosts differ.
fn around(store: &dyn Store, trace: &Trace) -> Result<Vec<Arc<Span>>, StoreError> {
    let hosts: FxHashMap<u64, &Arc<Span>> = crossing_spans(trace).map(|span| (span.host_id, span)).collect();
    let mut keys: FxHashSet<Key> = FxHashSet::default();
    let mut all = TimeRange { from_ns: u64::MAX, to_ns: 0 };
    for (host_id, span) in hosts {
        let host = Some(("host.name".to_owned(), span.resource.host.to_string())).filter(|(_, name)| !name.is_empty());
        let [from_ns, at, to_ns] =
            [span.start_ns.saturating_sub(COMPARES_NS), span.start_ns, span.end_ns.saturating_add(COMPARES_NS)];
        all = TimeRange { from_ns: all.from_ns.min(from_ns), to_ns: all.to_ns.max(to_ns) };
        for range in [TimeRange { from_ns, to_ns: at }, TimeRange { from_ns: at, to_ns }] {
            let attributes = host.clone().into_iter().collect();
            let found = store.search(&Query { range, attributes, limit: COMPARING, ..Query::default() })?;
            keys.extend(found.iter().filter(|found| found.host_id == host_id).flat_map(|found| found.wire_keys()));
        }
    }
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    // The other views of these requests are of other clocks.
    let reach = Limits::default().window_ns;
    let range = TimeRange { from_ns: all.from_ns.saturating_sub(reach), to_ns: all.to_ns.saturating_add(reach) };
    store.find(&keys.into_iter().collect::<Vec<_>>(), range, 16 * COMPARING)
}

fn whole(store: &dyn Store, from: SpanId) -> Result<Trace, ApiError> {
    wirespan_trace::assemble(&StoredSpans(store), from, &Limits::default()).map_err(|e| match e {
        AssembleError::NotFound(id) => ApiError::not_found(format!("the store has no span {id}")),
        AssembleError::Index(e) => e.into(),
    })
}

/// As above, with links to other traces through the messages of a broker.
pub(crate) fn assemble_linked(store: &dyn Store, from: SpanId, housekeeping: bool) -> Result<Trace, ApiError> {
    let mut trace = assemble(store, from, housekeeping)?;
    match wirespan_trace::fill_links(&StoredSpans(store), &mut trace, &Limits::default()) {
        // Show the trace even if retention removed a linked span in the meantime.
        Ok(()) | Err(AssembleError::NotFound(_)) => Ok(trace),
        Err(AssembleError::Index(e)) => Err(e.into()),
    }
}

/// Traces that have a matching span; `query.limit` counts traces. Each span belongs to one trace, so a span of a listed
/// trace needs no assembly. After [`LIST_TIME`] the search ends early, and the result says so.
///
/// Unless `housekeeping` is wanted, traces of nothing but housekeeping or port probes are left out of a list that does
/// not ask for certain calls.
pub(crate) fn traces_of(store: &dyn Store, query: Query, housekeeping: bool) -> Result<FoundTraces, ApiError> {
    let began = Instant::now();
    let limit = query.limit;
    let leaves_out_noise = !housekeeping && !asks_for_calls(&query);
    let mut noise: FxHashSet<SpanId> = FxHashSet::default();
    let hits = Search::from(query).run(store, limit * SPANS_PER_TRACE)?;
    let mut limited = hits.limited;
    let mut traces: Vec<Found> = Vec::new();
    let mut seen: FxHashMap<SpanId, usize> = FxHashMap::default();
    // Most traces have several matching spans. Fetch a few spans at a time, so that few spans are fetched in vain.
    'list: for some in hits.spans.chunks(limit.clamp(16, 256) * 2) {
        let is_new = |s: &&Arc<Span>| !seen.contains_key(&s.id) && !noise.contains(&s.id);
        let new: Vec<Arc<Span>> = some.iter().filter(is_new).cloned().collect();
        let ahead = Ahead::of(store, &new, Limits::default().window_ns)?;
        for span in some {
            if noise.contains(&span.id) {
                continue;
            }
            if let Some(found) = seen.get(&span.id).and_then(|at| traces.get_mut(*at)) {
                found.matched.push(span.id);
                continue;
            }
            if traces.len() >= limit || began.elapsed() > LIST_TIME {
                limited = true;
                break 'list;
            }
            let mut trace = whole(&ahead, span.id)?;
            if leaves_out_noise && wirespan_trace::is_noise(&trace) {
                noise.extend(trace.spans.iter().map(|s| s.span.id));
                continue;
            }
            seen.insert(span.id, traces.len());
            seen.extend(trace.spans.iter().map(|s| (s.span.id, traces.len())));
            if !housekeeping {
                wirespan_trace::fold(&mut trace);
            }
            traces.push(Found { trace, matched: vec![span.id] });
        }
    }
    Ok(FoundTraces { traces, limited })
}

/// Whether the search is for certain calls, and not for whatever a service did.
fn asks_for_calls(query: &Query) -> bool {
    query.operation.is_some() || query.endpoint.is_some() || query.protocol.is_some() || !query.attributes.is_empty()
}

/// Finds a span by an id of its trace: a span id, a carried trace id, or a trace id derived from a root's span id.
pub(crate) fn find_trace(store: &dyn Store, id: &str) -> Result<SpanId, ApiError> {
    let missing =
        || ApiError::not_found(format!("the store has no trace {id}")).hint("it may have been removed by age or size");
    if id.len() != 32 {
        let span = parse_span_id(id)?;
        return store.span(span)?.map(|s| s.id).ok_or_else(missing);
    }
    let number = u128::from_str_radix(id, 16).map_err(|_| bad_id(id))?;
    let bytes = number.to_be_bytes();
    let key = Key { kind: KeyKind::Trace, value: hash64(&[&bytes]) };
    let mut carried = store.find(&[key], TimeRange::ALL, 16)?;
    // The key is a hash, so a span of another trace may have the same key.
    carried.retain(|s| s.trace_id == Some(TraceId(bytes)));
    if let Some(span) = carried.iter().min_by_key(|s| s.start_ns) {
        return Ok(span.id);
    }
    let root = SpanId(number as u64);
    if derived_trace_id(root) == TraceId(bytes) && store.span(root)?.is_some() {
        return Ok(root);
    }
    Err(missing())
}

/// Reads 16 hex digits.
pub(crate) fn parse_span_id(id: &str) -> Result<SpanId, ApiError> {
    let hex = id.len() == 16 && id.bytes().all(|b| b.is_ascii_hexdigit());
    u64::from_str_radix(id, 16).ok().filter(|_| hex).map(SpanId).ok_or_else(|| bad_id(id))
}

fn bad_id(id: &str) -> ApiError {
    ApiError::bad_query("id", format!("`{id}` is not an id")).hint("a span id has 16 hex digits, a trace id 32")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use wirespan_model::{hop, Endpoint, FiveTuple, Resource, TapSide, Transport};
    use wirespan_store::{Embedded, Options};

    const SECOND: u64 = 1_000_000_000;
    /// The clock of the server is so far behind.
    const BEHIND: u64 = 3 * SECOND;

    /// A request that needs `there` ns to the server: the views of both processes.
    fn request(n: u64, at: u64, there: u64) -> [Arc<Span>; 2] {
        let end = |last, port| Endpoint { ip: [10, 0, 0, last].into(), port };
        let tuple = FiveTuple { client: end(1, 40_000), server: end(2, 80), transport: Transport::Tcp };
        let view = |tap, host_id: u64, from, to| {
            let resource = Resource { host: format!("host{host_id}").into(), ..Resource::default() };
            let (request_seq, response_seq) = (Some(n as u32 * 100), Some(n as u32 * 100 + 7));
            let id = SpanId(n * 10 + host_id);
            let span = Span { id, tap, host_id, tuple, start_ns: from, response_ns: to, end_ns: to, ..Span::default() };
            Arc::new(Span { request_seq, response_seq, resource: Arc::new(resource), ..span })
        };
        let came = at + there;
        [
            view(TapSide::ClientProcess, 1, at, came + 500_000 + 6_000),
            view(TapSide::ServerProcess, 2, came - BEHIND, came + 500_000 - BEHIND),
        ]
    }

    #[test]
    fn requests_before_and_after_a_trace_compare_the_clocks_of_its_hosts() {
        let start = 1_790_000_000 * SECOND;
        let slow = request(1, start, 4_000_000);
        let there = |near: [u64; 2]| {
            let store = Embedded::memory(Options::default()).unwrap();
            store.append(slow.to_vec()).unwrap();
            // Two, because the clocks may also drift apart.
            near.iter().zip(2..).for_each(|(at, n)| store.append(request(n, *at, 5_000).to_vec()).unwrap());
            let trace = assemble(&store, slow[0].id, false).unwrap();
            assert_eq!(trace.spans.len(), 2);
            trace.spans[1].span.number(hop::REQUEST).zip(trace.spans[1].span.number(hop::REQUEST_ERROR))
        };
        assert_eq!(there([start - 100 * SECOND, start - 90 * SECOND]), None, "too long ago");
        for near in [[start - 10 * SECOND, start - 5 * SECOND], [start + 5 * SECOND, start + 10 * SECOND]] {
            let (told, error) = there(near).unwrap();
            assert!((told - 4_000_000).abs() <= error && error < 50_000, "{told} ± {error}");
        }
    }
}
