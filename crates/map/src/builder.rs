//! Counts spans and flow records on the edges.

use crate::directory::{Directory, NodeKey};
use crate::evidence::{Evidence, InMemory};
use crate::graph::{Calls, Edge, Node, NodeKind, ServiceMap, View, MAX_HOSTS};
use crate::place::{self, FlowEnds};
use crate::pool::Pool;
use crate::series::{EdgeId, Series};
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use wirespan_model::{waits_for_work, Flow, FlowKey, Span, TapSide, Transport};

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct EdgeKey {
    client: u32,
    server: u32,
    transport: Transport,
    port: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Side {
    Client,
    Server,
}

#[derive(Default)]
struct Tally {
    protocols: BTreeMap<Cow<'static, str>, u64>,
    total: Calls,
    opaque: Calls,
    client: Option<View>,
    server: Option<View>,
}

#[derive(Default)]
struct NodeTally {
    requests: u64,
    errors: u64,
    hosts: BTreeSet<Box<str>>,
}

/// Counts evidence with the ends that the directory knows.
struct Builder<'a> {
    directory: &'a Directory,
    nodes: Pool<NodeKey>,
    tallies: FxHashMap<u32, NodeTally>,
    edges: FxHashMap<EdgeKey, Tally>,
    /// Connections with a counted handshake, by end.
    connected: FxHashSet<(Side, u64)>,
    /// The last record of each flow: its end, its number of open connections, and the edge and side that
    /// counted them.
    active: FxHashMap<FlowKey, (u64, u64, EdgeKey, Side)>,
    series: Option<(EdgeId, Series)>,
    /// Where the evidence begins and ends.
    bounds: Option<(u64, u64)>,
}

impl ServiceMap {
    /// The map of this evidence and, if one is wanted, one of its edges over time.
    pub fn build<E: Evidence>(
        evidence: &E,
        series: Option<(EdgeId, Series)>,
    ) -> Result<(ServiceMap, Option<Series>), E::Error> {
        let mut directory = Directory::default();
        evidence.lookups(&mut |span| directory.learn_names(span))?;
        evidence.spans(&mut |span| directory.learn(span))?;
        evidence.flows(&mut |flow| directory.learn_flow(&FlowEnds::of(flow), flow.service()))?;
        if directory.wants_wires() {
            evidence.spans(&mut |span| directory.learn_wire(span))?;
        }
        directory.settle();
        let mut builder = Builder {
            directory: &directory,
            nodes: Pool::default(),
            tallies: FxHashMap::default(),
            edges: FxHashMap::default(),
            connected: FxHashSet::default(),
            active: FxHashMap::default(),
            series,
            bounds: None,
        };
        evidence.spans(&mut |span| builder.span(span))?;
        evidence.flows(&mut |flow| builder.flow(flow))?;
        Ok(builder.finish())
    }

    /// The map of some spans.
    pub fn of_spans<'a>(spans: impl IntoIterator<Item = &'a Span> + Clone) -> ServiceMap {
        ServiceMap::of_evidence(spans, &[])
    }

    /// The map of some spans and flow records.
    pub fn of_evidence<'a>(spans: impl IntoIterator<Item = &'a Span> + Clone, flows: &[Flow]) -> ServiceMap {
        match ServiceMap::build(&InMemory { spans, flows }, None) {
            Ok((map, _)) => map,
            Err(never) => match never {},
        }
    }
}

/// Whether the protocol was not understood: the span is a connection.
pub(crate) fn is_opaque(protocol: &str) -> bool {
    matches!(protocol, "" | "tcp" | "udp" | "unix")
}

fn count(calls: &mut Calls, span: &Span, failed: bool) {
    calls.count += 1;
    calls.errors += u64::from(failed);
    calls.request_bytes += span.request_bytes;
    calls.response_bytes += span.response_bytes;
    // When work comes says nothing about the speed of answers.
    if !waits_for_work(span) {
        calls.latency.add(span.duration_ns());
    }
}

