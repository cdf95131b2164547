//! The map of a live stream: sums per edge that only grow, for metrics.
//!
//! A span waits a moment for the span of the other end. Then its edge is known, and the span is counted as in the whole
//! map. Spans of one end of one connection belong to the same edge, so they wait as one sum. Connections are forgotten
//! after one to two minutes.

mod sums;
mod top;

pub use sums::{CallSums, Durations, FlowSums, GraphEdge, LinkEdge, LinkSums, BOUNDS_S, RTT_BOUNDS_S};

use crate::blocks::Blocks;
use crate::builder::is_opaque;
use crate::directory::{Directory, NodeKey};
use crate::graph::NodeKind;
use crate::place::{self, FlowEnds};
use rustc_hash::{FxHashMap, FxHasher};
use std::collections::VecDeque;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, Instant};
use sums::RoundTrips;
use top::Top;
use wirespan_model::{waits_for_work, Flow, Resource, Span, SpanKind, TapSide, Transport};

/// Limits.
#[derive(Clone, Debug)]
pub struct LiveConfig {
    /// How long a span waits for the span of the other end.
    pub wait: Duration,
    /// Most sums of spans, and flow records, that wait. Beyond it the oldest are counted early.
    pub max_waiting: usize,
    /// Most connections that are known at once.
    pub max_connections: usize,
    /// Most edges with a name; the other edges share one sum.
    pub max_edges: usize,
    /// Shortest time that a connection is remembered.
    pub memory: Duration,
}

impl Default for LiveConfig {
    fn default() -> Self {
        LiveConfig {
            wait: Duration::from_secs(2),
            max_waiting: 50_000,
            max_connections: 100_000,
            max_edges: 500,
            memory: Duration::from_secs(60),
        }
    }
}

/// Counts of spans and flow records by their fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveStats {
    /// Requests of which one end was not observed.
    pub unpaired: u64,
    /// Spans that were counted early for lack of room, perhaps without their other end.
    pub early: u64,
    /// Connections that were not matched for lack of room.
    pub unmatched: u64,
    /// Requests counted in the shared sum, because there are too many edges.
    pub folded_requests: u64,
    /// Connections and bytes counted in the shared sum.
    pub folded_flows: u64,
}

/// Spans of one end of one connection.
struct Group {
    first: Arc<Span>,
    requests: u64,
    failed: u64,
    times: Durations,
    /// Both ends were known when it began: there is no NAT to look behind.
    whole: bool,
}

/// The counted part of a flow record; a quarter of its size.
struct FlowPart {
    ends: FlowEnds,
    transport: Transport,
    port: u16,
    resource: Arc<Resource>,
    /// The process's name, if the resource has none.
    comm: Option<Box<str>>,
    sums: FlowSums,
    rtt: RoundTrips,
}

impl FlowPart {
    fn new(flow: &Flow, ends: FlowEnds) -> Self {
        let c = &flow.counts;
        let (request_bytes, response_bytes) =
            if ends.serves { (c.bytes_received, c.bytes_sent) } else { (c.bytes_sent, c.bytes_received) };
        FlowPart {
            ends,
            transport: flow.key.transport,
            port: flow.key.port,
            resource: Arc::clone(&flow.resource),
            comm: flow.resource.service.is_empty().then(|| flow.comm.clone()),
            sums: FlowSums {
                opened: c.opened,
                failed: c.failed,
                request_bytes,
                response_bytes,
                retransmits: c.retransmits,
                resets: c.resets_sent + c.resets_received,
            },
            rtt: RoundTrips::from(&c.srtt),
        }
    }

    fn service(&self) -> &str {
        self.comm.as_deref().unwrap_or(&self.resource.service)
    }
}

/// Evidence that came within one [`SLOT`].
struct Slot {
    first: Instant,
    last: Instant,
    groups: FxHashMap<u64, Group>,
    flows: Vec<FlowPart>,
}

/// The length of a slot: long against the time between the requests of a busy connection, short against the wait.
const SLOT: Duration = Duration::from_millis(250);
/// Share of a half-seen connection's exchanges that is kept for finding its other end. Both ends choose the same
/// exchanges.
const WIRES: u64 = 16;

/// Sums per edge.
pub struct LiveMap {
    config: LiveConfig,
    waiting: VecDeque<Slot>,
    /// Groups and flow records in it.
    waits: usize,
    /// Two directories of connections. Both learn, and the first answers. When the second is old enough it replaces the
    /// first.
    known: [Directory; 2],
    turned: Instant,
    blocks: Blocks,
    calls: Top<GraphEdge, CallSums>,
    flows: Top<LinkEdge, LinkSums>,
    stats: LiveStats,
}

