//! What the requests of one process do: learnt counts, and from them the likelihood of an act.
//!
//! A request is a chain of events. Its next act and its delay depend on its class, on its last event, and on whether it
//! waits for an answer. Old counts fade, so that a new version of a service is learnt, too.

mod debts;
mod habits;
mod outlives;
mod outlook;
mod own;

use super::belief::{Belief, Order, Turn, TURNS};
use super::chain::{Act, Done, Last, Place};
use super::delays::{bucket, Delays, BUCKETS};
use super::order::{Turns, LED_ORDERS, ORDERS};
use super::timeline::{Class, Opinion, OPINIONS};
pub(super) use debts::Debts;
use habits::Habits;
pub(super) use outlives::Outlives;
pub(super) use outlook::Outlook;
use own::Own;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Number of observations that the trial's share of right claims counts as.
const HINT_WEIGHT: f64 = 16.0;
/// Number of observations that "any request is as likely" counts as.
const TOGETHER_WEIGHT: f64 = 8.0;
/// How often the first request of a loop's turn, or the opener of a connection, is the right one, before that is
/// learnt.
const UNTRIED: f64 = 0.8;
/// The factor for an act that is not expected.
const LEAST_FIT: f64 = 0.05;
/// Least likelihood of a delay: a loop that was kept from running acts late for all its requests.
const LEAST_SHARE: f64 = 1e-3;
/// Visits of a place from which on its acts are known, and the least share of an act that is expected there.
const KNOWN: f64 = 8.0;
const READY: f64 = 0.1;

/// Most places that are learnt.
const MAX_PLACES: usize = 4096;
/// Acts after which all counts are halved.
const FADE_AFTER: f64 = 20_000.0;

/// Acts of requests at one place.
#[derive(Clone, Debug, Default)]
struct Step {
    /// How often a request came to the place, and how often it acted there.
    visits: f64,
    acted: f64,
    acts: FxHashMap<Act, Delays>,
}

/// Acts of requests that had made the same calls.
#[derive(Clone, Debug, Default)]
struct Stage {
    visits: f64,
    acted: f64,
    acts: FxHashMap<Act, f64>,
}

/// Everything that is learnt about a process, under one belief.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    next: FxHashMap<(Class, Last, bool), Step>,
    stages: FxHashMap<(Class, Done, u8, bool), Stage>,
    /// All acts, by class of the request.
    of_class: Vec<Habits>,
    acts: FxHashMap<Act, f64>,
    delays: Delays,
    pub(super) belief: Belief,
    /// What requests owe, where nothing has been learnt of them yet.
    pub(super) debts: Option<Arc<Debts>>,
    /// Number of observations that acts at the same step count as, beside acts after exactly the same calls.
    pub(super) step_weight: f64,
    /// Guesses of the kernel count.
    pub(super) uses_guesses: bool,
    /// Turns of calls and of answers, as their queues may differ; and of each class of calls: one driver sends at once,
    /// another gathers what its callers ask for.
    turns: [Turns; 2],
    turns_of: FxHashMap<Class, Turns>,
    /// Share of right claims, as the trial has it.
    pub(super) claims: f64,
    /// By [`Opinion`]: how many were right, and how many there were.
    hints: [[f64; 2]; OPINIONS],
    /// How often a call was made by the request that used its connection last, and how often that was possible; by its
    /// class, and the class of the call before in the same write.
    together: FxHashMap<(Option<Class>, Class), [f64; 2]>,
    /// How often a thread makes its next call for the request of its last one, and of how many calls.
    keeps: [f64; 2],
    own: Own,
    pub(super) outlives: Outlives,
    /// Calls without a request, and all calls, by class and by whether the kernel knew that there is a request.
    alone: FxHashMap<(Class, bool), [f64; 2]>,
    /// Acts learnt since the counts were halved, and in all.
    since: f64,
    pub(super) learnt: f64,
}

impl Model {
    pub(super) fn new(belief: Belief) -> Self {
        Model { belief, ..Model::default() }
    }

    /// The same belief, with nothing learnt.
    pub(super) fn anew(&self) -> Self {
        Model { belief: self.belief, claims: self.claims, ..Model::default() }
    }

    /// ln of the likelihood that a request at `place` acts so long after its last event. The delay counts by how common
    /// its bucket is, not by a density per nanosecond: a density would prefer the request that came last.
    pub(super) fn act(&self, place: Place, act: Act, delay_ns: u64) -> f64 {
        if let Some(debts) = &self.debts {
            return debts.likely(&place, act).ln();
        }
        let kinds = self.acts.len().max(1) as f64 + 1.0;
        let (class_n, class_act) = self.habits(place.class).map_or((0.0, 0.0), |d| (d.all, d.of(act)));
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
        (does.max(1e-4) * self.fits(&place, act) * share.max(LEAST_SHARE)).ln()
    }

