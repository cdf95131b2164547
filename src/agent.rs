//! The agent on one screen: capture → decode → enrich → join → out.
//!
//! ```text
//! kernel ──ring──▶ [capture thread: drain, enrich, join] ──bounded channel──▶ [out thread: store, export, link]
//!    ▲                                │ verdicts                  ▲
//!    ├────────────────────────────────┘                           │
//!    └──bundles──▶ [flows thread: drain, enrich, windows] ────────┘
//! ```
//!
//! The capture thread never waits for anything but the clock: if the out thread falls behind, whole batches are
//! dropped and counted.

use crate::counters::Counters;
use crate::flows::{FlowThread, Rhythm};
use crate::memory;
use crate::outputs::{now_ns, Outputs};
use crate::silence::SIGN;
use anyhow::{anyhow, Result};
use crossbeam_channel::{bounded, Receiver, Sender, TrySendError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wirespan_capture::features::Feature;
use wirespan_capture::{Capture, Copy, Options, Targets, Verdict};
use wirespan_decode::Registry;
use wirespan_enrich::{Enricher, Nat};
use wirespan_join::{CopyRule, JoinConfig, Joiner, Resources, Verdict as Decided, Windows};
use wirespan_model::event::Actor;
use wirespan_model::{Event, Flow, Resource, Span};

/// Pause between two looks into the ring: while processes and connections are young, which wait to be named and for a
/// verdict; while events come; and at the longest while none do. The ring holds what a busy machine writes in a tenth
/// of a second.
const POLL_YOUNG: Duration = Duration::from_millis(1);
const POLL: Duration = Duration::from_millis(4);
const POLL_IDLE: Duration = Duration::from_millis(10);
/// The same where there are no messages: the start of a program, which may be short, ends it.
const PAUSE_WITHOUT_MESSAGES: Duration = Duration::from_millis(100);
/// How often the out thread tells its counters.
const PUBLISH: Duration = Duration::from_secs(1);
/// After a birth or a verdict there are likely more to come.
const YOUNG: Duration = Duration::from_millis(250);
/// Spans go out in batches of this many, or after this time.
const BATCH: usize = 512;
const BATCH_WAIT: Duration = Duration::from_millis(100);
/// What is due goes out so often even if batches always wait.
const LONGEST_WITHOUT_TICK: Duration = Duration::from_secs(10);
/// So many looks into the ring find more than they take only if more comes than is read: timers are run then, too. What
/// had been waiting while this thread did not run takes fewer.
const OVERLOAD: u32 = 1000;
/// How long a server's span waits for news of the loss of its answer: TCP sends it again after 200 ms at the earliest.
const SETTLE: Duration = Duration::from_millis(600);
/// Batches that may wait for the out thread.
const QUEUE: usize = 64;
/// Causes are inferred while no more batches than this wait, and in no more of the time than one part of so many: spans
/// and the machine's own work go first. What is left then goes on without a cause, and is counted.
const INFER_UP_TO: usize = QUEUE / 4;
const INFER_SHARE: u32 = 2;

/// What goes to the out thread.
pub(crate) enum Batch {
    /// Finished spans.
    Spans(Vec<Arc<Span>>),
    /// Flows of a window.
    Flows(Vec<Flow>),
    /// All that the kernel has said was read, and no span was finished.
    Nothing,
}

/// What the agent is told while it runs.
pub(crate) enum Order {
    /// Trace this process and its descendants, too, and the program that it is about to become; answers when it does.
    AddPid(u32, Option<PathBuf>, Sender<Result<()>>),
}

/// A running agent.
pub(crate) struct Agent {
    orders: Sender<Order>,
    stop: Arc<AtomicBool>,
    capture: JoinHandle<Result<()>>,
    flows: Option<(Arc<AtomicBool>, JoinHandle<Result<()>>)>,
    out: JoinHandle<Outputs>,
    /// What this kernel allows.
    pub(crate) features: Vec<Feature>,
}

struct Processes(Arc<Enricher>);

impl Resources for Processes {
    fn resource(&self, actor: &Actor) -> Arc<Resource> {
        self.0.resource(actor)
    }
}

/// Starts tracing; returns when the kernel programs are attached.
pub(crate) fn start(
    options: Options,
    join: JoinConfig,
    rhythm: Rhythm,
    targets: Targets,
    outputs: Outputs,
    counters: Arc<Counters>,
) -> Result<Agent> {
    memory::sparing();
    let enricher = Arc::new(Enricher::new());
    let (orders, orders_in) = bounded(16);
    let (batches, batches_in) = bounded::<Batch>(QUEUE);
    let (ready, ready_in) = bounded(1);
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = Arc::clone(&stop);
    let capture_counters = Arc::clone(&counters);
    let (names, spans_out) = (Arc::clone(&enricher), batches.clone());
    let capture = std::thread::Builder::new().name("capture".into()).spawn(move || {
        let mut capture = match Capture::open(&options, &targets) {
            Ok(capture) => capture,
            Err(error) => {
                let _ = ready.send(Err(anyhow!(error)));
                return Ok(());
            }
        };
        let _ = ready.send(Ok((capture.features().to_vec(), capture.take_flows())));
        Loop::new(capture, join, names, capture_counters).run(&stopping, &orders_in, &spans_out)
    })?;
    let (features, flows) = ready_in.recv().map_err(|_| anyhow!("the capture thread ended before it began"))??;
    let flows = match flows {
        Some(source) => {
            let windows = Windows::new(enricher.host_id(), Box::new(Processes(enricher)), now_ns());
            let thread = FlowThread::new(windows, rhythm);
            let (stop, counters) = (Arc::new(AtomicBool::new(false)), Arc::clone(&counters));
            let stopping = Arc::clone(&stop);
            let run = move || thread.run(source, &stopping, &batches, &counters);
            Some((stop, std::thread::Builder::new().name("flows".into()).spawn(run)?))
        }
        None => None,
    };
    let out = std::thread::Builder::new().name("out".into()).spawn(move || ship(outputs, &batches_in, &counters))?;
    Ok(Agent { orders, stop, capture, flows, out, features })
}

impl Agent {
    /// Traces a process and its descendants from now on; `program` is the file that it is about to become.
    pub(crate) fn add_pid(&self, pid: u32, program: Option<PathBuf>) -> Result<()> {
        let (answer, answered) = bounded(1);
        self.orders.send(Order::AddPid(pid, program, answer)).map_err(|_| anyhow!("the agent has stopped"))?;
        answered.recv().map_err(|_| anyhow!("the agent has stopped"))?
    }

    /// Whether it runs still.
    pub(crate) fn running(&self) -> bool {
        !self.capture.is_finished()
    }

    /// Detaches from the kernel, takes what is left through all stages, and gives the outputs back.
    pub(crate) fn stop(self) -> Result<Outputs> {
        self.stop.store(true, Ordering::Relaxed);
        let captured = self.capture.join().map_err(|_| anyhow!("the capture thread panicked"))?;
        // Nothing is attached any more: what the kernel has bundled is all there will be.
        let drained = self.flows.map(|(stop, thread)| {
            stop.store(true, Ordering::Relaxed);
            thread.join().unwrap_or_else(|_| Err(anyhow!("the flows thread panicked")))
        });
        let outputs = self.out.join().map_err(|_| anyhow!("the out thread panicked"))?;
        captured.and(drained.unwrap_or(Ok(()))).map(|()| outputs)
    }
}

/// State of the capture thread.
struct Loop {
    capture: Capture,
    joiner: Joiner,
    protocols: Registry,
    enricher: Arc<Enricher>,
    /// True ends behind NAT; `None` where connection tracking cannot be asked.
    nat: Option<Nat>,
    counters: Arc<Counters>,
    batch: Vec<Arc<Span>>,
    dropped: u64,
}

impl Loop {
    fn new(capture: Capture, mut config: JoinConfig, enricher: Arc<Enricher>, counters: Arc<Counters>) -> Self {
        if capture.sees_retransmits() {
            config.settle_ns = SETTLE.as_nanos() as u64;
        }
        let protocols = config.protocols.clone();
        let joiner = Joiner::new(config, enricher.host_id(), Box::new(Processes(Arc::clone(&enricher))));
        let nat = Nat::new(Path::new("/proc"));
        Loop { capture, joiner, protocols, enricher, nat, counters, batch: Vec::with_capacity(BATCH), dropped: 0 }
    }

    fn run(mut self, stop: &AtomicBool, orders: &Receiver<Order>, out: &Sender<Batch>) -> Result<()> {
        let mut events = Vec::new();
        let (mut ticked, mut refreshed, mut sent) = (Instant::now(), Instant::now(), Instant::now());
        let mut young = Instant::now();
        let mut pause = POLL_YOUNG;
        let mut behind = 0u32;
        while !stop.load(Ordering::Relaxed) {
            for Order::AddPid(pid, program, answer) in orders.try_iter() {
                let _ = answer.send(self.capture.add_starting(pid, program.as_deref()).map_err(|e| anyhow!(e)));
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
            // What waits in the ring came before now: whether something is overdue is asked when it is read.
            if (!more || behind > OVERLOAD) && ticked.elapsed() >= Duration::from_millis(100) {
                ticked = Instant::now();
                self.tick();
            }
            if refreshed.elapsed() >= Duration::from_secs(1) {
                refreshed = Instant::now();
                self.capture.refresh();
                // Connection tracking may be loaded later, with the first container.
                self.nat = self.nat.take().or_else(|| Nat::new(Path::new("/proc")));
                self.publish();
            }
            let wait = if self.batch.is_empty() { SIGN } else { BATCH_WAIT };
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
        self.capture.detach();
        while self.capture.drain_some(&mut events) {
            self.take(&mut events, out);
        }
        self.take(&mut events, out);
        let Loop { joiner, batch, nat, .. } = &mut self;
        joiner.finish(&mut |span| keep(batch, nat, span));
        self.publish();
        // The end waits for room: nothing that was seen is lost for want of it.
        let _ = out.send(Batch::Spans(std::mem::take(&mut self.batch)));
        Ok(())
    }

    /// Returns whether there were births or verdicts.
    fn take(&mut self, events: &mut Vec<Event>, out: &Sender<Batch>) -> bool {
        let mut young = false;
        for event in events.drain(..) {
            if let Event::Task(task) = &event {
                self.enricher.task_event(task);
                young = true;
            }
            let Loop { joiner, batch, nat, .. } = self;
            joiner.event(event, &mut |span| keep(batch, nat, span));
            if self.batch.len() >= BATCH {
                self.send(out);
            }
        }
        let verdicts: Vec<_> = self.joiner.verdicts().into_iter().map(|(socket, v)| (socket, to_kernel(&v))).collect();
        if let Err(error) = self.capture.decide(&verdicts) {
            tracing::warn!(%error, "verdicts did not reach the kernel; connections stay at their default");
        }
        young || !verdicts.is_empty()
    }

    fn tick(&mut self) {
        let Loop { joiner, batch, nat, .. } = self;
        joiner.tick(now_ns(), &mut |span| keep(batch, nat, span));
    }

    fn send(&mut self, out: &Sender<Batch>) {
        if self.batch.is_empty() {
            let _ = out.try_send(Batch::Nothing); // if there is no room, other signs wait
            return;
        }
        let full = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        let n = full.len() as u64;
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = out.try_send(Batch::Spans(full)) {
            self.dropped += n;
        }
    }

    fn publish(&self) {
        self.counters.set("capture", self.capture.counters());
        self.counters.set("join", self.joiner.stats().counters());
        self.counters.set("plugin", self.protocols.counters());
        let mut own = vec![("spans_dropped_queue_full", self.dropped)];
        own.extend(self.nat.iter().flat_map(|nat| nat.stats().counters()));
        self.counters.set("agent", own);
    }
}

/// A finished span, with its true ends.
fn keep(batch: &mut Vec<Arc<Span>>, nat: &mut Option<Nat>, mut span: Span) {
    if let Some(nat) = nat {
        nat.apply(&mut span);
    }
    batch.push(Arc::new(span));
}

fn to_kernel(decided: &Decided) -> Verdict {
    let Decided { plaintext, shared, delivers, .. } = *decided;
    let verdict = |copy, bytes| Verdict { copy, bytes, plaintext, shared, delivers };
    let bytes = |n: u32| u16::try_from(n).unwrap_or(u16::MAX);
    match decided.copy {
        CopyRule::FirstCallOnly(n) => verdict(Copy::First, bytes(n)),
        // Nothing is to be read of it: its totals come when it closes.
        CopyRule::EveryCall(0) => verdict(Copy::Lengths, 0),
        CopyRule::EveryCall(n) => verdict(Copy::Every, bytes(n)),
        CopyRule::Ignore => verdict(Copy::Ignore, 0),
        CopyRule::PairInKernel => verdict(Copy::Pair, 0),
    }
}

/// The out thread: hands every batch to every output, and gives them time to do what is due.
fn ship(mut outputs: Outputs, batches: &Receiver<Batch>, counters: &Counters) -> Outputs {
    outputs.publish(counters);
    let (mut published, mut ticked) = (Instant::now(), Instant::now());
    // When there is something to infer, from when on it may be.
    let mut infer: Option<Instant> = None;
    loop {
        let free = infer.map_or(PUBLISH, |from| from.saturating_duration_since(Instant::now()));
        let batch = batches.recv_timeout(free.min(PUBLISH));
        if matches!(batch, Ok(Batch::Spans(_) | Batch::Nothing)) {
            outputs.sign();
        }
        match batch {
            Ok(Batch::Spans(batch)) => outputs.take(batch),
            Ok(Batch::Nothing) => {}
            Ok(Batch::Flows(flows)) => outputs.take_flows(flows),
            Err(crossbeam_channel::RecvTimeoutError::Timeout) => {}
            Err(crossbeam_channel::RecvTimeoutError::Disconnected) => break,
        }
        // What waits in the queue came before now: whether more comes of a trace is asked when it is read.
        if batches.is_empty() || ticked.elapsed() >= LONGEST_WITHOUT_TICK {
            ticked = Instant::now();
            outputs.tick();
            infer = infer.or(Some(ticked));
        }
        if infer.is_some_and(|from| from <= Instant::now()) && batches.len() <= INFER_UP_TO {
            let began = Instant::now();
            let more = outputs.infer();
            infer = more.then(|| Instant::now() + began.elapsed() * (INFER_SHARE - 1));
        }
        if published.elapsed() >= PUBLISH {
            published = Instant::now();
            outputs.publish(counters);
        }
    }
    outputs.finish();
    outputs.publish(counters);
    outputs
}
