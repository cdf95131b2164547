//! The map as a document: the answer of the API, the content of `--map-file`, and the input of `wirespan map`.

use crate::edge_flow::EdgeFlow;
use crate::graph::{Calls, Edge, NodeKind, ServiceMap, View};
use crate::histogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use wirespan_model::TimeRange;

/// Times as text, because JavaScript's numbers lose digits beyond 2^53.
mod time {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(ns: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(ns)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(|_| serde::de::Error::custom(format!("`{text}` is not a time in Unix ns")))
    }
}

/// Services and the calls between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ServiceMap)]
pub struct Document {
    /// Begin of the range, Unix ns.
    #[serde(with = "time")]
    #[schema(value_type = String)]
    pub from_ns: u64,
    /// End of the range (not included), Unix ns.
    #[serde(with = "time")]
    #[schema(value_type = String)]
    pub to_ns: u64,
    /// Start of the first evidence, Unix ns; 0 if there is none.
    #[serde(default, with = "time")]
    #[schema(value_type = String, required)]
    pub first_ns: u64,
    /// End of the last evidence, Unix ns.
    #[serde(default, with = "time")]
    #[schema(value_type = String, required)]
    pub last_ns: u64,
    /// Nodes, by name.
    pub nodes: Vec<MapNode>,
    /// Edges, most calls first.
    pub edges: Vec<MapEdge>,
    /// Number of connections whose two ends could not be matched. Their calls may count on two edges.
    #[serde(default)]
    #[schema(required)]
    pub unmatched: u64,
}

/// A service, or ends that are not observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MapNode {
    /// Id, unique in the map: `KIND:NAME`.
    pub id: String,
    /// `service.name`, DNS name, address, or address block.
    pub name: String,
    /// `service`, `name`, `address`, `caller`, `block` or `internet`.
    #[schema(value_type = String)]
    pub kind: NodeKind,
    /// Hosts on which it was observed.
    #[serde(default)]
    #[schema(required)]
    pub hosts: Vec<String>,
    /// Calls that it answered. Durations are those that its callers observed.
    pub calls: CallStats,
}

/// Calls from one node to another at one port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MapEdge {
    /// Id of the caller.
    pub from: String,
    /// Id of the callee.
    pub to: String,
    /// `tcp`, `udp` or `unix`.
    pub transport: String,
    /// Port at which the callee listens; 0 for Unix sockets.
    pub port: u16,
    /// Protocol with most calls; the transport if none was understood.
    pub protocol: String,
    /// All protocols that were understood, most calls first.
    #[serde(default)]
    #[schema(required)]
    pub protocols: Vec<String>,
    /// Calls, each counted once: as observed by the caller, or by the callee if the caller was not observed. If no
    /// protocol was understood, these are connections.
    pub calls: CallStats,
    /// Further connections whose protocol was not understood.
    #[serde(default)]
    #[schema(required)]
    pub opaque: u64,
    /// TCP health (of UDP: sockets, bytes and datagrams).
    pub tcp: TcpStats,
    /// Observations of the caller; null if it was not observed.
    pub client: Option<ViewStats>,
    /// Observations of the callee; null if it was not observed.
    pub server: Option<ViewStats>,
}

/// Observations of one end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ViewStats {
    /// Calls.
    pub calls: CallStats,
    /// TCP health.
    pub tcp: TcpStats,
}

/// Number, errors, bytes and latency of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CallStats {
    /// Calls.
    pub count: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Bytes from caller to callee.
    pub request_bytes: u64,
    /// Bytes from callee to caller.
    pub response_bytes: u64,
    /// Median duration, ns; 0 if unknown. It is unknown if no protocol was understood; `tcp` then has round-trip times.
    pub p50_ns: u64,
    /// 95th percentile, ns.
    pub p95_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
}

