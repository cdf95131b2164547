//! tshark as the independent oracle: our parsers must read every message of a capture that tshark reads.
//!
//! Lives here because `wirespan-pcap` (captures → bytes in order) depends on the model only: no cycle. One module per
//! protocol under `oracle/`; each difference that is not a fault of ours is listed there, with its reason in
//! `docs/protocols/differences.md`. Captures and tshark are optional: a test without them is reported as skipped.
//!
//! A protocol's module has three steps, see `oracle/redis.rs`:
//!
//! 1. [`ours::read`]: the capture through [`wirespan_decode::infer`] and the parser that it names;
//! 2. [`tshark::fields`] or [`tshark::json`]: the same capture, rows or trees per packet, written as [`Said`] lists;
//! 3. [`compare::check`]: both, per pair of ends and in order, against the list of explained differences.
#![allow(
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    unreachable_pub,
    dead_code
)]

#[path = "oracle/compare.rs"]
mod compare;
#[path = "oracle/folders.rs"]
mod folders;
#[path = "oracle/ours.rs"]
mod ours;
#[path = "oracle/tshark.rs"]
mod tshark;

// One line per protocol.
#[path = "oracle/amqp.rs"]
mod amqp;
#[path = "oracle/kafka.rs"]
mod kafka;
#[path = "oracle/memcached.rs"]
mod memcached;
#[path = "oracle/mongodb.rs"]
mod mongodb;
#[path = "oracle/mqtt.rs"]
mod mqtt;
#[path = "oracle/mysql.rs"]
mod mysql;
#[path = "oracle/openwire.rs"]
mod openwire;
#[path = "oracle/postgresql.rs"]
mod postgresql;
#[path = "oracle/pulsar.rs"]
mod pulsar;
#[path = "oracle/redis.rs"]
mod redis;
#[path = "oracle/rocketmq.rs"]
mod rocketmq;
#[path = "oracle/rpc.rs"]
mod rpc;
#[path = "oracle/tls.rs"]
mod tls;
#[path = "oracle/web.rs"]
mod web;

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use wirespan_model::{Endpoint, Kind};

/// Both ends of a conversation, the smaller first.
pub type Ends = (Endpoint, Endpoint);

/// Two endpoints in the order of [`Ends`].
pub fn ends(a: Endpoint, b: Endpoint) -> Ends {
    (a.min(b), a.max(b))
}

/// One message, as either reader puts it. What a protocol (or tshark) has no word for stays empty on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The end that sent it.
    pub from: Endpoint,
    /// Its part.
    pub kind: Kind,
    /// Operation.
    pub operation: String,
    /// Target.
    pub target: String,
    /// Status of a response.
    pub status: String,
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.from, self.kind)?;
        for word in [&self.operation, &self.target, &self.status] {
            if !word.is_empty() {
                write!(f, " {word}")?;
            }
        }
        Ok(())
    }
}

/// What a reader says of a capture.
pub type Reading = BTreeMap<Ends, Vec<Said>>;

/// The captures of a folder of `../shared/pcaps` (or of `WIRESPAN_PCAPS`), sorted; none, noted as skipped, if they or
/// tshark are missing.
pub fn captures(test: &str, folder: &str) -> Vec<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/pcaps");
    let root = std::env::var_os("WIRESPAN_PCAPS").map_or(beside, PathBuf::from);
    let mut found: Vec<PathBuf> = std::fs::read_dir(root.join(folder))
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|file| file.extension().is_some_and(|e| e == "pcap" || e == "pcapng" || e == "cap"))
        .collect();
    found.sort();
    if found.is_empty() {
        skip(test, "no captures beside the project (set WIRESPAN_PCAPS)");
    } else if !tshark::is_there() {
        skip(test, "tshark is missing (scripts/deps test)");
        found.clear();
    }
    found
}

fn skip(test: &str, reason: &str) {
    eprintln!("SKIPPED {test}: {reason}");
    if let Some(log) = std::env::var_os("WIRESPAN_SKIPS") {
        let mut log = std::fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
        writeln!(log, "{test}: {reason}").unwrap();
    }
}
