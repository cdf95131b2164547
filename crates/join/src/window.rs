//! Bundles of one host → flow records: one record per bundle and window of time, with the names of its process and the
//! true addresses of its ends.
//!
//! A record that finds no reader is given back ([`Windows::keep`]) and grows with the next window, so that a slow
//! reader loses no counts.

use crate::Resources;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wirespan_model::event::Actor;
use wirespan_model::{Bundle, Endpoint, FiveTuple, Flow, FlowCounts, FlowKey, Resource, Role};

/// Bundles at which a window should end before its time, so that memory does not grow with the number of peers.
pub const FULL_BUNDLES: usize = 2048;
/// A bundle whose connections are silent is reported this often, so that it stays on the map.
const HEARTBEAT: Duration = Duration::from_secs(60);
/// Most bundles in a window; records of further ones are dropped, and counted.
const MAX_BUNDLES: usize = 500_000;

/// Finds the true ends of a connection behind NAT. Asked with the ends that a socket sees, whether that socket is the
/// server's, its network namespace and its process; `None` if the ends are true, or if nothing is known.
pub type TrueEnds<'a> = &'a mut dyn FnMut(FiveTuple, bool, u32, u32) -> Option<FiveTuple>;

/// What became of the bundles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowStats {
    /// Bundles taken.
    pub bundles: u64,
    /// Records given.
    pub records: u64,
    /// Records dropped because too many bundles waited.
    pub dropped: u64,
    /// Bundles with open connections.
    pub open: u64,
}

/// A bundle with open connections.
struct OpenBundle {
    connections: i64,
    /// The key of its records, with the true ends.
    reported_as: FlowKey,
    comm: Box<str>,
    cgroup_id: u64,
    client_port: u16,
    resource: Arc<Resource>,
    reported: Instant,
}

impl OpenBundle {
    /// A record that counts nothing, but says that the connections are open.
    fn silent(&self, begun_ns: u64) -> Flow {
        Flow {
            start_ns: begun_ns,
            end_ns: begun_ns,
            key: self.reported_as,
            comm: self.comm.clone(),
            cgroup_id: self.cgroup_id,
            client_port: self.client_port,
            resource: Arc::clone(&self.resource),
            counts: FlowCounts::default(),
        }
    }
}

/// The window that is open now, and the bundles that have open connections.
pub struct Windows {
    host_id: u64,
    resources: Box<dyn Resources + Send>,
    /// Begin of the window, Unix ns.
    begun_ns: u64,
    window: FxHashMap<FlowKey, Flow>,
    /// By the ends that the sockets see, not by the true ends, and the client's port if the bundle is one connection.
    open: FxHashMap<(FlowKey, u16), OpenBundle>,
    stats: WindowStats,
}

impl Windows {
    /// Begins the first window at `begun_ns`, Unix ns.
    pub fn new(host_id: u64, resources: Box<dyn Resources + Send>, begun_ns: u64) -> Self {
        Windows {
            host_id,
            resources,
            begun_ns,
            window: FxHashMap::default(),
            open: FxHashMap::default(),
            stats: WindowStats::default(),
        }
    }

    /// Bundles in the window.
    pub fn len(&self) -> usize {
        self.window.len()
    }

    /// Whether no bundle is in the window.
    pub fn is_empty(&self) -> bool {
        self.window.is_empty()
    }

    /// Counts since the start.
    pub fn stats(&self) -> WindowStats {
        WindowStats { open: self.open.len() as u64, ..self.stats }
    }

    /// Adds a bundle, drained at `now`.
    pub fn add(&mut self, bundle: Bundle, now: Instant, true_ends: TrueEnds<'_>) {
        self.stats.bundles += 1;
        let k = bundle.key;
        let seen = FlowKey {
            host_id: self.host_id,
            role: k.role,
            transport: k.transport,
            local: k.local,
            remote: k.remote,
            port: k.port,
            pid: k.pid,
            process_start_ns: k.process_start_ns,
            netns: k.netns,
        };
        // Without a new connection, the ends of the bundle are those of its last record.
        let known_as = (seen, k.client_port);
        let key = match self.open.get(&known_as) {
            Some(open) if bundle.counts.opened == 0 => open.reported_as,
            _ => with_true_ends(seen, bundle.client_port, true_ends),
        };
        if let Some(flow) = self.window.get_mut(&key) {
            flow.counts.add(&bundle.counts);
            flow.client_port = bundle.client_port;
        } else {
            let actor = Actor {
                pid: k.pid,
                tid: k.pid,
                comm: bundle.comm,
                cgroup_id: bundle.cgroup_id,
                netns: k.netns,
                coroutine: 0,
            };
            let end = bundle.comm.iter().position(|b| *b == 0).unwrap_or(bundle.comm.len());
            let flow = Flow {
                start_ns: self.begun_ns,
                end_ns: self.begun_ns,
                key,
                comm: String::from_utf8_lossy(&bundle.comm[..end]).into(),
                cgroup_id: bundle.cgroup_id,
                client_port: bundle.client_port,
                resource: self.resources.resource(&actor),
                counts: bundle.counts,
            };
            self.keep(flow);
        }
        if bundle.active_change == 0 {
            return;
        }
        if let Some(open) = self.open.get_mut(&known_as) {
            (open.connections, open.reported_as) = (open.connections + bundle.active_change, key);
        } else if let Some(flow) = self.window.get(&key) {
            let open = OpenBundle {
                connections: bundle.active_change,
                reported_as: key,
                comm: flow.comm.clone(),
                cgroup_id: flow.cgroup_id,
                client_port: flow.client_port,
                resource: Arc::clone(&flow.resource),
                reported: now,
            };
            self.open.insert(known_as, open);
        }
    }

