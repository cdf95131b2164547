//! Several ways to explain the calls of a process, followed together through its events.
//!
//! A way says of each call for which request it was made, and so where each open request stands. At a call whose maker
//! is not known each way splits; at an answer, whose request is known, ways in which it was not this request's turn, or
//! in which it had not done yet what such requests do, lose. The likeliest are kept.

use super::calibration::Calibration;
use super::model::{Act, Last, Model, Outlook, TURNS};
use super::timeline::{Call, Event, Hint, Maker, Request};
use super::turns::{place, Queue, State};
use rustc_hash::FxHashMap;

/// Weights are flattened by this before they become a confidence: what a way is judged by is not independent.
const TEMPER: f64 = 0.7;
/// ln of how much less likely than the best a way may be.
const HOPELESS: f64 = 18.0;
/// Calls that wait for their decision at most.
const MAX_PENDING: usize = 1024;
/// Steps that lead back to decisions, before those that no longer matter are cleared away.
const MAX_STEPS: usize = 16_384;
/// Ways that are followed at least, whatever the work.
const LEAST_WAYS: usize = 4;

/// How thoroughly events are followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Ways at most.
    pub(super) ways: usize,
    /// Work of one call at most: open requests times ways.
    pub(super) work: usize,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    before: u32,
    call: u32,
    /// Id of the request; 0 is none.
    request: u32,
}

#[derive(Clone, Debug, Default)]
struct Way {
    /// ln of its likelihood, less that of the best.
    score: f64,
    /// By place in the list of open requests.
    states: Vec<State>,
    /// Calls that wait for an answer, and for which request they were made.
    calls: Vec<(u32, u32)>,
    /// Who acted last.
    acted: u32,
    /// Index of the last decision, plus one.
    step: u32,
}

/// A call whose maker is not known.
#[derive(Clone, Copy, Debug)]
struct Pending {
    call: u32,
    /// When all that might have made it have answered.
    until_ns: u64,
}

/// What was decided of a call: its request, if any, and how sure that is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Decision {
    pub(super) call: u32,
    pub(super) request: Option<Request>,
    pub(super) confidence: f32,
    /// Nothing was in question.
    pub(super) stands: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Beam {
    open: Vec<Request>,
    ways: Vec<Way>,
    steps: Vec<Step>,
    pending: Vec<Pending>,
    /// Requests that decisions may name.
    named: FxHashMap<u32, Request>,
    /// Calls that proved to be in no question.
    stand: Vec<u32>,
    /// Events so far.
    event: u32,
    /// ln of how likely the best explanation so far was, fading.
    pub(super) likelihood: f64,
    /// How good the best way was where that showed.
    calibration: Calibration,
}

/// ln of how likely requests do this now, each by its own chain. Most ways have a request in one and the same state,
/// which is looked up once.
struct Chains<'a> {
    open: &'a [Request],
    model: &'a Model,
    act: Act,
    at_ns: u64,
    known: Vec<Option<(State, f64)>>,
}

impl<'a> Chains<'a> {
    fn new(beam: &'a Beam, model: &'a Model, act: Act, at_ns: u64) -> Self {
        Chains { open: &beam.open, model, act, at_ns, known: vec![None; beam.open.len()] }
    }

    fn act(&mut self, slot: usize, s: &State) -> f64 {
        match &self.known[slot] {
            Some((known, likely)) if known == s => *likely,
            _ => {
                let place = place(&self.open[slot], s);
                let likely = self.model.act(place, self.act, self.at_ns.saturating_sub(s.last_ns));
                self.known[slot] = Some((*s, likely));
                likely
            }
        }
    }
}

/// A call lies within the request for which it was made.
fn could_make(r: &Request, c: &Call) -> bool {
    r.start_ns <= c.start_ns && r.end_ns >= c.end_ns
}

impl Default for Beam {
    fn default() -> Self {
        Beam {
            open: Vec::new(),
            ways: vec![Way::default()],
            steps: Vec::new(),
            pending: Vec::new(),
            named: FxHashMap::default(),
            stand: Vec::new(),
            event: 0,
            likelihood: 0.0,
            calibration: Calibration::default(),
        }
    }
}

