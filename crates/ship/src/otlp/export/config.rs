//! Where to export to: from the command line or from OpenTelemetry's environment variables.

use crate::otlp::grpc;
use std::time::Duration;
use wirespan_model::percent::percent_decode;

/// How to speak to the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `grpc`
    Grpc,
    /// `http/protobuf`
    HttpProtobuf,
    /// `http/json`
    HttpJson,
}

/// What is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Metrics.
    Metrics,
}

impl Signal {
    fn grpc_path(self) -> &'static str {
        match self {
            Signal::Traces => grpc::EXPORT_PATH,
            Signal::Metrics => grpc::METRICS_PATH,
        }
    }

    fn http_path(self) -> &'static str {
        match self {
            Signal::Traces => "/v1/traces",
            Signal::Metrics => "/v1/metrics",
        }
    }

    /// As in the names of variables.
    fn word(self) -> &'static str {
        match self {
            Signal::Traces => "TRACES",
            Signal::Metrics => "METRICS",
        }
    }
}

/// What is wrong with a setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {what}")]
pub struct ConfigError {
    /// The option or variable.
    pub name: String,
    /// What is wrong, and what to do.
    pub what: String,
}

/// Where to export to, and limits. Memory is at most `queue_spans` spans and one encoded batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportConfig {
    /// Full URL: with the path for HTTP, without for gRPC.
    pub url: String,
    /// Protocol.
    pub protocol: Protocol,
    /// Headers (gRPC: metadata) of each request, lower-case names.
    pub headers: Vec<(String, String)>,
    /// Time for one request.
    pub timeout: Duration,
    /// Compress requests.
    pub gzip: bool,
    /// Most spans in a request.
    pub batch_spans: usize,
    /// Longest time that a span waits for others.
    pub batch_wait: Duration,
    /// Most spans waiting.
    pub queue_spans: usize,
    /// First wait before a repetition; doubles up to 30 s.
    pub first_backoff: Duration,
    /// A batch that could not be delivered for this long is dropped.
    pub retry_for: Duration,
}

impl ExportConfig {
    /// Exports spans to a base URL (`http://collector:4318`): for HTTP, `/v1/traces` is appended. Without a protocol,
    /// port 4317 means gRPC and everything else `http/protobuf`. Errors: not a URL that can be used.
    pub fn new(endpoint: &str, protocol: Option<Protocol>) -> Result<Self, ConfigError> {
        ExportConfig::of(Signal::Traces, endpoint, protocol)
    }

    /// The same for either signal; metrics go to `/v1/metrics`.
    pub fn of(signal: Signal, endpoint: &str, protocol: Option<Protocol>) -> Result<Self, ConfigError> {
        ExportConfig::at("--otlp-endpoint", signal, endpoint, protocol, true)
    }

