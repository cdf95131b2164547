//! The servers that a packet program means by spans of the store.

use crate::assemble::{assemble_linked, find_trace};
use crate::error::ApiError;
use crate::when::now_ns;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use wirespan_model::{Span, Transport};
use wirespan_store::{Query, Store, TimeRange};

/// Spans that are looked at for their servers at most, and how old they may be.
const SPANS: usize = 1000;
const LOOK_BACK_NS: u64 = 3_600_000_000_000;

/// Spans by which a packet program chooses packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Those of the trace with this id, or with a span of this id.
    Trace(String),
    /// Requests of the last hour that were answered.
    Requests {
        /// By this service.
        service: Option<String>,
        /// With this in their target.
        endpoint: Option<String>,
    },
}

/// Where the servers of these spans listen, over TCP.
pub(crate) fn servers(store: &dyn Store, whose: &Whose) -> Result<Vec<SocketAddr>, ApiError> {
    let mut all = BTreeSet::new();
    match whose {
        Whose::Trace(id) => {
            let trace = assemble_linked(store, find_trace(store, id)?, true)?;
            trace.spans.iter().for_each(|s| all.extend(servers_of(&s.span)));
        }
        Whose::Requests { service, endpoint } => {
            let now_ns = now_ns();
            let query = Query {
                range: TimeRange { from_ns: now_ns.saturating_sub(LOOK_BACK_NS), to_ns: u64::MAX },
                service: service.clone(),
                endpoint: endpoint.clone(),
                tap: Some("server-process".into()),
                limit: SPANS,
                ..Query::default()
            };
            store.search(&query)?.iter().for_each(|span| all.extend(servers_of(span)));
        }
    }
    Ok(all.into_iter().collect())
}

/// The server of a span, under the address that was asked for and under its own.
fn servers_of(span: &Span) -> Vec<SocketAddr> {
    if span.tuple.transport != Transport::Tcp {
        return Vec::new();
    }
    let server = span.tuple.server;
    let asked = span.text("server.address").and_then(|ip| ip.parse().ok());
    let asked = asked.zip(span.number("server.port").and_then(|port| u16::try_from(port).ok()));
    let own = (server.port > 0).then(|| SocketAddr::new(server.ip.to_canonical(), server.port));
    own.into_iter().chain(asked.map(|(ip, port)| SocketAddr::new(ip, port))).collect()
}
