//! Spans → who calls whom.
//!
//! A call is seen at up to two ends. Both ends saw the same bytes, so they share a wire key, and make one edge from the
//! calling service to the called one. A call of which only the asking end was seen leads to the service known to listen at
//! that address, else to the address itself. A call of which only the answering end was seen comes from [`OUTSIDE`].

use rustc_hash::FxHashMap;
use serde::Serialize;
use utoipa::ToSchema;
use wirespan_model::{Endpoint, Span, TapSide, Transport};
use wirespan_store::{Store, StoreError, TimeRange};

/// Name of the node that stands for all callers that are not traced.
pub(crate) const OUTSIDE: &str = "outside";
/// Most spans read for one map.
const MAX_SPANS: usize = 1_000_000;
/// Most nodes that stand for addresses; further addresses share one node.
const MAX_EXTERNAL: usize = 100;

/// Services and the calls between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub(crate) struct ServiceMap {
    /// Nodes, by name.
    pub(crate) nodes: Vec<MapNode>,
    /// Edges, most calls first.
    pub(crate) edges: Vec<MapEdge>,
    /// Spans read.
    pub(crate) spans: usize,
    /// False if the limit of spans cut the map short.
    pub(crate) complete: bool,
}

/// A service, an address that is not traced, or all untraced callers.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct MapNode {
    /// Name; unique in the map.
    pub(crate) name: String,
    /// `service`, `external` (an address) or `outside` (untraced callers).
    pub(crate) kind: &'static str,
    /// What it answered, as seen at its own end.
    pub(crate) calls: CallStats,
}

/// Calls from one node to another in one protocol.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct MapEdge {
    /// Caller.
    pub(crate) from: String,
    /// Callee.
    pub(crate) to: String,
    /// Protocol.
    pub(crate) protocol: String,
    /// What was called, as seen by the caller where it was seen.
    pub(crate) calls: CallStats,
}

/// Number, errors and latency of calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub(crate) struct CallStats {
    /// Calls.
    pub(crate) count: u64,
    /// Calls that failed.
    pub(crate) errors: u64,
    /// Median duration, ns, at most 7 % above the true one.
    pub(crate) p50_ns: u64,
    /// 95th percentile, ns, with the same error.
    pub(crate) p95_ns: u64,
}

/// Durations in buckets of 1/16 of a power of two: a fixed 976 counters however many calls there are.
#[derive(Default)]
struct Tally {
    count: u64,
    errors: u64,
    buckets: FxHashMap<u16, u64>,
}

impl Tally {
    fn add(&mut self, duration_ns: u64, error: bool) {
        self.count += 1;
        self.errors += u64::from(error);
        *self.buckets.entry(bucket(duration_ns)).or_default() += 1;
    }

    fn stats(&self) -> CallStats {
        CallStats { count: self.count, errors: self.errors, p50_ns: self.quantile(50), p95_ns: self.quantile(95) }
    }

    fn quantile(&self, percent: u64) -> u64 {
        let rank = (self.count * percent).div_ceil(100);
        let mut buckets: Vec<(u16, u64)> = self.buckets.iter().map(|(b, n)| (*b, *n)).collect();
        buckets.sort_unstable();
        let mut seen = 0;
        for (b, n) in buckets {
            seen += n;
            if seen >= rank {
                return upper(b);
            }
        }
        0
    }
}

fn bucket(ns: u64) -> u16 {
    if ns < 16 {
        return ns as u16;
    }
    let exponent = 63 - ns.leading_zeros();
    let fraction = (ns >> (exponent - 4)) & 15;
    ((exponent - 3) * 16) as u16 + fraction as u16
}

/// Largest value of a bucket.
fn upper(bucket: u16) -> u64 {
    let (octave, fraction) = (u32::from(bucket / 16), u64::from(bucket % 16));
    if octave == 0 {
        return fraction;
    }
    let shift = octave - 1;
    ((16 + fraction) << shift) + ((1u64 << shift) - 1)
}

