//! Counters and gauges of the stages, RED metrics of spans, and metrics of the dependency map; as Prometheus text here,
//! as OTLP in [`otlp::export`](crate::otlp::export).
//!
//! A [`Registry`] holds *sources*: closures that write their current values at each scrape. So each stage chooses the
//! form of its counters (atomics, a status struct), and nothing is counted twice.

mod edges;
mod red;
mod spans;
mod stages;
mod text;
mod writer;

pub use edges::EdgeMetrics;
pub use red::{RedConfig, RedMetrics};
pub use spans::SpanMetrics;
pub use writer::{Kind, Writer};
pub(crate) use writer::{Number, Point};

use std::sync::{Arc, Mutex, PoisonError};

type Source = Arc<dyn Fn(&mut Writer) + Send + Sync>;

/// Content type of [`Registry::render`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All sources of one process. Clones share them.
#[derive(Clone, Default)]
pub struct Registry {
    sources: Arc<Mutex<Vec<Source>>>,
}

impl Registry {
    /// No sources.
    pub fn new() -> Self {
        Registry::default()
    }

    /// Adds a source, called at each scrape.
    pub fn add(&self, source: impl Fn(&mut Writer) + Send + Sync + 'static) {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::new(source));
    }

    /// All metrics as Prometheus text (exposition format 0.0.4), grouped by name and sorted.
    pub fn render(&self) -> String {
        // Sources may be slow, or add sources: they run outside the lock.
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut writer = Writer::default();
        sources.iter().for_each(|source| source(&mut writer));
        text::render(&writer)
    }
}

/// Writes the three metrics that every stage must have: `wirespan_stage_in_total`, `_out_total` and
/// `_dropped_total{reason}`, all with `stage` (`capture`, `decode`, `join`, `ship`, `store`).
pub fn stage<'a>(
    w: &mut Writer,
    stage: &str,
    input: u64,
    output: u64,
    dropped: impl IntoIterator<Item = (&'a str, u64)>,
) {
    let label = [("stage", stage)];
    w.counter("wirespan_stage_in_total", "Items that a stage was given", &label, input);
    w.counter("wirespan_stage_out_total", "Items that a stage passed on", &label, output);
    for (reason, n) in dropped {
        let labels = [("stage", stage), ("reason", reason)];
        w.counter("wirespan_stage_dropped_total", "Items that a stage lost, by reason", &labels, n);
    }
}
