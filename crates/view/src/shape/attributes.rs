//! Attributes of a span by their OpenTelemetry names.

use serde_json::{Map, Value as Json};
use wirespan_model::{Span, SpanKind, Transport};

/// Every attribute of a span: those of its resource and connection, those the protocol gave, and, where the protocol gave
/// none, those that follow from operation, target and status code.
pub fn attributes(span: &Span) -> Map<String, Json> {
    let mut map = Map::new();
    let mut put = |key: &str, value: Json| {
        let empty = match &value {
            Json::String(s) => s.is_empty(),
            Json::Number(n) => n.as_u64() == Some(0),
            _ => false,
        };
        if !empty {
            map.insert(key.to_owned(), value);
        }
    };
    let resource = &span.resource;
    put("service.name", resource.service.as_ref().into());
    put("host.name", resource.host.as_ref().into());
    put("process.executable.path", resource.executable.as_ref().into());
    put("process.pid", span.pid.into());
    put("thread.id", span.tid.into());
    put("thread.name", span.comm.as_ref().into());
    put("container.id", resource.container.as_ref().into());
    for (key, value) in &resource.extra {
        put(key, value.as_ref().into());
    }
    put("network.transport", span.tuple.transport.as_str().into());
    if matches!(span.tuple.transport, Transport::Tcp | Transport::Udp) && span.tuple.client.port != 0 {
        let version = if span.tuple.server.ip.is_ipv4() { "ipv4" } else { "ipv6" };
        put("network.type", version.into());
        put("network.protocol.name", span.protocol.as_ref().into());
        put("client.address", span.tuple.client.ip.to_string().into());
        put("client.port", span.tuple.client.port.into());
        put("server.address", span.tuple.server.ip.to_string().into());
        put("server.port", span.tuple.server.port.into());
        let peer = if span.kind == SpanKind::Server { span.tuple.client } else { span.tuple.server };
        put("network.peer.address", peer.ip.to_string().into());
        put("network.peer.port", peer.port.into());
    }
    put("error.type", span.error.as_ref().into());
    by_protocol(span, &mut put);
    for (key, value) in &span.attrs {
        map.insert(key.to_string(), value.to_json());
    }
    map
}

fn by_protocol(span: &Span, put: &mut impl FnMut(&str, Json)) {
    let (operation, target) = (span.operation.as_ref(), span.target.as_ref());
    match span.protocol.as_ref() {
        "http" => {
            put("http.request.method", operation.into());
            put("url.path", target.split('?').next().unwrap_or_default().into());
            put("url.query", target.split_once('?').map_or("", |(_, query)| query).into());
            put("http.response.status_code", span.status_code.unwrap_or(0).into());
        }
        "dns" => {
            put("dns.question.name", target.into());
        }
        "redis" => {
            put("db.system.name", "redis".into());
            put("db.operation.name", operation.into());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use wirespan_model::{Endpoint, Value};

    #[test]
    fn protocol_attributes_win_and_nothing_empty_is_shown() {
        let mut span = Span { protocol: "http".into(), kind: SpanKind::Server, ..Span::default() };
        span.operation = "GET".into();
        span.target = "/cart?id=7".into();
        span.status_code = Some(200);
        span.tuple.client = Endpoint { port: 4711, ..Endpoint::UNSPECIFIED };
        span.attrs = vec![("http.request.method".into(), Value::from("HEAD")), ("x.zero".into(), Value::Int(0))];
        let map = attributes(&span);
        assert_eq!(map["http.request.method"], "HEAD");
        assert_eq!(map["url.path"], "/cart");
        assert_eq!(map["url.query"], "id=7");
        assert_eq!(map["http.response.status_code"], 200);
        assert_eq!(map["network.peer.port"], 4711);
        assert_eq!(map["x.zero"], 0);
        for absent in ["service.name", "container.id", "process.pid", "server.port"] {
            assert!(!map.contains_key(absent), "{absent}");
        }
    }
}
