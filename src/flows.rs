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
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wirespan_capture::{FlowSource, Flows};
use wirespan_enrich::Nat;
use wirespan_join::{Windows, FULL_BUNDLES};

/// How often the thread looks whether it shall end.
const LOOK: Duration = Duration::from_millis(100);
/// Records per message to the out thread.
const PART: usize = 512;
/// Messages that may wait for the out thread before this thread waits for it, and how long it waits. Messages are
/// large; the kernel's table, which fills meanwhile, is smaller.
const AHEAD: usize = 4;
const PATIENCE: Duration = Duration::from_millis(200);
/// Connections through NAT that are remembered.
const TRANSLATIONS: usize = 4096;

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
    drains: u64,
}

impl FlowThread {
    pub(crate) fn new(windows: Windows, rhythm: Rhythm) -> Self {
        FlowThread { windows, rhythm, nat: None, drains: 0 }
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

    fn drain(&mut self, flows: &mut Flows, out: &Sender<Batch>) {
        let FlowThread { windows, nat, .. } = self;
        let now = Instant::now();
        let drained = flows.drain(&mut |bundle| {
            windows.add(bundle, now, &mut |seen, serves, netns, pid| nat.as_mut()?.ends(seen, serves, netns, pid));
            if windows.len() >= FULL_BUNDLES && windows.stats().bundles.is_multiple_of(PART as u64) {
                offer_window(windows, out);
            }
        });
        if let Err(error) = drained {
            tracing::warn!(%error, "flows stay in the kernel until the next drain");
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
