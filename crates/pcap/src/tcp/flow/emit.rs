//! Events of a connection, from the view of the client's process.

use super::Flow;
use crate::stats::Stats;
use crate::tcp::guess;
use crate::tcp::half::Part;
use wirespan_model::event::{Actor, SocketChange, TcpTotals, TcpTrouble, TroubleKind};
use wirespan_model::{DataEvent, Direction, Event, Role, SocketEvent, Transport};

impl Flow {
    /// Index of the end that counts as the client. `first` are the first bytes, sent by `sender`; they decide once.
    fn client_for(&mut self, sender: usize, first: &[u8]) -> usize {
        let ports = [self.ends[0].port, self.ends[1].port];
        let known = self.client;
        *self.taken.get_or_insert_with(|| known.unwrap_or_else(|| guess::client(ports, sender, first)))
    }

    fn role(&self) -> Role {
        if self.client.is_some() {
            Role::Client
        } else {
            Role::Unknown
        }
    }

    fn totals(&self, client: usize) -> TcpTotals {
        TcpTotals {
            bytes_sent: self.halves[client].pos(),
            bytes_received: self.halves[1 - client].pos(),
            srtt_ns: self.halves[0].srtt_ns + self.halves[1].srtt_ns,
            retransmits: self.retransmits,
            connect_ns: self.connect_ns,
        }
    }

    /// Emits a change of the connection.
    pub(super) fn change(&mut self, change: SocketChange, time_ns: u64, out: &mut dyn FnMut(Event)) {
        let client = self.client_for(0, &[]);
        out(Event::Socket(SocketEvent {
            socket: self.id,
            change,
            role: self.role(),
            transport: Transport::Tcp,
            local: self.ends[client],
            remote: self.ends[1 - client],
            actor: Actor::default(),
            time_ns,
            cause: 0,
            cause_evidence: None,
            totals: self.totals(client),
        }));
    }

    /// Emits the bytes that are in order.
    pub(super) fn deliver(&mut self, from: usize, now_ns: u64, out: &mut dyn FnMut(Event)) {
        while let Some((at, part)) = self.halves[from].pop() {
            self.data(from, at, part, now_ns, out);
        }
    }

    /// Emits missing bytes: their position and their number.
    pub(super) fn gap(
        &mut self,
        from: usize,
        (at, len): (u64, u64),
        now_ns: u64,
        stats: &mut Stats,
        out: &mut dyn FnMut(Event),
    ) {
        stats.bump("tcp_gaps");
        stats.add("tcp_missing_bytes", len);
        self.data(from, at, Part { bytes: Vec::new(), len, time_ns: now_ns }, now_ns, out);
    }

    /// Emits one part of a direction's bytes.
    fn data(&mut self, from: usize, at: u64, part: Part, now_ns: u64, out: &mut dyn FnMut(Event)) {
        let client = self.client_for(from, &part.bytes);
        out(Event::Data(DataEvent {
            socket: self.id,
            direction: if from == client { Direction::Egress } else { Direction::Ingress },
            role: self.role(),
            transport: Transport::Tcp,
            local: self.ends[client],
            remote: self.ends[1 - client],
            actor: Actor::default(),
            seq: Some(self.halves[from].seq_at(at)),
            part: 0,
            enter_ns: part.time_ns,
            exit_ns: now_ns.max(part.time_ns),
            waited_ns: 0,
            clocks: None,
            srtt_ns: self.halves[0].srtt_ns + self.halves[1].srtt_ns,
            len: part.len,
            errno: 0,
            exchange: 0,
            cause: 0,
            cause_evidence: None,
            plaintext: false,
            payload: part.bytes,
        }));
    }

    /// Emits a retransmission or a reset. The direction follows the end that counts as the client so far.
    pub(super) fn trouble(&self, kind: TroubleKind, from: usize, time_ns: u64, out: &mut dyn FnMut(Event)) {
        let client = self.client.or(self.taken).unwrap_or_default();
        let direction = if from == client { Direction::Egress } else { Direction::Ingress };
        out(Event::Trouble(TcpTrouble { socket: self.id, kind, direction, time_ns }));
    }
}
