#![allow(clippy::unwrap_used)]

use super::*;
use crate::otlp::json;
use prost::Message;
use wirespan_model::span::TcpHealth;
use wirespan_model::test_support::SpanBuilder;
use wirespan_model::{Evidence, FiveTuple, SpanKind, Status, TapSide, Transport};

fn resource(service: &str) -> Arc<Resource> {
    Arc::new(Resource {
        service: service.into(),
        host: "node-1".into(),
        executable: "/usr/bin/python3.11".into(),
        container: "c0ffee".into(),
        extra: vec![("k8s.pod.uid".into(), "u-1".into())],
    })
}

/// A request whose server fails, seen by the client and by the server.
fn failed_call() -> Trace {
    let mut client = SpanBuilder::client(0xa1)
        .request("http", "GET", "/cart")
        .time(1_700_000_000_000_000_000, 1_700_000_000_003_000_000)
        .response_at(1_700_000_000_002_000_000)
        .status(Status::ServerError, 503)
        .bytes(80, 120)
        .ends(([10, 0, 0, 1], 40000), ([10, 0, 0, 2], 8080))
        .process(41, 42, "pool-1")
        .sequence(4_000_000_000, None)
        .attr("http.request.method", "GET")
        .attr("server.address", "cart")
        .resource(resource("web"))
        .build();
    client.tcp = TcpHealth { srtt_ns: 150_000, retransmits: 1, queue_us: 310, ..TcpHealth::default() };
    let server = Span {
        id: SpanId(0x1122_3344_5566_7788),
        tap: TapSide::ServerProcess,
        kind: SpanKind::Server,
        pid: 77,
        tid: 77,
        comm: "python3".into(),
        error: "no stock".into(),
        resource: resource("cart"),
        tcp: TcpHealth::default(),
        request_seq: None,
        attrs: vec![],
        ..client.clone()
    };
    let link = ParentLink { parent: client.id, evidence: Evidence::Wire, confidence: 0.9 };
    Trace {
        id: TraceId(*b"0123456789abcdef"),
        spans: vec![
            TraceSpan { span: Arc::new(client), link: None, depth: 0, links: Vec::new() },
            TraceSpan { span: Arc::new(server), link: Some(link), depth: 1, links: Vec::new() },
        ],
        complete: true,
    }
}

