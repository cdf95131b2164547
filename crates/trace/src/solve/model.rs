//! What a process's requests do: learnt counts, and from them how likely an act is.
//!
//! A request is a chain of events. What it does next depends on its class, on what happened last, and on whether it waits
//! for an answer; how soon, on all that. Counts are in halves of an octave of time. Everything learnt fades, so that a new
//! version of a service is learnt, too.

use super::timeline::Class;
use rustc_hash::FxHashMap;

/// What a request does: a call of a class, or its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Act {
    Call(Class),
    Answer,
}

/// What happened to a request last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Last {
    Read,
    Sent(Class),
    Replied(Class),
}

/// Where a request stands: its class, what was last, and whether it waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) class: Class,
    pub(super) last: Last,
    pub(super) waits: bool,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It acted just now, and goes on.
    GoesOn = 0,
    /// Of those who may act, the one that waits longest.
    Longest = 1,
    /// The one whose turn came last.
    Shortest = 2,
    /// Another of them.
    Between = 3,
    /// It waits for an answer itself.
    Waits = 4,
}

const TURNS: usize = 5;
/// What may be believed of whose turn it is before anything is known: one call after the other in a queue; all calls at
/// once; no order. And how many observations that is worth.
pub(super) const BELIEFS: [[f64; TURNS]; 3] =
    [[0.1, 0.6, 0.2, 0.1, 0.01], [0.9, 0.5, 0.1, 0.05, 0.01], [0.3, 0.5, 0.5, 0.5, 0.05]];
const BELIEF_WEIGHT: f64 = 8.0;

const BUCKETS: usize = 52;
/// Bucket 0 ends here: 2^10 ns.
const FIRST_OCTAVE: u32 = 10;
/// Places that are learnt at most.
const MAX_PLACES: usize = 4096;
/// After so many acts all counts are halved.
const FADE_AFTER: f64 = 20_000.0;

fn bucket(delay_ns: u64) -> usize {
    let n = delay_ns.max(1);
    let octave = n.ilog2();
    if octave < FIRST_OCTAVE {
        return 0;
    }
    // Whether it lies in the upper half of its octave (by ratio: √2 = 1.414).
    let upper = (n >> (octave - 8)) >= 362;
    (((octave - FIRST_OCTAVE) as usize) * 2 + usize::from(upper) + 1).min(BUCKETS - 1)
}

#[derive(Clone, Debug)]
struct Delays {
    n: f64,
    counts: [f32; BUCKETS],
}

impl Default for Delays {
    fn default() -> Self {
        Delays { n: 0.0, counts: [0.0; BUCKETS] }
    }
}

impl Delays {
    fn add(&mut self, delay_ns: u64) {
        self.n += 1.0;
        self.counts[bucket(delay_ns)] += 1.0;
    }

    /// Share of a bucket, its neighbours' spread over it, with `prior` worth two observations.
    fn share(&self, b: usize, prior: f64) -> f64 {
        let at = |i: usize| f64::from(self.counts.get(i).copied().unwrap_or(0.0));
        let near = if b == 0 { 0.75 * at(0) } else { 0.25 * at(b - 1) + 0.5 * at(b) } + 0.25 * at(b + 1);
        (near + 2.0 * prior) / (self.n + 2.0)
    }

    fn fade(&mut self) {
        self.n /= 2.0;
        self.counts.iter_mut().for_each(|c| *c /= 2.0);
    }
}

/// What requests did at a place.
#[derive(Clone, Debug, Default)]
struct Next {
    /// How often one came there, and how often it acted there.
    visits: f64,
    acted: f64,
    acts: FxHashMap<Act, Delays>,
}

/// All that is learnt of a process.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    next: FxHashMap<Place, Next>,
    /// The same whatever was last.
    of_class: FxHashMap<Class, FxHashMap<Act, f64>>,
    acts: FxHashMap<Act, f64>,
    delays: Delays,
    belief: [f64; TURNS],
    chosen: [f64; TURNS],
    possible: [f64; TURNS],
    /// Calls without a request, and all, by whether the kernel knew that there is one.
    alone: [f64; 2],
    calls: [f64; 2],
    /// Acts learnt since the last fading, and in all.
    since: f64,
    pub(super) learnt: f64,
}

impl Model {
    pub(super) fn new(belief: [f64; TURNS]) -> Self {
        Model { belief, ..Model::default() }
    }

