#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;

fn written(request: &ExportRequest) -> String {
    let mut out = Vec::new();
    write_request(request, &mut out);
    String::from_utf8(out).unwrap()
}

fn value(v: Option<Value>) -> AnyValue {
    AnyValue { value: v }
}

/// A request with every field and every kind of value.
fn full() -> ExportRequest {
    let kv = |key: &str, v: Value| KeyValue { key: key.into(), value: Some(value(Some(v))) };
    let attributes = vec![
        kv("s", Value::String("quote\" back\\ line\n é \u{1}".into())),
        kv("b", Value::Bool(false)),
        kv("i", Value::Int(i64::MIN)),
        kv("d", Value::Double(-0.25)),
        kv("bytes", Value::Bytes(vec![0, 255, 254, 1])),
        kv("array", Value::Array(ArrayValue { values: vec![value(Some(Value::Int(0))), value(None)] })),
        kv("map", Value::Map(KeyValueList { values: vec![KeyValue { key: "x".into(), value: Some(value(None)) }] })),
    ];
    let event =
        Event { time_unix_nano: 3, name: "e".into(), attributes: attributes.clone(), dropped_attributes_count: 1 };
    let link = Link {
        trace_id: vec![0xab; 16],
        span_id: vec![0xcd; 8],
        trace_state: "a=b".into(),
        attributes: vec![],
        dropped_attributes_count: 2,
        flags: 0x301,
    };
    let span = Span {
        trace_id: vec![0x5b; 16],
        span_id: vec![0xee; 8],
        trace_state: "k=v".into(),
        parent_span_id: vec![0xef; 8],
        name: "n".into(),
        kind: 2,
        start_time_unix_nano: u64::MAX,
        end_time_unix_nano: 1,
        attributes: attributes.clone(),
        dropped_attributes_count: 3,
        events: vec![event],
        dropped_events_count: 4,
        links: vec![link],
        dropped_links_count: 5,
        status: Some(Status { message: "m".into(), code: 2 }),
        flags: 0x101,
    };
    ExportRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource { attributes: attributes.clone(), dropped_attributes_count: 6 }),
            scope_spans: vec![ScopeSpans {
                scope: Some(Scope { name: "lib".into(), version: "1".into(), attributes, dropped_attributes_count: 7 }),
                spans: vec![span],
                schema_url: "u".into(),
            }],
            schema_url: "v".into(),
        }],
    }
}

#[test]
fn everything_survives_the_way_there_and_back() {
    let text = written(&full());
    assert!(!text.contains('\n'), "one line");
    assert_eq!(read_request(text.as_bytes()).unwrap(), full());
}

#[test]
fn the_shape_is_that_of_the_specification() {
    let json: Json = serde_json::from_str(&written(&full())).unwrap();
    let span = &json["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    assert_eq!(span["traceId"], "5b".repeat(16), "lower-case hexadecimal");
    assert_eq!(span["startTimeUnixNano"], "18446744073709551615", "64-bit integers are strings");
    assert_eq!(span["kind"], 2, "enums are integers");
    assert_eq!(span["status"]["code"], 2);
    assert_eq!(span["droppedAttributesCount"], 3, "32-bit integers are numbers");
    let attrs = json["resourceSpans"][0]["resource"]["attributes"].as_array().unwrap();
    assert_eq!(attrs[2]["value"]["intValue"], i64::MIN.to_string());
    assert_eq!(attrs[4]["value"]["bytesValue"], "AP/+AQ==", "base64");
    let keys: Vec<&str> = span.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "traceId",
            "spanId",
            "traceState",
            "parentSpanId",
            "flags",
            "name",
            "kind",
            "startTimeUnixNano",
            "endTimeUnixNano",
            "attributes",
            "droppedAttributesCount",
            "events",
            "droppedEventsCount",
            "links",
            "droppedLinksCount",
            "status"
        ]
    );
}

