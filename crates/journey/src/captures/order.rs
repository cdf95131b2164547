//! Which place is nearer to the client. No clock is compared with another.

use super::ways::{Sight, View, Way};

/// How an order is known; the order of trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Proof {
    /// A router between the two places took one off the time to live.
    Ttl,
    /// One clock saw both.
    Clock,
    /// The nearer place waited longer for the response.
    RoundTrip,
}

impl Proof {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Proof::Ttl => "ttl",
            Proof::Clock => "clock",
            Proof::RoundTrip => "round-trip",
        }
    }
}

/// Order of the views of a way.
#[derive(Debug)]
pub(super) struct Order {
    /// Numbers of the views, from the client on.
    pub(super) views: Vec<usize>,
    /// For each of these but the first, how it is known that it comes after the one before.
    pub(super) proofs: Vec<Proof>,
}

/// A packet that two places saw.
#[derive(Clone, Copy, Debug)]
pub(super) struct Both {
    pub(super) to_server: bool,
    pub(super) a: Sight,
    pub(super) b: Sight,
}

/// The packets that both places saw exactly once, in the order of the first place's time.
pub(super) fn both(a: &View, b: &View) -> Vec<Both> {
    let pair =
        |(mark, a): (&super::ways::Mark, &Sight)| Some(Both { to_server: mark.0, a: *a, b: *b.sights.get(mark)? });
    let mut all: Vec<Both> = a.sights.iter().filter_map(pair).collect();
    all.sort_by_key(|both| (both.a.time_ns, both.b.time_ns, both.to_server));
    all
}

/// Packets on one way say the same. A few may differ: a clock may have been set, or a route changed.
const AGREE: f64 = 0.9;

/// What the votes say, if they agree.
fn decided(votes: impl Iterator<Item = bool>) -> Option<bool> {
    let (mut yes, mut all) = (0u32, 0u32);
    for vote in votes {
        yes += u32::from(vote);
        all += 1;
    }
    let share = f64::from(yes) / f64::from(all.max(1));
    match all {
        0 => None,
        _ if share >= AGREE => Some(true),
        _ if share <= 1.0 - AGREE => Some(false),
        _ => None,
    }
}

/// Whether the first place is nearer to the client.
fn is_nearer(all: &[Both], same_clock: bool) -> Option<(bool, Proof)> {
    let ttls = all.iter().filter(|p| p.a.ttl != p.b.ttl).map(|p| (p.a.ttl > p.b.ttl) == p.to_server);
    if let Some(nearer) = decided(ttls) {
        return Some((nearer, Proof::Ttl));
    }
    if same_clock {
        let says = |to_server: bool| {
            let of = || all.iter().filter(|p| p.to_server == to_server);
            let apart = || of().filter(|p| p.a.time_ns != p.b.time_ns);
            match (of().count(), apart().count()) {
                (0, _) => None,
                // A packet that the kernel handed on has one time at both. That fits either order.
                (_, 0) => Some(None),
                _ => decided(apart().map(|p| (p.a.time_ns < p.b.time_ns) == to_server)).map(Some),
            }
        };
        // A mirror port may tell its packets late. So the two directions must not contradict each other.
        return match (says(true)?, says(false)?) {
            (Some(there), Some(back)) if there != back => None,
            (there, back) => there.or(back).map(|nearer| (nearer, Proof::Clock)),
        };
    }
    // From a packet to the next one in the other direction.
    let turns = all.windows(2).filter(|w| w[0].to_server != w[1].to_server);
    let votes = turns.filter_map(|w| {
        let at_a = w[1].a.time_ns.checked_sub(w[0].a.time_ns)?;
        let at_b = w[1].b.time_ns.checked_sub(w[0].b.time_ns)?;
        (at_a != at_b).then_some((at_a > at_b) == w[0].to_server)
    });
    decided(votes).map(|nearer| (nearer, Proof::RoundTrip))
}

/// The order of all views; `None` if it is not known of any two.
pub(super) fn of(way: &Way) -> Option<Order> {
    let n = way.views.len();
    let mut known = vec![vec![None; n]; n];
    for (i, a) in way.views.iter().enumerate() {
        for (j, b) in way.views.iter().enumerate().skip(i + 1) {
            let found = is_nearer(&both(a, b), a.capture == b.capture);
            known[i][j] = found;
            known[j][i] = found.map(|(nearer, proof)| (!nearer, proof));
        }
    }
    let comes_first = |i: usize, j: usize| known[i][j].is_some_and(|(nearer, _)| nearer);
    // A chain: each place comes before the next one, and so before all later ones.
    let mut views: Vec<usize> = (0..n).collect();
    let after = |i: &usize| (0..n).filter(|j| comes_first(*i, *j)).count();
    views.sort_by_key(|i| std::cmp::Reverse(after(i)));
    let proofs: Option<Vec<Proof>> =
        views.windows(2).map(|w| known[w[0]][w[1]].filter(|(nearer, _)| *nearer).map(|(_, proof)| proof)).collect();
    let contradicted = (0..n).any(|i| (i + 1..n).any(|j| comes_first(views[j], views[i])));
    proofs.filter(|_| !contradicted).map(|proofs| Order { views, proofs })
}
