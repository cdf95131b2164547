//! The dependency map: which service calls which, over what, how often, how fast, with how many errors, over how
//! healthy a network.
//!
//! Takes spans (requests, latency, errors) and flow records (connections, bytes, TCP health, at any sampling rate).
//! Gives a [`ServiceMap`], its [`Document`] for files and the API, the [`Diff`] of two documents, and a [`LiveMap`]:
//! sums per edge for metrics, while the evidence passes by.
//!
//! Both ends of a call are one edge with two views. The edge's total is what the client of a connection saw; what only
//! its server saw is added. So no call counts twice. The map is built in three steps, and the order of the evidence
//! does not matter:
//!
//! 1. `directory`: which service is at which end of each connection, by five-tuple, by TCP sequence numbers (they
//!    survive NAT), by listening address;
//! 2. `remote`: a name for each end that was not observed: a DNS name, an address, an address block, the internet;
//! 3. `builder`: count each span and flow record on its edge.
//!
//! This crate reads no store and draws nothing: the caller brings the [`Evidence`], and `view` draws the document.
#![forbid(unsafe_code)]

mod blocks;
mod builder;
mod diff;
mod directory;
mod document;
mod edge_flow;
mod evidence;
mod graph;
mod histogram;
mod metrics;
mod place;
mod pool;
mod remote;
mod series;

pub use diff::{Change, Diff, DiffLimits, Growth, Measure};
pub use document::{CallStats, Document, MapEdge, MapNode, TcpStats, ViewStats};
pub use edge_flow::EdgeFlow;
pub use evidence::Evidence;
pub use graph::{Calls, Edge, Node, NodeKind, ServiceMap, View, MAX_HOSTS};
pub use histogram::Histogram;
pub use metrics::{
    CallSums, Durations, FlowSums, GraphEdge, LinkEdge, LinkSums, LiveConfig, LiveMap, LiveStats, BOUNDS_S,
    RTT_BOUNDS_S,
};
pub use series::{EdgeId, Point, Series};
