//! Redis: RESP2 and RESP3 (redis.io, "Redis serialization protocol specification"); also Valkey, KeyDB, Dragonfly.
//!
//! - **secrets**: the command, its subcommand, and the *number* of arguments and keys are kept, never an argument (`SET
//!   ? ?`), unless the user lets the first key through; if an error comes from a script, or its command was not seen,
//!   only its code is kept
//! - **bodies**: arguments and replies are skipped by their lengths and never kept; bytes not captured are skipped
//!   exactly as long as they lie inside one string
//! - **pub/sub**: the confirmation answers the command; messages and further confirmations are one-way; the channel is
//!   `messaging.destination.name`
//! - **cluster**: `MOVED` and `ASK` are no errors: slot and node are `wirespan.redis.slot` and
//!   `wirespan.redis.redirect`
//! - `MONITOR`: the lines behind its `+OK` are one-way; nothing in them is kept
//! - `CLIENT REPLY OFF`/`SKIP`: commands that get no reply are one-way
//! - `PSYNC`, `SYNC`: the connection becomes a replication stream: [`Item::Upgrade`](wirespan_model::Item)
//! - **database**: `SELECT` is tracked, and undone when it fails; an unknown one (joined later) has no `db.namespace`
//! - **after a gap or nonsense**: the next chunk that starts like a command or a reply
//!
//! Memory: a few hundred bytes of an incomplete head per side, and one word per unanswered command.

pub mod commands;
pub mod detect;
mod elements;
mod emit;
mod head;
pub mod parse;
mod reply;
mod session;
mod stream;

#[cfg(test)]
mod tests;

use crate::{Detect, Keep, KeepKey, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// Reasons of [`Item::Malformed`](wirespan_model::Item) that this parser counts.
pub mod reason {
    /// No command where one has to start.
    pub const BAD_COMMAND: &str = "redis_bad_command";
    /// No reply where one has to start.
    pub const BAD_REPLY: &str = "redis_bad_reply";
    /// No element where one has to start, or a string longer than its length.
    pub const BAD_ELEMENT: &str = "redis_bad_element";
    /// Bytes outside of a string were not captured.
    pub const GAP: &str = "redis_gap";
    /// More unanswered commands than are remembered.
    pub const TOO_MANY_OUTSTANDING: &str = "redis_too_many_outstanding";
}

/// Redis.
#[derive(Clone, Copy, Debug)]
pub struct Redis;

impl Protocol for Redis {
    fn name(&self) -> L7 {
        "redis"
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        detect::detect(probe)
    }

    fn pairing(&self) -> Pairing {
        Pairing::InOrder
    }

    /// `MULTI` and what follows it leave in one call.
    fn pipelines(&self) -> bool {
        true
    }

    fn parser(&self, transport: Transport) -> Box<dyn Parser> {
        self.parser_with(transport, &Keep::default())
    }

    fn parser_with(&self, _transport: Transport, keep: &Keep) -> Box<dyn Parser> {
        Box::new(parse::RedisParser::showing(keep.keeps_keys(self.name())))
    }

    fn keepable(&self) -> &'static [KeepKey] {
        &[KeepKey::Keys]
    }
}
