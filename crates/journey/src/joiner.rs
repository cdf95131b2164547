//! Sightings in, journeys out, with bounded memory.

use crate::attempts::{is_on_the_way, of_byte};
use crate::flow::Flow;
use crate::Journey;
use rustc_hash::FxHashMap;
use wirespan_model::packet::{Point, Route, Sighting, TCP, UDP};

/// How long after its first sighting a packet's journey is told, unless [`Settings`] say otherwise.
pub const KNOWN_AFTER_S: u64 = 3;

/// Limits of the join.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long after its first sighting a packet's journey is told, ns. Bytes that are sent again later than that are
    /// not known as such.
    pub linger_ns: u64,
    /// Sightings that are kept at most.
    pub kept: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { linger_ns: KNOWN_AFTER_S * 1_000_000_000, kept: 2_000_000 }
    }
}

/// What came of the sightings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All.
    pub sightings: u64,
    /// Acknowledgements without payload: they belong to no journey.
    pub without_payload: u64,
    /// Not kept, because [`Settings::kept`] was reached.
    pub too_many: u64,
    /// Flows that go on under other addresses.
    pub translated: u64,
    /// Journeys told.
    pub journeys: u64,
}

/// How long the same bytes may take from one address translation to the next sighting, ns.
const TRANSLATION_NS: u64 = 1_000_000_000;

/// A router forwards a packet within this time, on the processor that received it, ns.
const FORWARDING_NS: u64 = 200_000;

/// A new route is compared with others at so many of its first sightings.
const FRESH: u32 = 32;

/// A packet that was sent so lately may still be under way, ns.
const UNDER_WAY_NS: u64 = 100_000_000;

/// What is left of a packet by address translation: protocol, sequence number or hash, length.
type Mark = (u8, u32, u32);

/// Where a packet with a mark was seen last.
#[derive(Clone, Copy, Debug)]
struct Marked {
    flow: u32,
    route: Route,
    time_ns: u64,
    netns: u32,
    cpu: u16,
    point: Point,
}

impl Marked {
    /// Whether this is the same datagram, which a router sends on under other addresses on both sides: it has just come
    /// in there. An answer goes back to where the question came from.
    fn is_forwarded_as(&self, s: &Sighting) -> bool {
        let Marked { route, netns, cpu, point, .. } = *self;
        point.is_arrival()
            && s.point.is_departure()
            && (netns, cpu) == (s.netns, s.cpu)
            && s.time_ns.checked_sub(self.time_ns).is_some_and(|took| took < FORWARDING_NS)
            && !turns_back(&route, &s.route)
    }
}

/// Joins sightings. Give them in about the order of time.
#[derive(Debug, Default)]
pub struct Joiner {
    settings: Settings,
    flows: FxHashMap<u32, Flow>,
    routes: FxHashMap<Route, (u32, u32)>,
    marks: FxHashMap<Mark, Marked>,
    kept: usize,
    next: u32,
    latest_ns: u64,
    counts: Counts,
}

impl Joiner {
    /// Makes an empty one.
    pub fn new(settings: Settings) -> Self {
        Joiner { settings, ..Joiner::default() }
    }

    /// What came of the sightings so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes a sighting.
    pub fn add(&mut self, s: &Sighting) {
        self.counts.sightings += 1;
        self.latest_ns = self.latest_ns.max(s.time_ns);
        if matches!(s.point, Point::Resent | Point::Mark) {
            // The segment itself is seen at the device, too; and a mark is no packet.
            return;
        }
        if self.kept >= self.settings.kept {
            self.counts.too_many += 1;
            return;
        }
        let flow = self.flow_of(s);
        let kept = self.flows.entry(flow).or_default().add(s);
        self.kept += usize::from(kept);
        self.counts.without_payload += u64::from(!kept);
    }

    fn flow_of(&mut self, s: &Sighting) -> u32 {
        let known = self.routes.get(&s.route).copied();
        let fresh = known.is_none_or(|(_, seen)| seen < FRESH);
        let mark = fresh.then(|| mark(s)).flatten();
        let flow = match known {
            Some((flow, _)) => flow,
            None => {
                let guessed = |joiner: &mut Self| mark.and_then(|mark| joiner.under_other_addresses(mark, s));
                self.before_translation(s).or_else(|| guessed(self)).unwrap_or_else(|| {
                    self.next += 1;
                    self.next
                })
            }
        };
        if let Some(was) = &s.was {
            // A socket knows the ends before the translation. Its first bytes come after the first packet.
            self.routes.entry(**was).or_insert((flow, 0));
        }
        if fresh {
            self.routes.entry(s.route).or_insert((flow, 0)).1 += 1;
        }
        if let Some(mark) = mark {
            let Sighting { route, time_ns, netns, cpu, point, .. } = *s;
            self.marks.insert(mark, Marked { flow, route, time_ns, netns, cpu, point });
        }
        flow
    }

    /// The flow of the addresses that the kernel has translated.
    fn before_translation(&mut self, s: &Sighting) -> Option<u32> {
        let (flow, _) = *self.routes.get(s.was.as_deref()?)?;
        self.counts.translated += 1;
        Some(flow)
    }

    /// The flow to which a new route belongs, because the same bytes were seen just before.
    fn under_other_addresses(&mut self, mark: Mark, s: &Sighting) -> Option<u32> {
        let marked = self.marks.get(&mark).copied()?;
        let Marked { flow, route, time_ns, .. } = marked;
        let near = s.time_ns.abs_diff(time_ns) < TRANSLATION_NS;
        // The payload of datagrams is often the same for many receivers. A sequence number is one of 2³².
        let alike = route.protocol == TCP || shares_an_end(&route, &s.route) || marked.is_forwarded_as(s);
        if !near || !alike || route == s.route {
            return None;
        }
        self.counts.translated += 1;
        Some(flow)
    }

