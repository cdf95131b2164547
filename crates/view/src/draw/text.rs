//! A map as lines of text.

use super::{bytes, ns, plain, rate, traffic, unit};
use wirespan_map::{Document, MapEdge};

/// A number, and its share of the total if there is a total.
fn share(n: u64, of: u64) -> String {
    match n as f64 / of.max(1) as f64 * 100.0 {
        _ if n == 0 => "0".into(),
        s if s < 1.0 => format!("{n} (<1 %)"),
        s => format!("{n} ({s:.0} %)"),
    }
}

/// The connections of an edge by its flow records; a dash without any.
fn connections(edge: &MapEdge) -> String {
    let t = &edge.tcp;
    if !t.from_flows {
        return "–".into();
    }
    let open = if t.active > 0 { format!(", {} open", t.active) } else { String::new() };
    let failed = if t.failed > 0 { format!(", {} failed", t.failed) } else { String::new() };
    format!("{}{open}{failed}", t.opened)
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

/// The width of each column: names (all columns, if there are four) to the left, numbers to the right.
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
