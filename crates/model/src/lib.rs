//! Shared nouns of wirespan, and no logic. Every other crate uses these types.
//!
//! Read them in the order of the data flow: [`event`] (what the kernel observed) → [`message`] (what the bytes mean) →
//! [`span`] (one request and its response at one tap side) → [`trace`] (spans joined by evidence). Beside it stands
//! [`flow`]: how much two addresses exchanged, without the bytes.
//!
//! Times are nanoseconds since the Unix epoch (`u64`), lengths are bytes, and identifiers are integers
//! unless a type says otherwise.
#![forbid(unsafe_code)]

pub mod attr;
pub mod broker;
mod calls;
mod clocks;
pub mod event;
pub mod flow;
pub mod hop;
pub mod hosts;
pub mod housekeeping;
pub mod key;
mod listed;
pub mod message;
pub mod near;
pub mod net;
pub mod order;
pub mod packet;
pub mod percent;
pub mod plain;
pub mod process_context;
pub mod sdk;
mod sdk_told;
pub mod semconv;
mod skip;
pub mod span;
mod span_events;
pub mod stack;
pub mod syscalls;
#[cfg(any(test, feature = "test-support"))]
pub mod test_support;
pub mod time;
pub mod trace;
pub mod wait;
mod wire;

pub use attr::{Attr, Text, Value};
pub use calls::waits_for_work;
pub use event::{DataEvent, Direction, Event, Role, SocketEvent, SocketId, TaskEvent};
pub use flow::{Bundle, BundleKey, Flow, FlowCounts, FlowKey, Log2Histogram};
pub use hosts::Hosts;
pub use housekeeping::Housekeeping;
pub use key::{Key, KeyKind};
pub use message::{AttrVal, Body, Carried, Chunk, Item, Kind, Late, Message, Outcome, Side, L7};
pub use net::{Endpoint, FiveTuple, Transport};
pub use sdk_told::{SdkEvent, SdkLink, SdkTold};
pub use span::{ExchangeRange, Resource, Span, SpanId, SpanKind, Status, TapSide, TcpHealth, TraceId};
pub use span_events::{span_events, SpanEvent};
pub use time::{Latency, TimeRange};
pub use trace::{Evidence, ParentLink, SpanLink, Trace, TraceSpan};
