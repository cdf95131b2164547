//! `trace`, `service` and `endpoint` of a filter: the connections and times that spans of a running wirespan name.

use anyhow::{bail, Context as _, Result};
use serde_json::Value;
use std::net::SocketAddr;
use std::ops::Range;
use wirespan_model::packet::{Route, Sighting};
use wirespan_model::{hop, Span, Trace, Transport};

/// Packets of a span are looked for so long before its first byte and after its last one, ns: both times are of the
/// process, which sends a little before a device sees it.
const AROUND_NS: u64 = 1_000_000;

/// A connection over TCP; at a service, its server's end only.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Flow {
    client: Option<SocketAddr>,
    server: SocketAddr,
    within: Range<u64>,
}

/// What a filter means by the spans that it names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subject {
    flows: Vec<Flow>,
}

impl Subject {
    /// The connections of a trace, each while its span lasted. `answer` is that of `/api/v1/trace/ID/model`.
    pub(crate) fn of_trace(answer: Value) -> Result<Self> {
        let trace: Trace = serde_json::from_value(answer).context("the server is of another version")?;
        let tcp = trace.spans.iter().map(|s| &*s.span).filter(|span| span.tuple.transport == Transport::Tcp);
        let flows: Vec<Flow> = tcp.flat_map(of_span).collect();
        if flows.is_empty() {
            bail!("the trace has no span over TCP");
        }
        Ok(Subject { flows })
    }

    /// When the last of its spans ended, Unix ns.
    pub(crate) fn end_ns(&self) -> u64 {
        self.flows.iter().map(|flow| flow.within.end).max().unwrap_or(0)
    }

    /// The servers of spans. `answer` is that of `/api/v1/spans`.
    pub(crate) fn of_spans(answer: &Value) -> Self {
        let server = |span: &Value| span["server"].as_str()?.parse().ok();
        let mut servers: Vec<SocketAddr> =
            answer["spans"].as_array().into_iter().flatten().filter_map(server).collect();
        servers.sort_unstable();
        servers.dedup();
        let flow = |server| Flow { client: None, server, within: 0..u64::MAX };
        Subject { flows: servers.into_iter().map(flow).collect() }
    }

    /// The servers' ends.
    pub(crate) fn servers(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.flows.iter().map(|flow| flow.server)
    }

    /// Whether a packet belongs to it.
    pub(crate) fn has(&self, s: &Sighting) -> bool {
        let Route { source, destination, source_port, destination_port, .. } = s.route;
        let (from, to) = (SocketAddr::new(source, source_port), SocketAddr::new(destination, destination_port));
        let joins = |flow: &Flow, a, b| flow.server == b && flow.client.is_none_or(|client| client == a);
        let of = |flow: &Flow| joins(flow, from, to) || joins(flow, to, from);
        self.flows.iter().any(|flow| flow.within.contains(&s.time_ns) && of(flow))
    }
}

/// The connection of a span by all addresses that are known of it.
fn of_span(span: &Span) -> Vec<Flow> {
    // Packets have the times of their host's clock, also where the span's times were corrected.
    let ahead_ns = span.number(hop::CLOCK_AHEAD).unwrap_or(0);
    let [start_ns, end_ns] = [span.start_ns, span.end_ns].map(|ns| ns.saturating_add_signed(ahead_ns));
    let within = start_ns.saturating_sub(AROUND_NS)..end_ns.saturating_add(AROUND_NS);
    let end = |end: wirespan_model::Endpoint| SocketAddr::new(end.ip.to_canonical(), end.port);
    let flow = |tuple: wirespan_model::FiveTuple| {
        let within = within.clone();
        Flow { client: Some(end(tuple.client)), server: end(tuple.server), within }
    };
    super::hops::tuples(span).map(flow).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;
    use wirespan_model::packet::TCP;
    use wirespan_model::test_support::{route, sighting};
    use wirespan_model::{Endpoint, FiveTuple, SpanId, TraceId, TraceSpan};

    fn packet(time_ns: u64, source_port: u16, destination_port: u16) -> Sighting {
        let route = Route { source_port, destination_port, ..route(TCP) };
        Sighting { time_ns, route, ..sighting(TCP, 0, 1) }
    }

    #[test]
    fn a_trace_names_its_connections_while_its_spans_last() {
        let end = |last, port| Endpoint { ip: [10, 0, 0, last].into(), port };
        let span = Span {
            id: SpanId(1),
            start_ns: 10_000_000,
            end_ns: 20_000_000,
            tuple: FiveTuple { client: end(1, 40_000), server: end(2, 80), transport: Transport::Tcp },
            ..Span::default()
        };
        let spans = vec![TraceSpan { span: span.into(), link: None, depth: 0, links: Vec::new() }];
        let trace = json!({"id": serde_json::to_value(TraceId::default()).unwrap(), "spans": spans, "complete": true});
        let subject = Subject::of_trace(trace).unwrap();
        assert!(subject.has(&packet(15_000_000, 40_000, 80)));
        assert!(!subject.has(&packet(15_000_000, 40_001, 80)), "another connection");
        assert!(!subject.has(&packet(22_000_000, 40_000, 80)), "the next request");
        let mut answer = packet(19_000_000, 40_000, 80);
        let Route { source, destination, source_port, destination_port, .. } = answer.route;
        (answer.route.source, answer.route.destination) = (destination, source);
        (answer.route.source_port, answer.route.destination_port) = (destination_port, source_port);
        assert!(subject.has(&answer));
    }

    #[test]
    fn a_service_is_known_by_its_servers() {
        let answer = json!({"spans": [{"server": "10.0.0.2:80"}, {"server": "10.0.0.2:80"}, {"server": "?"}, {}]});
        let subject = Subject::of_spans(&answer);
        assert_eq!(subject.servers().collect::<Vec<_>>(), ["10.0.0.2:80".parse().unwrap()]);
        assert!(subject.has(&packet(1, 7, 80)) && !subject.has(&packet(1, 7, 81)));
        assert_eq!(Subject::of_spans(&json!({})), Subject::default());
    }
}
