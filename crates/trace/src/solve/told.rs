//! What the inference has written on a span.

use super::CONFIDENCE;
use wirespan_model::attr::CAUSE_SPAN;
use wirespan_model::{Span, SpanId, Value};

/// The span of the request, if its exchange names several requests and it is known which of them counts.
pub(crate) fn request(span: &Span) -> Option<SpanId> {
    span.text(CAUSE_SPAN).and_then(|id| u64::from_str_radix(id, 16).ok()).map(SpanId)
}

/// Confidence of the cause of a span, if it was inferred here.
pub(crate) fn confidence(span: &Span) -> Option<f32> {
    span.attrs.iter().find_map(|(key, value)| match value {
        Value::Float(c) if key == CONFIDENCE => Some(*c as f32),
        _ => None,
    })
}
