//! Which service is at which end of a connection.

use super::pool::Pool;
use super::remote::Remote;
use super::NodeKind;
use rustc_hash::FxHashMap;
use std::net::IpAddr;
use wirespan_model::event::Role;
use wirespan_model::key::hash64;
use wirespan_model::{Endpoint, Flow, Span, TapSide, Transport};

/// Connections whose ends are matched; those beyond are counted.
const MAX_CONNECTIONS: usize = 1_000_000;

/// A node before it has a place.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct NodeKey {
    pub(super) name: Box<str>,
    pub(super) kind: NodeKind,
}

impl NodeKey {
    pub(super) fn new(kind: NodeKind, name: impl Into<Box<str>>) -> Self {
        NodeKey { name: name.into(), kind }
    }
}

/// An address as one host sees it: loopback is another one on each host and in each network namespace.
type Place = (u64, u32, Endpoint);

fn place(host: u64, netns: u32, end: Endpoint) -> Place {
    if end.ip.is_loopback() {
        (host, netns, end)
    } else {
        (0, 0, end)
    }
}

fn place_id((host, netns, end): Place) -> u64 {
    hash64(&[&host.to_le_bytes(), &netns.to_le_bytes(), &ip_bytes(end.ip), &end.port.to_le_bytes()])
}

fn ip_bytes(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v) => v.to_ipv6_mapped().octets(),
        IpAddr::V6(v) => v.octets(),
    }
}

/// One connection, the same at both of its ends (but for NAT between them).
fn connection(span: &Span) -> u64 {
    let t = &span.tuple;
    // Unix sockets have no address: all of a host are one.
    let local = t.server.ip.is_loopback() || t.server.port == 0;
    let host = if local { span.host_id } else { 0 };
    hash64(&[
        &ip_bytes(t.client.ip),
        &t.client.port.to_le_bytes(),
        &ip_bytes(t.server.ip),
        &t.server.port.to_le_bytes(),
        &[t.transport as u8],
        &host.to_le_bytes(),
    ])
}

/// The request's and the response's first sequence number: the same at both ends, whatever was rewritten on the way.
pub(super) fn wire(span: &Span) -> Option<u64> {
    let (request, response) = (span.request_seq?, span.response_seq?);
    Some(u64::from(request) << 32 | u64::from(response))
}

/// All connections from one address to one port at another, as flow records know them.
fn link(transport: Transport, client: IpAddr, server: Endpoint, host: u64, netns: u32) -> u64 {
    let (host, netns) = if server.ip.is_loopback() { (host, netns) } else { (0, 0) };
    hash64(&[
        &[transport as u8],
        &ip_bytes(client),
        &ip_bytes(server.ip),
        &server.port.to_le_bytes(),
        &host.to_le_bytes(),
        &netns.to_le_bytes(),
    ])
}

/// What a flow record says of its two ends.
#[derive(Clone, Copy)]
pub(super) struct FlowEnds {
    link: u64,
    from: IpAddr,
    to: Place,
    /// The record is of the server's side.
    pub(super) serves: bool,
    /// The other end is not told: a listening socket's own record.
    pub(super) alone: bool,
}

impl FlowEnds {
    pub(super) fn of(flow: &Flow) -> Self {
        let k = &flow.key;
        // Peers of equal rank stand in the order of their addresses, so that both name the same edge.
        let serves = k.role == Role::Server || (k.role == Role::Unknown && k.remote < k.local);
        let (from, ip) = if serves { (k.remote, k.local) } else { (k.local, k.remote) };
        let server = Endpoint::new(ip, k.port);
        FlowEnds {
            link: link(k.transport, from, server, k.host_id, k.netns),
            from,
            to: place(k.host_id, k.netns, server),
            serves: serves || (k.role != Role::Client && k.remote == k.local),
            alone: k.remote.is_unspecified(),
        }
    }
}

/// Service of a span; the thread's name if it has none.
pub(super) fn service(span: &Span) -> &str {
    match &*span.resource.service {
        "" => &span.comm,
        name => name,
    }
}

/// Service of a flow record; the task's name if it has none.
pub(super) fn flow_service(flow: &Flow) -> &str {
    match &*flow.resource.service {
        "" => &flow.comm,
        name => name,
    }
}

const NOBODY: u32 = u32::MAX;
/// Several services: none can be named.
const SEVERAL: u32 = u32::MAX - 1;

#[derive(Clone, Copy)]
struct Ends {
    client: u32,
    server: u32,
    from: IpAddr,
    to: Place,
}

/// Who is at the two ends of a link.
#[derive(Clone, Copy)]
struct Pair {
    client: u32,
    server: u32,
}

/// The other end of a connection that NAT hides.
#[derive(Clone, Copy)]
struct Peer {
    service: u32,
    port: u16,
}