/// Written by hand from the OTLP/JSON specification and the semantic conventions.
const EXPECTED: &str = r#"{"resourceSpans":[
{"resource":{"attributes":[
 {"key":"service.name","value":{"stringValue":"web"}},
 {"key":"host.name","value":{"stringValue":"node-1"}},
 {"key":"process.pid","value":{"intValue":"41"}},
 {"key":"process.executable.path","value":{"stringValue":"/usr/bin/python3.11"}},
 {"key":"process.executable.name","value":{"stringValue":"python3.11"}},
 {"key":"container.id","value":{"stringValue":"c0ffee"}},
 {"key":"k8s.pod.uid","value":{"stringValue":"u-1"}},
 {"key":"telemetry.sdk.name","value":{"stringValue":"wirespan"}},
 {"key":"telemetry.sdk.version","value":{"stringValue":"VERSION"}}]},
"scopeSpans":[{"scope":{"name":"wirespan","version":"VERSION"},"spans":[
 {"traceId":"30313233343536373839616263646566","spanId":"00000000000000a1","name":"GET /cart","kind":3,
 "startTimeUnixNano":"1700000000000000000","endTimeUnixNano":"1700000000003000000","attributes":[
  {"key":"http.request.method","value":{"stringValue":"GET"}},
  {"key":"server.address","value":{"stringValue":"cart"}},
  {"key":"url.path","value":{"stringValue":"/cart"}},
  {"key":"http.response.status_code","value":{"intValue":"503"}},
  {"key":"network.transport","value":{"stringValue":"tcp"}},
  {"key":"network.protocol.name","value":{"stringValue":"http"}},
  {"key":"network.type","value":{"stringValue":"ipv4"}},
  {"key":"client.address","value":{"stringValue":"10.0.0.1"}},
  {"key":"client.port","value":{"intValue":"40000"}},
  {"key":"server.port","value":{"intValue":"8080"}},
  {"key":"network.peer.address","value":{"stringValue":"10.0.0.2"}},
  {"key":"network.peer.port","value":{"intValue":"8080"}},
  {"key":"error.type","value":{"stringValue":"503"}},
  {"key":"thread.id","value":{"intValue":"42"}},
  {"key":"thread.name","value":{"stringValue":"pool-1"}},
  {"key":"wirespan.tap_side","value":{"stringValue":"client-process"}},
  {"key":"wirespan.status","value":{"stringValue":"server-error"}},
  {"key":"wirespan.request.bytes","value":{"intValue":"80"}},
  {"key":"wirespan.response.bytes","value":{"intValue":"120"}},
  {"key":"wirespan.first_byte_ns","value":{"intValue":"2000000"}},
  {"key":"wirespan.tcp.request_seq","value":{"intValue":"4000000000"}},
  {"key":"wirespan.tcp.srtt_ns","value":{"intValue":"150000"}},
  {"key":"wirespan.tcp.retransmits","value":{"intValue":"1"}},
  {"key":"wirespan.tcp.queue_ns","value":{"intValue":"310000"}}],
 "status":{"message":"server-error","code":2}}],"schemaUrl":"https://opentelemetry.io/schemas/1.45.0"}]},
{"resource":{"attributes":[
 {"key":"service.name","value":{"stringValue":"cart"}},
 {"key":"host.name","value":{"stringValue":"node-1"}},
 {"key":"process.pid","value":{"intValue":"77"}},
 {"key":"process.executable.path","value":{"stringValue":"/usr/bin/python3.11"}},
 {"key":"process.executable.name","value":{"stringValue":"python3.11"}},
 {"key":"container.id","value":{"stringValue":"c0ffee"}},
 {"key":"k8s.pod.uid","value":{"stringValue":"u-1"}},
 {"key":"telemetry.sdk.name","value":{"stringValue":"wirespan"}},
 {"key":"telemetry.sdk.version","value":{"stringValue":"VERSION"}}]},
"scopeSpans":[{"scope":{"name":"wirespan","version":"VERSION"},"spans":[
 {"traceId":"30313233343536373839616263646566","spanId":"1122334455667788","parentSpanId":"00000000000000a1",
 "name":"GET /cart","kind":2,
 "startTimeUnixNano":"1700000000000000000","endTimeUnixNano":"1700000000003000000","attributes":[
  {"key":"http.request.method","value":{"stringValue":"GET"}},
  {"key":"url.path","value":{"stringValue":"/cart"}},
  {"key":"http.response.status_code","value":{"intValue":"503"}},
  {"key":"network.transport","value":{"stringValue":"tcp"}},
  {"key":"network.protocol.name","value":{"stringValue":"http"}},
  {"key":"network.type","value":{"stringValue":"ipv4"}},
  {"key":"client.address","value":{"stringValue":"10.0.0.1"}},
  {"key":"client.port","value":{"intValue":"40000"}},
  {"key":"server.address","value":{"stringValue":"10.0.0.2"}},
  {"key":"server.port","value":{"intValue":"8080"}},
  {"key":"network.peer.address","value":{"stringValue":"10.0.0.1"}},
  {"key":"network.peer.port","value":{"intValue":"40000"}},
  {"key":"error.type","value":{"stringValue":"503"}},
  {"key":"wirespan.error.message","value":{"stringValue":"no stock"}},
  {"key":"thread.id","value":{"intValue":"77"}},
  {"key":"thread.name","value":{"stringValue":"python3"}},
  {"key":"wirespan.tap_side","value":{"stringValue":"server-process"}},
  {"key":"wirespan.status","value":{"stringValue":"server-error"}},
  {"key":"wirespan.request.bytes","value":{"intValue":"80"}},
  {"key":"wirespan.response.bytes","value":{"intValue":"120"}},
  {"key":"wirespan.first_byte_ns","value":{"intValue":"2000000"}},
  {"key":"wirespan.evidence","value":{"stringValue":"wire"}},
  {"key":"wirespan.confidence","value":{"doubleValue":0.9}}],
 "status":{"message":"no stock","code":2}}],"schemaUrl":"https://opentelemetry.io/schemas/1.45.0"}]}]}"#;

#[test]
fn a_trace_is_encoded_as_written_by_hand() {
    let request = encode_traces([&failed_call()]);
    let mut line = Vec::new();
    json::write_request(&request, &mut line);
    let expected = EXPECTED.replace("VERSION", env!("CARGO_PKG_VERSION")).replace("\n ", "\n").replace('\n', "");
    let expected = expected.replace(",  ", ",").replace("[ ", "[").replace("[ ", "[").replace(", {", ",{");
    assert_eq!(String::from_utf8(line).unwrap(), expected.replace(", \"", ",\""));
}

