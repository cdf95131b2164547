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
    /// Number of the event that lets it act: it was read, or its last answer came. (Many requests may be read in one
    /// call.)
    pub(super) trigger: u32,
    /// Number of the event by which it was read.
    pub(super) came: u32,
    /// Number of the activation in which it was read or got its last answer.
    pub(super) activation: u32,
    /// Its calls that wait for an answer.
    pub(super) waits: u32,
    pub(super) done: Done,
    pub(super) made: Made,
    pub(super) replied: Made,
    /// The connections of its last calls, and the number of the event of each.
    pub(super) sockets: [(u64, u32); 2],
    /// The thread of its last call of which the kernel names several requests, and the number of that event.
    pub(super) thread: (u32, u32),
}

impl State {
    /// Number of the event at which it used a connection last, if it is one of the last.
    pub(super) fn used(&self, socket: u64) -> Option<u32> {
        self.sockets.iter().filter(|(s, event)| *s == socket && *event > 0).map(|(_, event)| *event).max()
    }

    pub(super) fn uses(&mut self, socket: u64, event: u32) {
        let [last, before] = self.sockets;
        self.sockets = [(socket, event), if last.0 == socket { before } else { last }];
    }

    pub(super) fn read(r: &Request, event: u32, activation: u32) -> State {
        State {
            last: Last::Read,
            last_ns: r.start_ns,
            trigger: event,
            came: event,
            activation,
            waits: 0,
            done: Done::default(),
            made: Made::default(),
            replied: Made::default(),
            sockets: [(0, 0); 2],
            thread: (0, 0),
        }
    }
}

pub(super) fn place(request: &Request, s: &State) -> Place {
    Place { class: request.class, last: s.last, waits: s.waits > 0, done: s.done, made: s.made, replied: s.replied }
}

/// Who acted last, as a hypothesis has it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Acted {
    /// Id of the request.
    pub(super) request: u32,
    pub(super) trigger: u32,
    pub(super) activation: u32,
}

/// A thread that acts, and its activation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Actor {
    pub(super) tid: u32,
    pub(super) activation: u32,
}

/// Whose turn it is, for every open request: in the queue of all that may act, and in the activation of the thread.
pub(super) struct Queue<'a> {
    outlook: &'a Outlook,
    turns: Vec<[Turn; 2]>,
    /// The weight of all turns of each order together.
    all: [f64; 2],
}

/// Where a request stands when somebody acts.
#[derive(Clone, Copy)]
struct Stand {
    /// Since which event it may act; `None`: it waits, or is expected to do something else.
    since: Option<u32>,
    /// Fresh, since this event.
    fresh: Option<u32>,
    acted: bool,
    /// Another thread has read it, and each thread acts for its own requests.
    elsewhere: bool,
}

impl<'a> Queue<'a> {
    /// `served`: the trigger of the last request that acted so, where calls of a class have a queue of their own.
    /// `ready`: whether the next act of the request in a slot may be this one.
    pub(super) fn of(
        states: &[State],
        acted: Acted,
        actor: Actor,
        served: u32,
        open: &[Request],
        outlook: &'a Outlook,
        mut ready: impl FnMut(usize, &State) -> bool,
    ) -> Queue<'a> {
        let stand = |(slot, (r, s)): (usize, (&Request, &State))| {
            let elsewhere = outlook.by_thread && r.tid != actor.tid;
            let since = match outlook.owes(r.class, &s.made) {
                _ if elsewhere => None,
                Some(owes) => owes.then_some(s.came),
                None => ready(slot, s).then_some(s.trigger),
            };
            let fresh = (!elsewhere && s.activation == actor.activation).then_some(s.trigger);
            Stand { since, fresh, acted: acted.request == r.id, elsewhere }
        };
        let stands: Vec<Stand> = open.iter().zip(states).enumerate().map(stand).collect();
        let queue = stands.iter().filter_map(|s| s.since).filter(|since| *since >= served);
        let (first, last) = queue.fold((u32::MAX, 0), |(first, last), since| (first.min(since), last.max(since)));
        // Fresh requests up to this one have had their turn.
        let passed = if acted.activation == actor.activation { acted.trigger } else { 0 };
        let next = stands.iter().filter_map(|s| s.fresh).filter(|since| *since > passed).min().unwrap_or(u32::MAX);
        let turn = |stand: &Stand| {
            let in_queue = match stand.since {
                _ if stand.elsewhere => Turn::Elsewhere,
                Some(since) if since < served => Turn::Overtaken,
                Some(since) if since <= first => Turn::Longest,
                Some(since) if since >= last => Turn::Shortest,
                Some(_) => Turn::Between,
                None if stand.acted => Turn::GoesOn,
                None => Turn::Waits,
            };
            let in_activation = match stand.fresh {
                _ if stand.elsewhere => Turn::Foreign,
                Some(since) if since == passed => Turn::Again,
                Some(since) if since == next => Turn::Next,
                Some(since) if since > next => Turn::Later,
                Some(_) => Turn::Passed,
                None if stand.since.is_some() => Turn::Before,
                None => Turn::Outside,
            };
            [in_queue, in_activation]
        };
        let turns: Vec<[Turn; 2]> = stands.iter().map(turn).collect();
        let all = [0, 1].map(|order| turns.iter().map(|t| outlook.turns[t[order] as usize]).sum::<f64>().max(1e-9));
        Queue { outlook, turns, all }
    }

    /// The likelihood of the turn of the request in a slot, by each order.
    pub(super) fn shares(&self, slot: usize) -> [f64; 2] {
        [0, 1].map(|order| self.outlook.turns[self.turns[slot][order] as usize] / self.all[order])
    }

    /// The likelihood that it is the turn of the request in this slot.
    pub(super) fn share(&self, slot: usize) -> f64 {
        let ([queue, activation], weights) = (self.shares(slot), self.outlook.orders);
        weights[0] * queue + weights[1] * activation
    }

    /// Whose turn the request in this slot has, by each order.
    pub(super) fn turn(&self, slot: usize) -> [Turn; 2] {
        self.turns[slot]
    }

    /// The turns that some open request has.
    pub(super) fn possible(&self) -> [bool; TURNS] {
        let mut possible = [false; TURNS];
        self.turns.iter().flatten().for_each(|turn| possible[*turn as usize] = true);
        possible
    }
}
