//! The order to record for a time what slow requests wait for. It is the only request that changes anything.

use crate::error::{ApiError, ErrorBody};
use crate::ViewState;
use axum::extract::rejection::JsonRejection;
use axum::extract::State;
use axum::http::StatusCode;
use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where it is sent to.
pub(crate) const PATH: &str = "/api/v1/why";

/// What a user asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WhyOrder {
    /// Name of the service.
    pub service: String,
    /// Endpoint, as `GET /cart/*`, or `/cart/*` for all operations; empty for all.
    #[serde(default)]
    pub endpoint: String,
    /// Requests that take at least so long are slow: `50ms`; or `auto`: longer than most requests of their endpoint; or
    /// `off`: no waits are recorded.
    #[serde(default = "auto")]
    pub threshold: String,
    /// System calls that are recorded of each request: names with commas between, or `all`; empty for none. This slows
    /// every system call of the machine meanwhile.
    #[serde(default)]
    pub syscalls: String,
    /// How they are shown: `spans`, `events` or `attributes`.
    #[serde(rename = "as", default = "attributes")]
    pub form: String,
    /// For how long: `60s`; at most an hour.
    #[serde(rename = "for", default = "minute")]
    pub time: String,
}

impl WhyOrder {
    /// The threshold by which no waits are recorded.
    pub const NO_WAITS: &str = "off";
}

/// What has begun.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WhyBegun {
    /// When it ends, Unix ns.
    pub until_ns: u64,
    /// Processes of the service that are traced now.
    pub processes: usize,
    /// Of a server: what each of its agents does.
    pub agents: Vec<WhyAgent>,
}

/// What an agent does about an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhyState {
    /// It has not answered: whether it records is not known.
    #[default]
    Silent,
    /// It records.
    Records,
    /// It traces no process of the service, and records nothing.
    NoProcess,
    /// It does not obey; `why` says the reason.
    Refused,
}

/// An agent of a server, and what it does about an order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct WhyAgent {
    /// Name of its host; with its process if several run there.
    pub agent: String,
    /// What it does.
    pub state: WhyState,
    /// Why it does not obey; else empty.
    pub why: String,
    /// Processes of the service that it traces.
    pub processes: usize,
}

fn attributes() -> String {
    "attributes".into()
}

fn auto() -> String {
    "auto".into()
}

fn minute() -> String {
    "60s".into()
}

/// Begins to record. An error has the name of the wrong parameter (empty
/// if none is wrong) and the reason.
pub type WhySource = dyn Fn(&WhyOrder) -> Result<WhyBegun, (&'static str, String)> + Send + Sync;

/// Answer of `/api/v1/why`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct WhyView {
    /// When it ends, Unix ns.
    until_ns: String,
    /// Number of processes of the service that are traced now.
    processes: usize,
    /// Of a server: what each of its agents does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    agents: Vec<WhyAgent>,
}

/// Records from now on, and for a time, what slow requests of a service wait for (docs/why.md).
#[utoipa::path(post, path = "/api/v1/why", request_body = WhyOrder, responses(
    (status = 200, body = WhyView), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(super) async fn why(
    State(state): State<ViewState>,
    order: Result<Json<WhyOrder>, JsonRejection>,
) -> Result<Json<WhyView>, ApiError> {
    let Json(order) = order.map_err(|e| ApiError::bad_query("", e.body_text()))?;
    let Some(source) = state.why.clone() else {
        let e = ApiError::not_found("this wirespan traces no processes");
        return Err(e.hint("ask a `wirespan up` or `wirespan run` on the machine of the service"));
    };
    if order.service.trim().is_empty() {
        return Err(ApiError::bad_query("service", "no service is named"));
    }
    let task = tokio::task::spawn_blocking(move || source(&order));
    match task.await.map_err(|e| ApiError::internal(e.to_string()))? {
        Ok(WhyBegun { until_ns, processes, agents }) => {
            Ok(Json(WhyView { until_ns: until_ns.to_string(), processes, agents }))
        }
        Err(("", why)) => Err(ApiError::refused(StatusCode::SERVICE_UNAVAILABLE, "busy", why)),
        Err((param, why)) => Err(ApiError::bad_query(param, why)),
    }
}
