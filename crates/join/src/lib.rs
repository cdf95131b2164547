//! Events of one host → spans. The joiner restores the order of bytes, recognises protocols, and pairs requests with
//! their responses.
//!
//! ```text
//! Event → table (connection) → stream (order, gaps) → probe (protocol) → parser → session (pairing) → Span
//!                                                                      ↘ flow (bytes not recognised) ↗
//! ```
//!
//! Beside it, bundles of connections become flow records ([`Windows`]).
//!
//! One [`Joiner`] belongs to one thread. It has no clock: time comes with the events and with [`Joiner::tick`].
//! [`JoinConfig`] bounds everything that it keeps, and [`JoinStats`] counts everything that it gives up.
#![forbid(unsafe_code)]

mod config;
mod conn;
mod contexts;
mod datagrams;
mod direction;
mod ends;
mod env;
mod errno;
mod flow;
mod infer;
mod joiner;
mod named;
mod order;
mod pending;
mod provisional;
mod resent;
mod session;
mod settle;
mod spans;
mod stats;
mod stream;
mod table;
mod tls;
mod verdict;
mod window;

pub use config::JoinConfig;
pub use joiner::{Joiner, Resources};
pub use settle::Failed;
pub use stats::JoinStats;
pub use verdict::{CopyRule, Verdict};
pub use window::{TrueEnds, WindowStats, Windows, FULL_BUNDLES};
