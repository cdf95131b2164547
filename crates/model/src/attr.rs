//! Attributes: OpenTelemetry keys and values.

use compact_str::CompactString;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// Text of a span. Up to 24 bytes are kept in place, and most texts are that short. Spans are made on one thread and
/// freed on another, so that each allocation would be paid twice.
pub type Text = CompactString;

/// One OpenTelemetry attribute. Keys follow the semantic conventions (`http.request.method`, `db.operation.name`, …).
pub type Attr = (Cow<'static, str>, Value);

/// Attribute of a span whose cause shares its exchange with others: id of the span of that request or message.
pub const CAUSE_SPAN: &str = "wirespan.cause.span";

/// Attribute that carries the waits of a span within wirespan ([`crate::wait::SpanWaits`]); it is never shown as such.
pub const WAITS: &str = "wirespan.waits";

/// Attribute that carries the system calls of a span within wirespan ([`crate::syscalls::SpanCalls`]); never shown as
/// such.
pub const CALLS: &str = "wirespan.syscalls.recorded";

/// Attribute that carries the events and links of an SDK's span within wirespan ([`crate::SdkTold`]); never shown as
/// such.
pub const SDK_TOLD: &str = "wirespan.sdk.told";

/// Attribute of a span whose system calls are recorded, until they are known: the form in which they are shown.
pub const CALLS_AS: &str = "wirespan.syscalls.as";

/// Attribute of a span whose waits are recorded: why they are (`slow`, `error`, `sample`).
pub const WAIT_REASON: &str = "wirespan.wait.reason";

/// Attribute of a span whose waits are recorded, if metrics are: how often its threads were woken.
pub const WAKEUPS: &str = "wirespan.wait.wakeups";

/// How long its threads then were ready until they ran, the mean, ns.
pub const WAKEUP_LATENCY: &str = "wirespan.wait.wakeup_latency";

/// Attribute of an SDK's span whose time was explained: how its request or its thread was found (`context`, `call`,
/// `process`, `thread`).
pub const WAIT_EVIDENCE: &str = "wirespan.wait.evidence";

/// Attribute of a request: the thread that began to send its answer, if another one has read the request.
pub const ANSWER_THREAD: &str = "wirespan.answer.thread";

/// The same of the coroutine.
pub const ANSWER_COROUTINE: &str = "wirespan.answer.coroutine";

/// A value of an attribute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// Text, without secrets (masked by the parser).
    Str(Text),
    /// A signed integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A truth value.
    Bool(bool),
}

impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Value::Str(s.into())
    }
}
impl From<String> for Value {
    fn from(s: String) -> Self {
        Value::Str(s.into())
    }
}
impl From<i64> for Value {
    fn from(n: i64) -> Self {
        Value::Int(n)
    }
}
impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Value::Bool(b)
    }
}
impl From<f64> for Value {
    fn from(f: f64) -> Self {
        Value::Float(f)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Str(s) => f.write_str(s),
            Value::Int(n) => write!(f, "{n}"),
            Value::Float(x) => write!(f, "{x}"),
            Value::Bool(b) => write!(f, "{b}"),
        }
    }
}

impl Value {
    /// The value as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Value::Str(s) => s.as_str().into(),
            Value::Int(n) => (*n).into(),
            Value::Float(x) => (*x).into(),
            Value::Bool(b) => (*b).into(),
        }
    }
}
