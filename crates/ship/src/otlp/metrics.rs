//! Metrics → OTLP: cumulative sums and histograms, with the names and labels of `/metrics`.

use super::encode::key_value;
use super::instance_id;
use super::proto::metrics::{
    Data, ExportMetrics, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics,
    Sum, Value, CUMULATIVE,
};
use super::proto::{KeyValue, Resource, Scope};
use crate::metrics::{Number, Point, Writer};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash as _, Hasher as _};

/// Collectors take gRPC messages of up to 4 MiB. A point of the map has at most about 900 bytes.
const MAX_POINTS: usize = 2000;

/// Turns samples into requests, and remembers the start of each series.
pub(crate) struct Encoder {
    resource: Resource,
    /// Time of the last encoding; before the first, the start of the encoder.
    last_ns: u64,
    /// By hash of name and labels: the start of the series, and its last total.
    series: FxHashMap<u64, (u64, u64)>,
}

impl Encoder {
    /// `service` and `host` name the process that counts.
    pub(crate) fn new(service: &str, host: &str, now_ns: u64) -> Self {
        let mut attributes = vec![key_value("service.name", service), key_value("service.instance.id", instance_id())];
        if !host.is_empty() {
            attributes.push(key_value("host.name", host));
        }
        attributes.push(key_value("telemetry.sdk.name", "wirespan"));
        attributes.push(key_value("telemetry.sdk.version", env!("CARGO_PKG_VERSION")));
        let resource = Resource { attributes, dropped_attributes_count: 0 };
        Encoder { resource, last_ns: now_ns, series: FxHashMap::default() }
    }

    /// Requests and the points in each.
    pub(crate) fn encode(&mut self, written: &Writer, now_ns: u64) -> Vec<(ExportMetrics, usize)> {
        let mut seen = FxHashMap::default();
        let mut requests = Vec::new();
        let (mut metrics, mut in_them) = (Vec::new(), 0);
        for (name, family) in written.families() {
            for points in family.points.chunks(MAX_POINTS) {
                if in_them + points.len() > MAX_POINTS {
                    requests.push((self.request(std::mem::take(&mut metrics)), std::mem::take(&mut in_them)));
                }
                let starts: Vec<u64> = points.iter().map(|p| self.start(name, p, &mut seen)).collect();
                let data = encode_points(points, &starts, now_ns);
                let (name, description) = (name.clone(), family.help.clone());
                metrics.push(Metric { unit: unit(&name).into(), name, description, data });
                in_them += points.len();
            }
        }
        if in_them > 0 {
            requests.push((self.request(metrics), in_them));
        }
        self.series = seen;
        self.last_ns = now_ns;
        requests
    }

    /// Start of a series. A series that is new, or whose total has decreased, began after the last encoding.
    fn start(&self, name: &str, point: &Point, seen: &mut FxHashMap<u64, (u64, u64)>) -> u64 {
        let total = match &point.number {
            Number::Counter(n) => *n,
            Number::Gauge(_) => 0,
            Number::Histogram { counts, .. } => counts.iter().sum(),
        };
        let mut hasher = FxHasher::default();
        (name, &point.labels).hash(&mut hasher);
        let id = hasher.finish();
        let before = self.series.get(&id).filter(|(_, before)| *before <= total);
        let start = before.map_or(self.last_ns, |(start, _)| *start);
        seen.insert(id, (start, total));
        start
    }

    fn request(&self, metrics: Vec<Metric>) -> ExportMetrics {
        let (name, version) = ("wirespan".into(), env!("CARGO_PKG_VERSION").into());
        let scope = Some(Scope { name, version, ..Scope::default() });
        let scope_metrics = vec![ScopeMetrics { scope, metrics }];
        ExportMetrics {
            resource_metrics: vec![ResourceMetrics { resource: Some(self.resource.clone()), scope_metrics }],
        }
    }
}

/// The UCUM unit of a metric, if the name ends in one.
fn unit(name: &str) -> &'static str {
    let base = name.strip_suffix("_total").unwrap_or(name);
    match base.rsplit('_').next() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        _ => "",
    }
}

