//! `wirespan trace-why SERVICE`: has a running wirespan record for a time what slow requests of a service wait for, and
//! explains the slowest.

use super::client::{encode, ClientArgs};
use super::explain::explain_span;
use super::Format;
use crate::clock::now_ns;
use crate::config::Config;
use crate::slow::{Rule, Scoped};
use crate::stop_signal::StopSignal;
use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::{json, Value};
use std::process::ExitCode;
use std::time::Duration;

/// The last requests are spans so much later.
const SETTLE: Duration = Duration::from_secs(2);

#[derive(Args)]
pub(crate) struct TraceWhyArgs {
    /// Name of the service
    service: String,
    /// Only this endpoint: `GET /cart/*`, or `/cart/*` for all operations
    #[arg(long, default_value = "")]
    endpoint: String,
    /// Requests that take at least so long are slow (50ms), or `auto`: longer than most requests of their endpoint
    #[arg(long, value_name = "DURATION|auto", default_value = "auto")]
    threshold: String,
    /// For how long; Ctrl-C tells at once what has come until then
    #[arg(long = "for", value_name = "DURATION", default_value = "60s")]
    time: String,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    client: ClientArgs,
}

pub(crate) fn trace_why(args: &TraceWhyArgs, config: &Config) -> Result<ExitCode> {
    let mut stop = StopSignal::catch()?;
    let from_ns = now_ns();
    let order = json!({
        "service": args.service, "endpoint": args.endpoint, "threshold": args.threshold, "for": args.time,
    });
    let answer = args.client.post(config, "/api/v1/why", &order)?;
    let until_ns: u64 =
        answer["until_ns"].as_str().and_then(|ns| ns.parse().ok()).context("it is of another version")?;
    let time = Duration::from_nanos(until_ns.saturating_sub(from_ns));
    eprintln!("wirespan: records what slow requests of {} wait for; ends in {:.0?}", args.service, time);
    stop.wait(Some((time + SETTLE).as_secs().max(1)), || true);
    let slow = slowest(args, config, from_ns)?;
    let Some(id) = slow.first().and_then(|span| span["id"].as_str()) else {
        eprintln!("wirespan: no request of {} was slow", args.service);
        return Ok(ExitCode::SUCCESS);
    };
    eprintln!("wirespan: {} requests of {} were slow; the slowest of them:", slow.len(), args.service);
    explain_span(&args.client, args.format, id, config)?;
    Ok(ExitCode::SUCCESS)
}

/// The slow requests since then, slowest first.
fn slowest(args: &TraceWhyArgs, config: &Config, from_ns: u64) -> Result<Vec<Value>> {
    let path = format!(
        "/api/v1/spans?service={}&attr=wirespan.wait.reason:slow&order=slowest&limit=1000&from={from_ns}",
        encode(&args.service)
    );
    let mut answer = args.client.get(config, &path)?;
    let Value::Array(mut spans) = answer["spans"].take() else { return Ok(Vec::new()) };
    let asked = Scoped::of(&args.service, &args.endpoint, Rule::Learnt);
    let text = |span: &Value, key: &str| span[key].as_str().unwrap_or_default().to_string();
    spans.retain(|span| asked.fits(&args.service, &text(span, "operation"), &text(span, "target")));
    Ok(spans)
}
