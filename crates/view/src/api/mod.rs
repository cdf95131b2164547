//! Wirespan's own API, below `/api/v1`, and `/metrics`, `/healthz`.

mod flame;
mod fleet;
mod flows;
mod map;
mod names;
mod packets;
mod search;
mod slow;
mod status;
mod trace;
mod why;

pub use fleet::{FleetOrder, FleetSource};
pub use flows::{flow_records, FlowFilter, FlowRecord, FlowRecords};
pub use packets::{PacketOrder, PacketSource};
pub(crate) use why::Recorded;
pub use why::{WhyAgent, WhyBegun, WhyOrder, WhySource, WhyState};

use crate::ViewState;
use axum::routing::get;
use axum::{Json, Router};
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(title = "wirespan", description = "Spans and traces from the wire.", license(name = "Apache-2.0")),
    paths(
        search::spans,
        search::traces,
        trace::trace,
        trace::span,
        names::suggest,
        names::services,
        map::map,
        map::edge,
        flows::flows,
        flame::flame,
        status::status,
        slow::slow,
        why::why,
        packets::packets,
        packets::order,
        fleet::agents,
        fleet::order
    ),
    components(schemas(crate::error::ErrorBody))
)]
struct Description;

/// Description of the API, generated from the code.
pub fn openapi() -> utoipa::openapi::OpenApi {
    Description::openapi()
}

/// Where orders are sent to.
pub(crate) const ORDERS: [&str; 3] = [why::PATH, packets::PATH, fleet::PATH];

pub(crate) fn routes() -> Router<ViewState> {
    Router::new()
        .route("/api/v1/spans", get(search::spans))
        .route("/api/v1/spans/model", get(search::model))
        .route("/api/v1/traces", get(search::traces))
        .route("/api/v1/trace/{id}", get(trace::trace))
        .route("/api/v1/trace/{id}/model", get(trace::model))
        .route("/api/v1/span/{id}", get(trace::span))
        .route("/api/v1/suggest", get(names::suggest))
        .route("/api/v1/services", get(names::services))
        .route("/api/v1/map", get(map::map))
        .route("/api/v1/map/edge", get(map::edge))
        .route("/api/v1/flows", get(flows::flows))
        .route("/api/v1/flame", get(flame::flame))
        .route(why::PATH, get(slow::slow).post(why::why))
        .route(packets::PATH, get(packets::packets).post(packets::order))
        .route(fleet::PATH, get(fleet::agents).post(fleet::order))
        .route("/api/v1/openapi.json", get(|| async { Json(openapi()) }))
        .merge(status_routes())
}

/// The state of the process alone.
pub(crate) fn status_routes() -> Router<ViewState> {
    Router::new()
        .route("/api/v1/status", get(status::status))
        .route("/metrics", get(status::metrics))
        .route("/healthz", get(status::healthz))
}
