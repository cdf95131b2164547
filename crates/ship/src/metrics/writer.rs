//! The samples that sources write, in a form that suits every output format.

use std::collections::BTreeMap;

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

/// Samples of one name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Family {
    pub(crate) kind: Kind,
    pub(crate) help: String,
    pub(crate) points: Vec<Point>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) number: Number,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Number {
    Counter(u64),
    Gauge(f64),
    Histogram { bounds: Vec<f64>, counts: Vec<u64>, sum: f64 },
}

/// Collects samples of one moment. A name that is used with two kinds keeps the first kind; samples of the other kind
/// are left out.
#[derive(Default)]
pub struct Writer {
    families: BTreeMap<String, Family>,
}

impl Writer {
    /// A counter; its name should end in `_total`.
    pub fn counter(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: u64) {
        self.point(name, Kind::Counter, help, labels, Number::Counter(value));
    }

    /// A gauge.
    pub fn gauge(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: f64) {
        self.point(name, Kind::Gauge, help, labels, Number::Gauge(value));
    }

    /// A histogram: `counts[i]` observations up to `bounds[i]`, and one more count for the observations above all
    /// bounds.
    pub fn histogram(
        &mut self,
        name: &str,
        help: &str,
        labels: &[(&str, &str)],
        bounds: &[f64],
        counts: &[u64],
        sum: f64,
    ) {
        let number = Number::Histogram { bounds: bounds.to_vec(), counts: counts.to_vec(), sum };
        self.point(name, Kind::Histogram, help, labels, number);
    }

    fn point(&mut self, name: &str, kind: Kind, help: &str, labels: &[(&str, &str)], number: Number) {
        let new = || Family { kind, help: help.to_string(), points: Vec::new() };
        let family = self.families.entry(legal(name)).or_insert_with(new);
        if family.kind == kind {
            let labels = labels.iter().map(|(key, text)| (legal(key), (*text).to_string())).collect();
            family.points.push(Point { labels, number });
        }
    }

    pub(crate) fn families(&self) -> &BTreeMap<String, Family> {
        &self.families
    }
}

/// Names are `[a-zA-Z_][a-zA-Z0-9_]*`. Every other character becomes `_`, as in OpenTelemetry's Prometheus mapping.
fn legal(name: &str) -> String {
    let mut out: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    if !out.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        out.insert(0, '_');
    }
    out
}
