//! Lists of traces without drivers' housekeeping.
#![allow(clippy::unwrap_used)]

use axum::body::{to_bytes, Body};
use axum::http::Request;
use serde_json::Value;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tower::ServiceExt;
use wirespan_model::test_support::SpanBuilder;
use wirespan_model::{Span, Status, TapSide};
use wirespan_store::{Embedded, Options, Store};
use wirespan_view::{router, ViewState};

fn span(id: u64, protocol: &'static str, operation: &str, status: Status) -> Arc<Span> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let start = now - 1_000_000_000 + id * 1_000_000;
    let span = SpanBuilder::at(id, TapSide::ClientProcess).request(protocol, operation, "").time(start, start + 1000);
    Arc::new(Span { status, ..span.build() })
}

async fn roots(housekeeping: bool, query: &str) -> Vec<String> {
    let store = Embedded::memory(Options::default()).unwrap();
    let spans = vec![
        span(1, "redis", "PING", Status::Ok),
        span(2, "redis", "GET", Status::Ok),
        span(3, "tcp", "connect", Status::Reset),
        span(4, "mysql", "PING", Status::Reset),
    ];
    store.append(spans).unwrap();
    let app = router(ViewState::new(Arc::new(store)).with_housekeeping(housekeeping));
    let uri = format!("/api/v1/traces?from=-1h&{query}");
    let request = Request::builder().uri(uri).header("host", "127.0.0.1").body(Body::empty()).unwrap();
    let body = to_bytes(app.oneshot(request).await.unwrap().into_body(), 1 << 20).await.unwrap();
    let found: Value = serde_json::from_slice(&body).unwrap();
    let name = |t: &Value| format!("{} {}", t["protocol"].as_str().unwrap(), t["name"].as_str().unwrap());
    let mut names: Vec<String> = found["traces"].as_array().unwrap().iter().map(name).collect();
    names.sort();
    names
}

#[tokio::test]
async fn noise_is_in_no_list_unless_it_is_asked_for() {
    assert_eq!(roots(false, "").await, ["mysql PING", "redis GET"], "what failed is no noise");
    assert_eq!(roots(false, "q=operation%3DPING").await, ["mysql PING", "redis PING"]);
    assert_eq!(roots(true, "").await.len(), 4);
}
