//! OTLP: traces → collector or file, and SDK spans → wirespan.
//!
//! - [`encode`]: traces → OTLP messages; [`json`]: OTLP messages ↔ OTLP/JSON; [`proto`]: the messages.
//! - [`file`]: `--otlp-file`; one request per line, as the OpenTelemetry collector's file exporter writes them.
//! - [`export`]: to a collector, by gRPC or HTTP.
//! - [`receive`]: from SDKs and collectors, by gRPC or HTTP.

pub mod encode;
pub mod export;
pub mod file;
mod grpc;
mod gzip;
pub mod json;
pub mod proto;
pub mod receive;

pub use encode::{encode_spans, encode_traces};
pub use export::{ExportConfig, ExportStatus, Exporter};
pub use file::OtlpFile;
pub use receive::{OtlpReceiver, ReceiveConfig, ReceiveStatus};
