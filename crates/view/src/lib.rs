//! Shows what the store holds: a query API with its OpenAPI description, a Jaeger-compatible API, and the web UI.
//!
//! Takes HTTP requests, gives JSON and the UI's files. It only reads: every method but GET (and HEAD) is refused, but
//! for two orders: to record for a time what slow requests wait for ([`WhyOrder`]), and to run a packet program
//! ([`PacketOrder`]).
//! Queries run on blocking threads, at most [`MAX_QUERIES`] at once. A query that waits longer than [`QUEUE_TIME`] is
//! answered with 503 and counted.
#![forbid(unsafe_code)]

mod ahead;
mod api;
mod assemble;
mod assets;
pub mod draw;
mod error;
mod evidence;
mod filter;
#[cfg(feature = "fuzzed")]
pub mod fuzzed;
mod guard;
mod jaeger;
mod map_file;
mod pack;
mod shape;
mod stats;
mod when;
mod whose;

pub use api::{
    flow_records, openapi, FleetOrder, FleetSource, FlowFilter, FlowRecord, FlowRecords, PacketOrder, PacketSource,
    WhyAgent, WhyBegun, WhyOrder, WhySource, WhyState,
};
pub use assemble::StoredSpans;
pub use error::{ApiError, ErrorBody, Problem};
pub use evidence::service_map;
pub use map_file::{MapFile, MapFileError};
pub use shape::{
    attributes, fleet, packets, what_to_do, AgentStatus, Counter, Memory, SpanView, Stage, TimeView, TraceView,
};
pub use when::{parse_duration, parse_time};
pub use whose::Whose;
pub use wirespan_model::Hosts;

use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use axum::Router;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tower_service::Service as _;
use wirespan_store::Store;

/// Most queries that run at once.
pub const MAX_QUERIES: usize = 8;
/// Longest time that a query waits for a thread.
pub const QUEUE_TIME: Duration = Duration::from_secs(10);

/// Gives the state of the process for the status page.
pub trait StatusSource: Send + Sync {
    /// The state now. Called once per request; must not block for long.
    fn status(&self) -> AgentStatus;
}

impl<F: Fn() -> AgentStatus + Send + Sync> StatusSource for F {
    fn status(&self) -> AgentStatus {
        self()
    }
}

/// Gives the metric families of the process in the Prometheus text format.
pub type MetricsSource = dyn Fn() -> String + Send + Sync;

/// The state that the view needs for its answers. It is cheap to clone.
#[derive(Clone)]
pub struct ViewState {
    store: Arc<dyn Store>,
    status: Arc<dyn StatusSource>,
    metrics: Arc<MetricsSource>,
    hosts: Hosts,
    token: Option<Arc<str>>,
    stats: Arc<stats::Stats>,
    gate: Arc<Semaphore>,
    housekeeping: bool,
    why: Option<Arc<WhySource>>,
    recording: Arc<api::Recorded>,
    packets: Option<Arc<dyn PacketSource>>,
    fleet: Option<Arc<dyn FleetSource>>,
}

impl ViewState {
    /// A view of this store that accepts requests to loopback names only.
    pub fn new(store: Arc<dyn Store>) -> Self {
        ViewState {
            store,
            status: Arc::new(AgentStatus::default),
            metrics: Arc::new(String::new),
            hosts: Hosts::loopback(),
            token: None,
            stats: Arc::default(),
            gate: Arc::new(Semaphore::new(MAX_QUERIES)),
            housekeeping: false,
            why: None,
            recording: Arc::default(),
            packets: None,
            fleet: None,
        }
    }

    /// Shows this source's state on the status page.
    #[must_use]
    pub fn with_status(mut self, source: Arc<dyn StatusSource>) -> Self {
        self.status = source;
        self
    }

    /// Serves these metric families at `/metrics`.
    #[must_use]
    pub fn with_metrics(mut self, source: Arc<MetricsSource>) -> Self {
        self.metrics = source;
        self
    }

    /// Shows drivers' housekeeping and port probes as spans and traces of their own ([`wirespan_trace::fold`]).
    #[must_use]
    pub fn with_housekeeping(mut self, shown: bool) -> Self {
        self.housekeeping = shown;
        self
    }

    /// Hands on the order to record what slow requests wait for; `None`: this process traces nothing.
    #[must_use]
    pub fn with_why(mut self, source: Option<Arc<WhySource>>) -> Self {
        self.why = source;
        self
    }

    /// Runs packet programs by this; `None`: this process runs none.
    #[must_use]
    pub fn with_packets(mut self, source: Option<Arc<dyn PacketSource>>) -> Self {
        self.packets = source;
        self
    }

    /// Runs packet programs on agents by this; `None`: this process has no agents.
    #[must_use]
    pub fn with_fleet(mut self, source: Option<Arc<dyn FleetSource>>) -> Self {
        self.fleet = source;
        self
    }

    /// Sets the accepted names of the `Host` header.
    #[must_use]
    pub fn with_hosts(mut self, hosts: Hosts) -> Self {
        self.hosts = hosts;
        self
    }

    /// Answers only requests that present this secret: as a bearer token, as the query parameter `token`, or as the
    /// cookie that the parameter sets.
    #[must_use]
    pub fn with_token(mut self, token: &str) -> Self {
        self.token = (!token.is_empty()).then(|| token.into());
        self
    }

    /// Adapts the accepted names to a listener: one that is not on loopback accepts any, unless some are named.
    #[must_use]
    pub fn for_listener(mut self, addr: SocketAddr) -> Self {
        if !addr.ip().is_loopback() {
            self.hosts = self.hosts.for_public_bind();
        }
        self
    }

    /// Runs a query on a blocking thread once a thread is free.
    async fn query<T: Send + 'static>(
        &self,
        run: impl FnOnce(&dyn Store) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let permit = tokio::time::timeout(QUEUE_TIME, Arc::clone(&self.gate).acquire_owned())
            .await
            .map_err(|_| ApiError::busy())?
            .map_err(|e| ApiError::internal(e.to_string()))?;
        let store = Arc::clone(&self.store);
        let task = tokio::task::spawn_blocking(move || {
            // The thread holds the permit, not the request: if a client disconnects, the work goes on and still takes
            // its place.
            let _permit = permit;
            run(store.as_ref())
        });
        task.await.map_err(|e| ApiError::internal(format!("the query failed: {e}")))?
    }
}

/// Every route of the view.
pub fn router(state: ViewState) -> Router {
    let routes =
        Router::new().merge(api::routes()).merge(jaeger::routes()).fallback(assets::serve).with_state(state.clone());
    guard::protect(routes, state)
}

/// Status, metrics and health alone: for a process that shows no spans.
pub fn status_router(state: ViewState) -> Router {
    let elsewhere = || async { ApiError::not_found("this is an agent: its spans are at its server or collector") };
    guard::protect(api::status_routes().fallback(elsewhere).with_state(state.clone()), state)
}

/// Answers one request, with the routes of [`router`] or [`status_router`].
pub async fn answer<B>(router: &Router, request: Request<B>) -> Response
where
    B: axum::body::HttpBody<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    let Ok(response) = router.clone().call(request.map(Body::new)).await;
    response
}
