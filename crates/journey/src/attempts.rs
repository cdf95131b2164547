//! The times that the same bytes were sent: the first time, and again after a loss.

use crate::flow::{Flow, Hop, Key, Seen};
use crate::{Dropped, Journey, Step};
use wirespan_model::packet::Point;

/// A hop, its number, and its sightings of the byte.
type AtHop<'a> = (usize, &'a Hop, Vec<(Key, &'a Seen)>);

/// One time that the bytes were sent.
struct Attempt {
    steps: Vec<Step>,
    start_ns: u64,
    seq: u32,
    /// The place of its first byte.
    start: u64,
    len: u32,
    dropped: Option<Dropped>,
    used: Vec<(usize, Key)>,
}

impl Attempt {
    fn new(hop: usize, key: Key, of: &Hop, seen: &Seen) -> Self {
        let (start_ns, seq, start, len) = (seen.time_ns, seen.seq, seen.interval.start, seen.len);
        Attempt { steps: vec![of.step(seen)], start_ns, seq, start, len, dropped: None, used: vec![(hop, key)] }
    }

    /// Whether it may have been at a place at this time.
    fn lives_at(&self, time_ns: u64) -> bool {
        self.start_ns <= time_ns && self.dropped.as_ref().is_none_or(|d| time_ns <= d.step.time_ns)
    }

    fn last_ns(&self) -> u64 {
        self.steps.last().map_or(self.start_ns, |step| step.time_ns)
    }
}

/// Whether the packet itself goes on from this point.
pub(crate) fn is_on_the_way(point: Point) -> bool {
    point.is_arrival() || point.is_departure() || matches!(point, Point::Tcp | Point::Function)
}

/// What became of one byte.
pub(crate) struct Told {
    /// Each time that it was sent, in the order of time.
    pub(crate) journeys: Vec<Journey>,
    /// The sightings of each: number of the hop, and key.
    pub(crate) used: Vec<Vec<(usize, Key)>>,
}

/// The journeys of the packets with this byte.
pub(crate) fn of_byte(flow: &Flow, byte: u64) -> Told {
    let seen: Vec<AtHop<'_>> = flow
        .hops
        .iter()
        .enumerate()
        .map(|(n, hop)| (n, hop, hop.of_byte(byte)))
        .filter(|(.., sightings)| !sightings.is_empty())
        .collect();
    let first = |sightings: &[(Key, &Seen)]| sightings.first().map_or(u64::MAX, |(_, s)| s.time_ns);
    let mut passed: Vec<_> = seen.iter().filter(|(_, hop, _)| is_on_the_way(hop.place.point)).collect();
    passed.sort_by_key(|(.., sightings)| first(sightings));
    let mut attempts: Vec<Attempt> = Vec::new();
    if let Some((n, hop, sightings)) = passed.first() {
        attempts.extend(sightings.iter().map(|(key, s)| Attempt::new(*n, *key, hop, s)));
    }
    let sent = attempts.len();
    for (n, hop, sightings) in seen.iter().filter(|(_, hop, _)| hop.place.point == Point::Drop) {
        for (key, s) in sightings {
            drop_one(&mut attempts, sent, *n, hop, *key, s);
        }
    }
    attempts.sort_by_key(|attempt| attempt.start_ns);
    for (n, hop, sightings) in passed.into_iter().skip(1) {
        pass(&mut attempts, *n, hop, sightings);
    }
    for attempt in &mut attempts {
        attempt.steps.sort_by_key(|step| step.time_ns);
    }
    let at = |point| seen.iter().filter(move |(_, hop, _)| hop.place.point == point);
    if let Some(first) = attempts.first_mut() {
        // The last time that the program gave these bytes before they were sent: a call that the buffer had no room for
        // is made again.
        let given = at(Point::Send).flat_map(|(_, hop, all)| all.iter().map(move |(_, s)| (hop, s)));
        let last = given.filter(|(_, s)| s.time_ns <= first.start_ns).max_by_key(|(_, s)| s.time_ns);
        first.steps.splice(0..0, last.map(|(hop, s)| hop.step(s)));
    }
    arrive(&mut attempts, flow, byte, at(Point::Copied));
    tell(attempts, flow.is_stream(), byte)
}

/// The kernel's number for a drop without a reason (`SKB_DROP_REASON_NOT_SPECIFIED`).
const NO_REASON: u32 = 2;

/// The drop ends the latest attempt that had begun then. If none had, it is all that was seen of the packet. The first
/// `sent` attempts are those that were seen at another point, in the order of time.
fn drop_one(attempts: &mut Vec<Attempt>, sent: usize, n: usize, hop: &Hop, key: Key, s: &Seen) {
    let dropped = Dropped { step: hop.step(s), reason: s.reason, resent_after_ns: None };
    let begun = attempts.get(..sent).unwrap_or_default().partition_point(|a| a.start_ns <= s.time_ns);
    match begun.checked_sub(1).and_then(|at| attempts.get_mut(at)) {
        Some(attempt) => {
            // A queue that cuts a packet and finds no room for any part drops each part, and then the whole.
            if attempt.dropped.as_ref().is_none_or(|before| before.reason == NO_REASON) {
                attempt.dropped = Some(dropped);
            }
            attempt.used.push((n, key));
        }
        None => attempts.push(Attempt {
            steps: Vec::new(),
            start_ns: s.time_ns,
            seq: s.seq,
            start: s.interval.start,
            len: s.len,
            dropped: Some(dropped),
            used: vec![(n, key)],
        }),
    }
}

/// Gives the sightings at a place to the attempts. If there are as many as attempts that live then, they came in the
/// same order. Otherwise some were lost on the way, and a sighting belongs to the latest attempt that can be meant. If
/// that can only be one that was dropped before, what was dropped was a copy: a bridge, a mirror or a program that
/// relays packets had made one. Equal datagrams may be many, so nothing is looked for twice.
fn pass(attempts: &mut [Attempt], n: usize, hop: &Hop, sightings: &[(Key, &Seen)]) {
    let in_order = sightings.len() == attempts.len()
        && attempts.iter().zip(sightings).all(|(attempt, (_, s))| attempt.lives_at(s.time_ns));
    let (mut begun, mut free) = (0, Vec::new());
    for (i, (key, s)) in sightings.iter().enumerate() {
        while attempts.get(begun).is_some_and(|a| a.start_ns <= s.time_ns) {
            free.push(begun);
            begun += 1;
        }
        let at = if in_order {
            Some(i)
        } else {
            let mut dropped = None;
            // An attempt that was dropped before now was also dropped before all later sightings.
            let living = std::iter::from_fn(|| free.pop()).find(|i| {
                let lives = attempts.get(*i).is_some_and(|a| a.lives_at(s.time_ns));
                if !lives {
                    dropped.get_or_insert(*i);
                }
                lives
            });
            living.or(dropped)
        };
        let Some(attempt) = at.and_then(|i| attempts.get_mut(i)) else { continue };
        if !attempt.lives_at(s.time_ns) {
            attempt.dropped = None;
        }
        attempt.steps.push(hop.step(s));
        attempt.used.push((n, *key));
    }
}

/// The reader gets the bytes of the attempt that came farthest.
fn arrive<'a>(attempts: &mut [Attempt], flow: &Flow, byte: u64, copied: impl Iterator<Item = &'a AtHop<'a>>) {
    let mut copies: Vec<_> = copied.flat_map(|(n, hop, all)| all.iter().map(|(key, s)| (*n, *hop, *key, *s))).collect();
    copies.sort_by_key(|(.., s)| s.time_ns);
    let mut copies = copies.into_iter().peekable();
    let stream = flow.is_stream();
    let most = attempts.iter().map(|a| a.steps.len()).max().unwrap_or(0);
    for attempt in attempts.iter_mut().filter(|a| a.dropped.is_none()) {
        // A SYN or FIN without payload is not for the reader.
        if attempt.len == 0 || stream && attempt.steps.len() < most {
            continue;
        }
        let last_ns = attempt.last_ns();
        while copies.next_if(|(.., s)| s.time_ns < last_ns).is_some() {}
        let copy = copies.next();
        let until_ns = copy.map_or(u64::MAX, |(.., s)| s.time_ns);
        let from = flow.ready.partition_point(|(time_ns, ..)| *time_ns < last_ns);
        let later = flow.ready.get(from..).unwrap_or_default().iter();
        let told = later.take_while(|(time_ns, ..)| *time_ns <= until_ns).find(|(_, end, _)| *end > byte);
        attempt.steps.extend(told.map(|(.., step)| step.clone()));
        if let Some((n, hop, key, s)) = copy {
            attempt.steps.push(hop.step(s));
            attempt.used.push((n, key));
        }
        if stream {
            return;
        }
    }
}

fn tell(attempts: Vec<Attempt>, is_stream: bool, byte: u64) -> Told {
    let starts: Vec<u64> = attempts.iter().map(|a| a.start_ns).collect();
    let mut told = Told { journeys: Vec::new(), used: Vec::new() };
    for (number, mut attempt) in (1u32..).zip(attempts) {
        let route = attempt.steps.first().or(attempt.dropped.as_ref().map(|d| &d.step)).map(|step| step.route);
        let Some(route) = route else { continue };
        if let Some(dropped) = &mut attempt.dropped {
            let next = starts.get(number as usize);
            dropped.resent_after_ns = next.and_then(|start| start.checked_sub(dropped.step.time_ns));
        }
        let Attempt { steps, seq, start, len, dropped, used, .. } = attempt;
        let stands = if is_stream { u64::from(seq.wrapping_add(byte.wrapping_sub(start) as u32)) } else { byte };
        told.journeys.push(Journey { route, seq, len, number: stands, attempt: number, steps, dropped });
        told.used.push(used);
    }
    told
}
