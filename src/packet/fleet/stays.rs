//! How packets came to an agent and went from it, as it tells its server.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::hash::Hash;
use wirespan_journey::meeting::{Sight, Stay};
use wirespan_journey::{Acknowledgements, Journey, Place};
use wirespan_model::packet::{Route, Sighting};
use wirespan_view::packets::PacketPlace;

/// In one answer; as JSON, less than 120 bytes each.
const ANSWER: usize = 4_000;
/// An agent tells at most so many each second.
const EACH_SECOND: usize = 20_000;

/// Stays of packets. Routes and places are told once for many.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::packet) struct Stays {
    routes: Vec<Route>,
    places: Vec<PacketPlace>,
    rows: Vec<Row>,
    /// Packets of which nothing is told, because there were too many.
    pub(super) left_out: u64,
}

/// First and last route, first and last place (by number), first time, how long it stayed, first byte, bytes, number,
/// and what became of it.
type Row = (u32, u32, u32, u32, u64, u64, u32, u32, u64, u8);

const AGAIN: u8 = 1;
const CAME_IN: u8 = 2;
const WENT_OUT: u8 = 4;
const DROPPED: u8 = 8;

impl Stays {
    /// Each stay, with the places of these numbers; `None` if it names a route or a place that is not there.
    pub(super) fn read(&self) -> impl Iterator<Item = Option<Stay>> + '_ {
        self.rows.iter().map(|row| {
            let (first_route, last_route, first, last, time_ns, took_ns, seq, len, number, flags) = *row;
            let route = |n: u32| self.routes.get(n as usize).copied();
            let place = |n: u32| self.places.get(n as usize).map(|_| n);
            Some(Stay {
                entry: Sight { place: place(first)?, route: route(first_route)?, time_ns },
                exit: Sight { place: place(last)?, route: route(last_route)?, time_ns: time_ns.checked_add(took_ns)? },
                seq,
                len,
                number,
                again: flags & AGAIN != 0,
                came_in: flags & CAME_IN != 0,
                went_out: flags & WENT_OUT != 0,
                dropped: flags & DROPPED != 0,
            })
        })
    }

    /// The places, by number.
    pub(super) fn places(&self) -> &[PacketPlace] {
        &self.places
    }
}

/// Numbers things in the order in which they come.
struct Numbers<T>(HashMap<T, u32>);

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Numbers(HashMap::new())
    }
}

impl<T: Hash + Eq> Numbers<T> {
    fn of(&mut self, thing: T) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(thing).or_insert(next)
    }

    fn list(self) -> Vec<T> {
        let mut all: Vec<(T, u32)> = self.0.into_iter().collect();
        all.sort_unstable_by_key(|(_, n)| *n);
        all.into_iter().map(|(thing, _)| thing).collect()
    }
}

/// What an agent gathers between two answers.
#[derive(Default)]
pub(in crate::packet) struct Gathered {
    stays: Vec<(Stay, Place, Place)>,
    left_out: u64,
    acknowledgements: Acknowledgements,
}

impl Gathered {
    /// Takes a sighting, for what is of interest only to the comparison of clocks.
    pub(in crate::packet) fn see(&mut self, s: &Sighting) {
        self.acknowledgements.see(s);
    }

    /// See [`Joiner::pass`](wirespan_journey::Joiner::pass).
    pub(in crate::packet) fn pass(&mut self, now_ns: u64) {
        self.acknowledgements.pass(now_ns);
    }

    /// Takes the acknowledgements whose ways are known by now. They go without if there are too many others.
    pub(in crate::packet) fn add_acknowledgements(&mut self, ends: bool) {
        let left_out = self.left_out;
        self.acknowledgements.due(ends).iter().for_each(|way| self.add(way));
        self.left_out = left_out;
    }

    /// Takes the part of the way that this machine has seen.
    pub(in crate::packet) fn add(&mut self, journey: &Journey) {
        let (Some(first), Some(last)) = (journey.steps.first(), journey.steps.last()) else { return };
        let Some(stay) = Stay::of(journey, |_| 0) else { return };
        if self.stays.len() >= EACH_SECOND {
            self.left_out += 1;
            return;
        }
        self.stays.push((stay, first.place.clone(), last.place.clone()));
    }

