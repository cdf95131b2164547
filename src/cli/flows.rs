//! `wirespan flows`: flow records as they were written.

use super::client::{encode, ClientArgs};
use super::Format;
use crate::config::Config;
use anyhow::{bail, Context as _, Result};
use clap::Args;
use std::io::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use wirespan_model::plain;
use wirespan_store::{Embedded, TimeRange};
use wirespan_view::{flow_records, FlowFilter, FlowRecord, FlowRecords};

#[derive(Args)]
pub(crate) struct FlowsArgs {
    /// Since when: -15m, an RFC 3339 time, or Unix ns [default: -1h]
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    from: Option<String>,
    /// Until when [default: now]
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    to: Option<String>,
    /// Only records of this service
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// Only records with this remote address
    #[arg(long, value_name = "IP")]
    remote: Option<IpAddr>,
    /// Only records with this port of the server's side
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Only records of this process
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// At most so many, the latest [default: 1000; with --store all]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Read all records from this store directory, which no running wirespan may use, instead of asking a server
    #[arg(long, value_name = "DIR", conflicts_with_all = ["from", "to"])]
    store: Option<PathBuf>,
    /// Form of the answer; json is one object per record and line
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    client: ClientArgs,
}

pub(crate) fn flows(args: FlowsArgs, config: &Config) -> Result<ExitCode> {
    let records = match &args.store {
        Some(dir) => {
            if !dir.is_dir() {
                bail!("--store {}: no such directory", dir.display());
            }
            let store = Embedded::look(dir).with_context(|| format!("store {}", dir.display()))?;
            let filter =
                FlowFilter { service: args.service.clone(), remote: args.remote, port: args.port, pid: args.pid };
            flow_records(&store, TimeRange::ALL, &filter, args.limit.unwrap_or(usize::MAX))?
        }
        None => ask(&args, config)?,
    };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let written = records.flows.iter().try_for_each(|r| match args.format {
        Format::Json => writeln!(out, "{}", plain::json(&serde_json::to_string(r)?)),
        Format::Text => writeln!(out, "{}", plain::line(&line(r))),
    });
    match written.and_then(|()| out.flush()) {
        // `flows | head` is no failure.
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => {}
        other => other.context("writing to stdout")?,
    }
    if (records.flows.len() as u64) < records.matched {
        eprintln!("wirespan: the latest {} of {} records; --limit gives more", records.flows.len(), records.matched);
    }
    Ok(ExitCode::SUCCESS)
}

fn ask(args: &FlowsArgs, config: &Config) -> Result<FlowRecords> {
    let mut path = format!("/api/v1/flows?from={}", encode(args.from.as_deref().unwrap_or("-1h")));
    let given = [
        ("to", args.to.clone()),
        ("service", args.service.clone()),
        ("remote", args.remote.map(|ip| ip.to_string())),
        ("port", args.port.map(|n| n.to_string())),
        ("pid", args.pid.map(|n| n.to_string())),
        ("limit", args.limit.map(|n| n.to_string())),
    ];
    for (name, value) in given {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", encode(&value)));
        }
    }
    let answer = args.client.get(config, &path)?;
    serde_json::from_value(answer).context("the server's flow records are not as this wirespan knows them")
}

/// One record as a line of text.
fn line(r: &FlowRecord) -> String {
    let (arrow, other) = match r.role.as_str() {
        "client" => ("->", format!("{}:{}", r.remote, r.port)),
        "server" => ("<-", format!("{} at :{}", r.remote, r.port)),
        _ => ("--", format!("{}:{}", r.remote, r.port)),
    };
    let c = &r.counts;
    let mut text = format!(
        "{}[{}] {arrow} {other} {}  opened {} closed {} open {}  sent {} B in {}, received {} B in {}",
        r.service,
        r.pid,
        r.transport,
        c.opened,
        c.closed,
        c.active,
        c.bytes_sent,
        c.messages_sent,
        c.bytes_received,
        c.messages_received
    );
    let troubles = [
        ("failed", c.failed),
        ("retransmits", c.retransmits),
        ("resets", c.resets_sent.saturating_add(c.resets_received)),
        ("zero windows", c.zero_windows),
        ("out of order", c.out_of_order),
        ("refused", c.listen_overflows),
        ("dropped", c.drops.values().sum()),
    ];
    for (name, n) in troubles.into_iter().filter(|t| t.1 > 0) {
        text.push_str(&format!("  {name} {n}"));
    }
    text
}
