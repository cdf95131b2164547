//! Transport of spans into and out of a machine.
//!
//! - [`http`]: a server that slow clients cannot fill.
//! - [`link`]: agent → server, framed and acknowledged.
//! - [`otlp`]: OpenTelemetry's protocol, out (file, gRPC, HTTP) and in (gRPC, HTTP).
//! - [`metrics`]: counters of every stage and RED metrics of spans, as Prometheus text.
#![forbid(unsafe_code)]

#[cfg(feature = "fuzzed")]
pub mod fuzzed;
pub mod http;
pub mod link;
pub mod metrics;
pub mod otlp;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
pub use wirespan_model::Hosts;
use wirespan_model::{Flow, Span};

/// Why a sink did not take spans.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SinkError {
    /// Not now; the sender should try again.
    #[error("busy: {0}")]
    Busy(String),
    /// Never; the spans are lost and the sink has counted them.
    #[error("refused: {0}")]
    Refused(String),
}

/// The receiver of spans. Several threads call it; it may block, which slows the senders down.
pub type Sink = Arc<dyn Fn(Vec<Arc<Span>>) -> Result<(), SinkError> + Send + Sync>;

/// The receiver of flows, under the same conditions.
pub type FlowSink = Arc<dyn Fn(Vec<Flow>) -> Result<(), SinkError> + Send + Sync>;

/// Unix time, ns.
fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

/// Takes the lock even if a holder has panicked, because the mutexes of this crate guard counts and queues only.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
