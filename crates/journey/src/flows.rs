//! Journeys added up by flow: how much, how fast, how steadily, and what did not come on.
//!
//! A packet is missing if it was last seen at a place from which other packets between the same two addresses went on,
//! and the kernel told no drop. Where none went on, the way may end, so nothing is said of it.

use crate::{Histogram, Journey, Place, Summary};
use rustc_hash::{FxHashMap, FxHashSet};
use std::net::IpAddr;
use wirespan_model::packet::{Point, Route, TCP};

/// Flows that are told apart. The packets of all later ones are added up.
pub const MOST_FLOWS: usize = 1000;
/// A packet that was last seen so shortly before the end may have been on its way still, ns.
pub const UNDER_WAY_NS: u64 = 200_000_000;

/// What became of the packets that were seen at a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Packets that were seen there.
    pub packets: u64,
    /// Of these: seen at a later place.
    pub went_on: u64,
    /// Dropped by the kernel, before they were seen at a later place.
    pub dropped: u64,
    /// Not seen again, for no reason that the kernel told.
    pub missing: u64,
    /// Seen there so late that they may be on their way still.
    pub under_way: u64,
}

impl Loss {
    /// Dropped and missing ones.
    pub fn lost(&self) -> u64 {
        self.dropped + self.missing
    }

    /// The lost ones of all whose end is known, 0 to 1.
    pub fn share(&self) -> f64 {
        let known = self.went_on + self.lost();
        self.lost() as f64 / known.max(1) as f64
    }

    fn add(&mut self, other: &Loss) {
        let Loss { packets, went_on, dropped, missing, under_way } = other;
        self.packets += packets;
        self.went_on += went_on;
        self.dropped += dropped;
        self.missing += missing;
        self.under_way += under_way;
    }
}

/// One flow: packets of one direction of a connection, or between two ports.
#[derive(Clone, Debug, Default)]
pub struct FlowSum {
    /// Packets.
    pub packets: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// Packets of bytes that were sent before.
    pub resent: u64,
    /// From the first to the last place of each packet that was not dropped.
    pub times: Histogram,
    /// The time of the packet before, the sum of the differences, and their number.
    jitter: (Option<u64>, u64, u64),
    /// Packets of which only the drop was seen.
    only_dropped: u64,
    places: FxHashMap<Spot, Loss>,
}

/// A place, and whether the packets there are bare: these do not go on to sockets, where others do.
type Spot = (Place, bool);

impl FlowSum {
    /// Mean difference between the time of one packet and of the next, ns.
    pub fn jitter(&self) -> u64 {
        self.jitter.1.checked_div(self.jitter.2).unwrap_or(0)
    }

    fn add(&mut self, journey: &Journey, until_ns: u64) {
        self.packets += 1;
        self.bytes += u64::from(journey.len);
        self.resent += u64::from(journey.attempt > 1);
        let (steps, is_bare) = (places(journey), is_bare(journey));
        let last = steps.len().saturating_sub(1);
        self.only_dropped += u64::from(steps.is_empty() && journey.dropped.is_some());
        for (n, (place, time_ns)) in steps.iter().enumerate() {
            let at = self.places.entry(((*place).clone(), is_bare)).or_default();
            at.packets += 1;
            match &journey.dropped {
                _ if n < last => at.went_on += 1,
                Some(_) => at.dropped += 1,
                None if *time_ns > until_ns => at.under_way += 1,
                // Whether it is missing is known when all packets are.
                None => at.missing += 1,
            }
        }
        if journey.dropped.is_none() && journey.steps.len() > 1 {
            let took = journey.duration_ns();
            self.times.add(took);
            if let Some(before) = self.jitter.0.replace(took) {
                self.jitter.1 += before.abs_diff(took);
                self.jitter.2 += 1;
            }
        }
    }
}

/// Marks of TCP without payload do not come to the reader, and where a short datagram is copied to its reader, the
/// kernel has no tracepoint.
fn is_bare(journey: &Journey) -> bool {
    journey.route.protocol != TCP || journey.len == 0
}

/// The places that a packet of this kind must pass.
fn places(journey: &Journey) -> Vec<(&Place, u64)> {
    let is_bare = is_bare(journey);
    let of_socket = |point| matches!(point, Point::Send | Point::Tcp | Point::Ready | Point::Copied);
    let steps = journey.steps.iter().filter(|step| !is_bare || !of_socket(step.place.point));
    steps.map(|step| (&step.place, step.time_ns)).collect()
}

/// A place, the one to which most packets go on from there, and what became of all.
pub type Hop<'a> = (&'a Place, Option<&'a Place>, Loss);

/// Two addresses and a protocol; `None` stands for all beyond the bound.
pub(crate) type Pair = Option<(IpAddr, IpAddr, u8)>;

pub(crate) fn pair(route: &Route) -> Pair {
    Some((route.source, route.destination, route.protocol))
}

