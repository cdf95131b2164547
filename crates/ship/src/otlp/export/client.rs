//! One request to a collector.

use super::{ExportConfig, Protocol};
use crate::otlp::json::{read_response, unbase64, write_metrics, write_request};
use crate::otlp::proto::metrics::ExportMetrics;
use crate::otlp::proto::{ExportRequest, ExportResponse, PartialSuccess, RetryInfo, RpcStatus};
use crate::otlp::{grpc, gzip};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{header, HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use prost::Message;
use std::time::Duration;

type Http = hyper_util::client::legacy::Client<HttpConnector, Full<Bytes>>;

/// Longest answer that is read, bytes.
const MAX_ANSWER: usize = 1 << 20;
/// Longest pause that a collector may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// Why a request failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) what: String,
    pub(super) retryable: bool,
    /// The pause that the collector asked for.
    pub(super) retry_after: Option<Duration>,
}

impl Failure {
    fn again(what: String) -> Self {
        Failure { what, retryable: true, retry_after: None }
    }
}

/// A request of either signal.
pub(super) trait Outgoing: Message {
    fn write_json(&self, out: &mut Vec<u8>);
}

impl Outgoing for ExportRequest {
    fn write_json(&self, out: &mut Vec<u8>) {
        write_request(self, out);
    }
}

impl Outgoing for ExportMetrics {
    fn write_json(&self, out: &mut Vec<u8>) {
        write_metrics(self, out);
    }
}

pub(super) struct Client {
    http: Http,
    config: ExportConfig,
}

impl Client {
    pub(super) fn new(config: &ExportConfig) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(config.timeout));
        connector.set_nodelay(true);
        let mut builder = hyper_util::client::legacy::Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_max_idle_per_host(1);
        builder.http2_only(config.protocol == Protocol::Grpc);
        Client { http: builder.build(connector), config: config.clone() }
    }

    /// Connects and hangs up. The error says why that failed.
    pub(super) async fn probe(&self) -> Result<(), String> {
        let uri: hyper::Uri = self.config.url.parse().map_err(|e| format!("{}: {e}", self.config.url))?;
        let (host, port) = (uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(80));
        let host = host.trim_start_matches('[').trim_end_matches(']').to_string();
        let connect = tokio::net::TcpStream::connect((host, port));
        match tokio::time::timeout(self.config.timeout, connect).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(e)) => Err(e.to_string()),
            Err(_) => Err(format!("no answer within {:?}", self.config.timeout)),
        }
    }

    /// The bytes of a request, compressed if this is configured. A repetition sends the same bytes.
    pub(super) fn encode(&self, request: &impl Outgoing) -> Bytes {
        let gzip = self.config.gzip;
        let message = match self.config.protocol {
            Protocol::Grpc => return grpc::frame(&request.encode_to_vec(), gzip).into(),
            Protocol::HttpProtobuf => request.encode_to_vec(),
            Protocol::HttpJson => {
                let mut out = Vec::new();
                request.write_json(&mut out);
                out
            }
        };
        if gzip { gzip::pack(&message) } else { message }.into()
    }

    /// Sends a request and waits for the answer, for at most the configured time.
    pub(super) async fn call(&self, body: Bytes) -> Result<Option<PartialSuccess>, Failure> {
        let exchange = async {
            let response = self.http.request(self.request(body)?).await.map_err(|e| Failure::again(describe(&e)))?;
            match self.config.protocol {
                Protocol::Grpc => grpc_outcome(response).await,
                _ => http_outcome(response).await,
            }
        };
        match tokio::time::timeout(self.config.timeout, exchange).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Failure::again(format!("no answer within {:?}", self.config.timeout))),
        }
    }

    fn request(&self, body: Bytes) -> Result<Request<Full<Bytes>>, Failure> {
        let mut builder = Request::builder().method(Method::POST).uri(&self.config.url);
        builder = builder.header(header::USER_AGENT, concat!("wirespan/", env!("CARGO_PKG_VERSION")));
        builder = match self.config.protocol {
            Protocol::Grpc => builder
                .header(header::CONTENT_TYPE, grpc::CONTENT_TYPE)
                .header(header::TE, "trailers")
                .header("grpc-timeout", format!("{}m", self.config.timeout.as_millis().clamp(1, 99_999_999))),
            Protocol::HttpProtobuf => builder.header(header::CONTENT_TYPE, "application/x-protobuf"),
            Protocol::HttpJson => builder.header(header::CONTENT_TYPE, "application/json"),
        };
        if self.config.gzip {
            let name = if self.config.protocol == Protocol::Grpc { "grpc-encoding" } else { "content-encoding" };
            builder = builder.header(name, "gzip");
        }
        for (name, value) in &self.config.headers {
            builder = builder.header(name, value);
        }
        let failed = |e| Failure { what: format!("{}: {e}", self.config.url), retryable: false, retry_after: None };
        builder.body(Full::new(body)).map_err(failed)
    }
}

