//! One trace for people and for programs.

mod json;
mod text;

pub use json::{spans_json, trace_json};
pub use text::{duration, hop_times, service_name, text, TextOptions};
