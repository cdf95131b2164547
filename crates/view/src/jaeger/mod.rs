//! The query API of Jaeger, so that Jaeger UI and Grafana's Jaeger data source work unchanged.
//!
//! Source: the HTTP handlers of jaegertracing/jaeger (`cmd/query`, `model/json`). Times are Unix µs.

mod calls;
mod params;
mod shape;
mod v3;

use crate::assemble::{assemble, find_trace, traces_of};
use crate::error::ApiError;
use crate::when::now_ns;
use crate::ViewState;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use calls::calls;
use params::Params;
use shape::{trace_json, Dependency, Envelope, Failure, Operation, TraceJson};
use wirespan_model::syscalls::with_calls;
use wirespan_model::SpanId;
use wirespan_store::{Field, Query, Store, TimeRange};

const MAX_NAMES: usize = 1000;

pub(crate) fn routes() -> Router<ViewState> {
    Router::new()
        .route("/api/services", get(services))
        .route("/api/services/{service}/operations", get(operations))
        .route("/api/operations", get(operation_kinds))
        .route("/api/traces", get(traces))
        .route("/api/traces/{id}", get(trace))
        .route("/api/dependencies", get(dependencies))
        .route("/api/metrics/{name}", get(no_metrics))
        .merge(v3::routes())
}

/// An error in Jaeger's envelope.
struct Refused(ApiError);

impl From<ApiError> for Refused {
    fn from(e: ApiError) -> Self {
        Refused(e)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = self.0.status;
        let mut msg = self.0.problem.message;
        if let Some(hint) = self.0.problem.hint {
            msg = format!("{msg} ({hint})");
        }
        let failure = Failure { code: status.as_u16(), msg, trace_id: None };
        (status, Json(Envelope::<()> { data: None, total: 0, limit: 0, offset: 0, errors: Some(vec![failure]) }))
            .into_response()
    }
}

type Answer<T> = Result<Json<Envelope<T>>, Refused>;

/// Reads the parameters of the searches of both versions; see [`crate::fuzzed::query`].
#[cfg(feature = "fuzzed")]
pub(crate) fn fuzzed(raw: &str) {
    if let Ok(params) = Params::read(Some(raw)) {
        let _ = (params.query(1 << 60), params.dependency_range(1 << 60));
    }
    v3::fuzzed(raw);
}

async fn services(State(state): State<ViewState>) -> Answer<String> {
    let names = state.query(|store| Ok(store.suggest(Field::Service, "", TimeRange::ALL, MAX_NAMES)?));
    Ok(Json(Envelope::of(names.await?)))
}

async fn operation_names(state: &ViewState, service: String) -> Result<Vec<(String, &'static str)>, ApiError> {
    let names = state.query(move |store| {
        // The store suggests operations of all services. The newest spans show which of them this service has.
        let query = Query { service: Some(service), limit: 5_000, ..Query::default() };
        let spans = store.search(&query)?;
        let mut names: Vec<_> = spans.iter().map(|s| (s.name(), crate::shape::kind(s.kind))).collect();
        names.sort_unstable();
        names.dedup();
        names.truncate(MAX_NAMES);
        Ok(names)
    });
    names.await
}

async fn operations(State(state): State<ViewState>, Path(service): Path<String>) -> Answer<String> {
    let mut names: Vec<String> = operation_names(&state, service).await?.into_iter().map(|(name, _)| name).collect();
    names.dedup();
    Ok(Json(Envelope::of(names)))
}

async fn operation_kinds(State(state): State<ViewState>, RawQuery(raw): RawQuery) -> Answer<Operation> {
    let params = Params::read(raw.as_deref())?;
    let wanted = params.span_kind.clone();
    let names = operation_names(&state, params.service()?).await?;
    let names = names
        .into_iter()
        .filter(|(_, kind)| wanted.as_deref().is_none_or(|w| w.is_empty() || w == *kind))
        .map(|(name, span_kind)| Operation { name, span_kind })
        .collect();
    Ok(Json(Envelope::of(names)))
}

async fn traces(State(state): State<ViewState>, RawQuery(raw): RawQuery) -> Answer<TraceJson> {
    let params = Params::read(raw.as_deref())?;
    let housekeeping = state.housekeeping;
    if !params.trace_id.is_empty() {
        let found = state.query(move |store| {
            let mut found = Vec::new();
            for id in &params.trace_id {
                match find(store, id) {
                    Ok(from) => found.push(trace_json(&with_calls(assemble(store, from, housekeeping)?))),
                    Err(e) if e.status == StatusCode::NOT_FOUND => {}
                    Err(e) => return Err(e),
                }
            }
            Ok(found)
        });
        return Ok(Json(Envelope::of(found.await?)));
    }
    let query = params.query(now_ns())?;
    let found = state.query(move |store| {
        let found = traces_of(store, query, housekeeping)?;
        Ok(found.traces.iter().map(|f| trace_json(&f.trace)).collect())
    });
    Ok(Json(Envelope::of(found.await?)))
}

async fn trace(State(state): State<ViewState>, Path(id): Path<String>) -> Answer<TraceJson> {
    let housekeeping = state.housekeeping;
    let found = state.query(move |store| {
        let from = find(store, &id)?;
        Ok(vec![trace_json(&with_calls(assemble(store, from, housekeeping)?))])
    });
    Ok(Json(Envelope::of(found.await?)))
}

/// Finds a trace by its id, whose leading zeros Jaeger drops. An id of up to 16 digits may also be that of a span.
fn find(store: &dyn Store, id: &str) -> Result<SpanId, ApiError> {
    match find_trace(store, &format!("{id:0>32}")) {
        Err(e) if e.status == StatusCode::NOT_FOUND && id.len() <= 16 => find_trace(store, &format!("{id:0>16}")),
        found => found,
    }
}

async fn dependencies(State(state): State<ViewState>, RawQuery(raw): RawQuery) -> Answer<Dependency> {
    let range = Params::read(raw.as_deref())?.dependency_range(now_ns())?;
    Ok(Json(Envelope::of(calls(&state, range).await?)))
}

/// What Jaeger answers where it keeps no metrics. Its UI then says so on the page *Monitor*.
async fn no_metrics() -> Refused {
    Refused(ApiError::refused(StatusCode::NOT_IMPLEMENTED, "no_metrics", "metrics are served at /metrics only"))
}
