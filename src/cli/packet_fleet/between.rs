//! Times between agents, each with its error, and what is known of their clocks.

use super::{list, loss, number, place, shown, Format};
use crate::packet::time;
use anyhow::Result;
use serde_json::Value;
use std::fmt::Write as _;
use wirespan_model::Latency;

/// What is told between agents at the end.
pub(in crate::cli) fn told(view: &Value, format: Format, out: &mut String) -> Result<()> {
    if format == Format::Text {
        return tables(view, out);
    }
    let tables = [("between", "between"), ("clock", "clocks"), ("loss_between", "loss"), ("flow_of_all", "flows")];
    for (kind, key) in tables {
        for row in list(&view[key]) {
            let mut row = row.clone();
            row["kind"] = kind.into();
            writeln!(out, "{row}")?;
        }
    }
    Ok(())
}

pub(super) fn tables(view: &Value, out: &mut String) -> Result<()> {
    let mut head = false;
    for row in list(&view["between"]) {
        if !std::mem::replace(&mut head, true) {
            let (from, to, packets) = ("from agent", "to agent", "packets");
            writeln!(out, "{from:<32} {to:<32} {packets:>8} {:>20} {:>20} {:>20}", "p50", "p99", "p99.9")?;
        }
        let end = |agent: &str, at: &str| format!("{}: {}", shown(&row[agent]), place(&row[at]));
        let (from, to) = (end("from_agent", "from"), end("to_agent", "to"));
        let [p50, p99, p999] = ["p50", "p99", "p999"].map(|key| with_error(&row[key]));
        let packets = number(&row["packets"]);
        writeln!(out, "{from:<32} {to:<32} {packets:>8} {p50:>20} {p99:>20} {p999:>20}")?;
        if number(&row["unknown"]) > 0 {
            writeln!(
                out,
                "  of {} of these no time is known: the clocks were not comparable",
                number(&row["unknown"])
            )?;
        }
    }
    loss::between(view, out)?;
    list(&view["clocks"]).try_for_each(|clock| Ok::<_, anyhow::Error>(writeln!(out, "{}", differs(clock))?))?;
    list(&view["agents"]).try_for_each(|agent| match agent["met"].is_object() && agent["state"] != "refused" {
        true => Ok(writeln!(out, "{:<20} {}", shown(&agent["agent"]), met(&agent["met"]))?),
        false => Ok(()),
    })
}

/// `151.2 µs ± 3.1 µs`, `at most 310.0 µs` or `unknown`.
fn with_error(of: &Value) -> String {
    match (of["low_ns"].as_u64(), of["high_ns"].as_u64()) {
        (Some(low_ns), Some(high_ns)) => Latency { low_ns, high_ns }.words(time),
        _ => "unknown".to_owned(),
    }
}

/// How two clocks differ.
fn differs(clock: &Value) -> String {
    let (agent, than) = (shown(&clock["agent"]), shown(&clock["than"]));
    let set = match number(&clock["set"]) {
        0 => String::new(),
        n => format!("; a clock was set {n} times"),
    };
    let (Some(low), Some(high)) = (clock["low_ns"].as_i64(), clock["high_ns"].as_i64()) else {
        return format!("the clocks of {agent} and {than} are not comparable: no packets each way{set}");
    };
    let middle = low + (high - low) / 2;
    let error = high.abs_diff(low).div_ceil(2);
    let way = if middle < 0 { "behind" } else { "ahead of" };
    let ppm = |key: &str| clock[key].as_f64().unwrap_or_default();
    let drift = format!("gains {:+.1} to {:+.1} ppm", ppm("drift_low_ppm"), ppm("drift_high_ppm"));
    let (ahead, error, at) = (exact(middle.unsigned_abs()), time(error), time_of_day(number(&clock["at_ns"])));
    format!("the clock of {agent} was {ahead} {way} that of {than} at {at}, ± {error}, {drift}{set}")
}

/// `17:21:03.250 UTC`.
fn time_of_day(unix_ns: u64) -> String {
    let (s, ms) = (unix_ns / 1_000_000_000 % 86_400, unix_ns / 1_000_000 % 1000);
    format!("{:02}:{:02}:{:02}.{ms:03} UTC", s / 3600, s / 60 % 60, s % 60)
}

/// Seconds to the µs: the error is about as small.
fn exact(ns: u64) -> String {
    match ns {
        ns if ns < 1_000_000_000 => time(ns),
        ns => format!("{:.6} s", ns as f64 / 1e9),
    }
}

/// How many packets were seen by another agent, too.
fn met(met: &Value) -> String {
    let of = |key: &str| number(&met[key]);
    let mut text = format!(
        "{} packets reached another agent, {} left and {} came that no other agent saw, {} stayed here",
        of("met"),
        of("only_left"),
        of("only_came"),
        of("whole")
    );
    let more = [
        ("dropped", "dropped here"),
        ("unclear", "have no time: the same bytes were sent more than once, and it is not known which ones arrived"),
        ("unordered", "have no time: several agents passed them on"),
        ("left_out", "were not compared, for want of room"),
    ];
    for (key, what) in more.iter().filter(|(key, _)| of(key) > 0) {
        let _ = write!(text, ", {} {what}", of(key));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_time_has_its_error_or_is_unknown() {
        assert_eq!(with_error(&json!({"low_ns": 148_100, "high_ns": 154_300})), "151.2 µs ± 3.1 µs");
        assert_eq!(with_error(&json!({"low_ns": 0, "high_ns": 6_200})), "at most 6.2 µs");
        assert_eq!(with_error(&Value::Null), "unknown");
    }

    #[test]
    fn clocks_are_told_with_sign_error_and_drift() {
        let clock = json!({"agent": "b", "than": "a", "low_ns": -3_000_020_000i64, "high_ns": -2_999_980_000i64,
            "at_ns": 1_700_000_000_123_456_789u64, "drift_low_ppm": 39.5, "drift_high_ppm": 40.5, "set": 0});
        let gains = "gains +39.5 to +40.5 ppm";
        let told = format!("the clock of b was 3.000000 s behind that of a at 22:13:20.123 UTC, ± 20.0 µs, {gains}");
        assert_eq!(differs(&clock), told);
        assert!(differs(&json!({"agent": "b", "than": "a", "set": 2})).ends_with("each way; a clock was set 2 times"));
    }

    #[test]
    fn what_one_agent_saw_alone_is_said() {
        let told = met(&json!({"met": 5, "only_left": 2, "only_came": 1, "whole": 3, "left_out": 7}));
        assert!(told.starts_with("5 packets reached another agent, 2 left and 1 came"), "{told}");
        assert!(told.ends_with("3 stayed here, 7 were not compared, for want of room"), "{told}");
    }
}
