//! The service map: who calls whom over which protocol, how often, how fast, with how many errors.

use crate::histogram::Histogram;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::net::IpAddr;
use wirespan_model::key::hash64;
use wirespan_model::{Endpoint, Span, SpanKind, TapSide};
use wirespan_store::{Store, StoreError, TimeRange};

/// Connections whose both ends are recognised; beyond it an edge may be counted at both ends.
const MAX_CONNECTIONS: usize = 1_000_000;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// A service that was observed.
    Service,
    /// An address at which something answers that was not observed.
    Address,
    /// Callers that were not observed, by address.
    Caller,
}

/// One service or address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// `service.name`, or the address.
    pub name: String,
    /// Kind.
    pub kind: NodeKind,
    /// Requests answered by it, as seen by itself.
    pub requests: u64,
    /// Of these, failed.
    pub errors: u64,
}

/// Calls from one node to another over one protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    /// Index of the caller in [`ServiceMap::nodes`].
    pub client: usize,
    /// Index of the called.
    pub server: usize,
    /// Protocol.
    pub protocol: String,
    /// Requests (connections, where the protocol was not understood).
    pub count: u64,
    /// Of these, failed ([`wirespan_model::Status::is_error`]).
    pub errors: u64,
    /// Bytes from client to server.
    pub request_bytes: u64,
    /// Bytes from server to client.
    pub response_bytes: u64,
    /// Segments retransmitted on the connections of these calls: the largest count that one of them reported.
    pub retransmits: u64,
    /// Durations, as the caller saw them (as the called saw them, if the caller was not observed).
    pub latency: Histogram,
    /// Whether the caller's side was observed.
    pub seen_by_client: bool,
}

/// Nodes and edges, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServiceMap {
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Edges.
    pub edges: Vec<Edge>,
}

/// Shows every span to a visitor.
pub type Scan<'a, E> = &'a mut dyn FnMut(&mut dyn FnMut(&Span)) -> Result<(), E>;

/// An address as one host sees it: loopback is another one on each host and network namespace.
type Place = (u64, u32, Endpoint);

fn place(span: &Span, end: Endpoint) -> Place {
    if end.ip.is_loopback() {
        (span.host_id, span.netns, end)
    } else {
        (0, 0, end)
    }
}

fn connection(span: &Span) -> u64 {
    let t = &span.tuple;
    let ip = |ip: IpAddr| match ip {
        IpAddr::V4(v) => v.to_ipv6_mapped().octets(),
        IpAddr::V6(v) => v.octets(),
    };
    let host = if t.server.ip.is_loopback() { span.host_id } else { 0 };
    hash64(&[
        &ip(t.client.ip),
        &t.client.port.to_le_bytes(),
        &ip(t.server.ip),
        &t.server.port.to_le_bytes(),
        &[t.transport as u8],
        &host.to_le_bytes(),
    ])
}

