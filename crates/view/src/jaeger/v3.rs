//! Version 3 of Jaeger's query API, over HTTP: what Jaeger 2 and its UI ask.
//!
//! Source: `cmd/query/app/apiv3/http_gateway.go` of jaegertracing/jaeger 1.76 (Jaeger 2.13). Answers are the JSON of
//! its messages; traces are OTLP. Times are RFC 3339, durations have a unit (`10ms`).

use super::{find_trace, operation_names, pad};
use crate::assemble::{assemble, traces_of};
use crate::error::ApiError;
use crate::filter::params;
use crate::when::{now_ns, parse_duration, parse_time};
use crate::ViewState;
use axum::extract::{Path, RawQuery, State};
use axum::http::{header, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;
use wirespan_model::Trace;
use wirespan_ship::otlp::encode_traces;
use wirespan_ship::otlp::json::write_request;
use wirespan_store::{Field, Query, TimeRange};

const LIMIT: usize = 20;
const MAX_LIMIT: usize = 500;

pub(super) fn routes() -> Router<ViewState> {
    Router::new()
        .route("/api/v3/services", get(services))
        .route("/api/v3/operations", get(operations))
        .route("/api/v3/traces", get(traces))
        .route("/api/v3/traces/{id}", get(trace))
}

/// An error as Jaeger's gateway writes it.
struct Refused(ApiError);

impl From<ApiError> for Refused {
    fn from(e: ApiError) -> Self {
        Refused(e)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = self.0.status;
        let body = json!({"error": {"httpCode": status.as_u16(), "message": self.0.problem.message}});
        (status, Json(body)).into_response()
    }
}

/// Parameters of the searches. Others are ignored, as Jaeger does.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Params {
    service: String,
    span_kind: String,
    #[serde(rename = "query.service_name")]
    service_name: String,
    #[serde(rename = "query.operation_name")]
    operation_name: String,
    #[serde(rename = "query.start_time_min")]
    start_time_min: String,
    #[serde(rename = "query.start_time_max")]
    start_time_max: String,
    #[serde(rename = "query.num_traces")]
    num_traces: String,
    /// The name of the field in the message.
    #[serde(rename = "query.search_depth")]
    search_depth: String,
    #[serde(rename = "query.duration_min")]
    duration_min: String,
    #[serde(rename = "query.duration_max")]
    duration_max: String,
}

impl Params {
    fn query(&self) -> Result<Query, ApiError> {
        let given = |text: &str| Some(text.to_owned()).filter(|t| !t.is_empty());
        let malformed = |param: &'static str| {
            move |why: String| ApiError::bad_query(param, format!("malformed parameter {param}: {why}"))
        };
        let (from, to) = ("query.start_time_min", "query.start_time_max");
        if self.start_time_min.is_empty() || self.start_time_max.is_empty() {
            return Err(ApiError::bad_query(from, format!("{from} and {to} are required")));
        }
        let time = |param, text: &str| parse_time(text, now_ns()).map_err(malformed(param));
        let duration = |param, text: &str| match text {
            "" => Ok(None),
            text => parse_duration(text).map(Some).map_err(malformed(param)),
        };
        let number = match (self.num_traces.as_str(), self.search_depth.as_str()) {
            ("", "") => LIMIT,
            ("", n) | (n, _) => n.parse::<usize>().map_err(|e| malformed("query.num_traces")(format!("{n:?}: {e}")))?,
        };
        Ok(Query {
            range: TimeRange { from_ns: time(from, &self.start_time_min)?, to_ns: time(to, &self.start_time_max)? },
            service: given(&self.service_name),
            operation: given(&self.operation_name),
            min_duration_ns: duration("query.duration_min", &self.duration_min)?,
            max_duration_ns: duration("query.duration_max", &self.duration_max)?,
            limit: number.clamp(1, MAX_LIMIT),
            ..Query::default()
        })
    }
}

async fn services(State(state): State<ViewState>) -> Result<Response, Refused> {
    let names = state.query(|store| Ok(store.suggest(Field::Service, "", TimeRange::ALL, super::MAX_NAMES)?)).await?;
    Ok(Json(json!({ "services": names })).into_response())
}

async fn operations(State(state): State<ViewState>, RawQuery(raw): RawQuery) -> Result<Response, Refused> {
    let wanted: Params = params(raw.as_deref())?;
    let names = operation_names(&state, wanted.service).await?;
    let kind = wanted.span_kind.to_ascii_lowercase();
    let operations: Vec<_> = names
        .into_iter()
        .filter(|(_, of)| kind.is_empty() || kind == *of)
        .map(|(name, kind)| json!({"name": name, "spanKind": kind}))
        .collect();
    Ok(Json(json!({ "operations": operations })).into_response())
}

async fn traces(State(state): State<ViewState>, RawQuery(raw): RawQuery) -> Result<Response, Refused> {
    let wanted: Params = params(raw.as_deref())?;
    let (query, housekeeping) = (wanted.query()?, state.housekeeping);
    let found = state.query(move |store| {
        let found = traces_of(store, query, housekeeping)?;
        Ok(found.traces.into_iter().map(|f| f.trace).collect::<Vec<Trace>>())
    });
    answer(&found.await?)
}

async fn trace(State(state): State<ViewState>, Path(id): Path<String>) -> Result<Response, Refused> {
    let housekeeping = state.housekeeping;
    let found = state.query(move |store| {
        let from = find_trace(store, &pad(&id))?;
        assemble(store, from, housekeeping)
    });
    answer(&[found.await?])
}

/// Traces as one OTLP message.
fn answer(traces: &[Trace]) -> Result<Response, Refused> {
    if traces.is_empty() {
        return Err(Refused(ApiError::not_found("No traces found")));
    }
    let mut body = b"{\"result\":".to_vec();
    write_request(&encode_traces(traces), &mut body);
    body.push(b'}');
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], body).into_response())
}
