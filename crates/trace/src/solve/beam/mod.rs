//! Several hypotheses about the calls of a process, followed together through its events.
//!
//! A hypothesis assigns each call to a request, and so knows where each open request stands. At a call whose request
//! (its maker) is unknown, each hypothesis splits. An answer names its request: it lowers the score of each hypothesis
//! in which it was not this request's turn, or in which the request had calls left to make. The likeliest are kept.

mod chains;
mod connections;
mod decide;
mod doubt;
mod ends;
mod makers;
mod teach;
mod trails;

use super::calibration::Calibration;
use super::chain::{Act, Last};
use super::model::{Model, Outlook};
use super::timeline::{Call, Class, Event, Hint, Maker, Request};
use super::turns::{place, Acted, Actor, Queue, State};
use chains::Chains;
use connections::Connection;
pub(super) use decide::{Decision, OTHERS};
use doubt::{Doubt, Next};
use makers::{encloses, may_make};
use rustc_hash::FxHashMap;

/// ln of how much less likely than the best a hypothesis may be.
const LARGEST_GAP: f64 = 18.0;
/// Most calls that wait for their decision.
const MAX_PENDING: usize = 1024;
/// Most steps before those that lead to no open decision are cleared away.
const MAX_STEPS: usize = 16_384;
/// ln of how likely a call was made for no request although the kernel names those that may have made it.
const NEVER: f64 = -1_000.0;
/// Fewest hypotheses that are followed, whatever the work.
const LEAST_HYPOTHESES: usize = 4;

/// How thoroughly events are followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Most hypotheses.
    pub(super) hypotheses: usize,
    /// Most work for one call: open requests times hypotheses.
    pub(super) work: usize,
}

/// One assignment of a call to a request, and the step before it.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// Index of the step before, plus one; 0 if there is none.
    before: u32,
    call: u32,
    /// Id of the request; 0 if the call belongs to none.
    request: u32,
}

/// One explanation of all calls so far.
#[derive(Clone, Debug, Default)]
struct Hypothesis {
    /// ln of its likelihood, minus that of the best hypothesis.
    score: f64,
    /// State of each open request, in the order of `Beam::open`.
    states: Vec<State>,
    /// Calls that wait for an answer, each with its request.
    calls: Vec<(u32, u32)>,
    acted: Acted,
    /// By called server: the trigger of the last request that called it. Only where calls of a server have a queue.
    served: Vec<u32>,
    /// Index of the last step, plus one.
    step: u32,
}

/// A call whose request is not decided.
#[derive(Clone, Copy, Debug)]
struct Pending {
    call: u32,
    /// When every request that might have made the call has answered.
    until_ns: u64,
    /// How many requests can have made it.
    candidates: usize,
    class: Class,
    doubt: Doubt,
}

#[derive(Clone, Debug)]
pub(super) struct Beam {
    open: Vec<Request>,
    hypotheses: Vec<Hypothesis>,
    steps: Vec<Step>,
    pending: Vec<Pending>,
    /// Requests that decisions may name.
    named: FxHashMap<u32, Request>,
    /// Calls for which only one request was possible, with that one if it is known.
    confirmed: Vec<(u32, Option<Request>)>,
    /// Number of events so far, and the time of the last one, ns.
    event: u32,
    at_ns: u64,
    connections: FxHashMap<u64, Connection>,
    /// By class of call: the called server.
    peers: Vec<u16>,
    /// Of each thread: its activation, and whether it has sent something in it.
    activations: FxHashMap<u32, (u32, bool)>,
    /// ln of the likelihood of the best hypothesis so far.
    pub(super) likelihood: f64,
    /// How often the best hypothesis was right where that could be tested.
    calibration: Calibration,
}

impl Default for Beam {
    fn default() -> Self {
        Beam {
            open: Vec::new(),
            hypotheses: vec![Hypothesis::default()],
            steps: Vec::new(),
            pending: Vec::new(),
            named: FxHashMap::default(),
            confirmed: Vec::new(),
            event: 0,
            at_ns: 0,
            connections: FxHashMap::default(),
            peers: Vec::new(),
            activations: FxHashMap::default(),
            likelihood: 0.0,
            calibration: Calibration::default(),
        }
    }
}