/// Service of a span; the thread's name if it has none.
fn service(span: &Span) -> &str {
    match &*span.resource.service {
        "" => &span.comm,
        name => name,
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct NodeKey(String, NodeKind);

#[derive(Default)]
struct Builder {
    /// First pass: who listens where, and which connections were seen by their client.
    listeners: FxHashMap<Place, String>,
    callers: FxHashSet<u64>,
    /// Second pass.
    nodes: FxHashMap<NodeKey, (u64, u64)>,
    edges: FxHashMap<(NodeKey, NodeKey, Cow<'static, str>), Edge>,
}

impl ServiceMap {
    /// The map of the spans in a store that start in the range.
    pub fn of_store(store: &dyn Store, range: TimeRange) -> Result<ServiceMap, StoreError> {
        ServiceMap::build(&mut |visit| store.scan_outline(range, visit))
    }

    /// The map of some spans.
    pub fn of_spans<'a>(spans: impl IntoIterator<Item = &'a Span> + Clone) -> ServiceMap {
        let mut scan = |visit: &mut dyn FnMut(&Span)| {
            spans.clone().into_iter().for_each(visit);
            Ok::<(), std::convert::Infallible>(())
        };
        match ServiceMap::build(&mut scan) {
            Ok(map) => map,
            Err(never) => match never {},
        }
    }

    /// The map of the spans that `scan` shows. It is called twice: an address is known only when all listeners are.
    pub fn build<E>(scan: Scan<'_, E>) -> Result<ServiceMap, E> {
        let mut b = Builder::default();
        scan(&mut |span| b.learn(span))?;
        scan(&mut |span| b.count(span))?;
        Ok(b.finish())
    }
}

impl Builder {
    fn learn(&mut self, span: &Span) {
        match span.tap {
            TapSide::ServerProcess if span.tuple.server.port != 0 => {
                let at = place(span, span.tuple.server);
                let name = service(span);
                let known = self.listeners.entry(at).or_insert_with(|| name.to_string());
                // Several processes behind one address: the least name, so that the order of spans does not matter.
                if name < known.as_str() {
                    *known = name.to_string();
                }
            }
            TapSide::ClientProcess if self.callers.len() < MAX_CONNECTIONS => {
                self.callers.insert(connection(span));
            }
            _ => {}
        }
    }

    fn count(&mut self, span: &Span) {
        let failed = u64::from(span.status.is_error(span.kind));
        match span.tap {
            TapSide::ServerProcess => {
                let server = NodeKey(service(span).to_string(), NodeKind::Service);
                let n = self.nodes.entry(server.clone()).or_default();
                n.0 += 1;
                n.1 += failed;
                if !self.callers.contains(&connection(span)) {
                    let client = match span.tuple.client.port {
                        0 => NodeKey("unix".into(), NodeKind::Caller),
                        _ => NodeKey(span.tuple.client.ip.to_string(), NodeKind::Caller),
                    };
                    self.edge(client, server, span, failed, false);
                }
            }
            TapSide::ClientProcess => {
                let client = NodeKey(service(span).to_string(), NodeKind::Service);
                let server = self.called(span);
                self.edge(client, server, span, failed, true);
            }
            TapSide::Capture => {
                let client = NodeKey(span.tuple.client.ip.to_string(), NodeKind::Caller);
                let server = self.called(span);
                self.edge(client, server, span, failed, true);
            }
            TapSide::App if matches!(span.kind, SpanKind::Internal) => {}
            _ => {}
        }
    }

    fn called(&self, span: &Span) -> NodeKey {
        let end = span.tuple.server;
        match self.listeners.get(&place(span, end)) {
            Some(name) => NodeKey(name.clone(), NodeKind::Service),
            None if end.port == 0 => NodeKey(span.tuple.transport.as_str().into(), NodeKind::Address),
            None => NodeKey(end.to_string(), NodeKind::Address),
        }
    }

    fn edge(&mut self, client: NodeKey, server: NodeKey, span: &Span, failed: u64, seen_by_client: bool) {
        self.nodes.entry(client.clone()).or_default();
        self.nodes.entry(server.clone()).or_default();
        let e = self.edges.entry((client, server, span.protocol.clone())).or_insert_with(|| Edge {
            client: 0,
            server: 0,
            protocol: span.protocol.to_string(),
            count: 0,
            errors: 0,
            request_bytes: 0,
            response_bytes: 0,
            retransmits: 0,
            latency: Histogram::default(),
            seen_by_client,
        });
        e.count += 1;
        e.errors += failed;
        e.request_bytes += span.request_bytes;
        e.response_bytes += span.response_bytes;
        e.retransmits = e.retransmits.max(u64::from(span.tcp.retransmits));
        e.latency.add(span.duration_ns());
    }

    fn finish(self) -> ServiceMap {
        let mut nodes: Vec<(NodeKey, (u64, u64))> = self.nodes.into_iter().collect();
        nodes.sort_unstable();
        let index: FxHashMap<NodeKey, usize> = nodes.iter().enumerate().map(|(i, (k, _))| (k.clone(), i)).collect();
        let mut edges: Vec<Edge> = self
            .edges
            .into_iter()
            .map(|((client, server, _), edge)| Edge { client: index[&client], server: index[&server], ..edge })
            .collect();
        edges.sort_unstable_by(|a, b| (a.client, a.server, &a.protocol).cmp(&(b.client, b.server, &b.protocol)));
        let nodes = nodes
            .into_iter()
            .map(|(NodeKey(name, kind), (requests, errors))| Node { name, kind, requests, errors })
            .collect();
        ServiceMap { nodes, edges }
    }
}
