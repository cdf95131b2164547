//! Flows on their way through the agent: the kernel's bundles, drained every second, become one record per bundle and window,
//! with the names of who they are.
//!
//! What is due is never lost for want of a reader: while the out thread has no room, windows stay here and grow together.

use crate::agent::Batch;
use crate::counters::Counters;
use anyhow::Result;
use crossbeam_channel::{Sender, TrySendError};
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use wirespan_capture::{Bundle, FlowSource, Flows};
use wirespan_enrich::Enricher;
use wirespan_model::event::Actor;
use wirespan_model::{Flow, FlowCounts, FlowKey};

/// How often the thread looks whether it shall end.
const LOOK: Duration = Duration::from_millis(100);
/// A bundle whose connections are silent is reported this often, so that it stays on the map.
const HEARTBEAT: Duration = Duration::from_secs(60);
/// Records per message to the out thread.
const PART: usize = 4096;
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
    /// Its last record, without counts.
    last: Flow,
    told: Instant,
}

/// The thread's state.
pub(crate) struct Windows {
    enricher: Arc<Enricher>,
    rhythm: Rhythm,
    begun_ns: u64,
    window: FxHashMap<FlowKey, Flow>,
    open: FxHashMap<FlowKey, Open>,
    drains: u64,
    bundles: u64,
    records: u64,
    dropped: u64,
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

impl Windows {
    pub(crate) fn new(enricher: Arc<Enricher>, rhythm: Rhythm) -> Self {
        Windows {
            enricher,
            rhythm,
            begun_ns: now_ns(),
            window: FxHashMap::default(),
            open: FxHashMap::default(),
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
        let mut bundles = Vec::new();
        let mut drained = Instant::now();
        let mut window = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let left = self.rhythm.drain.saturating_sub(drained.elapsed());
            let full = flows.wait(left.min(LOOK));
            if !full && drained.elapsed() < self.rhythm.drain {
                continue;
            }
            drained = Instant::now();
            self.drain(&mut flows, &mut bundles);
            if window.elapsed() >= self.rhythm.window {
                window = Instant::now();
                for part in self.close_window() {
                    if let Err(TrySendError::Full(Batch::Flows(back))) = out.try_send(Batch::Flows(part)) {
                        back.into_iter().for_each(|flow| self.keep(flow));
                    }
                }
            }
            self.publish(counters);
        }
        self.drain(&mut flows, &mut bundles);
        for part in self.close_window() {
            // The end waits for room, as for spans.
            let _ = out.send(Batch::Flows(part));
        }
        self.publish(counters);
        Ok(())
    }

    fn drain(&mut self, flows: &mut Flows, bundles: &mut Vec<Bundle>) {
        if let Err(error) = flows.drain(bundles) {
            tracing::warn!(%error, "flows stay in the kernel until the next drain");
        }
        self.drains += 1;
        self.bundles += bundles.len() as u64;
        bundles.drain(..).for_each(|bundle| self.add(bundle));
    }

    fn add(&mut self, bundle: Bundle) {
        let k = bundle.key;
        let key = FlowKey {
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
        match self.open.get_mut(&key) {
            Some(open) => open.count += bundle.active_change,
            None => {
                if let Some(flow) = self.window.get(&key) {
                    let last = Flow { counts: FlowCounts::default(), ..flow.clone() };
                    self.open.insert(key, Open { count: bundle.active_change, last, told: Instant::now() });
                }
            }
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
        for (key, open) in &mut self.open {
            if !self.window.contains_key(key) && open.count > 0 && now.duration_since(open.told) >= HEARTBEAT {
                self.window.insert(*key, Flow { start_ns: self.begun_ns, ..open.last.clone() });
            }
        }
        let mut parts = Vec::new();
        let mut part = Vec::with_capacity(self.window.len().min(PART));
        for (key, mut flow) in std::mem::take(&mut self.window) {
            flow.end_ns = end_ns;
            if let Some(open) = self.open.get_mut(&key) {
                flow.counts.active = open.count.max(0) as u64;
                open.told = now;
            }
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
        counters.set("flows", values.to_vec());
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
