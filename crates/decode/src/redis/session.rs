//! What both sides of a Redis connection have agreed on: which reply answers which command, and which answers none.

use super::head::{Command, ReplyMode};
use super::reason;
use super::reply::{Reply, Shape};
use std::collections::VecDeque;
use std::fmt::Write;
use wirespan_model::broker::is_script;
use wirespan_model::{Item, Kind, Side};

/// Unanswered commands that are remembered.
pub const MAX_OUTSTANDING: usize = 16 * 1024;

/// State of the session.
#[derive(Debug, Default)]
pub(super) struct Session {
    asked: VecDeque<Asked>,
    /// The server side lost its place since the last command: older commands have been answered unseen.
    pub(super) server_lost: bool,
    /// The connection is a replication stream now.
    pub(super) upgraded: bool,
    db: Option<u32>,
    /// `db` as text.
    db_text: String,
    mute: Mute,
    subscribed: bool,
    monitor: bool,
    resp3: bool,
    transaction: Transaction,
}

/// Commands between `MULTI` and `EXEC` are queued, and the reply to `EXEC` holds all of theirs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Transaction {
    #[default]
    No,
    Open,
    /// One of its commands takes elements.
    Takes,
}

/// Whether commands get replies (`CLIENT REPLY`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mute {
    #[default]
    No,
    Next,
    All,
}

/// The facts about a command that its reply needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Plain,
    /// Nothing of its reply may be kept.
    Secret,
    /// The database before.
    Select(Option<u32>),
    /// `SUBSCRIBE` and its kin: confirmations to come.
    Subscribe {
        left: u64,
        answered: bool,
    },
    Monitor,
    Replicate,
    Reset,
    /// Its reply holds elements.
    Elements,
    /// So may its. Its errors are the texts of its author.
    Script,
    /// Its reply is the id of an entry of a stream.
    Entry,
}

impl Session {
    /// Selected database, if it is known.
    pub(super) fn db(&self) -> Option<&str> {
        self.db.map(|_| self.db_text.as_str())
    }

    pub(super) fn select(&mut self, db: Option<u32>) {
        self.db = db;
        self.db_text.clear();
        if let Some(db) = db {
            // Writing to a string cannot fail.
            let _ = write!(self.db_text, "{db}");
        }
    }

    /// Whether the first string of an array says if it is a reply (RESP2 pub/sub).
    pub(super) fn wants_first(&self) -> bool {
        let expected = matches!(self.asked.front(), None | Some(Asked::Subscribe { .. }));
        !self.resp3 && (self.subscribed || expected)
    }

    /// Whether the last command takes elements.
    pub(super) fn takes(&self) -> bool {
        self.asked.back() == Some(&Asked::Elements)
    }

    /// Takes note of a command and says whether it gets a reply.
    pub(super) fn ask(&mut self, head: &Command, name: &str, out: &mut dyn FnMut(Item<'_, '_>)) -> Kind {
        if self.server_lost {
            self.asked.clear();
            self.server_lost = false;
        }
        let silent = match (head.mode, self.mute) {
            (Some(ReplyMode::On), _) => {
                self.mute = Mute::No;
                false
            }
            (Some(ReplyMode::Off), _) => {
                self.mute = Mute::All;
                true
            }
            (_, Mute::All) => true,
            (Some(ReplyMode::Skip), _) => {
                self.mute = Mute::Next;
                true
            }
            (None, Mute::Next) => {
                self.mute = Mute::No;
                true
            }
            (None, Mute::No) => false,
        };
        if silent {
            return Kind::OneWay;
        }
        if self.asked.len() >= MAX_OUTSTANDING {
            self.asked.pop_front();
            out(Item::Malformed { side: Side::Client, reason: reason::TOO_MANY_OUTSTANDING });
        }
        let takes = super::elements::takes(name);
        let queued = self.transaction != Transaction::No;
        if queued && takes {
            self.transaction = Transaction::Takes;
        }
        self.asked.push_back(match name {
            "AUTH" | "HELLO" => Asked::Secret,
            name if is_script(name) => Asked::Script,
            "SELECT" => Asked::Select(self.db),
            "SUBSCRIBE" | "PSUBSCRIBE" | "SSUBSCRIBE" | "UNSUBSCRIBE" | "PUNSUBSCRIBE" | "SUNSUBSCRIBE" => {
                Asked::Subscribe { left: head.arguments.max(1), answered: false }
            }
            "MONITOR" => Asked::Monitor,
            "SYNC" | "PSYNC" => Asked::Replicate,
            "RESET" => Asked::Reset,
            "MULTI" => {
                self.transaction = Transaction::Open;
                Asked::Plain
            }
            "DISCARD" | "EXEC" => match std::mem::take(&mut self.transaction) {
                Transaction::Takes if name == "EXEC" => Asked::Elements,
                _ => Asked::Plain,
            },
            "XADD" if !queued => Asked::Entry,
            _ if takes && !queued => Asked::Elements,
            _ => Asked::Plain,
        });
        Kind::Request
    }

    /// Says whether a reply answers, and which command.
    pub(super) fn answer(&mut self, head: &Reply<'_>) -> (Kind, Option<Asked>) {
        self.resp3 |= head.resp3;
        let first = match head.shape {
            Shape::Push(first) | Shape::Aggregate(first) => first.unwrap_or_default(),
            _ => b"",
        };
        let push = matches!(head.shape, Shape::Push(_));
        let pubsub = push || (matches!(head.shape, Shape::Aggregate(_)) && !self.resp3);
        if pubsub && is_confirmation(first) {
            match self.asked.front_mut() {
                Some(Asked::Subscribe { left, answered }) => {
                    let kind = if *answered { Kind::OneWay } else { Kind::Response };
                    *answered = true;
                    *left = left.saturating_sub(1);
                    if *left == 0 {
                        self.asked.pop_front();
                    }
                    self.subscribed = true;
                    return (kind, None);
                }
                _ if push || self.subscribed => return (Kind::OneWay, None),
                _ => {}
            }
        }
        if push {
            return (Kind::OneWay, None);
        }
        if pubsub && is_message(first) && (self.subscribed || self.asked.is_empty()) {
            self.subscribed = true;
            return (Kind::OneWay, None);
        }
        if let Shape::Simple(line) = head.shape {
            // MONITOR writes lines that start with a time.
            if self.monitor && line.first().is_some_and(u8::is_ascii_digit) {
                return (Kind::OneWay, None);
            }
        }
        let asked = self.asked.pop_front();
        let failed = matches!(head.shape, Shape::Error(_));
        match asked {
            Some(Asked::Select(before)) if failed => self.select(before),
            Some(Asked::Monitor) if !failed => self.monitor = true,
            Some(Asked::Reset) if !failed => {
                (self.monitor, self.subscribed) = (false, false);
                self.select(Some(0));
            }
            _ => {}
        }
        (Kind::Response, asked)
    }
}

fn is_message(first: &[u8]) -> bool {
    matches!(first, b"message" | b"pmessage" | b"smessage" | b"invalidate")
}

fn is_confirmation(first: &[u8]) -> bool {
    matches!(first, b"subscribe" | b"psubscribe" | b"ssubscribe" | b"unsubscribe" | b"punsubscribe" | b"sunsubscribe")
}
