//! Where finished spans go: the store, the exporters (as whole traces), a server.

use crate::cli::OutputArgs;
use crate::config::{Config, Inference, Store as StoreConfig};
use crate::counters::Counters;
use crate::export::{export_config, metrics_exporter};
use crate::silence::Silence;
use anyhow::{Context as _, Result};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use wirespan_model::{Flow, Span, Trace};
use wirespan_ship::link::Sender;
use wirespan_ship::metrics::SpanMetrics;
use wirespan_ship::otlp::{Exporter, MetricsExporter, OtlpFile};
use wirespan_store::{Embedded, Store};
use wirespan_trace::{Solver, SolverConfig, Stream, StreamConfig};
use wirespan_view::MapFile;

/// Every output that was asked for.
pub(crate) struct Outputs {
    solver: Solver,
    store: Option<Arc<dyn Store>>,
    traces: Option<TraceOutputs>,
    link: Option<Sender>,
    metrics: Arc<SpanMetrics>,
    metrics_out: Option<MetricsExporter>,
    map: Option<MapFile>,
    store_failures: u64,
    failed_spans: u64,
    failed_flows: u64,
}

/// Outputs that want traces: ids and parents are assigned before they see a span.
struct TraceOutputs {
    stream: Stream,
    /// The time that counts for it.
    silence: Silence,
    file: Option<OtlpFile>,
    file_failed: u64,
    exporter: Option<Exporter>,
    /// When the file was made durable last, and with how many spans.
    synced: (Instant, u64),
    /// Makes it so: not here, where spans would wait for it.
    syncing: Option<JoinHandle<()>>,
}

/// Opens the store: in memory, or in the directory given.
pub(crate) fn open_store(args: &OutputArgs, config: &StoreConfig) -> Result<Arc<dyn Store>> {
    let dir = args.store.as_deref().unwrap_or(&config.dir);
    let options = wirespan_store::Options {
        max_age: Duration::from_secs(config.max_age_h * 3600),
        max_bytes: config.max_mib << 20,
        ..wirespan_store::Options::default()
    };
    Ok(if dir == Path::new("") {
        Arc::new(Embedded::memory(options)?)
    } else {
        Arc::new(Embedded::open(dir, options).with_context(|| format!("store {}", dir.display()))?)
    })
}

impl Outputs {
    /// Opens what the command line and the configuration ask for.
    pub(crate) fn open(
        args: &OutputArgs,
        config: &Config,
        store: Option<Arc<dyn Store>>,
        link: Option<Sender>,
        metrics: Arc<SpanMetrics>,
    ) -> Result<Self> {
        let file = match &args.otlp_file {
            Some(path) => Some(OtlpFile::create(path).with_context(|| format!("--otlp-file {}", path.display()))?),
            None => None,
        };
        let exporter = match export_config(args, config)? {
            Some(export) => {
                let url = export.url.clone();
                Some(Exporter::start(export).with_context(|| format!("OTLP export to {url}"))?)
            }
            None => None,
        };
        let metrics_out = metrics_exporter(args, config, &metrics)?;
        let traces = (file.is_some() || exporter.is_some()).then(|| TraceOutputs {
            stream: Stream::new(StreamConfig::default()),
            silence: Silence::new(Instant::now()),
            file,
            file_failed: 0,
            exporter,
            synced: (Instant::now(), 0),
            syncing: None,
        });
        let solver = Solver::new(solver_config(&config.inference));
        Ok(Outputs {
            solver,
            store,
            traces,
            link,
            metrics,
            metrics_out,
            map: None,
            store_failures: 0,
            failed_spans: 0,
            failed_flows: 0,
        })
    }

    /// Writes the dependency map of this run to a file at the end.
    pub(crate) fn write_map_to(&mut self, path: Option<&Path>) -> Result<()> {
        let create = |path| MapFile::create(path, now_ns());
        self.map = path.map(create).transpose().context("--map-file")?;
        Ok(())
    }

    /// All that had come when this is called was read or is given next: what waits whether more comes may count the
    /// time.
    pub(crate) fn sign(&mut self) {
        if let Some(traces) = &mut self.traces {
            traces.silence.sign(Instant::now());
            traces.stream.time(traces.silence.passed_ns());
        }
    }

    /// A batch of finished spans. Those whose cause is to be inferred go on later.
    pub(crate) fn take(&mut self, batch: Vec<Arc<Span>>) {
        let mut ready = Vec::with_capacity(batch.len());
        for span in batch {
            self.solver.push(span, &mut |s| ready.push(s));
        }
        self.hand_on(ready);
    }

    fn hand_on(&mut self, batch: Vec<Arc<Span>>) {
        if batch.is_empty() {
            return;
        }
        self.metrics.observe(&batch);
        if let Some(traces) = &mut self.traces {
            traces.take(&batch);
        }
        if let Some(link) = &self.link {
            link.send(batch.clone());
        }
        if let Some(store) = &self.store {
            let spans = batch.len() as u64;
            if let Err(error) = store.append(batch) {
                if self.store_failures == 0 {
                    tracing::error!(%error, "spans are not stored");
                }
                self.store_failures += 1;
                self.failed_spans += spans;
            } else if self.store_failures > 0 {
                tracing::warn!("spans are stored again");
                self.store_failures = 0;
            }
        }
    }

    /// Flows of a window.
    pub(crate) fn take_flows(&mut self, flows: Vec<Flow>) {
        self.metrics.observe_flows(&flows);
        if let Some(map) = &mut self.map {
            map.take(&flows);
        }
        if let Some(store) = &self.store {
            if let Err(error) = store.append_flows(&flows) {
                if self.failed_flows == 0 {
                    tracing::error!(%error, "flows are not stored");
                }
                self.failed_flows += flows.len() as u64;
            }
        }
        if let Some(link) = &self.link {
            link.send_flows(flows);
        }
    }

