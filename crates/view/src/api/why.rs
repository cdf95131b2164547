//! The order to record for a time what slow requests wait for.

use crate::error::{ApiError, ErrorBody};
use crate::when::now_ns;
use crate::ViewState;
use axum::extract::rejection::JsonRejection;
use axum::extract::State;
use axum::http::StatusCode;
use axum::Json;
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, PoisonError};
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
    /// Take the stacks of the kernel; absent: as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_stack: Option<bool>,
    /// Take the stacks of programs; absent: as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_stack: Option<bool>,
    /// Tell how often threads were woken, and how long they were ready then; absent: as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<bool>,
    /// The orders before for this service and this endpoint end now; nothing begins.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub end: bool,
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

/// An order that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Recording {
    /// Name of the service.
    service: String,
    /// Endpoint; empty for all.
    endpoint: String,
    /// Requests that take at least so long are slow.
    threshold: String,
    /// When it ends, Unix ns.
    until_ns: String,
    #[serde(skip)]
    ends_ns: u64,
}

/// The orders that a view has passed on.
#[derive(Debug, Default)]
pub(crate) struct Recorded(Mutex<Vec<Recording>>);

impl Recorded {
    /// Those that have not ended.
    pub(crate) fn now(&self, now_ns: u64) -> Vec<Recording> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| one.ends_ns > now_ns);
        all.clone()
    }

    /// Notes an order that was obeyed.
    fn note(&self, order: &WhyOrder, until_ns: u64) {
        let (service, endpoint) = (order.service.trim().to_owned(), order.endpoint.trim().to_owned());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| (&one.service, &one.endpoint) != (&service, &endpoint) && one.ends_ns > now_ns());
        if !order.end && order.threshold != WhyOrder::NO_WAITS {
            let (threshold, ends_ns) = (order.threshold.clone(), until_ns);
            all.push(Recording { service, endpoint, threshold, until_ns: until_ns.to_string(), ends_ns });
        }
    }
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

/// Records from now on, and for a time, what slow requests of a service wait for (docs/why.md); or ends that.
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
    let asked = order.clone();
    let task = tokio::task::spawn_blocking(move || source(&asked));
    match task.await.map_err(|e| ApiError::internal(e.to_string()))? {
        Ok(WhyBegun { until_ns, processes, agents }) => {
            state.recording.note(&order, until_ns);
            Ok(Json(WhyView { until_ns: until_ns.to_string(), processes, agents }))
        }
        Err(("", why)) => Err(ApiError::refused(StatusCode::SERVICE_UNAVAILABLE, "busy", why)),
        Err((param, why)) => Err(ApiError::bad_query(param, why)),
    }
}
