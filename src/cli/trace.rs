//! `wirespan trace ID`: one trace as a tree.

use super::client::{encode, ClientArgs};
use crate::config::Config;
use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use std::io::IsTerminal as _;
use std::process::ExitCode;
use wirespan_model::syscalls::with_calls;
use wirespan_model::{plain, Trace};
use wirespan_trace::tree::{self, TextOptions};

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

pub(crate) fn trace(args: TraceArgs, config: &Config) -> Result<ExitCode> {
    let answer = args.client.get(config, &format!("/api/v1/trace/{}/model", encode(&args.id)))?;
    let trace: Trace = serde_json::from_value(answer).context("the server is of another version")?;
    match args.format {
        TraceFormat::Text => println!("{}", render(&trace, std::io::stdout().is_terminal())),
        TraceFormat::Json => {
            let trace = with_calls(trace);
            println!("{}", plain::json(&serde_json::to_string_pretty(&tree::trace_json(&trace))?));
        }
        TraceFormat::Otlp => {
            let request = wirespan_ship::otlp::encode_traces(std::slice::from_ref(&trace));
            let mut line = Vec::new();
            wirespan_ship::otlp::json::write_request(&request, &mut line);
            println!("{}", plain::json(&String::from_utf8_lossy(&line)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A trace as a tree.
pub(super) fn render(trace: &Trace, color: bool) -> String {
    tree::text(&with_calls(trace.clone()), TextOptions { color, ..TextOptions::default() })
}
