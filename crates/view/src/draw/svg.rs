//! A map as a self-contained picture: no script, no font of its own, light or dark as the reader's system is.

use super::{facts, fails, layout, pace, rate, traffic, Place};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use wirespan_map::{Document, MapEdge, MapNode, NodeKind};
use wirespan_trace::tree::duration;

const NODE: (f64, f64) = (172.0, 54.0);
const GAP: (f64, f64) = (170.0, 34.0);
const MARGIN: f64 = 24.0;
/// Characters of a name that fit into a box.
const FIT: usize = 22;

const STYLE: &str = "\
svg{--bg:#fff;--ink:#161d23;--dim:#5c6873;--line:#98a4ae;--box:#f4f7f8;--edge:#0f766e;--bad:#b42318}\
@media (prefers-color-scheme:dark){\
svg{--bg:#161b1f;--ink:#e8edf0;--dim:#9aa7b1;--line:#5b6973;--box:#20282e;--edge:#4fc5b6;--bad:#ff8a7a}}\
text{font:11px system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans','Liberation Sans',sans-serif;fill:var(--dim)}\
.name{font-size:13px;font-weight:600;fill:var(--ink)}.box{fill:var(--box);stroke:var(--edge);stroke-width:1.4}\
.far{stroke:var(--line);stroke-dasharray:4 3}.e{fill:none;stroke:var(--line)}.e.bad{stroke:var(--bad)}\
.h{fill:var(--line)}.h.bad{fill:var(--bad)}\
.l{text-anchor:middle;paint-order:stroke;stroke:var(--bg);stroke-width:5px;stroke-linejoin:round}.l.bad,\
.m{fill:var(--bad)}";

/// Markup characters are escaped, control characters replaced: names come from the wire.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in super::plain(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML has no place for these, whatever is written around them.
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

fn short(name: &str) -> String {
    if name.chars().count() <= FIT {
        return name.into();
    }
    let start: String = name.chars().take(FIT - 1).collect();
    format!("{start}…")
}

/// All edges between the same two nodes, drawn as one.
struct Arrow<'a> {
    from: usize,
    to: usize,
    edges: Vec<&'a MapEdge>,
}

impl Arrow<'_> {
    fn calls(&self) -> u64 {
        self.edges.iter().map(|e| traffic(e)).sum()
    }

    fn fails(&self) -> bool {
        self.edges.iter().any(|e| fails(e))
    }

    /// Two lines: how many, and how fast.
    fn label(&self, seconds: Option<f64>) -> [String; 2] {
        let mut protocols: Vec<&str> = self.edges.iter().map(|e| e.protocol.as_str()).collect();
        protocols.dedup();
        let more = if protocols.len() > 2 { format!(" +{}", protocols.len() - 2) } else { String::new() };
        protocols.truncate(2);
        let main = self.edges.first();
        let port = match (self.edges.len(), main) {
            (1, Some(e)) if e.port != 0 => format!(":{}", e.port),
            _ => String::new(),
        };
        let worst = |of: fn(&MapEdge) -> u64| self.edges.iter().map(|e| of(e)).max().unwrap_or(0);
        let pace = pace(worst(|e| e.calls.p95_ns), worst(|e| e.tcp.rtt_p50_ns));
        [format!("{}{more}{port}", protocols.join(", ")), format!("{}{pace}", rate(self.calls(), seconds))]
    }
}

type Point = (f64, f64);

