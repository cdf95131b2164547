//! One connection: its handshake, both directions, its end.
//!
//! [`order`] decides when a segment's turn has come, this module reads it, and [`emit`] turns the outcome into events.

mod emit;
mod order;

use super::half::{Brought, Half, Part};
use crate::packet::Segment;
use crate::stats::Stats;
use order::{Held, Recent};
use wirespan_model::event::{SocketChange, TroubleKind};
use wirespan_model::{Endpoint, Event, SocketId};

/// A late segment within this time was reordered by the network; a later one was retransmitted (the rule of Wireshark).
const REORDER_NS: u64 = 3_000_000;

const ECONNABORTED: i32 = 103;
const ECONNRESET: i32 = 104;
const ETIMEDOUT: i32 = 110;
const ECONNREFUSED: i32 = 111;

/// Progress of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No segment yet, or the capture began in the middle of the connection.
    Unknown,
    /// A SYN was captured at this time, Unix ns; 0 if only the SYN-ACK was captured.
    Opening(u64),
    /// The handshake ended, or bytes were captured.
    Open,
    /// Closed, reset or failed.
    Over,
}

pub(super) struct Flow {
    pub(super) id: SocketId,
    pub(super) last_ns: u64,
    ends: [Endpoint; 2],
    halves: [Half; 2],
    /// Index of the end that connected, if a handshake was captured.
    client: Option<usize>,
    /// Index of the end that counts as the client, once an event needed it.
    taken: Option<usize>,
    state: State,
    synack_ns: Option<u64>,
    connect_ns: u64,
    retransmits: u32,
    held: Held,
    recent: Recent,
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
            held: Held::default(),
            recent: Recent::default(),
        }
    }

    pub(super) fn buffered(&self) -> usize {
        self.held.bytes + self.halves.iter().map(Half::buffered).sum::<usize>()
    }

    pub(super) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    fn sender(&self, segment: &Segment<'_>) -> usize {
        usize::from(segment.source != self.ends[0])
    }

    /// True if the segment opens another connection on the same ends.
    pub(super) fn is_replaced_by(&self, segment: &Segment<'_>) -> bool {
        let from = self.sender(segment);
        let first = segment.seq.wrapping_add(1);
        segment.syn && self.halves[from].is_joined() && !self.halves[from].starts_at(first)
    }

    /// Ends the connection, as another one took its ends. Its own end was not captured.
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

    /// Ends the connection with the capture.
    pub(super) fn finish(&mut self, stats: &mut Stats, out: &mut dyn FnMut(Event)) {
        let now_ns = self.last_ns;
        self.flush(now_ns, stats, out);
        match self.state {
            // Several SYNs without an answer. A single SYN at the end of a capture proves nothing.
            State::Opening(_) if self.synack_ns.is_none() && self.retransmits > 0 => {
                self.over(SocketChange::ConnectFailed(ETIMEDOUT), now_ns, out);
            }
            State::Opening(_) => stats.bump("tcp_handshake_unfinished"),
            State::Over => {}
            _ => stats.bump("tcp_open_at_end"),
        }
    }

    /// Emits everything that waits. Missing bytes become gaps.
    pub(super) fn flush(&mut self, now_ns: u64, stats: &mut Stats, out: &mut dyn FnMut(Event)) {
        self.release(stats, out);
        for from in 0..2 {
            while let Some(gap) = self.halves[from].give_up_gap() {
                self.gap(from, gap, now_ns, stats, out);
                self.deliver(from, now_ns, out);
            }
        }
    }

    /// Reads one segment. Its turn has come.
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
            // A connection joined while it rests begins with a keep-alive: one byte that was sent before, or none
            // (RFC 9293, section 3.8.4). A write of one byte would be pushed.
            let known = u32::from(segment.len == 1 && !segment.psh && !segment.fin);
            self.halves[from].join(segment.seq.wrapping_add(known));
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

    /// Handles the first segment of either end behind the handshake.
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
            // The capture began in the middle of the connection, so that there is no event of its opening.
            State::Unknown => self.state = State::Open,
            _ => {}
        }
    }

    /// Handles an acknowledgement: bytes of the other direction that were not captured by now count as missing.
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
            // The client gave up: no answer came, or it no longer wanted the answer.
            (State::Opening(_), None, true) => SocketChange::ConnectFailed(ETIMEDOUT),
            (State::Opening(_), Some(_), true) => SocketChange::ConnectFailed(ECONNABORTED),
            // Both sides had sent a FIN.
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
}