/// Connections and TCP health: from flow records where there are some, else from spans.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TcpStats {
    /// Whether there are flow records. Without them only retransmissions, RTT and handshakes are known, from spans.
    pub from_flows: bool,
    /// Connections opened.
    pub opened: u64,
    /// Attempts to connect that failed.
    pub failed: u64,
    /// Connections closed.
    pub closed: u64,
    /// Connections open at the end.
    pub active: u64,
    /// Bytes from caller to callee.
    pub request_bytes: u64,
    /// Bytes from callee to caller.
    pub response_bytes: u64,
    /// Messages (UDP: datagrams) from caller to callee.
    pub request_messages: u64,
    /// Messages from callee to caller.
    pub response_messages: u64,
    /// Segments retransmitted; both ends together.
    pub retransmits: u64,
    /// Resets.
    pub resets: u64,
    /// Times that a receive window was found closed; both ends together.
    pub zero_windows: u64,
    /// Segments received out of order; both ends together.
    pub out_of_order: u64,
    /// Packets dropped by the kernel, by reason; both ends together.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, u64>, required)]
    pub drops: BTreeMap<Box<str>, u64>,
    /// Median of the smoothed RTT, ns; 0 if unknown.
    pub rtt_p50_ns: u64,
    /// Its 95th percentile.
    pub rtt_p95_ns: u64,
    /// Median duration of the handshake, ns; 0 if unknown.
    pub connect_p50_ns: u64,
    /// Its 95th percentile.
    pub connect_p95_ns: u64,
    /// Median time that received bytes waited in the socket, ns; 0 if unknown. Spans give it: for requests at the
    /// callee, or for responses at the caller if the callee was not observed.
    #[serde(default)]
    #[schema(required)]
    pub queue_p50_ns: u64,
    /// Its 95th percentile.
    #[serde(default)]
    #[schema(required)]
    pub queue_p95_ns: u64,
}

impl From<&Calls> for CallStats {
    fn from(c: &Calls) -> Self {
        CallStats {
            count: c.count,
            errors: c.errors,
            request_bytes: c.request_bytes,
            response_bytes: c.response_bytes,
            p50_ns: c.latency.percentile_ns(0.5),
            p95_ns: c.latency.percentile_ns(0.95),
            p99_ns: c.latency.percentile_ns(0.99),
        }
    }
}

impl From<&View> for ViewStats {
    fn from(view: &View) -> Self {
        let mut calls = view.calls.clone();
        if calls.count == 0 {
            calls.merge(&view.opaque.clone().without_latency());
        }
        ViewStats { calls: CallStats::from(&calls), tcp: TcpStats::of(Some(view), None) }
    }
}

impl TcpStats {
    /// From the flow records of both ends: values that both ends see count once, values of each end's own are added.
    pub fn of_flows(client: Option<&EdgeFlow>, server: Option<&EdgeFlow>) -> TcpStats {
        let [client, server] = [client, server].map(|flow| flow.filter(|f| f.records > 0));
        let Some(main) = client.or(server) else { return TcpStats::default() };
        let c = &main.counts;
        let mut stats = TcpStats {
            from_flows: true,
            opened: c.opened,
            failed: c.failed,
            closed: c.closed,
            active: c.active,
            request_bytes: c.bytes_sent,
            response_bytes: c.bytes_received,
            request_messages: c.messages_sent,
            response_messages: c.messages_received,
            resets: main.resets(),
            ..TcpStats::default()
        };
        let ns = |us: Option<f64>| us.map_or(0, |us| (us * 1000.0) as u64);
        // The handshake is the client's to measure; the round trip is best seen by the end that sends more, but both
        // are true.
        let both = || [client, server].into_iter().flatten().map(|f| &f.counts);
        if let Some(h) = both().map(|c| &c.handshake).find(|h| h.count() > 0) {
            (stats.connect_p50_ns, stats.connect_p95_ns) = (ns(h.percentile_us(0.5)), ns(h.percentile_us(0.95)));
        }
        (stats.rtt_p50_ns, stats.rtt_p95_ns) = (ns(c.srtt.percentile_us(0.5)), ns(c.srtt.percentile_us(0.95)));
        for own in both() {
            stats.retransmits += own.retransmits;
            stats.zero_windows += own.zero_windows;
            stats.out_of_order += own.out_of_order;
            for (reason, n) in &own.drops {
                *stats.drops.entry(reason.clone()).or_default() += n;
            }
        }
        stats
    }

