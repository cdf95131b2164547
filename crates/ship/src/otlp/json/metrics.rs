//! Metrics as OTLP/JSON.

use super::{write_key_value, write_resource, write_scope, Writer};
use crate::otlp::proto::metrics::{
    Data, ExportMetrics, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, Value,
};

/// Appends a request as one line of JSON, without the line feed.
pub(crate) fn write_metrics(request: &ExportMetrics, out: &mut Vec<u8>) {
    let mut w = Writer { out };
    w.object(|w| w.list("resourceMetrics", &request.resource_metrics, resource_metrics));
}

fn resource_metrics(w: &mut Writer<'_>, r: &ResourceMetrics) {
    w.object(|w| {
        write_resource(w, r.resource.as_ref());
        w.list("scopeMetrics", &r.scope_metrics, |w, s| {
            w.object(|w| {
                write_scope(w, s.scope.as_ref());
                w.list("metrics", &s.metrics, metric);
            });
        });
    });
}

fn metric(w: &mut Writer<'_>, m: &Metric) {
    w.object(|w| {
        w.text("name", &m.name);
        w.text("description", &m.description);
        w.text("unit", &m.unit);
        match &m.data {
            None => {}
            Some(Data::Gauge(gauge)) => {
                w.key("gauge");
                w.object(|w| w.list("dataPoints", &gauge.data_points, number));
            }
            Some(Data::Sum(sum)) => {
                w.key("sum");
                w.object(|w| {
                    w.list("dataPoints", &sum.data_points, number);
                    w.number("aggregationTemporality", sum.aggregation_temporality.into());
                    if sum.is_monotonic {
                        w.key("isMonotonic");
                        w.out.extend_from_slice(b"true");
                    }
                });
            }
            Some(Data::Histogram(h)) => {
                w.key("histogram");
                w.object(|w| {
                    w.list("dataPoints", &h.data_points, histogram);
                    w.number("aggregationTemporality", h.aggregation_temporality.into());
                });
            }
        }
    });
}

fn number(w: &mut Writer<'_>, p: &NumberDataPoint) {
    w.object(|w| {
        w.list("attributes", &p.attributes, write_key_value);
        w.long("startTimeUnixNano", p.start_time_unix_nano);
        w.long("timeUnixNano", p.time_unix_nano);
        match p.value {
            None => {}
            Some(Value::Double(x)) => {
                w.key("asDouble");
                w.double(x);
            }
            Some(Value::Int(n)) => w.text("asInt", &n.to_string()),
        }
    });
}

fn histogram(w: &mut Writer<'_>, p: &HistogramDataPoint) {
    w.object(|w| {
        w.list("attributes", &p.attributes, write_key_value);
        w.long("startTimeUnixNano", p.start_time_unix_nano);
        w.long("timeUnixNano", p.time_unix_nano);
        w.long("count", p.count);
        if let Some(sum) = p.sum {
            w.key("sum");
            w.double(sum);
        }
        w.list("bucketCounts", &p.bucket_counts, |w, n| w.string(&n.to_string()));
        w.list("explicitBounds", &p.explicit_bounds, |w, x| w.double(*x));
    });
}
