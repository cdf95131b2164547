//! Events of one host → spans: order restored, protocols recognised, requests paired with their responses.
//!
//! ```text
//! Event → table (connection) → stream (order, gaps) → probe (protocol) → parser → session (pairing) → Span
//!                                                                      ↘ flow (bytes not understood) ↗
//! ```
//!
//! One [`Joiner`] belongs to one thread. It keeps no clock: time comes with the events and with [`Joiner::tick`].
//! Everything it keeps is bounded by [`JoinConfig`]; what it gives up is counted in [`JoinStats`].
#![forbid(unsafe_code)]

mod config;
mod conn;
mod direction;
mod errno;
mod flow;
mod infer;
mod joiner;
mod naming;
mod pending;
mod resent;
mod session;
mod settle;
mod spans;
mod stats;
mod stream;
mod table;
mod tls;
mod verdict;

pub use config::JoinConfig;
pub use joiner::{Joiner, Resources};
pub use stats::JoinStats;
pub use verdict::{CopyRule, Verdict};
