//! Columns → spans.

use super::attrs;
use super::schema::{place, Col, NameKey, COLUMNS};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int32Type, Int64Type, TimestampNanosecondType, UInt16Type, UInt32Type, UInt64Type, UInt8Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use wirespan_model::{
    Endpoint, Evidence, ExchangeRange, FiveTuple, Resource, Span, SpanId, SpanKind, Status, TapSide, TcpHealth,
    TraceId, Transport,
};

/// A batch of rows with any of the columns, names as dictionaries. A column that is absent reads as its default.
pub(crate) struct View {
    columns: [Option<ArrayRef>; COLUMNS.len()],
    rows: usize,
    resource: Option<([usize; 5], Arc<Resource>)>,
    /// Last address read from each of the two address columns.
    addresses: [Option<(usize, IpAddr)>; 2],
}

impl View {
    /// Looks at a batch.
    pub(crate) fn new(batch: &RecordBatch) -> View {
        let mut columns = [const { None }; COLUMNS.len()];
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            if let Some(place) = place(field.name()) {
                columns[place] = Some(column.clone());
            }
        }
        View { columns, rows: batch.num_rows(), resource: None, addresses: [None; 2] }
    }

    /// Looks at some columns of a batch; the others read as their default.
    pub(crate) fn only(batch: &RecordBatch, columns: &[Col]) -> View {
        let mut view = View::new(batch);
        for (place, column) in view.columns.iter_mut().enumerate() {
            if !columns.iter().any(|c| *c as usize == place) {
                *column = None;
            }
        }
        view
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn column(&self, col: Col) -> Option<&ArrayRef> {
        self.columns[col as usize].as_ref()
    }

    fn optional<T: ArrowPrimitiveType>(&self, col: Col, row: usize) -> Option<T::Native> {
        let array = self.column(col)?.as_primitive_opt::<T>()?;
        (!array.is_null(row)).then(|| array.value(row))
    }

    fn get<T: ArrowPrimitiveType>(&self, col: Col, row: usize) -> T::Native {
        self.optional::<T>(col, row).unwrap_or_default()
    }

    /// Place of a name in its dictionary.
    fn name_key(&self, col: Col, row: usize) -> usize {
        let Some(dict) = self.column(col).and_then(|c| c.as_dictionary_opt::<NameKey>()) else { return usize::MAX };
        dict.keys().value(row) as usize
    }

    /// Text of a name column.
    pub(crate) fn name(&self, col: Col, row: usize) -> &str {
        let Some(dict) = self.column(col).and_then(|c| c.as_dictionary_opt::<NameKey>()) else { return "" };
        dict.values().as_string::<i32>().value(dict.keys().value(row) as usize)
    }

    /// Text of a text column.
    pub(crate) fn text(&self, col: Col, row: usize) -> &str {
        self.optional_text(col, row).unwrap_or("")
    }

    fn optional_text(&self, col: Col, row: usize) -> Option<&str> {
        let array = self.column(col)?.as_string_opt::<i32>()?;
        (!array.is_null(row)).then(|| array.value(row))
    }

    /// Start, Unix ns.
    pub(crate) fn start_ns(&self, row: usize) -> u64 {
        self.get::<TimestampNanosecondType>(Col::Start, row) as u64
    }

    /// Duration, ns; 0 where the end lies before the start.
    pub(crate) fn duration_ns(&self, row: usize) -> u64 {
        self.get::<Int64Type>(Col::Duration, row).max(0) as u64
    }

    /// Kind.
    pub(crate) fn kind(&self, row: usize) -> SpanKind {
        SpanKind::from_code(self.get::<UInt8Type>(Col::Kind, row)).unwrap_or_default()
    }

    /// Outcome.
    pub(crate) fn status(&self, row: usize) -> Status {
        Status::from_code(self.get::<UInt8Type>(Col::Status, row)).unwrap_or_default()
    }

    /// Observation point.
    pub(crate) fn tap(&self, row: usize) -> TapSide {
        TapSide::from_code(self.get::<UInt8Type>(Col::Tap, row)).unwrap_or_default()
    }

    fn endpoint(&mut self, ip: Col, port: Col, row: usize) -> Endpoint {
        let (cache, key) = (usize::from(ip as usize == Col::ServerIp as usize), self.name_key(ip, row));
        let ip = match self.addresses[cache] {
            Some((same, ip)) if same == key => ip,
            _ => {
                let parsed = self.name(ip, row).parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
                self.addresses[cache] = Some((key, parsed));
                parsed
            }
        };
        Endpoint { ip, port: self.get::<UInt16Type>(port, row) }
    }

    /// The process that made the span. Consecutive spans of one process share the resource.
    fn resource(&mut self, row: usize) -> Arc<Resource> {
        const PARTS: [Col; 5] = [Col::Service, Col::Host, Col::Executable, Col::Container, Col::Resource];
        let keys = PARTS.map(|c| self.name_key(c, row));
        if let Some((same, resource)) = &self.resource {
            if *same == keys {
                return resource.clone();
            }
        }
        let [service, host, executable, container, extra] = PARTS.map(|c| self.name(c, row));
        let resource = Arc::new(Resource {
            service: service.into(),
            host: host.into(),
            executable: executable.into(),
            container: container.into(),
            extra: attrs::read_pairs(extra),
        });
        self.resource = Some((keys, resource.clone()));
        resource
    }

    /// The span of a row.
    pub(crate) fn span(&mut self, row: usize) -> Span {
        let start = self.get::<TimestampNanosecondType>(Col::Start, row);
        let end = start.wrapping_add(self.get::<Int64Type>(Col::Duration, row));
        let before_end = |ns: i64| end.wrapping_sub(ns) as u64;
        let first = self.optional::<UInt64Type>(Col::ExchangeFirst, row);
        let more = self.get::<UInt64Type>(Col::ExchangeMore, row);
        Span {
            id: SpanId(self.get::<UInt64Type>(Col::Id, row)),
            tap: self.tap(row),
            kind: self.kind(row),
            protocol: protocol(self.name(Col::Protocol, row)),
            start_ns: start as u64,
            response_ns: self.optional::<Int64Type>(Col::ResponseBeforeEnd, row).map_or(0, before_end),
            end_ns: end as u64,
            status: self.status(row),
            status_code: self.optional::<Int32Type>(Col::StatusCode, row),
            error: self.text(Col::Error, row).into(),
            operation: self.name(Col::Operation, row).into(),
            target: self.text(Col::Target, row).into(),
            request_bytes: self.get::<UInt64Type>(Col::RequestBytes, row),
            response_bytes: self.get::<UInt64Type>(Col::ResponseBytes, row),
            tuple: FiveTuple {
                transport: Transport::from_code(self.get::<UInt8Type>(Col::Transport, row)).unwrap_or_default(),
                client: self.endpoint(Col::ClientIp, Col::ClientPort, row),
                server: self.endpoint(Col::ServerIp, Col::ServerPort, row),
            },
            socket: self.get::<UInt64Type>(Col::Socket, row),
            pid: self.get::<UInt32Type>(Col::Pid, row),
            tid: self.get::<UInt32Type>(Col::Tid, row),
            coroutine: self.get::<UInt64Type>(Col::Coroutine, row),
            comm: self.name(Col::Comm, row).into(),
            netns: self.get::<UInt32Type>(Col::Netns, row),
            cgroup_id: self.get::<UInt64Type>(Col::CgroupId, row),
            host_id: self.get::<UInt64Type>(Col::HostId, row),
            exchange: first.map(|first| ExchangeRange { first, last: first.wrapping_add(more) }),
            cause: self.optional::<UInt64Type>(Col::Cause, row),
            cause_evidence: self.optional::<UInt8Type>(Col::CauseEvidence, row).and_then(Evidence::from_code),
            request_seq: self.optional::<UInt32Type>(Col::RequestSeq, row),
            response_seq: self.optional::<UInt32Type>(Col::ResponseSeq, row),
            message_id: self.optional::<UInt64Type>(Col::MessageId, row),
            trace_id: self.trace_id(row),
            parent_span_id: self.optional::<UInt64Type>(Col::ParentSpanId, row).map(SpanId),
            request_id: self.optional_text(Col::RequestId, row).map(Into::into),
            attrs: attrs::read(self.text(Col::Attributes, row)),
            tcp: TcpHealth {
                srtt_ns: self.get::<UInt64Type>(Col::SrttNs, row),
                retransmits: self.get::<UInt32Type>(Col::Retransmits, row),
                connect_ns: self.get::<UInt64Type>(Col::ConnectNs, row),
                queue_us: self.get::<UInt32Type>(Col::QueueUs, row),
                resets: self.get::<UInt32Type>(Col::Resets, row),
            },
            resource: self.resource(row),
        }
    }

    fn trace_id(&self, row: usize) -> Option<TraceId> {
        let array = self.column(Col::TraceId)?.as_fixed_size_binary_opt()?;
        if array.is_null(row) {
            return None;
        }
        array.value(row).try_into().ok().map(TraceId)
    }
}

/// Known protocol names need no allocation.
fn protocol(name: &str) -> Cow<'static, str> {
    const KNOWN: [&str; 8] = ["http", "redis", "dns", "tcp", "udp", "unix", "http2", "grpc"];
    match KNOWN.iter().find(|k| **k == name) {
        Some(known) => Cow::Borrowed(known),
        None => Cow::Owned(name.to_owned()),
    }
}
