//! Facts of a connection: its ends, its process, its causes, and the bytes that passed.

use super::causes::Causes;
use crate::config::JoinConfig;
use crate::direction::index;
use crate::env::Env;
use crate::resent::Resent;
use crate::stream::Stream;
use crate::table::ConnKey;
use std::sync::Arc;
use wirespan_model::event::{Actor, TcpTrouble};
use wirespan_model::{Attr, DataEvent, Direction, Endpoint, FiveTuple, Resource, Role, Side, TcpHealth, Transport};

/// Everything about a connection that its spans need, apart from the messages themselves.
pub(crate) struct Facts {
    pub(crate) key: ConnKey,
    pub(crate) transport: Transport,
    pub(crate) local: Endpoint,
    pub(crate) remote: Endpoint,
    pub(crate) role: Role,
    pub(crate) owner: Owner,
    /// Attributes of every span of the connection (a proxy's header).
    pub(crate) attrs: Vec<Attr>,
    /// The bytes of both directions.
    pub(crate) bytes: Bytes,
    pub(crate) tcp: TcpHealth,
    /// Retransmitted segments; `None` until the first one, as most connections have none.
    pub(crate) resent: Option<Box<Resent>>,
    pub(crate) causes: Causes,
}

/// The process that uses the connection.
pub(crate) struct Owner {
    /// Process id; 0 for a capture file.
    pub(crate) pid: u32,
    /// [`Env::epoch`] at which `resource` was asked for.
    epoch: u32,
    pub(crate) resource: Arc<Resource>,
}

/// The bytes of both directions. Arrays are indexed by [`index`].
#[derive(Default)]
pub(crate) struct Bytes {
    pub(crate) streams: [Stream; 2],
    /// Offset of each stream at which the present parser began.
    pub(crate) parser_base: [u64; 2],
}

impl Facts {
    pub(crate) fn new(
        key: ConnKey,
        transport: Transport,
        (local, remote): (Endpoint, Endpoint),
        role: Role,
        actor: &Actor,
        env: &Env,
    ) -> Self {
        Facts {
            key,
            transport,
            local,
            remote,
            role,
            owner: Owner { pid: actor.pid, epoch: env.epoch, resource: env.resources.resource(actor) },
            attrs: Vec::new(),
            bytes: Bytes::default(),
            tcp: TcpHealth::default(),
            resent: None,
            causes: Causes::default(),
        }
    }

    /// Takes what a call shows of the process, the ends and the round-trip time. The first known value of an end or a
    /// role stays.
    pub(crate) fn learn(&mut self, d: &DataEvent, env: &Env) {
        if self.owner.pid != d.actor.pid || self.owner.epoch != env.epoch {
            self.owner = Owner { pid: d.actor.pid, epoch: env.epoch, resource: env.resources.resource(&d.actor) };
        }
        self.learn_role(d.role);
        if self.local == Endpoint::UNSPECIFIED {
            self.local = d.local;
        }
        if self.remote == Endpoint::UNSPECIFIED {
            self.remote = d.remote;
        }
        self.learn_srtt(d.srtt_ns);
    }

    /// Takes a role unless one is known.
    pub(crate) fn learn_role(&mut self, role: Role) {
        if self.role == Role::Unknown {
            self.role = role;
        }
    }

    /// Takes a smoothed round-trip time, ns; 0 means not known.
    pub(crate) fn learn_srtt(&mut self, srtt_ns: u64) {
        if srtt_ns != 0 {
            self.tcp.srtt_ns = srtt_ns;
        }
    }

    /// Counts a retransmission or a reset.
    pub(crate) fn trouble(&mut self, t: &TcpTrouble) {
        match crate::resent::Segments::of(&t.kind) {
            Some(segments) => self.resent.get_or_insert_default().add(t.direction, segments),
            None => self.tcp.resets = self.tcp.resets.saturating_add(1),
        }
    }

    /// Drops the facts that belong to the first span only: the cost of the handshake, and the connecting thread.
    pub(crate) fn forget_handshake(&mut self) {
        (self.tcp.connect_ns, self.tcp.retransmits) = (0, 0);
    }

    pub(crate) fn is_datagram(&self) -> bool {
        matches!(self.transport, Transport::Udp | Transport::UnixDgram)
    }

    /// True if events come from a kernel, which can copy less or more on request. A capture file has pid 0.
    pub(crate) fn is_live(&self) -> bool {
        self.owner.pid != 0
    }

    pub(crate) fn stream(&self, direction: Direction) -> &Stream {
        &self.bytes.streams[index(direction)]
    }

    pub(crate) fn stream_mut(&mut self, direction: Direction) -> &mut Stream {
        &mut self.bytes.streams[index(direction)]
    }

    /// The side that sends the bytes of this direction. With an unknown role the process counts as the client.
    pub(crate) fn sender(&self, direction: Direction) -> Side {
        match (self.role, direction) {
            (Role::Server, Direction::Egress) | (Role::Client | Role::Unknown, Direction::Ingress) => Side::Server,
            _ => Side::Client,
        }
    }
}

/// A connection's facts, with the limits and the host, lent while its messages are paired.
pub(crate) struct Ctx<'a> {
    pub(crate) config: &'a JoinConfig,
    pub(crate) host_id: u64,
    pub(crate) conn: &'a Facts,
}

impl Ctx<'_> {
    /// True if the observed process is this side.
    pub(crate) fn is_local(&self, side: Side) -> bool {
        (side == Side::Server) == (self.conn.role == Role::Server)
    }

    fn direction(&self, side: Side) -> Direction {
        if self.is_local(side) {
            Direction::Egress
        } else {
            Direction::Ingress
        }
    }

    /// The bytes that this side sent.
    pub(crate) fn stream(&self, side: Side) -> &Stream {
        self.conn.stream(self.direction(side))
    }

    /// Number of retransmitted segments that held bytes of this side, from the sequence number `first` to the stream
    /// offset `end`.
    pub(crate) fn resent(&self, side: Side, first: Option<u32>, end: u64) -> u32 {
        let (Some(resent), Some(first)) = (&self.conn.resent, first) else { return 0 };
        let behind = self.stream(side).seq_behind(end);
        behind.map_or(0, |behind| resent.inside(self.direction(side), first, behind))
    }

    /// Stream offset of an offset that the parser counts.
    pub(crate) fn offset(&self, side: Side, parser_offset: u64) -> u64 {
        self.conn.bytes.parser_base[index(self.direction(side))].saturating_add(parser_offset)
    }

    /// Ends of the connection, with the asking side as the client.
    pub(crate) fn tuple(&self, asker: Side) -> FiveTuple {
        let (local, remote) = (self.conn.local, self.conn.remote);
        let (client, server) = if self.is_local(asker) { (local, remote) } else { (remote, local) };
        FiveTuple { transport: self.conn.transport, client, server }
    }
}
