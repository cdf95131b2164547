//! `wirespan status`: what is wrong with a running wirespan, in words; all counters on request.

use super::client::ClientArgs;
use super::Format;
use crate::config::Config;
use anyhow::Result;
use clap::Args;
use serde_json::Value;
use std::process::ExitCode;
use wirespan_model::plain;

#[derive(Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Show also every counter of every stage
    #[arg(long)]
    details: bool,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn status(args: StatusArgs, config: &Config) -> Result<ExitCode> {
    let status = args.client.get(config, "/api/v1/status")?;
    if args.format == Format::Json {
        println!("{}", plain::json(&serde_json::to_string_pretty(&status)?));
        return Ok(ExitCode::SUCCESS);
    }
    print!("{}", plain::lines(&words(&status, args.details)));
    Ok(ExitCode::SUCCESS)
}

/// A number with its thousands apart.
fn number(n: u64) -> String {
    let digits = n.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().map(|g| std::str::from_utf8(g).unwrap_or("")).collect();
    groups.join(",")
}

fn size(bytes: u64) -> String {
    match bytes {
        0 => "nothing".into(),
        b if b < 1 << 20 => format!("{:.1} KiB", b as f64 / 1024.0),
        b => format!("{:.1} MiB", b as f64 / (1 << 20) as f64),
    }
}

/// What was lost, and what can be done.
fn lost(stage: &str, counter: &Value) -> String {
    let [name, todo] = ["name", "todo"].map(|key| plain::line(counter[key].as_str().unwrap_or("")).into_owned());
    let n = number(counter["value"].as_u64().unwrap_or(0));
    let todo = if todo.is_empty() { todo } else { format!("; {todo}") };
    format!("{stage}: {}: {n}{todo}", name.replace('_', " "))
}

/// What is abnormal, and the counters if `details` are wanted.
fn words(status: &Value, details: bool) -> String {
    let line = |v: &Value| plain::line(v.as_str().unwrap_or("")).into_owned();
    let list = |v: &'static str, of: &Value| of[v].as_array().cloned().unwrap_or_default();
    let (agent, store) = (&status["agent"], &status["store"]);
    let count = |v: &Value| v.as_u64().unwrap_or(0);
    let mut out =
        format!("wirespan {} ({}) {}\n", line(&status["version"]), line(&agent["mode"]), line(&agent["targets"]));
    let (spans, disk) = (number(count(&store["spans"])), size(count(&store["disk_bytes"])));
    if count(&store["spans"]) > 0 || agent["mode"] != "agent" {
        out.push_str(&format!("store    {spans} spans, {disk} on disk\n"));
    }
    let memory = |part: &str| count(&agent["memory"][part]);
    let [tables, programs, resident] = ["kernel_tables", "kernel_programs", "resident"].map(memory);
    if resident > 0 {
        let all = size(tables + programs + resident);
        let (resident, tables, programs) = (size(resident), size(tables), size(programs));
        out.push_str(&format!(
            "memory   {all}: {resident} resident, {tables} in tables and {programs} in programs of the kernel\n"
        ));
    }
    let mut wrong = 0;
    let mut add = |mark: &str, text: &str| {
        wrong += 1;
        out.push_str(&format!("{mark:8} {text}\n"));
    };
    let notes: Vec<String> = list("notes", agent).iter().map(line).collect();
    if let Some(why) = store["stopped"].as_str().filter(|_| !notes.iter().any(|n| n.contains("store is not writing"))) {
        add("WRONG", &format!("the store is not writing: {}", plain::line(why)));
    }
    notes.iter().for_each(|note| add("NOTE", note));
    for file in list("damaged", store) {
        add("DAMAGED", &line(&file));
    }
    let stages = list("stages", agent);
    for stage in &stages {
        for c in list("counters", stage).iter().filter(|c| c["loss"] == true && count(&c["value"]) > 0) {
            add("LOST", &lost(&line(&stage["name"]), c));
        }
    }
    if wrong == 0 {
        out.push_str("all      as it should be\n");
    }
    if details {
        for stage in &stages {
            out.push_str(&format!("{}\n", line(&stage["name"])));
            for c in list("counters", stage) {
                out.push_str(&format!("  {:32} {:>14}\n", line(&c["name"]), count(&c["value"])));
            }
        }
    } else {
        out.push_str("         --details shows every counter\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_abnormal_is_said() {
        let counters = |lost: u64| {
            serde_json::json!([{"name": "records", "value": 9, "loss": false},
            {"name": "lost_ring_full", "value": lost, "loss": true, "todo": "read faster"}])
        };
        let status = |lost, notes: Value| {
            serde_json::json!({"version": "1", "store": {"spans": 12_345, "disk_bytes": 0},
            "agent": {"mode": "up", "targets": "process 7", "notes": notes,
                      "stages": [{"name": "capture", "counters": counters(lost)}]}})
        };
        let fine = words(&status(0, serde_json::json!([])), false);
        assert_eq!(
            fine,
            "wirespan 1 (up) process 7\nstore    12,345 spans, nothing on disk\n\
            all      as it should be\n         --details shows every counter\n"
        );
        let bad = words(&status(1234, serde_json::json!(["the server\u{1b}[2J is gone"])), true);
        assert!(bad.contains("NOTE     the server\\u{1b}[2J is gone\n"), "{bad}");
        assert!(bad.contains("LOST     capture: lost ring full: 1,234; read faster\n"), "{bad}");
        assert!(bad.contains("  records") && !bad.contains("as it should be"), "{bad}");
    }
}
