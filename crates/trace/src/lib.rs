//! Spans → traces.
//!
//! - [`assemble`]: from one span, its whole trace out of an index of spans (DeepFlow's Algorithm 1 is the
//!   specification: search by keys until nothing is added, then set parents by rules, then sort).
//! - [`link`]: the rules. Each link says its evidence and its confidence; the links of any set of spans form a forest.
//! - [`cross_hosts`]: times between points of different hosts, with their errors.
//! - [`hops`]: how long a request took from point to point, for terminal and page.
//! - [`fold`]: drivers' housekeeping out of the tree, into the calls to which it belongs.
//! - [`fill_links`]: links to other traces, through the messages of a broker.
//! - [`solve`]: the request that a call was made for, by time and structure, where no evidence is certain.
//! - [`Explainer`]: where the time of each request went.
//! - [`Stream`]: assembles traces from a live stream of spans, for export.
//! - [`tree`]: one trace as text or JSON.
//!
//! Bias: a span without a parent is honest, a wrong parent is not. Where evidence is silent there is no link.
#![forbid(unsafe_code)]

mod assemble;
mod crossings;
mod explain;
mod fold;
mod forest;
mod hops;
mod links;
mod related;
mod rules;
pub mod solve;
mod stream;
pub mod tree;

pub use assemble::{assemble, AssembleError, Limits, SpanIndex};
pub use crossings::{cross_hosts, crossing_spans};
pub use explain::{
    folded, Comparison, Explainer, Flame, FlameBox, FlameKind, Group, Held, Moment, MomentKind, Parts, RankedWait,
    Ranking, SdkStats, Side, Sides, Spent, Step, Story, Usual, UsualWaits, Waited,
};
pub use fold::{fold, is_noise};
pub use forest::{derived_trace_id, link};
pub use hops::{hops, Hop, Hops};
pub use links::fill_links;
pub use solve::{Solver, SolverConfig, SolverStats};
pub use stream::{Stream, StreamConfig, StreamStats};
