//! Rate, errors and duration of requests, from spans: histograms with the names and labels of OpenTelemetry's semantic
//! conventions, as its Prometheus mapping writes them.
//!
//! | metric | spans |
//! |---|---|
//! | `http_server_request_duration_seconds` | HTTP, seen at the serving process |
//! | `http_client_request_duration_seconds` | HTTP, seen at the calling process |
//! | `db_client_operation_duration_seconds` | databases and caches, seen at the calling process |
//! | `rpc_server_call_duration_seconds`, `rpc_client_call_duration_seconds` | gRPC and the other RPC protocols, seen at either process |
//! | `dns_lookup_duration_seconds` | DNS, seen at the asking process |
//! | `wirespan_request_duration_seconds` | every other understood protocol, at either end |
//!
//! Labels have few values by nature: service, method, status, operation; no path, no query, no client. Spans beyond the
//! limit are counted in one series with `otel_metric_overflow="true"`, as OpenTelemetry SDKs do.

use super::Writer;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use wirespan_model::{Span, SpanKind, Status, TapSide, Value};

/// Bounds that the semantic conventions advise for durations of requests, seconds.
const BOUNDS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];

/// Limits of RED metrics.
#[derive(Clone, Debug)]
pub struct RedConfig {
    /// Most series; one takes about 500 bytes and 17 lines of text.
    pub max_series: usize,
}

impl Default for RedConfig {
    fn default() -> Self {
        RedConfig { max_series: 2000 }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Name {
    HttpServer,
    HttpClient,
    RpcServer,
    RpcClient,
    Db,
    Dns,
    Other,
}

impl Name {
    fn text(self) -> (&'static str, &'static str) {
        match self {
            Name::HttpServer => ("http_server_request_duration_seconds", "Duration of HTTP server requests"),
            Name::HttpClient => ("http_client_request_duration_seconds", "Duration of HTTP client requests"),
            Name::RpcServer => ("rpc_server_call_duration_seconds", "Duration of RPC server calls"),
            Name::RpcClient => ("rpc_client_call_duration_seconds", "Duration of RPC client calls"),
            Name::Db => ("db_client_operation_duration_seconds", "Duration of database client operations"),
            Name::Dns => ("dns_lookup_duration_seconds", "Duration of DNS look-ups"),
            Name::Other => ("wirespan_request_duration_seconds", "Duration of requests of other protocols"),
        }
    }
}

/// Value of a label before it is formatted.
#[derive(Clone, Copy)]
enum Part<'a> {
    Text(&'a str),
    Number(i64),
    Address(IpAddr),
}

impl Part<'_> {
    fn is_empty(self) -> bool {
        matches!(self, Part::Text(""))
    }
}

impl From<Part<'_>> for Box<str> {
    fn from(part: Part<'_>) -> Self {
        match part {
            Part::Text(s) => s.into(),
            Part::Number(n) => n.to_string().into(),
            Part::Address(ip) => ip.to_string().into(),
        }
    }
}

struct Series {
    name: Name,
    labels: Vec<(&'static str, Box<str>)>,
    counts: [u64; BOUNDS.len() + 1],
    sum: f64,
}

impl Series {
    fn new(name: Name, labels: Vec<(&'static str, Box<str>)>) -> Self {
        Series { name, labels, counts: [0; BOUNDS.len() + 1], sum: 0.0 }
    }

    fn add(&mut self, seconds: f64) {
        let bucket = BOUNDS.iter().position(|b| seconds <= *b).unwrap_or(BOUNDS.len());
        self.counts[bucket] += 1;
        self.sum += seconds;
    }
}

/// Aggregates spans. May be shared between threads.
#[derive(Default)]
pub struct RedMetrics {
    config: RedConfig,
    /// By hash of name and labels: a span that falls into a known series allocates nothing.
    series: Mutex<FxHashMap<u64, Series>>,
    overflowed: AtomicU64,
}

impl RedMetrics {
    /// Nothing yet.
    pub fn new(config: RedConfig) -> Self {
        RedMetrics { config, ..RedMetrics::default() }
    }

    /// Counts spans that are requests seen at one of their two processes; other observation points would count them
    /// twice.
    pub fn observe<'a>(&self, spans: impl IntoIterator<Item = &'a Span>) {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        spans.into_iter().for_each(|span| self.count(&mut series, span));
    }

