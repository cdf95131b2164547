//! Rate, errors and duration of requests, from spans: histograms with the names and labels of OpenTelemetry's semantic
//! conventions, as its Prometheus mapping writes them.
//!
//! | metric | spans |
//! |---|---|
//! | `http_server_request_duration_seconds` | HTTP, seen at the serving process |
//! | `http_client_request_duration_seconds` | HTTP, seen at the calling process |
//! | `db_client_operation_duration_seconds` | databases and caches, seen at the calling process |
//! | `dns_lookup_duration_seconds` | DNS, seen at the asking process |
//! | `wirespan_request_duration_seconds` | every other understood protocol, at either end |
//!
//! Labels have few values by nature: service, method, status, operation; no path, no query, no client. What still exceeds
//! the limit is counted in one series with `otel_metric_overflow="true"`, as OpenTelemetry SDKs do.

use super::Writer;
use rustc_hash::FxHashMap;
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
    Db,
    Dns,
    Other,
}

impl Name {
    fn text(self) -> (&'static str, &'static str) {
        match self {
            Name::HttpServer => ("http_server_request_duration_seconds", "Duration of HTTP server requests"),
            Name::HttpClient => ("http_client_request_duration_seconds", "Duration of HTTP client requests"),
            Name::Db => ("db_client_operation_duration_seconds", "Duration of database client operations"),
            Name::Dns => ("dns_lookup_duration_seconds", "Duration of DNS look-ups"),
            Name::Other => ("wirespan_request_duration_seconds", "Duration of requests of other protocols"),
        }
    }
}