    /// All of it, in parts that fit into an answer.
    pub(in crate::packet) fn take(&mut self, shown: impl Fn(&Place) -> PacketPlace) -> Vec<Stays> {
        let mut left_out = std::mem::take(&mut self.left_out);
        let all = std::mem::take(&mut self.stays);
        let parts = all.chunks(ANSWER).map(|part| {
            let (mut routes, mut places) = (Numbers::default(), Numbers::default());
            let row = |(stay, first, last): &(Stay, Place, Place)| {
                let Stay { entry, exit, seq, len, number, again, came_in, went_out, dropped } = *stay;
                let flags = [(again, AGAIN), (came_in, CAME_IN), (went_out, WENT_OUT), (dropped, DROPPED)];
                let flags = flags.iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum();
                let took_ns = exit.time_ns.saturating_sub(entry.time_ns);
                let [from, to] = [entry.route, exit.route].map(|route| routes.of(route));
                let [first, last] = [first, last].map(|place| places.of(place.clone()));
                (from, to, first, last, entry.time_ns, took_ns, seq, len, number, flags)
            };
            let rows = part.iter().map(row).collect();
            let places = places.list().iter().map(&shown).collect();
            Stays { routes: routes.list(), places, rows, left_out: std::mem::take(&mut left_out) }
        });
        parts.collect()
    }

    /// A part that the link had no room for.
    pub(in crate::packet) fn lose(&mut self, part: &Stays) {
        self.left_out += part.rows.len() as u64 + part.left_out;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use wirespan_journey::Step;
    use wirespan_model::packet::{Point, Tunnel, TCP};
    use wirespan_model::test_support::sighting;

    pub(super) fn journey(points: &[Point], seq: u32) -> Journey {
        let step = |(n, point): (u64, &Point)| Step {
            place: Place { point: *point, netns: 1, device: "eth0".into(), function: "".into(), tunnel: Tunnel::None },
            time_ns: 1_000 + n * 500,
            cpu: 0,
            queue_len: 0,
            route: sighting(TCP, seq, 10).route,
            was: None,
        };
        let steps: Vec<Step> = (0u64..).zip(points).map(step).collect();
        Journey { route: steps[0].route, seq, len: 10, number: u64::from(seq) + 9, attempt: 1, steps, dropped: None }
    }

    fn shown(place: &Place) -> PacketPlace {
        PacketPlace { point: place.point.as_str().into(), ..PacketPlace::default() }
    }

    #[test]
    fn what_is_told_is_what_was_seen() {
        let mut gathered = Gathered::default();
        gathered.add(&journey(&[Point::Queue, Point::Xmit], 5));
        gathered.add(&journey(&[Point::Receive, Point::Queue], 6));
        gathered.add(&journey(&[Point::Receive, Point::Copied], 7));
        let parts = gathered.take(shown);
        let part: Stays = serde_json::from_str(&serde_json::to_string(&parts[0]).unwrap()).unwrap();
        assert_eq!((parts.len(), part.routes.len(), part.places.len()), (1, 1, 4));
        let stays: Vec<Stay> = part.read().map(Option::unwrap).collect();
        let ends: Vec<_> = stays.iter().map(|stay| (stay.seq, stay.came_in, stay.went_out)).collect();
        assert_eq!(ends, [(5, false, true), (6, true, true), (7, true, false)]);
        let (entry, exit) = (stays[1].entry, stays[1].exit);
        assert_eq!((entry.time_ns, exit.time_ns), (1_000, 1_500));
        let point = |n: u32| part.places()[n as usize].point.as_str();
        assert_eq!((point(entry.place), point(exit.place)), ("receive", "queue"));
    }

    #[test]
    fn too_many_are_counted_and_each_part_fits() {
        let mut gathered = Gathered::default();
        for seq in 0..EACH_SECOND as u32 + 7 {
            gathered.add(&Journey { number: u64::MAX, len: u32::MAX, ..journey(&[Point::Queue], u32::MAX - seq) });
        }
        let parts = gathered.take(shown);
        assert_eq!(parts.iter().map(|part| part.left_out).sum::<u64>(), 7);
        assert_eq!(parts.iter().map(|part| part.rows.len()).sum::<usize>(), EACH_SECOND);
        let bytes = parts.iter().map(|part| serde_json::to_vec(part).unwrap().len()).max();
        assert!(bytes < Some(wirespan_ship::link::MAX_FRAME / 2), "{bytes:?}");
        parts.iter().for_each(|part| gathered.lose(part));
        gathered.add(&journey(&[Point::Queue], 1));
        assert_eq!(gathered.take(shown)[0].left_out, EACH_SECOND as u64 + 7);
    }

    #[test]
    fn a_row_that_names_nothing_is_malformed() {
        let part = Stays { rows: vec![(0, 0, 0, 0, 1, 1, 1, 1, 1, 0)], ..Stays::default() };
        assert_eq!(part.read().collect::<Vec<_>>(), [None]);
    }
}
