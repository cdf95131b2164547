//! One connection: handshake, both directions, end.
//!
//! A capture may show an acknowledgement a moment before the bytes it acknowledges (several queues, several CPUs). So a
//! segment that acknowledges unseen bytes is held, with all that follow, until those bytes come, [`HELD_MAX`] segments
//! or [`HELD_NS`] have passed, and only then the bytes count as missing. Order between the directions is kept.

use super::guess;
use super::half::{Brought, Half, Part};
use crate::packet::Segment;
use crate::stats::Stats;
use std::collections::VecDeque;
use wirespan_model::event::{Actor, SocketChange, TcpTotals, TcpTrouble, TroubleKind};
use wirespan_model::{DataEvent, Direction, Endpoint, Event, Role, SocketEvent, SocketId, Transport};

const HELD_MAX: usize = 16;
const HELD_NS: u64 = 20_000_000;
/// A late segment within this time was reordered by the network, later it was sent again (as Wireshark judges).
const REORDER_NS: u64 = 3_000_000;

const ECONNABORTED: i32 = 103;
const ECONNRESET: i32 = 104;
const ETIMEDOUT: i32 = 110;
const ECONNREFUSED: i32 = 111;

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Joined in the middle, or before any segment.
    Unknown,
    /// A SYN was seen, at this time.
    Opening(u64),
    /// The handshake was seen to end, or bytes were seen.
    Open,
    /// Closed, reset or failed.
    Over,
}

/// A segment that waits, with its own copy of its bytes.
struct Held {
    segment: Segment<'static>,
    payload: Vec<u8>,
}

pub(super) struct Flow {
    pub(super) id: SocketId,
    pub(super) last_ns: u64,
    ends: [Endpoint; 2],
    halves: [Half; 2],
    /// The end that connected, if a handshake told.
    client: Option<usize>,
    /// The end that is taken for the client, once something had to be said.
    taken: Option<usize>,
    state: State,
    synack_ns: Option<u64>,
    connect_ns: u64,
    retransmits: u32,
    held: VecDeque<Held>,
    held_bytes: usize,
    /// The last segments (IP id, sequence number, length), to know one that was captured twice.
    recent: [(u16, u32, u32); 8],
    recent_at: usize,
}

impl Flow {
    pub(super) fn new(id: SocketId, ends: [Endpoint; 2]) -> Self {
        Flow {
            id,
            last_ns: 0,
            ends,
            halves: Default::default(),
            client: None,
            taken: None,
            state: State::Unknown,
            synack_ns: None,
            connect_ns: 0,
            retransmits: 0,
            held: VecDeque::new(),
            held_bytes: 0,
            recent: [(0, 0, 0); 8],
            recent_at: 0,
        }
    }

    pub(super) fn buffered(&self) -> usize {
        self.held_bytes + self.halves.iter().map(Half::buffered).sum::<usize>()
    }

    pub(super) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    fn sender(&self, segment: &Segment<'_>) -> usize {
        usize::from(segment.source != self.ends[0])
    }

    /// Whether the segment opens another connection on the same ends.
    pub(super) fn is_replaced_by(&self, segment: &Segment<'_>) -> bool {
        let from = self.sender(segment);
        let first = segment.seq.wrapping_add(1);
        segment.syn && self.halves[from].is_joined() && !self.halves[from].starts_at(first)
    }

    /// Another connection took the ends: this one ended unseen.
    pub(super) fn replaced(&mut self, now_ns: u64, stats: &mut Stats, out: &mut dyn FnMut(Event)) {
        self.last_ns = self.last_ns.max(now_ns);
        self.flush(now_ns, stats, out);
        match self.state {
            State::Over => {}
            State::Opening(_) => self.over(SocketChange::ConnectFailed(ETIMEDOUT), now_ns, out),
            _ => self.over(SocketChange::Close, now_ns, out),
        }
        stats.bump("tcp_tuple_reused");
    }