impl Beam {
    /// The requests that are open, and nothing of what was believed about them.
    pub(super) fn without_knowledge(&self) -> Beam {
        let mut beam = Beam::default();
        self.open.iter().for_each(|r| beam.read(*r));
        beam
    }

    pub(super) fn open(&self) -> &[Request] {
        &self.open
    }

    /// The calls that are not decided, without a request.
    pub(super) fn give_up(&self) -> Vec<Decision> {
        self.pending.iter().map(|p| Decision::of(p.call)).collect()
    }

    /// Whether the hypotheses explain next to nothing of what the process does.
    pub(super) fn is_lost(&self) -> bool {
        self.calibration.is_lost()
    }

    /// Follows events. Decisions go to `out`.
    pub(super) fn run(&mut self, events: &[Event], model: &Model, effort: Effort, out: &mut Vec<Decision>) {
        for event in events {
            self.event = self.event.wrapping_add(1);
            let at_ns = event.at_ns();
            if self.at_ns > 0 {
                self.calibration.passed(at_ns.saturating_sub(self.at_ns), self.open.is_empty());
            }
            self.at_ns = self.at_ns.max(at_ns);
            match *event {
                Event::Read(r) => self.read(r),
                Event::Replied(c) => {
                    self.replied(&c, Some(model));
                }
                Event::Sent(c) => {
                    self.sent(&c, model, effort);
                    self.writes(c.tid);
                    self.passes(&c);
                    let confirmed =
                        |(call, request)| Decision { request, confidence: 1.0, confirmed: true, ..Decision::of(call) };
                    out.extend(self.confirmed.drain(..).map(confirmed));
                }
                Event::Answered(r) => {
                    self.answered(&r, model);
                    self.decide(event.at_ns(), out);
                }
                Event::Ended(r) => {
                    self.ended(&r, Some(model));
                    self.decide(event.at_ns(), out);
                }
            }
        }
        if let Some(last) = events.last() {
            self.decide(last.at_ns(), out);
        }
        self.clear_away();
    }

    /// Whose turn it is in a hypothesis when this thread acts.
    fn queue<'a>(&self, of: &Hypothesis, tid: u32, outlook: &'a Outlook, chains: &mut Chains<'_>) -> Queue<'a> {
        let actor = Actor { tid, activation: self.activations.get(&tid).map_or(0, |(number, _)| *number) };
        let served = match outlook.act {
            Act::Call(class) => of.served.get(self.peer(class)).copied().unwrap_or(0),
            _ => 0,
        };
        Queue::of(&of.states, of.acted, actor, served, &self.open, outlook, |slot, s| chains.look(slot, s).ready)
    }

    fn read(&mut self, r: Request) {
        self.open.push(r);
        let activation = self.reads(r.tid);
        let state = State::read(&r, self.event, activation);
        self.hypotheses.iter_mut().for_each(|w| w.states.push(state));
    }

    /// The answer to a call has come. Returns the slot of the call's request, as the last hypothesis has it.
    fn replied(&mut self, c: &Call, model: Option<&Model>) -> Option<usize> {
        let mut found = None;
        let activation = self.reads(c.tid);
        for hypothesis in &mut self.hypotheses {
            let Some(at) = hypothesis.calls.iter().position(|(call, _)| *call == c.id) else { continue };
            let (_, request) = hypothesis.calls.swap_remove(at);
            found = self.open.iter().position(|r| r.id == request);
            let Some(slot) = found else { continue };
            let s = &mut hypothesis.states[slot];
            hypothesis.score += model.map_or(0.0, |m| m.rests(place(&self.open[slot], s)));
            (s.last, s.last_ns, s.trigger) = (Last::Replied(c.class), c.end_ns, self.event);
            s.replied.add(c.class);
            s.activation = activation;
            s.waits = s.waits.saturating_sub(1);
        }
        if model.is_some() {
            self.settle();
        }
        found
    }

    /// For each hypothesis, ln of how likely this request acts now: by its own chain of events, and by whose turn it
    /// is.
    fn scores(&self, slot: usize, act: Act, tid: u32, at_ns: u64, model: &Model) -> Vec<f64> {
        let outlook = model.outlook(act);
        let mut chains = Chains::new(self, model, act, at_ns);
        let mut score = |hypothesis: &Hypothesis| {
            let turn = self.queue(hypothesis, tid, &outlook, &mut chains).share(slot);
            chains.look(slot, &hypothesis.states[slot]).likely + turn.max(1e-9).ln()
        };
        self.hypotheses.iter().map(&mut score).collect()
    }