impl LiveMap {
    /// An empty map.
    pub fn new(config: LiveConfig, now: Instant) -> Self {
        let max = config.max_connections;
        LiveMap {
            waiting: VecDeque::new(),
            waits: 0,
            known: [Directory::new(max), Directory::new(max)],
            turned: now,
            blocks: Blocks::default(),
            calls: Top::new(config.max_edges),
            flows: Top::new(config.max_edges),
            stats: LiveStats::default(),
            config,
        }
    }

    /// Takes a span.
    pub fn span(&mut self, span: &Arc<Span>, now: Instant) {
        let request = matches!(span.tap, TapSide::ClientProcess | TapSide::ServerProcess) && !is_opaque(&span.protocol);
        for directory in &mut self.known {
            directory.learn_names(span);
        }
        if !request {
            self.learn(span);
            return;
        }
        let id = group_of(span);
        let slot = slot_of(&mut self.waiting, now);
        if let Some(group) = slot.groups.get_mut(&id) {
            group.add(span);
            let kept = !group.whole && place::wire(span).is_some_and(|wire| wire.is_multiple_of(WIRES));
            if kept {
                self.known.iter_mut().for_each(|directory| directory.learn_wire(span));
            }
            return;
        }
        self.learn(span);
        let mut group = Group {
            first: Arc::clone(span),
            requests: 0,
            failed: 0,
            times: Durations::default(),
            whole: self.known[0].is_whole(span),
        };
        group.add(span);
        slot_of(&mut self.waiting, now).groups.insert(id, group);
        self.waits_more();
    }

    fn learn(&mut self, span: &Span) {
        for directory in &mut self.known {
            directory.learn(span);
            directory.learn_wire(span);
        }
    }

    /// Takes a flow record.
    pub fn flow(&mut self, flow: &Flow, now: Instant) {
        let ends = FlowEnds::of(flow);
        self.known.iter_mut().for_each(|directory| directory.learn_flow(&ends, flow.service()));
        if !ends.alone {
            slot_of(&mut self.waiting, now).flows.push(FlowPart::new(flow, ends));
            self.waits_more();
        }
    }

    fn waits_more(&mut self) {
        self.waits += 1;
        if self.waits > self.config.max_waiting {
            if let Some(slot) = self.waiting.pop_front() {
                self.stats.early += slot.groups.values().map(|g| g.requests).sum::<u64>() + slot.flows.len() as u64;
                self.count(slot);
            }
        }
    }

    /// Counts the spans and flow records that have waited long enough.
    pub fn tick(&mut self, now: Instant) {
        while self.waiting.front().is_some_and(|slot| now.saturating_duration_since(slot.last) >= self.config.wait) {
            if let Some(slot) = self.waiting.pop_front() {
                self.count(slot);
            }
        }
        if now.saturating_duration_since(self.turned) >= self.config.memory {
            self.turned = now;
            self.stats.unmatched += self.known[0].unmatched();
            self.known.swap(0, 1);
            self.known[1] = Directory::new(self.config.max_connections);
            self.calls.turn();
            self.flows.turn();
        }
    }

    /// Counts everything that waits, at the end.
    pub fn finish(&mut self) {
        while let Some(slot) = self.waiting.pop_front() {
            self.count(slot);
        }
    }

    fn count(&mut self, slot: Slot) {
        self.waits = self.waits.saturating_sub(slot.groups.len() + slot.flows.len());
        slot.groups.values().for_each(|group| self.count_group(group));
        slot.flows.iter().for_each(|flow| self.count_flow(flow));
    }