    fn of(client: Option<&View>, server: Option<&View>) -> TcpStats {
        let mut stats = TcpStats::of_flows(client.map(|v| &v.flow), server.map(|v| &v.flow));
        let views = || [client, server].into_iter().flatten();
        let first = |of: fn(&View) -> &Histogram| views().map(of).find(|h| h.count() > 0);
        if !stats.from_flows {
            stats.retransmits = views().map(|v| v.retransmits).sum();
            stats.resets = views().map(|v| v.resets).max().unwrap_or_default();
        }
        if let (0, Some(rtt)) = (stats.rtt_p50_ns, first(|v| &v.rtt)) {
            (stats.rtt_p50_ns, stats.rtt_p95_ns) = (rtt.percentile_ns(0.5), rtt.percentile_ns(0.95));
        }
        if let (0, Some(connect)) = (stats.connect_p50_ns, first(|v| &v.connect)) {
            (stats.connect_p50_ns, stats.connect_p95_ns) = (connect.percentile_ns(0.5), connect.percentile_ns(0.95));
        }
        let queue = [server, client].into_iter().flatten().map(|v| &v.queue).find(|h| h.count() > 0);
        if let Some(queue) = queue {
            (stats.queue_p50_ns, stats.queue_p95_ns) = (queue.percentile_ns(0.5), queue.percentile_ns(0.95));
        }
        stats
    }
}

impl Document {
    /// The document of a map of this range.
    pub fn new(map: &ServiceMap, range: TimeRange) -> Self {
        let ids: Vec<String> = map.nodes.iter().map(|n| format!("{}:{}", n.kind.as_str(), n.name)).collect();
        let id = |at: usize| ids.get(at).cloned().unwrap_or_default();
        let mut inbound: Vec<Calls> = map.nodes.iter().map(|_| Calls::default()).collect();
        for Edge { server, total, .. } in &map.edges {
            if let Some(all) = inbound.get_mut(*server) {
                all.merge(total);
            }
        }
        let nodes = map.nodes.iter().zip(&inbound).enumerate().map(|(at, (n, calls))| {
            let mut calls = CallStats::from(calls);
            // Nodes that were not observed are known by their callers only.
            if n.kind == NodeKind::Service {
                (calls.count, calls.errors) = (n.requests, n.errors);
            }
            MapNode { id: id(at), name: n.name.clone(), kind: n.kind, hosts: n.hosts.clone(), calls }
        });
        let edge = |e: &Edge| MapEdge {
            from: id(e.client),
            to: id(e.server),
            transport: e.transport.as_str().into(),
            port: e.port,
            protocol: e.protocol().into(),
            protocols: e.protocols.iter().map(|(name, _)| name.clone()).collect(),
            calls: CallStats::from(&e.total),
            opaque: e.opaque.count,
            tcp: TcpStats::of(e.client_view.as_ref(), e.server_view.as_ref()),
            client: e.client_view.as_ref().map(ViewStats::from),
            server: e.server_view.as_ref().map(ViewStats::from),
        };
        let mut edges: Vec<MapEdge> = map.edges.iter().map(edge).collect();
        edges.sort_by_key(|e| std::cmp::Reverse((e.calls.count, e.tcp.opened)));
        Document {
            from_ns: range.from_ns,
            to_ns: range.to_ns,
            first_ns: map.first_ns,
            last_ns: map.last_ns,
            nodes: nodes.collect(),
            edges,
            unmatched: map.unmatched,
        }
    }

    /// The node with this id.
    pub fn node(&self, id: &str) -> Option<&MapNode> {
        self.nodes.iter().find(|n| n.id == id)
    }

    /// Name of the node with this id; the id if there is none.
    pub fn name<'a>(&'a self, id: &'a str) -> &'a str {
        self.node(id).map_or(id, |n| &n.name)
    }

    /// Seconds for which there is evidence, for rates; `None` if that is too short for a rate.
    pub fn seconds(&self) -> Option<f64> {
        let length = self.last_ns.min(self.to_ns).saturating_sub(self.first_ns.max(self.from_ns));
        (length >= 1_000_000_000).then_some(length as f64 / 1e9)
    }
}
