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
    match (edge.protocols.is_empty(), traffic(edge)) {
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

/// A number, and its share of all where there is any.
fn share(n: u64, of: u64) -> String {
    match n as f64 / of.max(1) as f64 * 100.0 {
        _ if n == 0 => "0".into(),
        s if s < 1.0 => format!("{n} (<1 %)"),
        s => format!("{n} ({s:.0} %)"),
    }
}

/// What flow records say of an edge's connections; nothing where there are none.
fn connections(edge: &MapEdge) -> String {
    let t = &edge.tcp;
    if !t.from_flows {
        return "–".into();
    }
    let open = if t.active > 0 { format!(", {} open", t.active) } else { String::new() };
    let failed = if t.failed > 0 { format!(", {} failed", t.failed) } else { String::new() };
    format!("{}{open}{failed}", t.opened)
}

/// Requests, or connections where nothing was understood.
pub(super) fn traffic(edge: &MapEdge) -> u64 {
    match edge.calls.count {
        0 => edge.tcp.opened,
        n => n,
    }
}

/// Whether requests of an edge failed, or attempts to connect.
pub(super) fn fails(edge: &MapEdge) -> bool {
    edge.calls.errors > 0 || edge.tcp.failed > 0
}

/// How fast an edge is, in few words: its requests, or else its round trips.
pub(super) fn pace(p95_ns: u64, rtt_ns: u64) -> String {
    match (p95_ns, rtt_ns) {
        (0, 0) => String::new(),
        (0, rtt) => format!(" · RTT {}", ns(rtt)),
        (p95, _) => format!(" · p95 {}", ns(p95)),
    }
}

/// What is known of an edge, in a line.
pub(super) fn facts(edge: &MapEdge) -> String {
    let (c, t) = (&edge.calls, &edge.tcp);
    let port = if edge.port == 0 { String::new() } else { format!(" :{}", edge.port) };
    let mut out = format!("{}{port}: {} {}", edge.protocol, traffic(edge), unit(edge));
    let mut add = |n: u64, what: &str| {
        if n > 0 {
            out.push_str(&format!(", {n} {what}"));
        }
    };
    add(c.errors, "failed");
    add(t.failed, "attempts to connect failed");
    add(t.retransmits, "segments sent again");
    add(t.resets, "resets");
    out.push_str(&pace(c.p95_ns, t.rtt_p50_ns));
    out
}

/// One line per edge, most calls first, under a heading.
pub fn text(map: &Document) -> String {
    let head = [
        "CALLER",
        "CALLED",
        "PORT",
        "PROTOCOL",
        "CALLS",
        "RATE",
        "ERRORS",
        "P50",
        "P95",
        "P99",
        "CONNECTIONS",
        "RTT",
        "RETRANS",
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
            format!("{} {}", traffic(e), unit(e)),
            rate(traffic(e), map.seconds()),
            share(c.errors, c.count),
            ns(c.p50_ns),
            ns(c.p95_ns),
            ns(c.p99_ns),
            connections(e),
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
    let most = map.edges.iter().map(traffic).max().unwrap_or(0).max(1) as f64;
    for e in &map.edges {
        let port = if e.port == 0 { String::new() } else { format!(" :{}", e.port) };
        let pace = pace(e.calls.p95_ns, e.tcp.rtt_p50_ns);
        let label = format!("{}{port}\\n{}{pace}", plain(&e.protocol), rate(traffic(e), map.seconds()));
        let colour = if fails(e) { ", color=red, fontcolor=red" } else { "" };
        let width = 1.0 + 3.0 * (traffic(e) as f64 / most).sqrt();
        out.push_str(&format!(
            "  {} -> {} [label=\"{}\", tooltip={}, penwidth={width:.1}{colour}];\n",
            quote(&e.from),
            quote(&e.to),
            label.replace('"', "\\\""),
            quote(&facts(e))
        ));
    }
    out.push_str("}\n");
    out
}
