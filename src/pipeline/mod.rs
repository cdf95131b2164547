//! The way of a finished span, the same in agent and server: solve → explain → stream → store, export, link.
//!
//! ```text
//! take ──▶ [without telemetry] ──▶ [inference] ──▶ explain ──▶ hand_on ──┬─▶ metrics
//!                                                                        ├─▶ stream ──▶ OTLP file, collector
//!                                                                        ├─▶ link ──▶ server        (whole traces)
//!                                                                        └─▶ store
//! ```
//!
//! Causes are inferred once, where the spans were captured: see [`Causes`]. [`Pipeline::run_due`] is the only place
//! that acts by the clock; an agent's out thread ([`feed`]) and a server's loop call it.

mod health;
mod inference;
mod record;
mod stored;
mod stream_clock;
mod telemetry;
mod thread;
mod traces;

pub(crate) use stored::{open_or_look, open_store};
pub(crate) use stream_clock::REPORT_EVERY;
pub(crate) use thread::{feed, Batch};

use crate::clock::{now_ns, Skew};
use crate::config::{export_config, metrics_exporter, solver_config, stream_config, Config, OutputArgs};
use crate::counters::Counters;
use anyhow::{Context as _, Result};
use inference::Inference;
use record::Record;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stored::Failures;
use telemetry::WithoutTelemetry;
use traces::TraceOutputs;
use wirespan_model::event::Wake;
use wirespan_model::{Flow, Span};
use wirespan_ship::link::Sender;
use wirespan_ship::otlp::MetricsExporter;
use wirespan_ship::SinkError;
use wirespan_store::Store;
use wirespan_trace::Explainer;
use wirespan_view::MapFile;

/// Batches that may wait for an agent's out thread.
pub(crate) const QUEUE: usize = 512;
/// How often the counters are published.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);
/// Traces are looked at this often even if batches always wait.
const LONGEST_WITHOUT_TICK: Duration = Duration::from_secs(10);
/// How long the end waits for a collector or a server.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// Where the causes of the spans are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Causes {
    /// Here: this process captured the spans, and infers the causes that the kernel left open.
    InferredHere,
    /// Before: an agent has inferred the causes, an SDK has named the parents, or a capture file knows no process.
    /// Such spans wait for nothing.
    Decided,
}

/// Every output that was asked for, and the stages before them.
pub(crate) struct Pipeline {
    /// `None`: exports of telemetry are kept, or were left out where the spans were captured.
    without_telemetry: Option<WithoutTelemetry>,
    /// `None`: causes are decided before the spans come here.
    inference: Option<Inference>,
    /// Waits for the calls of each request, to say where its time went.
    explainer: Explainer,
    record: Option<Record>,
    store: Option<Arc<dyn Store>>,
    traces: Option<TraceOutputs>,
    link: Option<Sender>,
    /// What goes over the link has the times of this clock.
    skew: Option<Skew>,
    metrics_out: Option<MetricsExporter>,
    map: Option<MapFile>,
    counters: Arc<Counters>,
    ticked: Instant,
    published: Option<Instant>,
    failures: Failures,
}

impl Pipeline {
    /// Opens the outputs that the command line and the configuration ask for.
    pub(crate) fn open(
        causes: Causes,
        args: &OutputArgs,
        config: &Config,
        store: Option<Arc<dyn Store>>,
        link: Option<Sender>,
        counters: Arc<Counters>,
    ) -> Result<Self> {
        let captures = causes == Causes::InferredHere;
        Ok(Pipeline {
            without_telemetry: (captures && !config.join.telemetry).then(WithoutTelemetry::default),
            inference: captures.then(|| Inference::new(solver_config(config))),
            explainer: Explainer::default(),
            record: Record::open().filter(|_| captures),
            store,
            traces: TraceOutputs::open(args.otlp_file.as_deref(), export_config(args, config)?, stream_config(config))?,
            link,
            skew: Skew::of_test()?,
            metrics_out: metrics_exporter(args, config, &counters.spans)?,
            map: None,
            counters,
            ticked: Instant::now(),
            published: None,
            failures: Failures::default(),
        })
    }

    /// Writes the dependency map of this run to a file at the end.
    pub(crate) fn write_map_to(&mut self, path: Option<&Path>) -> Result<()> {
        let create = |path| MapFile::create(path, now_ns());
        self.map = path.map(create).transpose().context("--map-file")?;
        Ok(())
    }

    /// Everything that had come when this is called was taken or is taken next: the time since the last call counts as
    /// time in which spans could have come.
    pub(crate) fn caught_up(&mut self) {
        if let Some(traces) = &mut self.traces {
            traces.caught_up();
        }
    }