async fn grpc_outcome(response: Response<Incoming>) -> Result<Option<PartialSuccess>, Failure> {
    let http = response.status();
    let (head, body) = response.into_parts();
    let body = Limited::new(body, MAX_ANSWER).collect().await.map_err(|e| Failure::again(e.to_string()))?;
    let trailers = body.trailers().unwrap_or(&head.headers);
    let Some(status) = grpc::status(trailers) else {
        // The answer came from a proxy, or the connection broke.
        return Err(Failure {
            what: format!("not an answer of gRPC: HTTP {http}"),
            retryable: http.is_success() || retryable_http(http),
            retry_after: None,
        });
    };
    if status.code != grpc::OK {
        let retry_after = retry_info(trailers);
        return Err(Failure {
            what: format!("gRPC status {}: {}", status.code, status.message),
            retryable: match status.code {
                grpc::CANCELLED
                | grpc::DEADLINE_EXCEEDED
                | grpc::ABORTED
                | grpc::OUT_OF_RANGE
                | grpc::UNAVAILABLE
                | grpc::DATA_LOSS => true,
                // Retryable only if the collector says that it will recover.
                grpc::RESOURCE_EXHAUSTED => retry_after.is_some(),
                _ => false,
            },
            retry_after,
        });
    }
    let message = grpc::unframe(&body.to_bytes(), None, MAX_ANSWER).unwrap_or_default();
    Ok(ExportResponse::decode(&*message).unwrap_or_default().partial_success)
}

async fn http_outcome(response: Response<Incoming>) -> Result<Option<PartialSuccess>, Failure> {
    let (head, body) = response.into_parts();
    let body = Limited::new(body, MAX_ANSWER).collect().await.map_err(|e| Failure::again(e.to_string()))?.to_bytes();
    let json = head.headers.get(header::CONTENT_TYPE).is_some_and(|t| t.as_bytes().starts_with(b"application/json"));
    if head.status.is_success() {
        let response = if json { read_response(&body) } else { ExportResponse::decode(body).unwrap_or_default() };
        return Ok(response.partial_success);
    }
    let message = match json {
        true => serde_json::from_slice::<serde_json::Value>(&body)
            .ok()
            .and_then(|j| Some(j.get("message")?.as_str()?.to_string())),
        false => RpcStatus::decode(body).ok().map(|s| s.message),
    };
    let message = message.filter(|m| !m.is_empty()).map_or_else(String::new, |m| format!(": {m}"));
    let seconds = head.headers.get(header::RETRY_AFTER).and_then(|v| v.to_str().ok()?.trim().parse().ok());
    Err(Failure {
        what: format!("HTTP {}{message}", head.status),
        retryable: retryable_http(head.status),
        retry_after: seconds.map(|s| Duration::from_secs(s).min(MAX_RETRY_AFTER)),
    })
}

fn retryable_http(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

/// `google.rpc.RetryInfo` in the details of the status.
fn retry_info(trailers: &HeaderMap) -> Option<Duration> {
    let bytes = unbase64(trailers.get("grpc-status-details-bin")?.to_str().ok()?)?;
    let details = RpcStatus::decode(&*bytes).ok()?.details;
    let any = details.into_iter().find(|d| d.type_url == RetryInfo::TYPE)?;
    let delay = RetryInfo::decode(&*any.value).ok()?.retry_delay.unwrap_or_default();
    let seconds = u64::try_from(delay.seconds).unwrap_or(0);
    let nanos = u32::try_from(delay.nanos).unwrap_or(0).min(999_999_999);
    Some(Duration::new(seconds, nanos).min(MAX_RETRY_AFTER))
}

/// An error with its causes: the outermost says only "client error".
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(e) = source {
        text.push_str(": ");
        text.push_str(&e.to_string());
        source = e.source();
    }
    text
}