    fn at(
        name: &str,
        signal: Signal,
        endpoint: &str,
        protocol: Option<Protocol>,
        base: bool,
    ) -> Result<Self, ConfigError> {
        let error = |what: String| ConfigError { name: name.into(), what };
        let text = endpoint.trim();
        if !text.contains(['/', ':']) {
            // `foo` may be a host, or a word that was typed in the wrong place.
            return Err(error(format!("{text:?} is not a URL: write http://{text}:4317 or http://{text}:4318")));
        }
        let text = if text.contains("://") { text.to_string() } else { format!("http://{text}") };
        let uri: hyper::Uri = text.parse().map_err(|e| error(format!("{endpoint:?} is not a URL: {e}")))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(error(
                    "https is not supported yet: export to a collector on this host or network, and let it use TLS"
                        .into(),
                ))
            }
            other => return Err(error(format!("scheme {:?} is not known; use http://", other.unwrap_or("")))),
        }
        let Some(authority) = uri.authority() else { return Err(error(format!("{endpoint:?} has no host"))) };
        let port = uri.port_u16();
        let protocol = protocol.unwrap_or(if port == Some(4317) { Protocol::Grpc } else { Protocol::HttpProtobuf });
        let usual = if protocol == Protocol::Grpc { 4317 } else { 4318 };
        // A host alone means the usual port of OTLP, not that of HTTP.
        let authority = if port.is_some() { authority.to_string() } else { format!("{authority}:{usual}") };
        let path = uri.path().trim_end_matches('/');
        let url = match (protocol, base) {
            (Protocol::Grpc, _) => format!("http://{authority}{}", signal.grpc_path()),
            (_, true) => format!("http://{authority}{path}{}", signal.http_path()),
            (_, false) => format!("http://{authority}{}", uri.path_and_query().map_or("/", |p| p.as_str())),
        };
        Ok(ExportConfig {
            url,
            protocol,
            headers: Vec::new(),
            timeout: Duration::from_secs(10),
            gzip: false,
            batch_spans: 1024,
            batch_wait: Duration::from_secs(1),
            queue_spans: 16 * 1024,
            first_backoff: Duration::from_millis(500),
            retry_for: Duration::from_secs(300),
        })
    }

    /// Reads `OTEL_EXPORTER_OTLP_{TRACES_,METRICS_,}{ENDPOINT,PROTOCOL,HEADERS,TIMEOUT,COMPRESSION}` through `get`.
    /// `Ok(None)`: no endpoint is set. Errors name the variable.
    pub fn from_env(signal: Signal, get: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, ConfigError> {
        let word = signal.word();
        let var = |what: &str| {
            let names = [format!("OTEL_EXPORTER_OTLP_{word}_{what}"), format!("OTEL_EXPORTER_OTLP_{what}")];
            // The specification treats an empty variable as one that is not set.
            names.into_iter().find_map(|n| get(&n).filter(|v| !v.trim().is_empty()).map(|v| (n, v)))
        };
        let Some((name, endpoint)) = var("ENDPOINT") else { return Ok(None) };
        let protocol = match var("PROTOCOL") {
            None => None,
            Some((name, text)) => Some(parse_protocol(&text).map_err(|what| ConfigError { name, what })?),
        };
        let base = !name.contains(word);
        let mut config = ExportConfig::at(&name, signal, &endpoint, protocol, base)?;
        if let Some((name, text)) = var("HEADERS") {
            config.headers = parse_headers(&text).map_err(|what| ConfigError { name, what })?;
        }
        if let Some((name, text)) = var("TIMEOUT") {
            let bad = |_| ConfigError { name, what: format!("{text:?} is not a number of milliseconds") };
            config.timeout = Duration::from_millis(text.trim().parse().map_err(bad)?);
        }
        if let Some((name, text)) = var("COMPRESSION") {
            config.gzip = match text.trim() {
                "gzip" => true,
                "none" => false,
                _ => return Err(ConfigError { name, what: format!("{text:?} is not known; use gzip or none") }),
            };
        }
        Ok(Some(config))
    }
}

/// Reads the name of a protocol. Errors: what is wrong.
pub fn parse_protocol(text: &str) -> Result<Protocol, String> {
    match text.trim() {
        "grpc" => Ok(Protocol::Grpc),
        "http/protobuf" => Ok(Protocol::HttpProtobuf),
        "http/json" => Ok(Protocol::HttpJson),
        other => Err(format!("{other:?} is not known; use grpc, http/protobuf or http/json")),
    }
}

