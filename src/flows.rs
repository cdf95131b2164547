//! Flows on their way through the agent: the kernel's bundles, drained every second, become one record per bundle and
//! window, with the names of who they are.
//!
//! What is due is never lost for want of a reader: while the out thread has no room, windows stay here and grow
//! together. A window that holds many bundles is told before its time, so that memory does not grow with the number of
//! peers.
//!
//! Who is at the other end of NAT, connection tracking tells of one connection of the bundle, at each drain.

use crate::clock::now_ns;
use crate::counters::Counters;
use crate::pipeline::Batch;
use anyhow::Result;
use crossbeam_channel::{Sender, TrySendError};
use rustc_hash::FxHashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wirespan_capture::{Bundle, FlowSource, Flows};
use wirespan_enrich::{Enricher, Nat};
use wirespan_model::event::Actor;
use wirespan_model::{Endpoint, FiveTuple, Flow, FlowCounts, FlowKey, Resource, Role};

/// How often the thread looks whether it shall end.
const LOOK: Duration = Duration::from_millis(100);
/// A bundle whose connections are silent is reported this often, so that it stays on the map.
const HEARTBEAT: Duration = Duration::from_secs(60);
/// Records per message to the out thread.
const PART: usize = 512;
/// Bundles at which a window ends before its time.
const FULL: usize = 2048;
/// Messages to the out thread beyond which it is waited for, and for how long: they are large, and what the kernel
/// holds meanwhile is smaller.
const AHEAD: usize = 4;
const PATIENCE: Duration = Duration::from_millis(200);
/// Connections through NAT that are remembered.
const TRANSLATIONS: usize = 4096;
/// Bundles that may wait for a stuck out thread; beyond it they are dropped, and counted.
const MAX_WAITING: usize = 500_000;

/// When bundles are drained, and how long a record's window is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rhythm {
    /// Between two drains.
    pub(crate) drain: Duration,
    /// Of a record.
    pub(crate) window: Duration,
}

/// A bundle with open connections.
struct Open {
    count: i64,
    /// How it is told: with its true ends.
    told_as: FlowKey,
    comm: Box<str>,
    cgroup_id: u64,
    client_port: u16,
    resource: Arc<Resource>,
    told: Instant,
}

impl Open {
    /// A record of silence.
    fn silent(&self) -> Flow {
        Flow {
            start_ns: 0,
            end_ns: 0,
            key: self.told_as,
            comm: self.comm.clone(),
            cgroup_id: self.cgroup_id,
            client_port: self.client_port,
            resource: Arc::clone(&self.resource),
            counts: FlowCounts::default(),
        }
    }
}

/// The thread's state.
pub(crate) struct Windows {
    enricher: Arc<Enricher>,
    rhythm: Rhythm,
    begun_ns: u64,
    window: FxHashMap<FlowKey, Flow>,
    /// By what their sockets say, not by their true ends.
    open: FxHashMap<FlowKey, Open>,
    /// True ends behind NAT; `None` where connection tracking cannot be asked.
    nat: Option<Nat>,
    drains: u64,
    bundles: u64,
    records: u64,
    dropped: u64,
}

impl Windows {
    pub(crate) fn new(enricher: Arc<Enricher>, rhythm: Rhythm) -> Self {
        Windows {
            enricher,
            rhythm,
            begun_ns: now_ns(),
            window: FxHashMap::default(),
            open: FxHashMap::default(),
            nat: None,
            drains: 0,
            bundles: 0,
            records: 0,
            dropped: 0,
        }
    }

