//! The state of each open request, and whose turn it is to act.

use super::belief::{Turn, TURNS};
use super::chain::{Done, Last, Made, Place};
use super::model::Outlook;
use super::timeline::Request;

/// The state of an open request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) last: Last,
    pub(super) last_ns: u64,
    /// Number of its last event, and of the event by which it was read (many requests may be read in one call).
    pub(super) last_event: u32,
    pub(super) came: u32,
    /// Its calls that wait for an answer.
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

/// The two ends of the queue of requests that may act, and the weight of all turns together.
pub(super) struct Queue<'a> {
    outlook: &'a Outlook,
    /// The thread that acts.
    tid: u32,
    first: u32,
    last: u32,
    /// Id of the request that acted last.
    acted: u32,
    all: f64,
}

impl<'a> Queue<'a> {
    pub(super) fn of(states: &[State], acted: u32, tid: u32, open: &[Request], outlook: &'a Outlook) -> Queue<'a> {
        let mut q = Queue { outlook, tid, first: u32::MAX, last: 0, acted, all: 0.0 };
        // Numbers of requests: at each end of the queue, in the queue, and outside it (waiting; acted last; of another
        // thread).
        let (mut firsts, mut lasts, mut stand, mut waiting, mut goes_on, mut elsewhere) =
            (0u32, 0u32, 0u32, 0u32, 0u32, 0u32);
        for (r, s) in open.iter().zip(states) {
            if q.is_elsewhere(r) {
                elsewhere += 1;
                continue;
            }
            let Some(place) = q.stands(r, s) else {
                *(if acted == r.id { &mut goes_on } else { &mut waiting }) += 1;
                continue;
            };
            stand += 1;
            if place < q.first {
                (q.first, firsts) = (place, 0);
            }
            if place > q.last || lasts == 0 {
                (q.last, lasts) = (place, 0);
            }
            firsts += u32::from(place == q.first);
            lasts += u32::from(place == q.last);
        }
        if q.first == q.last {
            lasts = 0;
        }
        let weighed = [
            (Turn::GoesOn, goes_on),
            (Turn::Longest, firsts),
            (Turn::Shortest, lasts),
            (Turn::Between, stand - firsts - lasts),
            (Turn::Waits, waiting),
            (Turn::Elsewhere, elsewhere),
        ];
        q.all = weighed.iter().map(|(turn, n)| outlook.turns[*turn as usize] * f64::from(*n)).sum::<f64>().max(1e-9);
        q
    }

    fn is_elsewhere(&self, r: &Request) -> bool {
        self.outlook.by_thread && r.tid != self.tid
    }

    /// Its place in the queue, if it stands there.
    fn stands(&self, r: &Request, s: &State) -> Option<u32> {
        match self.outlook.owes(r.class, &s.made) {
            Some(owes) => owes.then_some(s.came),
            None => (s.waits == 0).then_some(s.last_event),
        }
    }

    pub(super) fn turn(&self, r: &Request, s: &State) -> Turn {
        if self.is_elsewhere(r) {
            return Turn::Elsewhere;
        }
        match self.stands(r, s) {
            Some(place) if place <= self.first => Turn::Longest,
            Some(place) if place >= self.last => Turn::Shortest,
            Some(_) => Turn::Between,
            None if self.acted == r.id => Turn::GoesOn,
            None => Turn::Waits,
        }
    }

    /// The likelihood that it is this request's turn.
    pub(super) fn share(&self, r: &Request, s: &State) -> f64 {
        self.outlook.turns[self.turn(r, s) as usize] / self.all
    }

    /// ln of the same, by turn.
    pub(super) fn ln_shares(&self) -> [f64; TURNS] {
        self.outlook.turns.map(|turn| (turn / self.all).max(1e-9).ln())
    }
}
