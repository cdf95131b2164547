//! What was seen of one direction of a connection, by place.

use crate::position::{Counter, Interval};
use crate::{Place, Step};
use std::collections::BTreeMap;
use std::ops::Range;
use wirespan_model::packet::{Point, Route, Sighting, TCP};

/// One sighting.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) time_ns: u64,
    pub(crate) interval: Interval,
    pub(crate) seq: u32,
    pub(crate) len: u32,
    pub(crate) cpu: u16,
    pub(crate) queue_len: u32,
    pub(crate) reason: u32,
    pub(crate) route: Route,
    pub(crate) was: Option<Box<Route>>,
    /// Its journey has been told.
    pub(crate) told: bool,
}

/// Key of a sighting within its place: first byte, and a running number.
pub(crate) type Key = (u64, u64);

/// All sightings at one place.
#[derive(Debug)]
pub(crate) struct Hop {
    pub(crate) place: Place,
    pub(crate) seen: BTreeMap<Key, Seen>,
    longest: u64,
}

impl Hop {
    /// The sightings of the byte, in the order of time.
    pub(crate) fn of_byte(&self, byte: u64) -> Vec<(Key, &Seen)> {
        let behind = self.seen.range(..=(byte, u64::MAX)).rev();
        let near = behind.take_while(|(key, _)| key.0.saturating_add(self.longest) > byte);
        let mut found: Vec<_> = near.filter(|(_, s)| s.interval.end > byte).map(|(key, s)| (*key, s)).collect();
        found.sort_by_key(|(key, s)| (s.time_ns, key.1));
        found
    }

    /// The sightings of any of these bytes.
    pub(crate) fn overlapping(&self, bytes: Range<u64>) -> impl Iterator<Item = &Seen> {
        let behind = self.seen.range(..(bytes.end, 0)).rev();
        let near = behind.take_while(move |(key, _)| key.0.saturating_add(self.longest) > bytes.start);
        near.map(|(_, s)| s).filter(move |s| s.interval.end > bytes.start)
    }

    pub(crate) fn step(&self, seen: &Seen) -> Step {
        let Seen { time_ns, cpu, queue_len, route, .. } = *seen;
        Step { place: self.place.clone(), time_ns, cpu, queue_len, route, was: seen.was.clone() }
    }
}

/// One direction of a connection, under all its addresses.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    pub(crate) hops: Vec<Hop>,
    /// When a reader was told, with the byte up to which it could read, in the order of time.
    pub(crate) ready: Vec<(u64, u64, Step)>,
    counter: Counter,
    number: u64,
}

impl Flow {
    /// Returns whether the sighting is kept.
    pub(crate) fn add(&mut self, s: &Sighting) -> bool {
        let Some(interval) = self.counter.interval(s) else { return false };
        let Sighting { time_ns, seq, len, cpu, queue_len, reason, route, .. } = *s;
        let place = Place::of(s);
        if s.point == Point::Ready {
            self.ready.push((time_ns, interval.end, Step { place, time_ns, cpu, queue_len, route, was: None }));
            return true;
        }
        let was = s.was.clone();
        let seen = Seen { time_ns, interval, seq, len, cpu, queue_len, reason, route, was, told: false };
        let at = self.hops.iter().position(|hop| hop.place == place).unwrap_or_else(|| {
            self.hops.push(Hop { place, seen: BTreeMap::new(), longest: 0 });
            self.hops.len() - 1
        });
        self.number += 1;
        let key = (interval.start, self.number);
        if let Some(hop) = self.hops.get_mut(at) {
            hop.longest = hop.longest.max(interval.end - interval.start);
            hop.seen.insert(key, seen);
        }
        true
    }

    /// Where the byte with this sequence number lies; `None` if nothing of the flow was seen.
    pub(crate) fn place(&self, seq: u32) -> Option<u64> {
        self.counter.find(seq)
    }

    /// Number of sightings that are kept.
    pub(crate) fn len(&self) -> usize {
        self.hops.iter().map(|hop| hop.seen.len()).sum::<usize>() + self.ready.len()
    }

    /// Forgets what was seen up to this time. Returns how much that was.
    pub(crate) fn forget(&mut self, up_to_ns: u64) -> usize {
        let before = self.len();
        for hop in &mut self.hops {
            hop.seen.retain(|_, s| s.time_ns > up_to_ns);
        }
        self.ready.retain(|(time_ns, ..)| *time_ns > up_to_ns);
        before - self.len()
    }

    /// Whether bytes are told apart by their place in a stream; a datagram has no such place.
    pub(crate) fn is_stream(&self) -> bool {
        self.hops.iter().find_map(|hop| hop.seen.values().next()).is_some_and(|s| s.route.protocol == TCP)
    }
}
