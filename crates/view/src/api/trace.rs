//! One trace, one span.

use crate::assemble::{assemble_linked, find_trace, parse_span_id};
use crate::error::{ApiError, ErrorBody};
use crate::shape::{SpanView, TraceView};
use crate::ViewState;
use axum::extract::{Path, State};
use axum::Json;
use wirespan_model::syscalls::with_calls;
use wirespan_model::Trace;

/// The trace of a span, or the trace with this id.
#[utoipa::path(get, path = "/api/v1/trace/{id}",
    params(("id" = String, Path, description = "span id (16 hex digits) or trace id (32 hex digits)")),
    responses((status = 200, body = TraceView), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(super) async fn trace(State(state): State<ViewState>, Path(id): Path<String>) -> Result<Json<TraceView>, ApiError> {
    let housekeeping = state.housekeeping;
    let trace = state.query(move |store| {
        let from = find_trace(store, &id)?;
        Ok(TraceView::from(&with_calls(assemble_linked(store, from, housekeeping)?)))
    });
    Ok(Json(trace.await?))
}

/// The same trace as the model's own structure, for clients of the same version (`wirespan trace`). Not part of the
/// OpenAPI description.
pub(super) async fn model(State(state): State<ViewState>, Path(id): Path<String>) -> Result<Json<Trace>, ApiError> {
    let housekeeping = state.housekeeping;
    let trace = state.query(move |store| assemble_linked(store, find_trace(store, &id)?, housekeeping));
    Ok(Json(trace.await?))
}

/// One span.
#[utoipa::path(get, path = "/api/v1/span/{id}", params(("id" = String, Path, description = "16 hex digits")),
    responses((status = 200, body = SpanView), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(super) async fn span(State(state): State<ViewState>, Path(id): Path<String>) -> Result<Json<SpanView>, ApiError> {
    let id = parse_span_id(&id)?;
    let span = state.query(move |store| {
        let span = store.span(id)?.ok_or_else(|| ApiError::not_found(format!("the store has no span {id}")))?;
        Ok(SpanView::from(span.as_ref()))
    });
    Ok(Json(span.await?))
}