    /// ln of how likely a request at `place` does this so long after its last event. By how usual the delay is, not by how
    /// likely each of its nanoseconds: that would prefer whoever came last.
    pub(super) fn act(&self, place: Place, act: Act, delay_ns: u64) -> f64 {
        let kinds = self.acts.len().max(1) as f64 + 1.0;
        let (class_n, class_act) = self
            .of_class
            .get(&place.class)
            .map_or((0.0, 0.0), |acts| (acts.values().sum::<f64>(), acts.get(&act).copied().unwrap_or(0.0)));
        let back = (class_act + 1.0 / kinds) / (class_n + 1.0);
        let b = bucket(delay_ns);
        let any = self.delays.share(b, 1.0 / BUCKETS as f64);
        let (does, share) = match self.next.get(&place) {
            Some(next) => {
                let known = next.acts.get(&act);
                let n = known.map_or(0.0, |d| d.n);
                ((n + back) / (next.visits + 1.0), known.map_or(any, |d| d.share(b, any)))
            }
            None => (back, any),
        };
        (does.max(1e-6) * share.max(1e-6)).ln()
    }

    /// ln of how likely a request leaves a place without an act: an answer to it comes first.
    pub(super) fn rests(&self, place: Place) -> f64 {
        let rested = self.next.get(&place).map_or(0.5, |n| (n.visits - n.acted + 0.5) / (n.visits + 1.0));
        rested.clamp(0.02, 1.0).ln()
    }

    /// How much more likely it is this one's turn than another's.
    pub(super) fn turn(&self, turn: Turn) -> f64 {
        let t = turn as usize;
        (self.chosen[t] + self.belief[t] * BELIEF_WEIGHT) / (self.possible[t] + BELIEF_WEIGHT)
    }

    /// ln of how likely a call is made for no request.
    pub(super) fn alone(&self, somebody: bool) -> f64 {
        let s = usize::from(somebody);
        // Those for which there is somebody are alone only if that request was not seen.
        let (prior, most) = if somebody { (0.002, 0.02) } else { (0.1, 0.9) };
        let share = (self.alone[s] + prior * 40.0) / (self.calls[s] + 40.0);
        (share.clamp(1e-4, most) / BUCKETS as f64).ln()
    }

    /// A request came to a place.
    pub(super) fn visit(&mut self, place: Place) {
        if self.next.len() < MAX_PLACES || self.next.contains_key(&place) {
            self.next.entry(place).or_default().visits += 1.0;
        }
    }

    /// A request acts where it stands.
    pub(super) fn learn_act(&mut self, place: Place, act: Act, delay_ns: u64) {
        if let Some(next) = self.next.get_mut(&place) {
            next.acted += 1.0;
            next.acts.entry(act).or_default().add(delay_ns);
        }
        *self.of_class.entry(place.class).or_default().entry(act).or_default() += 1.0;
        *self.acts.entry(act).or_default() += 1.0;
        self.delays.add(delay_ns);
        self.since += 1.0;
        self.learnt += 1.0;
    }

    /// Whose turn it was, and whose it might have been.
    pub(super) fn learn_turn(&mut self, chosen: Turn, possible: [bool; TURNS]) {
        for (n, is) in self.possible.iter_mut().zip(possible) {
            *n += f64::from(u8::from(is));
        }
        self.chosen[chosen as usize] += 1.0;
    }

    pub(super) fn learn_call(&mut self, somebody: bool, alone: bool) {
        self.calls[usize::from(somebody)] += 1.0;
        self.alone[usize::from(somebody)] += f64::from(u8::from(alone));
    }

    /// Lets what is old count less.
    pub(super) fn fade(&mut self) {
        if self.since < FADE_AFTER {
            return;
        }
        self.since = 0.0;
        self.delays.fade();
        for next in self.next.values_mut() {
            next.visits /= 2.0;
            next.acted /= 2.0;
            next.acts.values_mut().for_each(Delays::fade);
            next.acts.retain(|_, d| d.n > 0.1);
        }
        self.next.retain(|_, next| next.visits > 0.1);
        let halve = |n: &mut f64| *n /= 2.0;
        self.of_class.values_mut().flat_map(FxHashMap::values_mut).for_each(halve);
        self.acts.values_mut().for_each(halve);
        for list in [&mut self.chosen[..], &mut self.possible, &mut self.alone, &mut self.calls] {
            list.iter_mut().for_each(halve);
        }
    }
}
