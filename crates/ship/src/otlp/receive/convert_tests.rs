#![allow(clippy::unwrap_used)]

use super::*;
use crate::otlp::encode::key_value;
use crate::otlp::proto::{ArrayValue, Event, Link, ResourceSpans, Scope, ScopeSpans};

fn request(spans: Vec<proto::Span>) -> ExportRequest {
    let attributes = vec![
        key_value("service.name", "checkout"),
        key_value("host.name", "node-2"),
        key_value("process.pid", 99i64),
        key_value("telemetry.sdk.language", "python"),
        key_value("deployment.environment.name", "prod"),
    ];
    ExportRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(proto::Resource { attributes, dropped_attributes_count: 0 }),
            scope_spans: vec![ScopeSpans {
                scope: Some(Scope { name: "flask".into(), ..Scope::default() }),
                spans,
                schema_url: String::new(),
            }],
            schema_url: String::new(),
        }],
    }
}

fn server() -> proto::Span {
    proto::Span {
        trace_id: vec![7; 16],
        span_id: 0x0102_0304_0506_0708u64.to_be_bytes().to_vec(),
        parent_span_id: 9u64.to_be_bytes().to_vec(),
        name: "GET /cart/{id}".into(),
        kind: 2,
        start_time_unix_nano: 1000,
        end_time_unix_nano: 3000,
        attributes: vec![
            key_value("http.request.method", "GET"),
            key_value("http.response.status_code", 200i64),
            key_value("client.address", "10.0.0.9"),
            key_value("network.peer.address", "10.0.0.1"),
            key_value("network.peer.port", 5555i64),
            key_value("server.address", "shop.example"),
            key_value("thread.id", 12i64),
        ],
        ..proto::Span::default()
    }
}

fn convert_all(request: ExportRequest) -> Converted {
    convert(request, "me")
}

fn one(span: proto::Span) -> Span {
    let got = convert_all(request(vec![span]));
    assert!(got.rejected.is_empty(), "{got:?}");
    (*got.spans[0]).clone()
}

#[test]
fn a_server_span_of_an_sdk() {
    let s = one(server());
    assert_eq!((s.tap, s.kind, s.status), (TapSide::App, SpanKind::Server, Status::Ok));
    assert_eq!(s.id.to_string(), "0102030405060708");
    assert_eq!((s.trace_id, s.parent_span_id), (Some(TraceId([7; 16])), Some(SpanId(9))));
    assert_eq!((s.name().as_str(), &*s.operation, &*s.target), ("GET /cart/{id}", "GET", "/cart/{id}"));
    assert_eq!((s.start_ns, s.end_ns, s.pid, s.tid), (1000, 3000, 99, 12));
    assert_eq!((&*s.protocol, s.status_code), ("http", Some(200)));
    assert_eq!(s.tuple.client.to_string(), "10.0.0.1:5555", "the peer of the socket, not the one behind the proxy");
    assert_eq!(s.tuple.server, Endpoint::UNSPECIFIED, "a name is not an address");
    assert_eq!((&*s.resource.service, &*s.resource.host), ("checkout", "node-2"));
    let extra: Vec<&str> = s.resource.extra.iter().map(|(k, _)| &**k).collect();
    assert_eq!(extra, ["deployment.environment.name", "telemetry.sdk.language"]);
    assert!(s.attrs.contains(&("otel.scope.name".into(), "flask".into())));
}

#[test]
fn statuses_are_told_apart() {
    let with = |http: Option<i64>, code: i32| {
        let mut span = server();
        span.attributes =
            http.iter().flat_map(|n| [key_value("http.method", "GET"), key_value("http.status_code", *n)]).collect();
        span.status = Some(proto::Status { message: "why".into(), code });
        one(span).status
    };
    assert_eq!(with(Some(404), 0), Status::ClientError);
    assert_eq!(with(Some(404), 2), Status::ClientError);
    assert_eq!(with(Some(502), 0), Status::ServerError);
    assert_eq!(with(Some(200), 2), Status::ServerError);
    assert_eq!(with(None, 2), Status::ServerError);
    assert_eq!(with(None, 1), Status::Ok);
    assert_eq!(with(None, 0), Status::Unset);
}

/// The names of the stable conventions, of those between, and of those before.
#[test]
fn calls_are_known_by_old_and_new_names() {
    for (system, status) in [
        ("rpc.system.name", key_value("rpc.status_code", "UNAVAILABLE")),
        ("rpc.system.name", key_value("rpc.response.status_code", "UNAVAILABLE")),
        ("rpc.system", key_value("rpc.grpc.status_code", 14i64)),
    ] {
        let mut span = server();
        span.attributes = vec![key_value(system, "grpc"), status];
        let s = one(span);
        assert_eq!((&*s.protocol, s.status_code), ("grpc", Some(14)), "{system}");
    }
}

