//! The dependency map for people: lines of text, Graphviz's DOT, an SVG picture, and the lines of a difference. Flame
//! graphs.
//!
//! All but the last take a [`wirespan_map::Document`]; the words for an edge that they share stand here.

mod diff;
mod dot;
mod flame;
mod layout;
mod svg;
mod text;

pub use diff::diff;
pub use dot::dot;
pub use flame::flame;
pub use layout::{layout, Layout, Place};
pub use svg::svg;
pub use text::text;

use wirespan_map::MapEdge;
use wirespan_trace::tree::duration;

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

/// The unit of an edge's traffic: requests, or connections if the protocol was not understood.
pub(super) fn unit(edge: &MapEdge) -> &'static str {
    match (edge.protocols.is_empty(), traffic(edge)) {
        (true, 1) => "connection",
        (true, _) => "connections",
        (false, 1) => "request",
        (false, _) => "requests",
    }
}

/// Most characters of a label. One long name would make each row of a table as wide as itself.
const LONGEST: usize = 500;

/// Writes control characters out: names come from the wire, and terminals obey control characters. Cuts what is longer
/// than any sensible name.
fn plain(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        None => wirespan_model::plain::line(text).into_owned(),
        Some((end, _)) => format!("{}…", wirespan_model::plain::line(&text[..end])),
    }
}

/// Requests, or connections if the protocol was not understood.
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

/// All facts about an edge, in a line.
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
