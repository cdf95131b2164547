//! Compression of answers: a trace of 10,000 spans is 7.5 MB of JSON, and a twentieth of that compressed.

use axum::body::{to_bytes, Body};
use axum::http::{header, HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use flate2::write::GzEncoder;
use flate2::Compression;
use std::io::Write as _;

/// Shorter answers are sent as they are, bytes.
const WORTH_IT: usize = 1024;

/// Whether a client takes gzip.
pub(crate) fn accepted(headers: &HeaderMap) -> bool {
    let given = headers.get(header::ACCEPT_ENCODING).and_then(|v| v.to_str().ok()).unwrap_or_default();
    given.split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        // `q=0` means: not this one.
        let refused = parts.any(|p| p.strip_prefix("q=").is_some_and(|q| q.parse::<f32>().is_ok_and(|q| q == 0.0)));
        (name.eq_ignore_ascii_case("gzip") || name == "*") && !refused
    })
}

/// The answer, compressed if that is worth it. Every answer is whole in memory already.
pub(crate) async fn pack(response: Response) -> Response {
    let (mut head, body) = response.into_parts();
    let text = |t: &str| t.starts_with("text/") || ["json", "javascript", "svg"].iter().any(|word| t.contains(word));
    let kind = head.headers.get(header::CONTENT_TYPE).and_then(|t| t.to_str().ok()).unwrap_or_default();
    if head.status != StatusCode::OK || head.headers.contains_key(header::CONTENT_ENCODING) || !text(kind) {
        return Response::from_parts(head, body);
    }
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        // Bodies in memory do not fail.
        head.status = StatusCode::INTERNAL_SERVER_ERROR;
        return Response::from_parts(head, Body::empty());
    };
    head.headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if bytes.len() < WORTH_IT {
        return Response::from_parts(head, bytes.into());
    }
    let plain = bytes.clone();
    let packed = tokio::task::spawn_blocking(move || {
        let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 8), Compression::fast());
        encoder.write_all(&plain).and_then(|()| encoder.finish())
    });
    match packed.await {
        Ok(Ok(packed)) => {
            head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            head.headers.remove(header::CONTENT_LENGTH);
            Response::from_parts(head, packed.into())
        }
        _ => Response::from_parts(head, bytes.into()),
    }
}
