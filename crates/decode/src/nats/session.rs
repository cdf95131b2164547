//! What both ends of a NATS connection owe each other.

use super::line::is_inbox;
use std::collections::VecDeque;
use wirespan_model::Side;

/// Most requests that are remembered without their answer.
pub(super) const MAX_OUTSTANDING: usize = 256;

/// A request by inbox.
#[derive(Debug)]
struct Asked {
    by: Side,
    inbox: Box<[u8]>,
    id: u64,
    /// It was made to JetStream's API, or may be a publication to a stream.
    api: bool,
}

/// State of the session.
#[derive(Debug, Default)]
pub(super) struct Session {
    last_id: u64,
    /// Whether the server confirms commands; `None`: not known.
    pub(super) verbose: Option<bool>,
    /// Commands that the server will confirm, with their ids if they wait for it.
    commands: VecDeque<Option<u64>>,
    /// Unanswered PINGs of the client and the server.
    pings: [VecDeque<u64>; 2],
    inboxes: VecDeque<Asked>,
    /// The server wants TLS.
    pub(super) tls: bool,
    pub(super) connected: bool,
}

fn push<T>(queue: &mut VecDeque<T>, item: T) {
    if queue.len() >= MAX_OUTSTANDING {
        queue.pop_front();
    }
    queue.push_back(item);
}

impl Session {
    fn next_id(&mut self) -> u64 {
        self.last_id = self.last_id.saturating_add(1);
        self.last_id
    }

    fn pings_of(&mut self, side: Side) -> &mut VecDeque<u64> {
        let [client, server] = &mut self.pings;
        if side == Side::Client {
            client
        } else {
            server
        }
    }

    /// A PING of this side.
    pub(super) fn ping(&mut self, side: Side) -> u64 {
        let id = self.next_id();
        push(self.pings_of(side), id);
        id
    }

    /// The PING that a PONG of this side answers.
    pub(super) fn pong(&mut self, side: Side) -> Option<u64> {
        self.pings_of(side.peer()).pop_front()
    }

    /// A command of the client. Returns its id if the server's confirmation is the answer to it.
    pub(super) fn command(&mut self, answered_otherwise: bool) -> Option<u64> {
        if self.verbose != Some(true) {
            return None;
        }
        let id = (!answered_otherwise).then(|| self.next_id());
        push(&mut self.commands, id);
        id
    }

    /// The command that `+OK` or `-ERR` answers.
    pub(super) fn confirmed(&mut self) -> Option<u64> {
        self.commands.pop_front().flatten()
    }

    /// A message with a reply subject: its id if the answer can be told for certain.
    pub(super) fn ask(&mut self, by: Side, subject: &[u8], reply: &[u8]) -> Option<u64> {
        // A pull is answered by messages of other subjects, and not always.
        let pull = subject.starts_with(b"$JS.API.CONSUMER.MSG.NEXT.");
        if !is_inbox(reply) || pull || self.inboxes.iter().any(|a| a.by == by && *a.inbox == *reply) {
            return None;
        }
        let id = self.next_id();
        let api = by == Side::Client;
        push(&mut self.inboxes, Asked { by, inbox: reply.into(), id, api });
        Some(id)
    }

    /// The request that a message of this side to this subject answers, and whether JetStream may have written it.
    pub(super) fn answer(&mut self, side: Side, subject: &[u8]) -> Option<(u64, bool)> {
        let at = self.inboxes.iter().position(|a| a.by == side.peer() && *a.inbox == *subject)?;
        self.inboxes.remove(at).map(|a| (a.id, a.api))
    }

    /// Messages of this side may not have been seen: they may have answered its open requests.
    pub(super) fn lost(&mut self, side: Side) {
        self.pings_of(side.peer()).clear();
        // Confirmations to come can no longer be counted off.
        self.commands.clear();
        self.verbose = self.verbose.filter(|v| !*v);
    }
}