    /// The direction of a connection to which packets of this route belong.
    pub(crate) fn flow(&self, route: &Route) -> Option<&Flow> {
        self.flows.get(&self.routes.get(route)?.0)
    }

    /// Sightings that are kept.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// Packets that were seen, and whose journeys are not told yet.
    pub fn under_way(&self) -> usize {
        self.flows.values().map(|flow| untold(flow, u64::MAX).len()).sum()
    }

    /// Forgets what was seen longer ago than this, ns. For a user that asks for messages and not for journeys.
    pub fn forget(&mut self, age_ns: u64) {
        self.forget_before(self.latest_ns.saturating_sub(age_ns));
    }

    fn forget_before(&mut self, old_ns: u64) {
        for flow in self.flows.values_mut() {
            self.kept -= flow.forget(old_ns);
        }
        self.flows.retain(|_, flow| flow.len() > 0);
        self.routes.retain(|_, (flow, _)| self.flows.contains_key(flow));
        self.marks.retain(|_, marked| marked.time_ns + TRANSLATION_NS >= self.latest_ns);
    }

    /// All sightings up to this time, Unix ns, were given: it goes on, also if no packet comes.
    pub fn pass(&mut self, now_ns: u64) {
        self.latest_ns = self.latest_ns.max(now_ns);
    }

    /// The journeys of packets that were seen first before the linger time. Call now and then.
    pub fn due(&mut self) -> Vec<Journey> {
        let up_to_ns = self.latest_ns.saturating_sub(self.settings.linger_ns);
        let settled_ns = self.latest_ns.saturating_sub(UNDER_WAY_NS);
        let told = self.tell(up_to_ns, settled_ns);
        self.forget_before(up_to_ns.saturating_sub(self.settings.linger_ns));
        told
    }

    /// The journeys of all other packets. Nothing is kept.
    pub fn finish(&mut self) -> Vec<Journey> {
        let told = self.tell(u64::MAX, u64::MAX);
        self.flows.clear();
        self.routes.clear();
        self.marks.clear();
        self.kept = 0;
        told
    }

    fn tell(&mut self, up_to_ns: u64, settled_ns: u64) -> Vec<Journey> {
        let mut out = Vec::new();
        for flow in self.flows.values_mut() {
            tell_flow(flow, up_to_ns, settled_ns, &mut self.kept, &mut out);
        }
        out.sort_by_key(Journey::start_ns);
        self.counts.journeys += out.len() as u64;
        out
    }
}

/// The last bytes of packets that are not told yet: the packets as they were seen first, and those that were dropped.
fn untold(flow: &Flow, up_to_ns: u64) -> Vec<u64> {
    let first = |hop: &crate::flow::Hop| hop.seen.values().map(|s| s.time_ns).min().unwrap_or(u64::MAX);
    let origin = flow.hops.iter().enumerate().filter(|(_, hop)| is_on_the_way(hop.place.point) && !hop.seen.is_empty());
    let origin = origin.min_by_key(|(_, hop)| first(hop)).map(|(n, _)| n);
    let sources = flow.hops.iter().enumerate().filter(|(n, hop)| Some(*n) == origin || hop.place.point == Point::Drop);
    let mut bytes: Vec<u64> = sources
        .flat_map(|(_, hop)| hop.seen.values())
        .filter(|s| !s.told && s.time_ns <= up_to_ns)
        .map(|s| s.interval.end - 1)
        .collect();
    bytes.sort_unstable();
    bytes.dedup();
    bytes
}

/// Tells each packet of a flow once.
fn tell_flow(flow: &mut Flow, up_to_ns: u64, settled_ns: u64, kept: &mut usize, out: &mut Vec<Journey>) {
    let stream = flow.is_stream();
    for byte in untold(flow, up_to_ns) {
        let told = of_byte(flow, byte);
        // Bytes that were sent again just now are told later. Datagrams are told one by one.
        if stream && told.journeys.iter().any(|j| j.start_ns() > settled_ns) {
            continue;
        }
        for (journey, used) in told.journeys.into_iter().zip(told.used) {
            if !stream && journey.start_ns() > up_to_ns {
                continue;
            }
            for (n, key) in used {
                let Some(hop) = flow.hops.get_mut(n) else { continue };
                if !stream {
                    *kept -= usize::from(hop.seen.remove(&key).is_some());
                } else if let Some(seen) = hop.seen.get_mut(&key).filter(|s| s.interval.end == byte + 1) {
                    seen.told = true;
                }
            }
            // A datagram that is sent twice is two datagrams.
            out.push(if stream { journey } else { Journey { attempt: 1, ..journey } });
        }
    }
}

fn mark(s: &Sighting) -> Option<Mark> {
    if !s.point.has_packet() || s.fragment {
        return None;
    }
    match s.route.protocol {
        TCP if s.len > 0 || s.flags & wirespan_model::packet::SYN != 0 => Some((TCP, s.seq, s.len)),
        UDP if s.hash != 0 => Some((UDP, s.hash, s.len)),
        _ => None,
    }
}

fn shares_an_end(a: &Route, b: &Route) -> bool {
    (a.source, a.source_port) == (b.source, b.source_port)
        || (a.destination, a.destination_port) == (b.destination, b.destination_port)
}

/// Whether the second goes where the first came from, or comes from where the first went.
fn turns_back(a: &Route, b: &Route) -> bool {
    (a.source, a.source_port) == (b.destination, b.destination_port)
        || (a.destination, a.destination_port) == (b.source, b.source_port)
}
