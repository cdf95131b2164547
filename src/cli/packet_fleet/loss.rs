//! What agents lost, and what was lost between them; and their flows.

use super::{list, number, place, shown};
use crate::packet::counted;
use anyhow::Result;
use serde_json::Value;
use std::fmt::Write as _;

fn percent(lost: u64, of: u64) -> String {
    format!("{:.2} %", lost as f64 * 100.0 / of.max(1) as f64)
}

/// A row of loss, from `packets` on.
fn row(loss: &Value, at_most: bool, out: &mut String) -> Result<()> {
    let of = |key: &str| number(&loss[key]);
    let lost = of("dropped") + of("missing");
    let share = percent(lost, of("went_on") + lost);
    let missing = format!("{}{}", if at_most { "≤ " } else { "" }, of("missing"));
    let (packets, dropped, unknown) = (of("packets"), of("dropped"), of("under_way"));
    Ok(writeln!(out, "{packets:>8} {lost:>8} {share:>8} {dropped:>8} {missing:>8} {unknown:>9}")?)
}

fn head(first: &str, out: &mut String) -> Result<()> {
    write!(out, "{first:<20} {:<34} {:<34} {:>8} {:>8} ", "seen at", "mostly next", "packets", "lost")?;
    Ok(writeln!(out, "{:>8} {:>8} {:>8} {:>9}", "share", "dropped", "missing", "not known")?)
}

/// Loss at each agent.
pub(super) fn at_agents(view: &Value, out: &mut String) -> Result<()> {
    let rows = || list(&view["agents"]).flat_map(|agent| list(&agent["view"]["loss"]).map(move |row| (agent, row)));
    if rows().next().is_some() {
        head("agent", out)?;
    }
    for (agent, of) in rows() {
        let next = if of["next"].is_object() { place(&of["next"]) } else { String::new() };
        write!(out, "{:<20} {:<34} {next:<34} ", shown(&agent["agent"]), place(&of["place"]))?;
        row(&of["loss"], false, out)?;
    }
    Ok(())
}

/// Loss on the way from one agent to another.
pub(super) fn between(view: &Value, out: &mut String) -> Result<()> {
    let mut at_most = false;
    for (n, of) in list(&view["loss"]).enumerate() {
        if n == 0 {
            head("between agents", out)?;
        }
        let way = format!("{} → {}", shown(&of["from_agent"]), shown(&of["to_agent"]));
        let next = if of["to"].is_object() { place(&of["to"]) } else { String::new() };
        write!(out, "{way:<20} {:<34} {next:<34} ", place(&of["from"]))?;
        at_most |= of["at_most"] == true;
        row(&of["loss"], of["at_most"] == true, out)?;
    }
    if at_most {
        writeln!(out, "  ≤: some of these may have arrived at an agent that has not told of all its packets")?;
    }
    Ok(())
}

/// Flows of one agent, or of all together.
pub(super) fn flows(view: &Value, out: &mut String) -> Result<()> {
    let alone = list(&view["agents"]).filter(|agent| list(&agent["view"]["flows"]).next().is_some());
    let one: Vec<&Value> = alone.collect();
    let is_merged = list(&view["flows"]).next().is_some();
    let rows: Vec<(&Value, u64, u64, u64)> = match (is_merged, &one[..]) {
        (true, _) => list(&view["flows"])
            .map(|row| (row, number(&row["elapsed_ms"]), number(&row["lost_at_agents"]), number(&row["lost_between"])))
            .collect(),
        (false, [agent]) => list(&agent["view"]["flows"])
            .map(|row| {
                let lost = number(&row["loss"]["dropped"]) + number(&row["loss"]["missing"]);
                (row, number(&agent["view"]["elapsed_ms"]), lost, 0)
            })
            .collect(),
        _ => return Ok(()),
    };
    write!(out, "{:<52} {:>8} {:>12} {:>10} ", "flow", "packets", "bytes", "Mbit/s")?;
    writeln!(out, "{:>8} {:>8} {:>8} {:>9}", "lost", "between", "share", "not known")?;
    for (row, ms, at_agents, between) in rows {
        let end = |key: &str| shown(&row["flow"][key]);
        let name = match row["flow"].is_object() {
            true => format!("{} {} → {}", end("protocol"), end("source"), end("destination")),
            false => "all later flows".to_owned(),
        };
        let (packets, bytes, lost) = (number(&row["packets"]), number(&row["bytes"]), at_agents + between);
        let rate = bytes as f64 * 8.0 / (ms.max(1) as f64 * 1e3);
        let share = percent(lost, packets.max(lost));
        let between = format!("{}{between}", if row["at_most"] == true { "≤ " } else { "" });
        let unknown = number(&row["unknown"]);
        write!(out, "{name:<52} {packets:>8} {bytes:>12} {rate:>10.2} ")?;
        writeln!(out, "{lost:>8} {between:>8} {share:>8} {unknown:>9}")?;
    }
    let left_out = if is_merged { &view["flows_left_out"] } else { &one[0]["view"]["flows_left_out"] };
    match number(left_out) {
        0 => Ok(()),
        n => Ok(writeln!(out, "{} with fewer bytes left out", counted(n, "flow"))?),
    }
}
