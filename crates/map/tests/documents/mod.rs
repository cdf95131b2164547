//! Small maps for the tests.
#![allow(dead_code, unreachable_pub)]

use super::world::{proc, World, MS, T0};
use std::sync::Arc;
use wirespan_map::{Document, ServiceMap};
use wirespan_model::{Flow, FlowCounts, FlowKey, Resource, Role, TimeRange, Transport};

pub const RANGE: TimeRange = TimeRange { from_ns: T0, to_ns: T0 + 3_600_000 * MS };

/// A flow record of a service at port 80.
pub fn flow(service: &str, role: Role, local: [u8; 4], remote: [u8; 4], counts: FlowCounts) -> Flow {
    let key = FlowKey {
        host_id: u64::from(local[3]),
        role,
        transport: Transport::Tcp,
        local: local.into(),
        remote: remote.into(),
        port: 80,
        pid: 1,
        process_start_ns: 1,
        netns: 1,
    };
    let resource = Arc::new(Resource { service: service.into(), ..Resource::default() });
    let (comm, client_port) = ("x".into(), 0);
    Flow { start_ns: T0, end_ns: T0 + 1000 * MS, key, comm, cgroup_id: 0, client_port, resource, counts }
}

/// `web` calls `cart` `n` times, each time for `slow` ms, and `cart` calls another service once.
pub fn document(n: u64, slow: u64, extra: Option<&'static str>) -> Document {
    let mut w = World::default();
    for i in 0..n {
        w.call(None, proc(1, 1, "web"), proc(2, 2, "cart"), T0 + i * 100 * MS, T0 + i * 100 * MS + slow * MS);
    }
    if let Some(name) = extra {
        w.call(None, proc(2, 2, "cart"), proc(3, 3, name), T0, T0 + MS);
    }
    Document::new(&ServiceMap::of_spans(&w.spans), RANGE)
}

/// A map of flow records alone: so many connections, attempts that failed, and handshakes of 2^`bucket` µs.
pub fn of_flows(opened: u64, failed: u64, bucket: usize) -> Document {
    let mut counts = FlowCounts { opened, failed, active: 2, ..FlowCounts::default() };
    counts.handshake.0[bucket] = opened;
    counts.srtt.0[bucket] = opened;
    let record = flow("web", Role::Client, [10, 0, 0, 1], [10, 0, 0, 9], counts);
    Document::new(&ServiceMap::of_evidence(&[], &[record]), RANGE)
}