    fn count_group(&mut self, group: &Group) {
        let span = &*group.first;
        let own = NodeKey::new(NodeKind::Service, place::service(span));
        let directory = &self.known[0];
        let serves = span.tap == TapSide::ServerProcess;
        let (client, server) = if serves {
            if directory.asked_locally(span) {
                return;
            }
            (directory.client_of(span).unwrap_or_else(|| directory.caller(span.tuple.client)), own)
        } else {
            (own, directory.server_of(span).0)
        };
        let (client, server) = (self.blocks.of(client), self.blocks.of(server));
        let paired = client.kind == NodeKind::Service && server.kind == NodeKind::Service;
        let connection_type = match span.kind {
            SpanKind::Producer | SpanKind::Consumer => "messaging_system",
            _ if paired => "",
            _ if client.kind == NodeKind::Service && is_database(&span.protocol) => "database",
            _ => "virtual_node",
        };
        // The client of this server span was observed, so the client's span has counted the request already.
        let again = serves && client.kind == NodeKind::Service;
        let edge = GraphEdge { client: client.name, server: server.name, connection_type };
        let sums = self.calls.at(edge, if again { 0 } else { group.requests });
        let times = if serves { &mut sums.server } else { &mut sums.client };
        times.merge(&group.times);
        if !again {
            sums.requests += group.requests;
            sums.failed += group.failed;
            self.stats.unpaired += if paired { 0 } else { group.requests };
        }
    }

    fn count_flow(&mut self, flow: &FlowPart) {
        let Ok((client, server, observed)) = self.known[0].of_flow(&flow.ends, flow.service()) else { return };
        let (client, server) = (self.blocks.of(client), self.blocks.of(server));
        let (transport, port) = (flow.transport, flow.port);
        let edge = LinkEdge { client: client.name, server: server.name, transport, port };
        let again = flow.ends.serves && observed;
        let link = self.flows.at(edge, if again { 0 } else { 1 });
        let (sums, more) = (&mut link.flows, &flow.sums);
        sums.retransmits += more.retransmits;
        if again {
            return;
        }
        sums.opened += more.opened;
        sums.failed += more.failed;
        sums.request_bytes += more.request_bytes;
        sums.response_bytes += more.response_bytes;
        sums.resets += more.resets;
        link.add_round_trips(&flow.rtt);
    }

    /// Requests by edge, sorted; the shared sum, if there is one, as `other` calls `other`.
    pub fn calls(&self) -> Vec<(GraphEdge, &CallSums)> {
        let other = || GraphEdge { client: "other".into(), server: "other".into(), connection_type: "" };
        let named = self.calls.named().into_iter().map(|(edge, sums)| (edge.clone(), sums));
        named.chain(self.calls.rest().map(|(sums, _)| (other(), sums))).collect()
    }

    /// Flow records by edge, sorted; the shared sum, if there is one, as `other` at port 0.
    pub fn flows(&self) -> Vec<(LinkEdge, &LinkSums)> {
        let other = || LinkEdge { client: "other".into(), server: "other".into(), transport: Transport::Tcp, port: 0 };
        let named = self.flows.named().into_iter().map(|(edge, sums)| (edge.clone(), sums));
        named.chain(self.flows.rest().map(|(sums, _)| (other(), sums))).collect()
    }

    /// Counts of spans and flow records by their fate.
    pub fn stats(&self) -> LiveStats {
        let rest = |folded: Option<u64>| folded.unwrap_or(0);
        LiveStats {
            unmatched: self.stats.unmatched + self.known[0].unmatched(),
            folded_requests: rest(self.calls.rest().map(|r| r.1)),
            folded_flows: rest(self.flows.rest().map(|r| r.1)),
            ..self.stats
        }
    }
}

impl Group {
    fn add(&mut self, span: &Span) {
        self.requests += 1;
        self.failed += u64::from(span.status.fails_call());
        if !waits_for_work(span) {
            self.times.add(span.duration_ns());
        }
    }
}

/// The slot that is open now.
fn slot_of(waiting: &mut VecDeque<Slot>, now: Instant) -> &mut Slot {
    if waiting.back().is_none_or(|slot| now.saturating_duration_since(slot.first) >= SLOT) {
        waiting.push_back(Slot { first: now, last: now, groups: FxHashMap::default(), flows: Vec::new() });
    }
    let last = waiting.len() - 1;
    let slot = &mut waiting[last];
    slot.last = now;
    slot
}

/// A hash of everything that decides on which edge a span is counted.
fn group_of(span: &Span) -> u64 {
    let mut hasher = FxHasher::default();
    (span.tap, span.kind, span.host_id, span.netns, span.tuple).hash(&mut hasher);
    (&*span.protocol, place::service(span)).hash(&mut hasher);
    hasher.finish()
}

/// Protocols of databases and caches, in the sense of service graphs.
fn is_database(protocol: &str) -> bool {
    const DATABASES: [&str; 9] =
        ["postgresql", "mysql", "redis", "mongodb", "memcached", "cassandra", "clickhouse", "tds", "ldap"];
    DATABASES.contains(&protocol)
}
