//! What devices saw of one message: when it came, how long it waited, what of it was lost there.

use crate::flow::{Flow, Hop, Seen};
use crate::joiner::Joiner;
use compact_str::CompactString;
use std::ops::Range;
use wirespan_model::packet::{Point, Route, Tunnel};

/// The bytes of a message, by which its packets are found at each device: their route (addresses may change on the
/// way), and their place in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// The route, in the direction of the message.
    pub route: Route,
    /// Sequence number of the first byte.
    pub seq: u32,
    /// Number of bytes; at least one is looked for.
    pub len: u64,
}

/// A message at a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passing {
    /// Inode of the network namespace.
    pub netns: u32,
    /// Name of the device.
    pub device: CompactString,
    /// Addresses and ports that the first packet had there.
    pub route: Route,
    /// The tunnel that carried the first packet there.
    pub tunnel: Tunnel,
    /// Whether it came out of the device, and was not given to it to be sent.
    pub came_out: bool,
    /// When the first byte was seen first, Unix ns.
    pub first_ns: u64,
    /// When the last byte had passed, Unix ns.
    pub last_ns: u64,
    /// The longest time for which a packet waited in the queue of the device, ns.
    pub queue_ns: u64,
    /// Most packets that waited there before one of the message, where that is known.
    pub queue_len: u32,
    /// Bytes that were seen, also those that had been seen before.
    pub bytes: u64,
    /// Packets of which all bytes had been seen before: TCP sent them again.
    pub resent: u32,
    /// Packets that were dropped there.
    pub dropped: u32,
    /// The kernel's number of the reason for the last of these drops.
    pub reason: Option<u32>,
}

/// The kernel's number for a drop without a reason (`SKB_DROP_REASON_NOT_SPECIFIED`).
const NO_REASON: u32 = 2;

/// Intervals that were seen, merged, in order.
#[derive(Default)]
struct Covered(Vec<Range<u64>>);

impl Covered {
    /// Adds an interval. Returns whether all of it was there already.
    fn add(&mut self, new: Range<u64>) -> bool {
        if self.0.iter().any(|old| old.start <= new.start && new.end <= old.end) {
            return true;
        }
        let mut merged = new;
        self.0.retain(|old| {
            let apart = old.end < merged.start || merged.end < old.start;
            if !apart {
                merged = merged.start.min(old.start)..merged.end.max(old.end);
            }
            apart
        });
        self.0.push(merged);
        false
    }
}

/// One device of a flow, with its places by point.
struct Device<'a> {
    netns: u32,
    name: &'a CompactString,
    hops: Vec<&'a Hop>,
}

impl<'a> Device<'a> {
    /// Sightings of any of these bytes at these points, in the order of time.
    fn seen(&self, points: &[Point], of: &Range<u64>, within: &Range<u64>) -> Vec<(&'a Hop, &'a Seen)> {
        let at = self.hops.iter().filter(|hop| points.contains(&hop.place.point));
        let all = at.flat_map(|hop| hop.overlapping(of.clone()).map(move |s| (*hop, s)));
        let mut all: Vec<_> = all.filter(|(_, s)| within.contains(&s.time_ns)).collect();
        all.sort_by_key(|(_, s)| s.time_ns);
        all
    }

    fn passing(&self, bytes: &Range<u64>, within: &Range<u64>) -> Option<Passing> {
        let seen = |points: &[Point]| self.seen(points, bytes, within);
        let has = |byte: u64| move |(_, s): &&(&Hop, &Seen)| (s.interval.start..s.interval.end).contains(&byte);
        let (queued, sent, came) = (seen(&[Point::Queue]), seen(&[Point::Xmit]), seen(&[Point::Receive]));
        // A packet passes up to three points of a device. Each is counted at one of them.
        let entered = [&queued, &came, &sent].into_iter().find(|all| !all.is_empty())?;
        let (hop, first) = [&queued, &came, &sent]
            .into_iter()
            .filter_map(|all| all.iter().find(has(bytes.start)))
            .min_by_key(|(_, s)| s.time_ns)?;
        let left = [&sent, &came, &queued].into_iter().find(|all| !all.is_empty())?;
        let last = left.iter().find(has(bytes.end - 1)).or(left.last())?;
        let waits = sent.iter().filter_map(|(_, out)| {
            let mut same = queued.iter().filter(|(_, s)| s.time_ns <= out.time_ns);
            let given = same.rfind(|s| has(out.interval.end - 1)(s))?;
            Some(out.time_ns - given.1.time_ns)
        });
        let (mut covered, mut resent, mut total) = (Covered::default(), 0, 0);
        for (_, s) in entered {
            let part = s.interval.start.max(bytes.start)..s.interval.end.min(bytes.end);
            total += part.end.saturating_sub(part.start);
            resent += u32::from(covered.add(part));
        }
        let drops = seen(&[Point::Drop]);
        // A queue that cuts a packet drops each part, and then the whole without a reason.
        let named = drops.iter().filter(|(_, s)| s.reason != NO_REASON).count();
        let dropped = if named > 0 { named } else { drops.len() };
        let mut reason = drops.iter().map(|(_, s)| s.reason);
        Some(Passing {
            netns: self.netns,
            device: self.name.clone(),
            route: first.route,
            tunnel: hop.place.tunnel,
            came_out: hop.place.point == Point::Receive,
            first_ns: first.time_ns,
            last_ns: last.1.time_ns.max(first.time_ns),
            queue_ns: waits.max().unwrap_or(0),
            queue_len: queued.iter().map(|(_, s)| s.queue_len).max().unwrap_or(0),
            bytes: total,
            resent,
            dropped: dropped as u32,
            reason: reason.clone().rfind(|reason| *reason != NO_REASON).or(reason.next_back()),
        })
    }
}

fn devices(flow: &Flow) -> Vec<Device<'_>> {
    let mut all: Vec<Device<'_>> = Vec::new();
    for hop in flow.hops.iter().filter(|hop| !hop.place.device.is_empty()) {
        let (netns, name) = (hop.place.netns, &hop.place.device);
        match all.iter_mut().find(|d| d.netns == netns && d.name == name) {
            Some(device) => device.hops.push(hop),
            None => all.push(Device { netns, name, hops: vec![hop] }),
        }
    }
    all
}

impl Joiner {
    /// The devices at which a message of TCP was seen within a time, in the order of its way.
    pub fn passing(&self, message: &Bytes, within: &Range<u64>) -> Vec<Passing> {
        let Some(flow) = self.flow(&message.route) else { return Vec::new() };
        let Some(start) = flow.place(message.seq) else { return Vec::new() };
        let bytes = start..start.saturating_add(message.len.max(1));
        let mut all: Vec<_> = devices(flow).iter().filter_map(|d| d.passing(&bytes, within)).collect();
        all.sort_by_key(|p| p.first_ns);
        all
    }
}