    fn sent(&mut self, c: &Call, model: &Model, effort: Effort) {
        self.calls(c);
        match c.maker {
            Maker::Other => {}
            Maker::Known(x) | Maker::Claimed(x) => self.known(x, c, model),
            Maker::OneOf(x) if self.open.iter().filter(|r| r.owns(x)).count() > 1 => {
                self.split(c, None, &|r| r.owns(x), model, effort);
            }
            Maker::OneOf(x) => {
                self.confirmed.push((c.id, self.open.iter().find(|r| r.owns(x)).copied()));
                self.known(x, c, model);
            }
            Maker::Unknown(hint) => match self.guessed(c, hint) {
                Some(slot) => {
                    self.known(self.open[slot].exchange.first, c, model);
                    self.confirmed.push((c.id, None));
                }
                None => self.split(c, hint, &|_| true, model, effort),
            },
        }
    }

    fn known(&mut self, exchange: u64, c: &Call, model: &Model) {
        let found = self.open.iter().position(|r| r.owns(exchange));
        // A claim that names an answered request may be wrong. Believed or not, it does not show that such calls are
        // late.
        if !matches!(c.maker, Maker::Claimed(_)) {
            self.calibration.came(c.class, found.is_none());
        }
        let Some(slot) = found else { return };
        self.test(slot, c, model);
        let scores = self.scores(slot, Act::Call(c.class), c.tid, c.start_ns, model);
        for (hypothesis, more) in scores.into_iter().enumerate() {
            self.hypotheses[hypothesis].score += more;
            self.sends(hypothesis, slot, c, model.has_queues());
        }
        self.settle();
    }

    /// Tests the best hypothesis at a call whose request is known: would it have named this one, if others were
    /// possible?
    fn test(&mut self, slot: usize, c: &Call, model: &Model) {
        let Some(hypothesis) = self.hypotheses.first() else { return };
        let act = Act::Call(c.class);
        let outlook = model.outlook(act);
        let mut chains = Chains::new(self, model, act, c.start_ns);
        let queue = self.queue(hypothesis, c.tid, &outlook, &mut chains);
        let mut likely =
            |slot: usize| chains.look(slot, &hypothesis.states[slot]).likely + queue.share(slot).max(1e-9).ln();
        let others = (0..self.open.len()).filter(|s| *s != slot && encloses(&self.open[*s], c));
        let Some(best) = others.map(&mut likely).max_by(f64::total_cmp) else { return };
        let passed = likely(slot) > best;
        self.calibration.test(passed);
    }

