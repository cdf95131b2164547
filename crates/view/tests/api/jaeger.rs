//! The query APIs of Jaeger.

use super::{app, get, ok, sample, NOW};
use axum::http::StatusCode;
use serde_json::Value;
use std::sync::Arc;
use wirespan_model::{Resource, SdkEvent, SdkLink, SdkTold, Span, SpanId, SpanKind, Status, TapSide, TraceId};
use wirespan_view::{router, ViewState};

/// As Jaeger's own snapshots have it (`cmd/query/app/apiv3/snapshots`).
#[tokio::test]
async fn jaeger_version_3() {
    let app = app();
    let services = ok(&app, "/api/v3/services").await;
    assert!(services["services"].as_array().unwrap().contains(&"payment".into()), "{services}");
    let operations = ok(&app, "/api/v3/operations?service=cart&span_kind=client").await;
    let operations = operations["operations"].as_array().unwrap();
    assert!(!operations.is_empty() && operations.iter().all(|o| o["spanKind"] == "client" && o["name"].is_string()));
    let range = "query.start_time_min=1970-01-01T00:00:00Z&query.start_time_max=2036-01-01T00:00:00.000000001Z";
    let search = format!("/api/v3/traces?query.service_name=payment&query.num_traces=1&{range}&query.duration_min=1us");
    let found = ok(&app, &search).await;
    let spans = |answer: &Value| -> Vec<Value> {
        let groups = answer["result"]["resourceSpans"].as_array().unwrap().iter();
        let scopes = groups.flat_map(|g| g["scopeSpans"].as_array().unwrap());
        scopes.flat_map(|s| s["spans"].as_array().unwrap()).cloned().collect()
    };
    let one = spans(&found);
    let id = one[0]["traceId"].as_str().unwrap().to_string();
    assert!(id.len() == 32 && one.iter().all(|s| s["traceId"] == id.as_str()), "{found}");
    assert_eq!(one.iter().filter(|s| s.get("parentSpanId").is_none()).count(), 1, "one root");
    let again = ok(&app, &format!("/api/v3/traces/{id}")).await;
    assert_eq!(spans(&again).len(), one.len());
    // As the UI of Jaeger 2.19 asks for its list of traces.
    let camel = "query.startTimeMin=1970-01-01T00:00:00.000Z&query.startTimeMax=2036-01-01T00:00:00.000Z";
    let list = format!("/api/v3/trace-summaries?query.serviceName=payment&{camel}&query.searchDepth=1");
    let summaries = ok(&app, &list).await;
    let [summary] = &summaries["summaries"].as_array().unwrap()[..] else { panic!("{summaries}") };
    assert_eq!((&summary["traceId"], &summary["spanCount"]), (&id.as_str().into(), &one.len().into()), "{summary}");
    let root = one.iter().find(|s| s.get("parentSpanId").is_none()).unwrap();
    assert_eq!((&summary["rootOperationName"], &summary["orphanSpanCount"]), (&root["name"], &0.into()), "{summary}");
    assert_eq!(summary["minStartTimeUnixNano"], root["startTimeUnixNano"], "{summary}");
    let of_services = summary["services"].as_array().unwrap().iter().map(|s| s["spanCount"].as_u64().unwrap());
    assert_eq!(of_services.sum::<u64>(), one.len() as u64, "{summary}");
    let failed = one.iter().filter(|s| s["status"]["code"] == 2).count();
    assert_eq!(summary["errorSpanCount"], failed, "{summary}");
    let none = ok(&app, &format!("{list}&query.attributes=%7B%22http.route%22:%22/nowhere%22%7D")).await;
    assert_eq!(none["summaries"].as_array().map(Vec::len), Some(0), "{none}");
    // The name that its UI gives to an operation, and a duration as the description of the API has it.
    let named = |name: &str| format!("{list}&query.span_name={name}&query.duration_min=0.000001s");
    let operations = ok(&app, "/api/v3/operations?service=payment&spanKind=server").await;
    let operation = operations["operations"][0]["name"].as_str().unwrap().replace(' ', "%20");
    assert_eq!(ok(&app, &named(&operation)).await["summaries"].as_array().map(Vec::len), Some(1));
    assert_eq!(ok(&app, &named("nothing")).await["summaries"].as_array().map(Vec::len), Some(0));
    let calls = ok(&app, "/api/v3/dependencies?startTime=1970-01-01T00:00:00Z&endTime=2036-01-01T00:00:00Z").await;
    let call = |d: &&Value| d["parent"] == "web" && d["child"] == "cart";
    let count = calls["dependencies"].as_array().unwrap().iter().find(call).unwrap()["callCount"].as_str().unwrap();
    assert!(count.parse::<u64>().unwrap() > 10, "{calls}");
    let from = "/api/v3/dependencies?start_time=2036-01-01T00:00:00Z";
    for (path, status, part) in [
        (from.into(), StatusCode::BAD_REQUEST, "missing required parameter: endTime"),
        (format!("{from}&end_time=x"), StatusCode::BAD_REQUEST, "malformed parameter endTime"),
        (format!("{from}&end_time=1970-01-01T00:00:00Z"), StatusCode::BAD_REQUEST, "must be after"),
        (format!("/api/v3/traces/{}", "f".repeat(32)), StatusCode::NOT_FOUND, ""),
        (format!("{search}&query.operation_name=nothing"), StatusCode::NOT_FOUND, "No traces found"),
        ("/api/v3/traces?query.service_name=a".into(), StatusCode::BAD_REQUEST, "are required"),
        (format!("/api/v3/traces?{range}&query.num_traces=x"), StatusCode::BAD_REQUEST, "query.num_traces"),
        (format!("/api/v3/trace-summaries?{range}&query.attributes=x"), StatusCode::BAD_REQUEST, "not a JSON object"),
    ] {
        let (got, body) = get(&app, &path).await;
        assert_eq!((got, &body["error"]["httpCode"]), (status, &u64::from(status.as_u16()).into()), "{path}: {body}");
        assert!(body["error"]["message"].as_str().unwrap().contains(part), "{path}: {body}");
    }
}

