//! `wirespan traces` and `wirespan trace ID`: search, and one trace as a tree.

use super::client::{encode, ClientArgs};
use super::Format;
use crate::config::Config;
use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use std::collections::HashSet;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use wirespan_model::{Span, Trace};
use wirespan_store::{Order, Query, Store};
use wirespan_trace::tree::{self, TextOptions};
use wirespan_trace::{assemble, Limits};

#[derive(Args)]
pub(crate) struct TracesArgs {
    /// Conditions, all of which must hold: service=cart status=error duration>10ms operation=GET endpoint=/x
    /// protocol=redis
    #[arg(value_name = "CONDITION")]
    query: Vec<String>,
    /// Since when: -15m, an RFC 3339 time, or Unix ns
    #[arg(long, default_value = "-1h", allow_hyphen_values = true)]
    from: String,
    /// Until when
    #[arg(long, allow_hyphen_values = true)]
    to: Option<String>,
    /// Slowest first (else newest first)
    #[arg(long)]
    slowest: bool,
    /// Most traces
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum TraceFormat {
    /// A tree for people
    #[default]
    Text,
    /// One JSON document
    Json,
    /// OTLP JSON
    Otlp,
}

#[derive(Args)]
pub(crate) struct TraceArgs {
    /// Id of any span of the trace (16 hex digits), or of the trace (32)
    id: String,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t)]
    format: TraceFormat,
    #[command(flatten)]
    client: ClientArgs,
}

pub(crate) fn traces(args: TracesArgs, config: &Config) -> Result<ExitCode> {
    let mut path = format!("/api/v1/traces?from={}&limit={}", encode(&args.from), args.limit);
    if let Some(to) = &args.to {
        path.push_str(&format!("&to={}", encode(to)));
    }
    if args.slowest {
        path.push_str("&order=slowest");
    }
    if !args.query.is_empty() {
        path.push_str(&format!("&q={}", encode(&args.query.join(" "))));
    }
    let answer = args.client.get(config, &path)?;
    let traces = answer["traces"].as_array().cloned().unwrap_or_default();
    if args.format == Format::Json {
        traces.iter().for_each(|t| println!("{t}"));
        return Ok(ExitCode::SUCCESS);
    }
    for t in &traces {
        let text = |key: &str| t[key].as_str().unwrap_or("").to_string();
        let errors = t["errors"].as_u64().filter(|n| *n > 0).map(|n| format!("  {n} errors")).unwrap_or_default();
        println!(
            "{}  {:>9}  {:>3} spans  {}{errors}",
            text("id"),
            tree::duration(i128::from(t["duration_ns"].as_u64().unwrap_or(0))),
            t["spans"].as_u64().unwrap_or(0),
            format_args!("{}: {}", text("service"), text("name")),
        );
    }
    if traces.is_empty() {
        eprintln!("wirespan: nothing matches");
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn trace(args: TraceArgs, config: &Config) -> Result<ExitCode> {
    let answer = args.client.get(config, &format!("/api/v1/trace/{}/model", encode(&args.id)))?;
    let trace: Trace = serde_json::from_value(answer).context("the server is of another version")?;
    match args.format {
        TraceFormat::Text => println!("{}", render(&trace, std::io::stdout().is_terminal())),
        TraceFormat::Json => println!("{}", serde_json::to_string_pretty(&tree::trace_json(&trace))?),
        TraceFormat::Otlp => {
            let request = wirespan_ship::otlp::encode_traces(std::slice::from_ref(&trace));
            let mut line = Vec::new();
            wirespan_ship::otlp::json::write_request(&request, &mut line);
            println!("{}", String::from_utf8_lossy(&line));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A trace as a tree.
pub(super) fn render(trace: &Trace, color: bool) -> String {
    tree::text(trace, TextOptions { color, ..TextOptions::default() })
}

/// A span in one line.
pub(super) fn line(span: &Span) -> String {
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

/// The slowest traces of a store, each once. Connections that were not understood come last: they last as long as they
/// are open.
pub(super) fn slowest(store: &dyn Store, limit: usize, limits: &Limits) -> Result<Vec<Trace>> {
    let query = Query { order: Order::Slowest, limit: 2000, ..Query::default() };
    let mut seen = HashSet::new();
    let mut traces = Vec::new();
    let mut spans = store.search(&query)?;
    spans.sort_by_key(|s| matches!(&*s.protocol, "tcp" | "udp" | "unix"));
    for span in spans {
        if traces.len() == limit {
            break;
        }
        if seen.contains(&span.id) {
            continue;
        }
        let trace = assemble(store, span.id, limits)?;
        seen.extend(trace.spans.iter().map(|s| s.span.id));
        traces.push(trace);
    }
    Ok(traces)
}