/// Journeys by flow.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    flows: FxHashMap<Route, FlowSum>,
    others: FlowSum,
    onward: FxHashMap<Pair, FxHashSet<Spot>>,
}

impl Flows {
    /// Adds a journey. A packet that was last seen after `until_ns` may be on its way still.
    pub fn add(&mut self, journey: &Journey, until_ns: u64) {
        let pair = pair(&journey.route);
        let pair = if self.onward.len() < MOST_FLOWS || self.onward.contains_key(&pair) { pair } else { None };
        let (steps, is_bare) = (places(journey), is_bare(journey));
        let onward = self.onward.entry(pair).or_default();
        onward.extend(steps.iter().rev().skip(1).map(|(place, _)| ((*place).clone(), is_bare)));
        let is_new = !self.flows.contains_key(&journey.route);
        let flow = match is_new && self.flows.len() >= MOST_FLOWS {
            true => &mut self.others,
            false => self.flows.entry(journey.route).or_default(),
        };
        flow.add(journey, until_ns);
    }

    /// Whether packets between these addresses went on from the place.
    fn goes_on(&self, route: Option<&Route>, place: &Spot) -> bool {
        let pair = route.and_then(pair).filter(|pair| self.onward.contains_key(&Some(*pair)));
        self.onward.get(&pair).is_some_and(|places| places.contains(place))
    }

    fn all(&self) -> impl Iterator<Item = (Option<&Route>, &FlowSum)> {
        let others = (self.others.packets > 0).then_some((None, &self.others));
        self.flows.iter().map(|(route, flow)| (Some(route), flow)).chain(others)
    }

    /// The flows, those with the most bytes first, each with what was lost of it; at the end, without a route, all
    /// beyond the first [`MOST_FLOWS`].
    pub fn flows(&self) -> Vec<(Option<&Route>, &FlowSum, Loss)> {
        let whole = |route: Option<&Route>, flow: &FlowSum| {
            let lost = self.losses(route, flow).fold((0, 0, 0), |(dropped, missing, under_way), (_, at)| {
                (dropped + at.dropped, missing + at.missing, under_way + at.under_way)
            });
            let (dropped, missing, under_way) = (lost.0 + flow.only_dropped, lost.1, lost.2);
            let went_on = flow.packets.saturating_sub(dropped + missing + under_way);
            Loss { packets: flow.packets, went_on, dropped, missing, under_way }
        };
        let mut all: Vec<_> = self.all().map(|(route, flow)| (route, flow, whole(route, flow))).collect();
        all.sort_by_key(|(route, flow, _)| (route.is_none(), std::cmp::Reverse(flow.bytes), route.copied()));
        all
    }

