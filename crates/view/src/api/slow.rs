//! Why the requests of an endpoint are slow: slow ones beside usual ones.

use super::why::Recording;
use crate::error::{ApiError, ErrorBody};
use crate::filter::{params, Search, SearchParams};
use crate::shape::SlowView;
use crate::when::now_ns;
use crate::ViewState;
use axum::extract::{RawQuery, State};
use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;
use wirespan_model::attr::WAIT_REASON;
use wirespan_model::TapSide;
use wirespan_trace::{Comparison, Parts};

const SPANS: usize = 2_000;
const MAX_SPANS: usize = 5_000;

/// Answer of `GET /api/v1/why`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct WhySlowView {
    /// Number of requests that say where their time went.
    requests: usize,
    /// Number of those whose waits were recorded.
    recorded: usize,
    /// Slow requests beside usual ones; absent if there are too few requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    compared: Option<SlowView>,
    /// Whether waits can be ordered here (`POST`).
    takes_orders: bool,
    /// Orders to record waits that this view has passed on, and that have not ended.
    recording: Vec<Recording>,
    /// Current time of the server's clock, Unix ns.
    now_ns: String,
}

/// Why slow requests are slow: what they wait for, and how much longer than usual ones; what has grown most first
/// (docs/why.md). Of the requests that meet every condition, as their service saw them.
#[utoipa::path(get, path = "/api/v1/why", params(SearchParams), responses(
    (status = 200, body = WhySlowView), (status = 400, body = ErrorBody)))]
pub(super) async fn slow(
    State(state): State<ViewState>,
    RawQuery(raw): RawQuery,
) -> Result<Json<WhySlowView>, ApiError> {
    let mut query = params::<SearchParams>(raw.as_deref())?.query(SPANS, MAX_SPANS)?;
    query.tap = Some(TapSide::ServerProcess.as_str().into());
    let (takes_orders, now_ns) = (state.why.is_some(), now_ns());
    let recording = state.recording.now(now_ns);
    let view = state.query(move |store| {
        let limit = query.limit;
        let hits = Search::from(query).run(store, limit)?;
        let known = || hits.spans.iter().map(AsRef::as_ref).filter(|span| Parts::of(span).is_some());
        Ok(WhySlowView {
            requests: known().count(),
            recorded: known().filter(|span| span.text(WAIT_REASON).is_some()).count(),
            compared: Comparison::of(known()).map(SlowView::from),
            takes_orders,
            recording,
            now_ns: now_ns.to_string(),
        })
    });
    Ok(Json(view.await?))
}
