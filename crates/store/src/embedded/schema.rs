//! The one list of a span's columns, in both forms: for the log and the memory segment (names as integers), and for
//! Parquet.

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::schema::types::ColumnPath;
use rustc_hash::FxHashMap;
use std::sync::{Arc, LazyLock};

/// Physical type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ty {
    U8,
    U16,
    U32,
    U64,
    I32,
    I64,
    /// Unix ns.
    Time,
    /// Text with few values: an integer in the log and in memory, a dictionary in Parquet.
    Name,
    /// Text with many values.
    Text,
    /// 16 bytes.
    Bin16,
}

/// How Parquet writes a column. Chosen by measurement, see `docs/store.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Differences between neighbours, bit-packed: times and small integers.
    Delta,
    /// Dictionary: few values.
    Dict,
    /// As it is: keys, which are random.
    Plain,
}

/// One column.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) ty: Ty,
    pub(crate) how: How,
    pub(crate) nullable: bool,
}

macro_rules! columns {
    ($($variant:ident $name:literal $ty:ident $how:ident $nullable:literal,)*) => {
        /// A column by its place.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Col { $($variant,)* }
        /// All columns, as [`Col`].
        pub(crate) const ALL: &[Col] = &[$(Col::$variant,)*];
        /// All columns, in the order of the file.
        pub(crate) const COLUMNS: &[Column] =
            &[$(Column { name: $name, ty: Ty::$ty, how: How::$how, nullable: $nullable },)*];
    };
}

columns! {
    Start "start_time" Time Delta false,
    Duration "duration_ns" I64 Delta false,
    ResponseBeforeEnd "response_before_end_ns" I64 Delta true,
    Service "service" Name Dict false,
    Tap "tap_side" U8 Delta false,
    Kind "span_kind" U8 Delta false,
    Protocol "protocol" Name Dict false,
    Operation "operation" Name Dict false,
    Target "target" Text Dict false,
    Status "status" U8 Delta false,
    StatusCode "status_code" I32 Dict true,
    Error "error" Text Dict true,
    RequestBytes "request_bytes" U64 Delta false,
    ResponseBytes "response_bytes" U64 Delta false,
    Transport "transport" U8 Delta false,
    ClientIp "client_ip" Name Dict false,
    ClientPort "client_port" U16 Delta false,
    ServerIp "server_ip" Name Dict false,
    ServerPort "server_port" U16 Dict false,
    Id "span_id" U64 Plain false,
    TraceId "trace_id" Bin16 Plain true,
    ParentSpanId "parent_span_id" U64 Plain true,
    RequestId "request_id" Text Plain true,
    Socket "socket" U64 Dict false,
    ExchangeFirst "exchange_first" U64 Delta true,
    ExchangeMore "exchange_more" U64 Delta true,
    Cause "cause" U64 Delta true,
    CauseEvidence "cause_evidence" U8 Delta true,
    RequestSeq "request_seq" U32 Plain true,
    ResponseSeq "response_seq" U32 Plain true,
    MessageId "message_id" U64 Delta true,
    Pid "pid" U32 Dict false,
    Tid "tid" U32 Dict false,
    Coroutine "coroutine" U64 Delta false,
    Comm "comm" Name Dict false,
    Netns "netns" U32 Dict false,
    CgroupId "cgroup_id" U64 Dict false,
    HostId "host_id" U64 Dict false,
    SrttNs "tcp_srtt_ns" U64 Delta false,
    Retransmits "tcp_retransmits" U32 Delta false,
    ConnectNs "tcp_connect_ns" U64 Delta false,
    QueueUs "tcp_queue_us" U32 Delta false,
    Resets "tcp_resets" U32 Delta false,
    Host "host" Name Dict false,
    Executable "executable" Name Dict false,
    Container "container" Name Dict false,
    Resource "resource" Name Dict false,
    Attributes "attributes" Text Plain false,
}

/// The first columns are those that searches read. The log keeps them apart from the others.
pub(crate) const HOT: usize = Col::StatusCode as usize + 1;

/// Columns from which the keys of a span are made.
pub(crate) const KEY_COLUMNS: &[Col] = &[
    Col::Id,
    Col::TraceId,
    Col::ParentSpanId,
    Col::RequestId,
    Col::ExchangeFirst,
    Col::ExchangeMore,
    Col::Cause,
    Col::HostId,
    Col::RequestSeq,
    Col::ResponseSeq,
    Col::MessageId,
    Col::Transport,
    Col::ClientIp,
    Col::ClientPort,
    Col::ServerIp,
    Col::ServerPort,
];