/// The picture as one SVG document.
pub fn svg(map: &Document) -> String {
    let index: BTreeMap<&str, usize> = map.nodes.iter().enumerate().map(|(at, n)| (n.id.as_str(), at)).collect();
    let mut pairs: BTreeMap<(usize, usize), Vec<&MapEdge>> = BTreeMap::new();
    for e in &map.edges {
        if let (Some(from), Some(to)) = (index.get(e.from.as_str()), index.get(e.to.as_str())) {
            pairs.entry((*from, *to)).or_default().push(e);
        }
    }
    let arrows: Vec<Arrow<'_>> = pairs.into_iter().map(|((from, to), edges)| Arrow { from, to, edges }).collect();
    let places = layout(map.nodes.len(), &arrows.iter().map(|a| (a.from, a.to)).collect::<Vec<_>>());
    let all = || places.nodes.iter().chain(places.stops.iter().flatten());
    let top = all().map(|p| p.row).fold(0.0, f64::min);
    let bottom = all().map(|p| p.row).fold(0.0, f64::max);
    let layers = all().map(|p| p.layer).max().unwrap_or(0) as f64;
    let at = |p: &Place| -> Point {
        (MARGIN + p.layer as f64 * (NODE.0 + GAP.0), MARGIN + (p.row - top) * (NODE.1 + GAP.1))
    };
    let width = 2.0 * MARGIN + layers * (NODE.0 + GAP.0) + NODE.0;
    // Leave room below for the bows of the edges back.
    let height = 2.0 * MARGIN + (bottom - top) * (NODE.1 + GAP.1) + NODE.1 + 30.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" aria-label=\"Dependency map: {} nodes, {} edges\">\n\
         <style>{STYLE}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"var(--bg)\"/>\n",
        map.nodes.len(),
        map.edges.len()
    );
    let most = arrows.iter().map(Arrow::calls).max().unwrap_or(1).max(1) as f64;
    let mut labels = Vec::new();
    for (arrow, stops) in arrows.iter().zip(&places.stops) {
        let (from, to) = (at(&places.nodes[arrow.from]), at(&places.nodes[arrow.to]));
        let stops: Vec<Point> = stops.iter().map(at).collect();
        let weight = 1.2 + 3.0 * (arrow.calls() as f64 / most).sqrt();
        draw(&mut out, &mut labels, arrow, from, to, &stops, weight, map);
    }
    // Labels are drawn above all lines, so that no line goes through a label. If two labels would overlap, the label of
    // the edge with fewer calls is left out; its line shows the same text under the pointer.
    labels.sort_by_key(|l| std::cmp::Reverse(l.calls));
    let mut shown: Vec<&Label> = Vec::new();
    for label in &labels {
        if shown.iter().all(|other| !label.covers(other)) {
            label.write(&mut out);
            shown.push(label);
        }
    }
    for (node, place) in map.nodes.iter().zip(&places.nodes) {
        boxed(&mut out, node, at(place));
    }
    out.push_str("</svg>\n");
    out
}

#[allow(clippy::too_many_arguments)] // private, one call
fn draw(
    out: &mut String,
    labels: &mut Vec<Label>,
    arrow: &Arrow<'_>,
    from: Point,
    to: Point,
    stops: &[Point],
    weight: f64,
    map: &Document,
) {
    let middle = NODE.1 / 2.0;
    let bad = if arrow.fails() { " bad" } else { "" };
    let mut path = String::new();
    let (tip, label): (Point, Point);
    if to.0 > from.0 {
        let mut points = vec![(from.0 + NODE.0, from.1 + middle)];
        points.extend(stops.iter().flat_map(|s| [(s.0, s.1 + middle), (s.0 + NODE.0, s.1 + middle)]));
        tip = (to.0, to.1 + middle);
        points.push((tip.0 - 7.0, tip.1));
        let _ = write!(path, "M{:.1} {:.1}", points[0].0, points[0].1);
        for pair in points.windows(2) {
            let ((ax, ay), (bx, by)) = (pair[0], pair[1]);
            let half = (bx - ax) / 2.0;
            let _ = write!(path, "C{:.1} {ay:.1} {:.1} {by:.1} {bx:.1} {by:.1}", ax + half, bx - half);
        }
        label = match stops.get(stops.len() / 2) {
            // A long edge has its label at one of its stops, where no other label is.
            Some(stop) => (stop.0 + NODE.0 / 2.0, stop.1 + middle),
            // The label stands near the callee, because the labels of one caller would pile up at the caller.
            None => {
                let (a, b) = (points[0], (tip.0 - 7.0, tip.1));
                let t: f64 = 0.6;
                let ease = t * t * (3.0 - 2.0 * t);
                (a.0 + (b.0 - a.0) * t, a.1 + (b.1 - a.1) * ease)
            }
        };
        let _ = writeln!(out, "<path class=\"h{bad}\" d=\"M{:.1} {:.1}l-9 -4.5v9z\"/>", tip.0, tip.1);
    } else {
        // An edge back, or to the same node, is a bow below.
        let (a, b) = ((from.0 + NODE.0 * 0.7, from.1 + NODE.1), (to.0 + NODE.0 * 0.3, to.1 + NODE.1));
        let low = a.1.max(b.1) + 40.0;
        let _ =
            write!(path, "M{:.1} {:.1}C{:.1} {low:.1} {:.1} {low:.1} {:.1} {:.1}", a.0, a.1, a.0, b.0, b.0, b.1 + 7.0);
        label = ((a.0 + b.0) / 2.0, low - 8.0);
        let _ = writeln!(out, "<path class=\"h{bad}\" d=\"M{:.1} {:.1}l-4.5 9h9z\"/>", b.0, b.1);
    }
    let ends = format!("{} → {}", map.nodes[arrow.from].name, map.nodes[arrow.to].name);
    let title = std::iter::once(ends).chain(arrow.edges.iter().map(|e| facts(e))).collect::<Vec<_>>().join("\n");
    let _ = writeln!(
        out,
        "<path class=\"e{bad}\" d=\"{path}\" stroke-width=\"{weight:.1}\"><title>{}</title></path>",
        title.lines().map(escape).collect::<Vec<_>>().join("\n")
    );
    labels.push(Label { at: label, lines: arrow.label(map.seconds()), bad: arrow.fails(), calls: arrow.calls() });
}

