//! OTLP: traces and metrics → collector or file, and SDK spans → wirespan.
//!
//! - [`encode`]: traces → OTLP messages; [`json`]: OTLP messages ↔ OTLP/JSON; [`proto`]: the messages.
//! - `metrics`: the metrics of `/metrics` → OTLP messages.
//! - [`file`]: `--otlp-file`; one request per line, as the OpenTelemetry collector's file exporter writes them.
//! - [`export`]: to a collector, by gRPC or HTTP.
//! - [`receive`]: from SDKs and collectors, by gRPC or HTTP.

pub mod encode;
pub mod export;
pub mod file;
mod grpc;
mod gzip;
pub mod json;
mod metrics;
pub mod proto;
pub mod receive;

pub use encode::{encode_spans, encode_traces};
pub use export::{ExportConfig, ExportStatus, Exporter, MetricsExporter, MetricsStatus};
pub use file::OtlpFile;
pub use receive::{OtlpReceiver, ReceiveConfig, ReceiveStatus};

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// Resource attribute by which a receiver recognises spans that its own process exported. `OTEL_EXPORTER_OTLP_ENDPOINT`
/// is often set for a whole machine, so the export endpoint may be our own receiver; without this attribute spans would
/// go round for ever.
pub(crate) const INSTANCE_KEY: &str = "wirespan.instance.id";

/// Random id of this process.
pub fn instance_id() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| format!("{:016x}", RandomState::new().hash_one(std::process::id())))
}