    fn split(&mut self, c: &Call, hint: Option<Hint>, may: &dyn Fn(&Request) -> bool, model: &Model, effort: Effort) {
        let fits: Vec<bool> = self.open.iter().map(|r| may_make(r, c) && may(r)).collect();
        let of = fits.iter().filter(|fits| **fits).count() + 1;
        self.calibration.met(c.class, of == 1);
        let named = |slot: Option<usize>| {
            hint.map_or(0.0, |h| model.hint(h.opinion, slot.is_some_and(|s| self.open[s].owns(h.exchange)), of))
        };
        let may_make = self.open.iter().zip(&fits).filter(|(_, fits)| **fits);
        let until_ns = may_make.map(|(r, _)| r.until_ns).max().unwrap_or(c.start_ns);
        let alone = model.alone(c.class, c.for_request);
        let width = effort.hypotheses.min(effort.work / self.open.len().max(1)).max(LEAST_HYPOTHESES);
        let answers = self.open.iter().filter(|r| r.answerer == c.actor).count();
        let chance = answers as f64 / self.open.len().max(1) as f64;
        let own = |slot: usize| {
            let r = &self.open[slot];
            model.own(r.class, c.class, r.answerer == c.actor, chance) + model.outlives.likely(r, c)
        };
        let slots: Vec<(usize, f64)> =
            (0..self.open.len()).filter(|s| fits[*s]).map(|s| (s, named(Some(s)) + own(s))).collect();
        let is_for_one = matches!(c.maker, Maker::OneOf(_)) && !slots.is_empty();
        let nobody = if is_for_one { NEVER } else { alone + named(None) };
        let outlook = model.outlook(Act::Call(c.class));
        let mut chains = Chains::new(self, model, outlook.act, c.start_ns);
        let mut next: Vec<Next> = Vec::with_capacity(self.hypotheses.len() * of);
        let [same, other] = model.together(self.company(c), self.open.len());
        let [kept, left] = model.keeps(slots.len());
        for (w, hypothesis) in self.hypotheses.iter().enumerate() {
            let queue = self.queue(hypothesis, c.tid, &outlook, &mut chains);
            let holder = self.holder(hypothesis, c);
            // Where the kernel names a request, that the connection goes to another one than before speaks for nobody
            // as little as for that one.
            let moved = if hint.is_some() && holder.is_some() { other } else { 0.0 };
            next.push((hypothesis.score + nobody + moved, w, None));
            let keeper = self.keeper(hypothesis, c).filter(|keeper| slots.iter().any(|(slot, _)| slot == keeper));
            for &(slot, told) in &slots {
                let likely = chains.look(slot, &hypothesis.states[slot]).likely;
                let turn = queue.share(slot).max(1e-9).ln();
                let together = holder.map_or(0.0, |holder| if holder == slot { same } else { other });
                let thread = keeper.map_or(0.0, |keeper| if keeper == slot { kept } else { left });
                next.push((hypothesis.score + likely + turn + told + together + thread, w, Some(slot)));
            }
        }
        let likelier = |a: &Next, b: &Next| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2)));
        let mut dropped = Vec::new();
        if next.len() > width {
            next.select_nth_unstable_by(width, likelier);
            dropped = next.split_off(width);
        }
        next.sort_unstable_by(likelier);
        let best = next.first().map_or(0.0, |n| n.0);
        next.retain(|n| n.0 >= best - LARGEST_GAP);
        self.likelihood += best;
        let before = std::mem::take(&mut self.hypotheses);
        let doubt = self.doubts_of_split(&before, &next, &dropped);
        for (score, w, slot) in next {
            let mut hypothesis = before[w].clone();
            hypothesis.score = score - best;
            let request = slot.map_or(0, |s| self.open[s].id);
            self.steps.push(Step { before: hypothesis.step, call: c.id, request });
            hypothesis.step = self.steps.len() as u32;
            self.hypotheses.push(hypothesis);
            if let Some(slot) = slot {
                self.named.insert(request, self.open[slot]);
                self.sends(self.hypotheses.len() - 1, slot, c, model.has_queues());
            }
        }
        self.pending.push(Pending { call: c.id, until_ns, candidates: of - 1, class: c.class, doubt });
    }

    /// In one hypothesis, a request makes a call.
    fn sends(&mut self, hypothesis: usize, slot: usize, c: &Call, has_queues: bool) {
        let (r, hypothesis) = (&self.open[slot], &mut self.hypotheses[hypothesis]);
        let s = &mut hypothesis.states[slot];
        s.done = s.done.and(c.class);
        s.made.add(c.class);
        // Statements of a transaction wait for no connection.
        let holds = s.used(c.socket).is_some();
        s.uses(c.socket, self.event);
        if matches!(c.maker, Maker::OneOf(_)) {
            s.thread = (c.tid, self.event);
        }
        (s.last, s.last_ns, s.waits) = (Last::Sent(c.class), c.start_ns, s.waits + 1);
        hypothesis.calls.push((c.id, r.id));
        if has_queues && !holds {
            let peer = usize::from(c.peer);
            hypothesis.served.resize(hypothesis.served.len().max(peer + 1), 0);
            hypothesis.served[peer] = hypothesis.served[peer].max(s.trigger);
        }
        hypothesis.acted = Acted { request: r.id, trigger: s.trigger, activation: s.activation };
    }

    /// Orders the hypotheses, best first, and drops the hopeless ones.
    fn settle(&mut self) {
        self.hypotheses.sort_by(|a, b| b.score.total_cmp(&a.score));
        let best = self.hypotheses.first().map_or(0.0, |w| w.score);
        self.likelihood += best;
        self.hypotheses.retain_mut(|w| {
            w.score -= best;
            w.score >= -LARGEST_GAP
        });
    }
}