    /// Whether the next act of a request at `place` may be this one. Before much is learnt, any request may act that
    /// waits for nothing.
    pub(super) fn is_ready(&self, place: Place, act: Act) -> bool {
        if let Some(debts) = &self.debts {
            return debts.is_owed(&place, act);
        }
        let stage = self.stages.get(&place.stage()).filter(|stage| stage.visits >= KNOWN);
        let share = match stage {
            Some(stage) => stage.acts.get(&act).copied().unwrap_or(0.0) / stage.visits,
            None => match self.next.get(&place.step()).filter(|next| next.visits >= KNOWN) {
                Some(next) => next.acts.get(&act).map_or(0.0, |d| d.n) / next.visits,
                None => return !place.waits,
            },
        };
        share >= READY
    }

    /// Whether calls of each class have a queue of their own, in which none overtakes another.
    pub(super) fn has_queues(&self) -> bool {
        self.belief.led.is_some()
    }

    fn habits(&self, request: Class) -> Option<&Habits> {
        self.of_class.get(usize::from(request))
    }

    /// The part of the act's likelihood that is the same for all requests.
    pub(super) fn outlook(&self, act: Act) -> Outlook {
        let expected = match act {
            Act::Call(call) if self.belief.order == Order::Calls => {
                Some(self.of_class.iter().map(|d| d.expected(call).unwrap_or(f64::INFINITY)).collect())
            }
            _ => None,
        };
        let turns = std::array::from_fn(|turn| self.turn(Turn::of(turn), act));
        let orders = self.orders(act);
        Outlook { act, turns, orders, expected, by_thread: self.belief.by_thread }
    }

    /// How likely the order of the queue is followed, and that of activations.
    fn orders(&self, act: Act) -> [f64; 2] {
        let usual = if self.has_queues() { LED_ORDERS } else { ORDERS };
        match (self.belief.order, act) {
            (Order::Loop, Act::Answer) => self.turns[1].orders(usual),
            (Order::Loop, Act::Call(class)) => {
                let any = self.turns[0].orders(usual);
                self.turns_of.get(&class).map_or(any, |turns| turns.orders(any))
            }
            _ => [1.0, 0.0],
        }
    }

    /// A factor below 1 for an act that comes too often or too early.
    fn fits(&self, place: &Place, act: Act) -> f64 {
        let Some(habits) = self.habits(place.class) else { return 1.0 };
        let owed = |call: Class| habits.expected(call).map(|n| n - place.made.of(call));
        let owed = match act {
            Act::Call(call) => owed(call),
            Act::Answer => {
                let calls = (0..habits.calls.len() as Class).filter_map(owed).filter(|n| *n > 0.0);
                Some(1.0 - calls.sum::<f64>())
            }
        };
        owed.map_or(1.0, |n| n.clamp(LEAST_FIT, 1.0))
    }

    /// ln of the likelihood that a request leaves a place without an act, because an answer comes first.
    pub(super) fn rests(&self, place: Place) -> f64 {
        let step = self.next.get(&place.step()).map_or(0.5, |n| (n.visits - n.acted + 0.5) / (n.visits + 1.0));
        let rested = self
            .stages
            .get(&place.stage())
            .map_or(step, |s| (s.visits - s.acted + self.step_weight * step) / (s.visits + self.step_weight));
        rested.clamp(0.02, 1.0).ln()
    }

    /// Weight of a turn: how often it acted when it was possible.
    fn turn(&self, turn: Turn, act: Act) -> f64 {
        if self.belief.starts_neutral && self.learnt == 0.0 {
            return 1.0;
        }
        let prior = self.belief.turns[turn as usize];
        match act {
            Act::Answer => self.turns[1].share(turn, prior),
            Act::Call(class) => {
                let any = self.turns[0].share(turn, prior);
                self.turns_of.get(&class).map_or(any, |turns| turns.share(turn, any))
            }
        }
    }

    /// ln of the likelihood that the kernel names this request if it is (or is not) the right one of `of`.
    pub(super) fn hint(&self, opinion: Opinion, right: bool, of: usize) -> f64 {
        let [good, all] = self.hints[opinion as usize];
        let prior = match opinion {
            Opinion::HandOver => self.claims,
            Opinion::FirstOfTurn | Opinion::Opener => UNTRIED,
            Opinion::Guess if !self.uses_guesses => return 0.0,
            // A guess has no weight before anything is learnt.
            Opinion::Guess => 1.0 / of.max(1) as f64,
        };
        let p = (good + prior * HINT_WEIGHT) / (all + HINT_WEIGHT);
        if right {
            p.ln()
        } else {
            ((1.0 - p).max(1e-3) / of.saturating_sub(1).max(1) as f64).ln()
        }
    }

    pub(super) fn learn_hint(&mut self, opinion: Opinion, right: bool) {
        let [good, all] = &mut self.hints[opinion as usize];
        *good += f64::from(u8::from(right));
        *all += 1.0;
    }

