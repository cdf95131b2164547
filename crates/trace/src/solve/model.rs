//! What a process's requests do: learnt counts, and from them how likely an act is.
//!
//! A request is a chain of events. What it does next depends on its class, on what happened last, and on whether it
//! waits for an answer; how soon, on all that. Counts are in halves of an octave of time. Everything learnt fades, so
//! that a new version of a service is learnt, too.

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

/// The calls that a request has made, whatever their order: a sum of their classes' hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Done(u32);

impl Done {
    pub(super) fn and(self, class: Class) -> Done {
        Done(self.0.wrapping_add((u32::from(class) + 1).wrapping_mul(0x9e37_79b9)))
    }
}

/// Kinds of calls of one request that are counted.
const MADE: usize = 6;

/// How many calls of which class a request has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Made([(Class, u8); MADE]);

impl Made {
    pub(super) fn add(&mut self, class: Class) {
        // Of a place that nobody has taken, the number is 0.
        if let Some((c, n)) = self.0.iter_mut().find(|(c, n)| *c == class || *n == 0) {
            (*c, *n) = (class, n.saturating_add(1));
        }
    }

    fn of(&self, class: Class) -> f64 {
        self.0.iter().find(|(c, n)| *c == class && *n > 0).map_or(0.0, |(_, n)| f64::from(*n))
    }
}

/// Where a request stands: its class, what was last, whether it waits for an answer, and what it has done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) class: Class,
    pub(super) last: Last,
    pub(super) waits: bool,
    pub(super) done: Done,
    pub(super) made: Made,
}

impl Place {
    /// All of it but what was done.
    fn step(self) -> (Class, Last, bool) {
        (self.class, self.last, self.waits)
    }

    /// What was done, and only the kind of what was last.
    fn stage(self) -> (Class, Done, u8, bool) {
        let last = match self.last {
            Last::Read => 0,
            Last::Sent(_) => 1,
            Last::Replied(_) => 2,
        };
        (self.class, self.done, last, self.waits)
    }
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
    /// Another thread has read it, where each thread acts for what it reads itself.
    Elsewhere = 5,
}

pub(super) const TURNS: usize = 6;

/// What may be believed of whose turn it is before anything is known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Belief {
    /// By [`Turn`].
    turns: [f64; TURNS],
    /// A queue of calls: all of a request stand there since it was read. Else a queue of requests that can go on.
    pub(super) of_calls: bool,
    /// Nothing of this counts before something is learnt: a queue of calls says little as long as it is not known who
    /// will call what.
    blind: bool,
    /// Each thread has a queue of its own: it acts for what it has read itself.
    pub(super) by_thread: bool,
}

impl Belief {
    const fn new(turns: [f64; TURNS - 1]) -> Belief {
        let [goes_on, longest, shortest, between, waits] = turns;
        let turns = [goes_on, longest, shortest, between, waits, ELSEWHERE];
        Belief { turns, of_calls: false, blind: false, by_thread: false }
    }
}

/// What is believed of who stands in another thread's queue.
const ELSEWHERE: f64 = 0.002;
const SERIAL: Belief = Belief::new([0.1, 0.6, 0.2, 0.1, 0.01]);
const AT_ONCE: Belief = Belief::new([0.9, 0.5, 0.1, 0.05, 0.01]);
const UNORDERED: Belief = Belief::new([0.3, 0.5, 0.5, 0.5, 0.05]);
const CALLS: Belief = Belief { of_calls: true, ..Belief::new([0.1, 0.8, 0.2, 0.1, 0.02]) };

