//! UDP datagrams → events, one each, in the order of the capture.

use crate::packet::Datagram;
use crate::stats::Stats;
use rustc_hash::FxHashMap;
use wirespan_model::event::Actor;
use wirespan_model::{DataEvent, Direction, Endpoint, Event, Role, SocketId, Transport};

/// Silence after which the same ends count as another conversation, ns (conntrack's time-out of answered UDP).
const IDLE_NS: u64 = 120_000_000_000;
/// Ports below this number belong to services.
const SERVICE_PORTS: u16 = 1024;

/// Two ends that exchange datagrams.
struct Pair {
    id: SocketId,
    client: Endpoint,
    server: Endpoint,
    last_ns: u64,
}

/// Pairs of ends that exchanged datagrams lately, at most `limit`.
pub(crate) struct Table {
    pairs: FxHashMap<(Endpoint, Endpoint, u64), Pair>,
    limit: usize,
}

impl Table {
    pub(crate) fn new(limit: usize) -> Self {
        Table { pairs: FxHashMap::default(), limit }
    }

    /// Emits one datagram. The end that speaks first counts as the client, unless only its port is a service's.
    pub(crate) fn datagram(
        &mut self,
        datagram: &Datagram<'_>,
        next_socket: &mut u64,
        stats: &mut Stats,
        out: &mut dyn FnMut(Event),
    ) {
        let (source, destination, now_ns) = (datagram.source, datagram.destination, datagram.time_ns);
        let key = (source.min(destination), source.max(destination), datagram.domain);
        if self.pairs.len() >= self.limit && !self.pairs.contains_key(&key) {
            self.make_room(now_ns, stats);
        }
        let mut fresh = || {
            let id = SocketId(*next_socket);
            *next_socket += 1;
            stats.flows += 1;
            let answered = source.port < SERVICE_PORTS && destination.port >= SERVICE_PORTS;
            let (client, server) = if answered { (destination, source) } else { (source, destination) };
            Pair { id, client, server, last_ns: now_ns }
        };
        let pair = self.pairs.entry(key).or_insert_with(&mut fresh);
        if now_ns.saturating_sub(pair.last_ns) > IDLE_NS {
            *pair = fresh();
        }
        pair.last_ns = pair.last_ns.max(now_ns);
        if datagram.payload.len() < datagram.len as usize {
            stats.bump("udp_datagram_cut");
        }
        out(Event::Data(DataEvent {
            socket: pair.id,
            direction: if source == pair.client { Direction::Egress } else { Direction::Ingress },
            role: Role::Unknown,
            transport: Transport::Udp,
            local: pair.client,
            remote: pair.server,
            actor: Actor::default(),
            seq: None,
            part: 0,
            enter_ns: now_ns,
            exit_ns: now_ns,
            waited_ns: 0,
            clocks: None,
            srtt_ns: 0,
            len: u64::from(datagram.len),
            errno: 0,
            exchange: 0,
            cause: 0,
            cause_evidence: None,
            plaintext: false,
            payload: datagram.payload.to_vec(),
        }));
    }

    /// Forgets the silent pairs. If more than half of the limit remain, forgets all.
    fn make_room(&mut self, now_ns: u64, stats: &mut Stats) {
        self.pairs.retain(|_, pair| now_ns.saturating_sub(pair.last_ns) <= IDLE_NS);
        if self.pairs.len() > self.limit / 2 {
            stats.add("udp_pair_forgotten", self.pairs.len() as u64);
            self.pairs.clear();
        }
    }
}
