//! A trace as a tree of lines.

use crate::hops::{hops, Hop};
use std::fmt::Write;
use wirespan_model::{hop, waits_for_work, Span, SpanKind, SpanLink, TapSide, Trace, TraceSpan};

/// How to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextOptions {
    /// ANSI colours.
    pub color: bool,
    /// Most columns of the tree part (branches, service, name); longer text is cut.
    pub width: usize,
}

impl Default for TextOptions {
    fn default() -> Self {
        TextOptions { color: false, width: 64 }
    }
}

/// Most levels that are drawn; the depth of a deeper span is written as a number.
const MAX_INDENT: u32 = 24;

struct Row {
    label: String,
    status: String,
    start: String,
    took: String,
    hop: String,
    evidence: String,
    error: bool,
}

/// Draws the trace: one line per span with service, name, status, start relative to the first span, duration, the time
/// on the way there and back (for links between observation points), and the evidence of its link with its confidence.
pub fn text(trace: &Trace, options: TextOptions) -> String {
    let mut out = String::new();
    let origin = trace.spans.iter().map(|s| s.span.start_ns).min().unwrap_or(0);
    let end = trace.spans.iter().map(|s| s.span.end_ns).max().unwrap_or(0);
    let mut services: Vec<String> = trace.spans.iter().map(|s| service_name(&s.span)).collect();
    services.sort_unstable();
    services.dedup();
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let _ = write!(
        out,
        "trace {}  {}  {}  {}",
        trace.id,
        count(trace.spans.len(), "span"),
        count(services.len(), "service"),
        duration(i128::from(end - origin.min(end)))
    );
    out.push_str(if trace.complete { "\n" } else { "  (not complete: a limit cut the search)\n" });
    let rows = rows(trace, origin, options.width.max(16));
    let width = |f: fn(&Row) -> &str| rows.iter().map(|r| f(r).chars().count()).max().unwrap_or(0);
    let (label, status, start) = (width(|r| &r.label), width(|r| &r.status), width(|r| &r.start));
    let (took, hop) = (width(|r| &r.took), width(|r| &r.hop));
    for r in &rows {
        let mut line = format!(
            "{:label$}  {:status$}  {:>start$}  {:>took$}  {:hop$}  {}",
            r.label, r.status, r.start, r.took, r.hop, r.evidence
        );
        line.truncate(line.trim_end().len());
        if options.color && r.error {
            let _ = writeln!(out, "\x1b[31m{line}\x1b[0m");
        } else {
            out.push_str(&line);
            out.push('\n');
        }
    }
    out
}

fn rows(trace: &Trace, origin: u64, width: usize) -> Vec<Row> {
    let branches = branches(&trace.spans);
    let hops = hops(trace);
    trace
        .spans
        .iter()
        .zip(branches)
        .zip(hops)
        .map(|((s, branch), hops)| {
            let span = &s.span;
            let side = match (span.tap, span.kind) {
                (TapSide::ClientProcess, _) => "→",
                (TapSide::ServerProcess, _) => "●",
                (TapSide::App, SpanKind::Client | SpanKind::Producer) => "⇢",
                (TapSide::App, _) => "○",
                _ => "·",
            };
            let mut label = format!("{branch}{side} {}  {}", place(span), clean(&span.name()));
            if matches!(span.tap, TapSide::ClientProcess | TapSide::Capture) && span.tuple.server.port != 0 {
                let _ = write!(label, "  to {}", span.tuple.server);
            }
            let status = match span.status_code {
                Some(code) => format!("{} {code}", span.status.as_str()),
                None => span.status.as_str().to_string(),
            };
            let mut error = if span.error.is_empty() { String::new() } else { format!("  {}", clean(&span.error)) };
            error.push_str(&trouble(span));
            Row {
                label: cut(label, width),
                status,
                start: format!("+{}", duration(i128::from(span.start_ns - origin))),
                took: duration(i128::from(span.duration_ns())),
                hop: way(hops.from_parent, span),
                evidence: match &s.link {
                    Some(l) => format!("{} {:.2}{error}{}", l.evidence.as_str(), l.confidence, links(&s.links)),
                    None => format!("{error}{}", links(&s.links)).trim_start().to_string(),
                },
                error: span.status.is_error(span.kind),
            }
        })
        .collect()
}

/// The service; for a device on the way, its name and its network namespace.
fn place(span: &Span) -> String {
    let Some(device) = span.text(hop::DEVICE) else { return service_name(span) };
    let within = span.text(hop::NETNS).map_or(String::new(), |netns| format!(" in {netns}"));
    clean(&format!("{device}{within}"))
}

