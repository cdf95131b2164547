//! Metrics of the edges of the dependency map: requests under the names of OpenTelemetry's service graphs, connections
//! under names of wirespan's own.

use super::Writer;
use crate::lock;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use wirespan_map::{CallSums, GraphEdge, LinkEdge, LinkSums, LiveConfig, LiveMap, LiveStats, BOUNDS_S, RTT_BOUNDS_S};
use wirespan_model::{Flow, Span};

/// A [`LiveMap`] that several threads may feed and read.
pub struct EdgeMetrics {
    map: Mutex<LiveMap>,
}

impl EdgeMetrics {
    /// No counts yet. At most this many edges have series of their own.
    pub fn new(max_edges: usize) -> Self {
        let config = LiveConfig { max_edges, ..LiveConfig::default() };
        EdgeMetrics { map: Mutex::new(LiveMap::new(config, Instant::now())) }
    }

    /// Counts spans.
    pub fn observe(&self, batch: &[Arc<Span>]) {
        let now = Instant::now();
        let mut map = lock(&self.map);
        batch.iter().for_each(|span| map.span(span, now));
        map.tick(now);
    }

    /// Counts flow records.
    pub fn observe_flows(&self, flows: &[Flow]) {
        let now = Instant::now();
        let mut map = lock(&self.map);
        flows.iter().for_each(|flow| map.flow(flow, now));
        map.tick(now);
    }

    /// Counts also the spans and flow records that wait for their other end. Call it when no more will come.
    pub fn finish(&self) {
        lock(&self.map).finish();
    }

    /// Writes all current values.
    pub fn write(&self, w: &mut Writer) {
        let mut map = lock(&self.map);
        map.tick(Instant::now());
        map.calls().iter().for_each(|(edge, sums)| calls(w, edge, sums));
        map.flows().iter().for_each(|(edge, sums)| link(w, edge, sums));
        totals(w, &map.stats());
    }
}

fn link(w: &mut Writer, edge: &LinkEdge, link: &LinkSums) {
    let sums = &link.flows;
    let port = edge.port.to_string();
    let labels = [
        ("client", &*edge.client),
        ("server", &*edge.server),
        ("network_transport", edge.transport.as_str()),
        ("server_port", &port),
    ];
    let each = [
        ("wirespan_edge_connections_total", "Connections opened", sums.opened),
        ("wirespan_edge_connections_failed_total", "Attempts to connect that failed", sums.failed),
        ("wirespan_edge_request_bytes_total", "Bytes from client to server", sums.request_bytes),
        ("wirespan_edge_response_bytes_total", "Bytes from server to client", sums.response_bytes),
        ("wirespan_edge_retransmits_total", "Segments retransmitted", sums.retransmits),
        ("wirespan_edge_resets_total", "Connections reset", sums.resets),
    ];
    each.iter().for_each(|(name, help, value)| w.counter(name, help, &labels, *value));
    if link.rtt.iter().any(|n| *n > 0) {
        let help = "Smoothed RTT of connections, as TCP has it at each drain and at their end";
        w.histogram("wirespan_edge_rtt_seconds", help, &labels, &RTT_BOUNDS_S, &link.rtt, link.rtt_sum_s);
    }
}

fn totals(w: &mut Writer, stats: &LiveStats) {
    let mut total = |name, help, value| w.counter(name, help, &[], value);
    let help = "Requests of which one end was not observed";
    total("traces_service_graph_unpaired_spans_total", help, stats.unpaired);
    let help = "Spans counted before that of the other end could come, for want of room";
    total("wirespan_edges_early_spans_total", help, stats.early);
    let help = "Connections whose ends were not matched, for want of room";
    total("wirespan_edges_unmatched_connections_total", help, stats.unmatched);
    let help = "Requests counted under client=\"other\", for there are too many edges";
    total("wirespan_edges_folded_requests_total", help, stats.folded_requests);
    let help = "Flow records counted under client=\"other\", for there are too many edges";
    total("wirespan_edges_folded_flows_total", help, stats.folded_flows);
}

fn calls(w: &mut Writer, edge: &GraphEdge, sums: &CallSums) {
    let labels = [("client", &*edge.client), ("server", &*edge.server), ("connection_type", edge.connection_type)];
    let name = "traces_service_graph_request";
    w.counter(&format!("{name}_total"), "Requests between two nodes", &labels, sums.requests);
    w.counter(&format!("{name}_failed_total"), "Failed requests between two nodes", &labels, sums.failed);
    for (end, help, d) in [
        ("client", "Duration of requests between two nodes, as the client saw it", &sums.client),
        ("server", "Duration of requests between two nodes, as the server saw it", &sums.server),
    ] {
        if d.counts.iter().any(|n| *n > 0) {
            w.histogram(&format!("{name}_{end}_seconds"), help, &labels, &BOUNDS_S, &d.counts, d.sum_s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Registry;
    use wirespan_model::{Endpoint, FiveTuple, Resource, SpanKind, Status, TapSide, Transport};

    fn span(tap: TapSide, service: &str, port: u16, status: Status) -> Arc<Span> {
        let end = |ip: [u8; 4], port| Endpoint::new(ip.into(), port);
        Arc::new(Span {
            tap,
            kind: if tap == TapSide::ServerProcess { SpanKind::Server } else { SpanKind::Client },
            protocol: "http".into(),
            start_ns: 1,
            end_ns: 3_000_001,
            status,
            tuple: FiveTuple {
                transport: Transport::Tcp,
                client: end([10, 0, 0, 1], port),
                server: end([10, 0, 0, 2], 80),
            },
            resource: Arc::new(Resource { service: service.into(), ..Resource::default() }),
            ..Span::default()
        })
    }

    #[test]
    fn service_graphs_have_their_names_and_count_once() {
        let metrics = EdgeMetrics::new(LiveConfig::default().max_edges);
        // The server span comes first; one request has no client span, one no server span.
        metrics.observe(&[
            span(TapSide::ServerProcess, "cart", 4000, Status::Ok),
            span(TapSide::ClientProcess, "web", 4000, Status::Ok),
            span(TapSide::ServerProcess, "cart", 4001, Status::ServerError),
            span(TapSide::ClientProcess, "web", 4002, Status::Ok),
        ]);
        metrics.finish();
        let registry = Registry::new();
        registry.add(move |w| metrics.write(w));
        let text = registry.render();
        for line in [
            r#"traces_service_graph_request_total{client="web",server="cart",connection_type=""} 2"#,
            r#"traces_service_graph_request_total{client="10.0.0.1",server="cart",connection_type="virtual_node"} 1"#,
            concat!(
                r#"traces_service_graph_request_failed_total{client="10.0.0.1",server="cart","#,
                r#"connection_type="virtual_node"} 1"#
            ),
            r#"traces_service_graph_request_server_seconds_count{client="web",server="cart",connection_type=""} 1"#,
            concat!(
                r#"traces_service_graph_request_client_seconds_bucket{client="web",server="cart","#,
                r#"connection_type="",le="0.004"} 2"#
            ),
            "traces_service_graph_unpaired_spans_total 1",
            "wirespan_edges_folded_requests_total 0",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
