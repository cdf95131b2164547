//! `wirespan map`: the dependency map, and its changes.

use super::client::{encode, ClientArgs};
use crate::config::Config;
use anyhow::{bail, Context as _, Result};
use clap::{Args, ValueEnum};
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use wirespan_map::{Diff, DiffLimits, Document};
use wirespan_model::plain;
use wirespan_view::draw;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum MapFormat {
    /// A line per edge
    #[default]
    Text,
    /// One JSON document
    Json,
    /// Graphviz
    Dot,
    /// A picture
    Svg,
}

#[derive(Args)]
pub(crate) struct MapArgs {
    /// Since when: -15m, an RFC 3339 time, or Unix ns [default: -1h]
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    from: Option<String>,
    /// Until when [default: now]
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    to: Option<String>,
    /// Draw this file (as --map-file and --format json write it) instead of asking
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "to", "diff"])]
    file: Option<String>,
    /// What changed from A to B: each a file, or a time range FROM..TO (-2h..-1h; TO may be left out)
    #[arg(long, num_args = 2, value_names = ["A", "B"], allow_hyphen_values = true,
        conflicts_with_all = ["from", "to"])]
    diff: Option<Vec<String>>,
    /// With --diff: an edge has slowed if its p95 grew by this factor
    #[arg(long, value_name = "FACTOR", default_value_t = DiffLimits::default().factor, requires = "diff")]
    slower: f64,
    /// With --diff: compare speed and errors of edges with at least so many calls in both maps
    #[arg(long, value_name = "N", default_value_t = DiffLimits::default().min_calls, requires = "diff")]
    min_calls: u64,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t)]
    format: MapFormat,
    #[command(flatten)]
    client: ClientArgs,
}

pub(crate) fn map(args: MapArgs, config: &Config) -> Result<ExitCode> {
    let answer = match &args.diff {
        Some(sides) => diff(&args, config, sides)?,
        None => {
            let map = match &args.file {
                Some(file) => read(Path::new(file))?,
                None => ask(&args, config, args.from.as_deref(), args.to.as_deref())?,
            };
            match args.format {
                MapFormat::Json => plain::json(&serde_json::to_string_pretty(&map)?).into_owned() + "\n",
                MapFormat::Text => draw::text(&map),
                MapFormat::Dot => draw::dot(&map),
                MapFormat::Svg => draw::svg(&map),
            }
        }
    };
    match std::io::stdout().write_all(answer.as_bytes()) {
        // `map | head` is no failure.
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => {}
        other => other.context("writing to stdout")?,
    }
    Ok(ExitCode::SUCCESS)
}

fn diff(args: &MapArgs, config: &Config, sides: &[String]) -> Result<String> {
    let [a, b] = sides else { bail!("--diff takes two maps") };
    if !(args.slower.is_finite() && args.slower >= 1.0) {
        bail!("--slower {}: give a factor of 1 or more", args.slower);
    }
    let (before, after) = (side(args, config, a)?, side(args, config, b)?);
    let limits = DiffLimits { factor: args.slower, min_calls: args.min_calls, ..DiffLimits::default() };
    let diff = Diff::new(&before, &after, &limits);
    match args.format {
        MapFormat::Text => Ok(draw::diff(&diff, &before, &after)),
        MapFormat::Json => Ok(plain::json(&serde_json::to_string_pretty(&diff)?).into_owned() + "\n"),
        MapFormat::Dot | MapFormat::Svg => bail!("a difference is written as text or json"),
    }
}

/// A file, or a time range of the server.
fn side(args: &MapArgs, config: &Config, given: &str) -> Result<Document> {
    let path = Path::new(given);
    if path.exists() {
        return read(path);
    }
    match given.split_once("..") {
        Some((from, to)) => {
            let time = |text: &str| Some(text.to_string()).filter(|t| !t.is_empty());
            ask(args, config, time(from).as_deref(), time(to).as_deref()).with_context(|| format!("range {given}"))
        }
        None => bail!("`{given}` is neither a file nor a time range: write FROM..TO, like -2h..-1h"),
    }
}

fn read(path: &Path) -> Result<Document> {
    let file = std::fs::read_to_string(path).with_context(|| format!("map file {}", path.display()))?;
    serde_json::from_str(&file).with_context(|| {
        format!("{} is no map: write one with `wirespan map --format json` or --map-file", path.display())
    })
}

fn ask(args: &MapArgs, config: &Config, from: Option<&str>, to: Option<&str>) -> Result<Document> {
    let (from, to) = (encode(from.unwrap_or("-1h")), encode(to.unwrap_or("now")));
    let answer = args.client.get(config, &format!("/api/v1/map?from={from}&to={to}"))?;
    serde_json::from_value(answer).context("the server's map is not as this wirespan knows it")
}
