//! Where open requests stand, and whose turn it is.

use super::model::{Act, Done, Last, Made, Model, Place, Turn};
use super::timeline::Request;

/// Where a request stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) last: Last,
    pub(super) last_ns: u64,
    /// Number of the event that was last, and of that by which it came: many are read in one call.
    pub(super) last_event: u32,
    pub(super) came: u32,
    /// Calls of its own that wait for an answer.
    pub(super) waits: u32,
    pub(super) done: Done,
    pub(super) made: Made,
}

impl State {
    pub(super) fn read(r: &Request, event: u32) -> State {
        State {
            last: Last::Read,
            last_ns: r.start_ns,
            last_event: event,
            came: event,
            waits: 0,
            done: Done::default(),
            made: Made::default(),
        }
    }
}

pub(super) fn place(request: &Request, s: &State) -> Place {
    Place { class: request.class, last: s.last, waits: s.waits > 0, done: s.done, made: s.made }
}

/// Of the requests that may act, those at the ends of the queue; and the weight of everybody's turn.
pub(super) struct Queue<'a> {
    model: &'a Model,
    act: Act,
    first: u32,
    last: u32,
    /// Who acted last.
    acted: u32,
    all: f64,
}

impl<'a> Queue<'a> {
    pub(super) fn of(states: &[State], acted: u32, open: &[Request], act: Act, model: &'a Model) -> Queue<'a> {
        let mut q = Queue { model, act, first: u32::MAX, last: 0, acted, all: 0.0 };
        for (r, s) in open.iter().zip(states) {
            if let Some(place) = q.stands(r, s) {
                (q.first, q.last) = (q.first.min(place), q.last.max(place));
            }
        }
        let turns = open.iter().zip(states).map(|(r, s)| model.turn(q.turn(r, s), act));
        q.all = turns.sum::<f64>().max(1e-9);
        q
    }

    /// Where it stands in the queue, if it does.
    fn stands(&self, r: &Request, s: &State) -> Option<u32> {
        match self.act {
            Act::Call(class) if self.model.belief.of_calls => {
                self.model.owes(r.class, &s.made, class).then_some(s.came)
            }
            _ => (s.waits == 0).then_some(s.last_event),
        }
    }

    pub(super) fn turn(&self, r: &Request, s: &State) -> Turn {
        match self.stands(r, s) {
            Some(place) if place <= self.first => Turn::Longest,
            Some(place) if place >= self.last => Turn::Shortest,
            Some(_) => Turn::Between,
            None if self.acted == r.id => Turn::GoesOn,
            None => Turn::Waits,
        }
    }

    /// How likely it is this one's turn.
    pub(super) fn share(&self, r: &Request, s: &State) -> f64 {
        self.model.turn(self.turn(r, s), self.act) / self.all
    }
}