    /// Takes finished spans. A span whose cause is to be inferred goes on later, from [`Pipeline::run_due`].
    pub(crate) fn take(&mut self, batch: Vec<Arc<Span>>) {
        let batch = match &mut self.without_telemetry {
            Some(without) => without.filter(batch),
            None => batch,
        };
        if let Some(record) = &mut self.record {
            record.take(&batch);
        }
        let ready = match &mut self.inference {
            Some(inference) => inference.take(batch),
            None => batch,
        };
        self.explain(ready);
    }

    /// What explains requests; it takes clocks, waits and system calls of threads.
    pub(crate) fn explainer(&mut self) -> &mut Explainer {
        &mut self.explainer
    }

    /// Hands on spans whose cause is decided; requests whose calls may still come go later.
    fn explain(&mut self, decided: Vec<Arc<Span>>) {
        let mut ready = Vec::with_capacity(decided.len());
        for span in decided {
            self.explainer.push(span, &mut |s| ready.push(s));
        }
        self.hand_on(ready);
    }

    /// Takes finished spans whose sender keeps them until they are taken: all of them, or none. Their causes are
    /// decided. The store comes first, so that spans which are offered again have left nothing behind. Spans of an SDK
    /// whose request goes on are taken, and stored when it is known where their time went.
    pub(crate) fn offer(&mut self, batch: Vec<Arc<Span>>) -> Result<(), SinkError> {
        let batch = match &mut self.without_telemetry {
            Some(without) => without.filter(batch),
            None => batch,
        };
        if let Some(record) = &mut self.record {
            record.take(&batch);
        }
        if batch.is_empty() {
            return Ok(());
        }
        let (ready, held) = self.explainer.report(batch, now_ns());
        if let Some(store) = &self.store {
            let stored = store.append(ready.clone());
            if let Err(error) = stored {
                self.failures.deferred += (ready.len() + held.len()) as u64;
                return Err(SinkError::Busy(error.to_string()));
            }
        }
        self.explainer.hold(held);
        self.give_out(ready);
        Ok(())
    }

    /// As [`Pipeline::offer`], for flows.
    pub(crate) fn offer_flows(&mut self, flows: Vec<Flow>) -> Result<(), SinkError> {
        if let Some(store) = &self.store {
            if let Err(error) = store.append_flows(&flows) {
                self.failures.deferred += flows.len() as u64;
                return Err(SinkError::Busy(error.to_string()));
            }
        }
        self.give_out_flows(flows);
        Ok(())
    }

    /// Takes what the kernel tells of threads that were woken by answers, for the inference.
    pub(crate) fn take_wakes(&mut self, host_id: u64, wakes: &[Wake]) {
        if let Some(record) = &mut self.record {
            record.take_wakes(host_id, wakes);
        }
        if let Some(inference) = &mut self.inference {
            inference.take_wakes(host_id, wakes);
        }
    }

    /// Takes flows of a window.
    pub(crate) fn take_flows(&mut self, flows: Vec<Flow>) {
        if let Some(store) = &self.store {
            if store.append_flows(&flows).is_err() {
                self.failures.flows += flows.len() as u64;
            }
        }
        self.give_out_flows(flows);
    }

    /// Gives flows to every output but the store.
    fn give_out_flows(&mut self, flows: Vec<Flow>) {
        self.counters.spans.observe_flows(&flows);
        if let Some(map) = &mut self.map {
            map.take(&flows);
        }
        if let Some(link) = &self.link {
            link.send_flows(flows);
        }
    }

    /// Does the work that is due by the clock, while `waiting` batches wait to be taken. Returns the longest pause
    /// before the next call.
    pub(crate) fn run_due(&mut self, waiting: usize) -> Duration {
        // Batches that wait came before now: whether more spans of a trace come is asked when they are read.
        if waiting == 0 || self.ticked.elapsed() >= LONGEST_WITHOUT_TICK {
            self.tick();
        }
        if let Some(inference) = &mut self.inference {
            let solved = inference.run_due(waiting);
            self.explain(solved);
        }
        if self.published.is_none_or(|at| at.elapsed() >= PUBLISH_EVERY) {
            self.published = Some(Instant::now());
            self.publish();
        }
        self.inference.as_ref().and_then(Inference::due_in).map_or(PUBLISH_EVERY, |due| due.min(PUBLISH_EVERY))
    }

    fn tick(&mut self) {
        self.ticked = Instant::now();
        let mut delay_ns = 0;
        if let Some(inference) = &mut self.inference {
            inference.tick(self.ticked);
            delay_ns = inference.delay_ns();
            let mut explained = Vec::new();
            let undecided_ns = |span: &Span| inference.undecided_ns(span);
            self.explainer.release(now_ns(), &undecided_ns, &mut |span| explained.push(span));
            self.hand_on(explained);
        }
        if let Some(traces) = &mut self.traces {
            traces.tick(delay_ns);
        }
    }

