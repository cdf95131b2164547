//! In which code slow requests spend more time than usual ones.

use crate::error::{ApiError, ErrorBody};
use crate::filter::{params, Search, SearchParams};
use crate::shape::FlameBoxView;
use crate::ViewState;
use axum::extract::{RawQuery, State};
use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;
use wirespan_trace::Flame;

const SPANS: usize = 1_000;
const MAX_SPANS: usize = 5_000;

/// Answer of `/api/v1/flame`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct FlameView {
    /// Number of slow requests.
    slow_spans: u64,
    /// Number of usual requests.
    usual_spans: u64,
    /// The boxes, each before those below it. Times are means.
    boxes: Vec<FlameBoxView>,
}

/// A flame graph of the requests that meet every condition, slow beside usual (docs/why.md). Only requests count whose
/// waits were recorded.
#[utoipa::path(get, path = "/api/v1/flame", params(SearchParams), responses(
    (status = 200, body = FlameView), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(super) async fn flame(
    State(state): State<ViewState>,
    RawQuery(raw): RawQuery,
) -> Result<Json<FlameView>, ApiError> {
    let query = params::<SearchParams>(raw.as_deref())?.query(SPANS, MAX_SPANS)?;
    let view = state.query(move |store| {
        let limit = query.limit;
        let hits = Search::from(query).run(store, limit)?;
        let flame = Flame::compare(hits.spans.iter().map(AsRef::as_ref)).ok_or_else(|| {
            let e = ApiError::not_found("fewer than two of these requests say in which code they were");
            e.hint("start with --threshold, or run `wirespan trace-why SERVICE`")
        })?;
        let [slow_spans, usual_spans] = flame.spans();
        let boxes = flame.boxes().into_iter().map(FlameBoxView::from).collect();
        Ok(FlameView { slow_spans, usual_spans, boxes })
    });
    Ok(Json(view.await?))
}