/// One call after the other in a queue; all calls at once; no order; a queue of calls, for workers (twice); and the
/// first three of each thread.
pub(super) const BELIEFS: [Belief; 8] = [
    SERIAL,
    AT_ONCE,
    UNORDERED,
    CALLS,
    Belief { blind: true, ..CALLS },
    Belief { by_thread: true, ..SERIAL },
    Belief { by_thread: true, ..AT_ONCE },
    Belief { by_thread: true, ..UNORDERED },
];
/// How many observations that is worth.
const BELIEF_WEIGHT: f64 = 8.0;
/// How many observations it is worth what the trial says of failed claims.
const HINT_WEIGHT: f64 = 16.0;
/// Answers of a class from which on it is known what its requests call; and how much less likely it is that one does
/// what is not expected of it.
const FEW: f64 = 4.0;
const MISFIT: f64 = 0.05;

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

/// What requests did that had done the same.
#[derive(Clone, Debug, Default)]
struct Stage {
    visits: f64,
    acted: f64,
    acts: FxHashMap<Act, f64>,
}

/// What requests of a class did on the whole: acts of all kinds, answers, and calls by their class.
#[derive(Clone, Debug, Default)]
struct Doings {
    all: f64,
    answers: f64,
    calls: Vec<f64>,
}

impl Doings {
    fn of(&self, act: Act) -> f64 {
        match act {
            Act::Answer => self.answers,
            Act::Call(class) => self.calls.get(usize::from(class)).copied().unwrap_or(0.0),
        }
    }

    fn add(&mut self, act: Act) {
        self.all += 1.0;
        match act {
            Act::Answer => self.answers += 1.0,
            Act::Call(class) => {
                let class = usize::from(class);
                self.calls.resize(self.calls.len().max(class + 1), 0.0);
                self.calls[class] += 1.0;
            }
        }
    }

    fn halve(&mut self) {
        [&mut self.all, &mut self.answers].into_iter().chain(&mut self.calls).for_each(|n| *n /= 2.0);
    }

    /// How many calls of a class a request makes; `None` if not known.
    fn expected(&self, call: Class) -> Option<f64> {
        (self.answers >= FEW).then(|| self.of(Act::Call(call)) / self.answers)
    }
}

/// What of an act is the same for all requests and ways: computed once.
#[derive(Debug)]
pub(super) struct Outlook {
    pub(super) act: Act,
    /// How much more likely it is this one's turn than another's, by [`Turn`].
    pub(super) turns: [f64; TURNS],
    /// Of a call in a queue of calls: how many like it requests make on the whole, by their class.
    expected: Option<Vec<f64>>,
    /// Only what the same thread has read stands in the queue.
    pub(super) by_thread: bool,
}

impl Outlook {
    /// Whether the request may act, as far as what it has called tells; `None`: that does not tell.
    pub(super) fn owes(&self, request: Class, made: &Made) -> Option<bool> {
        let (Some(expected), Act::Call(call)) = (&self.expected, self.act) else { return None };
        Some(expected.get(usize::from(request)).is_none_or(|n| n - made.of(call) >= 0.5))
    }
}

/// All that is learnt of a process.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    next: FxHashMap<(Class, Last, bool), Next>,
    stages: FxHashMap<(Class, Done, u8, bool), Stage>,
    /// The same whatever was last, by class.
    of_class: Vec<Doings>,
    acts: FxHashMap<Act, f64>,
    delays: Delays,
    pub(super) belief: Belief,
    /// How many observations it is worth what requests do that have come to a place on another way.
    pub(super) step_weight: f64,
    /// Guesses of the kernel are heeded.
    pub(super) heeds: bool,
    /// Of calls, and of answers, which need not stand in the same queue.
    chosen: [[f64; TURNS]; 2],
    possible: [[f64; TURNS]; 2],
    /// How many of the failed claims are right, as the trial has it.
    pub(super) claims: f64,
    /// Guesses, and failed claims, that were right, and all.
    hints: [[f64; 2]; 2],
    /// Calls without a request, and all, by their class and whether the kernel knew that there is one.
    alone: FxHashMap<(Class, bool), [f64; 2]>,
    /// Acts learnt since the last fading, and in all.
    since: f64,
    pub(super) learnt: f64,
}