    /// The capture ended.
    pub(super) fn finish(&mut self, stats: &mut Stats, out: &mut dyn FnMut(Event)) {
        let now_ns = self.last_ns;
        self.flush(now_ns, stats, out);
        match self.state {
            // Asked more than once and never answered. A single SYN at the end of a capture says nothing.
            State::Opening(_) if self.synack_ns.is_none() && self.retransmits > 0 => {
                self.over(SocketChange::ConnectFailed(ETIMEDOUT), now_ns, out);
            }
            State::Opening(_) => stats.bump("tcp_handshake_unfinished"),
            State::Over => {}
            _ => stats.bump("tcp_open_at_end"),
        }
    }

    /// Delivers everything that waits, gaps and all.
    pub(super) fn flush(&mut self, now_ns: u64, stats: &mut Stats, out: &mut dyn FnMut(Event)) {
        self.release(stats, out);
        for from in 0..2 {
            while let Some(gap) = self.halves[from].give_up_gap() {
                self.gap(from, gap, now_ns, stats, out);
                self.deliver(from, now_ns, out);
            }
        }
    }

    /// Takes one segment.
    pub(super) fn segment(&mut self, segment: &Segment<'_>, stats: &mut Stats, out: &mut dyn FnMut(Event)) {
        self.last_ns = self.last_ns.max(segment.time_ns);
        if self.captured_twice(segment) {
            stats.bump("tcp_captured_twice");
            return;
        }
        let from = self.sender(segment);
        if self.held.is_empty() {
            if self.acks_unseen(segment) {
                self.hold(segment);
            } else {
                self.take(segment, stats, out);
            }
            return;
        }
        let since = self.held.front().map_or(0, |h| h.segment.time_ns);
        if self.halves[from].wants(segment.seq, segment.len) {
            self.take(segment, stats, out);
            while let Some(first) = self.held.front() {
                if self.acks_unseen(&first.segment) {
                    break;
                }
                self.take_held(stats, out);
            }
        } else {
            self.hold(segment);
        }
        if self.held.len() >= HELD_MAX || segment.time_ns.saturating_sub(since) > HELD_NS {
            self.release(stats, out);
        }
    }

    /// The same packet, seen at two points of one capture: IP ids differ between what was really sent twice.
    fn captured_twice(&mut self, segment: &Segment<'_>) -> bool {
        let mark = (segment.ip_id, segment.seq, segment.len);
        if segment.ip_id == 0 || segment.len == 0 {
            return false;
        }
        if self.recent.contains(&mark) {
            return true;
        }
        self.recent[self.recent_at % self.recent.len()] = mark;
        self.recent_at += 1;
        false
    }

    fn acks_unseen(&self, segment: &Segment<'_>) -> bool {
        let other = &self.halves[1 - self.sender(segment)];
        !segment.rst && other.seen && segment.ack.is_some_and(|ack| other.unseen_before(ack) > 0)
    }

    fn hold(&mut self, segment: &Segment<'_>) {
        self.held_bytes += segment.payload.len() + size_of::<Held>();
        self.held.push_back(Held { segment: Segment { payload: &[], ..*segment }, payload: segment.payload.to_vec() });
    }

    fn take_held(&mut self, stats: &mut Stats, out: &mut dyn FnMut(Event)) {
        if let Some(held) = self.held.pop_front() {
            self.held_bytes -= held.payload.len() + size_of::<Held>();
            self.take(&Segment { payload: &held.payload, ..held.segment }, stats, out);
        }
    }

    fn release(&mut self, stats: &mut Stats, out: &mut dyn FnMut(Event)) {
        while !self.held.is_empty() {
            self.take_held(stats, out);
        }
    }