    /// What became of the packets at each place of a flow.
    fn losses<'a>(&'a self, route: Option<&'a Route>, flow: &'a FlowSum) -> impl Iterator<Item = (&'a Place, Loss)> {
        flow.places.iter().map(move |(spot, at)| {
            let missing = if self.goes_on(route, spot) { at.missing } else { 0 };
            (&spot.0, Loss { missing, ..*at })
        })
    }

    /// What became of the packets at each place, all flows together.
    pub fn places(&self) -> FxHashMap<&Place, Loss> {
        let mut found: FxHashMap<&Place, Loss> = FxHashMap::default();
        for (route, flow) in self.all() {
            for (place, at) in self.losses(route, flow) {
                found.entry(place).or_default().add(&at);
            }
        }
        found
    }

    /// The places from which packets go on, in the order of the way; then those at which packets only end, as far as
    /// the kernel dropped some. `summary`: of the same journeys.
    pub fn hops<'a>(&'a self, summary: &'a Summary) -> Vec<Hop<'a>> {
        let mut all = self.places();
        let mut hops: Vec<(&Place, &Place, usize)> = Vec::new();
        for (leg, times) in summary.legs() {
            match hops.iter_mut().find(|(from, ..)| *from == &leg.from) {
                Some((_, to, most)) if times.count() > *most => (*to, *most) = (&leg.to, times.count()),
                Some(_) => {}
                None => hops.push((&leg.from, &leg.to, times.count())),
            }
        }
        let of = |(from, to, _)| all.remove(from).map(|loss| (from, Some(to), loss));
        let mut hops: Vec<Hop<'a>> = hops.into_iter().filter_map(of).collect();
        let mut ends: Vec<Hop<'a>> = all.into_iter().map(|(place, loss)| (place, None, loss)).collect();
        ends.retain(|(.., loss)| loss.lost() > 0);
        ends.sort_by_key(|(place, ..)| *place);
        hops.extend(ends);
        hops
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dropped, Step};
    use wirespan_model::packet::{Tunnel, UDP};
    use wirespan_model::test_support::route;

    fn step(point: Point, netns: u32, time_ns: u64) -> Step {
        let place = Place { point, netns, device: "eth0".into(), function: "".into(), tunnel: Tunnel::None };
        Step { place, time_ns, cpu: 0, queue_len: 0, route: route(UDP), was: None }
    }

    /// A datagram of 100 bytes that is seen at these places, one microsecond from each to the next.
    fn journey(places: &[(Point, u32)]) -> Journey {
        let steps = (0u64..).zip(places).map(|(n, (point, netns))| step(*point, *netns, n * 1000)).collect();
        Journey { route: route(UDP), seq: 0, len: 100, number: 0, attempt: 1, steps, dropped: None }
    }

    const QUEUE: (Point, u32) = (Point::Queue, 1);
    const XMIT: (Point, u32) = (Point::Xmit, 1);
    const RECEIVE: (Point, u32) = (Point::Receive, 2);

    fn at(flows: &Flows, place: (Point, u32)) -> Loss {
        let place = step(place.0, place.1, 0).place;
        flows.places().get(&place).copied().unwrap_or_default()
    }

    #[test]
    fn what_does_not_come_on_is_missing_where_others_went_on() {
        let mut flows = Flows::default();
        for _ in 0..8 {
            flows.add(&journey(&[QUEUE, XMIT, RECEIVE]), u64::MAX);
        }
        flows.add(&journey(&[QUEUE, XMIT]), u64::MAX);
        let dropped = Dropped { step: step(Point::Drop, 1, 9), reason: 64, resent_after_ns: None };
        flows.add(&Journey { dropped: Some(dropped), ..journey(&[QUEUE]) }, u64::MAX);
        let loss = |packets, went_on, dropped, missing| Loss { packets, went_on, dropped, missing, under_way: 0 };
        assert_eq!(at(&flows, QUEUE), loss(10, 9, 1, 0));
        assert_eq!(at(&flows, XMIT), loss(9, 8, 0, 1));
        assert_eq!(at(&flows, RECEIVE), loss(8, 0, 0, 0), "the way ends there");
        let all = flows.flows();
        let [(Some(_), flow, lost)] = all[..] else { panic!("{all:?}") };
        assert_eq!((flow.packets, flow.bytes, lost.lost()), (10, 1000, 2));
        assert!((lost.share() - 0.2).abs() < 1e-9, "{lost:?}");
        assert_eq!((flow.times.count(), flow.jitter()), (9, 1000 / 8));
    }

    #[test]
    fn a_way_that_ends_for_one_address_loses_nothing() {
        let mut flows = Flows::default();
        flows.add(&journey(&[QUEUE, XMIT, RECEIVE]), u64::MAX);
        let mut other = journey(&[QUEUE, XMIT]);
        other.route.destination = [10, 0, 0, 3].into();
        flows.add(&other, u64::MAX);
        assert_eq!(at(&flows, XMIT).lost(), 0);
    }

    #[test]
    fn a_syn_that_does_not_come_to_a_socket_is_not_lost_where_bytes_go_on() {
        let mut flows = Flows::default();
        let way = [QUEUE, RECEIVE, (Point::Tcp, 2)];
        let of_tcp = |len, places: &[(Point, u32)]| {
            let mut one = Journey { len, ..journey(places) };
            one.route.protocol = TCP;
            one
        };
        flows.add(&of_tcp(0, &way[..2]), u64::MAX);
        flows.add(&of_tcp(100, &way), u64::MAX);
        assert_eq!(at(&flows, RECEIVE), Loss { packets: 2, went_on: 1, ..Loss::default() });
        flows.add(&of_tcp(100, &way[..2]), u64::MAX);
        flows.add(&of_tcp(0, &way[..1]), u64::MAX);
        assert_eq!((at(&flows, RECEIVE).missing, at(&flows, QUEUE).missing), (1, 1));
    }

    #[test]
    fn what_was_seen_just_now_is_under_way() {
        let mut flows = Flows::default();
        flows.add(&journey(&[QUEUE, XMIT]), u64::MAX);
        flows.add(&journey(&[QUEUE]), u64::MAX);
        let late = Journey { steps: vec![step(QUEUE.0, QUEUE.1, 6000)], ..journey(&[]) };
        flows.add(&late, 5000);
        assert_eq!(at(&flows, QUEUE), Loss { packets: 3, went_on: 1, dropped: 0, missing: 1, under_way: 1 });
    }

    #[test]
    fn flows_beyond_the_bound_are_added_up() {
        let mut flows = Flows::default();
        for port in 0..MOST_FLOWS as u16 + 5 {
            let mut one = journey(&[QUEUE, XMIT]);
            one.route.source_port = port;
            flows.add(&one, u64::MAX);
        }
        let all = flows.flows();
        assert_eq!(all.len(), MOST_FLOWS + 1);
        let (route, others, _) = all[MOST_FLOWS];
        assert_eq!((route, others.packets, others.bytes), (None, 5, 500));
    }
}
