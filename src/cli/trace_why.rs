//! `wirespan trace-why SERVICE`: has a running wirespan record for a time what slow requests of a service wait for, and
//! explains the slowest.

use super::client::{encode, ClientArgs};
use super::explain::explain_span;
use super::Format;
use crate::clock::now_ns;
use crate::config::{CallArgs, Config, KnobArgs};
use crate::slow::{Rule, Scoped};
use crate::stop_signal::StopSignal;
use anyhow::{bail, Context as _, Result};
use clap::Args;
use serde_json::{json, Value};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use wirespan_model::plain;

/// The last requests are spans so much later.
const SETTLE: Duration = Duration::from_secs(2);

/// The same through a server: its agents send them.
const SETTLE_FLEET: Duration = Duration::from_secs(4);

#[derive(Args)]
pub(crate) struct TraceWhyArgs {
    /// Name of the service
    service: String,
    /// Only this endpoint: `GET /cart/*`, or `/cart/*` for all operations
    #[arg(long, default_value = "")]
    endpoint: String,
    /// Requests that take at least so long are slow (50ms), or `auto`: longer than most requests of their endpoint; or
    /// `off`: record no waits, but system calls only
    #[arg(long, value_name = "DURATION|auto|off", default_value = "auto")]
    threshold: String,
    #[command(flatten)]
    calls: CallArgs,
    #[command(flatten)]
    knobs: KnobArgs,
    /// For how long; Ctrl-C ends it, and tells what has come until then
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
    let mut order = json!({
        "service": args.service, "endpoint": args.endpoint, "threshold": args.threshold, "for": args.time,
        "syscalls": args.calls.syscalls.as_deref().unwrap_or_default(), "as": args.calls.form,
    });
    for (knob, said) in ["kernel_stack", "user_stack", "metrics"].into_iter().zip(args.knobs.said()) {
        if let Some(said) = said {
            order[knob] = said.into();
        }
    }
    let answer = args.client.post(config, "/api/v1/why", &order)?;
    say_agents(&answer)?;
    let until_ns: u64 =
        answer["until_ns"].as_str().and_then(|ns| ns.parse().ok()).context("it is of another version")?;
    let time = Duration::from_nanos(until_ns.saturating_sub(from_ns));
    let is_fleet = answer["agents"].is_array();
    if answer["processes"] == 0 && !is_fleet {
        eprintln!("wirespan: no process of {} is traced now; `wirespan traces` shows names of services", args.service);
    }
    eprintln!("wirespan: records what slow requests of {} wait for; ends in {:.0?}", args.service, time);
    let settle = if is_fleet { SETTLE_FLEET } else { SETTLE };
    let began = Instant::now();
    stop.wait(Some((time + settle).as_secs().max(1)), || true);
    if began.elapsed() < time {
        // Ctrl-C: nobody waits for the rest.
        order["end"] = true.into();
        args.client.post(config, "/api/v1/why", &order)?;
    }
    let mut slow = slowest(args, config, from_ns, true)?;
    if slow.is_empty() && args.calls.syscalls.is_some() {
        let mut all = slowest(args, config, from_ns, false)?;
        all.retain(|span| span["attributes"]["wirespan.syscalls"].is_number());
        if let Some(id) = all.first().and_then(|span| span["id"].as_str()) {
            eprintln!("wirespan: {} requests of {} told their system calls; the slowest:", all.len(), args.service);
            explain_span(&args.client, args.format, id, false, config)?;
            return Ok(ExitCode::SUCCESS);
        }
        slow = all;
    }
    let Some(id) = slow.first().and_then(|span| span["id"].as_str()) else {
        eprintln!("wirespan: no request of {} was slow", args.service);
        return Ok(ExitCode::SUCCESS);
    };
    eprintln!("wirespan: {} requests of {} were slow; the slowest of them:", slow.len(), args.service);
    explain_span(&args.client, args.format, id, false, config)?;
    Ok(ExitCode::SUCCESS)
}

/// Says of each agent of a server whether it records. An error if none does.
fn say_agents(answer: &Value) -> Result<()> {
    let Some(agents) = answer["agents"].as_array() else { return Ok(()) };
    let text = |of: &Value| plain::line(of.as_str().unwrap_or_default()).into_owned();
    for agent in agents {
        let name = text(&agent["agent"]);
        match agent["state"].as_str() {
            Some("records") => eprintln!("wirespan: {name} records {} processes", agent["processes"]),
            Some("no-process") => eprintln!("wirespan: {name} traces no process of that service"),
            Some("refused") => eprintln!("wirespan: {name} does not record: {}", text(&agent["why"])),
            _ => eprintln!("wirespan: {name} is silent: whether it records is not known"),
        }
    }
    if agents.iter().all(|agent| !matches!(agent["state"].as_str(), Some("records" | "silent"))) {
        bail!("no agent records it; `wirespan traces` shows the names of services");
    }
    Ok(())
}

/// The requests since then that were slow, or all of them, slowest first.
fn slowest(args: &TraceWhyArgs, config: &Config, from_ns: u64, slow: bool) -> Result<Vec<Value>> {
    let which = if slow { "attr=wirespan.wait.reason:slow" } else { "tap=server-process" };
    let path =
        format!("/api/v1/spans?service={}&{which}&order=slowest&limit=1000&from={from_ns}", encode(&args.service));
    let mut answer = args.client.get(config, &path)?;
    let Value::Array(mut spans) = answer["spans"].take() else { return Ok(Vec::new()) };
    let asked = Scoped::of(&args.service, &args.endpoint, Rule::Learnt);
    let text = |span: &Value, key: &str| span[key].as_str().unwrap_or_default().to_string();
    spans.retain(|span| asked.fits(&args.service, &text(span, "operation"), &text(span, "target")));
    Ok(spans)
}
