//! Attributes of a span by their OpenTelemetry names, as JSON.

use serde_json::{Map, Value as Json};
use wirespan_model::{semconv, Span};

/// Every attribute of a span and of its resource. On an equal key the resource's stands.
pub fn attributes(span: &Span) -> Map<String, Json> {
    let mut map = Map::new();
    let resource = semconv::resource_attributes(&span.resource, span.pid);
    for (key, value) in resource.into_iter().chain(semconv::attributes(span)) {
        map.entry(key.into_owned()).or_insert_with(|| value.to_json());
    }
    map
}
