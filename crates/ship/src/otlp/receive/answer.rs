//! Bytes of requests and answers, in each of the three encodings.

use super::Encoding;
use crate::otlp::json::base64;
use crate::otlp::proto::{Any, Delay, ExportRequest, ExportResponse, RetryInfo, RpcStatus};
use crate::otlp::{grpc, gzip, json};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{header, Response, StatusCode};
use prost::Message;
use std::borrow::Cow;
use std::convert::Infallible;

/// Pause before a client tries again, s.
const RETRY_AFTER_S: i64 = 1;

pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Path(String),
    Method,
    MediaType(String),
    Compression(String),
    TooLong(usize),
    Timeout,
    Broken,
    Malformed(String),
    Busy(String),
    Host,
}

impl Failure {
    /// Counter name.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Failure::Path(_) => "path",
            Failure::Method => "method",
            Failure::MediaType(_) => "media_type",
            Failure::Compression(_) => "compression",
            Failure::TooLong(_) => "too_long",
            Failure::Timeout => "timeout",
            Failure::Broken => "broken",
            Failure::Malformed(_) => "malformed",
            Failure::Busy(_) => "busy",
            Failure::Host => "host",
        }
    }

    fn codes(&self) -> (StatusCode, i32) {
        match self {
            Failure::Path(_) => (StatusCode::NOT_FOUND, grpc::UNIMPLEMENTED),
            Failure::Method => (StatusCode::METHOD_NOT_ALLOWED, grpc::UNIMPLEMENTED),
            Failure::MediaType(_) => (StatusCode::UNSUPPORTED_MEDIA_TYPE, grpc::INVALID_ARGUMENT),
            Failure::Compression(_) => (StatusCode::UNSUPPORTED_MEDIA_TYPE, grpc::UNIMPLEMENTED),
            // An answer without RetryInfo tells the client not to try again.
            Failure::TooLong(_) => (StatusCode::PAYLOAD_TOO_LARGE, grpc::RESOURCE_EXHAUSTED),
            Failure::Timeout => (StatusCode::REQUEST_TIMEOUT, grpc::DEADLINE_EXCEEDED),
            Failure::Broken => (StatusCode::BAD_REQUEST, grpc::CANCELLED),
            Failure::Host => (StatusCode::FORBIDDEN, grpc::PERMISSION_DENIED),
            Failure::Malformed(_) => (StatusCode::BAD_REQUEST, grpc::INVALID_ARGUMENT),
            // With RetryInfo: the client keeps the spans and tries again.
            Failure::Busy(_) => (StatusCode::SERVICE_UNAVAILABLE, grpc::RESOURCE_EXHAUSTED),
        }
    }

    fn text(&self) -> String {
        match self {
            Failure::Path(path) => format!("{path} is not served here: wirespan takes traces at /v1/traces"),
            Failure::Method => "use POST".into(),
            Failure::MediaType(media) => {
                format!("content type {media:?} is not known; use application/x-protobuf or application/json")
            }
            Failure::Compression(name) => format!("compression {name:?} is not known; use gzip"),
            Failure::TooLong(limit) => format!("the request is longer than {limit} bytes; send smaller batches"),
            Failure::Timeout => "the request came too slowly".into(),
            Failure::Broken => "the request could not be read".into(),
            Failure::Malformed(what) => what.clone(),
            Failure::Busy(why) => why.clone(),
            Failure::Host => "requests for this host are not answered: use 127.0.0.1 or localhost".into(),
        }
    }
}

