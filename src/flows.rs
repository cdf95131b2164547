//! The flows thread: drains the kernel's bundles, once a second as a rule, and hands the records of each window to the
//! out thread.
//!
//! While the out thread has no room, records stay in the window and grow. A window that holds many bundles ends before
//! its time.

use crate::clock::now_ns;
use crate::counters::Counters;
use crate::pipeline::Batch;
use anyhow::Result;
use crossbeam_channel::{Sender, TrySendError};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wirespan_capture::{FlowSource, Flows, PlainEnd};
use wirespan_enrich::{Ends, Nat};
use wirespan_join::{Windows, FULL_BUNDLES};

/// How often the thread looks whether it shall end.
const LOOK: Duration = Duration::from_millis(100);
/// Records per message to the out thread.
const PART: usize = 512;
/// Messages that may wait for the out thread before this thread waits for it, and how long it waits. Messages are
/// large; the kernel's table, which fills meanwhile, is smaller.
const AHEAD: usize = 4;
const PATIENCE: Duration = Duration::from_millis(200);
/// How long connections of a remote end are bundled after one was found not to be translated.
const PLAIN: Duration = Duration::from_secs(10);
/// Connections through NAT that are remembered, and how long: the next one with the same ports is another connection.
const TRANSLATIONS: usize = 4096;
const REMEMBER: Duration = Duration::from_secs(2);
/// How often the addresses of the agent's own namespace are read.
const ADDRESSES: Duration = Duration::from_secs(10);

/// When bundles are drained, and how long a record's window is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rhythm {
    /// Time between two drains.
    pub(crate) drain: Duration,
    /// Length of a window.
    pub(crate) window: Duration,
}

/// The thread's state.
pub(crate) struct FlowThread {
    windows: Windows,
    rhythm: Rhythm,
    /// True ends behind NAT; `None` where connection tracking cannot be asked.
    nat: Option<Nat>,
    /// Remote ends whose connections are bundled, with the time until which they are.
    plain: VecDeque<(Instant, PlainEnd)>,
    /// Addresses of the agent's own namespace, and when they were read.
    own: Option<(Instant, Vec<IpAddr>)>,
    drains: u64,
}

impl FlowThread {
    pub(crate) fn new(windows: Windows, rhythm: Rhythm) -> Self {
        FlowThread { windows, rhythm, nat: None, plain: VecDeque::new(), own: None, drains: 0 }
    }

    /// Drains until it shall stop, and once more then. `stop` is raised when the programs are detached. `begun` is told
    /// when connections are counted as they should be.
    pub(crate) fn run(
        mut self,
        source: FlowSource,
        stop: &AtomicBool,
        out: &Sender<Batch>,
        counters: &Counters,
        begun: &Sender<()>,
    ) -> Result<()> {
        let mut flows = source.open()?;
        self.nat = look_at_tracking();
        self.keep_apart(&mut flows);
        let _ = begun.send(());
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
            self.nat = self.nat.take().or_else(look_at_tracking);
            self.keep_apart(&mut flows);
            self.drain(&mut flows, out);
            if window.elapsed() >= self.rhythm.window {
                window = Instant::now();
                offer_window(&mut self.windows, out);
            }
            self.publish(counters);
        }
        self.drain(&mut flows, out);
        for part in self.windows.close(PART, now_ns(), Instant::now()) {
            // The end waits for room, as for spans.
            let _ = out.send(Batch::Flows(part));
        }
        self.publish(counters);
        Ok(())
    }

    /// Where addresses may be translated, each connection has ends of its own.
    fn keep_apart(&self, flows: &mut Flows) {
        if self.nat.is_none() {
            return;
        }
        if let Err(error) = flows.keep_apart() {
            tracing::warn!(%error, "connections through NAT are bundled: counts by backend are not exact");
        }
    }

    fn drain(&mut self, flows: &mut Flows, out: &Sender<Batch>) {
        let FlowThread { windows, nat, plain, own, .. } = self;
        let now = Instant::now();
        while plain.front().is_some_and(|(until, _)| *until <= now) {
            plain.pop_front().iter().for_each(|(_, end)| flows.unbundle(end));
        }
        let mut met = FxHashMap::default();
        let drained = flows.drain(&mut |bundle| {
            let is_one = bundle.key.client_port != 0;
            windows.add(bundle, now, &mut |seen, serves, netns, pid| {
                let ends = nat.as_mut()?.ends(seen, serves, netns, pid);
                if is_one && ends != Ends::Unknown {
                    let remote = if serves { seen.client.ip } else { seen.server.ip };
                    let end = PlainEnd { serves, transport: seen.transport, remote, port: seen.server.port, netns };
                    *met.entry(end).or_insert(true) &= ends == Ends::Plain;
                }
                match ends {
                    Ends::Translated(ends) => Some(ends),
                    Ends::Plain | Ends::Unknown => None,
                }
            });
            if windows.len() >= FULL_BUNDLES && windows.stats().bundles.is_multiple_of(PART as u64) {
                offer_window(windows, out);
            }
        });
        if let Err(error) = drained {
            tracing::warn!(%error, "flows stay in the kernel until the next drain");
        }
        for (end, _) in met.into_iter().filter(|(_, is_plain)| *is_plain) {
            // An own address may stand for itself and for the hosts that it masquerades.
            if end.serves && own_addresses(own, nat.as_ref(), now).contains(&end.remote) {
                continue;
            }
            flows.bundle(&end);
            plain.push_back((now + PLAIN, end));
        }
        self.drains += 1;
    }

    fn publish(&self, counters: &Counters) {
        let stats = self.windows.stats();
        let mut values = vec![
            ("drains", self.drains),
            ("bundles", stats.bundles),
            ("records", stats.records),
            ("records_dropped", stats.dropped),
            ("open_bundles", stats.open),
        ];
        values.extend(self.nat.iter().flat_map(|nat| nat.stats().counters()));
        counters.set("flows", values);
    }
}

/// Connection tracking, if it is loaded and may be asked.
fn look_at_tracking() -> Option<Nat> {
    Nat::with_room(Path::new("/proc"), TRANSLATIONS, REMEMBER)
}

fn own_addresses<'a>(known: &'a mut Option<(Instant, Vec<IpAddr>)>, nat: Option<&Nat>, now: Instant) -> &'a [IpAddr] {
    if known.as_ref().is_none_or(|(at, _)| now.duration_since(*at) >= ADDRESSES) {
        *known = Some((now, nat.map(Nat::own_addresses).unwrap_or_default()));
    }
    known.as_ref().map_or(&[], |(_, addresses)| addresses)
}

/// Ends the window; records for which the out thread has no room begin the next one.
fn offer_window(windows: &mut Windows, out: &Sender<Batch>) {
    let patient_until = Instant::now() + PATIENCE;
    for part in windows.close(PART, now_ns(), Instant::now()) {
        while out.len() >= AHEAD && Instant::now() < patient_until {
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Err(TrySendError::Full(Batch::Flows(back))) = out.try_send(Batch::Flows(part)) {
            back.into_iter().for_each(|flow| windows.keep(flow));
        }
    }
}
