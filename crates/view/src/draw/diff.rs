//! The differences between two maps, as lines of text.

use super::text::table;
use super::{rate, traffic, unit};
use wirespan_map::{Diff, Document, MapEdge, Measure};
use wirespan_trace::tree::duration;

/// One line per change: first edges that appeared and vanished, then edges that slowed down and that fail more often.
/// `before` and `after` are the two maps.
pub fn diff(diff: &Diff, before: &Document, after: &Document) -> String {
    let line = |sign: &str, map: &Document, e: &MapEdge, rest: String| {
        let (port, called) = (format!(":{}", e.port), map.name(&e.to));
        // The name of an address includes its port.
        let port = if e.port == 0 || called.ends_with(&port) { "" } else { &port };
        let ends = format!("{} → {called}{port}", map.name(&e.from));
        vec![sign.to_string(), ends, e.protocol.clone(), rest]
    };
    let calls = |map: &Document, e: &MapEdge| {
        let n = traffic(e);
        format!("{n} {} ({})", unit(e), rate(n, map.seconds()))
    };
    let time = |m: Measure| duration(m.value as i128);
    let mut rows: Vec<Vec<String>> = Vec::new();
    rows.extend(diff.appeared.iter().map(|e| line("appeared", after, e, calls(after, e))));
    rows.extend(diff.vanished.iter().map(|e| line("vanished", before, e, calls(before, e))));
    rows.extend(diff.slowed_by().map(|(c, g)| {
        let text = format!("{} {} → {} (×{:.1})", g.what, time(g.before), time(g.after), g.by);
        line("slowed", after, &c.after, text)
    }));
    rows.extend(diff.failing_by().map(|(c, g)| {
        let text = format!("{} {:.1} % → {:.1} %", g.what, g.before.value * 100.0, g.after.value * 100.0);
        line("failing", after, &c.after, text)
    }));
    if rows.is_empty() {
        return format!("no difference in {} edges\n", diff.common);
    }
    table(&rows)
}
