//! Prints the flows of a store's directory, one JSON object per record and line.
#![allow(missing_docs)]

use std::io::Write as _;
use wirespan_store::{Embedded, Options, Store as _, TimeRange};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).ok_or("usage: flows DIR")?;
    let store = Embedded::open(std::path::Path::new(&dir), Options::default())?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut failed = None;
    store.flows(TimeRange::ALL, &mut |flow| {
        let line = serde_json::to_string(flow).map_err(std::io::Error::other).and_then(|line| writeln!(out, "{line}"));
        failed = failed.take().or(line.err());
    })?;
    failed.map_or(Ok(out.flush()?), |error| Err(error.into()))
}