#[test]
fn bad_spans_cost_only_themselves() {
    let bad = |f: &dyn Fn(&mut proto::Span)| {
        let mut s = server();
        f(&mut s);
        s
    };
    let got = convert_all(request(vec![
        server(),
        bad(&|s| s.trace_id.clear()),
        bad(&|s| s.trace_id = vec![0; 16]),
        bad(&|s| s.span_id = vec![0; 8]),
        bad(&|s| s.span_id = vec![1; 9]),
        bad(&|s| s.start_time_unix_nano = 0),
        bad(&|s| s.end_time_unix_nano = 1),
    ]));
    assert_eq!(got.spans.len(), 2);
    assert_eq!(got.spans[1].duration_ns(), 0, "an end before the start is no duration");
    let (n, why) = got.rejection();
    assert_eq!(n, 5);
    assert!(why.contains("2 spans: span id is not 8 bytes, or zero"), "{why}");
}

#[test]
fn sizes_are_bounded_and_odd_values_become_text() {
    let mut span = server();
    span.attributes = (0..1000).map(|i| key_value(&format!("k{i}"), 1i64)).collect();
    span.name = "é".repeat(MAX_VALUE);
    assert_eq!(one(span.clone()).attrs.len(), MAX_ATTRS);
    assert!(one(span.clone()).operation.len() <= MAX_VALUE);
    let list = ArrayValue { values: vec![AnyValue { value: Some(proto::Value::Int(1)) }, AnyValue { value: None }] };
    let any = |v| Some(AnyValue { value: Some(v) });
    span.attributes = vec![
        KeyValue { key: "list".into(), value: any(proto::Value::Array(list)) },
        KeyValue { key: "bytes".into(), value: any(proto::Value::Bytes(vec![0xab])) },
        KeyValue { key: "none".into(), value: None },
        key_value("long", "é".repeat(MAX_VALUE)),
    ];
    let s = one(span);
    assert_eq!(s.attrs[0].1, Value::from("[1,null]"));
    assert_eq!(s.attrs[1].1, Value::from("\"ab\""));
    assert!(matches!(&s.attrs[2], (k, Value::Str(v)) if k == "long" && v.len() == MAX_VALUE));
}

#[test]
fn events_and_links_are_kept_within_bounds_and_exceptions_are_attributes_too() {
    let mut span = server();
    let event = |name: &str| Event {
        name: name.into(),
        attributes: vec![key_value("exception.type", "KeyError")],
        ..Event::default()
    };
    span.events = vec![event("exception"), Event { time_unix_nano: 7, ..event("cache miss") }];
    let link = Link { trace_id: vec![9; 16], span_id: vec![8; 8], ..Link::default() };
    span.links = vec![Link::default(), link];
    span.dropped_events_count = 5;
    let start_ns = span.start_time_unix_nano;
    let got = convert_all(request(vec![span.clone()]));
    assert!(got.spans[0].attrs.contains(&("exception.type".into(), "KeyError".into())));
    assert_eq!((got.events_dropped, got.links_dropped), (0, 1));
    let told = SdkTold::of(&got.spans[0]).unwrap();
    let noted: Vec<_> = told.events.iter().map(|e| (&*e.name, e.time_ns, e.attributes.len())).collect();
    assert_eq!(noted, [("exception", start_ns, 1), ("cache miss", 7, 1)]);
    assert_eq!(
        (told.links.len(), told.links[0].trace.0, told.events_left_out, told.links_left_out),
        (1, [9; 16], 5, 1)
    );

    span.events = vec![event("many"); MAX_TOLD + 3];
    let got = convert_all(request(vec![span.clone()]));
    assert_eq!((SdkTold::of(&got.spans[0]).unwrap().events.len(), got.events_dropped), (MAX_TOLD, 3));

    let long = Event { attributes: vec![key_value("k", "x".repeat(MAX_VALUE))], ..Event::default() };
    span.events = vec![long; 20];
    let got = convert_all(request(vec![span]));
    assert_eq!((SdkTold::of(&got.spans[0]).unwrap().events.len(), got.events_dropped), (15, 5));
}

#[test]
fn spans_of_this_process_do_not_go_round() {
    let own = |id: &str| {
        let mut r = request(vec![server(), server()]);
        r.resource_spans[0].resource.as_mut().unwrap().attributes.push(key_value(INSTANCE_KEY, id));
        convert(r, "me")
    };
    assert_eq!((own("me").spans.len(), own("me").rejection().0), (0, 2));
    assert_eq!(own("another").spans.len(), 2);
}