    /// Gives spans whose cause is decided to every output.
    fn hand_on(&mut self, batch: Vec<Arc<Span>>) {
        if batch.is_empty() {
            return;
        }
        if let Some(store) = &self.store {
            if store.append(batch.clone()).is_err() {
                self.failures.spans += batch.len() as u64;
            }
        }
        self.give_out(batch);
    }

    /// Gives spans to every output but the store.
    fn give_out(&mut self, batch: Vec<Arc<Span>>) {
        self.counters.spans.observe(&batch);
        if let Some(traces) = &mut self.traces {
            traces.take(&batch);
        }
        if let Some(link) = &self.link {
            let shown = |skew: Skew| batch.iter().map(|span| Arc::new(skew.span(span))).collect();
            link.send(self.skew.map(shown).unwrap_or(batch));
        }
    }

    /// The end: everything goes out.
    pub(crate) fn finish(&mut self) {
        if let Some(inference) = &mut self.inference {
            let solved = inference.finish();
            self.explain(solved);
        }
        let mut explained = Vec::new();
        self.explainer.finish(&mut |span| explained.push(span));
        self.hand_on(explained);
        if let Some(traces) = &mut self.traces {
            traces.finish();
        }
        if let Some(exporter) = self.metrics_out.take() {
            self.counters.spans.finish();
            let status = exporter.close(CLOSE_WAIT);
            if let Some(error) = status.error {
                eprintln!("wirespan: the last metrics were not exported: {error}");
            }
        }
        if let Some(map) = self.map.take() {
            match map.write(self.store.as_deref(), now_ns()) {
                Ok(0) => {}
                Ok(flows) => eprintln!("wirespan: the map leaves out {flows} flows beyond {}", MapFile::MAX_FLOWS),
                Err(error) => eprintln!("wirespan: --map-file {error}"),
            }
        }
        if let Some(link) = self.link.take() {
            let status = link.close(CLOSE_WAIT);
            if status.dropped() > 0 {
                eprintln!("wirespan: {} spans did not reach the server", status.dropped());
            }
        }
        if let Some(store) = &self.store {
            if let Err(error) = store.flush() {
                eprintln!("wirespan: the store could not be flushed: {error}");
            }
        }
        self.publish();
    }

    /// Publishes the counters of every stage and output.
    fn publish(&self) {
        let counters = &self.counters;
        if let Some(inference) = &self.inference {
            counters.set("inference", inference.counters());
            counters.set("explain", self.explainer.counters());
        }
        if let Some(without) = &self.without_telemetry {
            counters.set("telemetry", vec![("spans_left_out", without.left_out)]);
        }
        if let Some(store) = &self.store {
            let status = store.status();
            health::store(&counters.conditions, &status, self.failures.spans, self.failures.deferred);
            counters.set("store", self.failures.counters(status));
        }
        if let Some(traces) = &self.traces {
            counters.set("export", traces.counters());
            if let Some((url, status)) = traces.export() {
                health::export(&counters.conditions, url, &status);
            }
        }
        if let Some(exporter) = &self.metrics_out {
            counters.set("export-metrics", exporter.status().counters());
        }
        if let Some(link) = &self.link {
            counters.set("link", link.status().counters());
            health::link(&counters.conditions, link);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_model::{Evidence, TapSide};

    /// How many spans are stored at once, and at the end, of a call whose cause is inferred.
    fn stored(causes: Causes) -> (u64, u64) {
        let (args, config) = (OutputArgs::default(), Config::default());
        let store = open_store(&args, &config, Duration::ZERO).expect("in memory");
        let counters = Arc::new(Counters::new(&config));
        let kept = Some(Arc::clone(&store));
        let mut pipeline = Pipeline::open(causes, &args, &config, kept, None, counters).expect("it opens");
        let call = Span {
            tap: TapSide::ClientProcess,
            pid: 1,
            start_ns: now_ns(),
            end_ns: now_ns(),
            cause_evidence: Some(Evidence::Inferred),
            ..Span::default()
        };
        pipeline.take(vec![Arc::new(call)]);
        pipeline.run_due(0);
        let at_once = store.status().spans;
        pipeline.finish();
        (at_once, store.status().spans)
    }

    #[test]
    fn causes_are_inferred_where_spans_are_captured_and_nowhere_else() {
        assert_eq!(stored(Causes::InferredHere), (0, 1), "a call waits for its cause");
        assert_eq!(stored(Causes::Decided), (1, 1), "an agent has inferred the cause already");
    }
}
