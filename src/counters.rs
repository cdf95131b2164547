//! What every stage counted, in one place: `/metrics`, the status page and `wirespan status` read it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use wirespan_view::{Counter, Stage};

/// Stages in the order of the data flow; others follow by name.
const ORDER: &[&str] = &["capture", "join", "agent", "store", "export", "link", "receive"];

/// Names that tell of something lost.
const LOSS: &[&str] =
    &["lost", "drop", "evicted", "overflow", "gaps", "gap_bytes", "bad_", "refused", "malformed", "unseen", "resync"];

/// Counters by stage and name, since the start of the process.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<BTreeMap<&'static str, Vec<(String, u64)>>>);

impl Counters {
    /// Replaces the counters of a stage.
    pub(crate) fn set<N: Into<String>>(&self, stage: &'static str, values: Vec<(N, u64)>) {
        if let Ok(mut all) = self.0.lock() {
            all.insert(stage, values.into_iter().map(|(n, v)| (n.into(), v)).collect());
        }
    }

    /// All of them, for the status page.
    pub(crate) fn stages(&self) -> Vec<Stage> {
        let Ok(all) = self.0.lock() else { return Vec::new() };
        let place = |name: &str| ORDER.iter().position(|o| *o == name).unwrap_or(ORDER.len());
        let mut stages: Vec<_> = all.iter().collect();
        stages.sort_by_key(|(name, _)| (place(name), **name));
        let counter =
            |(name, value): &(String, u64)| Counter { name: name.clone(), value: *value, loss: is_loss(name) };
        stages
            .into_iter()
            .map(|(name, values)| Stage { name: (*name).to_string(), counters: values.iter().map(counter).collect() })
            .collect()
    }

    /// One counter; 0 if it was never set.
    pub(crate) fn get(&self, stage: &str, name: &str) -> u64 {
        let Ok(all) = self.0.lock() else { return 0 };
        all.get(stage).and_then(|v| v.iter().find(|c| c.0 == name)).map_or(0, |c| c.1)
    }

    /// Everything that tells of loss and is not zero.
    pub(crate) fn losses(&self) -> Vec<(String, u64)> {
        self.stages()
            .into_iter()
            .flat_map(|s| s.counters.into_iter().map(move |c| (format!("{} {}", s.name, c.name), c.value, c.loss)))
            .filter(|c| c.2 && c.1 > 0)
            .map(|c| (c.0, c.1))
            .collect()
    }

    /// Prometheus text.
    pub(crate) fn prometheus(&self) -> String {
        let mut out = String::from(
            "# HELP wirespan_stage_total What each stage of wirespan counted since its start.\n# TYPE wirespan_stage_total counter\n",
        );
        for stage in self.stages() {
            for c in stage.counters {
                let name: String = c.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
                let _ = writeln!(
                    out,
                    "wirespan_stage_total{{stage=\"{}\",counter=\"{name}\",loss=\"{}\"}} {}",
                    stage.name, c.loss, c.value
                );
            }
        }
        out
    }
}

fn is_loss(name: &str) -> bool {
    LOSS.iter().any(|l| name.contains(l))
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
        assert!(counters.prometheus().contains("counter=\"lost_ring_full\",loss=\"true\"} 2"));
    }
}
