//! Version 3 of Jaeger's query API, over HTTP: what Jaeger 2 and its UI ask.
//!
//! Source: `cmd/query/app/apiv3/http_gateway.go` of jaegertracing/jaeger 1.76 (Jaeger 2.13). Answers are the JSON of
//! its messages; traces are OTLP. Times are RFC 3339, durations have a unit (`10ms`). Summaries of traces came with
//! Jaeger 2.19 (ADR-010 of that repository), which reads parameters in camel case, too. Its UI calls the operation
//! `span_name`.

use super::{calls, find, operation_names};
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
use rustc_hash::FxHashSet;
use serde::Deserialize;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use wirespan_model::{Span, SpanId, Trace};
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
        .route("/api/v3/trace-summaries", get(summaries))
        .route("/api/v3/dependencies", get(dependencies))
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
    #[serde(alias = "spanKind")]
    span_kind: String,
    #[serde(alias = "startTime")]
    start_time: String,
    #[serde(alias = "endTime")]
    end_time: String,
    #[serde(rename = "query.service_name", alias = "query.serviceName")]
    service_name: String,
    #[serde(rename = "query.operation_name", alias = "query.operationName")]
    operation_name: String,
    #[serde(rename = "query.span_name", alias = "query.spanName")]
    span_name: String,
    #[serde(rename = "query.start_time_min", alias = "query.startTimeMin")]
    start_time_min: String,
    #[serde(rename = "query.start_time_max", alias = "query.startTimeMax")]
    start_time_max: String,
    #[serde(rename = "query.num_traces", alias = "query.numTraces")]
    num_traces: String,
    /// The name of the field in the message.
    #[serde(rename = "query.search_depth", alias = "query.searchDepth")]
    search_depth: String,
    #[serde(rename = "query.duration_min", alias = "query.durationMin")]
    duration_min: String,
    #[serde(rename = "query.duration_max", alias = "query.durationMax")]
    duration_max: String,
    /// A JSON object.
    #[serde(rename = "query.attributes")]
    attributes: String,
}

impl Params {
    fn query(&self) -> Result<Query, ApiError> {
        let given = |text: &str| Some(text.to_owned()).filter(|t| !t.is_empty());
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
            operation: given(&self.operation_name).or_else(|| given(&self.span_name)),
            min_duration_ns: duration("query.duration_min", &self.duration_min)?,
            max_duration_ns: duration("query.duration_max", &self.duration_max)?,
            attributes: super::params::object("query.attributes", &self.attributes)?,
            limit: number.clamp(1, MAX_LIMIT),
            ..Query::default()
        })
    }
}

fn malformed(param: &'static str) -> impl FnOnce(String) -> ApiError {
    move |why| ApiError::bad_query(param, format!("malformed parameter {param}: {why}"))
}

/// Reads the parameters of a search; see [`crate::fuzzed::query`].
#[cfg(feature = "fuzzed")]
pub(super) fn fuzzed(raw: &str) {
    let _ = crate::filter::params::<Params>(Some(raw)).and_then(|params| params.query());
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

async fn summaries(State(state): State<ViewState>, RawQuery(raw): RawQuery) -> Result<Response, Refused> {
    let wanted: Params = params(raw.as_deref())?;
    let (query, housekeeping) = (wanted.query()?, state.housekeeping);
    let found = state.query(move |store| traces_of(store, query, housekeeping)).await?;
    let summaries: Vec<_> = found.traces.iter().map(|found| summary(&found.trace)).collect();
    Ok(Json(json!({ "summaries": summaries })).into_response())
}

/// What a list of traces shows of one. The root is the earliest span without a parent.
fn summary(trace: &Trace) -> Value {
    let known: FxHashSet<SpanId> = trace.spans.iter().map(|s| s.span.id).collect();
    let (mut root, mut orphans, mut errors) = (None::<&Span>, 0, 0);
    let mut services: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (own, parent) in trace.spans.iter().zip(trace.parents()) {
        let span = &*own.span;
        match parent {
            None if root.is_none_or(|first| span.start_ns < first.start_ns) => root = Some(span),
            None => {}
            Some(parent) => orphans += u64::from(!known.contains(&parent)),
        }
        let failed = u64::from(span.status.is_error(span.kind));
        errors += failed;
        let (spans, failures) = services.entry(&span.resource.service).or_default();
        (*spans, *failures) = (*spans + 1, *failures + failed);
    }
    let times = || trace.spans.iter().map(|s| &s.span);
    let services: Vec<_> = services
        .into_iter()
        .map(|(name, (spans, errors))| json!({"name": name, "spanCount": spans, "errorSpanCount": errors}))
        .collect();
    json!({
        "traceId": trace.id.to_string(),
        "rootServiceName": root.map_or("", |root| &root.resource.service),
        "rootOperationName": root.map(|root| root.name()).unwrap_or_default(),
        "minStartTimeUnixNano": times().map(|s| s.start_ns).min().unwrap_or(0).to_string(),
        "maxEndTimeUnixNano": times().map(|s| s.end_ns).max().unwrap_or(0).to_string(),
        "spanCount": trace.spans.len(),
        "errorSpanCount": errors,
        "orphanSpanCount": orphans,
        "services": services,
    })
}

async fn dependencies(State(state): State<ViewState>, RawQuery(raw): RawQuery) -> Result<Response, Refused> {
    let wanted: Params = params(raw.as_deref())?;
    let time = |param: &'static str, text: &str| match text {
        "" => Err(ApiError::bad_query(param, format!("missing required parameter: {param}"))),
        text => parse_time(text, now_ns()).map_err(malformed(param)),
    };
    let range =
        TimeRange { from_ns: time("startTime", &wanted.start_time)?, to_ns: time("endTime", &wanted.end_time)? };
    if range.to_ns <= range.from_ns {
        return Err(Refused(ApiError::bad_query("endTime", "endTime must be after startTime")));
    }
    let calls = calls(&state, range).await?.into_iter();
    // A 64-bit number is text in the JSON of protobuf.
    let calls = calls.map(|c| json!({"parent": c.parent, "child": c.child, "callCount": c.call_count.to_string()}));
    Ok(Json(json!({ "dependencies": calls.collect::<Vec<_>>() })).into_response())
}

async fn trace(State(state): State<ViewState>, Path(id): Path<String>) -> Result<Response, Refused> {
    let housekeeping = state.housekeeping;
    let found = state.query(move |store| {
        let from = find(store, &id)?;
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
