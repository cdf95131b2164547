//! Journeys added up: the time between two places, and what was dropped where.

use crate::histogram::rank;
use crate::{Dropped, Journey, Place};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// Times, in ns.
#[derive(Clone, Debug, Default)]
pub struct Times(Vec<u64>);

impl Times {
    /// Number of times.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The time below which this share of all lies, 0 to 1; 0 if there is none.
    pub fn quantile(&self, share: f64) -> u64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted.get(rank(sorted.len() as u64, share) as usize - 1).copied().unwrap_or(0)
    }

    /// Their mean; 0 if there is none.
    pub fn mean(&self) -> u64 {
        self.0.iter().sum::<u64>().checked_div(self.0.len() as u64).unwrap_or(0)
    }

    /// Mean difference between one time and the next (the jitter of RFC 3550, without its smoothing).
    pub fn jitter(&self) -> u64 {
        let steps = self.0.windows(2).map(|w| w[0].abs_diff(w[1]));
        steps.sum::<u64>().checked_div(self.0.len().saturating_sub(1) as u64).unwrap_or(0)
    }
}

/// The way from one place to the next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Leg {
    /// From.
    pub from: Place,
    /// To.
    pub to: Place,
}

/// For each leg the number of its way, in the order of the first leg of each way. Legs with a place in common are of
/// one way.
fn ways<'a>(legs: impl Iterator<Item = &'a Leg>) -> Vec<usize> {
    let mut of_leg: Vec<usize> = Vec::new();
    let mut of_place: FxHashMap<&Place, usize> = FxHashMap::default();
    for (new, leg) in legs.enumerate() {
        let ends = [&leg.from, &leg.to];
        let known = ends.map(|place| of_place.get(place).copied());
        let way = known.into_iter().flatten().min().unwrap_or(new);
        // A leg between two ways makes them one.
        for joined in known.into_iter().flatten().filter(|joined| *joined != way) {
            of_leg.iter_mut().chain(of_place.values_mut()).filter(|of| **of == joined).for_each(|of| *of = way);
        }
        of_place.extend(ends.map(|place| (place, way)));
        of_leg.push(way);
    }
    of_leg
}

/// What was dropped at one place for one reason.
#[derive(Clone, Debug, Default)]
pub struct Drops {
    /// Packets.
    pub packets: u64,
    /// How long until the same bytes were sent again.
    pub resent_after: Times,
}

/// Where a drop happened: the place, the place before if the packet was seen there, and the kernel's reason.
pub type DropPlace = (Place, Option<Place>, u32);

/// Journeys, added up.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    legs: FxHashMap<Leg, (u64, Times)>,
    total: Times,
    drops: FxHashMap<DropPlace, Drops>,
    journeys: u64,
    bytes: u64,
    resent: u64,
}

impl Summary {
    /// Adds a journey.
    pub fn add(&mut self, journey: &Journey) {
        self.journeys += 1;
        self.bytes += u64::from(journey.len);
        self.resent += u64::from(journey.attempt > 1);
        for (n, pair) in (0u64..).zip(journey.steps.windows(2)) {
            let [from, to] = pair else { continue };
            let leg = Leg { from: from.place.clone(), to: to.place.clone() };
            let (place, times) = self.legs.entry(leg).or_default();
            *place += n;
            times.0.push(to.time_ns.saturating_sub(from.time_ns));
        }
        match &journey.dropped {
            Some(dropped) => self.drop(journey, dropped),
            None if journey.steps.len() > 1 => self.total.0.push(journey.duration_ns()),
            None => {}
        }
    }

    fn drop(&mut self, journey: &Journey, dropped: &Dropped) {
        let before = journey.steps.iter().rev().find(|step| step.time_ns <= dropped.step.time_ns);
        let place = (dropped.step.place.clone(), before.map(|step| step.place.clone()), dropped.reason);
        let drops = self.drops.entry(place).or_default();
        drops.packets += 1;
        drops.resent_after.0.extend(dropped.resent_after_ns);
    }

    /// Journeys.
    pub fn journeys(&self) -> u64 {
        self.journeys
    }

    /// Bytes of payload of all journeys.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Journeys of bytes that were sent before.
    pub fn resent(&self) -> u64 {
        self.resent
    }

    /// From the first to the last place of a journey that was not dropped.
    pub fn total(&self) -> &Times {
        &self.total
    }

    /// The legs, in the order in which packets pass them. Ways that have no place in common, such as those there and
    /// back, stand one behind the other.
    pub fn legs(&self) -> Vec<(&Leg, &Times)> {
        let mut all: Vec<_> = self.legs.iter().collect();
        let rank = |(place, times): &(u64, Times)| *place as f64 / times.count().max(1) as f64;
        all.sort_by(|a, b| rank(a.1).total_cmp(&rank(b.1)).then_with(|| a.0.cmp(b.0)));
        let ways = ways(all.iter().map(|(leg, _)| *leg));
        let mut all: Vec<_> = ways.into_iter().zip(all).collect();
        all.sort_by_key(|(way, _)| *way);
        all.into_iter().map(|(_, (leg, (_, times)))| (leg, times)).collect()
    }

    /// The drops, the most frequent first.
    pub fn drops(&self) -> Vec<(&DropPlace, &Drops)> {
        let mut all: Vec<_> = self.drops.iter().collect();
        all.sort_by(|a, b| b.1.packets.cmp(&a.1.packets).then_with(|| a.0.cmp(b.0)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_model::packet::{Point, Tunnel};

    fn at(point: Point, netns: u32) -> Place {
        Place { point, netns, device: "eth0".into(), function: "".into(), tunnel: Tunnel::None }
    }

    fn legs(summary: &Summary) -> Vec<(Point, u32, Point, u32)> {
        let named = |(leg, _): (&Leg, &Times)| (leg.from.point, leg.from.netns, leg.to.point, leg.to.netns);
        summary.legs().into_iter().map(named).collect()
    }

    /// Adds a packet that takes this way.
    fn goes(summary: &mut Summary, way: &[Place]) {
        for (n, ends) in (0u64..).zip(way.windows(2)) {
            let leg = Leg { from: ends[0].clone(), to: ends[1].clone() };
            let (place, times) = summary.legs.entry(leg).or_default();
            *place += n;
            times.0.push(1000);
        }
    }

    #[test]
    fn the_way_there_is_told_as_a_whole_before_the_way_back() {
        let mut summary = Summary::default();
        let way = |from, to| [at(Point::Queue, from), at(Point::Xmit, from), at(Point::Receive, to)];
        goes(&mut summary, &way(2, 1));
        goes(&mut summary, &way(1, 2));
        let [there, back] = [(1, 2), (2, 1)];
        let told = |(from, to)| [(Point::Queue, from, Point::Xmit, from), (Point::Xmit, from, Point::Receive, to)];
        assert_eq!(legs(&summary), [told(there), told(back)].concat());
    }

    #[test]
    fn ways_that_meet_are_one() {
        let mut summary = Summary::default();
        // Two ways that are known to be one only by their last leg.
        goes(&mut summary, &[at(Point::Send, 1), at(Point::Queue, 1), at(Point::Receive, 3)]);
        goes(&mut summary, &[at(Point::Send, 2), at(Point::Queue, 2), at(Point::Receive, 3)]);
        let told = [
            (Point::Send, 1, Point::Queue, 1),
            (Point::Send, 2, Point::Queue, 2),
            (Point::Queue, 1, Point::Receive, 3),
            (Point::Queue, 2, Point::Receive, 3),
        ];
        assert_eq!(legs(&summary), told);
    }
}
