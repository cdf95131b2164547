//! A flame graph as a self-contained picture. Callers are above what they call. If usual requests stand beside slow
//! ones, red is where the slow ones spend more, and blue where they spend less.

use super::svg::escape;
use std::fmt::Write as _;
use wirespan_trace::tree::duration;
use wirespan_trace::{FlameBox, FlameKind};

const WIDTH: f64 = 1200.0;
const ROW: f64 = 18.0;
const HEAD: f64 = 44.0;
/// Narrower boxes are not drawn.
const NARROWEST: f64 = 0.4;
/// Width of a letter.
const LETTER: f64 = 6.6;

const STYLE: &str = "\
svg{--bg:#fff;--ink:#161d23;--dim:#5c6873;--text:#161d23}\
@media (prefers-color-scheme:dark){svg{--bg:#161b1f;--ink:#e8edf0;--dim:#9aa7b1}}\
text{font:11px ui-monospace,'DejaVu Sans Mono','Liberation Mono',monospace;fill:var(--text)}\
.t{font-size:14px;font-weight:600;fill:var(--ink)}.d{fill:var(--dim)}rect{stroke:var(--bg);stroke-width:.6}\
g:hover rect{stroke:var(--ink)}";

/// Draws boxes in the order of `Flame::boxes`; `spans`: the numbers of slow and of usual requests.
pub fn flame(boxes: &[FlameBox], spans: [u64; 2]) -> String {
    let rows = boxes.iter().map(|b| b.depth + 1).max().unwrap_or(0);
    let height = HEAD + f64::from(rows) * ROW + 8.0;
    let all = boxes.first().map_or(1, |root| root.ns.max(1));
    let compares = spans[1] > 0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\"><style>{STYLE}</style>\
         <rect width=\"100%\" height=\"100%\" fill=\"var(--bg)\"/>"
    );
    let title = boxes.first().map_or("", |root| root.name.as_str());
    let _ = write!(out, "<text class=\"t\" x=\"8\" y=\"18\">{}</text>", escape(title));
    let said = match (compares, spans[0]) {
        (true, slow) => format!("{slow} slow requests beside {} usual ones: red is more time, blue is less", spans[1]),
        (false, 1) => "in which code it ran and waited".into(),
        (false, n) => format!("in which code {n} requests ran and waited"),
    };
    let _ = write!(out, "<text class=\"d\" x=\"8\" y=\"35\">{said}</text>");
    for flame in boxes {
        let scale = |ns: u64| ns as f64 / all as f64 * WIDTH;
        let (x, width) = (scale(flame.from_ns), scale(flame.ns));
        if width < NARROWEST {
            continue;
        }
        let y = HEAD + f64::from(flame.depth) * ROW;
        let colour = if compares { changed(flame, all) } else { colour(flame) };
        let _ = write!(
            out,
            "<g><title>{}: {}</title><rect x=\"{x:.2}\" y=\"{y:.0}\" width=\"{width:.2}\" height=\"{ROW}\" \
             fill=\"{colour}\"/>",
            escape(&flame.name),
            words(flame, all, compares)
        );
        let letters = ((width - 6.0) / LETTER).max(0.0) as usize;
        if letters >= 3 {
            let name: String = match flame.name.chars().count() > letters {
                true => flame.name.chars().take(letters - 1).chain(['…']).collect(),
                false => flame.name.clone(),
            };
            let _ = write!(out, "<text x=\"{:.2}\" y=\"{:.0}\">{}</text>", x + 3.0, y + 13.0, escape(&name));
        }
        out.push_str("</g>");
    }
    out.push_str("</svg>\n");
    out
}

fn words(flame: &FlameBox, all: u64, compares: bool) -> String {
    let short = |ns: u64| duration(i128::from(ns));
    let share = flame.ns as f64 / all as f64 * 100.0;
    let usual = if compares { format!(", usually {}", short(flame.usual_ns)) } else { String::new() };
    format!("{}, {share:.1} %{usual}", short(flame.ns))
}

/// A colour for each name; waits are blue, the kernel is orange.
fn colour(flame: &FlameBox) -> String {
    let hash = flame.name.bytes().fold(5381_u32, |hash, byte| hash.wrapping_mul(33) ^ u32::from(byte)) % 100;
    let (hue, light) = match flame.kind {
        FlameKind::Request => (165, 78),
        FlameKind::Program => (40 + hash % 16, 68 + hash % 9),
        FlameKind::Kernel => (18 + hash % 10, 72 + hash % 7),
        FlameKind::Wait => (212, 80),
    };
    format!("hsl({hue} 70% {light}%)")
}

/// How much more time than usual it took, against all of the request's time.
fn changed(flame: &FlameBox, all: u64) -> String {
    let more = (flame.ns as f64 - flame.usual_ns as f64) / all as f64;
    let light = 94.0 - (more.abs().sqrt() * 40.0).min(40.0);
    format!("hsl({} 85% {light:.0}%)", if more >= 0.0 { 6 } else { 216 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(depth: u32, from_ns: u64, ns: u64, usual_ns: u64, name: &str) -> FlameBox {
        FlameBox { depth, from_ns, ns, usual_ns, name: name.into(), kind: FlameKind::Program }
    }

    #[test]
    fn names_are_escaped_and_narrow_boxes_left_out() {
        let boxes = [
            named(0, 0, 1_000_000, 0, "shop: GET"),
            named(1, 0, 900_000, 0, "Vec<\"T\">::push & \u{1b}[2J</title><script>alert(1)</script>"),
            named(2, 0, 10, 0, "too_narrow"),
        ];
        let drawn = flame(&boxes, [1, 0]);
        assert!(drawn.contains("Vec&lt;&quot;T&quot;&gt;::push &amp;"), "{drawn}");
        assert!(!drawn.contains("<script") && !drawn.contains('\u{1b}') && !drawn.contains("too_narrow"));
        assert_eq!(drawn.matches("<g>").count(), drawn.matches("</g>").count());
        assert!(drawn.contains("900µs, 90.0 %"), "{drawn}");
    }

    #[test]
    fn more_time_is_red_and_less_is_blue() {
        let boxes = [
            named(0, 0, 100_000_000, 100_000_000, "all"),
            named(1, 0, 90_000_000, 10_000_000, "grown"),
            named(1, 90_000_000, 10_000_000, 90_000_000, "shrunk"),
        ];
        let drawn = flame(&boxes, [3, 4]);
        let colour = |name: &str| {
            drawn.split("<title>").find(|part| part.starts_with(name)).and_then(|p| p.split("hsl(").nth(1))
        };
        assert!(colour("grown").is_some_and(|hue| hue.starts_with("6 ")), "{drawn}");
        assert!(colour("shrunk").is_some_and(|hue| hue.starts_with("216 ")), "{drawn}");
        assert!(drawn.contains("usually 10.0ms") && drawn.contains("3 slow requests beside 4 usual ones"));
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert!(flame(&[], [0, 0]).ends_with("</svg>\n"));
    }
}