impl Builder<'_> {
    fn seen(&mut self, from: u64, to: u64) {
        let (first, last) = self.bounds.unwrap_or((from, to));
        self.bounds = Some((first.min(from), last.max(to)));
    }

    fn span(&mut self, span: &Span) {
        let t = &span.tuple;
        self.seen(span.start_ns, span.end_ns);
        match span.tap {
            TapSide::ServerProcess => {
                let server = NodeKey::new(NodeKind::Service, place::service(span));
                let at = self.observed(&server, &span.resource.host);
                let node = self.tallies.entry(at).or_default();
                node.requests += 1;
                node.errors += u64::from(span.status.is_error(span.kind));
                if self.directory.asked_locally(span) {
                    return;
                }
                let client = self.directory.client_of(span);
                let seen = client.is_some();
                let client = client.unwrap_or_else(|| self.directory.caller(t.client));
                self.request((client, server, t.server.port), span, Side::Server, !seen);
            }
            TapSide::ClientProcess => {
                let client = NodeKey::new(NodeKind::Service, place::service(span));
                self.observed(&client, &span.resource.host);
                let (server, port) = self.directory.server_of(span);
                self.request((client, server, port), span, Side::Client, true);
            }
            // A capture file has no side, so every request counts once.
            _ if span.is_first_capture() => {
                let client = self.directory.caller(t.client);
                let (server, port) = self.directory.server_of(span);
                self.request((client, server, port), span, Side::Client, true);
            }
            _ => {}
        }
    }

    fn observed(&mut self, node: &NodeKey, host: &str) -> u32 {
        let at = self.nodes.id(node);
        let hosts = &mut self.tallies.entry(at).or_default().hosts;
        if !host.is_empty() && !hosts.contains(host) {
            hosts.insert(host.into());
            // If there are too many hosts, the first by the alphabet stay, so that the order of the evidence does not
            // matter.
            if hosts.len() > MAX_HOSTS {
                hosts.pop_last();
            }
        }
        at
    }

    fn key(&mut self, client: &NodeKey, server: &NodeKey, transport: Transport, port: u16) -> EdgeKey {
        EdgeKey { client: self.nodes.id(client), server: self.nodes.id(server), transport, port }
    }

    fn request(&mut self, (client, server, port): (NodeKey, NodeKey, u16), span: &Span, side: Side, totals: bool) {
        let key = self.key(&client, &server, span.tuple.transport, port);
        let failed = span.status.fails_call();
        let opaque = is_opaque(&span.protocol);
        let tally = self.edges.entry(key).or_default();
        if !opaque && totals {
            *tally.protocols.entry(span.protocol.clone()).or_default() += 1;
        }
        if totals {
            count(if opaque { &mut tally.opaque } else { &mut tally.total }, span, failed);
        }
        let view = match side {
            Side::Client => &mut tally.client,
            Side::Server => &mut tally.server,
        };
        let view = view.get_or_insert_default();
        count(if opaque { &mut view.opaque } else { &mut view.calls }, span, failed);
        let connection = place::connection(span);
        if span.tcp.srtt_ns > 0 {
            view.rtt.add(span.tcp.srtt_ns);
        }
        if span.tcp.connect_ns > 0 && self.connected.insert((side, connection)) {
            view.connect.add(span.tcp.connect_ns);
        }
        if span.tcp.queue_us > 0 {
            view.queue.add(u64::from(span.tcp.queue_us) * 1000);
        }
        view.retransmits += u64::from(span.tcp.retransmits);
        view.resets += u64::from(span.tcp.resets);
        if let Some((id, series)) = &mut self.series {
            if id.is(&client, &server, span.tuple.transport, port) {
                series.span(span, totals && !opaque, failed);
            }
        }
    }

    fn flow(&mut self, flow: &Flow) {
        self.seen(flow.start_ns, flow.end_ns);
        let (service, ends) = (flow.service(), FlowEnds::of(flow));
        self.observed(&NodeKey::new(NodeKind::Service, service), &flow.resource.host);
        // The record of a listening socket itself belongs to no edge. Neither does one end of a link that several
        // services share.
        if ends.alone {
            return;
        }
        let Ok((client, server, _)) = self.directory.of_flow(&ends, service) else { return };
        let port = flow.key.port;
        let key = self.key(&client, &server, flow.key.transport, port);
        let serves = ends.serves;
        let tally = self.edges.entry(key).or_default();
        let (view, side) = if serves { (&mut tally.server, Side::Server) } else { (&mut tally.client, Side::Client) };
        view.get_or_insert_default().flow.add(&flow.counts, serves);
        let now = (flow.end_ns, flow.counts.active, key, side);
        let last = self.active.entry(flow.key).or_insert(now);
        if (now.0, now.1) > (last.0, last.1) {
            *last = now;
        }
        if let Some((id, series)) = &mut self.series {
            if id.is(&client, &server, flow.key.transport, port) {
                series.flow(flow, serves);
            }
        }
    }

    fn view(&mut self, key: EdgeKey, side: Side) -> Option<&mut View> {
        let tally = self.edges.get_mut(&key)?;
        match side {
            Side::Client => tally.client.as_mut(),
            Side::Server => tally.server.as_mut(),
        }
    }

    fn finish(mut self) -> (ServiceMap, Option<Series>) {
        for (_, active, key, side) in std::mem::take(&mut self.active).into_values() {
            if let Some(view) = self.view(key, side) {
                view.flow.counts.active += active;
            }
        }
        let mut nodes: Vec<(NodeKey, u32)> = self.nodes.into_values().into_iter().zip(0..).collect();
        nodes.sort_unstable();
        let place: FxHashMap<u32, usize> = nodes.iter().enumerate().map(|(at, (_, id))| (*id, at)).collect();
        let place = |id: u32| place.get(&id).copied().unwrap_or_default();
        let mut edges: Vec<Edge> =
            self.edges.into_iter().map(|(key, tally)| tally.edge(place(key.client), place(key.server), &key)).collect();
        edges.sort_unstable_by_key(|e| (e.client, e.server, e.transport, e.port));
        let mut tallies = self.tallies;
        let nodes = nodes.into_iter().map(|(key, id)| {
            let tally = tallies.remove(&id).unwrap_or_default();
            let hosts = tally.hosts.into_iter().map(String::from).collect();
            Node { name: key.name.into(), kind: key.kind, requests: tally.requests, errors: tally.errors, hosts }
        });
        let (first_ns, last_ns) = self.bounds.unwrap_or_default();
        let unmatched = self.directory.unmatched();
        let map = ServiceMap { nodes: nodes.collect(), edges, first_ns, last_ns, unmatched };
        (map, self.series.map(|(_, series)| series))
    }
}

impl Tally {
    fn edge(self, client: usize, server: usize, key: &EdgeKey) -> Edge {
        let mut protocols: Vec<(String, u64)> = self.protocols.into_iter().map(|(p, n)| (p.into(), n)).collect();
        protocols.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        // Where nothing was understood, a connection counts as the call, but without a latency: its duration says
        // nothing about the speed of answers.
        let (total, opaque) = if protocols.is_empty() {
            (self.opaque.without_latency(), Calls::default())
        } else {
            (self.total, self.opaque)
        };
        let (transport, port) = (key.transport, key.port);
        let (client_view, server_view) = (self.client, self.server);
        Edge { client, server, transport, port, protocols, total, opaque, client_view, server_view }
    }
}
