//! Infers the causes of recorded spans again, and writes the traces: for work on the inference.
//!
//! usage: replay RECORD OTLP_FILE [LEAST_CONFIDENCE]
//!
//! RECORD is what a run with `WIRESPAN_RECORD_SPANS=RECORD` kept: the spans as they came, with the time. The clock of
//! the replay is that of the record, so each run gives the same result.
//! Links below LEAST_CONFIDENCE (as `inference.min_confidence`) are left out.

use serde::Deserialize;
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;
use wirespan_model::event::Wake;
use wirespan_model::{Span, Trace};
use wirespan_ship::otlp::OtlpFile;
use wirespan_trace::{Solver, SolverConfig, Stream, StreamConfig};

#[derive(Deserialize)]
struct Batch {
    now_ns: u64,
    spans: Vec<Span>,
    #[serde(default)]
    host_id: u64,
    #[serde(default)]
    wakes: Vec<Wake>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(record), Some(out), least, None) = (args.next(), args.next(), args.next(), args.next()) else {
        return Err("usage: replay RECORD OTLP_FILE [LEAST_CONFIDENCE]".into());
    };
    let config = SolverConfig::default();
    let min_confidence = least.map(|least| least.parse()).transpose()?.unwrap_or(config.min_confidence);
    let mut solver = Solver::new(SolverConfig { min_confidence, ..config });
    let mut stream = Stream::new(StreamConfig::default());
    let mut file = OtlpFile::create(Path::new(&out))?;
    let mut traces: Vec<Trace> = Vec::new();
    for line in BufReader::new(File::open(record)?).lines() {
        let batch: Batch = serde_json::from_str(&line?)?;
        let mut ready: Vec<Arc<Span>> = Vec::new();
        batch.wakes.iter().for_each(|wake| solver.wake(batch.host_id, wake));
        for span in batch.spans {
            solver.push(Arc::new(span), &mut |s| ready.push(s));
        }
        solver.tick(batch.now_ns, &mut |s| ready.push(s));
        stream.expect_delay(solver.delay_ns());
        stream.time(batch.now_ns);
        ready.into_iter().for_each(|span| stream.push(span, &mut |t| traces.push(t)));
        stream.tick(batch.now_ns, &mut |t| traces.push(t));
    }
    let mut ready: Vec<Arc<Span>> = Vec::new();
    solver.finish(&mut |s| ready.push(s));
    ready.into_iter().for_each(|span| stream.push(span, &mut |t| traces.push(t)));
    stream.finish(&mut |t| traces.push(t));
    traces.iter().try_for_each(|trace| file.write(std::slice::from_ref(trace)))?;
    println!("{} traces, {:?}", traces.len(), solver.stats());
    Ok(())
}