#[tokio::test]
async fn jaeger() {
    let app = app();
    let services = ok(&app, "/api/services").await;
    assert_eq!(services["total"].as_u64().unwrap() as usize, services["data"].as_array().unwrap().len());
    assert_eq!(services["errors"], Value::Null);
    let operations = ok(&app, "/api/services/web/operations").await;
    assert!(operations["data"].as_array().unwrap().contains(&"POST /checkout".into()), "{operations}");
    let kinds = ok(&app, "/api/operations?service=cart&spanKind=client").await;
    assert!(kinds["data"].as_array().unwrap().iter().all(|o| o["spanKind"] == "client"));
    let tags = "%7B%22error%22%3A%22true%22%7D";
    let found =
        ok(&app, &format!("/api/traces?service=payment&limit=2&tags={tags}&start=0&end=2100000000000000")).await;
    let trace = &found["data"][0];
    let id = trace["traceID"].as_str().unwrap();
    assert_eq!(id.len(), 32);
    let spans = trace["spans"].as_array().unwrap();
    for s in spans {
        assert_eq!(s["traceID"], id);
        assert!(trace["processes"].get(s["processID"].as_str().unwrap()).is_some());
        assert_eq!(s["startTime"].as_u64().unwrap() / 1_000_000_000_000, 1799, "microseconds");
    }
    let ids: Vec<_> = spans.iter().map(|s| &s["spanID"]).collect();
    let children: Vec<_> = spans.iter().filter(|s| !s["references"].as_array().unwrap().is_empty()).collect();
    assert_eq!(children.len(), spans.len() - 1);
    for c in children {
        assert_eq!(c["references"][0]["refType"], "CHILD_OF");
        assert!(ids.contains(&&c["references"][0]["spanID"]));
    }
    let all = ok(&app, "/api/traces?service=web&limit=200&start=0&end=2100000000000000").await;
    let traces = all["data"].as_array().unwrap().iter();
    let logs = traces.flat_map(|t| t["spans"].as_array().unwrap()).flat_map(|s| s["logs"].as_array().unwrap());
    let fields: Vec<_> =
        logs.map(|log| (log["timestamp"].as_u64().unwrap() / 1_000_000_000_000, &log["fields"])).collect();
    let kind = serde_json::json!({"key": "event", "type": "string", "value": "wirespan.wait"});
    let has_kind = |fields: &Value| fields[1]["key"] == "wirespan.wait.kind" && fields[1]["type"] == "string";
    assert!(fields.iter().any(|(at, all)| *at == 1799 && all[0] == kind && has_kind(all)), "{fields:?}");
    let again = ok(&app, &format!("/api/traces/{id}")).await;
    assert_eq!(again["data"][0], *trace);
    let links = ok(&app, "/api/dependencies?endTs=1800000000000&lookback=86400000").await;
    assert!(links["data"]
        .as_array()
        .unwrap()
        .iter()
        .any(|d| d["parent"] == "web" && d["child"] == "cart" && d["callCount"].as_u64() > Some(10)));
    let (status, body) = get(&app, "/api/traces/00000000000000000000000000000001").await;
    assert_eq!((status, &body["errors"][0]["code"]), (StatusCode::NOT_FOUND, &404.into()));
    let (status, body) = get(&app, "/api/metrics/calls?service=web").await;
    assert_eq!((status, &body["errors"][0]["code"]), (StatusCode::NOT_IMPLEMENTED, &501.into()), "as its UI expects");
    let (status, body) = get(&app, "/api/traces").await;
    assert_eq!((status, &body["data"]), (StatusCode::BAD_REQUEST, &Value::Null));
}

