//! `wirespan map`: who calls whom.

use super::client::{encode, ClientArgs};
use crate::config::Config;
use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::Value;
use std::process::ExitCode;
use wirespan_trace::tree;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum MapFormat {
    /// A line per edge
    #[default]
    Text,
    /// One JSON document
    Json,
    /// Graphviz
    Dot,
}

#[derive(Args)]
pub(crate) struct MapArgs {
    /// Since when: -15m, an RFC 3339 time, or Unix ns
    #[arg(long, default_value = "-1h", allow_hyphen_values = true)]
    from: String,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t)]
    format: MapFormat,
    #[command(flatten)]
    client: ClientArgs,
}

pub(crate) fn map(args: MapArgs, config: &Config) -> Result<ExitCode> {
    let map = args.client.get(config, &format!("/api/v1/map?from={}", encode(&args.from)))?;
    match args.format {
        MapFormat::Json => println!("{}", serde_json::to_string_pretty(&map)?),
        MapFormat::Text => edges(&map).for_each(|e| println!("{}", text_line(&map, e))),
        MapFormat::Dot => print!("{}", dot(&map)),
    }
    Ok(ExitCode::SUCCESS)
}

fn edges(map: &Value) -> impl Iterator<Item = &Value> {
    map["edges"].as_array().into_iter().flatten()
}

fn number(edge: &Value, key: &str) -> u64 {
    edge["calls"][key].as_u64().unwrap_or(0)
}

/// The name of the node with this id.
fn name<'a>(map: &'a Value, edge: &'a Value, end: &str) -> &'a str {
    let id = edge[end].as_str().unwrap_or("?");
    let node = map["nodes"].as_array().into_iter().flatten().find(|n| n["id"] == id);
    node.and_then(|n| n["name"].as_str()).unwrap_or(id)
}

fn text_line(map: &Value, edge: &Value) -> String {
    format!(
        "{:>20} → {:20} {:8} {:>8} requests  {:>6} errors  p50 {:>8}  p95 {:>8}",
        name(map, edge, "from"),
        name(map, edge, "to"),
        edge["protocol"].as_str().unwrap_or("?"),
        number(edge, "count"),
        number(edge, "errors"),
        tree::duration(i128::from(number(edge, "p50_ns"))),
        tree::duration(i128::from(number(edge, "p95_ns"))),
    )
}

fn dot(map: &Value) -> String {
    let quote = |s: &str| format!("\"{}\"", s.replace('\\', "\\\\").replace('"', "\\\""));
    let mut out = String::from("digraph wirespan {\n  rankdir=LR;\n  node [shape=box];\n");
    for e in edges(map) {
        let label = format!("{} {}", e["protocol"].as_str().unwrap_or("?"), number(e, "count"));
        let (from, to) = (quote(name(map, e, "from")), quote(name(map, e, "to")));
        out.push_str(&format!("  {from} -> {to} [label={}];\n", quote(&label)));
    }
    out.push_str("}\n");
    out
}
