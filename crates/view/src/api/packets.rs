//! Packet programs that run in this process: their tables, and the order to run, change or end one.

use crate::error::{ApiError, ErrorBody};
use crate::shape::PacketsView;
use crate::whose::{servers, Whose};
use crate::ViewState;
use axum::extract::rejection::JsonRejection;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::Json;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::Arc;
use utoipa::ToSchema;

/// Where they are asked for, and where orders are sent to.
pub(crate) const PATH: &str = "/api/v1/packets";

/// A packet program that is to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PacketOrder {
    /// The program (YAML, see docs/packets.md). It takes the place of the one that runs, without a gap. Empty: the one
    /// that runs ends.
    pub program: String,
}

/// Runs packet programs.
pub trait PacketSource: Send + Sync {
    /// What the program has seen. Must not block for long.
    fn now(&self) -> Arc<PacketsView>;

    /// What the program of an order means by spans; an error if the program is wrong. Errors have the name of the wrong
    /// parameter (empty if none is wrong) and the reason.
    fn whose(&self, order: &PacketOrder) -> Result<Option<Whose>, (&'static str, String)>;

    /// Carries out an order. `servers` are those that the program means by spans. Blocks until packets are seen, or
    /// none any more. Errors: see [`PacketSource::whose`].
    fn order(&self, order: &PacketOrder, servers: Vec<SocketAddr>) -> Result<(), (&'static str, String)>;
}

/// An error of a source, as HTTP.
pub(super) fn refused((param, why): (&'static str, String)) -> ApiError {
    match param {
        "" => ApiError::refused(StatusCode::SERVICE_UNAVAILABLE, "busy", why),
        param => ApiError::bad_query(param, why),
    }
}

/// The packet program that runs or ran last, and its tables.
#[utoipa::path(get, path = "/api/v1/packets", responses((status = 200, body = PacketsView)))]
pub(super) async fn packets(State(state): State<ViewState>) -> Response {
    let now = state.packets.as_ref().map_or_else(Arc::default, |source| source.now());
    Json(&*now).into_response()
}

/// Runs a packet program, changes the one that runs, or ends it.
#[utoipa::path(post, path = "/api/v1/packets", request_body = PacketOrder, responses(
    (status = 200, body = PacketsView), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(super) async fn order(
    State(state): State<ViewState>,
    order: Result<Json<PacketOrder>, JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(order) = order.map_err(|e| ApiError::bad_query("", e.body_text()))?;
    let Some(source) = state.packets.clone() else {
        let e = ApiError::not_found("this wirespan runs no packet programs");
        return Err(e.hint("start `wirespan up` or `run` with --packet-programs on the machine of the packets"));
    };
    let servers = match source.whose(&order).map_err(refused)? {
        Some(whose) => state.query(move |store| servers(store, &whose)).await?,
        None => Vec::new(),
    };
    let task = tokio::task::spawn_blocking(move || source.order(&order, servers).map(|()| source.now()));
    let now = task.await.map_err(|e| ApiError::internal(e.to_string()))?.map_err(refused)?;
    Ok(Json(&*now).into_response())
}