    /// Takes one segment, its turn having come.
    fn take(&mut self, segment: &Segment<'_>, stats: &mut Stats, out: &mut dyn FnMut(Event)) {
        let from = self.sender(segment);
        let now_ns = segment.time_ns;
        self.halves[from].seen = true;
        if self.is_over() {
            if segment.len > 0 {
                stats.bump("tcp_after_end");
            }
            return;
        }
        if segment.rst {
            self.reset(segment, from, stats, out);
            return;
        }
        if segment.window == 0 && !segment.syn {
            stats.bump("tcp_zero_window");
        }
        if segment.syn {
            self.handshake(segment, from, stats);
        } else if !self.halves[from].is_joined() {
            self.halves[from].join(segment.seq);
        }
        if let Some(ack) = segment.ack {
            self.acknowledge(from, ack, now_ns, stats, out);
        }
        if !segment.syn {
            self.opened(segment, from, out);
        }
        if segment.len > 0 {
            self.bytes(segment, from, stats, out);
        }
        if segment.fin {
            let seq = segment.seq.wrapping_add(u32::from(segment.syn)).wrapping_add(segment.len);
            if !self.halves[from].set_fin(seq) {
                self.retransmits += 1;
                stats.bump("tcp_retransmitted");
            }
        }
        if self.halves.iter().all(Half::is_finished) {
            self.over(SocketChange::Close, now_ns, out);
        }
    }

    fn handshake(&mut self, segment: &Segment<'_>, from: usize, stats: &mut Stats) {
        let now_ns = segment.time_ns;
        let again = self.halves[from].is_joined() && (segment.ack.is_none() == matches!(self.state, State::Opening(_)));
        self.halves[from].join(segment.seq.wrapping_add(1));
        match segment.ack {
            None => {
                self.client = Some(from);
                if self.state == State::Unknown {
                    self.state = State::Opening(now_ns);
                } else if again {
                    self.retransmits += 1;
                    stats.bump("tcp_retransmitted");
                }
            }
            Some(_) => {
                self.client.get_or_insert(1 - from);
                if self.synack_ns.is_some() {
                    self.retransmits += 1;
                    stats.bump("tcp_retransmitted");
                } else if let State::Opening(syn_ns) = self.state {
                    if self.retransmits == 0 {
                        self.halves[1 - from].sample(now_ns.saturating_sub(syn_ns));
                    }
                } else if self.state == State::Unknown {
                    self.state = State::Opening(0);
                }
                self.synack_ns = Some(now_ns);
            }
        }
    }

    /// The first segment behind the handshake, of either end.
    fn opened(&mut self, segment: &Segment<'_>, from: usize, out: &mut dyn FnMut(Event)) {
        match self.state {
            State::Opening(syn_ns) => {
                self.state = State::Open;
                let now_ns = segment.time_ns;
                if syn_ns > 0 && self.synack_ns.is_some() {
                    self.connect_ns = now_ns.saturating_sub(syn_ns);
                }
                if let Some(synack_ns) = self.synack_ns.filter(|_| Some(from) == self.client && self.retransmits == 0) {
                    self.halves[1 - from].sample(now_ns.saturating_sub(synack_ns));
                }
                self.change(SocketChange::Open, now_ns, out);
            }
            State::Unknown => self.state = State::Open, // joined in the middle: nobody saw it open
            _ => {}
        }
    }

    /// Bytes of the other direction were acknowledged: those not seen by now are missing from the capture.
    fn acknowledge(&mut self, from: usize, ack: u32, now_ns: u64, stats: &mut Stats, out: &mut dyn FnMut(Event)) {
        let other = 1 - from;
        self.halves[other].join(ack);
        self.halves[other].acked(ack, now_ns);
        while let Some(gap) = self.halves[other].give_up(ack) {
            self.gap(other, gap, now_ns, stats, out);
            self.deliver(other, now_ns, out);
        }
    }

