//! Prometheus exposition format 0.0.4.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Buckets, sum and count.
    Histogram,
}

struct Family {
    kind: Kind,
    help: String,
    lines: String,
}

/// Collects samples of one scrape. A name that is used with two kinds keeps the first; the other samples are left out.
#[derive(Default)]
pub struct Writer {
    families: BTreeMap<String, Family>,
}

impl Writer {
    /// A counter; its name should end in `_total`.
    pub fn counter(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: u64) {
        self.sample(name, Kind::Counter, help, "", labels, None, value as f64);
    }

    /// A gauge.
    pub fn gauge(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: f64) {
        self.sample(name, Kind::Gauge, help, "", labels, None, value);
    }

    /// A histogram: `counts[i]` observations up to `bounds[i]`, and one count more for the rest.
    pub fn histogram(
        &mut self,
        name: &str,
        help: &str,
        labels: &[(&str, &str)],
        bounds: &[f64],
        counts: &[u64],
        sum: f64,
    ) {
        let mut total = 0;
        for (i, count) in counts.iter().enumerate() {
            total += count;
            let bound = bounds.get(i).copied().unwrap_or(f64::INFINITY);
            self.sample(name, Kind::Histogram, help, "_bucket", labels, Some(bound), total as f64);
        }
        self.sample(name, Kind::Histogram, help, "_sum", labels, None, sum);
        self.sample(name, Kind::Histogram, help, "_count", labels, None, total as f64);
    }

    #[allow(clippy::too_many_arguments)] // private, and each is one part of the line
    fn sample(
        &mut self,
        name: &str,
        kind: Kind,
        help: &str,
        suffix: &str,
        labels: &[(&str, &str)],
        bound: Option<f64>,
        value: f64,
    ) {
        let name = legal(name);
        let family = self.families.entry(name.clone()).or_insert_with(|| Family {
            kind,
            help: help.replace('\\', "\\\\").replace('\n', "\\n"),
            lines: String::new(),
        });
        if family.kind != kind {
            return;
        }
        let out = &mut family.lines;
        out.push_str(&name);
        out.push_str(suffix);
        let mut sep = '{';
        for (key, text) in labels {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(out, "{sep}{}=\"{text}\"", legal(key));
            sep = ',';
        }
        if let Some(bound) = bound {
            let _ = write!(out, "{sep}le=\"{}\"", number(bound));
            sep = ',';
        }
        if sep == ',' {
            out.push('}');
        }
        let _ = writeln!(out, " {}", number(value));
    }

    pub(super) fn finish(self) -> String {
        let mut out = String::new();
        for (name, Family { kind, help, lines }) in self.families {
            let kind = match kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram => "histogram",
            };
            let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}");
        }
        out
    }
}

fn number(x: f64) -> String {
    match x {
        f64::INFINITY => "+Inf".into(),
        f64::NEG_INFINITY => "-Inf".into(),
        x => x.to_string(),
    }
}

/// Names are `[a-zA-Z_][a-zA-Z0-9_]*`; everything else becomes `_`, as OpenTelemetry's Prometheus mapping has it.
fn legal(name: &str) -> String {
    let mut out: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    if !out.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        out.insert(0, '_');
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::metrics::{stage, Registry};

    #[test]
    fn text_as_prometheus_reads_it() {
        let registry = Registry::new();
        registry.add(|w| stage(w, "join", 5, 3, [("late", 2)]));
        registry.add(|w| w.gauge("wirespan_up", "line\nfeed", &[], 1.0));
        registry.add(|w| w.gauge("a.b", "dots", &[("x.y", "quote\" back\\ line\n")], f64::NAN));
        registry.add(|w| w.histogram("h", "times", &[("k", "v")], &[0.005, 1.0], &[1, 2, 3], 7.5));
        // A second source of the same name goes under the same header; one of another kind does not.
        registry.add(|w| stage(w, "ship", 1, 1, []));
        registry.add(|w| w.counter("wirespan_up", "", &[], 9));
        assert_eq!(
            registry.render(),
            r#"# HELP a_b dots
# TYPE a_b gauge
a_b{x_y="quote\" back\\ line\n"} NaN
# HELP h times
# TYPE h histogram
h_bucket{k="v",le="0.005"} 1
h_bucket{k="v",le="1"} 3
h_bucket{k="v",le="+Inf"} 6
h_sum{k="v"} 7.5
h_count{k="v"} 6
# HELP wirespan_stage_dropped_total Items that a stage lost, by reason
# TYPE wirespan_stage_dropped_total counter
wirespan_stage_dropped_total{stage="join",reason="late"} 2
# HELP wirespan_stage_in_total Items that a stage was given
# TYPE wirespan_stage_in_total counter
wirespan_stage_in_total{stage="join"} 5
wirespan_stage_in_total{stage="ship"} 1
# HELP wirespan_stage_out_total Items that a stage passed on
# TYPE wirespan_stage_out_total counter
wirespan_stage_out_total{stage="join"} 3
wirespan_stage_out_total{stage="ship"} 1
# HELP wirespan_up line\nfeed
# TYPE wirespan_up gauge
wirespan_up 1
"#
        );
    }
}
