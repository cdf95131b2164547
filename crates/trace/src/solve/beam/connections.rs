//! What the order of reads and sends tells, whatever the hypothesis: activations of threads, and calls that follow each
//! other on a connection.

use super::makers::could_make;
use super::{Beam, Hypothesis};
use crate::solve::timeline::{Call, Class, Hint, Maker, Opinion};

/// Most connections that are followed.
const MAX_CONNECTIONS: usize = 8192;
/// Most threads whose activations are followed.
const MAX_THREADS: usize = 1024;

/// A connection on which the process makes calls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Connection {
    /// A call was sent while another one waited for its answer.
    is_multiplexed: bool,
    /// When the calls so far have their answers.
    free_ns: u64,
    /// Class and time of the last call.
    last: Class,
    last_ns: u64,
}

impl Beam {
    /// A thread reads: its activation, which is a new one if it has sent something since it read before.
    pub(super) fn reads(&mut self, tid: u32) -> u32 {
        if self.activations.len() >= MAX_THREADS && !self.activations.contains_key(&tid) {
            self.activations.clear();
        }
        let activation = self.activations.entry(tid).or_insert((self.event, false));
        if activation.1 {
            *activation = (self.event, false);
        }
        activation.0
    }

    /// A thread sends.
    pub(super) fn writes(&mut self, tid: u32) {
        if let Some((_, sent)) = self.activations.get_mut(&tid) {
            *sent = true;
        }
    }

    /// The only request that can have made a call, if the kernel guesses the same.
    pub(super) fn guessed(&self, c: &Call, hint: Option<Hint>) -> Option<usize> {
        let hint = hint.filter(|h| h.opinion == Opinion::Guess)?;
        let could_make = could_make(&self.open, c);
        let mut may = (0..self.open.len()).filter(|s| could_make(&self.open[*s]));
        may.next().filter(|s| may.next().is_none() && self.open[*s].owns(hint.exchange))
    }

    /// The open request to which a call may belong because of the call before it on its connection: the one that made
    /// that call, as a hypothesis has it. On a connection that several requests use at a time, only the call before it
    /// in the same write says something.
    pub(super) fn holder(&self, hypothesis: &Hypothesis, c: &Call) -> Option<usize> {
        let connection = self.connections.get(&c.socket)?;
        if connection.last_ns == c.start_ns {
            return self.open.iter().position(|r| r.id == hypothesis.acted.request);
        }
        if connection.is_multiplexed {
            return None;
        }
        let used = hypothesis.states.iter().enumerate().filter_map(|(slot, s)| Some((s.used(c.socket)?, slot)));
        used.max().map(|(_, slot)| slot)
    }

    /// The open request for which the thread of a call made its last call, where the kernel names several requests for
    /// each: a thread that waits for its calls works on one request at a time.
    pub(super) fn keeper(&self, hypothesis: &Hypothesis, c: &Call) -> Option<usize> {
        let Maker::OneOf(_) = c.maker else { return None };
        let of_thread = hypothesis.states.iter().enumerate().filter(|(_, s)| s.thread.0 == c.tid && s.thread.1 > 0);
        of_thread.max_by_key(|(_, s)| s.thread.1).map(|(slot, _)| slot)
    }

    /// The class of the call before in the same write, and that of this call.
    pub(super) fn company(&self, c: &Call) -> (Option<Class>, Class) {
        let before = self.connections.get(&c.socket).filter(|connection| connection.last_ns == c.start_ns);
        (before.map(|connection| connection.last), c.class)
    }

    /// Notes which server a call asks.
    pub(super) fn calls(&mut self, c: &Call) {
        let class = usize::from(c.class);
        self.peers.resize(self.peers.len().max(class + 1), 0);
        self.peers[class] = c.peer;
    }

    /// The server that calls of a class ask.
    pub(super) fn peer(&self, class: Class) -> usize {
        self.peers.get(usize::from(class)).copied().unwrap_or(0).into()
    }

    /// A call was sent on its connection.
    pub(super) fn passes(&mut self, c: &Call) {
        if self.connections.len() >= MAX_CONNECTIONS && !self.connections.contains_key(&c.socket) {
            self.connections.clear();
        }
        let connection = self.connections.entry(c.socket).or_default();
        connection.is_multiplexed |= connection.free_ns > c.start_ns && connection.last_ns != c.start_ns;
        connection.free_ns = connection.free_ns.max(c.end_ns);
        (connection.last, connection.last_ns) = (c.class, c.start_ns);
    }
}