/// Columns that [`Store::scan_outline`](crate::Store::scan_outline) reads.
pub(crate) const OUTLINE_COLUMNS: &[Col] = &[
    Col::Start,
    Col::Duration,
    Col::ResponseBeforeEnd,
    Col::Service,
    Col::Tap,
    Col::Kind,
    Col::Protocol,
    Col::Operation,
    Col::Status,
    Col::StatusCode,
    Col::RequestBytes,
    Col::ResponseBytes,
    Col::Transport,
    Col::ClientIp,
    Col::ClientPort,
    Col::ServerIp,
    Col::ServerPort,
    Col::Id,
    Col::RequestSeq,
    Col::ResponseSeq,
    Col::Comm,
    Col::Netns,
    Col::HostId,
    Col::SrttNs,
    Col::Retransmits,
    Col::ConnectNs,
    Col::QueueUs,
    Col::Resets,
    Col::Host,
];

/// Columns that [`Store::scan_parents`](crate::Store::scan_parents) reads.
pub(crate) const PARENT_COLUMNS: &[Col] = &[Col::Start, Col::Service, Col::Tap, Col::Id, Col::ParentSpanId];

/// Rows per Parquet page: the unit of a point look-up.
pub(crate) const PAGE_ROWS: usize = 2048;
/// Rows per Parquet row group: bounds the memory of writing.
pub(crate) const GROUP_ROWS: usize = 64 * 1024;

/// Key type of the dictionaries.
pub(crate) type NameKey = arrow_array::types::UInt32Type;

fn field(c: &Column, names_as_integers: bool) -> Field {
    let ty = match c.ty {
        Ty::U8 => DataType::UInt8,
        Ty::U16 => DataType::UInt16,
        Ty::U32 => DataType::UInt32,
        Ty::U64 => DataType::UInt64,
        Ty::I32 => DataType::Int32,
        Ty::I64 => DataType::Int64,
        Ty::Time => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        Ty::Name if names_as_integers => DataType::UInt32,
        Ty::Name => DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8)),
        Ty::Text => DataType::Utf8,
        Ty::Bin16 => DataType::FixedSizeBinary(16),
    };
    Field::new(c.name, ty, c.nullable)
}

/// Schema of the log and the memory segment: names are integers.
pub(crate) static NARROW: LazyLock<SchemaRef> =
    LazyLock::new(|| Arc::new(Schema::new(COLUMNS.iter().map(|c| field(c, true)).collect::<Vec<_>>())));

/// Schema of Parquet and of queries: names are dictionaries.
pub(crate) static WIDE: LazyLock<SchemaRef> =
    LazyLock::new(|| Arc::new(Schema::new(COLUMNS.iter().map(|c| field(c, false)).collect::<Vec<_>>())));

/// Place of a column by its name.
pub(crate) fn place(name: &str) -> Option<usize> {
    static PLACES: LazyLock<FxHashMap<&'static str, usize>> =
        LazyLock::new(|| COLUMNS.iter().enumerate().map(|(i, c)| (c.name, i)).collect());
    PLACES.get(name).copied()
}

/// Numbers that packing makes as short as they can be. Compressing their pages would only cost time, and memory for one
/// compressor each. Measured with `bench_store`, which prints the bytes of each column.
const PACKED: [&str; 12] = [
    "span_id",
    "parent_span_id",
    "start_time",
    "duration_ns",
    "request_bytes",
    "response_bytes",
    "request_seq",
    "response_seq",
    "client_port",
    "tid",
    "tcp_srtt_ns",
    "tcp_queue_us",
];

/// How segments are written.
pub(crate) fn writer_properties() -> WriterProperties {
    let zstd = Compression::ZSTD(ZstdLevel::try_new(1).unwrap_or_default());
    let mut p: WriterPropertiesBuilder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(zstd)
        .set_created_by(format!("wirespan {}", env!("CARGO_PKG_VERSION")))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_write_batch_size(PAGE_ROWS)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_dictionary_page_size_limit(128 * 1024)
        .set_statistics_enabled(EnabledStatistics::None);
    for c in COLUMNS {
        let path = ColumnPath::from(c.name);
        p = p.set_column_dictionary_enabled(path.clone(), c.how == How::Dict);
        let integer = !matches!(c.ty, Ty::Name | Ty::Text | Ty::Bin16);
        let encoding = match c.how {
            How::Plain => Encoding::PLAIN,
            _ if integer => Encoding::DELTA_BINARY_PACKED,
            _ => Encoding::PLAIN,
        };
        p = p.set_column_encoding(path.clone(), encoding);
        if PACKED.contains(&c.name) {
            p = p.set_column_compression(path.clone(), Compression::UNCOMPRESSED);
        }
        // Per page for columns that searches prune by; per group for columns that look-ups skip when they are blank.
        let statistics = match c.name {
            "start_time" | "duration_ns" => EnabledStatistics::Page,
            // Of texts only the number of nulls: comparing each text with the least and the greatest so far would take
            // a fifth of the time of writing.
            "error" | "request_id" => EnabledStatistics::Chunk,
            _ if integer => EnabledStatistics::Chunk,
            _ => EnabledStatistics::None,
        };
        p = p.set_column_statistics_enabled(path, statistics);
    }
    p.build()
}
