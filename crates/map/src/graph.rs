//! Nodes and edges of the map.

use crate::edge_flow::EdgeFlow;
use crate::histogram::Histogram;
use serde::{Deserialize, Serialize};
use wirespan_model::Transport;

/// Kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// A service that was observed.
    Service,
    /// A server that was not observed, at a name that was looked up by DNS.
    Name,
    /// The address of a server that was not observed.
    Address,
    /// Callers that were not observed, by address.
    Caller,
    /// Many unobserved ends of one private network.
    Block,
    /// Unobserved ends with public addresses.
    Internet,
}

impl NodeKind {
    /// The kind's name in ids and documents.
    pub fn as_str(self) -> &'static str {
        match self {
            NodeKind::Service => "service",
            NodeKind::Name => "name",
            NodeKind::Address => "address",
            NodeKind::Caller => "caller",
            NodeKind::Block => "block",
            NodeKind::Internet => "internet",
        }
    }

    /// The kind of this name.
    pub fn parse(text: &str) -> Option<NodeKind> {
        use NodeKind::{Address, Block, Caller, Internet, Name, Service};
        [Service, Name, Address, Caller, Block, Internet].into_iter().find(|k| k.as_str() == text)
    }
}

/// One service, or unobserved ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// `service.name`, or the name chosen for an unobserved end.
    pub name: String,
    /// Kind.
    pub kind: NodeKind,
    /// Requests that the node answered, as observed at the node itself.
    pub requests: u64,
    /// Of these, failed.
    pub errors: u64,
    /// Hosts on which it was observed, sorted; at most [`MAX_HOSTS`].
    pub hosts: Vec<String>,
}

/// Most hosts that are listed for a node.
pub const MAX_HOSTS: usize = 16;

/// Requests, or connections where the bytes were not understood.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// Number of calls.
    pub count: u64,
    /// Of these, failed, as a client counts ([`wirespan_model::Status::fails_call`]), at both ends.
    pub errors: u64,
    /// Bytes from client to server.
    pub request_bytes: u64,
    /// Bytes from server to client.
    pub response_bytes: u64,
    /// Durations of requests, except of those that wait for work ([`wirespan_model::waits_for_work`]). An edge without
    /// understood requests has none.
    pub latency: Histogram,
}

impl Calls {
    pub(crate) fn merge(&mut self, other: &Calls) {
        self.count += other.count;
        self.errors += other.errors;
        self.request_bytes += other.request_bytes;
        self.response_bytes += other.response_bytes;
        self.latency.merge(&other.latency);
    }

    pub(crate) fn without_latency(self) -> Calls {
        Calls { latency: Histogram::default(), ..self }
    }
}

/// An edge as one of its ends saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Requests that were understood.
    pub calls: Calls,
    /// Connections (or periods of long ones) that were not understood.
    pub opaque: Calls,
    /// Segments that this end retransmitted, as its spans say.
    pub retransmits: u64,
    /// Resets that ended connections in the middle of spans.
    pub resets: u64,
    /// Time for which received bytes waited in this end's socket, at each span.
    pub queue: Histogram,
    /// Smoothed RTT at each span.
    pub rtt: Histogram,
    /// Handshakes, one per connection.
    pub connect: Histogram,
    /// Flow records.
    pub flow: EdgeFlow,
}

/// Calls from one node to another at one port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    /// Index of the caller in [`ServiceMap::nodes`].
    pub client: usize,
    /// Index of the called.
    pub server: usize,
    /// Transport.
    pub transport: Transport,
    /// Port at which the server listens; 0 for Unix sockets.
    pub port: u16,
    /// Protocols understood, most calls first; empty if none was.
    pub protocols: Vec<(String, u64)>,
    /// Every call once: from the caller's view, or from the called one's if the caller was not observed. Without any
    /// understood request, the connections that were not understood.
    pub total: Calls,
    /// Connections that were not understood, on an edge that also has understood requests.
    pub opaque: Calls,
    /// The caller's view.
    pub client_view: Option<View>,
    /// The called one's view.
    pub server_view: Option<View>,
}

impl Edge {
    /// The protocol with most calls, or the transport.
    pub fn protocol(&self) -> &str {
        self.protocols.first().map_or(self.transport.as_str(), |(name, _)| name)
    }
}

/// Nodes and edges, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServiceMap {
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Edges.
    pub edges: Vec<Edge>,
    /// Start of the first evidence, Unix ns; 0 if there is none.
    pub first_ns: u64,
    /// End of the last evidence, Unix ns.
    pub last_ns: u64,
    /// Connections beyond those whose two ends could be matched; their calls may stand on two edges.
    pub unmatched: u64,
}
