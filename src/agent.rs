//! The agent on one screen: capture → decode → enrich → join → pipeline.
//!
//! ```text
//! kernel ──ring──▶ [capture thread: drain, enrich, join] ──bounded channel──▶ [out thread: pipeline]
//!    ▲                                │ verdicts                  ▲
//!    ├────────────────────────────────┘                           │
//!    ├──bundles──▶ [flows thread: drain, enrich, windows] ────────┤
//!    ├──packets──▶ [packets thread: hops of watched requests] ────┤
//!    └──mirrored──▶ [mirror thread: the spans of packets] ────────┘
//! ```

use crate::capture_thread::{CaptureThread, Order, Processes, Why};

pub(crate) use crate::capture_thread::Concerns;
use crate::clock::now_ns;
use crate::counters::Counters;
use crate::flows::{FlowThread, Rhythm};
use crate::memory;
use crate::packet::{Mirroring, Mirrors, Watch, Watching};
use crate::pipeline::{self, Batch, Pipeline};
use crate::slow::{Knobs, Rule, Scoped, Slow};
use crate::syscalls::CallOrder;
use anyhow::{anyhow, Result};
use crossbeam_channel::{bounded, RecvTimeoutError, Sender, TrySendError};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use wirespan_capture::features::Feature;
use wirespan_capture::{CallSet, Capture, Options, Targets};
use wirespan_enrich::Enricher;
use wirespan_join::{JoinConfig, Windows};
use wirespan_model::syscalls::CallForm;
use wirespan_ship::{Sink, SinkError};
use wirespan_view::{parse_duration, WhyBegun, WhyOrder, WhySource};

/// Orders that may wait for the capture thread.
const ORDERS: usize = 16;
/// Longest time for which an SDK waits until its spans are stored.
const LONGEST_ANSWER: Duration = Duration::from_secs(6);
/// Longest time for which waits are recorded because a user has asked.
const LONGEST_WHY_NS: u64 = 3_600_000_000_000;

/// A running agent.
pub(crate) struct Agent {
    orders: Sender<Order>,
    stop: Arc<AtomicBool>,
    capture: JoinHandle<Result<()>>,
    flows: Option<(Arc<AtomicBool>, JoinHandle<Result<()>>)>,
    watch: Option<Watching>,
    mirror: Option<Mirroring>,
    out: JoinHandle<()>,
    batches: Sender<Batch>,
    /// What this kernel allows.
    pub(crate) features: Vec<Feature>,
}

/// A start that takes longer says why.
const LOADS_QUICKLY: Duration = Duration::from_secs(2);

/// What is looked at more closely.
pub(crate) struct Wanted {
    /// Of which requests the waits are recorded.
    pub(crate) slow: Slow,
    /// Whose packets are followed.
    pub(crate) watch: Option<Watch>,
    /// Devices whose packets are read.
    pub(crate) mirror: Option<Mirrors>,
}

/// Starts tracing; returns when the kernel programs are attached.
pub(crate) fn start(
    options: Options,
    join: JoinConfig,
    rhythm: Rhythm,
    wanted: Wanted,
    targets: Targets,
    pipeline: Pipeline,
    counters: Arc<Counters>,
) -> Result<Agent> {
    let Wanted { slow, watch, mirror } = wanted;
    memory::sparing();
    let enricher = Arc::new(Enricher::new());
    let (orders, orders_in) = bounded(ORDERS);
    let (batches, batches_in) = bounded::<Batch>(pipeline::QUEUE);
    let (ready, ready_in) = bounded(1);
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = Arc::clone(&stop);
    let capture_counters = Arc::clone(&counters);
    let watch = watch.map(|watch| watch.start(batches.clone(), Arc::clone(&counters))).transpose()?;
    let (watch, offer) = watch.map(|started| (started.watching, (started.offer, started.ends))).unzip();
    let (offer, watched_ends) = offer.unzip();
    let options = Options { watched_ends, ..options };
    let host_id = enricher.host_id();
    let mirror = mirror.map(|m| m.start(&join, host_id, batches.clone(), Arc::clone(&counters))).transpose()?;
    let (names, spans_out, flows_out) = (Arc::clone(&enricher), batches.clone(), batches.clone());
    let capture = std::thread::Builder::new().name("capture".into()).spawn(move || {
        let mut capture = match Capture::open(&options, &targets) {
            Ok(capture) => capture,
            Err(error) => {
                let _ = ready.send(Err(anyhow!(error)));
                return Ok(());
            }
        };
        let _ = ready.send(Ok((capture.features().to_vec(), capture.take_flows())));
        CaptureThread::new(capture, join, slow, names, capture_counters, offer).run(&stopping, &orders_in, &spans_out)
    })?;
    let loaded = ready_in.recv_timeout(LOADS_QUICKLY).or_else(|late| {
        if late.is_timeout() {
            eprintln!("wirespan: the kernel verifies the programs; nothing is traced yet");
        }
        ready_in.recv()
    });
    let (features, flows) = loaded.map_err(|_| anyhow!("the capture thread ended before it began"))??;
    let flows = match flows {
        Some(source) => {
            let windows = Windows::new(enricher.host_id(), Box::new(Processes(enricher)), now_ns());
            let thread = FlowThread::new(windows, rhythm);
            let stop = Arc::new(AtomicBool::new(false));
            let stopping = Arc::clone(&stop);
            let (begun, begun_in) = bounded(1);
            let run = move || thread.run(source, &stopping, &flows_out, &counters, &begun);
            let thread = std::thread::Builder::new().name("flows".into()).spawn(run)?;
            let _ = begun_in.recv();
            Some((stop, thread))
        }
        None => None,
    };
    let out = std::thread::Builder::new().name("out".into()).spawn(move || pipeline::feed(pipeline, &batches_in))?;
    Ok(Agent { orders, stop, capture, flows, watch, mirror, out, batches, features })
}

