//! Attributes of a span by their OpenTelemetry names: the one list that OTLP, the API and the command line share.
//!
//! An attribute from the protocol's parser comes first, and replaces a derived one. The prefix `wirespan.` is for facts
//! that no convention names.

use crate::attr::{Attr, Value, CALLS, CALLS_AS, SDK_TOLD, WAITS};
use crate::net::{Endpoint, Transport};
use crate::span::{Resource, Span, SpanKind, Status, TapSide};
use crate::syscalls::SpanCalls;
use std::borrow::Cow;

/// Release of the semantic conventions that define the names.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.45.0";

/// Names of gRPC's status codes in the semantic conventions, from code 0.
pub const GRPC_STATUS: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

struct Attributes(Vec<Attr>);

impl Attributes {
    fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        if !self.0.iter().any(|(k, _)| k == key) {
            self.0.push((Cow::Borrowed(key), value.into()));
        }
    }

    fn text(&mut self, key: &'static str, value: &str) {
        if !value.is_empty() {
            self.set(key, value);
        }
    }

    fn known(&mut self, key: &'static str, value: u64) {
        if value != 0 {
            self.number(key, value);
        }
    }

    fn number(&mut self, key: &'static str, value: u64) {
        self.set(key, i64::try_from(value).unwrap_or(i64::MAX));
    }

    fn end(&mut self, address: &'static str, port: &'static str, end: Endpoint) {
        if end != Endpoint::UNSPECIFIED {
            self.set(address, end.ip.to_string());
            self.known(port, u64::from(end.port));
        }
    }
}

/// Attributes of the span itself.
pub fn attributes(span: &Span) -> Vec<Attr> {
    let mut a = Attributes(Vec::with_capacity(span.attrs.len() + 28));
    let is_shown = |(key, _): &&Attr| ![WAITS, CALLS, CALLS_AS, SDK_TOLD].contains(&&**key);
    a.0.extend(span.attrs.iter().filter(is_shown).cloned());
    if let Some(calls) = SpanCalls::of(span) {
        a.0.extend(calls.attributes());
    }
    let is_sdk = span.tap == TapSide::App;
    if !is_sdk {
        by_protocol(span, &mut a);
    }
    network(span, &mut a);
    if span.status.is_error(span.kind) && !is_sdk {
        let code = span.status_code.map(|c| c.to_string());
        a.text("error.type", code.as_deref().unwrap_or(span.status.as_str()));
    }
    a.text("wirespan.error.message", &span.error);
    a.known("thread.id", u64::from(span.tid));
    if span.tid != 0 {
        a.text("thread.name", &span.comm);
    }
    a.text("wirespan.tap_side", span.tap.as_str());
    if is_sdk {
        return a.0;
    }
    a.text("wirespan.status", span.status.as_str());
    a.number("wirespan.request.bytes", span.request_bytes);
    a.number("wirespan.response.bytes", span.response_bytes);
    if span.response_ns > span.start_ns && span.status != Status::NoRequest {
        a.number("wirespan.first_byte_ns", span.response_ns - span.start_ns);
    }
    for (key, seq) in [("wirespan.tcp.request_seq", span.request_seq), ("wirespan.tcp.response_seq", span.response_seq)]
    {
        if let Some(seq) = seq {
            a.number(key, u64::from(seq));
        }
    }
    a.known("wirespan.tcp.srtt_ns", span.tcp.srtt_ns);
    a.known("wirespan.tcp.retransmits", u64::from(span.tcp.retransmits));
    a.known("wirespan.tcp.resets", u64::from(span.tcp.resets));
    a.known("wirespan.tcp.connect_ns", span.tcp.connect_ns);
    a.known("wirespan.tcp.queue_ns", u64::from(span.tcp.queue_us) * 1000);
    a.known("wirespan.socket", span.socket);
    a.known("wirespan.coroutine", span.coroutine);
    a.text("wirespan.request_id", span.request_id.as_deref().unwrap_or(""));
    a.0
}

