//! Several ways to explain the calls of a process, followed together through its events.
//!
//! A way says of each call for which request it was made, and so where each open request stands. At a call whose maker is
//! not known each way splits; at an answer, whose request is known, ways in which it was not this request's turn, or in
//! which it had not done yet what such requests do, lose. The likeliest are kept.

use super::calibration::Calibration;
use super::model::{Act, Last, Model};
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
/// Work of one call: open requests times ways.
const MAX_WORK: usize = 8192;

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
    /// Follows events; `width` ways at most. Decisions go to `out`.
    pub(super) fn run(&mut self, events: &[Event], model: &Model, width: usize, out: &mut Vec<Decision>) {
        for event in events {
            self.event = self.event.wrapping_add(1);
            match *event {
                Event::Read(r) => self.read(r),
                Event::Replied(c) => {
                    self.replied(&c, Some(model));
                }
                Event::Sent(c) => {
                    self.sent(&c, model, width);
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
                        one.learn(slot, Act::Call(c.class), c.start_ns, model);
                        one.sends(0, slot, &c);
                        one.visit(slot, model);
                    }
                }
                Event::Answered(r) => {
                    if let Some(slot) = one.open.iter().position(|o| o.id == r.id) {
                        one.learn(slot, Act::Answer, r.end_ns, model);
                        one.close(slot);
                    }
                }
            }
        }
    }

    fn learn(&self, slot: usize, act: Act, at_ns: u64, model: &mut Model) {
        let way = &self.ways[0];
        let queue = self.queue(way, act, model);
        let mut possible = [false; 5];
        for (r, s) in self.open.iter().zip(&way.states) {
            possible[queue.turn(r, s) as usize] = true;
        }
        let (r, s) = (&self.open[slot], &way.states[slot]);
        let turn = queue.turn(r, s);
        model.learn_turn(turn, act, possible);
        model.learn_act(place(r, s), act, at_ns.saturating_sub(s.last_ns));
    }

    fn queue<'a>(&self, way: &Way, act: Act, model: &'a Model) -> Queue<'a> {
        Queue::of(&way.states, way.acted, &self.open, act, model)
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

    /// ln of how likely this request acts now: by its own chain, and by whose turn it is.
    fn likely(&self, way: &Way, slot: usize, act: Act, at_ns: u64, model: &Model, queue: &Queue<'_>) -> f64 {
        let (r, s) = (&self.open[slot], &way.states[slot]);
        let turn = queue.share(r, s);
        model.act(place(r, s), act, at_ns.saturating_sub(s.last_ns)) + turn.max(1e-9).ln()
    }

    /// The same of every way, of one request.
    fn scores(&self, slot: usize, act: Act, at_ns: u64, model: &Model) -> Vec<f64> {
        let of = |way: &Way| self.likely(way, slot, act, at_ns, model, &self.queue(way, act, model));
        self.ways.iter().map(of).collect()
    }

    fn sent(&mut self, c: &Call, model: &Model, width: usize) {
        match c.maker {
            Maker::Other => {}
            Maker::Known(x) | Maker::Claimed(x) => self.known(x, c, model),
            Maker::OneOf(x) if self.open.iter().filter(|r| r.owns(x)).count() > 1 => {
                self.split(c, None, &|r| r.owns(x), model, width);
            }
            Maker::OneOf(x) => {
                self.known(x, c, model);
                self.stand.push(c.id);
            }
            Maker::Unknown(hint) => self.split(c, hint, &|_| true, model, width),
        }
    }

    fn known(&mut self, exchange: u64, c: &Call, model: &Model) {
        let Some(slot) = self.open.iter().position(|r| r.owns(exchange)) else { return };
        self.test(slot, c, model);
        let scores = self.scores(slot, Act::Call(c.class), c.start_ns, model);
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
        let queue = self.queue(way, act, model);
        let likely = |slot: usize| self.likely(way, slot, act, c.start_ns, model, &queue);
        let others = (0..self.open.len()).filter(|s| *s != slot && could_make(&self.open[*s], c));
        let Some(best) = others.map(likely).max_by(f64::total_cmp) else { return };
        let passed = likely(slot) > best;
        self.calibration.test(passed);
    }

    fn split(&mut self, c: &Call, hint: Option<Hint>, may: &dyn Fn(&Request) -> bool, model: &Model, width: usize) {
        let fits = |r: &&Request| could_make(r, c) && may(r);
        let of = self.open.iter().filter(fits).count() + 1;
        let named = |slot: Option<usize>| {
            hint.map_or(0.0, |h| model.hint(h.claimed, slot.is_some_and(|s| self.open[s].owns(h.exchange)), of))
        };
        let until_ns = self.open.iter().filter(fits).map(|r| r.end_ns).max().unwrap_or(c.start_ns);
        let alone = model.alone(c.class, c.somebody);
        let width = width.min(MAX_WORK / self.open.len().max(1)).max(4);
        let mut next: Vec<(f64, usize, Option<usize>)> = Vec::new();
        for (w, way) in self.ways.iter().enumerate() {
            next.push((way.score + alone + named(None), w, None));
            let queue = self.queue(way, Act::Call(c.class), model);
            for (slot, _) in self.open.iter().enumerate().filter(|(_, r)| fits(r)) {
                let more = self.likely(way, slot, Act::Call(c.class), c.start_ns, model, &queue);
                next.push((way.score + more + named(Some(slot)), w, Some(slot)));
            }
        }
        next.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        next.truncate(width);
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
            let turn = self.queue(best, Act::Answer, model).share(&self.open[slot], &best.states[slot]);
            self.calibration.answered(turn);
        }
        let scores = self.scores(slot, Act::Answer, r.end_ns, model);
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
            let said: Vec<u32> = self.ways.iter().map(|w| self.said(w, call)).collect();
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

    /// What a way says of a call.
    fn said(&self, way: &Way, call: u32) -> u32 {
        let mut at = way.step;
        while let Some(step) = at.checked_sub(1).and_then(|i| self.steps.get(i as usize)) {
            if step.call == call {
                return step.request;
            }
            at = step.before;
        }
        0
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
            for way in &mut self.ways {
                let mut path = Vec::new();
                let mut at = way.step;
                while let Some(step) = at.checked_sub(1).and_then(|i| self.steps.get(i as usize)) {
                    path.extend(wanted.contains(&step.call).then_some(*step));
                    at = step.before;
                }
                way.step = 0;
                for step in path.into_iter().rev() {
                    kept.push(Step { before: way.step, ..step });
                    way.step = kept.len() as u32;
                }
            }
            let named: rustc_hash::FxHashSet<u32> = kept.iter().map(|s| s.request).collect();
            self.named.retain(|id, _| named.contains(id));
            self.steps = kept;
        }
    }
}