impl Agent {
    /// Traces a process and its descendants from now on; `program` is the file that it is about to become.
    pub(crate) fn add_pid(&self, pid: u32, program: Option<PathBuf>) -> Result<()> {
        let (answer, answered) = bounded(1);
        self.orders.send(Order::AddPid(pid, program, answer)).map_err(|_| anyhow!("the agent has stopped"))?;
        answered.recv().map_err(|_| anyhow!("the agent has stopped"))?
    }

    /// Begins to record what slow requests do, whenever a user asks for it.
    pub(crate) fn why(&self, of: Concerns) -> Arc<WhySource> {
        let orders = self.orders.clone();
        Arc::new(move |asked: &WhyOrder| {
            let why = Why { of, ..understood(asked)? };
            let until_ns = why.until_ns;
            let (answer, answered) = bounded(1);
            let sent = orders.try_send(Order::TraceWhy(why, answer));
            let sent = sent.map_err(|_| anyhow!("the agent is busy, or has stopped"));
            let done = sent.and_then(|()| answered.recv_timeout(LONGEST_ANSWER).unwrap_or_else(|e| Err(anyhow!(e))));
            done.map(|begun| WhyBegun { until_ns, processes: begun.processes, agents: Vec::new() })
                .map_err(|why| ("", format!("{why:#}")))
        })
    }

    /// Takes spans of SDKs into the pipeline. Must be dropped before [`Agent::stop`], which waits for the last of them.
    pub(crate) fn sink(&self) -> Sink {
        let batches = self.batches.clone();
        Arc::new(move |spans| {
            let (answer, answered) = bounded(1);
            batches.try_send(Batch::Reported(spans, answer)).map_err(|error| match error {
                TrySendError::Full(_) => SinkError::Busy("the pipeline is behind".into()),
                TrySendError::Disconnected(_) => SinkError::Refused("tracing has ended".into()),
            })?;
            match answered.recv_timeout(LONGEST_ANSWER) {
                Ok(taken) => taken,
                Err(RecvTimeoutError::Timeout) => Err(SinkError::Busy("the pipeline is behind".into())),
                Err(RecvTimeoutError::Disconnected) => Err(SinkError::Refused("tracing has ended".into())),
            }
        })
    }

    /// Whether it still runs.
    pub(crate) fn running(&self) -> bool {
        !self.capture.is_finished()
    }

    /// Detaches from the kernel, and takes the remaining events through all stages and outputs.
    pub(crate) fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let captured = self.capture.join().map_err(|_| anyhow!("the capture thread panicked"))?;
        // Nothing is attached any more: the kernel adds nothing to its bundles.
        let drained = self.flows.map(|(stop, thread)| {
            stop.store(true, Ordering::Relaxed);
            thread.join().unwrap_or_else(|_| Err(anyhow!("the flows thread panicked")))
        });
        // All spans of requests were offered.
        let watched = self.watch.map_or(Ok(()), Watching::stop);
        let mirrored = self.mirror.map_or(Ok(()), Mirroring::stop);
        drop(self.batches);
        self.out.join().map_err(|_| anyhow!("the out thread panicked"))?;
        captured.and(drained.unwrap_or(Ok(()))).and(watched).and(mirrored)
    }
}

/// What an order asks for, from now on; else the name of the wrong parameter and the reason.
pub(crate) fn understood(asked: &WhyOrder) -> Result<Why, (&'static str, String)> {
    let waits = asked.threshold != WhyOrder::NO_WAITS;
    let rule = if waits { Rule::read(&asked.threshold) } else { Ok(Rule::Learnt) };
    let rule = rule.map_err(|why| ("threshold", why.to_string()))?;
    let time = parse_duration(&asked.time).map_err(|why| ("for", why))?;
    if time == 0 || time > LONGEST_WHY_NS {
        return Err(("for", format!("`{}` is not a time between 1ns and 1h", asked.time)));
    }
    // An order that ends others is over at once.
    let until_ns = now_ns() + if asked.end { 0 } else { time };
    let of = Scoped::of(&asked.service, &asked.endpoint, rule);
    let form = CallForm::read(&asked.form)
        .ok_or_else(|| ("as", format!("`{}` is not a form: write spans, events or attributes", asked.form)))?;
    let calls = match asked.syscalls.trim() {
        "" => None,
        names => {
            let calls = CallSet::read(names).map_err(|why| ("syscalls", why))?;
            Some(CallOrder { of: of.clone(), calls, form, until_ns })
        }
    };
    if !waits && calls.is_none() && !asked.end {
        return Err(("threshold", "neither waits nor system calls are asked for".into()));
    }
    let WhyOrder { kernel_stack, user_stack, metrics, .. } = *asked;
    let knobs = Knobs { kernel_stack, user_stack, metrics };
    Ok(Why { rule: of, knobs, waits, calls, until_ns, ends: asked.end, of: Concerns::Anything })
}
