//! Packet programs that the agents of this server run: what they tell, and the order to run or end one.

use super::packets::refused;
use crate::error::{ApiError, ErrorBody};
use crate::filter::params;
use crate::shape::FleetView;
use crate::whose::{servers, Whose};
use crate::ViewState;
use axum::extract::rejection::JsonRejection;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use axum::Json;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// Where they are asked for, and where orders are sent to.
pub(crate) const PATH: &str = "/api/v1/packets/agents";

/// A packet program that agents are to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetOrder {
    /// The program (YAML, see docs/packets.md). Empty: the one that runs ends.
    pub program: String,
    /// The agents that run it, by name; empty: all.
    #[serde(default)]
    pub agents: Vec<String>,
    /// The program that this one takes the place of, by its number: at the agents that run it, without a gap. Otherwise
    /// a program that runs is left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<u64>,
}

/// What a client has already.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct Had {
    /// Lines that were received; the server forgets them. Without this, no lines are told.
    lines: Option<u64>,
}

/// Runs packet programs on agents.
pub trait FleetSource: Send + Sync {
    /// What the agents have told, with the lines from this number on; `None`: without lines. Must not block for long.
    fn now(&self, had_lines: Option<u64>) -> FleetView;

    /// See [`PacketSource::whose`](super::PacketSource::whose).
    fn whose(&self, order: &FleetOrder) -> Result<Option<Whose>, (&'static str, String)>;

    /// Sends an order to agents. Returns when it was sent. Errors: see [`FleetSource::whose`].
    fn order(&self, order: &FleetOrder, servers: Vec<SocketAddr>) -> Result<(), (&'static str, String)>;
}

fn source(state: &ViewState) -> Result<Arc<dyn FleetSource>, ApiError> {
    let e = || ApiError::not_found("this wirespan has no agents").hint("ask a `wirespan server`");
    state.fleet.clone().ok_or_else(e)
}

/// The packet program that agents run or ran last, and what each of them tells.
#[utoipa::path(get, path = "/api/v1/packets/agents", params(Had), responses(
    (status = 200, body = FleetView), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(super) async fn agents(State(state): State<ViewState>, RawQuery(raw): RawQuery) -> Result<Response, ApiError> {
    let had: Had = params(raw.as_deref())?;
    Ok(Json(source(&state)?.now(had.lines)).into_response())
}

/// Runs a packet program on agents, or ends it.
#[utoipa::path(post, path = "/api/v1/packets/agents", operation_id = "order_agents",
    request_body = FleetOrder, responses(
    (status = 200, body = FleetView), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(super) async fn order(
    State(state): State<ViewState>,
    order: Result<Json<FleetOrder>, JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(order) = order.map_err(|e| ApiError::bad_query("", e.body_text()))?;
    let source = source(&state)?;
    let servers = match source.whose(&order).map_err(refused)? {
        Some(whose) => state.query(move |store| servers(store, &whose)).await?,
        None => Vec::new(),
    };
    let task = tokio::task::spawn_blocking(move || source.order(&order, servers).map(|()| source.now(None)));
    let now = task.await.map_err(|e| ApiError::internal(e.to_string()))?.map_err(refused)?;
    Ok(Json(now).into_response())
}