/// Services by connection and by listening address. Told everything once, then settled, then asked.
pub(super) struct Directory {
    /// Most connections, and most of everything else that is kept per connection.
    max: usize,
    services: Pool<Box<str>>,
    /// By [`place_id`].
    listeners: FxHashMap<u64, u32>,
    connections: FxHashMap<u64, Ends>,
    links: FxHashMap<u64, Pair>,
    /// The addresses of all links, if it is to be settled: as many peers as there are, so kept nowhere else.
    addresses: Option<Vec<(u64, IpAddr, Place)>>,
    /// Half-seen connections by the sequence numbers of their exchanges: as the client saw it, as the server saw it.
    wires: FxHashMap<u64, [u64; 2]>,
    peers: FxHashMap<u64, Peer>,
    remote: Remote,
    unmatched: u64,
}

/// The lesser name of two, so that the order does not matter.
fn lesser(services: &Pool<Box<str>>, a: u32, b: u32) -> u32 {
    if a == NOBODY || services.get(b) < services.get(a) {
        b
    } else {
        a
    }
}

fn only(known: u32, service: u32) -> u32 {
    if known == NOBODY || known == service {
        service
    } else {
        SEVERAL
    }
}

impl Default for Directory {
    fn default() -> Self {
        Directory { addresses: Some(Vec::new()), ..Directory::new(MAX_CONNECTIONS) }
    }
}

impl Directory {
    /// Knows nothing yet; matches at most so many connections. Not to be settled: ends that nobody observed keep their
    /// address.
    pub(super) fn new(max: usize) -> Self {
        Directory {
            max,
            services: Pool::default(),
            listeners: FxHashMap::default(),
            connections: FxHashMap::default(),
            links: FxHashMap::default(),
            addresses: None,
            wires: FxHashMap::default(),
            peers: FxHashMap::default(),
            remote: Remote::default(),
            unmatched: 0,
        }
    }

    /// Before all: names that DNS spans tell.
    pub(super) fn learn_names(&mut self, span: &Span) {
        self.remote.learn(span);
    }

    /// First round: every span.
    pub(super) fn learn(&mut self, span: &Span) {
        let serves = match span.tap {
            TapSide::ServerProcess => true,
            TapSide::ClientProcess => false,
            _ => return,
        };
        let id = self.services.text(service(span));
        let (host, netns, t) = (span.host_id, span.netns, &span.tuple);
        let to = place(host, netns, t.server);
        if serves && t.server.port != 0 {
            self.listen(to, id);
        }
        let key = connection(span);
        if self.connections.len() >= self.max && !self.connections.contains_key(&key) {
            self.unmatched += 1;
        } else {
            let new = Ends { client: NOBODY, server: NOBODY, from: t.client.ip, to };
            let ends = self.connections.entry(key).or_insert(new);
            let end = if serves { &mut ends.server } else { &mut ends.client };
            *end = lesser(&self.services, *end, id);
        }
        if t.server.port != 0 {
            self.link(link(t.transport, t.client.ip, t.server, host, netns), t.client.ip, to, serves, id);
        }
    }

    /// First round: every flow record, with the service whose it is.
    pub(super) fn learn_flow(&mut self, ends: &FlowEnds, service: &str) {
        let id = self.services.text(service);
        if ends.serves && !ends.to.2.ip.is_unspecified() {
            self.listen(ends.to, id);
        }
        if !ends.alone {
            self.link(ends.link, ends.from, ends.to, ends.serves, id);
        }
    }

    /// Several processes behind one address: the least name, so that the order does not matter.
    fn listen(&mut self, at: Place, id: u32) {
        let key = place_id(at);
        if self.listeners.len() >= self.max && !self.listeners.contains_key(&key) {
            return;
        }
        let known = self.listeners.entry(key).or_insert(NOBODY);
        *known = lesser(&self.services, *known, id);
    }

    fn link(&mut self, key: u64, from: IpAddr, to: Place, serves: bool, id: u32) {
        if self.links.len() >= self.max && !self.links.contains_key(&key) {
            self.unmatched += 1;
            return;
        }
        let addresses = &mut self.addresses;
        let ends = self.links.entry(key).or_insert_with(|| {
            if let Some(all) = addresses {
                all.push((key, from, to));
            }
            Pair { client: NOBODY, server: NOBODY }
        });
        let end = if serves { &mut ends.server } else { &mut ends.client };
        *end = only(*end, id);
    }

    /// Whether a second round can find ends that the first did not.
    pub(super) fn wants_wires(&self) -> bool {
        let half = |end: fn(&Ends) -> u32| self.connections.values().any(|c| end(c) == NOBODY && c.to.2.port != 0);
        half(|c| c.client) && half(|c| c.server)
    }

    /// Whether both ends of the span's connection were seen.
    pub(super) fn is_whole(&self, span: &Span) -> bool {
        self.connections.get(&connection(span)).is_none_or(|c| c.client != NOBODY && c.server != NOBODY)
    }

