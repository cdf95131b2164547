//! Deciding the calls of a slice of events, and learning the process from it. That takes a process with many users
//! seconds, while the thread that does it has spans to pass on: so it goes in steps of some ten milliseconds.

use super::super::beam::{Decision, Effort};
use super::super::candidate::{candidates, recent, Shown, ROUNDS};
use super::super::threads::Threads;
use super::super::timed::Timed;
use super::super::timeline::Event;
use super::super::trial::Trial;
use super::Process;

/// Acts from which on a model is trained. Until then it goes over the same events several times.
const TRAINED_ACTS: f64 = 1_500.0;
/// Events after which a process is known well enough, whatever it does.
const MOST_HISTORY: usize = 12_800;
/// In training, this part of the hypotheses is followed.
const TRAINING_SHARE: usize = 4;
/// Most work for one call, and the same in training.
const WORK: usize = 4_096;
const TRAINING_WORK: usize = 1_024;
/// Events from which on the likelihoods of beliefs can be compared: the two best go on.
const COMPARABLE_EVENTS: usize = 600;
/// All beliefs are compared by so many events at most, and training goes over so many.
const COMPARED_EVENTS: usize = 2_000;
const TRAINING_EVENTS: usize = 6_400;
/// Beliefs that are compared by all events: so many of the likeliest that are led, and so many of the others.
const MOST_LED_AND_OTHER: [usize; 2] = [2, 2];
/// Events from the end of a training on after which a lost explanation is sought anew for the first time; each time
/// that it is lost again, twice as many as before.
pub(super) const FIRST_RETRAINING: usize = 4_000;

/// Events whose calls are being decided.
pub(super) struct Held {
    events: Vec<Event>,
    effort: Effort,
    /// What is left to learn first.
    lessons: Vec<Lesson>,
    /// The events were not in a training.
    is_new: bool,
    /// Calls of an explanation that was given up.
    given_up: Vec<Decision>,
    /// How many candidates have run, and what the likeliest of them says.
    run: usize,
    best: Option<(f64, Vec<Decision>)>,
}

impl Held {
    pub(super) fn first_ns(&self) -> Option<u64> {
        self.events.first().map(Event::at_ns)
    }
}

/// Training of all candidates with the last events.
struct Lesson {
    most: usize,
    /// The beliefs that explain these events worst are dropped.
    compares: bool,
    effort: Effort,
    /// The events and what they show without any hypothesis, once that is known.
    begun: Option<(Vec<Event>, Shown)>,
    /// Rounds of training that were done, of all candidates.
    done: usize,
}

impl Process {
    pub(super) fn is_training(&self) -> bool {
        self.candidates.len() > 1 || self.candidates.iter().any(|c| c.model.learnt < TRAINED_ACTS)
    }

    /// Takes events whose calls shall be decided.
    pub(super) fn hold(&mut self, events: Vec<Event>, hypotheses: usize) {
        let claims = self.trial.as_ref().map_or(0.5, Trial::share);
        if self.candidates.iter().any(|candidate| candidate.model.learnt > 0.0) {
            self.threads = None;
        } else if self.threads.as_ref().is_some_and(|threads| !threads.are_apart()) {
            self.threads = None;
            self.candidates.retain(|candidate| !candidate.model.belief.by_thread);
        }
        self.candidates.iter_mut().for_each(|candidate| candidate.model.claims = claims);
        self.since_training += events.len();
        let given_up = if self.is_lost() { self.begin_anew() } else { Vec::new() };
        let is_new = !self.is_training();
        let lessons = if is_new { Vec::new() } else { self.lessons(&events, hypotheses) };
        let effort = Effort { hypotheses, work: WORK };
        self.held = Some(Held { events, effort, lessons, is_new, given_up, run: 0, best: None });
    }

