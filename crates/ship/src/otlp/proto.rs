//! The messages of OTLP that wirespan reads and writes, field numbers as in opentelemetry-proto 1.x
//! (`collector/trace/v1`, `trace/v1`, `resource/v1`, `common/v1`; [`metrics`]). Written by hand: these few do not need
//! the SDK that the generated crate brings along.

pub mod metrics;

use prost::{Message, Oneof};

/// `ExportTraceServiceRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct ExportRequest {
    /// Spans by resource.
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

/// `ExportTraceServiceResponse`, and that of metrics.
#[derive(Clone, PartialEq, Message)]
pub struct ExportResponse {
    /// Set if not every span was taken.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<PartialSuccess>,
}

/// `ExportTracePartialSuccess`; for metrics the same with points.
#[derive(Clone, PartialEq, Message)]
pub struct PartialSuccess {
    /// Spans, or points, not taken.
    #[prost(int64, tag = "1")]
    pub rejected_spans: i64,
    /// Why, for people.
    #[prost(string, tag = "2")]
    pub error_message: String,
}

/// Spans of one resource.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceSpans {
    /// The resource.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// Spans by instrumentation scope.
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
    /// Schema of the resource.
    #[prost(string, tag = "3")]
    pub schema_url: String,
}

/// What made the spans.
#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    /// Attributes.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
    /// Attributes left out by the sender.
    #[prost(uint32, tag = "2")]
    pub dropped_attributes_count: u32,
}

/// Spans of one scope.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeSpans {
    /// The scope.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    /// Spans.
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<Span>,
    /// Schema of the spans.
    #[prost(string, tag = "3")]
    pub schema_url: String,
}

/// `InstrumentationScope`: the library that made the spans.
#[derive(Clone, PartialEq, Message)]
pub struct Scope {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Version.
    #[prost(string, tag = "2")]
    pub version: String,
    /// Attributes.
    #[prost(message, repeated, tag = "3")]
    pub attributes: Vec<KeyValue>,
    /// Attributes left out by the sender.
    #[prost(uint32, tag = "4")]
    pub dropped_attributes_count: u32,
}

/// A span.
#[derive(Clone, PartialEq, Message)]
pub struct Span {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    /// 8 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    /// W3C `tracestate`.
    #[prost(string, tag = "3")]
    pub trace_state: String,
    /// 8 bytes, or none for a root.
    #[prost(bytes = "vec", tag = "4")]
    pub parent_span_id: Vec<u8>,
    /// Name.
    #[prost(string, tag = "5")]
    pub name: String,
    /// 1 internal, 2 server, 3 client, 4 producer, 5 consumer.
    #[prost(int32, tag = "6")]
    pub kind: i32,
    /// Unix ns.
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    /// Unix ns.
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    /// Attributes.
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    /// Attributes left out by the sender.
    #[prost(uint32, tag = "10")]
    pub dropped_attributes_count: u32,
    /// Events.
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
    /// Events left out by the sender.
    #[prost(uint32, tag = "12")]
    pub dropped_events_count: u32,
    /// Links.
    #[prost(message, repeated, tag = "13")]
    pub links: Vec<Link>,
    /// Links left out by the sender.
    #[prost(uint32, tag = "14")]
    pub dropped_links_count: u32,
    /// Outcome.
    #[prost(message, optional, tag = "15")]
    pub status: Option<Status>,
    /// Bits 0–7: W3C trace flags.
    #[prost(fixed32, tag = "16")]
    pub flags: u32,
}

/// Something that happened during a span.
#[derive(Clone, PartialEq, Message)]
pub struct Event {
    /// Unix ns.
    #[prost(fixed64, tag = "1")]
    pub time_unix_nano: u64,
    /// Name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Attributes.
    #[prost(message, repeated, tag = "3")]
    pub attributes: Vec<KeyValue>,
    /// Attributes left out by the sender.
    #[prost(uint32, tag = "4")]
    pub dropped_attributes_count: u32,
}

/// Another span that has to do with this one.
#[derive(Clone, PartialEq, Message)]
pub struct Link {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    /// 8 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    /// W3C `tracestate`.
    #[prost(string, tag = "3")]
    pub trace_state: String,
    /// Attributes.
    #[prost(message, repeated, tag = "4")]
    pub attributes: Vec<KeyValue>,
    /// Attributes left out by the sender.
    #[prost(uint32, tag = "5")]
    pub dropped_attributes_count: u32,
    /// As in the span.
    #[prost(fixed32, tag = "6")]
    pub flags: u32,
}

/// Outcome of a span.
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    /// Text for people.
    #[prost(string, tag = "2")]
    pub message: String,
    /// 0 unset, 1 ok, 2 error.
    #[prost(int32, tag = "3")]
    pub code: i32,
}

/// [`Status::code`] of an error.
pub const STATUS_ERROR: i32 = 2;
/// [`Status::code`] of a success that somebody vouched for.
pub const STATUS_OK: i32 = 1;

/// An attribute.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// Key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// Any value; absent for null.
#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    /// The value.
    #[prost(oneof = "Value", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub value: Option<Value>,
}

/// Kinds of values.
#[derive(Clone, PartialEq, Oneof)]
pub enum Value {
    /// Text.
    #[prost(string, tag = "1")]
    String(String),
    /// Truth value.
    #[prost(bool, tag = "2")]
    Bool(bool),
    /// Integer.
    #[prost(int64, tag = "3")]
    Int(i64),
    /// Number.
    #[prost(double, tag = "4")]
    Double(f64),
    /// Values in order.
    #[prost(message, tag = "5")]
    Array(ArrayValue),
    /// Values by key.
    #[prost(message, tag = "6")]
    Map(KeyValueList),
    /// Bytes.
    #[prost(bytes = "vec", tag = "7")]
    Bytes(Vec<u8>),
}

/// Values in order.
#[derive(Clone, PartialEq, Message)]
pub struct ArrayValue {
    /// The values.
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<AnyValue>,
}

/// Values by key.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValueList {
    /// The values.
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<KeyValue>,
}

/// `google.rpc.Status`: the body of an error over HTTP.
#[derive(Clone, PartialEq, Message)]
pub struct RpcStatus {
    /// gRPC code.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// Text for people.
    #[prost(string, tag = "2")]
    pub message: String,
    /// Further facts, each a message with its type.
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
pub struct Any {
    /// Type of the message.
    #[prost(string, tag = "1")]
    pub type_url: String,
    /// The message, encoded.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// `google.rpc.RetryInfo`: the client may try again.
#[derive(Clone, PartialEq, Message)]
pub struct RetryInfo {
    /// After this pause.
    #[prost(message, optional, tag = "1")]
    pub retry_delay: Option<Delay>,
}

impl RetryInfo {
    /// Its name in [`Any`].
    pub const TYPE: &str = "type.googleapis.com/google.rpc.RetryInfo";
}

/// `google.protobuf.Duration`.
#[derive(Clone, PartialEq, Message)]
pub struct Delay {
    /// Seconds.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Nanoseconds.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}
