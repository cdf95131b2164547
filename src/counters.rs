//! The counters of every stage, in one place: `/metrics`, the status page and `wirespan status` read them.

use crate::conditions::Conditions;
use crate::config::Config;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use wirespan_ship::metrics::{Registry, SpanMetrics};
use wirespan_view::{Counter, Stage};

/// Stages in the order of the data flow; others follow by name.
const ORDER: &[&str] =
    &["capture", "join", "plugin", "flows", "agent", "store", "export", "export-metrics", "link", "receive"];

/// Parts of the names of counters that count a loss.
const LOSS: &[&str] = &[
    "lost",
    "drop",
    "evicted",
    "overflow",
    "gaps",
    "gap_bytes",
    "bad_",
    "refused",
    "malformed",
    "unseen",
    "resync",
    "fault",
];

/// Counters by stage and name, since the start of the process.
#[derive(Default)]
pub(crate) struct Counters {
    stages: Mutex<BTreeMap<&'static str, Vec<(String, u64)>>>,
    /// Sentences about single processes, for the status page.
    notes: Mutex<Vec<String>>,
    /// What is wrong at present.
    pub(crate) conditions: Conditions,
    /// Metrics of the spans and flows that passed.
    pub(crate) spans: Arc<SpanMetrics>,
}

impl Counters {
    /// Nothing counted yet.
    pub(crate) fn new(config: &Config) -> Self {
        Counters { spans: Arc::new(SpanMetrics::new(config.metrics.max_edges)), ..Counters::default() }
    }

    /// Replaces the counters of a stage.
    pub(crate) fn set<N: Into<String>>(&self, stage: &'static str, values: Vec<(N, u64)>) {
        if let Ok(mut all) = self.stages.lock() {
            all.insert(stage, values.into_iter().map(|(n, v)| (n.into(), v)).collect());
        }
    }

    /// Replaces the sentences about single processes.
    pub(crate) fn note(&self, notes: Vec<String>) {
        if let Ok(mut all) = self.notes.lock() {
            *all = notes;
        }
    }

    /// What is wrong at present, and the sentences about single processes.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = self.conditions.notes();
        notes.extend(self.notes.lock().map(|notes| notes.clone()).unwrap_or_default());
        notes
    }

    /// All of them, for the status page.
    pub(crate) fn stages(&self) -> Vec<Stage> {
        let Ok(all) = self.stages.lock() else { return Vec::new() };
        let place = |name: &str| ORDER.iter().position(|o| *o == name).unwrap_or(ORDER.len());
        let mut stages: Vec<_> = all.iter().collect();
        stages.sort_by_key(|(name, _)| (place(name), **name));
        let counter = |(name, value): &(String, u64)| Counter::new(name, *value, is_loss(name));
        stages
            .into_iter()
            .map(|(name, values)| Stage { name: (*name).to_string(), counters: values.iter().map(counter).collect() })
            .collect()
    }

    /// Every counter of a loss that is not zero.
    pub(crate) fn losses(&self) -> Vec<(String, u64)> {
        self.stages()
            .into_iter()
            .flat_map(|s| s.counters.into_iter().map(move |c| (format!("{} {}", s.name, c.name), c.value, c.loss)))
            .filter(|c| c.2 && c.1 > 0)
            .map(|c| (c.0, c.1))
            .collect()
    }

    /// Prometheus text: `wirespan_counted_total` of every stage, and the metrics of the spans.
    pub(crate) fn prometheus(&self) -> String {
        let registry = Registry::new();
        let (stages, spans) = (self.stages(), Arc::clone(&self.spans));
        registry.add(move |w| {
            for stage in &stages {
                for c in &stage.counters {
                    let loss = if c.loss { "true" } else { "false" };
                    let labels = [("stage", stage.name.as_str()), ("counter", c.name.as_str()), ("loss", loss)];
                    w.counter("wirespan_counted_total", "What each stage counted since the start", &labels, c.value);
                }
            }
            let memory = crate::memory::taken();
            for (part, bytes) in [
                ("kernel-tables", memory.kernel_tables),
                ("kernel-programs", memory.kernel_programs),
                ("resident", memory.resident),
            ] {
                w.gauge("wirespan_memory_bytes", "Memory that wirespan takes", &[("part", part)], bytes as f64);
            }
            spans.write(w);
        });
        registry.render()
    }
}

fn is_loss(name: &str) -> bool {
    // A client that is told that the store is busy keeps its spans. Old spans that make room for new ones are said as a
    // note.
    let is_none = name == "dropped_busy" || name.starts_with("dropped_forgotten");
    !is_none && LOSS.iter().any(|l| name.contains(l))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_come_in_the_order_of_the_flow_and_losses_are_marked() {
        let counters = Counters::default();
        counters.set("store", vec![("spans", 3)]);
        counters.set("capture", vec![("records", 9), ("lost_ring_full", 2)]);
        let names: Vec<_> = counters.stages().into_iter().map(|s| s.name).collect();
        assert_eq!(names, ["capture", "store"]);
        assert_eq!(counters.losses(), [("capture lost_ring_full".to_string(), 2)]);
        let text = counters.prometheus();
        assert!(text.contains("counter=\"lost_ring_full\""));
        assert!(text.contains("wirespan_memory_bytes{part=\"resident\"}"), "{text}");
        // What `promtool check metrics` asks of names.
        for (name, kind) in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')) {
            let types = ["counter", "gauge", "histogram", "summary"];
            assert!(name.split('_').all(|word| !types.contains(&word)), "{name}");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
        }
    }
}