impl Beam {
    /// Follows events. Decisions go to `out`.
    pub(super) fn run(&mut self, events: &[Event], model: &Model, effort: Effort, out: &mut Vec<Decision>) {
        for event in events {
            self.event = self.event.wrapping_add(1);
            match *event {
                Event::Read(r) => self.read(r),
                Event::Replied(c) => {
                    self.replied(&c, Some(model));
                }
                Event::Sent(c) => {
                    self.sent(&c, model, effort);
                    let stands = |call| Decision { call, request: None, confidence: 1.0, stands: true };
                    out.extend(self.stand.drain(..).map(stands));
                }
                Event::Answered(r) => {
                    self.answered(&r, model);
                    self.decide(event.at_ns(), out);
                }
            }
        }
        if let Some(last) = events.last() {
            self.decide(last.at_ns(), out);
        }
        self.clear_away();
    }

    /// What the best way says of every call that is not decided.
    pub(super) fn guesses(&self, out: &mut FxHashMap<u32, u32>) {
        let Some(best) = self.ways.first() else { return };
        let mut at = best.step;
        while let Some(step) = at.checked_sub(1).and_then(|i| self.steps.get(i as usize)) {
            out.insert(step.call, step.request);
            at = step.before;
        }
    }

    /// Teaches a model what these events say if calls were made as `makers` has it; this is the state before them.
    pub(super) fn teach(&self, events: &[Event], makers: &FxHashMap<u32, u32>, model: &mut Model) {
        let mut one = Beam { ways: self.ways[..1].to_vec(), event: self.event, ..Beam::default() };
        one.open.clone_from(&self.open);
        for event in events {
            one.event = one.event.wrapping_add(1);
            match *event {
                Event::Read(r) => {
                    one.read(r);
                    one.visit(one.open.len() - 1, model);
                }
                Event::Replied(c) => {
                    if let Some(slot) = one.replied(&c, None) {
                        one.visit(slot, model);
                    }
                }
                Event::Sent(c) => {
                    let request = match c.maker {
                        Maker::OneOf(_) if makers.contains_key(&c.id) => {
                            one.open.iter().position(|r| r.id == makers[&c.id])
                        }
                        Maker::Known(x) | Maker::Claimed(x) | Maker::OneOf(x) => {
                            model.learn_call(c.class, false, false);
                            one.open.iter().position(|r| r.owns(x))
                        }
                        Maker::Unknown(hint) => {
                            let maker = makers.get(&c.id).copied().unwrap_or(0);
                            let slot = one.open.iter().position(|r| r.id == maker);
                            model.learn_call(c.class, c.somebody, slot.is_none());
                            if let Some(hint) = hint {
                                let right = slot.is_some_and(|s| one.open[s].owns(hint.exchange));
                                model.learn_hint(hint.claimed, right);
                            }
                            slot
                        }
                        Maker::Other => None,
                    };
                    if let Some(slot) = request {
                        one.learn(slot, Act::Call(c.class), c.tid, c.start_ns, model);
                        one.sends(0, slot, &c);
                        one.visit(slot, model);
                    }
                }
                Event::Answered(r) => {
                    if let Some(slot) = one.open.iter().position(|o| o.id == r.id) {
                        one.learn(slot, Act::Answer, r.tid, r.end_ns, model);
                        one.close(slot);
                    }
                }
            }
        }
    }

    fn learn(&self, slot: usize, act: Act, tid: u32, at_ns: u64, model: &mut Model) {
        let way = &self.ways[0];
        let outlook = model.outlook(act);
        let queue = self.queue(way, tid, &outlook);
        let mut possible = [false; TURNS];
        for (r, s) in self.open.iter().zip(&way.states) {
            possible[queue.turn(r, s) as usize] = true;
        }
        let (r, s) = (&self.open[slot], &way.states[slot]);
        let turn = queue.turn(r, s);
        model.learn_turn(turn, act, possible);
        model.learn_act(place(r, s), act, at_ns.saturating_sub(s.last_ns));
    }

