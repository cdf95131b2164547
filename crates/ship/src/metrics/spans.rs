//! All metrics that come from spans and flow records as they pass by.

use super::{EdgeMetrics, RedMetrics, Writer};
use std::sync::Arc;
use wirespan_map::LiveConfig;
use wirespan_model::{Flow, Span};

/// Rate, errors and durations per service, and the same per edge of the dependency map. May be shared between threads.
pub struct SpanMetrics {
    red: RedMetrics,
    edges: EdgeMetrics,
}

impl Default for SpanMetrics {
    fn default() -> Self {
        SpanMetrics::new(LiveConfig::default().max_edges)
    }
}

impl SpanMetrics {
    /// No counts yet. At most this many edges have series of their own.
    pub fn new(max_edges: usize) -> Self {
        SpanMetrics { red: RedMetrics::default(), edges: EdgeMetrics::new(max_edges) }
    }

    /// Counts spans.
    pub fn observe(&self, batch: &[Arc<Span>]) {
        self.red.observe(batch.iter().map(|span| &**span));
        self.edges.observe(batch);
    }

    /// Counts flow records.
    pub fn observe_flows(&self, flows: &[Flow]) {
        self.edges.observe_flows(flows);
    }

    /// Counts also the spans and flow records that wait for their other end. Call it when no more will come.
    pub fn finish(&self) {
        self.edges.finish();
    }

    /// Writes all current values.
    pub fn write(&self, w: &mut Writer) {
        self.red.write(w);
        self.edges.write(w);
    }

    /// Writes the current values of the map's edges.
    pub fn write_map(&self, w: &mut Writer) {
        self.edges.write(w);
    }
}
