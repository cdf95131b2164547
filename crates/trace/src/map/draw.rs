//! A map as lines of text and as Graphviz's DOT.

use super::{Document, MapEdge, NodeKind};
use crate::tree::duration;

fn ns(ns: u64) -> String {
    match ns {
        0 => "–".into(),
        ns => duration(i128::from(ns)),
    }
}

/// A number of bytes as people read it.
pub(super) fn bytes(n: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 || value >= 100.0 {
        format!("{value:.0} {}", units[unit])
    } else {
        format!("{value:.1} {}", units[unit])
    }
}

/// A rate per second, or the count if the range is open.
pub(super) fn rate(count: u64, seconds: Option<f64>) -> String {
    match seconds {
        Some(s) if count as f64 / s >= 100.0 => format!("{:.0}/s", count as f64 / s),
        Some(s) if count as f64 / s >= 0.1 => format!("{:.1}/s", count as f64 / s),
        Some(s) if count > 0 => format!("{:.1}/min", count as f64 / s * 60.0),
        _ => count.to_string(),
    }
}

/// What is called: requests, or connections where nothing was understood.
pub(super) fn unit(edge: &MapEdge) -> &'static str {
    match (edge.protocols.is_empty(), edge.calls.count) {
        (true, 1) => "connection",
        (true, _) => "connections",
        (false, 1) => "request",
        (false, _) => "requests",
    }
}

/// Terminals obey control characters; names come from the wire.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// One line per edge, most calls first, under a heading.
pub fn text(map: &Document) -> String {
    let head = [
        "CALLER", "CALLED", "PORT", "PROTOCOL", "CALLS", "RATE", "ERRORS", "P50", "P95", "P99", "RTT", "RETRANS",
        "BYTES",
    ];
    let mut rows: Vec<Vec<String>> = vec![head.iter().map(ToString::to_string).collect()];
    for e in &map.edges {
        let (c, t) = (&e.calls, &e.tcp);
        let flows = t.from_flows;
        let (out, back) = if flows { (t.request_bytes, t.response_bytes) } else { (c.request_bytes, c.response_bytes) };
        rows.push(vec![
            map.name(&e.from).into(),
            map.name(&e.to).into(),
            if e.port == 0 { "–".into() } else { e.port.to_string() },
            e.protocol.clone(),
            match c.count {
                0 => format!("{} connections", t.opened),
                n => format!("{n} {}", unit(e)),
            },
            rate(c.count.max(if c.count == 0 { t.opened } else { 0 }), map.seconds()),
            c.errors.to_string(),
            ns(c.p50_ns),
            ns(c.p95_ns),
            ns(c.p99_ns),
            ns(t.rtt_p50_ns),
            t.retransmits.to_string(),
            format!("{} → {} ←", bytes(out), bytes(back)),
        ]);
    }
    table(&rows)
}

/// Columns as wide as they must be: names (all, if there are four) to the left, numbers to the right.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |n: usize| rows.iter().filter_map(|r| r.get(n)).map(|c| c.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(n, (cell, width))| {
            let pad = " ".repeat(width - cell.chars().count());
            if n < 2 || n == 3 || row.len() == 4 {
                format!("{cell}{pad}")
            } else {
                format!("{pad}{cell}")
            }
        });
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// A Graphviz digraph.
pub fn dot(map: &Document) -> String {
    let quote = |s: &str| format!("\"{}\"", plain(s).replace('\\', "\\\\").replace('"', "\\\""));
    let mut out = String::from("digraph wirespan {\n  rankdir=LR;\n  node [shape=box, style=rounded];\n");
    for n in &map.nodes {
        let style = if n.kind == NodeKind::Service { "" } else { ", style=\"rounded,dashed\"" };
        out.push_str(&format!("  {} [label={}{style}];\n", quote(&n.id), quote(&n.name)));
    }
    for e in &map.edges {
        let port = if e.port == 0 { String::new() } else { format!(" :{}", e.port) };
        let label = format!("{}{port} {}", e.protocol, rate(e.calls.count, map.seconds()));
        let colour = if e.calls.errors > 0 { ", color=red" } else { "" };
        out.push_str(&format!("  {} -> {} [label={}{colour}];\n", quote(&e.from), quote(&e.to), quote(&label)));
    }
    out.push_str("}\n");
    out
}