impl Model {
    pub(super) fn new(belief: Belief) -> Self {
        Model { belief, ..Model::default() }
    }

    /// ln of how likely a request at `place` does this so long after its last event. By how usual the delay is, not by
    /// how likely each of its nanoseconds: that would prefer whoever came last.
    pub(super) fn act(&self, place: Place, act: Act, delay_ns: u64) -> f64 {
        let kinds = self.acts.len().max(1) as f64 + 1.0;
        let (class_n, class_act) = self.doings(place.class).map_or((0.0, 0.0), |d| (d.all, d.of(act)));
        let back = (class_act + 1.0 / kinds) / (class_n + 1.0);
        let b = bucket(delay_ns);
        let any = self.delays.share(b, 1.0 / BUCKETS as f64);
        let (step, share) = match self.next.get(&place.step()) {
            Some(next) => {
                let known = next.acts.get(&act);
                let n = known.map_or(0.0, |d| d.n);
                ((n + back) / (next.visits + 1.0), known.map_or(any, |d| d.share(b, any)))
            }
            None => (back, any),
        };
        let does = self.stages.get(&place.stage()).map_or(step, |stage| {
            let n = stage.acts.get(&act).copied().unwrap_or(0.0);
            (n + self.step_weight * step) / (stage.visits + self.step_weight)
        });
        (does.max(1e-6) * self.fits(&place, act) * share.max(1e-6)).ln()
    }

    fn doings(&self, request: Class) -> Option<&Doings> {
        self.of_class.get(usize::from(request))
    }

    /// What of an act is the same for all.
    pub(super) fn outlook(&self, act: Act) -> Outlook {
        use Turn::{Between, Elsewhere, GoesOn, Longest, Shortest, Waits};
        let expected = match act {
            Act::Call(call) if self.belief.of_calls => {
                Some(self.of_class.iter().map(|d| d.expected(call).unwrap_or(f64::INFINITY)).collect())
            }
            _ => None,
        };
        let turns = [GoesOn, Longest, Shortest, Between, Waits, Elsewhere].map(|turn| self.turn(turn, act));
        Outlook { act, turns, expected, by_thread: self.belief.by_thread }
    }

    /// What is done too often, or too early, is less likely.
    fn fits(&self, place: &Place, act: Act) -> f64 {
        let Some(doings) = self.doings(place.class) else { return 1.0 };
        let owed = |call: Class| doings.expected(call).map(|n| n - place.made.of(call));
        let owed = match act {
            Act::Call(call) => owed(call),
            Act::Answer => {
                let calls = (0..doings.calls.len() as Class).filter_map(owed).filter(|n| *n > 0.0);
                Some(1.0 - calls.sum::<f64>())
            }
        };
        owed.map_or(1.0, |n| n.clamp(MISFIT, 1.0))
    }

    /// ln of how likely a request leaves a place without an act: an answer to it comes first.
    pub(super) fn rests(&self, place: Place) -> f64 {
        let step = self.next.get(&place.step()).map_or(0.5, |n| (n.visits - n.acted + 0.5) / (n.visits + 1.0));
        let rested = self
            .stages
            .get(&place.stage())
            .map_or(step, |s| (s.visits - s.acted + self.step_weight * step) / (s.visits + self.step_weight));
        rested.clamp(0.02, 1.0).ln()
    }

    /// How much more likely it is this one's turn than another's.
    fn turn(&self, turn: Turn, act: Act) -> f64 {
        if self.belief.blind && self.learnt == 0.0 {
            return 1.0;
        }
        let (t, a) = (turn as usize, usize::from(act == Act::Answer));
        (self.chosen[a][t] + self.belief.turns[t] * BELIEF_WEIGHT) / (self.possible[a][t] + BELIEF_WEIGHT)
    }

