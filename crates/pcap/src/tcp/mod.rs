//! TCP segments → connections → events.
//!
//! [`half`] orders the bytes of one direction, and [`flow`] is one connection. The table in this module finds the
//! connection of a segment, tells a new connection from an old one on the same five-tuple, and bounds the memory.

mod flow;
mod guess;
mod half;

use crate::packet::Segment;
use crate::stats::Stats;
use crate::Limits;
use flow::Flow;
use rustc_hash::FxHashMap;
use wirespan_model::packet::Passage;
use wirespan_model::{Endpoint, Event, SocketId};

/// Both ends, the smaller first, and the network in which their addresses are valid.
type Key = (Endpoint, Endpoint, u64);

/// Connections that are followed.
pub(crate) struct Table {
    flows: FxHashMap<Key, Flow>,
    limits: Limits,
    buffered: usize,
    /// Segments as they were seen, at most [`Limits::passages`].
    pub(crate) passages: Vec<Passage>,
}

impl Table {
    pub(crate) fn new(limits: Limits) -> Self {
        Table { flows: FxHashMap::default(), limits, buffered: 0, passages: Vec::new() }
    }

    /// Takes one segment.
    pub(crate) fn segment(
        &mut self,
        segment: &Segment<'_>,
        next_socket: &mut u64,
        stats: &mut Stats,
        out: &mut dyn FnMut(Event),
    ) {
        let ends = (segment.source.min(segment.destination), segment.source.max(segment.destination));
        let key = (ends.0, ends.1, segment.domain);
        if self.flows.len() >= self.limits.flows && !self.flows.contains_key(&key) {
            self.evict(stats, out);
        }
        let mut fresh = || {
            let id = SocketId(*next_socket);
            *next_socket += 1;
            stats.flows += 1;
            Flow::new(id, [ends.0, ends.1])
        };
        let flow = self.flows.entry(key).or_insert_with(&mut fresh);
        if flow.is_replaced_by(segment) {
            let mut old = std::mem::replace(flow, fresh());
            self.buffered = self.buffered.saturating_sub(old.buffered());
            old.replaced(segment.time_ns, stats, out);
        }
        let before = flow.buffered();
        let is_new = flow.segment(segment, stats, out);
        if is_new && self.limits.passages > 0 && (segment.len > 0 || segment.syn) {
            if self.passages.len() < self.limits.passages {
                let Segment { time_ns, seq, len, ttl, .. } = *segment;
                let ascending = segment.source == ends.0;
                self.passages.push(Passage { socket: flow.id.0, time_ns, seq, len, ttl, ascending });
            } else {
                stats.bump("passages_full");
            }
        }
        if flow.buffered() > self.limits.stream_bytes
            || self.buffered + flow.buffered() > self.limits.total_bytes + before
        {
            stats.bump("tcp_buffer_full");
            flow.flush(segment.time_ns, stats, out);
        }
        self.buffered = (self.buffered + flow.buffered()).saturating_sub(before);
    }

    /// Ends all connections with the capture, and emits everything that waits.
    pub(crate) fn finish(&mut self, stats: &mut Stats, out: &mut dyn FnMut(Event)) {
        let mut flows: Vec<Flow> = self.flows.drain().map(|(_, flow)| flow).collect();
        flows.sort_unstable_by_key(|flow| flow.id);
        for mut flow in flows {
            flow.finish(stats, out);
        }
        self.buffered = 0;
    }

    /// Ends the sixteenth of the connections that were silent for longest.
    fn evict(&mut self, stats: &mut Stats, out: &mut dyn FnMut(Event)) {
        let mut ages: Vec<(u64, SocketId, Key)> = self.flows.iter().map(|(k, f)| (f.last_ns, f.id, *k)).collect();
        ages.sort_unstable_by_key(|(age, id, _)| (*age, *id));
        for (_, _, key) in ages.into_iter().take(self.limits.flows / 16 + 1) {
            if let Some(mut flow) = self.flows.remove(&key) {
                self.buffered = self.buffered.saturating_sub(flow.buffered());
                if !flow.is_over() {
                    stats.bump("tcp_flow_evicted");
                }
                flow.finish(stats, out);
            }
        }
    }
}
