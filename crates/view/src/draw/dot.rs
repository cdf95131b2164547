//! A map as a graph for Graphviz.

use super::{facts, fails, pace, plain, rate, traffic};
use wirespan_map::{Document, NodeKind};

/// A Graphviz digraph.
pub fn dot(map: &Document) -> String {
    // A backslash begins an escape of Graphviz's (`\N`, `\l`).
    let escape = |s: &str| plain(s).replace('\\', "\\\\").replace('"', "\\\"");
    let quote = |s: &str| format!("\"{}\"", escape(s));
    let mut out = String::from("digraph wirespan {\n  rankdir=LR;\n  node [shape=box, style=rounded];\n");
    for n in &map.nodes {
        let style = if n.kind == NodeKind::Service { "" } else { ", style=\"rounded,dashed\"" };
        out.push_str(&format!("  {} [label={}{style}];\n", quote(&n.id), quote(&n.name)));
    }
    let most = map.edges.iter().map(traffic).max().unwrap_or(0).max(1) as f64;
    for e in &map.edges {
        let port = if e.port == 0 { String::new() } else { format!(" :{}", e.port) };
        let pace = pace(e.calls.p95_ns, e.tcp.rtt_p50_ns);
        let protocol = escape(&e.protocol);
        let label = format!("{protocol}{port}\\n{}{pace}", rate(traffic(e), map.seconds()));
        let colour = if fails(e) { ", color=red, fontcolor=red" } else { "" };
        let width = 1.0 + 3.0 * (traffic(e) as f64 / most).sqrt();
        out.push_str(&format!(
            "  {} -> {} [label=\"{label}\", tooltip={}, penwidth={width:.1}{colour}];\n",
            quote(&e.from),
            quote(&e.to),
            quote(&facts(e))
        ));
    }
    out.push_str("}\n");
    out
}