/// The example of opentelemetry-proto: identifiers may be upper case.
#[test]
fn requests_of_others_are_read() {
    let request = read_request(
        br#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"my.service"}}]},
        "scopeSpans":[{"scope":{"name":"my.library"},"spans":[{"traceId":"5B8EFFF798038103D269B633813FC60C",
        "spanId":"EEE19B7EC3C1B174","parentSpanId":"EEE19B7EC3C1B173","name":"I'm a server span",
        "startTimeUnixNano":1544712660000000000,"endTimeUnixNano":"1544712661000000000","kind":"SPAN_KIND_SERVER",
        "status":{"code":"STATUS_CODE_ERROR"},"events":null,"newField":{"a":[1]},
        "attributes":[{"key":"a","value":{"intValue":7}},{"key":"b","value":{"unknownValue":1}},{"key":"c"},
        {"key":"d","value":{"doubleValue":"NaN"}}]}]}],"extra":1}]}"#,
    )
    .unwrap();
    let span = &request.resource_spans[0].scope_spans[0].spans[0];
    assert_eq!(span.trace_id[..2], [0x5b, 0x8e]);
    assert_eq!((span.kind, span.status.as_ref().unwrap().code), (2, 2));
    assert_eq!(span.start_time_unix_nano, 1_544_712_660_000_000_000);
    let values: Vec<_> = span.attributes.iter().map(|a| a.value.as_ref().and_then(|v| v.value.clone())).collect();
    assert_eq!(values[..3], [Some(Value::Int(7)), None, None]);
    assert!(matches!(values[3], Some(Value::Double(x)) if x.is_nan()));
    assert_eq!(read_request(b"{}").unwrap(), ExportRequest::default());
}

#[test]
fn errors_say_where() {
    let error = |text: &str| read_request(text.as_bytes()).unwrap_err().to_string();
    assert_eq!(error("[]"), "$: an object is expected");
    assert_eq!(error(r#"{"resourceSpans":{}}"#), "resourceSpans: an array is expected");
    let spans = |span: &str| error(&format!(r#"{{"resourceSpans":[{{}},{{"scopeSpans":[{{"spans":[{span}]}}]}}]}}"#));
    let at = "resourceSpans[1].scopeSpans[0].spans[0]";
    assert_eq!(spans(r#"{"traceId":"xyz"}"#), format!("{at}.traceId: hexadecimal digits are expected"));
    assert_eq!(spans(r#"{"traceId":"abc"}"#), format!("{at}.traceId: hexadecimal digits are expected"));
    assert_eq!(
        spans(r#"{"startTimeUnixNano":"-1"}"#),
        format!("{at}.startTimeUnixNano: nanoseconds are expected, as a string or a number")
    );
    assert_eq!(
        spans(r#"{"attributes":[{"key":"k","value":{"intValue":"1.5"}}]}"#),
        format!("{at}.attributes[0].value.intValue: a 64-bit integer is expected")
    );
    assert!(error("{\"resourceSpans\":").starts_with("$: EOF"));
    let deep = format!("{}{}", r#"{"resourceSpans":["#.repeat(200), "]}".repeat(200));
    assert!(error(&deep).contains("recursion"), "{}", error(&deep));
}

#[test]
fn a_partial_success_keeps_its_count_and_message() {
    let partial = PartialSuccess { rejected_spans: 3, error_message: "no".into() };
    let response = ExportResponse { partial_success: Some(partial) };
    let json = write_response(&response);
    assert_eq!(json.to_string(), r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"no"}}"#);
    assert_eq!(read_response(json.to_string().as_bytes()), response);
    assert_eq!(write_response(&ExportResponse::default()).to_string(), "{}");
    assert_eq!(read_response(b"<html>"), ExportResponse::default());
}

proptest! {
    #[test]
    fn bytes_survive_base64(bytes in proptest::collection::vec(any::<u8>(), 0..50)) {
        let mut request = full();
        let v = Value::Bytes(bytes);
        request.resource_spans[0].resource.as_mut().unwrap().attributes[0].value = Some(value(Some(v)));
        prop_assert_eq!(read_request(written(&request).as_bytes()).unwrap(), request);
    }

    #[test]
    fn strings_and_numbers_survive(s in ".*", n in any::<i64>(), x in any::<f64>()) {
        let mut request = full();
        let attrs = &mut request.resource_spans[0].scope_spans[0].spans[0].attributes;
        attrs[0].value = Some(value(Some(Value::String(s))));
        attrs[1].value = Some(value(Some(Value::Int(n))));
        attrs[2].value = Some(value(Some(Value::Double(x))));
        prop_assert_eq!(read_request(written(&request).as_bytes()).unwrap(), request);
    }

    #[test]
    fn no_damage_panics(at in 0usize..3000, byte in any::<u8>(), cut in 0usize..3000) {
        let mut text = written(&full()).into_bytes();
        let n = text.len();
        text[at % n] = byte;
        let _ = read_request(&text);
        prop_assert!(read_request(&text[..cut % n]).is_err());
    }
}
