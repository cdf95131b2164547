//! The dependency map of a whole run as a file (`--map-file`).

use crate::evidence::{StoreEvidence, WithFlows};
use rustc_hash::FxHashMap;
use std::path::{Path, PathBuf};
use wirespan_map::{Document, ServiceMap};
use wirespan_model::{Flow, FlowKey, TimeRange};
use wirespan_store::{Store, StoreError};

/// Why the file could not be written.
#[derive(Debug, thiserror::Error)]
pub enum MapFileError {
    /// The spans of the run could not be read.
    #[error("{}: {source}", .path.display())]
    Store {
        /// The file.
        path: PathBuf,
        /// What the store said.
        source: StoreError,
    },
    /// The operating system refused to write.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
}

/// Gathers the flow records of a run, and writes the map of the run at its end.
pub struct MapFile {
    path: PathBuf,
    started_ns: u64,
    flows: FxHashMap<FlowKey, Flow>,
    left_out: u64,
}

impl MapFile {
    /// Greatest number of different flow records; further ones are counted and left out.
    pub const MAX_FLOWS: usize = 1_000_000;

    /// Begins a run now (`now_ns`, Unix ns), and checks that the file can be written.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub fn create(path: &Path, now_ns: u64) -> Result<Self, MapFileError> {
        std::fs::write(path, "").map_err(|source| MapFileError::Io { path: path.to_owned(), source })?;
        Ok(MapFile { path: path.to_owned(), started_ns: now_ns, flows: FxHashMap::default(), left_out: 0 })
    }

    /// Adds flow records.
    pub fn take(&mut self, flows: &[Flow]) {
        for flow in flows {
            if let Some(known) = self.flows.get_mut(&flow.key) {
                known.merge(flow);
            } else if self.flows.len() < MapFile::MAX_FLOWS {
                self.flows.insert(flow.key, flow.clone());
            } else {
                self.left_out += 1;
            }
        }
    }

    /// Writes the map of the run, which ends now. `store` has its spans, if there is a store. The file is complete or
    /// empty, never partial. Returns how many flow records the map leaves out.
    ///
    /// # Errors
    /// Why the map could not be made or written.
    pub fn write(self, store: Option<&dyn Store>, now_ns: u64) -> Result<u64, MapFileError> {
        let range = TimeRange { from_ns: self.started_ns, to_ns: now_ns.saturating_add(1) };
        let flows: Vec<Flow> = self.flows.into_values().collect();
        let path = self.path;
        let map = match store {
            Some(store) => {
                let evidence = WithFlows { spans: StoreEvidence { store, range }, flows: &flows };
                let built = ServiceMap::build(&evidence, None);
                built.map_err(|source| MapFileError::Store { path: path.clone(), source })?.0
            }
            None => ServiceMap::of_evidence(&[], &flows),
        };
        let half = path.with_extension("half");
        let write = || {
            let text = serde_json::to_string_pretty(&Document::new(&map, range))?;
            std::fs::write(&half, text)?;
            std::fs::rename(&half, &path)
        };
        match write() {
            Ok(()) => Ok(self.left_out),
            Err(source) => Err(MapFileError::Io { path, source }),
        }
    }
}
