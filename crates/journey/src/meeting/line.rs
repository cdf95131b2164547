//! All packets with the same addresses: those that left a host, and those that came to one.

use super::stay::{Sight, Stay};
use crate::position::Counter;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A stay that waits for its counterpart.
#[derive(Debug)]
struct Waiting {
    host: u32,
    stay: Stay,
    /// The byte that stands for it.
    byte: u64,
    /// Behind its last byte.
    end: u64,
    since_ms: u64,
    /// What came: another host saw it leave. What left: it was judged.
    done: bool,
}

/// Stays by their first byte and a running number.
#[derive(Debug, Default)]
struct Shelf {
    all: BTreeMap<(u64, u64), Waiting>,
    longest: u64,
}

impl Shelf {
    fn put(&mut self, key: (u64, u64), waiting: Waiting) {
        self.longest = self.longest.max(waiting.end - key.0);
        self.all.insert(key, waiting);
    }

    fn keys(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let behind = self.all.range(..(to, 0)).rev();
        let near = behind.take_while(|(key, _)| key.0.saturating_add(self.longest) > from);
        near.filter(|(_, w)| w.end > from).map(|(key, _)| *key).collect()
    }

    fn overlapping(&self, from: u64, to: u64) -> impl Iterator<Item = &Waiting> {
        self.keys(from, to).into_iter().filter_map(|key| self.all.get(&key))
    }
}

/// A packet that another host saw arrive.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) host: u32,
    pub(super) entry: Sight,
    /// No other host lies between the two.
    pub(super) next: bool,
    /// It is known which of several equal ones arrived here.
    pub(super) paired: bool,
    /// It was sent once and arrived once, and the order of the hosts is known: it says something about their clocks.
    pub(super) sure: bool,
}

/// What became of a packet that left a host.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) host: u32,
    pub(super) stay: Stay,
    pub(super) arrivals: Vec<Arrival>,
    /// Other hosts passed it on, in an order that is not known.
    pub(super) unordered: bool,
    /// Nobody saw it arrive. Of bytes that were sent again, the first ones are lost if fewer arrived.
    pub(super) lost: bool,
}

/// Stays with the same addresses.
#[derive(Debug, Default)]
pub(super) struct Line {
    counter: Counter,
    left: Shelf,
    came: Shelf,
    number: u64,
}

impl Line {
    /// Where its bytes lie, and the one that stands for the packet.
    fn place(&mut self, stay: &Stay) -> (Range<u64>, u64) {
        if !stay.is_stream() {
            return (stay.number..stay.number.saturating_add(1), stay.number);
        }
        let start = self.counter.place(stay.seq);
        let byte = start + u64::from((stay.number as u32).wrapping_sub(stay.seq));
        // A SYN or FIN has a number of its own.
        (start..(start + u64::from(stay.len.max(1))).max(byte + 1), byte)
    }

    /// What left the host, or was dropped there: other parts of it may have left.
    pub(super) fn left(&mut self, host: u32, stay: Stay, since_ms: u64) {
        let (bytes, byte) = self.place(&stay);
        self.number += 1;
        let waiting = Waiting { host, stay, byte, end: bytes.end, since_ms, done: false };
        self.left.put((bytes.start, self.number), waiting);
    }

    pub(super) fn came(&mut self, host: u32, stay: Stay, since_ms: u64) {
        let (bytes, byte) = self.place(&stay);
        // A packet is told for each of its parts that came again.
        let is_same = |w: &Waiting| w.host == host && w.stay.entry == stay.entry && w.stay.seq == stay.seq;
        if stay.is_stream() && self.came.overlapping(byte, byte + 1).any(is_same) {
            return;
        }
        self.number += 1;
        let waiting = Waiting { host, stay, byte, end: bytes.end, since_ms, done: false };
        self.came.put((bytes.start, self.number), waiting);
    }

    pub(super) fn len(&self) -> usize {
        self.left.all.len() + self.came.all.len()
    }

