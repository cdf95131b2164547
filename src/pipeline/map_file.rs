//! `--map-file`: the dependency map of a whole run, from its spans and flows, written at the end.

use anyhow::{Context as _, Result};
use rustc_hash::FxHashMap;
use std::path::{Path, PathBuf};
use wirespan_model::{Flow, FlowKey};
use wirespan_store::{Store, TimeRange};
use wirespan_trace::map::{Document, ServiceMap};

/// Bundles that are told apart; those beyond are counted and left out.
const MAX_FLOWS: usize = 1_000_000;

/// Gathers flows and writes the map.
pub(crate) struct MapFile {
    path: PathBuf,
    started_ns: u64,
    flows: FxHashMap<FlowKey, Flow>,
    left_out: u64,
}

impl MapFile {
    /// Checks that the file can be written; it is complete or absent at the end, never half of it.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        std::fs::write(path, "").with_context(|| format!("--map-file {}", path.display()))?;
        Ok(MapFile {
            path: path.to_owned(),
            started_ns: crate::clock::now_ns(),
            flows: FxHashMap::default(),
            left_out: 0,
        })
    }

    /// Adds flows.
    pub(crate) fn take(&mut self, flows: &[Flow]) {
        for flow in flows {
            if let Some(known) = self.flows.get_mut(&flow.key) {
                known.merge(flow);
            } else if self.flows.len() < MAX_FLOWS {
                self.flows.insert(flow.key, flow.clone());
            } else {
                self.left_out += 1;
            }
        }
    }

    /// Writes the file. The store, if there is one, has the spans of this run.
    pub(crate) fn write(self, store: Option<&dyn Store>) -> Result<()> {
        let range = TimeRange { from_ns: self.started_ns, to_ns: crate::clock::now_ns().saturating_add(1) };
        let flows: Vec<Flow> = self.flows.into_values().collect();
        let map = match store {
            Some(store) => ServiceMap::of_spans_and_flows(store, range, &flows)?,
            None => ServiceMap::of_evidence(&[], &flows),
        };
        if self.left_out > 0 {
            eprintln!("wirespan: the map leaves out {} flows beyond {MAX_FLOWS}", self.left_out);
        }
        let text = serde_json::to_string_pretty(&Document::new(&map, range))?;
        let half = self.path.with_extension("half");
        let written = std::fs::write(&half, text).and_then(|()| std::fs::rename(&half, &self.path));
        written.with_context(|| format!("--map-file {}", self.path.display()))
    }
}
