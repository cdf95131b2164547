//! The service map.

use crate::error::{ApiError, ErrorBody};
use crate::filter::params;
use crate::shape::MapView;
use crate::when::{now_ns, parse_time};
use crate::ViewState;
use axum::extract::{RawQuery, State};
use axum::Json;
use serde::Deserialize;
use utoipa::IntoParams;
use wirespan_store::TimeRange;
use wirespan_trace::ServiceMap;

/// Parameters of the map.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct MapParams {
    /// Earliest start: Unix ns, RFC 3339, or `-15m`. Default `-1h`.
    from: Option<String>,
    /// Start before. Default `now`.
    to: Option<String>,
}

/// Who calls whom, how often, how fast, with how many errors.
#[utoipa::path(get, path = "/api/v1/map", params(MapParams), responses(
    (status = 200, body = MapView), (status = 400, body = ErrorBody)))]
pub(super) async fn map(State(state): State<ViewState>, RawQuery(raw): RawQuery) -> Result<Json<MapView>, ApiError> {
    let p: MapParams = params(raw.as_deref())?;
    let now = now_ns();
    let time = |param: &str, text: Option<String>, default: &str| {
        let text = text.filter(|t| !t.is_empty());
        parse_time(text.as_deref().unwrap_or(default), now).map_err(|e| ApiError::bad_query(param, e))
    };
    let range = TimeRange { from_ns: time("from", p.from, "-1h")?, to_ns: time("to", p.to, "now")? };
    Ok(Json(state.query(move |store| Ok(MapView::from(&ServiceMap::of_store(store, range)?))).await?))
}
