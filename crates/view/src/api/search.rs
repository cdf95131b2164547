//! Search for spans, and for the traces to which they belong.

use crate::assemble::traces_of;
use crate::error::{ApiError, ErrorBody};
use crate::filter::{params, Search, SearchParams};
use crate::shape::{summarise, SpanList, SpanView, TraceList};
use crate::ViewState;
use axum::extract::{RawQuery, State};
use axum::Json;
use std::sync::Arc;
use wirespan_model::Span;

const SPANS: usize = 100;
const MAX_SPANS: usize = 5_000;
const TRACES: usize = 50;
const MAX_TRACES: usize = 500;

/// Spans that meet every condition.
#[utoipa::path(get, path = "/api/v1/spans", params(SearchParams), responses(
    (status = 200, body = SpanList), (status = 400, body = ErrorBody)))]
pub(super) async fn spans(State(state): State<ViewState>, RawQuery(raw): RawQuery) -> Result<Json<SpanList>, ApiError> {
    let query = params::<SearchParams>(raw.as_deref())?.query(SPANS, MAX_SPANS)?;
    let list = state.query(move |store| {
        let limit = query.limit;
        let hits = Search::from(query).run(store, limit)?;
        Ok(SpanList { spans: hits.spans.iter().map(|s| SpanView::from(s.as_ref())).collect(), limited: hits.limited })
    });
    Ok(Json(list.await?))
}

/// The same spans as the model's own structures, for clients of the same version (`wirespan explain`). Not part of the
/// OpenAPI description.
pub(super) async fn model(
    State(state): State<ViewState>,
    RawQuery(raw): RawQuery,
) -> Result<Json<Vec<Arc<Span>>>, ApiError> {
    let query = params::<SearchParams>(raw.as_deref())?.query(SPANS, MAX_SPANS)?;
    let found = state.query(move |store| {
        let limit = query.limit;
        Ok(Search::from(query).run(store, limit)?.spans)
    });
    Ok(Json(found.await?))
}

/// Traces in which at least one span meets every condition. `limit` is a number of traces.
#[utoipa::path(get, path = "/api/v1/traces", params(SearchParams), responses(
    (status = 200, body = TraceList), (status = 400, body = ErrorBody)))]
pub(super) async fn traces(
    State(state): State<ViewState>,
    RawQuery(raw): RawQuery,
) -> Result<Json<TraceList>, ApiError> {
    let query = params::<SearchParams>(raw.as_deref())?.query(TRACES, MAX_TRACES)?;
    let housekeeping = state.housekeeping;
    let list = state.query(move |store| {
        let found = traces_of(store, query, housekeeping)?;
        let traces = found.traces.iter().filter_map(|t| summarise(&t.trace, &t.matched)).collect();
        Ok(TraceList { traces, limited: found.limited })
    });
    Ok(Json(list.await?))
}
