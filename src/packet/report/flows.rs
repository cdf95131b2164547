//! The tables of `loss` and of `by: flow`.

use super::words::{counted, route, time};
use super::QUANTILES;
use crate::packet::Names;
use anyhow::Result;
use serde_json::{json, Value};
use std::fmt::Write as _;
use std::time::Duration;
use wirespan_journey::{Flows, Hop, Loss, Summary, MOST_FLOWS};

/// Flows in a table of text at most: those with the most bytes.
const SHOWN: usize = 50;

fn percent(loss: &Loss) -> String {
    format!("{:.2} %", loss.share() * 100.0)
}

pub(super) fn loss_table(flows: &Flows, summary: &Summary, names: &Names, out: &mut String) -> Result<()> {
    let hops = flows.hops(summary);
    if hops.is_empty() {
        return Ok(());
    }
    let [after, before] = ["seen at", "mostly next"];
    write!(out, "{after:<34} {before:<34} {:>8} {:>8} ", "packets", "lost")?;
    writeln!(out, "{:>8} {:>8} {:>8}", "share", "dropped", "missing")?;
    for (from, to, loss) in hops {
        let (from, to, lost, share) =
            (names.place(from), to.map_or_else(String::new, |to| names.place(to)), loss.lost(), percent(&loss));
        let Loss { packets, dropped, missing, .. } = loss;
        writeln!(out, "{from:<34} {to:<34} {packets:>8} {lost:>8} {share:>8} {dropped:>8} {missing:>8}")?;
    }
    Ok(())
}

fn told(loss: &Loss) -> Value {
    let Loss { packets, went_on, dropped, missing, under_way } = *loss;
    json!({"packets": packets, "went_on": went_on, "dropped": dropped, "missing": missing, "under_way": under_way,
        "share": loss.share()})
}

pub(super) fn loss_lines(flows: &Flows, summary: &Summary) -> Vec<Value> {
    let line = |(from, to, loss): &Hop<'_>| json!({"kind": "loss", "place": from, "next": to, "loss": told(loss)});
    flows.hops(summary).iter().map(line).collect()
}

fn mbit(bytes: u64, took: Duration) -> f64 {
    bytes as f64 * 8.0 / took.as_secs_f64().max(1e-9) / 1e6
}

pub(super) fn flow_table(flows: &Flows, took: Duration, out: &mut String) -> Result<()> {
    let all = flows.flows();
    if all.is_empty() {
        return Ok(());
    }
    write!(out, "{:<52} {:>8} {:>12} {:>10} ", "flow", "packets", "bytes", "Mbit/s")?;
    writeln!(out, "{:>9} {:>9} {:>9} {:>9} {:>8} {:>8}", "p50", "p99", "p99.9", "jitter", "lost", "share")?;
    for (of, flow, loss) in all.iter().take(SHOWN).chain(all.iter().skip(SHOWN).filter(|(of, ..)| of.is_none())) {
        let name = of.map_or_else(|| format!("all flows after the first {MOST_FLOWS}"), route);
        let [p50, p99, p999] = QUANTILES.map(|share| time(flow.times.quantile(share)));
        let (packets, bytes, rate, jitter) = (flow.packets, flow.bytes, mbit(flow.bytes, took), time(flow.jitter()));
        write!(out, "{name:<52} {packets:>8} {bytes:>12} {rate:>10.2} ")?;
        writeln!(out, "{p50:>9} {p99:>9} {p999:>9} {jitter:>9} {:>8} {:>8}", loss.lost(), percent(loss))?;
    }
    let more = all.iter().skip(SHOWN).filter(|(of, ..)| of.is_some()).count();
    if more > 0 {
        writeln!(out, "{} with fewer bytes: --format json has them", counted(more as u64, "flow"))?;
    }
    Ok(())
}

pub(super) fn flow_lines(flows: &Flows, took: Duration) -> Vec<Value> {
    let all = flows.flows();
    let line = |(of, flow, loss): &(Option<&wirespan_model::packet::Route>, &wirespan_journey::FlowSum, Loss)| {
        let times = &flow.times;
        let [p50, p90, p99, p999] = [0.5, 0.9, 0.99, 0.999].map(|share| times.quantile(share));
        json!({"kind": "flow", "route": of, "packets": flow.packets, "bytes": flow.bytes,
            "mbit_s": mbit(flow.bytes, took), "resent": flow.resent, "loss": told(loss),
            "times": {"packets": times.count(), "mean_ns": times.mean(), "p50_ns": p50, "p90_ns": p90,
                "p99_ns": p99, "p999_ns": p999, "jitter_ns": flow.jitter()}})
    };
    all.iter().map(line).collect()
}
