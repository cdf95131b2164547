//! Flow records as they were written: one per bundle of connections and window.

use super::map::range;
use crate::error::{ApiError, ErrorBody};
use crate::filter::params;
use crate::ViewState;
use axum::extract::{RawQuery, State};
use axum::Json;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::net::IpAddr;
use utoipa::{IntoParams, ToSchema};
use wirespan_model::event::Role;
use wirespan_model::{Flow, FlowCounts, Transport};
use wirespan_store::{Store, StoreError, TimeRange};

/// Default number of records.
const LIMIT: usize = 1000;
/// Greatest number of records.
const MAX_LIMIT: usize = 100_000;

/// Parameters of the search for flow records.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FlowParams {
    /// Begin of the range: Unix ns, RFC 3339, or `-15m`. Default `-1h`.
    from: Option<String>,
    /// End of the range, in the same forms, or `now`. Default `now`.
    to: Option<String>,
    /// Name of the service to which the flow belongs.
    service: Option<String>,
    /// Address of the other end.
    remote: Option<String>,
    /// Port at which the server listens.
    port: Option<u16>,
    /// Process id.
    pid: Option<u32>,
    /// Number of records to return, the latest ones; at most 100000. Default 1000.
    limit: Option<usize>,
}

/// Conditions on flow records; all given conditions must hold.
#[derive(Clone, Debug, Default)]
pub struct FlowFilter {
    /// Name of the service to which the flow belongs.
    pub service: Option<String>,
    /// Address of the other end.
    pub remote: Option<IpAddr>,
    /// Port at which the server listens.
    pub port: Option<u16>,
    /// Process id.
    pub pid: Option<u32>,
}

impl FlowFilter {
    fn takes(&self, flow: &Flow) -> bool {
        let key = &flow.key;
        self.service.as_deref().is_none_or(|s| s == flow.service())
            && self.remote.is_none_or(|ip| ip == key.remote)
            && self.port.is_none_or(|port| port == key.port)
            && self.pid.is_none_or(|pid| pid == key.pid)
    }
}

/// Flow records of a range of time, oldest first.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct FlowRecords {
    /// The records.
    pub flows: Vec<FlowRecord>,
    /// Number of records that matched. If it is greater than the number of records here, older ones were left out.
    pub matched: u64,
}

/// Traffic of one process with one address at one listening port in one window of time.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FlowRecord {
    /// Begin of the window, Unix ns.
    pub start_ns: String,
    /// End of the window, Unix ns.
    pub end_ns: String,
    /// Service of the process; the name of the process if it has no service name.
    pub service: String,
    /// Name of the process.
    pub comm: String,
    /// Process id.
    pub pid: u32,
    /// When the process started, ns since boot.
    pub process_start_ns: String,
    /// Name of the host.
    pub host: String,
    /// Id of the container; empty if there is none.
    pub container: String,
    /// `client`, `server` or `peer`.
    pub role: String,
    /// `tcp` or `udp`.
    pub transport: String,
    /// Address of the process.
    pub local: String,
    /// Address of the other end; `::` if there is none or it is not known.
    pub remote: String,
    /// Port at which the server listens.
    pub port: u16,
    /// Port of the client's end of one of the connections; 0 if not known.
    pub client_port: u16,
    /// Inode of the network namespace.
    pub netns: u32,
    /// Counts of the traffic, as further fields of the record.
    #[serde(flatten)]
    pub counts: FlowCounts,
}

impl FlowRecord {
    fn new(flow: &Flow) -> Self {
        let k = &flow.key;
        FlowRecord {
            start_ns: flow.start_ns.to_string(),
            end_ns: flow.end_ns.to_string(),
            service: flow.service().into(),
            comm: flow.comm.to_string(),
            pid: k.pid,
            process_start_ns: k.process_start_ns.to_string(),
            host: flow.resource.host.to_string(),
            container: flow.resource.container.to_string(),
            role: match k.role {
                Role::Client => "client",
                Role::Server => "server",
                Role::Unknown => "peer",
            }
            .into(),
            transport: match k.transport {
                Transport::Udp => "udp",
                _ => "tcp",
            }
            .into(),
            local: k.local.to_string(),
            remote: k.remote.to_string(),
            port: k.port,
            client_port: flow.client_port,
            netns: k.netns,
            counts: flow.counts.clone(),
        }
    }
}

/// The latest `limit` records of a range of time.
///
/// # Errors
/// The store cannot be read.
pub fn flow_records(
    store: &dyn Store,
    range: TimeRange,
    filter: &FlowFilter,
    limit: usize,
) -> Result<FlowRecords, StoreError> {
    let (mut latest, mut matched) = (VecDeque::new(), 0);
    store.flows(range, &mut |flow| {
        if filter.takes(flow) {
            matched += 1;
            if latest.len() >= limit {
                latest.pop_front();
            }
            latest.push_back(FlowRecord::new(flow));
        }
    })?;
    Ok(FlowRecords { flows: latest.into(), matched })
}

/// Flow records as they were written, one per bundle of connections and window.
#[utoipa::path(get, path = "/api/v1/flows", params(FlowParams), responses(
    (status = 200, body = FlowRecords), (status = 400, body = ErrorBody)))]
pub(super) async fn flows(
    State(state): State<ViewState>,
    RawQuery(raw): RawQuery,
) -> Result<Json<FlowRecords>, ApiError> {
    let p: FlowParams = params(raw.as_deref())?;
    let range = range(p.from.as_deref(), p.to.as_deref())?;
    let limit = p.limit.unwrap_or(LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(ApiError::bad_query("limit", format!("{limit} records: give 1 to {MAX_LIMIT}")));
    }
    let remote = match p.remote.as_deref().filter(|r| !r.is_empty()) {
        Some(text) => Some(text.parse::<IpAddr>().map_err(|e| ApiError::bad_query("remote", format!("{text}: {e}")))?),
        None => None,
    };
    let filter = FlowFilter { service: p.service, remote, port: p.port, pid: p.pid };
    Ok(Json(state.query(move |store| Ok(flow_records(store, range, &filter, limit)?)).await?))
}