/// What one end saw of a call.
struct End {
    service: Box<str>,
    duration_ns: u64,
    error: bool,
}

/// A call at both ends, as far as they were seen.
struct Call {
    asking: Option<End>,
    answering: Option<End>,
    server: Endpoint,
    protocol: Box<str>,
}

#[derive(Default)]
struct Builder {
    calls: FxHashMap<u64, Call>,
    listeners: FxHashMap<Endpoint, Box<str>>,
    spans: usize,
    seen: usize,
}

impl Builder {
    fn add(&mut self, span: &Span) {
        self.seen += 1;
        let answering = match span.tap {
            TapSide::ClientProcess => false,
            TapSide::ServerProcess => true,
            _ => return,
        };
        if self.spans >= MAX_SPANS {
            return;
        }
        self.spans += 1;
        // A span without a wire key stands alone, under its own id.
        let key = span.wire_keys().first().map_or(span.id.0, |k| k.value);
        let call = self.calls.entry(key).or_insert_with(|| Call {
            asking: None,
            answering: None,
            server: span.tuple.server,
            protocol: span.protocol.as_ref().into(),
        });
        let error = span.status.is_error(span.kind);
        let end = End { service: name(span), duration_ns: span.duration_ns(), error };
        if answering {
            if matches!(span.tuple.transport, Transport::Tcp | Transport::Udp) {
                self.listeners.entry(span.tuple.server).or_insert_with(|| end.service.clone());
            }
            call.answering = Some(end);
        } else {
            call.asking = Some(end);
        }
    }