    /// Puts a record into the window: a new one, or one that found no reader.
    pub fn keep(&mut self, flow: Flow) {
        if let Some(known) = self.window.get_mut(&flow.key) {
            known.merge(&flow);
        } else if self.window.len() < MAX_BUNDLES {
            self.window.insert(flow.key, flow);
        } else {
            self.stats.dropped += 1;
        }
    }

    /// Ends the window at `end_ns` (Unix ns), and gives its records in parts of at most `part`.
    pub fn close(&mut self, part: usize, end_ns: u64, now: Instant) -> Vec<Vec<Flow>> {
        let end_ns = end_ns.max(self.begun_ns);
        // Records that were given back carry the number of an earlier window.
        self.window.values_mut().for_each(|flow| flow.counts.active = 0);
        for open in self.open.values_mut() {
            let silent = !self.window.contains_key(&open.reported_as);
            if silent && open.connections > 0 && now.saturating_duration_since(open.reported) >= HEARTBEAT {
                self.window.insert(open.reported_as, open.silent(self.begun_ns));
            }
            // Several bundles may be one behind NAT.
            if let Some(flow) = self.window.get_mut(&open.reported_as) {
                flow.counts.active += open.connections.max(0) as u64;
                open.reported = now;
            }
        }
        let mut records = std::mem::take(&mut self.window).into_values().map(|flow| Flow { end_ns, ..flow });
        let mut parts = Vec::new();
        loop {
            let next: Vec<Flow> = records.by_ref().take(part.max(1)).collect();
            if next.is_empty() {
                break;
            }
            self.stats.records += next.len() as u64;
            parts.push(next);
        }
        self.open.retain(|_, open| open.connections > 0);
        self.begun_ns = end_ns;
        parts
    }
}

