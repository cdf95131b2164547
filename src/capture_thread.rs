//! The capture thread: drains the kernel's ring, pairs messages into spans, and sends batches of spans on.
//!
//! The thread waits for nothing but the clock. If the out thread falls behind, whole batches of spans are dropped and
//! counted: waiting would fill the ring, and records lost there cost more than spans.

mod why;

pub(crate) use why::{Begun, Concerns, Why};

use crate::clock::now_ns;
use crate::counters::Counters;
use crate::memory;
use crate::packet::Offer;
use crate::pipeline::{Batch, REPORT_EVERY};
use crate::slow::Slow;
use crate::syscalls::SystemCalls;
use anyhow::{anyhow, Result};
use crossbeam_channel::{Receiver, Sender, TrySendError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wirespan_capture::{Capture, Copy, Verdict};
use wirespan_decode::Registry;
use wirespan_enrich::{Enricher, Nat};
use wirespan_join::{CopyRule, JoinConfig, Joiner, Resources, Verdict as Decided};
use wirespan_model::event::{Actor, ClockMark};
use wirespan_model::sdk::SdkSpan;
use wirespan_model::syscalls::ThreadCall;
use wirespan_model::wait::{ThreadWaits, Waker};
use wirespan_model::{Event, Resource, Span};

/// Pause between two looks into the ring. The shortest is for young processes, which wait for their names, and young
/// connections, which wait for a verdict; the second is for a ring that has records. The pause grows to the longest
/// while the ring is empty. A busy machine fills the ring in about a tenth of a second.
const POLL_YOUNG: Duration = Duration::from_millis(1);
const POLL: Duration = Duration::from_millis(4);
const POLL_IDLE: Duration = Duration::from_millis(10);
/// The pause if messages are not captured. The start of a program ends it, because the program may be short-lived.
const PAUSE_WITHOUT_MESSAGES: Duration = Duration::from_millis(100);
/// After a birth or a verdict, more are likely for so long.
const YOUNG: Duration = Duration::from_millis(250);
/// Spans go out in batches of this many, or after this time.
const BATCH: usize = 512;
const BATCH_WAIT: Duration = Duration::from_millis(100);
/// Timers of the joiner run this often.
const TICK_EVERY: Duration = Duration::from_millis(100);
/// Names, connection tracking and counters are refreshed this often.
const REFRESH_EVERY: Duration = Duration::from_secs(1);
/// After this many looks in a row that left records in the ring, more comes than is read, and timers run regardless.
/// Records that piled up while this thread was not scheduled take fewer looks.
const OVERLOAD: u32 = 1000;
/// A server's span waits this long for the report that its response was lost: TCP sends a lost segment again after
/// 200 ms at the earliest.
const SETTLE: Duration = Duration::from_millis(600);

/// The last slow request of a time in which waits are recorded is a span so much later at most.
const SETTLE_WAITS: Duration = Duration::from_secs(1);

/// An order to the running thread.
pub(crate) enum Order {
    /// Trace this process and its descendants, too. The file is the program that the process is about to become. The
    /// thread answers when it traces.
    AddPid(u32, Option<PathBuf>, Sender<Result<()>>),
    /// Record what slow requests of a service do. The thread answers when it does.
    TraceWhy(Why, Sender<Result<Begun>>),
}

/// Names processes with the enricher.
pub(crate) struct Processes(pub(crate) Arc<Enricher>);

impl Resources for Processes {
    fn resource(&self, actor: &Actor) -> Arc<Resource> {
        self.0.resource(actor)
    }
}

/// State of the thread.
pub(crate) struct CaptureThread {
    capture: Capture,
    joiner: Joiner,
    protocols: Registry,
    enricher: Arc<Enricher>,
    /// Finds the true ends of connections behind NAT; `None` where connection tracking cannot be asked.
    nat: Option<Nat>,
    counters: Arc<Counters>,
    /// Where spans go whose packets are watched.
    watch: Option<Offer>,
    batch: Vec<Arc<Span>>,
    clocks: Vec<ClockMark>,
    waits: Vec<ThreadWaits>,
    /// Which requests are slow.
    slow: Slow,
    /// Whose system calls are recorded, and those that have come.
    system_calls: SystemCalls,
    calls: Vec<ThreadCall>,
    dropped: Dropped,
}

/// What was dropped because the out thread fell behind, by kind.
#[derive(Default)]
struct Dropped {
    spans: u64,
    waits: u64,
    clocks: u64,
    calls: u64,
    sdk_spans: u64,
}

impl CaptureThread {
    pub(crate) fn new(
        capture: Capture,
        mut config: JoinConfig,
        slow: Slow,
        enricher: Arc<Enricher>,
        counters: Arc<Counters>,
        watch: Option<Offer>,
    ) -> Self {
        if capture.sees_retransmits() {
            config.settle_ns = SETTLE.as_nanos() as u64;
        }
        let protocols = config.protocols.clone();
        let joiner = Joiner::new(config, enricher.host_id(), Box::new(Processes(Arc::clone(&enricher))));
        let nat = Nat::new(Path::new("/proc"));
        CaptureThread {
            capture,
            joiner,
            protocols,
            enricher,
            nat,
            counters,
            watch,
            batch: Vec::with_capacity(BATCH),
            clocks: Vec::new(),
            waits: Vec::new(),
            slow,
            system_calls: SystemCalls::default(),
            calls: Vec::new(),
            dropped: Dropped::default(),
        }
    }

    /// Runs until `stop` is raised; then detaches from the kernel, and takes the remaining events through all stages.
    pub(crate) fn run(mut self, stop: &AtomicBool, orders: &Receiver<Order>, out: &Sender<Batch>) -> Result<()> {
        let mut events = Vec::new();
        let (mut ticked, mut refreshed, mut sent) = (Instant::now(), Instant::now(), Instant::now());
        let mut young = Instant::now();
        let mut loading = Some(Instant::now());
        let mut pause = POLL_YOUNG;
        let mut behind = 0u32;
        while !stop.load(Ordering::Relaxed) {
            orders.try_iter().for_each(|order| self.obey(order, &mut events));
            if self.system_calls.is_due() {
                self.record_calls(&mut events);
            }
            let more = self.capture.drain_some(&mut events);
            let idle = events.is_empty();
            if self.take(&mut events, out) {
                young = Instant::now();
            }
            pause = match idle {
                _ if young.elapsed() < YOUNG => POLL_YOUNG,
                true => (pause * 2).min(POLL_IDLE),
                false => POLL,
            };
            behind = if more { behind.saturating_add(1) } else { 0 };
            // Records that wait in the ring were written before now: a timeout is checked after they are read.
            if (!more || behind > OVERLOAD) && ticked.elapsed() >= TICK_EVERY {
                ticked = Instant::now();
                self.tick();
            }
            if refreshed.elapsed() >= REFRESH_EVERY {
                refreshed = Instant::now();
                self.refresh(&mut events);
                if loading.take_if(|began| began.elapsed() > memory::LOADED).is_some() {
                    memory::give_back();
                }
            }
            let wait = if self.batch.is_empty() { REPORT_EVERY } else { BATCH_WAIT };
            if self.batch.len() >= BATCH || sent.elapsed() >= wait {
                sent = Instant::now();
                self.send(out);
            }
            if more {
                continue;
            }
            if self.capture.sees_messages() {
                std::thread::sleep(pause);
            } else {
                self.capture.wait(PAUSE_WITHOUT_MESSAGES);
            }
        }
        self.finish(&mut events, out);
        Ok(())
    }

    fn obey(&mut self, order: Order, events: &mut Vec<Event>) {
        let (done, answer) = match order {
            Order::AddPid(pid, program, answer) => {
                (self.capture.add_starting(pid, program.as_deref()).map_err(|e| anyhow!(e)), answer)
            }
            Order::TraceWhy(why, answer) => {
                let _ = answer.send(self.trace_why(why, events));
                return;
            }
        };
        let _ = answer.send(done);
    }

    fn finish(mut self, events: &mut Vec<Event>, out: &Sender<Batch>) {
        self.capture.detach();
        while self.capture.drain_some(events) {
            self.take(events, out);
        }
        self.take(events, out);
        let CaptureThread { joiner, batch, nat, slow, system_calls, .. } = &mut self;
        joiner.finish(&mut |span| keep(batch, nat, slow, system_calls, span));
        self.publish();
        // The last batches wait for room in the queue: dropping them would gain nothing now.
        let _ = out.send(Batch::Wakes(self.enricher.host_id(), self.joiner.wakes()));
        let sdk_spans = self.joiner.sdk_spans();
        let _ = out.send(self.of_sdks(sdk_spans));
        let _ = out.send(Batch::Clocks(std::mem::take(&mut self.clocks)));
        let _ = out.send(Batch::Waits(std::mem::take(&mut self.waits)));
        let _ = out.send(Batch::Calls(std::mem::take(&mut self.calls)));
        self.offer();
        let _ = out.send(Batch::Spans(std::mem::take(&mut self.batch)));
    }

    /// Takes events through the joiner. Returns whether there were births or verdicts.
    fn take(&mut self, events: &mut Vec<Event>, out: &Sender<Batch>) -> bool {
        let mut young = false;
        for event in events.drain(..) {
            if let Event::Task(task) = &event {
                self.enricher.task_event(task);
                self.system_calls.note_birth();
                young = true;
            }
            if let Event::Data(data) = &event {
                self.clocks.extend(data.clock_mark());
            }
            let CaptureThread { joiner, batch, nat, slow, waits, enricher, calls, system_calls, .. } = self;
            match event {
                Event::Waits(of_thread) => {
                    slow.waits(&of_thread);
                    waits.push(named(*of_thread, enricher));
                }
                Event::Calls(more) => calls.extend(more),
                event => joiner.event(event, &mut |span| keep(batch, nat, slow, system_calls, span)),
            }
            if self.batch.len() >= BATCH {
                self.send(out);
            }
        }
        self.take_failed();
        let verdicts: Vec<_> = self.joiner.verdicts().into_iter().map(|(socket, v)| (socket, to_kernel(&v))).collect();
        if let Err(error) = self.capture.decide(&verdicts) {
            tracing::warn!(%error, "verdicts did not reach the kernel; connections stay at their default");
        }
        young || !verdicts.is_empty()
    }

    fn tick(&mut self) {
        let CaptureThread { joiner, batch, nat, slow, system_calls, .. } = self;
        joiner.tick(now_ns(), &mut |span| keep(batch, nat, slow, system_calls, span));
    }

    fn refresh(&mut self, events: &mut Vec<Event>) {
        self.capture.refresh();
        let settled_ns = now_ns().saturating_sub(SETTLE_WAITS.as_nanos() as u64);
        match self.slow.end_due(settled_ns) {
            true => self.record_waits(),
            false => self.capture.set_slow(&self.slow.changes()),
        }
        if self.system_calls.end_due(settled_ns) || self.system_calls.is_on() {
            self.record_calls(events);
        }
        // The kernel may load connection tracking later, with the first container.
        self.nat = self.nat.take().or_else(|| Nat::new(Path::new("/proc")));
        self.publish();
    }

    /// Sends the batch, or the report that there is none.
    fn send(&mut self, out: &Sender<Batch>) {
        let wakes = self.joiner.wakes();
        if !wakes.is_empty() {
            // If the queue is full, the spans are dropped, too, and counted.
            let _ = out.try_send(Batch::Wakes(self.enricher.host_id(), wakes));
        }
        let sdk_spans = self.joiner.sdk_spans();
        if !sdk_spans.is_empty() {
            let n = sdk_spans.len() as u64;
            self.dropped.sdk_spans += out.try_send(self.of_sdks(sdk_spans)).map_or(n, |()| 0);
        }
        if !self.clocks.is_empty() {
            let clocks = std::mem::take(&mut self.clocks);
            let n = clocks.len() as u64;
            self.dropped.clocks += out.try_send(Batch::Clocks(clocks)).map_or(n, |()| 0);
        }
        if !self.waits.is_empty() {
            let waits = std::mem::take(&mut self.waits);
            let n = waits.iter().map(|thread| thread.waits.len() as u64).sum();
            self.dropped.waits += out.try_send(Batch::Waits(waits)).map_or(n, |()| 0);
        }
        if !self.calls.is_empty() {
            let calls = std::mem::take(&mut self.calls);
            let n = calls.len() as u64;
            self.dropped.calls += out.try_send(Batch::Calls(calls)).map_or(n, |()| 0);
        }
        if self.batch.is_empty() {
            let _ = out.try_send(Batch::CaughtUp); // a full queue holds other reports
            return;
        }
        self.offer();
        let full = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        let n = full.len() as u64;
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = out.try_send(Batch::Spans(full)) {
            self.dropped.spans += n;
        }
    }

    fn of_sdks(&self, spans: Vec<SdkSpan>) -> Batch {
        Batch::SdkSpans(self.enricher.host_id(), spans)
    }

    fn offer(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.spans(&self.batch);
        }
    }

    fn publish(&self) {
        self.counters.set("capture", self.capture.counters());
        self.counters.note(self.capture.notes());
        self.counters.set("join", self.joiner.stats().counters());
        self.counters.set("plugin", self.protocols.counters());
        let Dropped { spans, waits, clocks, calls, sdk_spans } = self.dropped;
        let mut own = vec![
            ("spans_dropped_queue_full", spans),
            ("waits_dropped_queue_full", waits),
            ("clocks_dropped_queue_full", clocks),
            ("calls_dropped_queue_full", calls),
            ("sdk_spans_dropped_queue_full", sdk_spans),
        ];
        own.extend(self.nat.iter().flat_map(|nat| nat.stats().counters()));
        self.counters.set("agent", own);
    }
}