    /// Finds the arrivals of what has waited since `up_to_ms` or longer.
    pub(super) fn judge(&mut self, up_to_ms: Option<u64>, out: &mut Vec<Judged>) {
        let Some(up_to_ms) = up_to_ms else { return };
        let due = self.left.all.iter().filter(|(_, w)| !w.done && w.since_ms <= up_to_ms);
        let due: Vec<(u64, u64)> = due.map(|(key, _)| *key).collect();
        for key in due {
            let Some(waiting) = self.left.all.get_mut(&key) else { continue };
            waiting.done = true;
            let (host, stay, byte, end) = (waiting.host, waiting.stay, waiting.byte, waiting.end);
            for came in self.came.keys(key.0, end) {
                if let Some(came) = self.came.all.get_mut(&came).filter(|came| came.host != host) {
                    came.done = true;
                }
            }
            // For a part that was sent again, the whole is told once more.
            if stay.went_out && byte + 1 == end {
                out.push(self.judged(host, stay, byte));
            }
        }
    }

    fn judged(&self, host: u32, stay: Stay, byte: u64) -> Judged {
        let same = self.left.overlapping(byte, byte + 1).filter(|w| w.host == host && w.byte == byte);
        let mut sent: Vec<u64> = same.filter(|w| w.stay.went_out).map(|w| w.stay.exit.time_ns).collect();
        sent.sort_unstable();
        let mut came: BTreeMap<u32, Vec<&Waiting>> = BTreeMap::new();
        for arrival in self.came.overlapping(byte, byte + 1).filter(|w| w.host != host) {
            came.entry(arrival.host).or_default().push(arrival);
        }
        let passed_on: BTreeSet<u32> =
            came.iter().filter(|(_, all)| all.iter().any(|w| w.stay.went_out)).map(|(host, _)| *host).collect();
        // A packet passes the first host, then the one that passes it on, then the last one.
        let unordered = passed_on.len() > usize::from(!stay.came_in);
        let mut arrivals = Vec::new();
        let most = came.values().map(Vec::len).max().unwrap_or(0);
        let nth = sent.iter().position(|time_ns| *time_ns == stay.exit.time_ns);
        let missing =
            if stay.is_stream() { sent.len().saturating_sub(most) } else { usize::from(most == 0) * sent.len() };
        let lost = nth.is_some_and(|nth| nth < missing);
        for (other, mut all) in came {
            all.sort_by_key(|w| w.stay.entry.time_ns);
            let last = !passed_on.contains(&other);
            let next = !unordered && (!last || stay.came_in || passed_on.is_empty());
            // Bytes that TCP sent again keep their order, if none is missing. Of equal datagrams, some may have been
            // forgotten here and not there.
            let fits = all.len() == sent.len() && (stay.is_stream() || sent.len() == 1);
            let found = nth.filter(|_| fits).and_then(|nth| all.get(nth));
            let Some(any) = found.or(all.first()) else { continue };
            let alone = sent.len() == 1 && !stay.again && !any.stay.again;
            let sure = found.is_some() && alone && (last || !stay.came_in);
            arrivals.push(Arrival { host: other, entry: any.stay.entry, next, paired: found.is_some(), sure });
        }
        Judged { host, stay, arrivals, unordered, lost }
    }

    /// Forgets what left and what came up to these times. `lonely` gets the host of each packet that came, and that
    /// nobody saw leave.
    pub(super) fn forget(&mut self, left_ms: Option<u64>, came_ms: Option<u64>, mut lonely: impl FnMut(u32)) {
        let is_old = |w: &Waiting, up_to_ms: Option<u64>| up_to_ms.is_some_and(|up_to_ms| w.since_ms <= up_to_ms);
        self.left.all.retain(|_, w| !is_old(w, left_ms));
        self.came.all.retain(|_, w| {
            let old = is_old(w, came_ms);
            if old && !w.done {
                lonely(w.host);
            }
            !old
        });
    }
}
