//! The topics of a fetch session (KIP-227): after its first request, fetches of the same topics name none.

use super::emit::Remembered;
use super::facts::{Facts, Topic};
use super::topics::MAX_NAME;

/// The session of a connection.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    /// Its only topic, if it has one only.
    name: Vec<u8>,
    id: Option<[u8; 16]>,
    /// The request for each partition.
    asked: Remembered,
}

impl Fetches {
    /// Remembers the topics that a fetch names. The topic of a fetch that names none.
    pub(super) fn topic<'a>(&'a mut self, facts: &Facts<'_>) -> Topic<'a> {
        let goes_on = facts.epoch.is_some_and(|epoch| epoch > 0);
        if facts.forgets || !goes_on && facts.topics != Some(1) || facts.topics.is_none_or(|n| n > 1) {
            self.forget();
        } else if facts.topics == Some(1) {
            if goes_on && !self.is(facts.topic) {
                // A second topic, or one of a session that was not seen from its start.
                self.forget();
            } else {
                self.keep(facts.topic);
            }
        }
        match self.id {
            Some(id) => Topic::Id(id),
            None if self.name.is_empty() => Topic::None,
            None => Topic::Name(&self.name),
        }
    }

    /// The partitions of a fetch: those that it names, and those of earlier fetches of the session.
    pub(super) fn asked(&mut self, facts: &Facts<'_>, named: Remembered) -> Remembered {
        let goes_on = facts.epoch.is_some_and(|epoch| epoch > 0);
        self.asked = if goes_on { self.asked.with(named) } else { named };
        self.asked
    }

    fn is(&self, topic: Topic<'_>) -> bool {
        match topic {
            Topic::None => false,
            Topic::Name(name) => self.id.is_none() && self.name == name,
            Topic::Id(id) => self.id == Some(id),
        }
    }

    fn keep(&mut self, topic: Topic<'_>) {
        self.forget();
        match topic {
            Topic::Name(name) if name.len() <= MAX_NAME => self.name.extend_from_slice(name),
            Topic::Id(id) => self.id = Some(id),
            _ => {}
        }
    }

    fn forget(&mut self) {
        self.name.clear();
        self.id = None;
    }
}
