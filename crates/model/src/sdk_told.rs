//! What an SDK told of its span besides attributes: events, and links to other spans.

use crate::attr::{Attr, Value, SDK_TOLD};
use crate::span::{Span, SpanId, TraceId};
use crate::span_events::SpanEvent;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Events and links of an SDK's span. The parts that are kept are bounded where the span comes in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SdkTold {
    /// In the order in which they came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<SdkEvent>,
    /// In the order in which they came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<SdkLink>,
    /// Events that the SDK or wirespan left out.
    #[serde(default, skip_serializing_if = "crate::skip::is_default")]
    pub events_left_out: u32,
    /// Links that the SDK or wirespan left out.
    #[serde(default, skip_serializing_if = "crate::skip::is_default")]
    pub links_left_out: u32,
}

/// Something that the program noted during its span: an exception, a log record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SdkEvent {
    /// When, Unix ns.
    pub time_ns: u64,
    /// Its name: `exception`, or the program's own words.
    pub name: Box<str>,
    /// Its attributes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<Attr>,
}

/// Another span with which this one has to do, often of another trace: a batch names the messages that it works on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SdkLink {
    /// Trace of the other span.
    pub trace: TraceId,
    /// The other span.
    pub span: SpanId,
    /// Its attributes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<Attr>,
}

impl SdkTold {
    /// What a span carries of it; `None` if its SDK told no more than attributes.
    pub fn of(span: &Span) -> Option<Self> {
        serde_json::from_str(span.text(SDK_TOLD)?).ok()
    }

    /// The attribute that carries it within wirespan; `None` if there is nothing to carry.
    pub fn attribute(&self) -> Option<Attr> {
        let json = serde_json::to_string(self).unwrap_or_default();
        (*self != SdkTold::default()).then(|| (Cow::Borrowed(SDK_TOLD), Value::Str(json.into())))
    }
}

impl From<SdkEvent> for SpanEvent {
    fn from(event: SdkEvent) -> Self {
        SpanEvent { time_ns: event.time_ns, name: Cow::Owned(event.name.into()), attributes: event.attributes }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_was_told_comes_back_with_its_types() {
        let values = [Value::Int(3), Value::Float(2.0), Value::Bool(true), "two\nlines".into()];
        let attributes: Vec<Attr> = values.into_iter().map(|value| ("key".into(), value)).collect();
        let told = SdkTold {
            events: vec![SdkEvent { time_ns: u64::MAX, name: "looked".into(), attributes: attributes.clone() }],
            links: vec![SdkLink { trace: TraceId([7; 16]), span: SpanId(u64::MAX), attributes }],
            ..SdkTold::default()
        };
        let span = Span { attrs: vec![told.attribute().unwrap()], ..Span::default() };
        assert_eq!(SdkTold::of(&span), Some(told));
        assert_eq!(SdkTold::default().attribute(), None);
        assert_eq!(SdkTold::of(&Span::default()), None);
    }
}
