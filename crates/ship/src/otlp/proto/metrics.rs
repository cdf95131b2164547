//! The messages of OTLP's metrics (`collector/metrics/v1`, `metrics/v1`), as far as wirespan writes them.

use super::{KeyValue, Resource, Scope};
use prost::{Message, Oneof};

/// `ExportMetricsServiceRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct ExportMetrics {
    /// Metrics by resource.
    #[prost(message, repeated, tag = "1")]
    pub resource_metrics: Vec<ResourceMetrics>,
}

/// Metrics of one resource.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceMetrics {
    /// The resource.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// Metrics by instrumentation scope.
    #[prost(message, repeated, tag = "2")]
    pub scope_metrics: Vec<ScopeMetrics>,
}

/// Metrics of one scope.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeMetrics {
    /// The scope.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    /// Metrics.
    #[prost(message, repeated, tag = "2")]
    pub metrics: Vec<Metric>,
}

/// A metric.
#[derive(Clone, PartialEq, Message)]
pub struct Metric {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// For people.
    #[prost(string, tag = "2")]
    pub description: String,
    /// After UCUM.
    #[prost(string, tag = "3")]
    pub unit: String,
    /// Points.
    #[prost(oneof = "Data", tags = "5, 7, 9")]
    pub data: Option<Data>,
}

/// Points by kind.
#[derive(Clone, PartialEq, Oneof)]
pub enum Data {
    /// Goes up and down.
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    /// Grows.
    #[prost(message, tag = "7")]
    Sum(Sum),
    /// Buckets.
    #[prost(message, tag = "9")]
    Histogram(Histogram),
}

/// [`Sum::aggregation_temporality`] of counts since the start.
pub const CUMULATIVE: i32 = 2;

/// A value at a time.
#[derive(Clone, PartialEq, Message)]
pub struct Gauge {
    /// Points.
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<NumberDataPoint>,
}

/// A count.
#[derive(Clone, PartialEq, Message)]
pub struct Sum {
    /// Points.
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<NumberDataPoint>,
    /// [`CUMULATIVE`].
    #[prost(int32, tag = "2")]
    pub aggregation_temporality: i32,
    /// Whether it only grows.
    #[prost(bool, tag = "3")]
    pub is_monotonic: bool,
}

/// A histogram with its own bounds.
#[derive(Clone, PartialEq, Message)]
pub struct Histogram {
    /// Points.
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<HistogramDataPoint>,
    /// [`CUMULATIVE`].
    #[prost(int32, tag = "2")]
    pub aggregation_temporality: i32,
}

/// A number of one series.
#[derive(Clone, PartialEq, Message)]
pub struct NumberDataPoint {
    /// Unix ns: since when it is counted.
    #[prost(fixed64, tag = "2")]
    pub start_time_unix_nano: u64,
    /// Unix ns.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    /// What the series is of.
    #[prost(message, repeated, tag = "7")]
    pub attributes: Vec<KeyValue>,
    /// The number.
    #[prost(oneof = "Value", tags = "4, 6")]
    pub value: Option<Value>,
}

/// A number.
#[derive(Clone, Copy, PartialEq, Oneof)]
pub enum Value {
    /// With a fraction.
    #[prost(double, tag = "4")]
    Double(f64),
    /// Whole.
    #[prost(sfixed64, tag = "6")]
    Int(i64),
}

/// A histogram of one series.
#[derive(Clone, PartialEq, Message)]
pub struct HistogramDataPoint {
    /// Unix ns: since when it is counted.
    #[prost(fixed64, tag = "2")]
    pub start_time_unix_nano: u64,
    /// Unix ns.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    /// All counts together.
    #[prost(fixed64, tag = "4")]
    pub count: u64,
    /// Sum of what was observed.
    #[prost(double, optional, tag = "5")]
    pub sum: Option<f64>,
    /// One more than bounds.
    #[prost(fixed64, repeated, tag = "6")]
    pub bucket_counts: Vec<u64>,
    /// Upper bounds, included.
    #[prost(double, repeated, tag = "7")]
    pub explicit_bounds: Vec<f64>,
    /// What the series is of.
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
}
