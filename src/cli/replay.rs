//! `wirespan replay FILE…`: capture files → the same decode, join and store path, with no privilege.

use super::Format;
use crate::config::{join_config, Config, OutputArgs, UiArgs};
use crate::counters::Counters;
use crate::pipeline::{open_store, Causes, Pipeline};
use crate::session::PATIENCE;
use crate::stop_signal::StopSignal;
use crate::view::{About, View};
use anyhow::{bail, Context as _, Result};
use clap::Args;
use serde_json::Value;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use wirespan_join::{Joiner, Resources};
use wirespan_model::event::Actor;
use wirespan_model::{plain, Resource, Span, Trace};
use wirespan_pcap::{Limits, Replay};
use wirespan_trace::{tree, Stream, StreamConfig};

#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// Capture files: pcap or pcapng
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Form of the answer: a line per span, or a JSON object per span
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    outputs: OutputArgs,
    /// Serve the spans in the UI until Ctrl-C
    #[arg(long)]
    serve: bool,
    #[command(flatten)]
    ui: UiArgs,
}

/// The resource of every span: a capture file does not name processes.
struct Nobody(Arc<Resource>);

impl Resources for Nobody {
    fn resource(&self, _: &Actor) -> Arc<Resource> {
        Arc::clone(&self.0)
    }
}

pub(crate) fn replay(args: ReplayArgs, config: Config) -> Result<ExitCode> {
    let counters = Arc::new(Counters::new(&config));
    let store = open_store(&args.outputs, &config, PATIENCE)?;
    let (kept, counted) = (Some(Arc::clone(&store)), Arc::clone(&counters));
    // A capture file knows no process: there are no causes to infer.
    let mut pipeline = Pipeline::open(Causes::Decided, &args.outputs, &config, kept, None, counted)?;
    let join = join_config(&config)?;
    let mut failed = 0;
    let mut total = 0;
    for path in &args.files {
        // Files are independent: connections, host id and time do not carry over from one to the next.
        let host_id = wirespan_model::key::hash64(&[path.as_os_str().as_encoded_bytes()]);
        let mut joiner = Joiner::new(join.clone(), host_id, Box::new(Nobody(Arc::default())));
        let mut reader = Replay::new(Limits::default());
        let mut spans: Vec<Span> = Vec::new();
        let read = reader.read_path(path, &mut |event| joiner.event(event, &mut |span| spans.push(span)));
        joiner.finish(&mut |span| spans.push(span));
        counters.set("capture", reader.stats().counters());
        counters.set("join", joiner.stats().counters());
        counters.set("plugin", join.protocols.counters());
        spans.sort_by_key(|s| (s.start_ns, s.end_ns));
        total += spans.len();
        let spans: Vec<Arc<Span>> = spans.into_iter().map(Arc::new).collect();
        print(&spans, args.format)?;
        pipeline.take(spans);
        if let Err(error) = read {
            failed += 1;
            eprintln!("wirespan: {error}");
        }
        for (name, n) in counters.losses() {
            eprintln!("wirespan: {}: {name} {n}", path.display());
        }
    }
    pipeline.finish();
    if args.format == Format::Text && std::io::stderr().is_terminal() {
        eprintln!("wirespan: {total} spans of {} files", args.files.len());
    }
    if args.serve {
        let mut stop = StopSignal::catch()?;
        let about = About { mode: "replay", housekeeping: config.traces.housekeeping, ..About::default() };
        let mut serve = config.serve.clone();
        args.ui.apply(&mut serve);
        let view = View::serve(&serve, store, counters, about)?;
        eprintln!("wirespan: UI on {}; Ctrl-C ends", view.url());
        stop.wait(None, || true);
    }
    if failed > 0 {
        bail!("{failed} of {} files could not be read to their end", args.files.len());
    }
    Ok(ExitCode::SUCCESS)
}

fn print(spans: &[Arc<Span>], format: Format) -> Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let written = match format {
        Format::Json => traced(spans).iter().try_for_each(|span| writeln!(out, "{}", plain::json(&span.to_string()))),
        Format::Text => spans.iter().try_for_each(|span| writeln!(out, "{}", plain::line(&line(span)))),
    };
    match written.and_then(|()| out.flush()) {
        // `replay … | head` is no failure.
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("writing to stdout"),
    }
}

/// A span in one line.
fn line(span: &Span) -> String {
    let t = &span.tuple;
    let code = span.status_code.map(|c| format!(" {c}")).unwrap_or_default();
    let late = if span.error.is_empty() { String::new() } else { format!("  {}", span.error) };
    format!(
        "{:>9}  {:8} {} → {}  {}  {}{code}{late}",
        tree::duration(i128::from(span.duration_ns())),
        span.protocol,
        t.client,
        t.server,
        span.name(),
        span.status.as_str()
    )
}

/// The spans as JSON, each with its place in its trace, in the order of their start.
fn traced(spans: &[Arc<Span>]) -> Vec<Value> {
    let mut stream = Stream::new(StreamConfig { max_spans: usize::MAX, housekeeping: true, ..StreamConfig::default() });
    let mut placed = Vec::with_capacity(spans.len());
    let mut place = |trace: Trace| {
        let times = trace.spans.iter().map(|s| (s.span.start_ns, s.span.end_ns));
        placed.extend(times.zip(tree::spans_json(&trace)));
    };
    spans.iter().for_each(|span| stream.push(Arc::clone(span), &mut place));
    stream.finish(&mut place);
    placed.sort_by_key(|(times, _)| *times);
    placed.into_iter().map(|(_, span)| span).collect()
}