    fn count(&self, series: &mut FxHashMap<u64, Series>, span: &Span) {
        let mut hasher = FxHasher::default();
        let Some(name) = visit(span, &mut |key, part| {
            key.hash(&mut hasher);
            match part {
                Part::Text(s) => s.hash(&mut hasher),
                Part::Number(n) => n.hash(&mut hasher),
                Part::Address(ip) => ip.hash(&mut hasher),
            }
        }) else {
            return;
        };
        name.hash(&mut hasher);
        let id = hasher.finish();
        let seconds = span.duration_ns() as f64 / 1e9;
        let full = series.len() >= self.config.max_series;
        if let Some(known) = series.get_mut(&id) {
            known.add(seconds);
        } else if full {
            self.overflowed.fetch_add(1, Relaxed);
            let overflow = || Series::new(name, vec![("otel_metric_overflow", "true".into())]);
            // The number of a name is used as the key: with overwhelming probability no hash is that small.
            series.entry(name as u64).or_insert_with(overflow).add(seconds);
        } else {
            let mut labels = Vec::new();
            visit(span, &mut |key, part| labels.push((key, part.into())));
            series.entry(id).or_insert_with(|| Series::new(name, labels)).add(seconds);
        }
    }

    /// Spans that were counted in the overflow series.
    pub fn overflowed(&self) -> u64 {
        self.overflowed.load(Relaxed)
    }

    /// Writes all series.
    pub fn write(&self, w: &mut Writer) {
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sorted: Vec<&Series> = series.values().collect();
        sorted.sort_by(|a, b| (a.name, &a.labels).cmp(&(b.name, &b.labels)));
        for Series { name, labels, counts, sum } in sorted {
            let (name, help) = name.text();
            let labels: Vec<(&str, &str)> = labels.iter().map(|(k, v)| (*k, &**v)).collect();
            w.histogram(name, help, &labels, &BOUNDS, counts, *sum);
        }
        drop(series);
        let help = "Spans counted without their labels, for there are too many series";
        w.counter("wirespan_red_overflow_total", help, &[], self.overflowed());
    }
}

/// Passes the labels of a span to `label` in order, and returns the span's metric. `None` if the span is not a request,
/// or was seen elsewhere.
fn visit<'a>(span: &'a Span, label: &mut impl FnMut(&'static str, Part<'a>)) -> Option<Name> {
    let counts = matches!(span.tap, TapSide::ClientProcess | TapSide::ServerProcess) || span.is_first_capture();
    // Without a request there is no duration, and bytes of an unknown protocol are no request.
    if !counts || span.status == Status::NoRequest || matches!(&*span.protocol, "" | "tcp" | "udp" | "unix") {
        return None;
    }
    let server = matches!(span.kind, SpanKind::Server | SpanKind::Consumer);
    let attr = |key: &str| {
        span.attrs.iter().find(|(k, _)| k == key).and_then(|(_, v)| match v {
            Value::Str(s) => Some(Part::Text(s)),
            Value::Int(n) => Some(Part::Number(*n)),
            Value::Float(_) | Value::Bool(_) => None,
        })
    };
    let mut add = |key, part: Part<'a>| {
        if !part.is_empty() {
            label(key, part);
        }
    };
    let operation = Part::Text(&span.operation);
    let code = span.status_code.map(|c| Part::Number(c.into()));
    let mut error = Part::Text(span.status.as_str());
    add("service_name", Part::Text(&span.resource.service));
    let name = match (&*span.protocol, server) {
        ("http" | "http2", _) => {
            add("http_request_method", Part::Text(known_method(&span.operation)));
            if let Some(code) = code {
                add("http_response_status_code", code);
                error = code;
            }
            if server {
                Name::HttpServer
            } else {
                add("server_address", attr("server.address").unwrap_or(Part::Address(span.tuple.server.ip)));
                add("server_port", Part::Number(span.tuple.server.port.into()));
                Name::HttpClient
            }
        }
        ("dns", false) => {
            add("dns_question_type", operation);
            Name::Dns
        }
        (protocol, server) => match (attr("rpc.system.name"), attr("db.system.name").filter(|_| !server)) {
            (Some(system), _) => {
                add("rpc_system_name", system);
                add("rpc_method", attr("rpc.method").unwrap_or(operation));
                if let Some(code) = attr("rpc.status_code").or(code) {
                    add("rpc_status_code", code);
                    error = attr("error.type").unwrap_or(code);
                }
                if server {
                    Name::RpcServer
                } else {
                    Name::RpcClient
                }
            }
            (None, Some(system)) => {
                add("db_system_name", system);
                add("db_operation_name", attr("db.operation.name").unwrap_or(operation));
                Name::Db
            }
            (None, None) => {
                add("protocol", Part::Text(protocol));
                add("span_kind", Part::Text(if server { "server" } else { "client" }));
                Name::Other
            }
        },
    };
    if span.status.is_error(span.kind) {
        add("error_type", error);
    }
    Some(name)
}

