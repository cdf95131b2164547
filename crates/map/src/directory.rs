//! Which service is at which end of a connection.

use crate::graph::NodeKind;
use crate::place::{connection, link, place, place_id, service, wire, FlowEnds, Place};
use crate::pool::Pool;
use crate::remote::Remote;
use rustc_hash::FxHashMap;
use std::net::IpAddr;
use wirespan_model::{Endpoint, Span, TapSide};

/// Most connections whose ends are matched; further ones are counted.
const MAX_CONNECTIONS: usize = 1_000_000;

/// The identity of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeKey {
    pub(crate) name: Box<str>,
    pub(crate) kind: NodeKind,
}

impl NodeKey {
    pub(crate) fn new(kind: NodeKind, name: impl Into<Box<str>>) -> Self {
        NodeKey { name: name.into(), kind }
    }
}

/// No service is known.
const NOBODY: u32 = u32::MAX;
/// Several services share the end: none can be named.
const SEVERAL: u32 = u32::MAX - 1;

#[derive(Clone, Copy)]
struct Ends {
    client: u32,
    server: u32,
    from: IpAddr,
    to: Place,
}

/// The services at the two ends of a link.
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

/// Services by connection and by listening address. It first learns all evidence, is then settled, and then answers.
pub(crate) struct Directory {
    /// Most connections, and most of everything else that is kept per connection.
    max: usize,
    services: Pool<Box<str>>,
    /// By [`place_id`].
    listeners: FxHashMap<u64, u32>,
    connections: FxHashMap<u64, Ends>,
    links: FxHashMap<u64, Pair>,
    /// The addresses of all links; only kept if the directory will be settled, as there is one per peer.
    addresses: Option<Vec<(u64, IpAddr, Place)>>,
    /// Connections seen at one end only, by the sequence numbers of their exchanges: the client's and the server's.
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
    /// An empty directory that matches at most `max` connections and will not be settled: unobserved ends keep their
    /// address.
    pub(crate) fn new(max: usize) -> Self {
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

    /// Before the first round: learns the names of addresses from DNS spans.
    pub(crate) fn learn_names(&mut self, span: &Span) {
        self.remote.learn(span);
    }

    /// First round: learns from every span.
    pub(crate) fn learn(&mut self, span: &Span) {
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

    /// First round: learns from every flow record, with its service.
    pub(crate) fn learn_flow(&mut self, ends: &FlowEnds, service: &str) {
        let id = self.services.text(service);
        if ends.serves && !ends.to.2.ip.is_unspecified() {
            self.listen(ends.to, id);
        }
        if !ends.alone {
            self.link(ends.link, ends.from, ends.to, ends.serves, id);
        }
    }

    /// Adds a listener. If several processes listen at one address, the lesser name counts, in any order.
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

    /// Whether a second round can find ends that the first one did not find.
    pub(crate) fn wants_wires(&self) -> bool {
        let half = |end: fn(&Ends) -> u32| self.connections.values().any(|c| end(c) == NOBODY && c.to.2.port != 0);
        half(|c| c.client) && half(|c| c.server)
    }

    /// Whether both ends of the span's connection were seen.
    pub(crate) fn is_whole(&self, span: &Span) -> bool {
        self.connections.get(&connection(span)).is_none_or(|c| c.client != NOBODY && c.server != NOBODY)
    }

    /// Second round: learns from every span again.
    pub(crate) fn learn_wire(&mut self, span: &Span) {
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

    /// After the last round: chooses names for the ends that were not observed.
    pub(crate) fn settle(&mut self) {
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
    pub(crate) fn server_of(&self, span: &Span) -> (NodeKey, u16) {
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

    /// Whether a client of this host's Unix sockets was observed. It is unknown which socket that client uses.
    pub(crate) fn asked_locally(&self, span: &Span) -> bool {
        span.tuple.server.port == 0 && self.connections.get(&connection(span)).is_some_and(|c| c.client != NOBODY)
    }

    /// The service of the span's client; `None` if it was not observed.
    pub(crate) fn client_of(&self, span: &Span) -> Option<NodeKey> {
        let key = connection(span);
        let exact = self.connections.get(&key).and_then(|c| self.named(c.client));
        exact.or_else(|| self.peers.get(&key).and_then(|p| self.named(p.service)))
    }

    /// The node of unobserved callers from this address.
    pub(crate) fn caller(&self, end: Endpoint) -> NodeKey {
        match end.port {
            0 if end.ip.is_unspecified() => NodeKey::new(NodeKind::Caller, "unix"),
            _ => self.remote.caller(end.ip),
        }
    }

    /// The two nodes of a flow record of this service, and whether its client was observed. `Err` if several services
    /// share the other end, so that it is not known which.
    pub(crate) fn of_flow(&self, ends: &FlowEnds, service: &str) -> Result<(NodeKey, NodeKey, bool), NodeKey> {
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

    /// Connections that were not matched for lack of room.
    pub(crate) fn unmatched(&self) -> u64 {
        self.unmatched
    }
}