    /// What is due by the clock; what is to be inferred by [`Outputs::infer`].
    pub(crate) fn tick(&mut self) {
        self.solver.aim(now_ns());
        if let Some(traces) = &mut self.traces {
            traces.stream.expect_delay(self.solver.delay_ns());
            traces.tick();
        }
    }

    /// Infers some of the causes that are due; whether there are more.
    pub(crate) fn infer(&mut self) -> bool {
        let mut solved = Vec::new();
        let more = self.solver.work(&mut |s| solved.push(s));
        self.hand_on(solved);
        more
    }

    /// The end: everything goes out.
    pub(crate) fn finish(&mut self) {
        let mut solved = Vec::new();
        self.solver.finish(&mut |s| solved.push(s));
        self.hand_on(solved);
        if let Some(traces) = &mut self.traces {
            traces.finish();
        }
        if let Some(exporter) = self.metrics_out.take() {
            self.metrics.finish();
            let status = exporter.close(Duration::from_secs(5));
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
            let status = link.close(Duration::from_secs(5));
            if status.dropped() > 0 {
                eprintln!("wirespan: {} spans did not reach the server", status.dropped());
            }
        }
        if let Some(store) = &self.store {
            if let Err(error) = store.flush() {
                eprintln!("wirespan: the store could not be flushed: {error}");
            }
        }
    }

    /// Counters of every output.
    pub(crate) fn publish(&self, counters: &Counters) {
        counters.set("inference", self.solver.stats().counters());
        if let Some(store) = &self.store {
            let status = store.status();
            let mut values = vec![("spans".to_string(), status.spans), ("disk_bytes".into(), status.disk_bytes)];
            values.push(("spans_dropped".into(), self.failed_spans));
            values.push(("flows_dropped".into(), self.failed_flows));
            values.extend(status.dropped.into_iter().map(|(reason, n)| (format!("dropped_{reason}"), n)));
            counters.set("store", values);
        }
        if let Some(traces) = &self.traces {
            counters.set("export", traces.counters());
        }
        if let Some(exporter) = &self.metrics_out {
            counters.set("export-metrics", exporter.status().counters());
        }
        if let Some(link) = &self.link {
            counters.set("link", link.status().counters());
        }
    }
}

fn solver_config(config: &Inference) -> SolverConfig {
    SolverConfig {
        enabled: config.enabled,
        min_confidence: config.min_confidence,
        max_wait_ns: config.max_wait_s.saturating_mul(1_000_000_000),
        ..SolverConfig::default()
    }
}

/// Unix time, ns.
pub(crate) fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

impl TraceOutputs {
    fn take(&mut self, batch: &[Arc<Span>]) {
        let TraceOutputs { stream, file, file_failed, exporter, .. } = self;
        for span in batch {
            stream.push(Arc::clone(span), &mut |trace| out(file, file_failed, exporter, &trace));
        }
    }

    fn tick(&mut self) {
        let TraceOutputs { stream, silence, file, file_failed, exporter, synced, syncing } = self;
        stream.tick(silence.passed_ns(), &mut |trace| out(file, file_failed, exporter, &trace));
        let due = synced.0.elapsed() >= Duration::from_secs(1) && syncing.as_ref().is_none_or(JoinHandle::is_finished);
        if let Some(file) = file.as_ref().filter(|file| due && file.spans() > synced.1) {
            *synced = (Instant::now(), file.spans());
            // What cannot be synced now is synced at the end, where the error is told.
            let sync = |file: std::fs::File| move || drop(file.sync_data());
            let thread = std::thread::Builder::new().name("otlp-sync".into());
            *syncing = file.again().ok().and_then(|file| thread.spawn(sync(file)).ok());
        }
    }

    fn finish(&mut self) {
        let TraceOutputs { stream, file, file_failed, exporter, .. } = self;
        stream.finish(&mut |trace| out(file, file_failed, exporter, &trace));
        if let Some(file) = file {
            if let Err(error) = file.sync() {
                eprintln!("wirespan: the OTLP file could not be synced: {error}");
            }
        }
        if *file_failed > 0 {
            eprintln!("wirespan: {file_failed} spans could not be written to the OTLP file");
        }
        if let Some(exporter) = exporter.take() {
            let status = exporter.close(Duration::from_secs(5));
            let lost: u64 = status.dropped.values().sum();
            if lost > 0 {
                eprintln!("wirespan: {lost} spans were not exported: {}", status.error.unwrap_or_default());
            }
        }
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let mut values: Vec<(String, u64)> = Vec::new();
        if let Some(file) = &self.file {
            values.push(("file_spans".into(), file.spans()));
            values.push(("file_spans_dropped".into(), self.file_failed));
        }
        if let Some(exporter) = &self.exporter {
            values.extend(exporter.status().counters().into_iter().map(|(n, v)| (format!("otlp_{n}"), v)));
        }
        values.extend(self.stream.stats().counters().into_iter().map(|(n, v)| (n.to_string(), v)));
        values
    }
}

fn out(file: &mut Option<OtlpFile>, failed: &mut u64, exporter: &mut Option<Exporter>, trace: &Trace) {
    if let Some(exporter) = exporter {
        exporter.send(trace);
    }
    if let Some(file) = file {
        if let Err(error) = file.write(std::slice::from_ref(trace)) {
            if *failed == 0 {
                tracing::error!(%error, "the OTLP file cannot be written");
            }
            *failed += trace.spans.len() as u64;
        }
    }
}