    /// ln of the likelihood that a call is made by the request that used its connection last, and by one certain other
    /// of `open` requests: statements of a transaction stay together, calls of a multiplexed connection do not.
    pub(super) fn together(&self, company: (Option<Class>, Class), open: usize) -> [f64; 2] {
        likely_same(self.together.get(&company).copied().unwrap_or_default(), open)
    }

    pub(super) fn learn_together(&mut self, company: (Option<Class>, Class), is_same: bool) {
        let [same, all] = self.together.entry(company).or_default();
        *all += 1.0;
        *same += f64::from(u8::from(is_same));
    }

    /// ln of the likelihood that a thread goes on with the request of its last call, and with one certain other of
    /// `of`.
    pub(super) fn keeps(&self, of: usize) -> [f64; 2] {
        likely_same(self.keeps, of)
    }

    pub(super) fn learn_keeps(&mut self, is_same: bool) {
        self.keeps[0] += f64::from(u8::from(is_same));
        self.keeps[1] += 1.0;
    }

    /// ln of how much likelier than by chance a call is made by the actor that answers its request, or by another one.
    pub(super) fn own(&self, request: Class, call: Class, is_own: bool, chance: f64) -> f64 {
        self.own.likely(request, call, is_own, chance)
    }

    pub(super) fn learn_own(&mut self, request: Class, call: Class, is_own: bool) {
        self.own.learn(request, call, is_own);
    }

    /// ln of the likelihood that a call belongs to no request.
    pub(super) fn alone(&self, class: Class, for_request: bool) -> f64 {
        if let (Some(_), Some(led)) = (&self.debts, self.belief.led) {
            return led.alone.ln();
        }
        // If the kernel knew of a request, the call is without one only if that request was not seen.
        let (prior, most) = if for_request { (1e-4, 1e-3) } else { (0.02, 0.9) };
        // Before the acts of requests are learnt, all calls would belong to none.
        let known = self.alone.get(&(class, for_request)).filter(|_| self.uses_guesses);
        let [alone, all] = known.copied().unwrap_or_default();
        let share = (alone + prior * 40.0) / (all + 40.0);
        (share.clamp(1e-5, most) / BUCKETS as f64).ln()
    }

    /// Counts that a request came to a place.
    pub(super) fn visit(&mut self, place: Place) {
        let (step, stage) = (place.step(), place.stage());
        if self.next.len() < MAX_PLACES || self.next.contains_key(&step) {
            self.next.entry(step).or_default().visits += 1.0;
        }
        if self.stages.len() < MAX_PLACES || self.stages.contains_key(&stage) {
            self.stages.entry(stage).or_default().visits += 1.0;
        }
    }

    /// Counts an act of a request at its place.
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
        self.of_class.resize_with(self.of_class.len().max(class + 1), Habits::default);
        self.of_class[class].add(act);
        *self.acts.entry(act).or_default() += 1.0;
        self.delays.add(delay_ns);
        self.since += 1.0;
        self.learnt += 1.0;
    }

    /// Counts the turn that acted, and the turns that were possible; `shares`: the likelihood of that turn, by each
    /// order.
    pub(super) fn learn_turn(&mut self, act: Act, chosen: [Turn; 2], shares: [f64; 2], possible: [bool; TURNS]) {
        let [queue, activation] = self.orders(act);
        let (queue, activation) = (queue * shares[0], activation * shares[1]);
        let all = (queue + activation).max(1e-12);
        let weights = [queue / all, activation / all];
        self.turns[usize::from(act == Act::Answer)].add(chosen, weights, possible);
        if let Act::Call(class) = act {
            self.turns_of.entry(class).or_default().add(chosen, weights, possible);
        }
    }

    pub(super) fn learn_call(&mut self, class: Class, for_request: bool, is_alone: bool) {
        let [alone, all] = self.alone.entry((class, for_request)).or_default();
        *all += 1.0;
        *alone += f64::from(u8::from(is_alone));
    }

    /// Halves all counts once in a while, so that old ones matter less.
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
        self.of_class.iter_mut().for_each(Habits::halve);
        self.own.halve();
        self.outlives.halve();
        self.acts.values_mut().for_each(halve);
        self.turns.iter_mut().chain(self.turns_of.values_mut()).for_each(Turns::halve);
        self.alone.values_mut().chain(self.together.values_mut()).flatten().for_each(halve);
        self.keeps.iter_mut().for_each(halve);
    }
}

/// ln of the likelihood of the one that is the same as before, and of one certain other of `of`, if it was the same so
/// often of so many times.
fn likely_same([same, all]: [f64; 2], of: usize) -> [f64; 2] {
    let of = of.max(2) as f64;
    let share = ((same + TOGETHER_WEIGHT / of) / (all + TOGETHER_WEIGHT)).clamp(1e-3, 1.0 - 1e-3);
    [share.ln(), ((1.0 - share) / (of - 1.0)).ln()]
}
