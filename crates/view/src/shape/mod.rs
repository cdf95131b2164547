//! JSON shapes of the API: the data that leave this crate, independent of the model.
//!
//! Points in time are strings of Unix ns, because JavaScript's numbers lose digits beyond 2^53; durations and offsets
//! are numbers of ns. Attribute names follow the OpenTelemetry semantic conventions.

mod advice;
mod attributes;
mod calls;
mod flame;
pub mod fleet;
mod hop;
pub mod packets;
mod slow;
mod span;
mod status;
mod told;
mod trace;
mod waits;

pub use advice::what_to_do;
pub use attributes::attributes;
pub(crate) use calls::SpanCallsView;
pub(crate) use flame::FlameBoxView;
pub(crate) use fleet::FleetView;
pub(crate) use hop::HopView;
pub use hop::TimeView;
pub(crate) use packets::PacketsView;
pub(crate) use slow::SlowView;
pub use span::SpanView;
pub(crate) use span::{kind, LinkView, SpanLinkView, SpanList};
pub(crate) use status::StatusView;
pub use status::{AgentStatus, Counter, Memory, Stage};
pub(crate) use told::SdkToldView;
pub use trace::TraceView;
pub(crate) use trace::{summarise, TraceList};
pub(crate) use waits::SpanWaitsView;
