//! Whose turn it is to act, and what may be believed about it before anything is learnt.

/// The position of the request that acts, among those that are open: in the queue of all that may act, or in the
/// activation of the thread.
///
/// An *activation* of a thread is what it does from one read to the next: it reads one message or several, then it
/// sends. A request is *fresh* while the activation lasts in which it was read or got an answer.
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
    /// It waits for the answer to a call of its own, or is expected to do something else.
    Waits = 4,
    /// Another thread has read it, while each thread acts for the requests that it reads itself.
    Elsewhere = 5,
    /// It may act, but one that waits shorter has acted so already.
    Overtaken = 6,
    /// Fresh: it acted last, and acts again.
    Again = 7,
    /// Fresh, and the next in the order in which the thread has read.
    Next = 8,
    /// Fresh, and read later than the next one.
    Later = 9,
    /// Fresh, but a request that was read later has acted already.
    Passed = 10,
    /// Not fresh, and may act.
    Before = 11,
    /// Not fresh, and waits or is expected to do something else.
    Outside = 12,
    /// Of another thread, as above.
    Foreign = 13,
}

pub(super) const TURNS: usize = 14;

impl Turn {
    /// The turn with this number.
    pub(super) fn of(number: usize) -> Turn {
        use Turn::*;
        let all = [
            GoesOn, Longest, Shortest, Between, Waits, Elsewhere, Overtaken, Again, Next, Later, Passed, Before,
            Outside, Foreign,
        ];
        all[number.min(TURNS - 1)]
    }
}

/// What orders the work of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// Requests that can go on stand in one queue.
    #[default]
    Requests,
    /// Work queues up as calls: all calls of a request stand in the queue since the request was read.
    Calls,
    /// An event loop: some calls are made at once, by the fresh requests in the order in which they were read. Others
    /// are gathered, and leave in the order of one queue. Which does which is learnt by class.
    Loop,
}

/// One way in which a process may order its work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Belief {
    /// By [`Turn`].
    pub(super) turns: [f64; TURNS],
    pub(super) order: Order,
    /// The belief counts only once something is learnt: a queue of calls says little while it is unknown which requests
    /// make which calls.
    pub(super) starts_neutral: bool,
    /// Each thread has a queue of its own: it acts for the requests that it has read itself.
    pub(super) by_thread: bool,
    /// Learning begins with what leads to what.
    pub(super) led: Option<Led>,
    /// Learning begins with the causes that time suggests.
    pub(super) begins_by_time: bool,
}

/// Learning begins with what leads to what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Led {
    /// How likely a call belongs to no request, before anything else is known. A request that owes no such call is less
    /// likely. Where calls come after answers, too few such calls shift the queue for all others; too many break it.
    pub(super) alone: f64,
    /// It is found by time, not by the order of reads and acts.
    pub(super) timed: bool,
}

impl Belief {
    const fn new(turns: [f64; 5]) -> Belief {
        let [goes_on, longest, shortest, between, waits] = turns;
        let [again, next, later, passed, before, outside] = [0.4, 0.6, 0.05, 0.05, 0.1, 0.01];
        let (elsewhere, overtaken, foreign) = (ELSEWHERE, 0.1, ELSEWHERE);
        let turns = [
            goes_on, longest, shortest, between, waits, elsewhere, overtaken, again, next, later, passed, before,
            outside, foreign,
        ];
        Belief {
            turns,
            order: Order::Requests,
            starts_neutral: false,
            by_thread: false,
            led: None,
            begins_by_time: false,
        }
    }
}

/// Weight of a request in another thread's queue.
const ELSEWHERE: f64 = 0.002;
const SERIAL: Belief = Belief::new([0.1, 0.6, 0.2, 0.1, 0.01]);
const AT_ONCE: Belief = Belief::new([0.9, 0.5, 0.1, 0.05, 0.01]);
const UNORDERED: Belief = Belief::new([0.3, 0.5, 0.5, 0.5, 0.05]);
const CALLS: Belief = Belief { order: Order::Calls, ..Belief::new([0.1, 0.8, 0.2, 0.1, 0.02]) };
const LOOP: Belief = Belief { order: Order::Loop, ..SERIAL };
const LED: Belief = Belief { led: Some(Led { alone: 0.0004, timed: false }), ..LOOP };
const LED_OR_ALONE: Belief = Belief { led: Some(Led { alone: 0.002, timed: false }), ..LOOP };
const LED_BY_TIME: Belief = Belief { led: Some(Led { alone: 0.002, timed: true }), ..LOOP };
const LOOP_BY_TIME: Belief = Belief { begins_by_time: true, ..LOOP };
const UNORDERED_BY_TIME: Belief = Belief { begins_by_time: true, ..UNORDERED };

/// All beliefs: an event loop, led by order or by time, or begun by time, or neither; no order, begun by time; one
/// call after the other; all calls at once; no order; a queue of calls for workers (from the start, and once
/// something is learnt); and some of them per thread.
pub(super) const BELIEFS: [Belief; 16] = [
    LED,
    LED_OR_ALONE,
    LED_BY_TIME,
    LOOP_BY_TIME,
    UNORDERED_BY_TIME,
    LOOP,
    SERIAL,
    AT_ONCE,
    UNORDERED,
    CALLS,
    Belief { starts_neutral: true, ..CALLS },
    Belief { by_thread: true, ..LED },
    Belief { by_thread: true, ..LOOP },
    Belief { by_thread: true, ..SERIAL },
    Belief { by_thread: true, ..AT_ONCE },
    Belief { by_thread: true, ..UNORDERED },
];
