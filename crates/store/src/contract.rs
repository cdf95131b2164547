//! The interface of every store, independent of its storage.

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use wirespan_model::{Flow, Key, Span, SpanId, TimeRange};

/// Order of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Newest first.
    #[default]
    Newest,
    /// Slowest first.
    Slowest,
}

/// A search for spans. All given conditions must hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Query {
    /// Start time of the span.
    pub range: TimeRange,
    /// `service.name` equals.
    pub service: Option<String>,
    /// Operation (`GET`) equals, or the whole name (`GET /cart`).
    pub operation: Option<String>,
    /// Target contains.
    pub endpoint: Option<String>,
    /// Protocol equals.
    pub protocol: Option<String>,
    /// Status name equals (`ok`, `server-error`, …), or `error` for any.
    pub status: Option<String>,
    /// Observation point equals (`server-process`, …).
    pub tap: Option<String>,
    /// Shortest duration, ns.
    pub min_duration_ns: Option<u64>,
    /// Longest duration, ns.
    pub max_duration_ns: Option<u64>,
    /// Attributes that must equal, compared as text.
    pub attributes: Vec<(String, String)>,
    /// Order.
    pub order: Order,
    /// Most spans returned.
    pub limit: usize,
}

impl Default for Query {
    fn default() -> Self {
        Query {
            range: TimeRange::ALL,
            service: None,
            operation: None,
            endpoint: None,
            protocol: None,
            status: None,
            tap: None,
            min_duration_ns: None,
            max_duration_ns: None,
            attributes: Vec::new(),
            order: Order::Newest,
            limit: 100,
        }
    }
}

/// Field whose values can be suggested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Field {
    /// `service.name`.
    Service,
    /// Operation.
    Operation,
    /// Target.
    Endpoint,
    /// Protocol.
    Protocol,
    /// Attribute keys.
    AttributeKey,
}

/// State of a store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// Spans that can be found.
    pub spans: u64,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// Bytes of memory that spans and flows take in a store without a directory; 0 if it has one.
    pub memory_bytes: u64,
    /// Start of the oldest span, Unix ns; 0 if empty.
    pub oldest_ns: u64,
    /// Start of the newest span, Unix ns; 0 if empty.
    pub newest_ns: u64,
    /// Why nothing is written at present (`disk full: …`), if so.
    pub stopped: Option<String>,
    /// Whether the store is only looked at: it never writes.
    pub looked_at: bool,
    /// Spans that [`Store::append`] refused since the start. Its caller knows which of them it offered again.
    pub refused: u64,
    /// Spans forgotten since the start, by reason.
    pub dropped: Vec<(String, u64)>,
    /// Files that are missing or damaged, with what is wrong. Everything else can be read.
    pub damaged: Vec<String>,
}

/// Errors of a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system reported an error.
    #[error("{context}: {source}")]
    Io {
        /// The operation that failed, and its file.
        context: String,
        /// The error.
        source: std::io::Error,
    },
    /// Nothing is written until there is room again. None of the spans was taken: the caller may offer them again.
    #[error("the store is not writing: {0}")]
    Stopped(String),
    /// A file is damaged.
    #[error("{file}: {what}")]
    Corrupt {
        /// File.
        file: String,
        /// The damage.
        what: String,
    },
    /// A query that cannot be answered; says which part.
    #[error("query: {0}")]
    Query(String),
}

/// Keeps spans and finds them again. All methods may be called from several threads.
pub trait Store: Send + Sync {
    /// Adds all of these spans, or none if this returns an error. They can be found when this returns; they survive a
    /// crash at most one second later.
    fn append(&self, spans: Vec<Arc<Span>>) -> Result<(), StoreError>;
    /// Spans that have any of the keys and start in the range, no duplicates, at most `limit`.
    fn find(&self, keys: &[Key], range: TimeRange, limit: usize) -> Result<Vec<Arc<Span>>, StoreError>;
    /// One span.
    fn span(&self, id: SpanId) -> Result<Option<Arc<Span>>, StoreError>;
    /// Search.
    fn search(&self, query: &Query) -> Result<Vec<Arc<Span>>, StoreError>;
    /// Values of a field with this prefix (any case), most frequent first.
    fn suggest(&self, field: Field, prefix: &str, range: TimeRange, limit: usize) -> Result<Vec<String>, StoreError>;
    /// Calls `visit` for each span that starts in the range, in any order. For aggregations (map, RED).
    fn scan(&self, range: TimeRange, visit: &mut dyn FnMut(&Span)) -> Result<(), StoreError>;
    /// As [`Store::scan`], but the spans may have only the fields that maps and metrics need, and the others at their
    /// default. Needed are: id, times, tap side, kind, protocol, operation, status, bytes, five-tuple, TCP sequence
    /// numbers, thread name, host id, network namespace, TCP health, and of the resource the service and the host.
    fn scan_outline(&self, range: TimeRange, visit: &mut dyn FnMut(&Span)) -> Result<(), StoreError> {
        self.scan(range, visit)
    }
    /// As [`Store::scan`], but the spans may have only id, tap side, service and parent span id.
    fn scan_parents(&self, range: TimeRange, visit: &mut dyn FnMut(&Span)) -> Result<(), StoreError> {
        self.scan(range, visit)
    }
    /// Adds flows. They can be found when this returns; they survive a crash at most one second later. A store that
    /// keeps no flows returns an error.
    fn append_flows(&self, _flows: &[Flow]) -> Result<(), StoreError> {
        Err(StoreError::Stopped("this store keeps no flows".into()))
    }
    /// Calls `visit` for each flow whose window touches the range.
    fn flows(&self, _range: TimeRange, _visit: &mut dyn FnMut(&Flow)) -> Result<(), StoreError> {
        Ok(())
    }
    /// Makes everything appended durable.
    fn flush(&self) -> Result<(), StoreError>;
    /// State.
    fn status(&self) -> StoreStatus;
}
