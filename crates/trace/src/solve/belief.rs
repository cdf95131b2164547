//! Whose turn it is to act, and what may be believed about it before anything is learnt.

/// The position of the request that acts, among those that are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It acted last, and acts again.
    GoesOn = 0,
    /// Of the requests that may act, the one that has waited longest.
    Longest = 1,
    /// The one that has waited shortest.
    Shortest = 2,
    /// Another one that may act.
    Between = 3,
    /// It waits for the answer to a call of its own.
    Waits = 4,
    /// Another thread has read it, while each thread acts for the requests that it reads itself.
    Elsewhere = 5,
}

pub(super) const TURNS: usize = 6;

/// One way in which a process may order its work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Belief {
    /// By [`Turn`].
    pub(super) turns: [f64; TURNS],
    /// Work queues up as calls: all calls of a request stand in the queue since the request was read. Else requests
    /// that can go on stand in the queue.
    pub(super) of_calls: bool,
    /// The belief counts only once something is learnt: a queue of calls says little while it is unknown which requests
    /// make which calls.
    pub(super) starts_neutral: bool,
    /// Each thread has a queue of its own: it acts for the requests that it has read itself.
    pub(super) by_thread: bool,
}

impl Belief {
    const fn new(turns: [f64; TURNS - 1]) -> Belief {
        let [goes_on, longest, shortest, between, waits] = turns;
        let turns = [goes_on, longest, shortest, between, waits, ELSEWHERE];
        Belief { turns, of_calls: false, starts_neutral: false, by_thread: false }
    }
}

/// Weight of a request in another thread's queue.
const ELSEWHERE: f64 = 0.002;
const SERIAL: Belief = Belief::new([0.1, 0.6, 0.2, 0.1, 0.01]);
const AT_ONCE: Belief = Belief::new([0.9, 0.5, 0.1, 0.05, 0.01]);
const UNORDERED: Belief = Belief::new([0.3, 0.5, 0.5, 0.5, 0.05]);
const CALLS: Belief = Belief { of_calls: true, ..Belief::new([0.1, 0.8, 0.2, 0.1, 0.02]) };

/// All beliefs: one call after the other; all calls at once; no order; a queue of calls for workers (from the start,
/// and once something is learnt); and the first three per thread.
pub(super) const BELIEFS: [Belief; 8] = [
    SERIAL,
    AT_ONCE,
    UNORDERED,
    CALLS,
    Belief { starts_neutral: true, ..CALLS },
    Belief { by_thread: true, ..SERIAL },
    Belief { by_thread: true, ..AT_ONCE },
    Belief { by_thread: true, ..UNORDERED },
];