#[tokio::test]
async fn what_an_sdk_told_is_there_in_both_versions() {
    let resource = |service: &str| Arc::new(Resource { service: service.into(), ..Resource::default() });
    let told = SdkTold {
        events: vec![SdkEvent {
            time_ns: NOW + 7_000,
            name: "looked".into(),
            attributes: vec![("row".into(), 3.into())],
        }],
        links: vec![SdkLink { trace: TraceId([9; 16]), span: SpanId(0xab), attributes: Vec::new() }],
        ..SdkTold::default()
    };
    let root = Span {
        id: SpanId(1),
        tap: TapSide::App,
        kind: SpanKind::Server,
        protocol: "http".into(),
        operation: "GET".into(),
        target: "/order".into(),
        status: Status::ServerError,
        error: "no stock".into(),
        start_ns: NOW,
        end_ns: NOW + 9_000,
        trace_id: Some(TraceId([3; 16])),
        attrs: told.attribute().into_iter().collect(),
        resource: resource("orders"),
        ..Span::default()
    };
    let plain = Span { attrs: Vec::new(), ..root.clone() };
    let inside = Span { id: SpanId(2), parent_span_id: Some(SpanId(1)), ..plain.clone() };
    let other = Span { id: SpanId(3), resource: resource("stock"), ..inside.clone() };
    let store = sample::store().unwrap();
    store.append([root, inside, other].map(Arc::new).into()).unwrap();
    let app = router(ViewState::new(Arc::clone(&store)));

    let id = TraceId([3; 16]).to_string();
    let first = ok(&app, &format!("/api/traces/{id}")).await["data"][0]["spans"][0].clone();
    assert_eq!(first["logs"][0]["timestamp"], NOW / 1000 + 7);
    assert_eq!(first["logs"][0]["fields"][0]["value"], "looked");
    assert_eq!(first["logs"][0]["fields"][1], serde_json::json!({"key": "row", "type": "int64", "value": 3}));
    let link = serde_json::json!({"refType": "FOLLOWS_FROM", "traceID": "09".repeat(16), "spanID": "00000000000000ab"});
    assert_eq!(first["references"], serde_json::json!([link]));
    let said = serde_json::json!({"key": "otel.status_description", "type": "string", "value": "no stock"});
    assert!(first["tags"].as_array().unwrap().contains(&said), "{first}");
    let derived = |tag: &Value| tag["key"] == "url.path" || tag["key"] == "error.type";
    assert!(!first["tags"].as_array().unwrap().iter().any(derived), "only what the SDK told: {first}");

    let short = Span { id: SpanId(4), trace_id: Some(TraceId(0xabc_u128.to_be_bytes())), ..plain };
    store.append(vec![Arc::new(short)]).unwrap();
    let found = ok(&app, "/api/traces/abc").await;
    assert_eq!(found["data"][0]["spans"][0]["spanID"], "0000000000000004", "without its leading zeros");

    let third = ok(&app, &format!("/api/v3/traces/{id}")).await;
    let spans = &third["result"]["resourceSpans"][0]["scopeSpans"][0]["spans"];
    assert_eq!(spans[0]["events"][0]["name"], "looked");
    assert_eq!(spans[0]["links"][0]["spanId"], "00000000000000ab");

    let calls = ok(&app, "/api/dependencies?endTs=1800000001000&lookback=86400000").await;
    let expected = serde_json::json!([{"parent": "orders", "child": "stock", "callCount": 1}]);
    assert_eq!(calls["data"], expected, "calls within a service are none");
}