/// The field numbers are checked against bytes written by hand, because a round trip through `proto.rs` would not
/// notice a wrong number.
#[test]
fn protobuf_bytes_are_those_of_the_schema() {
    let span = proto::Span {
        trace_id: vec![1; 16],
        span_id: vec![2; 8],
        name: "n".into(),
        kind: 3,
        start_time_unix_nano: 5,
        end_time_unix_nano: 6,
        status: Some(proto::Status { message: "m".into(), code: 2 }),
        attributes: vec![key_value("k", 7i64), key_value("x", 0.5)],
        flags: 1,
        ..proto::Span::default()
    };
    let mut want = vec![0x0a, 16];
    want.extend([1; 16]);
    want.extend([0x12, 8]);
    want.extend([2; 8]);
    want.extend([0x2a, 1, b'n', 0x30, 3, 0x39, 5, 0, 0, 0, 0, 0, 0, 0, 0x41, 6, 0, 0, 0, 0, 0, 0, 0]);
    want.extend([0x4a, 7, 0x0a, 1, b'k', 0x12, 2, 0x18, 7]);
    want.extend([0x4a, 14, 0x0a, 1, b'x', 0x12, 9, 0x21, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f]);
    want.extend([0x7a, 5, 0x12, 1, b'm', 0x18, 2, 0x85, 0x01, 1, 0, 0, 0]);
    assert_eq!(span.encode_to_vec(), want);
    assert_eq!(proto::Span::decode(&want[..]).unwrap(), span);
}

fn attrs_of(span: Span) -> Vec<String> {
    let trace = Trace {
        id: TraceId([1; 16]),
        spans: vec![TraceSpan { span: Arc::new(span), link: None, depth: 0, links: Vec::new() }],
        complete: false,
    };
    let request = encode_traces([&trace]);
    request.resource_spans[0].scope_spans[0].spans[0].attributes.iter().map(|a| a.key.clone()).collect()
}

#[test]
fn what_is_not_known_is_not_claimed() {
    let keys = attrs_of(Span { id: SpanId(1), protocol: "tcp".into(), ..Span::default() });
    assert_eq!(
        keys,
        [
            "wirespan.tap_side",
            "wirespan.status",
            "wirespan.request.bytes",
            "wirespan.response.bytes",
            "wirespan.trace.incomplete"
        ]
    );
    let unix = FiveTuple { transport: Transport::UnixStream, ..FiveTuple::default() };
    let keys = attrs_of(Span { id: SpanId(1), protocol: "http".into(), tuple: unix, ..Span::default() });
    assert_eq!(&keys[..2], ["network.transport", "network.protocol.name"]);
    assert!(!keys.iter().any(|k| k.ends_with("address")));
    let app = attrs_of(Span { id: SpanId(1), tap: TapSide::App, ..Span::default() });
    assert_eq!(app, ["wirespan.tap_side", "wirespan.trace.incomplete"]);
}

#[test]
fn a_client_error_is_the_clients_error_only() {
    let mut trace = failed_call();
    for s in &mut trace.spans {
        s.span = Arc::new(Span { status: Status::ClientError, status_code: Some(404), ..(*s.span).clone() });
    }
    let request = encode_traces([&trace]);
    let codes: Vec<i32> = request
        .resource_spans
        .iter()
        .map(|r| r.scope_spans[0].spans[0].status.as_ref().map_or(-1, |s| s.code))
        .collect();
    assert_eq!(codes, [STATUS_ERROR, 0]);
}

#[test]
fn spans_without_assembly_keep_the_carried_context() {
    let carried =
        Span { id: SpanId(1), trace_id: Some(TraceId([9; 16])), parent_span_id: Some(SpanId(5)), ..Span::default() };
    let spans = [Arc::new(carried), Arc::new(Span { id: SpanId(2), ..Span::default() })];
    let request = encode_spans(&spans);
    assert_eq!(request.resource_spans.len(), 1, "one resource, one group");
    let out = &request.resource_spans[0].scope_spans[0].spans;
    assert_eq!((&out[0].trace_id, &out[0].parent_span_id), (&vec![9; 16], &5u64.to_be_bytes().to_vec()));
    assert_eq!(out[1].trace_id.len(), 16);
    assert!(out[1].parent_span_id.is_empty());
}

#[test]
fn a_root_keeps_the_parent_that_others_export() {
    let mut trace = failed_call();
    let parents = |trace: &Trace| -> Vec<u64> {
        let request = encode_traces([trace]);
        let spans = request.resource_spans.iter().flat_map(|r| &r.scope_spans).flat_map(|s| &s.spans);
        spans.map(|s| s.parent_span_id.iter().fold(0, |n, b| n << 8 | u64::from(*b))).collect()
    };
    let mut carry = |parent, own_trace| {
        let mut root = Span::clone(&trace.spans[0].span);
        root.trace_id = Some(if own_trace { trace.id } else { TraceId([1; 16]) });
        root.parent_span_id = Some(parent);
        trace.spans[0].span = Arc::new(root);
        parents(&trace)
    };
    let child = 0xa1;
    assert_eq!(carry(SpanId(5), true), [5, child], "an SDK's span, seen elsewhere");
    assert_eq!(carry(SpanId(5), false), [0, child], "the parent is of another trace");
    assert_eq!(carry(SpanId(0x1122_3344_5566_7788), true), [0, child], "its own child is not its parent");
}
