//! Attributes of a span as JSON.

use serde_json::{Map, Value as Json};
use wirespan_model::semconv;
use wirespan_model::{Attr, Span};

/// Every attribute of a span by its OpenTelemetry name: those of its resource, then its own.
pub fn attributes(span: &Span) -> Map<String, Json> {
    let mut map = json(semconv::resource_attributes(&span.resource, span.pid));
    map.extend(json(semconv::attributes(span)));
    if span.resource.service.is_empty() {
        // Other systems need a service name on export. Here it would be a service that no search can find.
        map.shift_remove("service.name");
    }
    map
}

/// Attributes as a JSON object.
pub(super) fn json(attributes: Vec<Attr>) -> Map<String, Json> {
    attributes.into_iter().map(|(key, value)| (key.into_owned(), value.to_json())).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use wirespan_model::Value;

    #[test]
    fn protocol_attributes_win_and_an_unknown_service_is_not_named() {
        let mut span = Span { protocol: "http".into(), operation: "GET".into(), ..Span::default() };
        span.attrs = vec![("http.request.method".into(), Value::from("HEAD")), ("x.zero".into(), Value::Int(0))];
        let map = attributes(&span);
        assert_eq!(map["http.request.method"], "HEAD");
        assert_eq!(map["x.zero"], 0);
        assert!(!map.contains_key("service.name"));
    }
}