/// Removes the prefix and decompresses the body.
pub(super) fn unpack<'a>(
    body: &'a [u8],
    encoding: Encoding,
    compression: Option<&str>,
    limit: usize,
) -> Result<Cow<'a, [u8]>, Failure> {
    if encoding == Encoding::Grpc {
        let message = grpc::unframe(body, compression, limit).map_err(|status| match status.code {
            grpc::RESOURCE_EXHAUSTED => Failure::TooLong(limit),
            grpc::UNIMPLEMENTED => Failure::Compression(compression.unwrap_or("").into()),
            _ => Failure::Malformed(status.message),
        })?;
        return Ok(message.into());
    }
    match compression {
        None | Some("" | "identity") if body.len() > limit => Err(Failure::TooLong(limit)),
        None | Some("" | "identity") => Ok(body.into()),
        Some("gzip") => match gzip::unpack(body, limit) {
            Ok(bytes) => Ok(bytes.into()),
            Err(Some(gzip::TooLong)) => Err(Failure::TooLong(limit)),
            Err(None) => Err(Failure::Malformed("the body is not gzip".into())),
        },
        Some(other) => Err(Failure::Compression(other.chars().take(32).collect())),
    }
}

/// Reads the message.
pub(super) fn parse(message: &[u8], encoding: Encoding) -> Result<ExportRequest, Failure> {
    match encoding {
        Encoding::Json => json::read_request(message).map_err(|e| Failure::Malformed(e.to_string())),
        _ => ExportRequest::decode(message).map_err(|e| Failure::Malformed(format!("not an OTLP request: {e}"))),
    }
}

/// Answers a request that was taken.
pub(super) fn success(response: &ExportResponse, encoding: Encoding) -> Response<Body> {
    match encoding {
        Encoding::Grpc => {
            let status = grpc::trailers(&grpc::Status::new(grpc::OK, ""));
            let body = Full::new(Bytes::from(grpc::frame(&response.encode_to_vec(), false)));
            let body = body.with_trailers(async { Some(Ok(status)) }).boxed_unsync();
            with_type(body, StatusCode::OK, grpc::CONTENT_TYPE)
        }
        Encoding::Protobuf => plain(response.encode_to_vec(), StatusCode::OK, "application/x-protobuf"),
        Encoding::Json => plain(json::write_response(response).to_string().into(), StatusCode::OK, "application/json"),
    }
}

/// Answers a request that was refused: `google.rpc.Status` over HTTP, the status alone over gRPC.
pub(super) fn failure(failure: &Failure, encoding: Encoding) -> Response<Body> {
    let (http, code) = failure.codes();
    let message = failure.text();
    let mut response = match encoding {
        Encoding::Grpc => {
            let mut r = with_type(Full::default().boxed_unsync(), StatusCode::OK, grpc::CONTENT_TYPE);
            r.headers_mut().extend(grpc::trailers(&grpc::Status::new(code, message.clone())));
            if matches!(failure, Failure::Busy(_)) {
                let details = base64(&RpcStatus { code, message, details: vec![retry_info()] }.encode_to_vec());
                if let Ok(details) = header::HeaderValue::try_from(details) {
                    r.headers_mut().insert("grpc-status-details-bin", details);
                }
            }
            r
        }
        Encoding::Protobuf => {
            let details = if matches!(failure, Failure::Busy(_)) { vec![retry_info()] } else { Vec::new() };
            plain(RpcStatus { code, message, details }.encode_to_vec(), http, "application/x-protobuf")
        }
        Encoding::Json => {
            plain(serde_json::json!({"code": code, "message": message}).to_string().into(), http, "application/json")
        }
    };
    if matches!(failure, Failure::Busy(_)) {
        response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from(RETRY_AFTER_S));
    }
    if matches!(failure, Failure::Method) {
        response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("POST"));
    }
    response
}

/// Says when to try again.
fn retry_info() -> Any {
    let info = RetryInfo { retry_delay: Some(Delay { seconds: RETRY_AFTER_S, nanos: 0 }) };
    Any { type_url: RetryInfo::TYPE.into(), value: info.encode_to_vec() }
}

fn plain(body: Vec<u8>, status: StatusCode, media: &'static str) -> Response<Body> {
    with_type(Full::new(Bytes::from(body)).boxed_unsync(), status, media)
}

fn with_type(body: Body, status: StatusCode, media: &'static str) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(media));
    response
}