    /// Goes one step on with the events that are held. The last step decides their calls, as the likeliest belief has
    /// it.
    pub(super) fn decide(&mut self) -> Vec<Decision> {
        let Some(mut held) = self.held.take() else { return Vec::new() };
        if let Some(mut lesson) = held.lessons.pop() {
            if !self.teach(&mut lesson) {
                held.lessons.push(lesson);
            } else if held.lessons.is_empty() {
                self.choose();
                self.after.extend(&mut held.events).into_iter().for_each(|ended| self.timeline.add_end(ended));
            }
            self.held = Some(held);
            return Vec::new();
        }
        if let Some(candidate) = self.candidates.get_mut(held.run) {
            let decided = candidate.run(&held.events, held.is_new, held.effort);
            if held.best.as_ref().is_none_or(|best| candidate.likelihood > best.0) {
                held.best = Some((candidate.likelihood, decided));
            }
            held.run += 1;
        }
        if held.run < self.candidates.len() {
            self.held = Some(held);
            return Vec::new();
        }
        held.given_up.into_iter().chain(held.best.into_iter().flat_map(|best| best.1)).collect()
    }

    /// Whether what was learnt does not explain what the process does. Training with the first requests of many users
    /// may end so: pools open their connections at that time, and a wrong explanation keeps itself alive.
    fn is_lost(&self) -> bool {
        let is_due = self.since_training >= self.next_training && !self.is_training();
        is_due && self.candidates.iter().all(|c| c.beam.is_lost())
    }

    /// Forgets what was learnt, but not the requests that are open. Calls that are not decided have no request.
    fn begin_anew(&mut self) -> Vec<Decision> {
        let Some(last) = self.candidates.first() else { return Vec::new() };
        let given_up = last.beam.give_up();
        let beam = last.beam.without_knowledge();
        self.history = beam.open().iter().map(|r| Event::Read(*r)).collect();
        self.candidates = candidates(&beam);
        self.threads = Some(Threads::default());
        (self.trained_with, self.since_training) = (0, 0);
        self.next_training *= 2;
        given_up
    }

    /// What shall be learnt, the last first: the candidates are trained with all events so far, whenever there are half
    /// as many again as the last time.
    fn lessons(&mut self, events: &[Event], hypotheses: usize) -> Vec<Lesson> {
        self.history.extend_from_slice(events);
        if self.history.len() < self.trained_with + self.trained_with / 2 {
            return Vec::new();
        }
        self.trained_with = self.history.len();
        let effort = Effort { hypotheses: hypotheses.div_ceil(TRAINING_SHARE), work: TRAINING_WORK };
        let lesson = |most, compares| Lesson { most, compares, effort, begun: None, done: 0 };
        // All beliefs are compared by the last events only, as training takes its time.
        let compares = self.candidates.len() > 2 && self.history.len() > COMPARED_EVENTS;
        let compared = compares.then(|| lesson(COMPARED_EVENTS, true));
        std::iter::once(lesson(TRAINING_EVENTS, false)).chain(compared).collect()
    }

    /// One step of a lesson: one round of one candidate. After the last one, the likeliest candidate comes first.
    /// Returns whether that was the last.
    fn teach(&mut self, lesson: &mut Lesson) -> bool {
        let Some((events, shown)) = &lesson.begun else {
            let mut events = recent(&self.history, lesson.most);
            let timed = Timed::learn(&events);
            self.after.told(&timed.lasts);
            let _beyond = self.after.extend(&mut events);
            let shown = Shown::by(&events, timed);
            lesson.begun = Some((events, shown));
            return false;
        };
        if let Some(candidate) = self.candidates.get_mut(lesson.done / ROUNDS) {
            candidate.train(lesson.done % ROUNDS, events, shown, lesson.effort);
            lesson.done += 1;
        }
        if lesson.done < ROUNDS * self.candidates.len() {
            return false;
        }
        self.candidates.sort_by(|a, b| b.likelihood.total_cmp(&a.likelihood));
        if lesson.compares {
            let mut kept = [0; 2];
            self.candidates.retain(|candidate| {
                let kind = usize::from(candidate.model.belief.led.is_none());
                kept[kind] += 1;
                kept[kind] <= MOST_LED_AND_OTHER[kind]
            });
        }
        true
    }

    /// Chooses among the trained candidates.
    fn choose(&mut self) {
        if self.history.len() >= COMPARABLE_EVENTS {
            self.candidates.truncate(2);
        }
        if self.candidates.iter().all(|c| c.model.learnt >= TRAINED_ACTS) || self.history.len() >= MOST_HISTORY {
            self.candidates.truncate(1);
            (self.history, self.since_training) = (Vec::new(), 0);
        }
    }
}