/// The client may invent methods; the conventions call unknown ones `_OTHER`.
fn known_method(method: &str) -> &str {
    const KNOWN: [&str; 9] = ["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS", "CONNECT", "TRACE"];
    if KNOWN.contains(&method) {
        method
    } else {
        "_OTHER"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Registry;
    use wirespan_model::test_support::SpanBuilder;

    fn http(kind: SpanKind, tap: TapSide, code: i32, ms: u64) -> Span {
        let status = if code < 500 { Status::Ok } else { Status::ServerError };
        let span = SpanBuilder::at(0, tap).request("http", "GET", "/never/a/label").time(1, 1 + ms * 1_000_000);
        Span { kind, ..span.status(status, code).service("cart").build() }
    }

    fn text(red: RedMetrics) -> String {
        let registry = Registry::new();
        registry.add(move |w| red.write(w));
        registry.render()
    }

    #[test]
    fn requests_are_counted_once_and_named_as_opentelemetry_names_them() {
        let red = RedMetrics::default();
        red.observe([&http(SpanKind::Server, TapSide::ServerProcess, 200, 3)]);
        red.observe([&http(SpanKind::Server, TapSide::ServerProcess, 200, 60)]);
        red.observe([&http(SpanKind::Server, TapSide::ServerProcess, 503, 20_000)]);
        red.observe([&http(SpanKind::Server, TapSide::ServerNic, 200, 3)]);
        red.observe([&http(SpanKind::Server, TapSide::App, 200, 3)]);
        red.observe([&http(SpanKind::Client, TapSide::ClientProcess, 200, 3)]);
        let out = text(red);
        let ok = r#"{service_name="cart",http_request_method="GET",http_response_status_code="200""#;
        assert!(out.contains(&format!("http_server_request_duration_seconds_bucket{ok},le=\"0.005\"}} 1\n")), "{out}");
        assert!(out.contains(&format!("http_server_request_duration_seconds_bucket{ok},le=\"0.075\"}} 2\n")), "{out}");
        assert!(out.contains(&format!("http_server_request_duration_seconds_count{ok}}} 2\n")), "{out}");
        assert!(out.contains(&format!("http_server_request_duration_seconds_sum{ok}}} 0.063\n")), "{out}");
        assert!(out.contains(r#"http_response_status_code="503",error_type="503",le="10"} 0"#), "{out}");
        assert!(out.contains(r#"http_response_status_code="503",error_type="503",le="+Inf"} 1"#), "{out}");
        assert!(out.contains("http_client_request_duration_seconds_count{"), "{out}");
        assert!(!out.contains("/never"), "{out}");
    }

    #[test]
    fn series_are_bounded() {
        let red = RedMetrics::new(RedConfig { max_series: 3 });
        for i in 0..10 {
            let mut span = http(SpanKind::Server, TapSide::ServerProcess, 200 + i, 1);
            span.operation = "BREW".into();
            red.observe([&span]);
        }
        assert_eq!(red.overflowed(), 7);
        let out = text(red);
        assert!(out.contains(r#"_count{otel_metric_overflow="true"} 7"#), "{out}");
        assert!(out.contains(r#"http_request_method="_OTHER""#), "{out}");
    }

    #[test]
    fn other_protocols_have_their_own_names() {
        let red = RedMetrics::default();
        let span = |protocol: &'static str| Span {
            protocol: protocol.into(),
            ..http(SpanKind::Client, TapSide::ClientProcess, 0, 1)
        };
        red.observe([&Span { attrs: vec![("db.system.name".into(), "redis".into())], ..span("redis") }]);
        let call = |code: &str| {
            let named = |(key, value): (&'static str, &str)| (key.into(), Value::from(value));
            [("rpc.system.name", "grpc"), ("rpc.method", "shop.Cart/Add"), ("rpc.status_code", code)]
                .map(named)
                .to_vec()
        };
        red.observe([&Span { attrs: call("OK"), ..span("grpc") }]);
        let failed = Span { attrs: call("UNAVAILABLE"), status: Status::ServerError, ..span("grpc") };
        red.observe([&Span { kind: SpanKind::Server, tap: TapSide::ServerProcess, ..failed }]);
        red.observe([&span("dns")]);
        red.observe([&span("kafka")]);
        red.observe([&span("tcp")]);
        let out = text(red);
        for want in [
            concat!(
                r#"db_client_operation_duration_seconds_count{service_name="cart",db_system_name="redis","#,
                r#"db_operation_name="GET"} 1"#
            ),
            concat!(
                r#"rpc_client_call_duration_seconds_count{service_name="cart",rpc_system_name="grpc","#,
                r#"rpc_method="shop.Cart/Add",rpc_status_code="OK"} 1"#
            ),
            concat!(
                r#"rpc_server_call_duration_seconds_count{service_name="cart",rpc_system_name="grpc","#,
                r#"rpc_method="shop.Cart/Add",rpc_status_code="UNAVAILABLE",error_type="UNAVAILABLE"} 1"#
            ),
            r#"dns_lookup_duration_seconds_count{service_name="cart",dns_question_type="GET"} 1"#,
            r#"wirespan_request_duration_seconds_count{service_name="cart",protocol="kafka",span_kind="client"} 1"#,
        ] {
            assert!(out.contains(want), "{want}\n{out}");
        }
        assert!(!out.contains("tcp"));
    }
}