    /// Second round: every span again.
    pub(super) fn learn_wire(&mut self, span: &Span) {
        let side = match span.tap {
            TapSide::ServerProcess => 1,
            TapSide::ClientProcess => 0,
            _ => return,
        };
        let (Some(wire), key) = (wire(span), connection(span)) else { return };
        if self.is_whole(span) || (self.wires.len() >= self.max && !self.wires.contains_key(&wire)) {
            return;
        }
        let sides = self.wires.entry(wire).or_default();
        sides[side] = sides[side].max(key);
        let [client, server] = *sides;
        let (Some(c), Some(s)) = (self.connections.get(&client), self.connections.get(&server)) else { return };
        let port = s.to.2.port;
        for (key, peer) in [(client, Peer { service: s.server, port }), (server, Peer { service: c.client, port })] {
            let known = self.peers.entry(key).or_insert(peer);
            if self.services.get(peer.service) < self.services.get(known.service) {
                *known = peer;
            }
        }
    }

    /// No more to learn: names are chosen for what nobody observed.
    pub(super) fn settle(&mut self) {
        self.wires = FxHashMap::default();
        let unseen = |key: u64, who: Pair, from: IpAddr, to: Place| {
            let unix = to.2.port == 0 && from.is_unspecified();
            let found = self.peers.contains_key(&key);
            let client = (who.client == NOBODY && !found && !unix).then_some(from);
            let heard = || self.listeners.contains_key(&place_id(to));
            let server = (who.server == NOBODY && !found && !unix && !heard()).then_some(to.2.ip);
            [client, server].into_iter().flatten()
        };
        let connections = self.connections.iter().map(|(key, c)| {
            let who = Pair { client: c.client, server: c.server };
            (*key, who, c.from, c.to)
        });
        let links = self.addresses.iter().flatten().filter_map(|(key, from, to)| {
            let who = self.links.get(key)?;
            Some((*key, *who, *from, *to))
        });
        let ends: Vec<IpAddr> =
            connections.chain(links).flat_map(|(k, who, from, to)| unseen(k, who, from, to)).collect();
        self.remote.fold(ends.into_iter());
    }

    fn named(&self, id: u32) -> Option<NodeKey> {
        self.services.get(id).map(|name| NodeKey::new(NodeKind::Service, name.clone()))
    }

    /// The node of the span's server, and the port at which it listens.
    pub(super) fn server_of(&self, span: &Span) -> (NodeKey, u16) {
        let (key, end) = (connection(span), span.tuple.server);
        if end.port == 0 {
            return (NodeKey::new(NodeKind::Address, span.tuple.transport.as_str()), 0);
        }
        let exact = self.connections.get(&key).and_then(|c| self.named(c.server)).map(|name| (name, end.port));
        exact
            .or_else(|| self.peers.get(&key).and_then(|p| Some((self.named(p.service)?, p.port))))
            .unwrap_or_else(|| (self.at(place(span.host_id, span.netns, end)), end.port))
    }

    fn at(&self, place: Place) -> NodeKey {
        let known = self.listeners.get(&place_id(place)).and_then(|id| self.named(*id));
        known.unwrap_or_else(|| self.remote.server(place.2))
    }

    /// Whether a client of this host's Unix sockets was observed: which of them it asks is not known.
    pub(super) fn asked_locally(&self, span: &Span) -> bool {
        span.tuple.server.port == 0 && self.connections.get(&connection(span)).is_some_and(|c| c.client != NOBODY)
    }

    /// The service that the span's client is; `None` if it was not observed.
    pub(super) fn client_of(&self, span: &Span) -> Option<NodeKey> {
        let key = connection(span);
        let exact = self.connections.get(&key).and_then(|c| self.named(c.client));
        exact.or_else(|| self.peers.get(&key).and_then(|p| self.named(p.service)))
    }

    /// The node of callers from there that were not observed.
    pub(super) fn caller(&self, end: Endpoint) -> NodeKey {
        match end.port {
            0 if end.ip.is_unspecified() => NodeKey::new(NodeKind::Caller, "unix"),
            _ => self.remote.caller(end.ip),
        }
    }

    /// The two nodes of a flow record of this service, and whether its client was observed. `Err` if several services
    /// share the other end, so that it is not known which.
    pub(super) fn of_flow(&self, ends: &FlowEnds, service: &str) -> Result<(NodeKey, NodeKey, bool), NodeKey> {
        let own = NodeKey::new(NodeKind::Service, service);
        let known = self.links.get(&ends.link);
        if ends.serves {
            return match known.map_or(NOBODY, |e| e.client) {
                SEVERAL => Err(own),
                id => {
                    let seen = self.named(id);
                    let observed = seen.is_some();
                    Ok((seen.unwrap_or_else(|| self.remote.caller(ends.from)), own, observed))
                }
            };
        }
        let server = known.and_then(|e| self.named(e.server));
        Ok((own, server.unwrap_or_else(|| self.at(ends.to)), true))
    }

    /// Connections that were not matched for want of room.
    pub(super) fn unmatched(&self) -> u64 {
        self.unmatched
    }
}

/// A connection, for counts that a connection has once.
pub(super) fn connection_of(span: &Span) -> u64 {
    connection(span)
}
