//! Captures of several places → for each request, the order of the places and the time from one to the next.
//!
//! Read in this order: [`ways`] (spans and segments → connections that several captures saw) → [`order`] (which place
//! is nearer to the client) → [`offsets`] (how far the clocks differ) → [`hops`] (attributes of the spans).
//!
//! - A connection is known again by the sequence numbers of its requests and responses. Address translation does not
//!   change them.
//! - The order needs no clock: a router takes one off the time to live, and the nearer a place is to the client, the
//!   longer it waits for the response.
//! - Clocks are compared by [`crate::clocks`].

mod hops;
mod offsets;
mod order;
mod ways;

use crate::clocks::Bounds;
use offsets::Offsets;
use wirespan_model::packet::Passage;
use wirespan_model::Span;

/// What was seen by one clock: a capture file, or several devices of one machine.
#[derive(Debug, Default)]
pub struct Capture {
    /// Name of the file; empty for devices of this machine.
    pub name: String,
    /// Requests. Socket ids are those of `passages`.
    pub spans: Vec<Span>,
    /// Segments of TCP.
    pub passages: Vec<Passage>,
}

/// How the clock of a capture differs from that of the first capture with which it has connections in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Skew {
    /// Number of the capture.
    pub capture: usize,
    /// Number of the first capture.
    pub than: usize,
    /// How far it is ahead, at the start of the capture. `None` if packets were seen in one direction only, or if they
    /// contradict each other because a clock was set.
    pub ahead: Option<Bounds>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Connections that were seen at several places.
    pub connections: usize,
    /// Of these, connections on which the order of the captures is not known. Their spans say so, and stay as they were
    /// otherwise.
    pub unordered: usize,
    /// Clocks of all captures that have connections in common with an earlier one.
    pub skews: Vec<Skew>,
}

/// Writes into the spans of requests that several captures saw: their tap sides, the attributes of
/// [`wirespan_model::hop`], and times by one clock. That clock is the one of the first capture.
pub fn align(captures: &mut [Capture]) -> Found {
    let mut ways = ways::find(captures);
    let connections = ways.len();
    let orders: Vec<_> = ways.iter().map(order::of).collect();
    let mut ordered = Vec::new();
    for (way, order) in ways.drain(..).zip(orders) {
        match order {
            Some(order) => ordered.push((way, order)),
            None => hops::write_unordered(&way, captures),
        }
    }
    let offsets = Offsets::of(captures.len(), &ordered);
    let starts: Vec<u64> = captures.iter().map(start_ns).collect();
    let skews = (0..captures.len())
        .filter_map(|capture| {
            let than = offsets.reference(capture).filter(|than| *than != capture)?;
            Some(Skew { capture, than, ahead: offsets.ahead(capture, starts[capture]) })
        })
        .collect();
    for (way, order) in &ordered {
        hops::write(way, order, &offsets, captures);
    }
    for (n, capture) in captures.iter_mut().enumerate() {
        offsets::correct(n, capture, &offsets);
    }
    Found { connections, unordered: connections - ordered.len(), skews }
}

fn start_ns(capture: &Capture) -> u64 {
    capture.spans.iter().map(|span| span.start_ns).min().unwrap_or(0)
}
