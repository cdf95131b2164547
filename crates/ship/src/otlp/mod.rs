//! OTLP: traces → collector or file, and SDK spans → wirespan.
//!
//! - [`encode`]: traces → OTLP messages; [`json`]: OTLP messages ↔ OTLP/JSON.
//! - [`file`]: `--otlp-file`; one request per line, as the OpenTelemetry collector's file exporter writes them.
//! - [`proto`]: the messages.

pub mod encode;
pub mod file;
pub mod json;
pub mod proto;

pub use encode::{encode_spans, encode_traces};
pub use file::OtlpFile;
