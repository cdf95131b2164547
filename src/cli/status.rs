//! `wirespan status`: state and counters of a running wirespan.

use super::client::ClientArgs;
use super::Format;
use crate::config::Config;
use anyhow::Result;
use clap::Args;
use std::process::ExitCode;

#[derive(Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn status(args: StatusArgs, config: &Config) -> Result<ExitCode> {
    let status = args.client.get(config, "/api/v1/status")?;
    if args.format == Format::Json {
        println!("{}", serde_json::to_string_pretty(&status)?);
        return Ok(ExitCode::SUCCESS);
    }
    let text = |v: &serde_json::Value| v.as_str().unwrap_or("").to_string();
    let agent = &status["agent"];
    println!("wirespan {} ({}) {}", text(&status["version"]), text(&agent["mode"]), text(&agent["targets"]));
    let store = &status["store"];
    println!("store    {} spans, {} bytes on disk", store["spans"], store["disk_bytes"]);
    if let Some(why) = store["stopped"].as_str() {
        println!("         NOT WRITING: {why}");
    }
    let bytes = |part: &str| agent["memory"][part].as_u64().unwrap_or(0);
    let [tables, programs, resident] = ["kernel_tables", "kernel_programs", "resident"].map(bytes);
    if resident > 0 {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        println!(
            "memory   {:.1} MiB: {:.1} resident, {:.1} in tables and {:.1} in programs of the kernel",
            mib(tables + programs + resident),
            mib(resident),
            mib(tables),
            mib(programs)
        );
    }
    for note in agent["notes"].as_array().into_iter().flatten() {
        println!("note     {}", text(note));
    }
    for stage in agent["stages"].as_array().into_iter().flatten() {
        println!("{}", text(&stage["name"]));
        for c in stage["counters"].as_array().into_iter().flatten() {
            let lost = c["loss"] == true && c["value"] != 0;
            println!("  {:32} {:>14}{}", text(&c["name"]), c["value"], if lost { "  LOST" } else { "" });
        }
    }
    Ok(ExitCode::SUCCESS)
}