    fn queue<'a>(&self, way: &Way, tid: u32, outlook: &'a Outlook) -> Queue<'a> {
        Queue::of(&way.states, way.acted, tid, &self.open, outlook)
    }

    fn visit(&self, slot: usize, model: &mut Model) {
        model.visit(place(&self.open[slot], &self.ways[0].states[slot]));
    }

    fn read(&mut self, r: Request) {
        self.open.push(r);
        let state = State::read(&r, self.event);
        self.ways.iter_mut().for_each(|w| w.states.push(state));
    }

    /// The slot of the request for which it was, in the last way.
    fn replied(&mut self, c: &Call, model: Option<&Model>) -> Option<usize> {
        let mut found = None;
        for way in &mut self.ways {
            let Some(at) = way.calls.iter().position(|(call, _)| *call == c.id) else { continue };
            let (_, request) = way.calls.swap_remove(at);
            found = self.open.iter().position(|r| r.id == request);
            let Some(slot) = found else { continue };
            let s = &mut way.states[slot];
            way.score += model.map_or(0.0, |m| m.rests(place(&self.open[slot], s)));
            (s.last, s.last_ns, s.last_event) = (Last::Replied(c.class), c.end_ns, self.event);
            s.waits = s.waits.saturating_sub(1);
        }
        if model.is_some() {
            self.settle();
        }
        found
    }

    /// ln of how likely each way has it that this request acts now: by its own chain, and by whose turn it is.
    fn scores(&self, slot: usize, act: Act, tid: u32, at_ns: u64, model: &Model) -> Vec<f64> {
        let outlook = model.outlook(act);
        let mut chains = Chains::new(self, model, act, at_ns);
        let mut of = |way: &Way| {
            let turn = self.queue(way, tid, &outlook).share(&self.open[slot], &way.states[slot]);
            chains.act(slot, &way.states[slot]) + turn.max(1e-9).ln()
        };
        self.ways.iter().map(&mut of).collect()
    }

    fn sent(&mut self, c: &Call, model: &Model, effort: Effort) {
        match c.maker {
            Maker::Other => {}
            Maker::Known(x) | Maker::Claimed(x) => self.known(x, c, model),
            Maker::OneOf(x) if self.open.iter().filter(|r| r.owns(x)).count() > 1 => {
                self.split(c, None, &|r| r.owns(x), model, effort);
            }
            Maker::OneOf(x) => {
                self.known(x, c, model);
                self.stand.push(c.id);
            }
            Maker::Unknown(hint) => self.split(c, hint, &|_| true, model, effort),
        }
    }

    fn known(&mut self, exchange: u64, c: &Call, model: &Model) {
        let Some(slot) = self.open.iter().position(|r| r.owns(exchange)) else { return };
        self.test(slot, c, model);
        let scores = self.scores(slot, Act::Call(c.class), c.tid, c.start_ns, model);
        for (way, more) in scores.into_iter().enumerate() {
            self.ways[way].score += more;
            self.sends(way, slot, c);
        }
        self.settle();
    }

    /// Whether the best way would have named this maker, if others might have made the call.
    fn test(&mut self, slot: usize, c: &Call, model: &Model) {
        let Some(way) = self.ways.first() else { return };
        let act = Act::Call(c.class);
        let outlook = model.outlook(act);
        let queue = self.queue(way, c.tid, &outlook);
        let mut chains = Chains::new(self, model, act, c.start_ns);
        let mut likely = |slot: usize| {
            let (r, s) = (&self.open[slot], &way.states[slot]);
            chains.act(slot, s) + queue.share(r, s).max(1e-9).ln()
        };
        let others = (0..self.open.len()).filter(|s| *s != slot && could_make(&self.open[*s], c));
        let Some(best) = others.map(&mut likely).max_by(f64::total_cmp) else { return };
        let passed = likely(slot) > best;
        self.calibration.test(passed);
    }

    fn split(&mut self, c: &Call, hint: Option<Hint>, may: &dyn Fn(&Request) -> bool, model: &Model, effort: Effort) {
        let fits = |r: &&Request| could_make(r, c) && may(r);
        let of = self.open.iter().filter(fits).count() + 1;
        let named = |slot: Option<usize>| {
            hint.map_or(0.0, |h| model.hint(h.claimed, slot.is_some_and(|s| self.open[s].owns(h.exchange)), of))
        };
        let until_ns = self.open.iter().filter(fits).map(|r| r.end_ns).max().unwrap_or(c.start_ns);
        let alone = model.alone(c.class, c.somebody);
        let width = effort.ways.min(effort.work / self.open.len().max(1)).max(LEAST_WAYS);
        let slots: Vec<(usize, f64)> =
            (0..self.open.len()).filter(|s| fits(&&self.open[*s])).map(|s| (s, named(Some(s)))).collect();
        let nobody = alone + named(None);
        let outlook = model.outlook(Act::Call(c.class));
        let mut chains = Chains::new(self, model, outlook.act, c.start_ns);
        let mut next: Vec<(f64, usize, Option<usize>)> = Vec::with_capacity(self.ways.len() * of);
        for (w, way) in self.ways.iter().enumerate() {
            next.push((way.score + nobody, w, None));
            let queue = self.queue(way, c.tid, &outlook);
            let turns = queue.ln_shares();
            for &(slot, hinted) in &slots {
                let s = &way.states[slot];
                let turn = turns[queue.turn(&self.open[slot], s) as usize];
                next.push((way.score + chains.act(slot, s) + turn + hinted, w, Some(slot)));
            }
        }
        let likelier = |a: &(f64, usize, Option<usize>), b: &(f64, usize, Option<usize>)| {
            b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2)))
        };
        if next.len() > width {
            next.select_nth_unstable_by(width, likelier);
            next.truncate(width);
        }
        next.sort_unstable_by(likelier);
        let best = next.first().map_or(0.0, |n| n.0);
        next.retain(|n| n.0 >= best - HOPELESS);
        self.likelihood += best;
        let before = std::mem::take(&mut self.ways);
        for (score, w, slot) in next {
            let mut way = before[w].clone();
            way.score = score - best;
            let request = slot.map_or(0, |s| self.open[s].id);
            self.steps.push(Step { before: way.step, call: c.id, request });
            way.step = self.steps.len() as u32;
            self.ways.push(way);
            if let Some(slot) = slot {
                self.named.insert(request, self.open[slot]);
                self.sends(self.ways.len() - 1, slot, c);
            }
        }
        self.pending.push(Pending { call: c.id, until_ns });
    }

    /// As a way has it, a request makes a call.
    fn sends(&mut self, way: usize, slot: usize, c: &Call) {
        let (r, way) = (&self.open[slot], &mut self.ways[way]);
        let s = &mut way.states[slot];
        s.done = s.done.and(c.class);
        s.made.add(c.class);
        (s.last, s.last_ns, s.last_event, s.waits) = (Last::Sent(c.class), c.start_ns, self.event, s.waits + 1);
        way.calls.push((c.id, r.id));
        way.acted = r.id;
    }

    fn answered(&mut self, r: &Request, model: &Model) {
        let Some(slot) = self.open.iter().position(|o| o.id == r.id) else { return };
        if let Some(best) = self.ways.first() {
            let outlook = model.outlook(Act::Answer);
            let turn = self.queue(best, r.tid, &outlook).share(&self.open[slot], &best.states[slot]);
            self.calibration.answered(turn);
        }
        if model.belief.by_thread {
            // That it is a request of this thread says who answers: without this, such a belief would always seem the
            // likelier.
            let of_thread = self.open.iter().filter(|o| o.tid == r.tid).count();
            self.likelihood += (of_thread as f64 / self.open.len() as f64).ln();
        }
        let scores = self.scores(slot, Act::Answer, r.tid, r.end_ns, model);
        self.ways.iter_mut().zip(scores).for_each(|(way, more)| way.score += more);
        self.close(slot);
        self.settle();
    }

    fn close(&mut self, slot: usize) {
        let r = self.open.swap_remove(slot);
        for way in &mut self.ways {
            way.states.swap_remove(slot);
            way.acted = r.id;
        }
    }

    /// Orders the ways, best first, and drops the hopeless.
    fn settle(&mut self) {
        self.ways.sort_by(|a, b| b.score.total_cmp(&a.score));
        let best = self.ways.first().map_or(0.0, |w| w.score);
        self.likelihood += best;
        self.ways.retain_mut(|w| {
            w.score -= best;
            w.score >= -HOPELESS
        });
    }

    /// Decides the calls all of whose possible makers have answered, and keeps the ways that agree.
    fn decide(&mut self, now_ns: u64, out: &mut Vec<Decision>) {
        let mut at = 0;
        while at < self.pending.len() {
            if self.pending[at].until_ns > now_ns && self.pending.len() <= MAX_PENDING {
                at += 1;
                continue;
            }
            let call = self.pending.remove(at).call;
            let said = self.said(call);
            let mut shares: FxHashMap<u32, f64> = FxHashMap::default();
            let mut all = 0.0;
            for (way, request) in self.ways.iter().zip(&said) {
                let weight = (TEMPER * way.score).exp();
                *shares.entry(*request).or_default() += weight;
                all += weight;
            }
            let best = shares.iter().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0)));
            let Some((&request, &share)) = best else { continue };
            let mut keep = said.iter().map(|s| *s == request);
            self.ways.retain(|_| keep.next().unwrap_or(false));
            self.settle();
            let request = self.named.get(&request).copied();
            let confidence = self.calibration.confidence(share / all) as f32;
            out.push(Decision { call, request, confidence, stands: false });
        }
    }

    /// What each way says of a call. All take a step at each call, and most have taken the same ones before.
    fn said(&self, call: u32) -> Vec<u32> {
        let mut trails: Vec<u32> = Vec::with_capacity(self.ways.len());
        let join = |trails: &mut Vec<u32>, at: u32| match trails.iter().position(|t| *t == at) {
            Some(known) => known,
            None => {
                trails.push(at);
                trails.len() - 1
            }
        };
        let mut trail_of: Vec<usize> = self.ways.iter().map(|w| join(&mut trails, w.step)).collect();
        loop {
            let steps: Option<Vec<&Step>> =
                trails.iter().map(|at| self.steps.get(at.checked_sub(1)? as usize)).collect();
            let Some(steps) = steps else { return vec![0; trail_of.len()] };
            if steps.iter().any(|s| s.call == call) {
                let request = |trail: usize| Some(steps[trail]).filter(|s| s.call == call).map_or(0, |s| s.request);
                return trail_of.into_iter().map(request).collect();
            }
            let mut before = Vec::with_capacity(steps.len());
            let joined: Vec<usize> = steps.iter().map(|s| join(&mut before, s.before)).collect();
            if before.len() < trails.len() {
                trail_of.iter_mut().for_each(|trail| *trail = joined[*trail]);
            }
            trails = before;
        }
    }

    /// Forgets steps that lead to no open decision.
    fn clear_away(&mut self) {
        if self.pending.is_empty() {
            self.steps.clear();
            self.named.clear();
            self.ways.truncate(1);
            self.ways.iter_mut().for_each(|w| (w.step, w.score) = (0, 0.0));
        } else if self.steps.len() > MAX_STEPS {
            let wanted: rustc_hash::FxHashSet<u32> = self.pending.iter().map(|p| p.call).collect();
            let mut kept: Vec<Step> = Vec::new();
            let mut moved: FxHashMap<u32, u32> = FxHashMap::from_iter([(0, 0)]);
            for way in &mut self.ways {
                let mut path = Vec::new();
                let mut at = way.step;
                while !moved.contains_key(&at) {
                    path.push(at);
                    at = self.steps[at as usize - 1].before;
                }
                let mut to = moved[&at];
                for from in path.into_iter().rev() {
                    let step = self.steps[from as usize - 1];
                    if wanted.contains(&step.call) {
                        kept.push(Step { before: to, ..step });
                        to = kept.len() as u32;
                    }
                    moved.insert(from, to);
                }
                way.step = to;
            }
            let named: rustc_hash::FxHashSet<u32> = kept.iter().map(|s| s.request).collect();
            self.named.retain(|id, _| named.contains(id));
            self.steps = kept;
        }
    }
}