    fn bytes(&mut self, segment: &Segment<'_>, from: usize, stats: &mut Stats, out: &mut dyn FnMut(Event)) {
        let half = &mut self.halves[from];
        let seq = segment.seq.wrapping_add(u32::from(segment.syn));
        if half.is_keep_alive(seq, segment.len) {
            stats.bump("tcp_keep_alive");
            return;
        }
        let since_top = segment.time_ns.saturating_sub(half.top_ns);
        let part = Part { bytes: segment.payload.to_vec(), len: u64::from(segment.len), time_ns: segment.time_ns };
        if segment.payload.len() < segment.len as usize {
            stats.bump("tcp_segment_cut");
        }
        match half.push(seq, part) {
            Brought::New => {}
            Brought::Late if since_top <= REORDER_NS.max(half.srtt_ns) => stats.bump("tcp_out_of_order"),
            Brought::Late | Brought::Mixed | Brought::Old => {
                self.retransmits += 1;
                stats.bump("tcp_retransmitted");
                let to = seq.wrapping_add(segment.len);
                self.trouble(TroubleKind::Retransmit { from: seq, to, segments: 1 }, from, segment.time_ns, out);
            }
            Brought::Far => stats.bump("tcp_far_ahead"),
        }
        self.deliver(from, segment.time_ns, out);
    }

    /// Tells it of the connection as it is told of so far: who is the client, its first bytes say.
    fn trouble(&self, kind: TroubleKind, from: usize, time_ns: u64, out: &mut dyn FnMut(Event)) {
        let client = self.client.or(self.taken).unwrap_or_default();
        let direction = if from == client { Direction::Egress } else { Direction::Ingress };
        out(Event::Trouble(TcpTrouble { socket: self.id, kind, direction, time_ns }));
    }

    fn reset(&mut self, segment: &Segment<'_>, from: usize, stats: &mut Stats, out: &mut dyn FnMut(Event)) {
        if !self.halves[from].is_near(segment.seq) {
            stats.bump("tcp_stray_reset");
            return;
        }
        let now_ns = segment.time_ns;
        self.flush(now_ns, stats, out);
        let change = match (self.state, self.synack_ns, Some(from) == self.client) {
            (State::Opening(_), None, false) => SocketChange::ConnectFailed(ECONNREFUSED),
            (State::Opening(_), Some(_), false) => SocketChange::ConnectFailed(ECONNRESET),
            // The client gave up: nobody answered it, or it no longer wanted the answer.
            (State::Opening(_), None, true) => SocketChange::ConnectFailed(ETIMEDOUT),
            (State::Opening(_), Some(_), true) => SocketChange::ConnectFailed(ECONNABORTED),
            // The last word after both sides said that they are done.
            _ if self.halves.iter().all(Half::has_fin) => SocketChange::Close,
            _ => SocketChange::Reset(ECONNRESET),
        };
        if change != SocketChange::Close {
            let sent = Some(from) == self.client.or(self.taken);
            let kind = if sent { TroubleKind::ResetSent } else { TroubleKind::ResetReceived };
            self.trouble(kind, from, now_ns, out);
        }
        self.over(change, now_ns, out);
    }

    fn over(&mut self, change: SocketChange, now_ns: u64, out: &mut dyn FnMut(Event)) {
        self.state = State::Over;
        self.change(change, now_ns, out);
    }

    // --- events ---

    /// The end taken for the client; decided once.
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

    fn change(&mut self, change: SocketChange, time_ns: u64, out: &mut dyn FnMut(Event)) {
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

    /// Emits what is in order.
    fn deliver(&mut self, from: usize, now_ns: u64, out: &mut dyn FnMut(Event)) {
        while let Some((at, part)) = self.halves[from].pop() {
            self.data(from, at, part, now_ns, out);
        }
    }

    fn gap(&mut self, from: usize, (at, len): (u64, u64), now_ns: u64, stats: &mut Stats, out: &mut dyn FnMut(Event)) {
        stats.bump("tcp_gaps");
        stats.add("tcp_missing_bytes", len);
        self.data(from, at, Part { bytes: Vec::new(), len, time_ns: now_ns }, now_ns, out);
    }

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
            enter_ns: part.time_ns,
            exit_ns: now_ns.max(part.time_ns),
            waited_ns: 0,
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
}