    /// ln of how likely the kernel names this request if it is (not) the right one of `of`.
    pub(super) fn hint(&self, claimed: bool, right: bool, of: usize) -> f64 {
        let [good, all] = self.hints[usize::from(claimed)];
        if !claimed && !self.heeds {
            return 0.0;
        }
        // Before anything is known, a guess says nothing.
        let prior = if claimed { self.claims } else { 1.0 / of.max(1) as f64 };
        let p = (good + prior * HINT_WEIGHT) / (all + HINT_WEIGHT);
        if right {
            p.ln()
        } else {
            ((1.0 - p).max(1e-3) / of.saturating_sub(1).max(1) as f64).ln()
        }
    }

    pub(super) fn learn_hint(&mut self, claimed: bool, right: bool) {
        let [good, all] = &mut self.hints[usize::from(claimed)];
        *good += f64::from(u8::from(right));
        *all += 1.0;
    }

    /// ln of how likely a call is made for no request.
    pub(super) fn alone(&self, class: Class, somebody: bool) -> f64 {
        // Those for which there is somebody are alone only if that request was not seen.
        let (prior, most) = if somebody { (0.002, 0.02) } else { (0.1, 0.9) };
        // Before it is known what requests do, all calls would be nobody's.
        let known = self.alone.get(&(class, somebody)).filter(|_| self.heeds);
        let [alone, all] = known.copied().unwrap_or_default();
        let share = (alone + prior * 40.0) / (all + 40.0);
        (share.clamp(1e-4, most) / BUCKETS as f64).ln()
    }

    /// A request came to a place.
    pub(super) fn visit(&mut self, place: Place) {
        let (step, stage) = (place.step(), place.stage());
        if self.next.len() < MAX_PLACES || self.next.contains_key(&step) {
            self.next.entry(step).or_default().visits += 1.0;
        }
        if self.stages.len() < MAX_PLACES || self.stages.contains_key(&stage) {
            self.stages.entry(stage).or_default().visits += 1.0;
        }
    }

    /// A request acts where it stands.
    pub(super) fn learn_act(&mut self, place: Place, act: Act, delay_ns: u64) {
        if let Some(next) = self.next.get_mut(&place.step()) {
            next.acted += 1.0;
            next.acts.entry(act).or_default().add(delay_ns);
        }
        if let Some(stage) = self.stages.get_mut(&place.stage()) {
            stage.acted += 1.0;
            *stage.acts.entry(act).or_default() += 1.0;
        }
        let class = usize::from(place.class);
        self.of_class.resize_with(self.of_class.len().max(class + 1), Doings::default);
        self.of_class[class].add(act);
        *self.acts.entry(act).or_default() += 1.0;
        self.delays.add(delay_ns);
        self.since += 1.0;
        self.learnt += 1.0;
    }

    /// Whose turn it was, and whose it might have been.
    pub(super) fn learn_turn(&mut self, chosen: Turn, act: Act, possible: [bool; TURNS]) {
        let a = usize::from(act == Act::Answer);
        for (n, is) in self.possible[a].iter_mut().zip(possible) {
            *n += f64::from(u8::from(is));
        }
        self.chosen[a][chosen as usize] += 1.0;
    }

    pub(super) fn learn_call(&mut self, class: Class, somebody: bool, is_alone: bool) {
        let [alone, all] = self.alone.entry((class, somebody)).or_default();
        *all += 1.0;
        *alone += f64::from(u8::from(is_alone));
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
        for stage in self.stages.values_mut() {
            [&mut stage.visits, &mut stage.acted].into_iter().for_each(halve);
            stage.acts.values_mut().for_each(halve);
        }
        self.stages.retain(|_, stage| stage.visits > 0.1);
        self.hints.iter_mut().flatten().for_each(halve);
        self.of_class.iter_mut().for_each(Doings::halve);
        self.acts.values_mut().for_each(halve);
        self.chosen.iter_mut().chain(&mut self.possible).flatten().for_each(halve);
        self.alone.values_mut().flatten().for_each(halve);
    }
}
