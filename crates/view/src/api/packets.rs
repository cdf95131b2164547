//! Packet programs that run in this process: their tables, and the order to run, change or end one.

use crate::error::{ApiError, ErrorBody};
use crate::shape::PacketsView;
use crate::ViewState;
use axum::extract::rejection::JsonRejection;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::Json;
use serde::{Deserialize, Serialize};
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

    /// Carries out an order. Blocks until packets are seen, or none any more. An error has the name of the wrong
    /// parameter (empty if none is wrong) and the reason.
    fn order(&self, order: &PacketOrder) -> Result<(), (&'static str, String)>;
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
    let task = tokio::task::spawn_blocking(move || source.order(&order).map(|()| source.now()));
    match task.await.map_err(|e| ApiError::internal(e.to_string()))? {
        Ok(now) => Ok(Json(&*now).into_response()),
        Err(("", why)) => Err(ApiError::refused(StatusCode::SERVICE_UNAVAILABLE, "busy", why)),
        Err((param, why)) => Err(ApiError::bad_query(param, why)),
    }
}
