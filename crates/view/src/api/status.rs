//! State of the process, for people and for Prometheus.

use crate::shape::{Counter, Stage, StatusView};
use crate::when::now_ns;
use crate::ViewState;
use axum::extract::State;
use axum::http::{header, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::Json;

/// The stage of the store, as a process names it that fills it.
const STORE: &str = "store";

/// Counters of every stage, among them losses, and the state of the store.
#[utoipa::path(get, path = "/api/v1/status", responses((status = 200, body = StatusView)))]
pub(super) async fn status(State(state): State<ViewState>) -> Json<StatusView> {
    let mut agent = state.status.status();
    let status = state.store.status();
    if !agent.stages.iter().any(|stage| stage.name == STORE) {
        // Nobody but the view has this store.
        let dropped = status.dropped.iter().map(|(reason, n)| Counter::new(format!("dropped_{reason}"), *n, true));
        agent.stages.push(Stage { name: STORE.into(), counters: dropped.collect() });
    }
    agent.stages.push(state.stats.stage());
    Json(StatusView { version: env!("CARGO_PKG_VERSION"), now_ns: now_ns().to_string(), store: status.into(), agent })
}

pub(super) async fn metrics(State(state): State<ViewState>) -> Response {
    let mut text = (state.metrics)();
    text.push_str(&state.stats.prometheus());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

/// 200 while the store writes, 503 with the reason while it does not.
pub(super) async fn healthz(State(state): State<ViewState>) -> Response {
    match state.store.status().stopped {
        None => "ok\n".into_response(),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("the store is not writing: {why}\n")).into_response(),
    }
}
