//! Prometheus exposition format 0.0.4.

use super::writer::{Family, Kind, Number, Writer};
use std::fmt::Write as _;

/// All that was written, grouped by name and sorted.
pub(super) fn render(writer: &Writer) -> String {
    let mut out = String::new();
    for (name, family) in writer.families() {
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        samples(&mut out, name, family);
    }
    out
}

fn samples(out: &mut String, name: &str, family: &Family) {
    for point in &family.points {
        let mut line = |suffix, bound, value| sample(out, name, suffix, &point.labels, bound, value);
        match &point.number {
            Number::Counter(n) => line("", None, *n as f64),
            Number::Gauge(x) => line("", None, *x),
            Number::Histogram { bounds, counts, sum } => {
                let mut total = 0;
                for (i, count) in counts.iter().enumerate() {
                    total += count;
                    let bound = bounds.get(i).copied().unwrap_or(f64::INFINITY);
                    line("_bucket", Some(bound), total as f64);
                }
                line("_sum", None, *sum);
                line("_count", None, total as f64);
            }
        }
    }
}

fn sample(out: &mut String, name: &str, suffix: &str, labels: &[(String, String)], bound: Option<f64>, value: f64) {
    out.push_str(name);
    out.push_str(suffix);
    let mut sep = '{';
    for (key, text) in labels {
        // Names come from the network, and people read this page in terminals.
        let text = wirespan_model::plain::line(text);
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        let _ = write!(out, "{sep}{key}=\"{text}\"");
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

fn number(x: f64) -> String {
    match x {
        f64::INFINITY => "+Inf".into(),
        f64::NEG_INFINITY => "-Inf".into(),
        x => x.to_string(),
    }
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
        // A second source of the same name and kind shares the header. A source of another kind is left out.
        registry.add(|w| stage(w, "ship", 1, 1, []));
        registry.add(|w| w.counter("wirespan_up", "", &[], 9));
        assert_eq!(
            registry.render(),
            r#"# HELP a_b dots
# TYPE a_b gauge
a_b{x_y="quote\" back\\ line\\n"} NaN
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