/// Points of one kind, as those of a family are.
fn encode_points(points: &[Point], starts: &[u64], now_ns: u64) -> Option<Data> {
    let number = |point: &Point, start, value| NumberDataPoint {
        start_time_unix_nano: start,
        time_unix_nano: now_ns,
        attributes: attributes(point),
        value: Some(value),
    };
    let both = || points.iter().zip(starts.iter().copied());
    Some(match points.first()?.number {
        Number::Gauge(_) => Data::Gauge(Gauge {
            data_points: both()
                .filter_map(|(p, _)| match p.number {
                    Number::Gauge(x) => Some(number(p, 0, Value::Double(x))),
                    _ => None,
                })
                .collect(),
        }),
        Number::Counter(_) => Data::Sum(Sum {
            data_points: both()
                .filter_map(|(p, start)| match p.number {
                    Number::Counter(n) => Some(number(p, start, Value::Int(i64::try_from(n).unwrap_or(i64::MAX)))),
                    _ => None,
                })
                .collect(),
            aggregation_temporality: CUMULATIVE,
            is_monotonic: true,
        }),
        Number::Histogram { .. } => Data::Histogram(Histogram {
            data_points: both()
                .filter_map(|(p, start)| match &p.number {
                    Number::Histogram { bounds, counts, sum } => Some(HistogramDataPoint {
                        start_time_unix_nano: start,
                        time_unix_nano: now_ns,
                        count: counts.iter().sum(),
                        sum: Some(*sum),
                        bucket_counts: counts.clone(),
                        explicit_bounds: bounds.clone(),
                        attributes: attributes(p),
                    }),
                    _ => None,
                })
                .collect(),
            aggregation_temporality: CUMULATIVE,
        }),
    })
}

fn attributes(point: &Point) -> Vec<KeyValue> {
    point.labels.iter().map(|(key, text)| key_value(key, text.as_str())).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn starts(encoder: &mut Encoder, now: u64, series: &[(&str, u64)]) -> Vec<u64> {
        let mut w = Writer::default();
        series.iter().for_each(|(edge, n)| w.counter("n_total", "", &[("edge", edge)], *n));
        let requests = encoder.encode(&w, now);
        let Some(Data::Sum(sum)) = &requests[0].0.resource_metrics[0].scope_metrics[0].metrics[0].data else {
            panic!()
        };
        sum.data_points.iter().map(|p| p.start_time_unix_nano).collect()
    }

    #[test]
    fn a_series_that_came_later_or_anew_starts_later() {
        let mut encoder = Encoder::new("wirespan", "", 10);
        assert_eq!(starts(&mut encoder, 20, &[("a", 1)]), [10]);
        assert_eq!(starts(&mut encoder, 30, &[("a", 1), ("b", 5)]), [10, 20]);
        // One series lost its place on the map and got it again; another was reset between two exports.
        assert_eq!(starts(&mut encoder, 40, &[("b", 4)]), [30]);
        assert_eq!(starts(&mut encoder, 50, &[("a", 9), ("b", 4)]), [40, 30]);
    }

    #[test]
    fn many_points_go_in_several_requests_that_a_collector_takes() {
        use prost::Message as _;
        let mut w = Writer::default();
        let name = "x".repeat(253);
        for i in 0..2500 {
            let labels = [("client", name.as_str()), ("server", &name), ("i", &i.to_string())];
            w.histogram("h_seconds", "help", &labels, &[0.1; 16], &[1; 17], 1.0);
            w.counter("n_total", "help", &labels, i);
        }
        let requests = Encoder::new("wirespan", "h", 10).encode(&w, 20);
        assert_eq!(requests.iter().map(|r| r.1).sum::<usize>(), 5000);
        assert!(requests.iter().all(|r| r.1 <= MAX_POINTS && r.0.encoded_len() < 4 << 20));
        let units = requests.iter().flat_map(|r| &r.0.resource_metrics[0].scope_metrics[0].metrics);
        assert!(units.clone().any(|m| m.unit == "s") && units.clone().any(|m| m.unit.is_empty()));
    }
}