type Labels = Vec<(&'static str, Box<str>)>;

#[derive(Default)]
struct Histogram {
    counts: [u64; BOUNDS.len() + 1],
    sum: f64,
}

/// Aggregates spans. May be shared between threads.
#[derive(Default)]
pub struct RedMetrics {
    config: RedConfig,
    series: Mutex<FxHashMap<(Name, Labels), Histogram>>,
    overflowed: AtomicU64,
}

impl RedMetrics {
    /// Nothing yet.
    pub fn new(config: RedConfig) -> Self {
        RedMetrics { config, ..RedMetrics::default() }
    }

    /// Counts a span, if it is a request seen at one of its two processes; other observation points would count it twice.
    pub fn observe(&self, span: &Span) {
        let Some((name, labels)) = key(span) else { return };
        let seconds = span.duration_ns() as f64 / 1e9;
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let full = series.len() >= self.config.max_series;
        let key = (name, labels);
        let histogram = if full && !series.contains_key(&key) {
            self.overflowed.fetch_add(1, Relaxed);
            series.entry((name, vec![("otel_metric_overflow", "true".into())])).or_default()
        } else {
            series.entry(key).or_default()
        };
        let bucket = BOUNDS.iter().position(|b| seconds <= *b).unwrap_or(BOUNDS.len());
        histogram.counts[bucket] += 1;
        histogram.sum += seconds;
    }

    /// Spans that were counted in the overflow series.
    pub fn overflowed(&self) -> u64 {
        self.overflowed.load(Relaxed)
    }

    /// Writes all series.
    pub fn write(&self, w: &mut Writer) {
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sorted: Vec<_> = series.iter().collect();
        sorted.sort_by(|a, b| a.0.cmp(b.0));
        for ((name, labels), histogram) in sorted {
            let (name, help) = name.text();
            let labels: Vec<(&str, &str)> = labels.iter().map(|(k, v)| (*k, &**v)).collect();
            w.histogram(name, help, &labels, &BOUNDS, &histogram.counts, histogram.sum);
        }
        drop(series);
        let help = "Spans counted without their labels, for there are too many series";
        w.counter("wirespan_red_overflow_total", help, &[], self.overflowed());
    }
}

/// Metric and labels of a span.
fn key(span: &Span) -> Option<(Name, Labels)> {
    let at_process = matches!(span.tap, TapSide::ClientProcess | TapSide::ServerProcess | TapSide::Capture);
    // Without a request there is no duration, and bytes that were not understood are no request.
    if !at_process || span.status == Status::NoRequest || matches!(&*span.protocol, "" | "tcp" | "udp" | "unix") {
        return None;
    }
    let server = matches!(span.kind, SpanKind::Server | SpanKind::Consumer);
    let attr = |key: &str| span.attrs.iter().find(|(k, _)| k == key).map(|(_, v)| v);
    let mut labels: Labels = vec![("service_name", span.resource.service.clone())];
    let mut add = |key, value: Option<Box<str>>| labels.extend(value.filter(|v| !v.is_empty()).map(|v| (key, v)));
    let text = |v: Option<&Value>| v.map(|v| v.to_string().into_boxed_str());
    let code = span.status_code.map(|c| c.to_string().into_boxed_str());
    let name = match (&*span.protocol, server) {
        ("http", _) => {
            let method = text(attr("http.request.method")).or_else(|| Some(span.operation.clone()));
            add("http_request_method", method.map(|m| known_method(&m)));
            add("http_response_status_code", code.clone());
            if server {
                Name::HttpServer
            } else {
                add(
                    "server_address",
                    text(attr("server.address")).or_else(|| Some(span.tuple.server.ip.to_string().into())),
                );
                add("server_port", Some(span.tuple.server.port.to_string().into()));
                Name::HttpClient
            }
        }
        ("dns", false) => {
            add("dns_question_type", Some(span.operation.clone()));
            Name::Dns
        }
        (_, false) if attr("db.system.name").is_some() => {
            add("db_system_name", text(attr("db.system.name")));
            add("db_operation_name", text(attr("db.operation.name")).or_else(|| Some(span.operation.clone())));
            Name::Db
        }
        _ => {
            add("protocol", Some(span.protocol.as_ref().into()));
            add("span_kind", Some(if server { "server" } else { "client" }.into()));
            Name::Other
        }
    };
    if span.status.is_error(span.kind) {
        let why = if name == Name::HttpServer || name == Name::HttpClient { code } else { None };
        add("error_type", why.or_else(|| Some(span.status.as_str().into())));
    }
    Some((name, labels))
}

/// Methods are the asker's to invent; the conventions call unknown ones `_OTHER`.
fn known_method(method: &str) -> Box<str> {
    const KNOWN: [&str; 9] = ["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS", "CONNECT", "TRACE"];
    if KNOWN.contains(&method) { method } else { "_OTHER" }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Registry;
    use std::sync::Arc;
    use wirespan_model::Resource;

    fn http(kind: SpanKind, tap: TapSide, code: i32, ms: u64) -> Span {
        let resource = Resource { service: "cart".into(), ..Resource::default() };
        Span {
            kind,
            tap,
            protocol: "http".into(),
            operation: "GET".into(),
            target: "/never/a/label".into(),
            start_ns: 1,
            end_ns: 1 + ms * 1_000_000,
            status: if code < 500 { Status::Ok } else { Status::ServerError },
            status_code: Some(code),
            resource: Arc::new(resource),
            ..Span::default()
        }
    }

    fn text(red: RedMetrics) -> String {
        let registry = Registry::new();
        registry.add(move |w| red.write(w));
        registry.render()
    }

    #[test]
    fn requests_are_counted_once_and_named_as_opentelemetry_names_them() {
        let red = RedMetrics::default();
        red.observe(&http(SpanKind::Server, TapSide::ServerProcess, 200, 3));
        red.observe(&http(SpanKind::Server, TapSide::ServerProcess, 200, 60));
        red.observe(&http(SpanKind::Server, TapSide::ServerProcess, 503, 20_000));
        red.observe(&http(SpanKind::Server, TapSide::ServerNic, 200, 3));
        red.observe(&http(SpanKind::Server, TapSide::App, 200, 3));
        red.observe(&http(SpanKind::Client, TapSide::ClientProcess, 200, 3));
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
            red.observe(&span);
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
        red.observe(&Span { attrs: vec![("db.system.name".into(), "redis".into())], ..span("redis") });
        red.observe(&span("dns"));
        red.observe(&span("kafka"));
        red.observe(&span("tcp"));
        let out = text(red);
        for want in [
            r#"db_client_operation_duration_seconds_count{service_name="cart",db_system_name="redis",db_operation_name="GET"} 1"#,
            r#"dns_lookup_duration_seconds_count{service_name="cart",dns_question_type="GET"} 1"#,
            r#"wirespan_request_duration_seconds_count{service_name="cart",protocol="kafka",span_kind="client"} 1"#,
        ] {
            assert!(out.contains(want), "{want}\n{out}");
        }
        assert!(!out.contains("tcp"));
    }
}