/// Reads `key=value,key=value`, values percent-encoded. Errors: what is wrong; values are not repeated, they are
/// secrets.
pub fn parse_headers(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut headers = Vec::new();
    for (i, pair) in text.split(',').enumerate().filter(|(_, p)| !p.trim().is_empty()) {
        let (key, value) = pair.split_once('=').ok_or(format!("entry {} is not key=value", i + 1))?;
        let key = key.trim().to_ascii_lowercase();
        let value = String::from_utf8_lossy(&percent_decode(value.trim().as_bytes())).into_owned();
        if hyper::header::HeaderName::try_from(&key).is_err() || hyper::header::HeaderValue::try_from(&value).is_err() {
            return Err(format!("entry {} is not a header", i + 1));
        }
        headers.push((key, value));
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn env(vars: &[(&str, &str)]) -> Result<Option<ExportConfig>, String> {
        let get = |name: &str| vars.iter().find(|(k, _)| *k == name).map(|(_, v)| v.to_string());
        ExportConfig::from_env(Signal::Traces, get).map_err(|e| e.to_string())
    }

    #[test]
    fn endpoints_as_the_specification_reads_them() {
        let url = |endpoint, protocol| ExportConfig::new(endpoint, protocol).map(|c| (c.url, c.protocol)).unwrap();
        let grpc = |host: &str| (format!("http://{host}{}", grpc::EXPORT_PATH), Protocol::Grpc);
        let http = |u: &str| (u.to_string(), Protocol::HttpProtobuf);
        assert_eq!(url("http://c:4318", None), http("http://c:4318/v1/traces"));
        assert_eq!(url("http://c:4318/", None), http("http://c:4318/v1/traces"));
        assert_eq!(url("http://c/otlp/", None), http("http://c:4318/otlp/v1/traces"));
        assert_eq!(url("http://c:4317", None), grpc("c:4317"));
        assert_eq!(url("c:4317", None), grpc("c:4317"));
        assert_eq!(url("[::1]:4317", None), grpc("[::1]:4317"));
        assert_eq!(url("http://c", Some(Protocol::Grpc)), grpc("c:4317"));
        let traces = env(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:9/x?y=1")]).unwrap().unwrap();
        assert_eq!(traces.url, "http://c:9/x?y=1", "the endpoint of one signal is taken as it is");
        let metrics = |endpoint| ExportConfig::of(Signal::Metrics, endpoint, None).unwrap().url;
        assert_eq!(metrics("http://c:4318"), "http://c:4318/v1/metrics");
        assert_eq!(metrics("c:4317"), format!("http://c:4317{}", grpc::METRICS_PATH));
        let get = |name: &str| (name == "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT").then(|| "http://c:9/m".to_string());
        assert_eq!(ExportConfig::from_env(Signal::Metrics, get).unwrap().unwrap().url, "http://c:9/m");
        assert_eq!(ExportConfig::from_env(Signal::Traces, get), Ok(None));
    }

    #[test]
    fn variables_of_opentelemetry_configure_the_export() {
        assert_eq!(env(&[]), Ok(None));
        assert_eq!(env(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]), Ok(None));
        let c = env(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "Api-Key=a%20b, x=y=z,"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "1500"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ]);
        let c = c.unwrap().unwrap();
        assert_eq!((c.protocol, c.timeout, c.gzip), (Protocol::Grpc, Duration::from_millis(1500), true));
        assert_eq!(c.headers, [("api-key".into(), "a b".into()), ("x".into(), "y=z".into())]);
    }

    #[test]
    fn errors_name_the_setting_and_keep_secrets() {
        let with = |k: &str, v: &str| env(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"), (k, v)]).unwrap_err();
        assert!(with("OTEL_EXPORTER_OTLP_PROTOCOL", "udp").starts_with("OTEL_EXPORTER_OTLP_PROTOCOL: \"udp\""));
        assert!(with("OTEL_EXPORTER_OTLP_TIMEOUT", "soon").contains("milliseconds"));
        assert!(with("OTEL_EXPORTER_OTLP_COMPRESSION", "zip").contains("use gzip"));
        let headers = with("OTEL_EXPORTER_OTLP_HEADERS", "a=b,key secret");
        assert!(headers.contains("entry 2") && !headers.contains("secret"), "{headers}");
        let https = ExportConfig::new("https://c:4317", None).unwrap_err().to_string();
        assert!(https.starts_with("--otlp-endpoint: https is not supported yet"), "{https}");
        assert!(ExportConfig::new("http://", None).is_err());
        assert!(ExportConfig::new("ftp://x", None).is_err());
        let word = ExportConfig::new("foo", None).unwrap_err().to_string();
        assert!(word.contains("\"foo\" is not a URL: write http://foo:4317"), "{word}");
    }
}
