//! Outputs that want whole traces: a file and a collector, both OTLP. A span gets its trace id and its parent before
//! they see it.

use super::stream_clock::StreamClock;
use anyhow::{Context as _, Result};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wirespan_model::{Span, Trace};
use wirespan_ship::otlp::export::ExportConfig;
use wirespan_ship::otlp::{ExportStatus, Exporter, OtlpFile};
use wirespan_trace::{Stream, StreamConfig};

/// How often the file is made durable.
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// How long the end waits for a collector.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// Spans on their way to become traces, and where the traces go.
pub(super) struct TraceOutputs {
    stream: Stream,
    clock: StreamClock,
    ends: Ends,
    /// When the file was made durable last, and with how many spans.
    synced: (Instant, u64),
    /// Makes the file durable in a thread of its own: spans would wait for it here.
    syncing: Option<JoinHandle<()>>,
}

/// Where finished traces go.
struct Ends {
    file: Option<OtlpFile>,
    /// Spans that could not be written to the file.
    file_failed: u64,
    /// With its URL.
    exporter: Option<(String, Exporter)>,
}

impl TraceOutputs {
    /// Opens the outputs that are given; `None` if none is.
    pub(super) fn open(
        file: Option<&Path>,
        export: Option<ExportConfig>,
        stream: StreamConfig,
    ) -> Result<Option<Self>> {
        let file = match file {
            Some(path) => Some(OtlpFile::create(path).with_context(|| format!("--otlp-file {}", path.display()))?),
            None => None,
        };
        let exporter = match export {
            Some(export) => {
                let url = export.url.clone();
                let exporter = Exporter::start(export).with_context(|| format!("OTLP export to {url}"))?;
                Some((url, exporter))
            }
            None => None,
        };
        if file.is_none() && exporter.is_none() {
            return Ok(None);
        }
        Ok(Some(TraceOutputs {
            stream: Stream::new(stream),
            clock: StreamClock::new(Instant::now()),
            ends: Ends { file, file_failed: 0, exporter },
            synced: (Instant::now(), 0),
            syncing: None,
        }))
    }

    /// Everything that had come was read or is pushed next.
    pub(super) fn caught_up(&mut self) {
        self.clock.caught_up(Instant::now());
        self.stream.time(self.clock.passed_ns());
    }

    pub(super) fn take(&mut self, batch: &[Arc<Span>]) {
        let TraceOutputs { stream, ends, .. } = self;
        for span in batch {
            stream.push(Arc::clone(span), &mut |trace| ends.take(&trace));
        }
    }

    /// Time passed: traces that are complete go out. Spans come up to `delay_ns` later than others of their trace.
    pub(super) fn tick(&mut self, delay_ns: u64) {
        let TraceOutputs { stream, clock, ends, .. } = self;
        stream.expect_delay(delay_ns);
        stream.tick(clock.passed_ns(), &mut |trace| ends.take(&trace));
        self.sync_file();
    }

    fn sync_file(&mut self) {
        let TraceOutputs { ends, synced, syncing, .. } = self;
        let due = synced.0.elapsed() >= SYNC_EVERY && syncing.as_ref().is_none_or(JoinHandle::is_finished);
        let Some(file) = ends.file.as_ref().filter(|file| due && file.spans() > synced.1) else { return };
        *synced = (Instant::now(), file.spans());
        // An error here is not reported: the end syncs the file again, and reports it then.
        let sync = |file: File| move || drop(file.sync_data());
        let thread = std::thread::Builder::new().name("otlp-sync".into());
        *syncing = file.again().ok().and_then(|file| thread.spawn(sync(file)).ok());
    }

    /// The end: every trace goes out.
    pub(super) fn finish(&mut self) {
        let TraceOutputs { stream, ends, .. } = self;
        stream.finish(&mut |trace| ends.take(&trace));
        ends.close();
    }

    /// Where spans are exported to, and how that goes.
    pub(super) fn export(&self) -> Option<(&str, ExportStatus)> {
        self.ends.exporter.as_ref().map(|(url, exporter)| (url.as_str(), exporter.status()))
    }

    pub(super) fn counters(&self) -> Vec<(String, u64)> {
        let mut values = self.ends.counters();
        values.extend(self.stream.stats().counters().into_iter().map(|(n, v)| (n.to_string(), v)));
        values
    }
}

impl Ends {
    fn take(&mut self, trace: &Trace) {
        if let Some((_, exporter)) = &mut self.exporter {
            exporter.send(trace);
        }
        if let Some(file) = &mut self.file {
            if let Err(error) = file.write(std::slice::from_ref(trace)) {
                if self.file_failed == 0 {
                    tracing::error!(%error, "the OTLP file cannot be written");
                }
                self.file_failed += trace.spans.len() as u64;
            }
        }
    }

    fn close(&mut self) {
        if let Some(file) = &mut self.file {
            if let Err(error) = file.sync() {
                eprintln!("wirespan: the OTLP file could not be synced: {error}");
            }
        }
        if self.file_failed > 0 {
            eprintln!("wirespan: {} spans could not be written to the OTLP file", self.file_failed);
        }
        if let Some((_, exporter)) = self.exporter.take() {
            let status = exporter.close(CLOSE_WAIT);
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
        if let Some((_, exporter)) = &self.exporter {
            values.extend(exporter.status().counters().into_iter().map(|(n, v)| (format!("otlp_{n}"), v)));
        }
        values
    }
}