/// The key with the ends that the packets have where their addresses are translated no more.
fn with_true_ends(key: FlowKey, client_port: u16, true_ends: TrueEnds<'_>) -> FlowKey {
    let unknown = key.local.is_unspecified() || key.remote.is_unspecified();
    if key.role == Role::Unknown || client_port == 0 || unknown {
        return key;
    }
    let serves = key.role == Role::Server;
    let (client, server) = if serves { (key.remote, key.local) } else { (key.local, key.remote) };
    let (client, server) = (Endpoint::new(client, client_port), Endpoint::new(server, key.port));
    let seen = FiveTuple { transport: key.transport, client, server };
    let Some(ends) = true_ends(seen, serves, key.netns, key.pid) else { return key };
    let (local, remote) = if serves { (ends.server.ip, ends.client.ip) } else { (ends.client.ip, ends.server.ip) };
    FlowKey { local, remote, port: ends.server.port, ..key }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};
    use wirespan_model::{BundleKey, Transport};

    struct Nobody;

    impl Resources for Nobody {
        fn resource(&self, _: &Actor) -> Arc<Resource> {
            Arc::default()
        }
    }

    struct World {
        windows: Windows,
        now: Instant,
    }

    impl World {
        fn new() -> Self {
            World { windows: Windows::new(1, Box::new(Nobody), 5), now: Instant::now() }
        }

        fn add(&mut self, bundle: Bundle) {
            self.windows.add(bundle, self.now, &mut |_, _, _, _| None);
        }

        fn close(&mut self) -> Vec<Flow> {
            self.windows.close(512, 10, self.now).concat()
        }
    }

    fn bundle(pid: u32, start: u64, opened: u64, closed: u64) -> Bundle {
        let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let key = BundleKey {
            role: Role::Client,
            transport: Transport::Tcp,
            local: ip,
            remote: ip,
            port: 80,
            pid,
            process_start_ns: start,
            netns: 1,
            client_port: 0,
        };
        let counts = FlowCounts { opened, closed, bytes_sent: 10, ..FlowCounts::default() };
        let active_change = opened as i64 - closed as i64;
        Bundle { key, comm: *b"worker\0\0\0\0\0\0\0\0\0\0", cgroup_id: 1, client_port: 9, active_change, counts }
    }

    #[test]
    fn bundles_of_one_window_become_one_record_and_open_connections_are_remembered() {
        let mut w = World::new();
        w.add(bundle(u32::MAX, 1, 3, 0));
        w.add(bundle(u32::MAX, 1, 1, 2));
        let first = w.close();
        let [flow] = &first[..] else { panic!("{first:?}") };
        assert_eq!((flow.counts.opened, flow.counts.closed, flow.counts.active), (4, 2, 2));
        assert_eq!((flow.counts.bytes_sent, &*flow.comm), (20, "worker"));
        assert_eq!((flow.start_ns, flow.end_ns, flow.key.host_id), (5, 10, 1));
        assert!(w.close().is_empty(), "silence is not reported at once");
        w.now += HEARTBEAT;
        let silent = w.close();
        assert_eq!((silent.len(), silent[0].counts.active, silent[0].counts.bytes_sent), (1, 2, 0));
        w.add(bundle(u32::MAX, 1, 0, 2));
        assert_eq!(w.close()[0].counts.active, 0);
        assert_eq!(w.windows.stats(), WindowStats { bundles: 3, records: 3, dropped: 0, open: 0 });
    }

    #[test]
    fn two_processes_with_one_pid_are_two() {
        let mut w = World::new();
        w.add(bundle(u32::MAX, 1, 1, 1));
        w.add(bundle(u32::MAX, 2, 1, 1));
        assert_eq!(w.close().len(), 2);
    }

    #[test]
    fn records_without_a_reader_grow_with_the_next_window() {
        let mut w = World::new();
        w.add(bundle(u32::MAX, 1, 1, 0));
        let back = w.close();
        back.into_iter().for_each(|f| w.windows.keep(f));
        w.add(bundle(u32::MAX, 1, 1, 0));
        let all = w.close();
        assert_eq!((all.len(), all[0].counts.opened, all[0].counts.active), (1, 2, 2));
    }

    #[test]
    fn records_come_in_parts() {
        let mut w = World::new();
        (0..5).for_each(|start| w.add(bundle(7, start, 1, 1)));
        let parts: Vec<usize> = w.windows.close(2, 10, w.now).iter().map(Vec::len).collect();
        assert_eq!(parts, [2, 2, 1]);
    }

    #[test]
    fn connections_through_nat_have_true_ends_of_their_own() {
        let mut w = World::new();
        let backend = |seen: FiveTuple| Endpoint::new([10, 0, 0, (seen.client.port % 5) as u8].into(), 80);
        let mut ends = |seen: FiveTuple, _: bool, _: u32, _: u32| Some(FiveTuple { server: backend(seen), ..seen });
        let one = |port: u16, opened, closed| {
            let of = bundle(7, 1, opened, closed);
            Bundle { key: BundleKey { client_port: port, ..of.key }, client_port: port, ..of }
        };
        (100..120).for_each(|port| w.windows.add(one(port, 1, 0), w.now, &mut ends));
        (100..110).for_each(|port| w.windows.add(one(port, 0, 1), w.now, &mut ends));
        let records = w.close();
        assert_eq!(records.len(), 5);
        for flow in &records {
            assert_eq!((flow.counts.opened, flow.counts.closed, flow.counts.active), (4, 2, 2), "{flow:?}");
        }
        assert_eq!(w.windows.stats().open, 10);
    }

    #[test]
    fn a_bundle_behind_nat_is_reported_with_its_true_ends_until_a_connection_is_new() {
        let mut w = World::new();
        let real = Endpoint::new([10, 0, 0, 9].into(), 8080);
        let mut asked = 0;
        let mut ends = |seen: FiveTuple, serves: bool, netns: u32, pid: u32| {
            asked += 1;
            assert_eq!((seen.client.port, seen.server.port, serves, netns, pid), (9, 80, false, 1, 7));
            Some(FiveTuple { server: real, ..seen })
        };
        w.windows.add(bundle(7, 1, 1, 0), w.now, &mut ends);
        w.windows.add(bundle(7, 1, 0, 0), w.now, &mut ends);
        assert_eq!(asked, 1, "without a new connection the ends are known");
        let records = w.close();
        assert_eq!(records.len(), 1);
        assert_eq!((records[0].key.remote, records[0].key.port), (real.ip, real.port));
    }
}
