//! `wirespan replay FILE…`: capture files → the same decode, join and store path, with no privilege.

use super::Format;
use crate::config::{join_config, Config, OutputArgs, UiArgs};
use crate::counters::Counters;
use crate::pipeline::{open_store, Causes, Pipeline};
use crate::session::PATIENCE;
use crate::stop_signal::StopSignal;
use crate::view::{About, Orders, View};
use anyhow::{bail, Context as _, Result};
use clap::Args;
use serde_json::Value;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use wirespan_join::{Joiner, Resources};
use wirespan_journey::captures::{self, Capture, Found, Skew};
use wirespan_model::event::Actor;
use wirespan_model::{hop, plain, Resource, Span, Trace};
use wirespan_pcap::{Limits, Replay};
use wirespan_trace::{tree, Stream, StreamConfig};

#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// Capture files: pcap or pcapng. Files of several places are joined: one trace shows a request at all of them
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

/// Segments of each file that are compared with those of the other files: 32 MB.
const PASSAGES: usize = 1_000_000;

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
    let several = args.files.len() > 1;
    let limits = Limits { passages: if several { PASSAGES } else { 0 }, ..Limits::default() };
    let mut captures = Vec::new();
    for path in &args.files {
        // Connections and host id do not carry over from one file to the next.
        let host_id = wirespan_model::key::hash64(&[path.as_os_str().as_encoded_bytes()]);
        let mut joiner = Joiner::new(join.clone(), host_id, Box::new(Nobody(Arc::default())));
        let mut reader = Replay::new(limits);
        let mut spans: Vec<Span> = Vec::new();
        let read = reader.read_path(path, &mut |event| joiner.event(event, &mut |span| spans.push(span)));
        joiner.finish(&mut |span| spans.push(span));
        counters.set("capture", reader.stats().counters());
        counters.set("join", joiner.stats().counters());
        counters.set("plugin", join.protocols.counters());
        if let Err(error) = read {
            failed += 1;
            eprintln!("wirespan: {error}");
        }
        for (name, n) in counters.losses() {
            eprintln!("wirespan: {}: {name} {n}", path.display());
        }
        captures.push(Capture { name: name(path), spans, passages: reader.take_passages() });
    }
    if several {
        say_clocks(&captures::align(&mut captures), &args.files);
    }
    let mut spans: Vec<Span> = captures.into_iter().flat_map(|capture| capture.spans).collect();
    spans.sort_by_key(|s| (s.start_ns, s.end_ns));
    let total = spans.len();
    let spans: Vec<Arc<Span>> = spans.into_iter().map(Arc::new).collect();
    print(&spans, args.format)?;
    pipeline.take(spans);
    pipeline.finish();
    if args.format == Format::Text && std::io::stderr().is_terminal() {
        eprintln!("wirespan: {total} spans of {} files", args.files.len());
    }
    if args.serve {
        let mut stop = StopSignal::catch()?;
        let about = About { mode: "replay", housekeeping: config.traces.housekeeping, ..About::default() };
        let mut serve = config.serve.clone();
        args.ui.apply(&mut serve);
        let view = View::serve(&serve, store, counters, about, Orders::default())?;
        eprintln!("wirespan: UI on {}; Ctrl-C ends", view.url());
        stop.wait(None, || true);
    }
    if failed > 0 {
        bail!("{failed} of {} files could not be read to their end", args.files.len());
    }
    Ok(ExitCode::SUCCESS)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Says how far the clocks of the files differ.
fn say_clocks(found: &Found, files: &[PathBuf]) {
    let file = |n: usize| files.get(n).map(|path| path.display().to_string()).unwrap_or_default();
    for Skew { capture, than, ahead } in &found.skews {
        let (capture, than) = (file(*capture), file(*than));
        match ahead {
            Some(ahead) => {
                let middle = ahead.middle_ns().round() as i128;
                let (by, which) = (middle.abs(), if middle < 0 { "behind" } else { "ahead of" });
                let (by, error) = (tree::duration(by), tree::duration((ahead.width_ns() / 2.0).round() as i128));
                eprintln!("wirespan: the clock of {capture} is {by} ± {error} {which} that of {than}");
            }
            None => eprintln!(
                "wirespan: how far the clock of {capture} is from that of {than} is not known: no packets of both \
                 directions are in both, or a clock was set"
            ),
        }
    }
    if found.unordered > 0 {
        eprintln!(
            "wirespan: of {} connections in several files, {} do not show which file is nearer to the client",
            found.connections, found.unordered
        );
    }
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
    let place = match span.text(hop::CAPTURE_FILE) {
        Some(file) => format!("  {} in {file}  {}", span.tap.as_str(), tree::hop_times(span)).trim_end().to_owned(),
        None => String::new(),
    };
    format!(
        "{:>9}  {:8} {} → {}  {}  {}{code}{late}{place}",
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
