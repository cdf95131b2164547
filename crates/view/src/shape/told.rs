//! Events and links of an SDK's span, as JSON.

use super::attributes::json;
use super::span::AttributeValue;
use serde::Serialize;
use serde_json::{Map, Value as Json};
use utoipa::ToSchema;
use wirespan_model::{SdkTold, Span};

/// What the SDK told of its span besides attributes.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SdkToldView {
    /// What the program noted, by time.
    pub events: Vec<SdkEventView>,
    /// Other spans with which this one has to do.
    pub links: Vec<SdkLinkView>,
    /// Events that the SDK or wirespan left out.
    pub events_left_out: u32,
    /// Links that the SDK or wirespan left out.
    pub links_left_out: u32,
}

/// Something that the program noted during its span.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SdkEventView {
    /// `exception`, or the program's own words.
    pub name: String,
    /// Since the start of the span, ns; negative if it was before.
    pub offset_ns: i64,
    /// Its attributes.
    #[schema(value_type = std::collections::HashMap<String, AttributeValue>)]
    pub attributes: Map<String, Json>,
}

/// Another span that the SDK named.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SdkLinkView {
    /// Trace of the other span, 32 hex digits.
    pub trace_id: String,
    /// The other span, 16 hex digits.
    pub span_id: String,
    /// Attributes of the link.
    #[schema(value_type = std::collections::HashMap<String, AttributeValue>)]
    pub attributes: Map<String, Json>,
}

impl SdkToldView {
    /// What a span carries; `None` if its SDK told no more than attributes.
    pub(crate) fn of(span: &Span) -> Option<Self> {
        let told = SdkTold::of(span)?;
        let mut events: Vec<SdkEventView> = told
            .events
            .into_iter()
            .map(|event| SdkEventView {
                name: event.name.into(),
                offset_ns: event.time_ns.wrapping_sub(span.start_ns).cast_signed(),
                attributes: json(event.attributes),
            })
            .collect();
        events.sort_by_key(|event| event.offset_ns);
        let links = told.links.into_iter().map(|link| SdkLinkView {
            trace_id: link.trace.to_string(),
            span_id: link.span.to_string(),
            attributes: json(link.attributes),
        });
        Some(SdkToldView {
            events,
            links: links.collect(),
            events_left_out: told.events_left_out,
            links_left_out: told.links_left_out,
        })
    }
}
