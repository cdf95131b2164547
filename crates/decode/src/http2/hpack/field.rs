//! The header fields that wirespan looks at. Values of all others are neither decoded nor kept.

/// A header field by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Field {
    Authority,
    Method,
    Path,
    Scheme,
    Status,
    Protocol,
    ContentType,
    ContentLength,
    UserAgent,
    Host,
    GrpcStatus,
    GrpcMessage,
    Traceparent,
    B3,
    UberTraceId,
    Sw8,
    B3Flags,
    B3SpanId,
    B3TraceId,
    B3Sampled,
    RequestId,
    CorrelationId,
    ElasticProduct,
    OpenSearchVersion,
    /// A name that is not looked at.
    Other,
    /// A name that stands in a part of the dynamic table that was not seen.
    Unknown,
}

/// Number of fields with a name.
pub(crate) const FIELDS: usize = Field::Other as usize;

const NAMES: [(&str, Field); FIELDS] = [
    (":authority", Field::Authority),
    (":method", Field::Method),
    (":path", Field::Path),
    (":scheme", Field::Scheme),
    (":status", Field::Status),
    (":protocol", Field::Protocol),
    ("content-type", Field::ContentType),
    ("content-length", Field::ContentLength),
    ("user-agent", Field::UserAgent),
    ("host", Field::Host),
    ("grpc-status", Field::GrpcStatus),
    ("grpc-message", Field::GrpcMessage),
    ("traceparent", Field::Traceparent),
    ("b3", Field::B3),
    ("uber-trace-id", Field::UberTraceId),
    ("sw8", Field::Sw8),
    ("x-b3-flags", Field::B3Flags),
    ("x-b3-spanid", Field::B3SpanId),
    ("x-b3-traceid", Field::B3TraceId),
    ("x-b3-sampled", Field::B3Sampled),
    ("x-request-id", Field::RequestId),
    ("x-correlation-id", Field::CorrelationId),
    ("x-elastic-product", Field::ElasticProduct),
    ("x-opensearch-version", Field::OpenSearchVersion),
];

/// Fields of the trace context.
pub(crate) const CONTEXT: [Field; 10] = [
    Field::Traceparent,
    Field::B3,
    Field::UberTraceId,
    Field::Sw8,
    Field::B3Flags,
    Field::B3SpanId,
    Field::B3TraceId,
    Field::B3Sampled,
    Field::RequestId,
    Field::CorrelationId,
];

impl Field {
    /// The field of this name.
    pub(crate) fn of(name: &[u8]) -> Field {
        NAMES.iter().find(|(known, _)| known.as_bytes() == name).map_or(Field::Other, |(_, field)| *field)
    }

    /// Its name; empty for those without.
    pub(crate) fn name(self) -> &'static str {
        NAMES.get(self as usize).map_or("", |(name, _)| name)
    }

    /// Whether it is a pseudo-header of requests or responses.
    pub(crate) fn is_pseudo(self) -> bool {
        (self as usize) <= Field::Protocol as usize
    }

    /// Whether its value matters.
    pub(crate) fn is_wanted(self) -> bool {
        (self as usize) < FIELDS
    }
}

/// The static table (RFC 7541, appendix A), from index 1 on.
pub(super) fn fixed(index: usize) -> Option<(Field, &'static str)> {
    Some(match index {
        1 => (Field::Authority, ""),
        2 => (Field::Method, "GET"),
        3 => (Field::Method, "POST"),
        4 => (Field::Path, "/"),
        5 => (Field::Path, "/index.html"),
        6 => (Field::Scheme, "http"),
        7 => (Field::Scheme, "https"),
        8 => (Field::Status, "200"),
        9 => (Field::Status, "204"),
        10 => (Field::Status, "206"),
        11 => (Field::Status, "304"),
        12 => (Field::Status, "400"),
        13 => (Field::Status, "404"),
        14 => (Field::Status, "500"),
        16 => (Field::Other, "gzip, deflate"),
        28 => (Field::ContentLength, ""),
        31 => (Field::ContentType, ""),
        38 => (Field::Host, ""),
        58 => (Field::UserAgent, ""),
        _ if (1..=STATIC_ENTRIES).contains(&index) => (Field::Other, ""),
        _ => return None,
    })
}

/// Entries of the static table.
pub(super) const STATIC_ENTRIES: usize = 61;

/// Name of an entry of the static table; empty behind its end.
pub(super) fn fixed_name(index: usize) -> &'static str {
    const NAMES: [&str; STATIC_ENTRIES] = [
        ":authority",
        ":method",
        ":method",
        ":path",
        ":path",
        ":scheme",
        ":scheme",
        ":status",
        ":status",
        ":status",
        ":status",
        ":status",
        ":status",
        ":status",
        "accept-charset",
        "accept-encoding",
        "accept-language",
        "accept-ranges",
        "accept",
        "access-control-allow-origin",
        "age",
        "allow",
        "authorization",
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-length",
        "content-location",
        "content-range",
        "content-type",
        "cookie",
        "date",
        "etag",
        "expect",
        "expires",
        "from",
        "host",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "last-modified",
        "link",
        "location",
        "max-forwards",
        "proxy-authenticate",
        "proxy-authorization",
        "range",
        "referer",
        "refresh",
        "retry-after",
        "server",
        "set-cookie",
        "strict-transport-security",
        "transfer-encoding",
        "user-agent",
        "vary",
        "via",
        "www-authenticate",
    ];
    index.checked_sub(1).and_then(|i| NAMES.get(i)).copied().unwrap_or_default()
}