    fn build(self) -> ServiceMap {
        let mut nodes: FxHashMap<String, (&'static str, Tally)> = FxHashMap::default();
        let mut edges: FxHashMap<(String, String, Box<str>), Tally> = FxHashMap::default();
        let mut external = 0;
        for call in self.calls.into_values() {
            let from = match &call.asking {
                Some(end) => node(&mut nodes, end.service.to_string(), "service"),
                None => node(&mut nodes, OUTSIDE.to_owned(), "outside"),
            };
            let to = match (&call.answering, self.listeners.get(&call.server)) {
                (Some(end), _) => node(&mut nodes, end.service.to_string(), "service"),
                (None, Some(service)) => node(&mut nodes, service.to_string(), "service"),
                (None, None) => {
                    let mut name = address(&call);
                    if !nodes.contains_key(&name) {
                        external += 1;
                        if external > MAX_EXTERNAL {
                            name = "other addresses".to_owned();
                        }
                    }
                    node(&mut nodes, name, "external")
                }
            };
            if let (Some(end), Some((_, tally))) = (&call.answering, nodes.get_mut(&to)) {
                tally.add(end.duration_ns, end.error);
            }
            if let Some(end) = call.asking.as_ref().or(call.answering.as_ref()) {
                edges.entry((from, to, call.protocol)).or_default().add(end.duration_ns, end.error);
            }
        }
        let mut map = ServiceMap { spans: self.spans, complete: self.spans < MAX_SPANS, ..ServiceMap::default() };
        map.nodes = nodes.into_iter().map(|(name, (kind, t))| MapNode { name, kind, calls: t.stats() }).collect();
        map.nodes.sort_by(|a, b| a.name.cmp(&b.name));
        map.edges = edges
            .into_iter()
            .map(|((from, to, protocol), t)| MapEdge { from, to, protocol: protocol.into(), calls: t.stats() })
            .collect();
        map.edges.sort_by(|a, b| (b.calls.count, &a.from, &a.to).cmp(&(a.calls.count, &b.from, &b.to)));
        map
    }
}

fn node(nodes: &mut FxHashMap<String, (&'static str, Tally)>, name: String, kind: &'static str) -> String {
    nodes.entry(name.clone()).or_insert_with(|| (kind, Tally::default()));
    name
}

fn name(span: &Span) -> Box<str> {
    let service = &span.resource.service;
    if service.is_empty() {
        "unknown service".into()
    } else {
        service.clone()
    }
}

fn address(call: &Call) -> String {
    if call.server.port == 0 {
        format!("{} (unix socket)", call.protocol)
    } else {
        format!("{} {}", call.protocol, call.server)
    }
}

/// The map of all spans that start in the range.
pub(crate) fn aggregate(store: &dyn Store, range: TimeRange) -> Result<ServiceMap, StoreError> {
    let mut builder = Builder::default();
    store.scan(range, &mut |span| builder.add(span))?;
    Ok(builder.build())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::Arc;
    use wirespan_model::{FiveTuple, Resource, SpanId, SpanKind, Status};

    fn span(id: u64, service: &str, tap: TapSide, seq: u32, duration_ns: u64) -> Span {
        let end = |port| Endpoint { port, ..Endpoint::UNSPECIFIED };
        Span {
            id: SpanId(id),
            tap,
            kind: if tap == TapSide::ServerProcess { SpanKind::Server } else { SpanKind::Client },
            protocol: "http".into(),
            start_ns: 1000,
            end_ns: 1000 + duration_ns,
            status: Status::Ok,
            tuple: FiveTuple { client: end(5000), server: end(80), ..FiveTuple::default() },
            request_seq: Some(seq),
            resource: Arc::new(Resource { service: service.into(), ..Resource::default() }),
            ..Span::default()
        }
    }

    fn build(spans: &[Span]) -> ServiceMap {
        let mut b = Builder::default();
        spans.iter().for_each(|s| b.add(s));
        b.build()
    }

    fn edges(map: &ServiceMap) -> Vec<(&str, &str, u64)> {
        map.edges.iter().map(|e| (e.from.as_str(), e.to.as_str(), e.calls.count)).collect()
    }

    #[test]
    fn both_ends_of_a_call_make_one_edge_in_either_order() {
        let (asks, answers) =
            (span(1, "web", TapSide::ClientProcess, 7, 200), span(2, "cart", TapSide::ServerProcess, 7, 100));
        let map = build(&[asks.clone(), answers.clone()]);
        assert_eq!(edges(&map), [("web", "cart", 1)]);
        assert_eq!(map, build(&[answers, asks]));
        let cart = map.nodes.iter().find(|n| n.name == "cart").unwrap();
        assert_eq!((cart.calls.count, cart.calls.p95_ns), (1, 103));
    }

    #[test]
    fn ends_seen_alone() {
        let map = build(&[span(1, "web", TapSide::ClientProcess, 1, 1), span(2, "cart", TapSide::ServerProcess, 2, 1)]);
        assert_eq!(edges(&map), [(OUTSIDE, "cart", 1), ("web", "cart", 1)]);
        let mut unknown = span(3, "web", TapSide::ClientProcess, 3, 1);
        unknown.tuple.server.port = 6379;
        unknown.protocol = "redis".into();
        assert_eq!(edges(&build(&[unknown])), [("web", "redis 0.0.0.0:6379", 1)]);
    }

    #[test]
    fn quantiles_are_within_seven_percent_above() {
        for value in [0u64, 1, 15, 16, 17, 1_000, 999_999, 123_456_789, u64::MAX / 2, u64::MAX] {
            let bound = upper(bucket(value));
            assert!(bound >= value && bound as f64 <= value as f64 * 1.0667 + 1.0, "{value} {bound}");
        }
        let mut t = Tally::default();
        (1..=100u64).for_each(|n| t.add(n * 1_000_000, n % 10 == 0));
        let stats = t.stats();
        assert_eq!((stats.count, stats.errors), (100, 10));
        assert!((50_000_000..=53_500_000).contains(&stats.p50_ns), "{}", stats.p50_ns);
        assert!((95_000_000..=102_000_000).contains(&stats.p95_ns), "{}", stats.p95_ns);
    }
}
