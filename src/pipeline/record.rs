//! Keeps the spans as they come to the inference, so that a wrong cause can be looked into later: see CONTRIBUTING.md,
//! "A wrong cause".

use crate::clock::now_ns;
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::sync::Arc;
use wirespan_model::event::Wake;
use wirespan_model::Span;

/// Names the file; without it nothing is kept.
const FILE: &str = "WIRESPAN_RECORD_SPANS";

/// Spans, or wake-ups of one host, that came together.
#[derive(Default, Serialize)]
struct Batch<'a> {
    now_ns: u64,
    spans: &'a [Arc<Span>],
    host_id: u64,
    wakes: &'a [Wake],
}

/// A file of JSON lines, one for each batch.
pub(super) struct Record(BufWriter<File>);

impl Record {
    /// The file that the environment names, if it does.
    pub(super) fn open() -> Option<Self> {
        let path = std::env::var_os(FILE)?;
        match File::create(&path) {
            Ok(file) => Some(Record(BufWriter::new(file))),
            Err(error) => {
                eprintln!("wirespan: {FILE}={}: {error}; no spans are recorded", path.display());
                None
            }
        }
    }

    pub(super) fn take(&mut self, spans: &[Arc<Span>]) {
        self.write(&Batch { now_ns: now_ns(), spans, ..Batch::default() });
    }

    pub(super) fn take_wakes(&mut self, host_id: u64, wakes: &[Wake]) {
        self.write(&Batch { now_ns: now_ns(), host_id, wakes, ..Batch::default() });
    }

    fn write(&mut self, batch: &Batch<'_>) {
        let written = serde_json::to_writer(&mut self.0, batch).map_err(std::io::Error::from);
        if let Err(error) = written.and_then(|()| self.0.write_all(b"\n")).and_then(|()| self.0.flush()) {
            eprintln!("wirespan: {FILE}: {error}");
        }
    }
}