/// Names the services of other processes that ended waits, or ran meanwhile.
fn named(mut waits: ThreadWaits, enricher: &Enricher) -> ThreadWaits {
    for wait in &mut waits.waits {
        for by in [&mut wait.waker, &mut wait.ran] {
            if let Waker::Thread { pid, service, .. } = by {
                if *pid != waits.pid {
                    let resource = enricher.resource(&Actor { pid: *pid, ..Actor::default() });
                    *service = resource.service.as_ref().into();
                }
            }
        }
    }
    waits
}

/// Keeps a finished span, with its true ends, and the reason if its waits are wanted, or the form of its system calls.
fn keep(batch: &mut Vec<Arc<Span>>, nat: &mut Option<Nat>, slow: &mut Slow, calls: &SystemCalls, mut span: Span) {
    slow.judge(&mut span);
    calls.judge(&mut span);
    if let Some(nat) = nat {
        nat.apply(&mut span);
    }
    batch.push(Arc::new(span));
}

fn to_kernel(decided: &Decided) -> Verdict {
    let Decided { plaintext, shared, delivers, one_way, pipelined, gathers, .. } = *decided;
    let verdict = |copy, bytes| Verdict { copy, bytes, plaintext, shared, delivers, one_way, pipelined, gathers };
    let bytes = |n: u32| u16::try_from(n).unwrap_or(u16::MAX);
    match decided.copy {
        CopyRule::FirstCallOnly(n) => verdict(Copy::First, bytes(n)),
        // No payload is wanted: the totals of the connection come when it closes.
        CopyRule::EveryCall(0) => verdict(Copy::Lengths, 0),
        CopyRule::EveryCall(n) => verdict(Copy::Every, bytes(n)),
        CopyRule::LongHeaders(n) => verdict(Copy::LongHeaders, bytes(n)),
        CopyRule::Ignore => verdict(Copy::Ignore, 0),
        CopyRule::PairInKernel => verdict(Copy::Pair, 0),
    }
}