/// The text beside an arrow.
struct Label {
    at: Point,
    lines: [String; 2],
    bad: bool,
    calls: u64,
}

impl Label {
    /// Half of the label's width, at the average width of the font's characters.
    fn half(&self) -> f64 {
        let longest = self.lines.iter().map(|l| l.chars().count()).max().unwrap_or(0);
        longest as f64 * 2.9
    }

    fn covers(&self, other: &Label) -> bool {
        const HEIGHT: f64 = 22.0; // a small overlap is allowed, because both labels stay readable
        (self.at.0 - other.at.0).abs() < self.half() + other.half() && (self.at.1 - other.at.1).abs() < HEIGHT
    }

    fn write(&self, out: &mut String) {
        let (x, y) = self.at;
        let bad = if self.bad { " bad" } else { "" };
        for (line, y) in self.lines.iter().zip([y - 5.0, y + 12.0]) {
            let _ = write!(out, "<text class=\"l{bad}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(line));
        }
        out.push('\n');
    }
}

fn boxed(out: &mut String, node: &MapNode, (x, y): Point) {
    let far = if node.kind == NodeKind::Service { "" } else { " far" };
    let facts = match (node.kind, node.calls.count) {
        (NodeKind::Service, 0) => "calls others".into(),
        (NodeKind::Caller, _) | (_, 0) => "not observed".into(),
        // There is no duration: no request was understood.
        (_, n) if node.calls.p95_ns == 0 => format!("{n} {}", if n == 1 { "connection" } else { "connections" }),
        (_, n) => {
            format!("{n} {} · p95 {}", if n == 1 { "call" } else { "calls" }, duration(i128::from(node.calls.p95_ns)))
        }
    };
    let _ = writeln!(
        out,
        "<g transform=\"translate({x:.1} {y:.1})\"><title>{}</title><rect class=\"box{far}\" width=\"{}\" \
         height=\"{}\" rx=\"9\"/>\
         <text class=\"name\" x=\"14\" y=\"23\">{}</text><text x=\"14\" y=\"41\">{}</text>",
        escape(&node.name),
        NODE.0,
        NODE.1,
        escape(&short(&node.name)),
        escape(&facts)
    );
    if node.calls.errors > 0 {
        let share = node.calls.errors as f64 / node.calls.count.max(1) as f64 * 100.0;
        let _ = writeln!(
            out,
            "<text class=\"m\" x=\"{}\" y=\"-5\" text-anchor=\"end\">{share:.1} % errors</text>",
            NODE.0 - 4.0
        );
    }
    out.push_str("</g>\n");
}
