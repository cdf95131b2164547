//! The dependency map, and one of its edges over time.

use crate::error::{ApiError, ErrorBody};
use crate::evidence::{service_map, StoreEvidence};
use crate::filter::params;
use crate::when::{now_ns, parse_time};
use crate::ViewState;
use axum::extract::{RawQuery, State};
use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wirespan_map::{Document, EdgeId, MapEdge, Point, Series, ServiceMap, TcpStats};
use wirespan_model::TimeRange;

/// Default number of steps of an edge's history.
const STEPS: usize = 60;
/// Greatest number of steps that may be asked for.
const MAX_STEPS: usize = 1000;

/// Parameters of the map.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct MapParams {
    /// Begin of the range: Unix ns, RFC 3339, or `-15m`. Default `-1h`.
    from: Option<String>,
    /// End of the range, in the same forms, or `now`. Default `now`.
    to: Option<String>,
}

/// Parameters of an edge.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EdgeParams {
    /// Id of the caller in the map, such as `service:web`.
    client: String,
    /// Id of the callee in the map.
    server: String,
    /// `tcp`, `udp` or `unix`. Default `tcp`.
    transport: Option<String>,
    /// Port at which the callee listens.
    port: u16,
    /// Number of steps into which the range is divided, at most 1000. Default 60.
    steps: Option<usize>,
    /// Begin of the range: Unix ns, RFC 3339, or `-15m`. Default `-1h`.
    from: Option<String>,
    /// End of the range, in the same forms, or `now`. Default `now`.
    to: Option<String>,
}

/// One edge over time.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct EdgeHistory {
    /// The edge over the whole range; null if it does not occur in the range.
    edge: Option<MapEdge>,
    /// Length of a step, ns.
    step_ns: u64,
    /// All steps of the range, also those without a call.
    points: Vec<EdgePoint>,
}

/// One step of time.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct EdgePoint {
    /// Start of the step, Unix ns.
    start_ns: String,
    /// Number of calls that began in the step.
    calls: u64,
    /// Number of these calls that failed.
    errors: u64,
    /// Median duration, ns; 0 if there was no call.
    p50_ns: u64,
    /// 95th percentile of the duration, ns.
    p95_ns: u64,
    /// Bytes of the calls, in both directions.
    bytes: u64,
    /// TCP health, from flow records; without them only the RTT, from spans.
    tcp: TcpStats,
}

impl EdgePoint {
    fn new(start_ns: u64, point: &Point) -> Self {
        let mut tcp = TcpStats::of_flows(Some(&point.client), Some(&point.server));
        if tcp.rtt_p50_ns == 0 {
            (tcp.rtt_p50_ns, tcp.rtt_p95_ns) = (point.rtt.percentile_ns(0.5), point.rtt.percentile_ns(0.95));
        }
        EdgePoint {
            start_ns: start_ns.to_string(),
            calls: point.calls,
            errors: point.errors,
            p50_ns: point.latency.percentile_ns(0.5),
            p95_ns: point.latency.percentile_ns(0.95),
            bytes: point.bytes,
            tcp,
        }
    }
}

pub(super) fn range(from: Option<&str>, to: Option<&str>) -> Result<TimeRange, ApiError> {
    let now = now_ns();
    let time = |param: &str, text: Option<&str>, default: &str| {
        let text = text.filter(|t| !t.is_empty()).unwrap_or(default);
        parse_time(text, now).map_err(|e| ApiError::bad_query(param, e))
    };
    let range = TimeRange { from_ns: time("from", from, "-1h")?, to_ns: time("to", to, "now")? };
    if range.from_ns >= range.to_ns {
        return Err(ApiError::bad_query("to", "the range is empty: `to` must be later than `from`".to_string()));
    }
    Ok(range)
}

/// The dependency map: services, and the calls between them with rate, latency, errors and TCP health.
#[utoipa::path(get, path = "/api/v1/map", params(MapParams), responses(
    (status = 200, body = Document), (status = 400, body = ErrorBody)))]
pub(super) async fn map(State(state): State<ViewState>, RawQuery(raw): RawQuery) -> Result<Json<Document>, ApiError> {
    let p: MapParams = params(raw.as_deref())?;
    let range = range(p.from.as_deref(), p.to.as_deref())?;
    let made = state.query(move |store| Ok(Document::new(&service_map(store, range)?, range)));
    Ok(Json(made.await?))
}

/// One edge of the map over time.
#[utoipa::path(get, path = "/api/v1/map/edge", params(EdgeParams), responses(
    (status = 200, body = EdgeHistory), (status = 400, body = ErrorBody)))]
pub(super) async fn edge(
    State(state): State<ViewState>,
    RawQuery(raw): RawQuery,
) -> Result<Json<EdgeHistory>, ApiError> {
    let p: EdgeParams = params(raw.as_deref())?;
    let range = range(p.from.as_deref(), p.to.as_deref())?;
    let transport = p.transport.unwrap_or_else(|| "tcp".into());
    let id = EdgeId::new(&p.client, &p.server, &transport, p.port).map_err(|e| ApiError::bad_query("edge", e))?;
    let steps = p.steps.unwrap_or(STEPS);
    if !(1..=MAX_STEPS).contains(&steps) {
        return Err(ApiError::bad_query("steps", format!("{steps} steps: give 1 to {MAX_STEPS}")));
    }
    let made = state.query(move |store| {
        let (map, series) = ServiceMap::build(&StoreEvidence { store, range }, Some((id, Series::new(range, steps))))?;
        let series = series.unwrap_or_else(|| Series::new(range, steps));
        let edge = Document::new(&map, range)
            .edges
            .into_iter()
            .find(|e| e.from == p.client && e.to == p.server && e.transport == transport && e.port == p.port);
        let points = series.points().map(|(start, point)| EdgePoint::new(start, point)).collect();
        Ok(EdgeHistory { edge, step_ns: series.step_ns(), points })
    });
    Ok(Json(made.await?))
}