/// Time and segments lost to the network or to a slow reader, if there are any; whether its time is no speed.
fn trouble(span: &Span) -> String {
    let tcp = &span.tcp;
    let mut text = String::from(if waits_for_work(span) { "  waits for work" } else { "" });
    for (n, what) in [(tcp.retransmits, "retransmitted"), (tcp.resets, "reset")] {
        if n > 0 {
            let _ = write!(text, "  {n} {what}");
        }
    }
    let queue_ns = u64::from(tcp.queue_us) * 1000;
    let of = |key| span.number(key).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    if of(hop::DROPPED) > 0 {
        let reason = span.text(hop::DROP_REASON).map_or(String::new(), |reason| format!(" ({})", clean(reason)));
        let _ = write!(text, "  {} dropped{reason}", of(hop::DROPPED));
    }
    for (ns, what) in [(tcp.connect_ns, "connect"), (queue_ns, "queued"), (of(hop::QUEUE), "in its queue")] {
        if ns >= SHOWN_NS {
            let _ = write!(text, "  {what} {}", duration(i128::from(ns)));
        }
    }
    text
}

/// Shortest wait that is shown.
const SHOWN_NS: u64 = 1_000_000;

/// Most links shown per span; the rest are shown as a number.
const SHOWN_LINKS: usize = 3;

/// Spans of other traces that sent (`⇠`) or received (`⇢`) the same messages. `wirespan trace` takes their ids.
fn links(links: &[SpanLink]) -> String {
    let mut text = String::new();
    for l in links.iter().take(SHOWN_LINKS) {
        let arrow = if l.sent { '⇠' } else { '⇢' };
        let _ = write!(text, "  {arrow} {} {} {:.2}", l.span, l.evidence.as_str(), l.confidence);
    }
    if links.len() > SHOWN_LINKS {
        let _ = write!(text, "  and {} more", links.len() - SHOWN_LINKS);
    }
    text
}

/// The way from the point before as `hop 93.0µs  there 61.0µs ± 12.0µs  back ?`, and what was lost on it.
fn way(hop: Option<Hop>, span: &Span) -> String {
    let times = match span.is_unordered() {
        true => Some("order unknown".to_owned()),
        false => hop.map(|hop| hop.words(|ns| duration(ns.into()))),
    };
    let lost = span.number(hop::LOST_BYTES).map(|n| format!("{n} bytes lost"));
    times.into_iter().chain(lost).collect::<Vec<_>>().join("  ")
}

/// What a span says of the hop that ends at it, also without its trace; empty if it says nothing.
pub fn hop_times(span: &Span) -> String {
    way(Hop::told(span), span)
}

/// Branches of each line.
fn branches(spans: &[TraceSpan]) -> Vec<String> {
    // Per level, whether a later sibling follows; found from the end.
    let mut open: Vec<bool> = Vec::new();
    let mut all: Vec<String> = Vec::with_capacity(spans.len());
    for s in spans.iter().rev() {
        let depth = s.depth.min(MAX_INDENT) as usize;
        open.resize(depth + 1, false);
        let mut line = String::new();
        for (level, follows) in open.iter().enumerate().skip(1) {
            line.push_str(match (level == depth, follows) {
                (true, true) => "├─ ",
                (true, false) => "└─ ",
                (false, true) => "│  ",
                (false, false) => "   ",
            });
        }
        if s.depth > MAX_INDENT {
            let _ = write!(line, "[{}] ", s.depth);
        }
        open[depth] = true;
        all.push(line);
    }
    all.reverse();
    all
}

/// Name of the service of a span, or the next best.
pub fn service_name(span: &Span) -> String {
    match (&*span.resource.service, &*span.comm) {
        ("", "") if span.tuple.server.port != 0 => span.tuple.server.to_string(),
        ("", "") => "?".to_string(),
        ("", comm) => clean(comm),
        (name, _) => clean(name),
    }
}

/// Writes control characters out: text from the wire must not control the terminal.
fn clean(s: &str) -> String {
    wirespan_model::plain::line(s).into_owned()
}

fn cut(s: String, width: usize) -> String {
    if s.chars().count() <= width {
        return s;
    }
    let mut short: String = s.chars().take(width - 1).collect();
    short.push('…');
    short
}

/// A time with about three digits: `870ns`, `12.3µs`, `4.56ms`, `1.20s`.
pub fn duration(ns: i128) -> String {
    let (sign, ns) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs() as f64);
    let (value, unit) = match ns {
        n if n < 1e3 => return format!("{sign}{n}ns"),
        n if n < 1e6 => (n / 1e3, "µs"),
        n if n < 1e9 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{sign}{value:.digits$}{unit}")
}
