//! Names to choose from while typing.

use crate::error::{ApiError, ErrorBody};
use crate::filter::{params, parse_limit};
use crate::when::{now_ns, parse_time};
use crate::ViewState;
use axum::extract::{RawQuery, State};
use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wirespan_store::{Field, TimeRange};

const MAX_NAMES: usize = 1000;

/// Parameters of a suggestion.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SuggestParams {
    /// `service`, `operation`, `endpoint`, `protocol` or `attribute-key`.
    #[serde(default)]
    field: String,
    /// First characters of the value; case does not matter.
    #[serde(default)]
    prefix: String,
    /// Earliest start: Unix ns, RFC 3339, or `-15m`.
    from: Option<String>,
    /// Greatest number of values. Default 20.
    limit: Option<String>,
}

/// Values of a field.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Names {
    /// The values, most frequent first.
    values: Vec<String>,
}

fn since(from: Option<&str>) -> Result<TimeRange, ApiError> {
    let mut range = TimeRange::ALL;
    if let Some(text) = from.filter(|t| !t.is_empty()) {
        range.from_ns = parse_time(text, now_ns()).map_err(|e| ApiError::bad_query("from", e))?;
    }
    Ok(range)
}

/// Values that a field has, most frequent first.
#[utoipa::path(get, path = "/api/v1/suggest", params(SuggestParams), responses(
    (status = 200, body = Names), (status = 400, body = ErrorBody)))]
pub(super) async fn suggest(State(state): State<ViewState>, RawQuery(raw): RawQuery) -> Result<Json<Names>, ApiError> {
    let p: SuggestParams = params(raw.as_deref())?;
    let field = match p.field.as_str() {
        "service" => Field::Service,
        "operation" => Field::Operation,
        "endpoint" => Field::Endpoint,
        "protocol" => Field::Protocol,
        "attribute-key" => Field::AttributeKey,
        other => {
            return Err(ApiError::bad_query("field", format!("`{other}` is not a field with suggestions"))
                .hint("service, operation, endpoint, protocol or attribute-key"))
        }
    };
    let range = since(p.from.as_deref())?;
    let limit = p.limit.as_deref().map_or(Ok(20), |text| parse_limit(text, MAX_NAMES))?;
    let values = state.query(move |store| Ok(store.suggest(field, &p.prefix, range, limit)?));
    Ok(Json(Names { values: values.await? }))
}

/// Parameters of the list of services.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ServicesParams {
    /// Earliest start: Unix ns, RFC 3339, or `-15m`.
    from: Option<String>,
}

/// Services with spans, most spans first; at most 1,000.
#[utoipa::path(get, path = "/api/v1/services", params(ServicesParams), responses(
    (status = 200, body = Names), (status = 400, body = ErrorBody)))]
pub(super) async fn services(State(state): State<ViewState>, RawQuery(raw): RawQuery) -> Result<Json<Names>, ApiError> {
    let p: ServicesParams = params(raw.as_deref())?;
    let range = since(p.from.as_deref())?;
    let values = state.query(move |store| Ok(store.suggest(Field::Service, "", range, MAX_NAMES)?));
    Ok(Json(Names { values: values.await? }))
}