    /// Drains until it shall stop, and once more then. `stop` is raised when the programs are detached.
    pub(crate) fn run(
        mut self,
        source: FlowSource,
        stop: &AtomicBool,
        out: &Sender<Batch>,
        counters: &Counters,
    ) -> Result<()> {
        let mut flows = source.open()?;
        self.nat = Nat::with_room(Path::new("/proc"), TRANSLATIONS);
        let mut drained = Instant::now();
        let mut window = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let left = self.rhythm.drain.saturating_sub(drained.elapsed());
            let full = flows.wait(left.min(LOOK));
            if !full && drained.elapsed() < self.rhythm.drain {
                continue;
            }
            drained = Instant::now();
            // Connection tracking may be loaded later, with the first container.
            self.nat = self.nat.take().or_else(|| Nat::with_room(Path::new("/proc"), TRANSLATIONS));
            self.drain(&mut flows, out);
            if window.elapsed() >= self.rhythm.window {
                window = Instant::now();
                self.offer_window(out);
            }
            self.publish(counters);
        }
        self.drain(&mut flows, out);
        for part in self.close_window() {
            // The end waits for room, as for spans.
            let _ = out.send(Batch::Flows(part));
        }
        self.publish(counters);
        Ok(())
    }

    fn drain(&mut self, flows: &mut Flows, out: &Sender<Batch>) {
        let drained = flows.drain(&mut |bundle| {
            self.bundles += 1;
            self.add(bundle);
            if self.window.len() >= FULL && self.bundles.is_multiple_of(PART as u64) {
                self.offer_window(out);
            }
        });
        if let Err(error) = drained {
            tracing::warn!(%error, "flows stay in the kernel until the next drain");
        }
        self.drains += 1;
    }

    /// Ends the window; what the out thread has no room for begins the next one.
    fn offer_window(&mut self, out: &Sender<Batch>) {
        let patient_until = Instant::now() + PATIENCE;
        for part in self.close_window() {
            while out.len() >= AHEAD && Instant::now() < patient_until {
                std::thread::sleep(Duration::from_millis(1));
            }
            if let Err(TrySendError::Full(Batch::Flows(back))) = out.try_send(Batch::Flows(part)) {
                back.into_iter().for_each(|flow| self.keep(flow));
            }
        }
    }

    /// The key with the ends that the packets have where they are not translated any more.
    fn true_ends(&mut self, key: FlowKey, client_port: u16) -> FlowKey {
        let Some(nat) = &mut self.nat else { return key };
        let (serves, mut real) = (key.role == Role::Server, key);
        if key.role == Role::Unknown || client_port == 0 || key.local.is_unspecified() || key.remote.is_unspecified() {
            return key;
        }
        let (client, server) = if serves { (key.remote, key.local) } else { (key.local, key.remote) };
        let (client, server) = (Endpoint::new(client, client_port), Endpoint::new(server, key.port));
        let seen = FiveTuple { transport: key.transport, client, server };
        if let Some(ends) = nat.ends(seen, serves, key.netns, key.pid) {
            (real.local, real.remote) =
                if serves { (ends.server.ip, ends.client.ip) } else { (ends.client.ip, ends.server.ip) };
            real.port = ends.server.port;
        }
        real
    }

    fn add(&mut self, bundle: Bundle) {
        let k = bundle.key;
        let seen = FlowKey {
            host_id: self.enricher.host_id(),
            role: k.role,
            transport: k.transport,
            local: k.local,
            remote: k.remote,
            port: k.port,
            pid: k.pid,
            process_start_ns: k.process_start_ns,
            netns: k.netns,
        };
        // Of a bundle without a new connection, the ends are those of before.
        let key = match self.open.get(&seen) {
            Some(open) if bundle.counts.opened == 0 => open.told_as,
            _ => self.true_ends(seen, bundle.client_port),
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
                resource: self.enricher.resource(&actor),
                counts: bundle.counts,
            };
            self.keep(flow);
        }
        if bundle.active_change == 0 {
            return;
        }
        if let Some(open) = self.open.get_mut(&seen) {
            (open.count, open.told_as) = (open.count + bundle.active_change, key);
        } else if let Some(flow) = self.window.get(&key) {
            let open = Open {
                count: bundle.active_change,
                told_as: key,
                comm: flow.comm.clone(),
                cgroup_id: flow.cgroup_id,
                client_port: flow.client_port,
                resource: Arc::clone(&flow.resource),
                told: Instant::now(),
            };
            self.open.insert(seen, open);
        }
    }

    /// Keeps a record for the window that is open.
    fn keep(&mut self, flow: Flow) {
        if let Some(known) = self.window.get_mut(&flow.key) {
            known.merge(&flow);
        } else if self.window.len() < MAX_WAITING {
            self.window.insert(flow.key, flow);
        } else {
            self.dropped += 1;
        }
    }

    /// The records of the window that ends now, in parts.
    fn close_window(&mut self) -> Vec<Vec<Flow>> {
        let end_ns = now_ns().max(self.begun_ns);
        let now = Instant::now();
        // What found no room has been here before.
        self.window.values_mut().for_each(|flow| flow.counts.active = 0);
        for open in self.open.values_mut() {
            let silent = !self.window.contains_key(&open.told_as);
            if silent && open.count > 0 && now.duration_since(open.told) >= HEARTBEAT {
                self.window.insert(open.told_as, Flow { start_ns: self.begun_ns, ..open.silent() });
            }
            // Several may be one behind NAT.
            if let Some(flow) = self.window.get_mut(&open.told_as) {
                flow.counts.active += open.count.max(0) as u64;
                open.told = now;
            }
        }
        let mut parts = Vec::new();
        let mut part = Vec::with_capacity(self.window.len().min(PART));
        for mut flow in std::mem::take(&mut self.window).into_values() {
            flow.end_ns = end_ns;
            part.push(flow);
            if part.len() == PART {
                parts.push(std::mem::replace(&mut part, Vec::with_capacity(PART)));
            }
        }
        if !part.is_empty() {
            parts.push(part);
        }
        self.records += parts.iter().map(|p| p.len() as u64).sum::<u64>();
        self.open.retain(|_, open| open.count > 0);
        self.begun_ns = end_ns;
        parts
    }

    fn publish(&self, counters: &Counters) {
        let values = [
            ("drains", self.drains),
            ("bundles", self.bundles),
            ("records", self.records),
            ("records_dropped", self.dropped),
            ("open_bundles", self.open.len() as u64),
        ];
        let mut values = values.to_vec();
        values.extend(self.nat.iter().flat_map(|nat| nat.stats().counters()));
        counters.set("flows", values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};
    use wirespan_capture::BundleKey;
    use wirespan_model::{Role, Transport};

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
        };
        let counts = FlowCounts { opened, closed, bytes_sent: 10, ..FlowCounts::default() };
        let active_change = opened as i64 - closed as i64;
        Bundle { key, comm: *b"worker\0\0\0\0\0\0\0\0\0\0", cgroup_id: 1, client_port: 9, active_change, counts }
    }

    fn windows() -> Windows {
        let rhythm = Rhythm { drain: Duration::from_secs(1), window: Duration::from_secs(10) };
        Windows::new(Arc::new(Enricher::new()), rhythm)
    }

    #[test]
    fn bundles_of_one_window_become_one_record_and_open_connections_are_remembered() {
        let mut w = windows();
        w.add(bundle(u32::MAX, 1, 3, 0));
        w.add(bundle(u32::MAX, 1, 1, 2));
        let first = w.close_window().concat();
        let [flow] = &first[..] else { panic!("{first:?}") };
        assert_eq!((flow.counts.opened, flow.counts.closed, flow.counts.active), (4, 2, 2));
        assert_eq!((flow.counts.bytes_sent, &*flow.comm), (20, "worker"));
        assert!(w.close_window().is_empty(), "silence is not reported at once");
        for open in w.open.values_mut() {
            open.told -= HEARTBEAT;
        }
        let silent = w.close_window().concat();
        assert_eq!((silent.len(), silent[0].counts.active, silent[0].counts.bytes_sent), (1, 2, 0));
        w.add(bundle(u32::MAX, 1, 0, 2));
        assert_eq!(w.close_window().concat()[0].counts.active, 0);
        assert!(w.open.is_empty());
    }

    #[test]
    fn two_processes_with_one_pid_are_two() {
        let mut w = windows();
        w.add(bundle(u32::MAX, 1, 1, 1));
        w.add(bundle(u32::MAX, 2, 1, 1));
        assert_eq!(w.close_window().concat().len(), 2);
    }

    #[test]
    fn what_found_no_room_grows_together_with_the_next_window() {
        let mut w = windows();
        w.add(bundle(u32::MAX, 1, 1, 0));
        let back = w.close_window().concat();
        back.into_iter().for_each(|f| w.keep(f));
        w.add(bundle(u32::MAX, 1, 1, 0));
        let all = w.close_window().concat();
        assert_eq!((all.len(), all[0].counts.opened, all[0].counts.active), (1, 2, 2));
    }
}