/// Attributes derived from operation, target and status, unless the parser gave its own.
fn by_protocol(span: &Span, a: &mut Attributes) {
    match &*span.protocol {
        "http" => {
            a.text("http.request.method", &span.operation);
            a.text("url.path", &span.target);
            if let Some(code) = span.status_code {
                a.set("http.response.status_code", i64::from(code));
            }
        }
        "dns" => a.text("dns.question.name", &span.target),
        "redis" => {
            a.text("db.system.name", "redis");
            a.text("db.operation.name", &span.operation);
        }
        // `status_code` is HTTP's; the parser gives the call's own status.
        "http2" | "grpc" => {}
        _ => {
            let call = span.tap != TapSide::App && span.attrs.iter().any(|(key, _)| key == "rpc.system.name");
            if let Some(code) = span.status_code.filter(|_| call) {
                a.text("rpc.status_code", &code.to_string());
            }
        }
    }
}

/// Attributes of the ends and the transport.
fn network(span: &Span, a: &mut Attributes) {
    let t = &span.tuple;
    let unix = matches!(t.transport, Transport::UnixStream | Transport::UnixDgram);
    // An SDK span often has no address at all.
    if t.client == Endpoint::UNSPECIFIED && t.server == Endpoint::UNSPECIFIED && !unix {
        return;
    }
    a.text("network.transport", t.transport.as_str());
    if !matches!(&*span.protocol, "" | "tcp" | "udp" | "unix") {
        a.text("network.protocol.name", &span.protocol);
    }
    if unix {
        return;
    }
    a.text("network.type", if t.server.ip.is_ipv4() { "ipv4" } else { "ipv6" });
    a.end("client.address", "client.port", t.client);
    a.end("server.address", "server.port", t.server);
    // Captures and devices are observed from the end that asks, whatever the kind of the span.
    let at_process = matches!(span.tap, TapSide::App | TapSide::ClientProcess | TapSide::ServerProcess);
    let server_side = matches!(span.kind, SpanKind::Server | SpanKind::Consumer) && at_process;
    a.end("network.peer.address", "network.peer.port", if server_side { t.client } else { t.server });
}

/// Attributes of the resource, with the process id of one of its spans.
pub fn resource_attributes(resource: &Resource, pid: u32) -> Vec<Attr> {
    let mut a = Attributes(Vec::with_capacity(8 + resource.extra.len()));
    // The specification requires a name, and gives this one to a resource without.
    a.text("service.name", if resource.service.is_empty() { "unknown_service" } else { &resource.service });
    a.text("host.name", &resource.host);
    a.known("process.pid", u64::from(pid));
    a.text("process.executable.path", &resource.executable);
    a.text("process.executable.name", resource.executable.rsplit('/').next().unwrap_or(""));
    a.text("container.id", &resource.container);
    for (key, value) in &resource.extra {
        a.0.push((Cow::Owned(key.to_string()), Value::Str(value.as_ref().into())));
    }
    a.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::SpanBuilder;

    #[test]
    fn the_parsers_attributes_win_and_empty_values_are_left_out() {
        let span = SpanBuilder::server(0)
            .request("http", "GET", "/cart")
            .status(Status::ServerError, 503)
            .attr("http.request.method", "HEAD")
            .build();
        let a = attributes(&span);
        let get = |key: &str| a.iter().filter(|(k, _)| k == key).map(|(_, v)| v.to_string()).collect::<Vec<_>>();
        assert_eq!(get("http.request.method"), ["HEAD"]);
        assert_eq!(get("url.path"), ["/cart"]);
        assert_eq!(get("error.type"), ["503"]);
        assert!(get("server.port").is_empty() && get("thread.id").is_empty() && get("network.transport").is_empty());
        assert_eq!(resource_attributes(&span.resource, 0).len(), 1, "only the name that stands for none");
    }
}
