//! The service map as JSON.

use serde::Serialize;
use utoipa::ToSchema;
use wirespan_trace::{Edge, Histogram, NodeKind, ServiceMap};

/// Services and the calls between them.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ServiceMap)]
pub(crate) struct MapView {
    /// Nodes, by name.
    pub(crate) nodes: Vec<MapNode>,
    /// Edges, most calls first.
    pub(crate) edges: Vec<MapEdge>,
}

/// A service, an address that answers but is not observed, or callers that are not observed.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct MapNode {
    /// Unique in the map.
    pub(crate) id: String,
    /// `service.name`, or the address.
    pub(crate) name: String,
    /// `service`, `address` or `caller`.
    pub(crate) kind: &'static str,
    /// What it answered. Durations are those that its callers saw.
    pub(crate) calls: CallStats,
}

/// Calls from one node to another in one protocol.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct MapEdge {
    /// Id of the caller.
    pub(crate) from: String,
    /// Id of the callee.
    pub(crate) to: String,
    /// Protocol.
    pub(crate) protocol: String,
    /// The calls, as the caller saw them where it was observed.
    pub(crate) calls: CallStats,
    /// Largest count of retransmitted segments that a connection of these calls reported.
    pub(crate) retransmits: u64,
}

/// Number, errors and latency of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct CallStats {
    /// Calls.
    pub(crate) count: u64,
    /// Calls that failed.
    pub(crate) errors: u64,
    /// Median duration, ns.
    pub(crate) p50_ns: u64,
    /// 95th percentile, ns.
    pub(crate) p95_ns: u64,
}

fn stats(count: u64, errors: u64, latency: &Histogram) -> CallStats {
    CallStats { count, errors, p50_ns: latency.percentile_ns(0.5), p95_ns: latency.percentile_ns(0.95) }
}

fn kind(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Service => "service",
        NodeKind::Address => "address",
        NodeKind::Caller => "caller",
    }
}

impl From<&ServiceMap> for MapView {
    fn from(map: &ServiceMap) -> Self {
        let ids: Vec<String> = map.nodes.iter().map(|n| format!("{}:{}", kind(n.kind), n.name)).collect();
        let id = |at: usize| ids.get(at).cloned().unwrap_or_default();
        let mut inbound: Vec<(Histogram, u64, u64)> = map.nodes.iter().map(|_| Default::default()).collect();
        for Edge { server, latency, count, errors, .. } in &map.edges {
            if let Some((all, calls, failed)) = inbound.get_mut(*server) {
                all.merge(latency);
                *calls += count;
                *failed += errors;
            }
        }
        let nodes = map.nodes.iter().zip(&inbound).enumerate().map(|(at, (n, (latency, calls, failed)))| {
            // What nobody observed from inside is known by its callers only.
            let (count, errors) = if n.kind == NodeKind::Service { (n.requests, n.errors) } else { (*calls, *failed) };
            MapNode { id: id(at), name: n.name.clone(), kind: kind(n.kind), calls: stats(count, errors, latency) }
        });
        let mut edges: Vec<MapEdge> = map
            .edges
            .iter()
            .map(|e| MapEdge {
                from: id(e.client),
                to: id(e.server),
                protocol: e.protocol.clone(),
                calls: stats(e.count, e.errors, &e.latency),
                retransmits: e.retransmits,
            })
            .collect();
        edges.sort_by_key(|e| std::cmp::Reverse(e.calls.count));
        MapView { nodes: nodes.collect(), edges }
    }
}
