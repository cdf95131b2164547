//! Orders: the requests that change something.

use super::{get, ok, state};
use axum::body::{to_bytes, Body};
use axum::http::{Request, StatusCode};
use axum::Router;
use serde_json::{json, Value};
use std::net::SocketAddr;
use std::sync::Arc;
use tower::ServiceExt as _;
use wirespan_view::packets::{PacketsState, PacketsView};
use wirespan_view::{router, PacketOrder, PacketSource, Whose, WhyBegun, WhyOrder};

#[tokio::test]
async fn one_order_is_taken_from_its_own_pages_and_from_programs() {
    let source = |order: &WhyOrder| match &*order.threshold {
        "soon" => Err(("threshold", "`soon` is not a duration".to_string())),
        _ => Ok(WhyBegun { until_ns: order.service.len() as u64, processes: 2, agents: Vec::new() }),
    };
    let app = router(state().with_why(Some(Arc::new(source))));
    let ask = async |app: &Router, headers: &[(&str, &str)], body: &str| {
        let request = Request::builder().method("POST").uri("/api/v1/why").header("host", "localhost:9473");
        let request = headers.iter().fold(request, |r, (name, value)| r.header(*name, *value));
        let response = app.clone().oneshot(request.body(Body::from(body.to_string())).unwrap()).await.unwrap();
        let status = response.status();
        (status, to_bytes(response.into_body(), 1 << 20).await.unwrap())
    };
    let json = ("content-type", "application/json");
    let (status, body) = ask(&app, &[json], r#"{"service": "shop", "for": "2s"}"#).await;
    assert_eq!((status, &*body), (StatusCode::OK, &br#"{"until_ns":"4","processes":2}"#[..]));
    let own = ("origin", "http://localhost:9473");
    assert_eq!(ask(&app, &[json, own], r#"{"service": "shop"}"#).await.0, StatusCode::OK);
    for headers in [&[("content-type", "text/plain")][..], &[], &[json, ("origin", "http://shop.example")]] {
        let (status, _) = ask(&app, headers, r#"{"service": "shop"}"#).await;
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{headers:?}");
    }
    for (body, param) in [
        (r#"{"service": " "}"#, "service"),
        (r#"{"service": "shop", "threshold": "soon"}"#, "threshold"),
        (r#"{"services": "shop"}"#, ""),
    ] {
        let (status, answer) = ask(&app, &[json], body).await;
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!((status, &answer["error"]["param"]), (StatusCode::BAD_REQUEST, &param.into()), "{body}");
    }
    let idle = ask(&router(state()), &[json], r#"{"service": "shop"}"#).await;
    assert_eq!(idle.0, StatusCode::NOT_FOUND, "a server traces nothing");
    let closed = router(state().with_why(Some(Arc::new(|_: &WhyOrder| Ok(WhyBegun::default())))).with_token("s3cret"));
    assert_eq!(ask(&closed, &[json], r#"{"service": "shop"}"#).await.0, StatusCode::UNAUTHORIZED);
    let known = [json, ("authorization", "Bearer s3cret")];
    assert_eq!(ask(&closed, &known, r#"{"service": "shop"}"#).await.0, StatusCode::OK);
}

#[tokio::test]
async fn what_slow_requests_wait_for_is_ranked_and_orders_that_run_are_told() {
    let idle = router(state());
    let why = ok(&idle, "/api/v1/why?from=0&service=payment").await;
    // Each charge tells its waits: the slowest tenth stands beside the quicker half.
    assert!(why["requests"].as_u64() >= Some(10) && why["requests"] == why["recorded"], "{why}");
    assert_eq!((&why["compared"]["sides"], &why["takes_orders"]), (&"tenth".into(), &false.into()), "{why}");
    let ranked = why["compared"]["waits"]["ranked"].as_array().unwrap();
    let lock = ranked.iter().find(|wait| wait["kind"] == "lock").unwrap();
    assert!(lock["words"].as_str().unwrap().contains("held by thread ledger-writer"), "{lock}");
    assert_eq!(lock["slow"]["spans"], why["compared"]["slow"]["spans"], "{lock}");
    let none = ok(&idle, "/api/v1/why?from=0&service=nobody").await;
    assert_eq!((&none["requests"], &none["compared"], &none["recording"]), (&0.into(), &Value::Null, &json!([])));
    assert_eq!(get(&idle, "/api/v1/why?servce=x").await.0, StatusCode::BAD_REQUEST);

    let source = |order: &WhyOrder| {
        let until_ns = if order.time == "1ns" { 1 } else { u64::MAX / 2 };
        Ok(WhyBegun { until_ns, processes: 1, agents: Vec::new() })
    };
    let app = router(state().with_why(Some(Arc::new(source))));
    let order = async |order: Value| {
        let request = Request::builder().method("POST").uri("/api/v1/why").header("host", "localhost:9473");
        let request = request.header("content-type", "application/json").body(Body::from(order.to_string())).unwrap();
        assert_eq!(app.clone().oneshot(request).await.unwrap().status(), StatusCode::OK, "{order}");
        let told = ok(&app, "/api/v1/why?service=nobody").await;
        told["recording"].as_array().unwrap().iter().map(|one| one["endpoint"].as_str().unwrap().into()).collect()
    };
    let none: [String; 0] = [];
    let running: Vec<String> = order(json!({"service": "shop", "endpoint": "/cart"})).await;
    assert_eq!(running, ["/cart"]);
    let running: Vec<String> = order(json!({"service": "shop", "threshold": "50ms"})).await;
    assert_eq!(running, ["/cart", ""]);
    let running: Vec<String> = order(json!({"service": "shop", "endpoint": "/cart", "end": true})).await;
    assert_eq!(running, [""]);
    // Ended by its time; and one that records no waits is none.
    let running: Vec<String> = order(json!({"service": "shop", "for": "1ns"})).await;
    assert_eq!(running, none);
    let running: Vec<String> = order(json!({"service": "shop", "threshold": "off", "syscalls": "read"})).await;
    assert_eq!(running, none);
}

/// Runs a program by remembering it.
#[derive(Default)]
struct Programs(std::sync::Mutex<PacketsView>);

impl PacketSource for Programs {
    fn now(&self) -> Arc<PacketsView> {
        Arc::new(self.0.lock().unwrap().clone())
    }

    fn whose(&self, order: &PacketOrder) -> Result<Option<Whose>, (&'static str, String)> {
        match order.program.split_once(' ') {
            None if order.program == "wrong" => Err(("program", "it is wrong".into())),
            Some(("of", service)) => Ok(Some(Whose::Requests { service: Some(service.into()), endpoint: None })),
            Some(("trace", id)) => Ok(Some(Whose::Trace(id.into()))),
            _ => Ok(None),
        }
    }

    fn order(&self, order: &PacketOrder, servers: Vec<SocketAddr>) -> Result<(), (&'static str, String)> {
        let notes = servers.iter().map(ToString::to_string).collect();
        let state = if order.program.is_empty() { PacketsState::Ended } else { PacketsState::Running };
        *self.0.lock().unwrap() =
            PacketsView { state, program: order.program.clone(), notes, ..PacketsView::default() };
        Ok(())
    }
}

#[tokio::test]
async fn packet_programs_are_run_by_orders_of_own_pages() {
    let app = router(state().with_packets(Some(Arc::new(Programs::default()))));
    let post = async |app: &Router, more: Option<(&str, &str)>, body: &str| {
        let request = Request::builder().method("POST").uri("/api/v1/packets").header("host", "localhost:9473");
        let request = request.header("content-type", "application/json");
        let request = more.into_iter().fold(request, |r, (name, value)| r.header(name, value));
        let response = app.clone().oneshot(request.body(Body::from(body.to_string())).unwrap()).await.unwrap();
        let status = response.status();
        (status, serde_json::from_slice::<Value>(&to_bytes(response.into_body(), 1 << 20).await.unwrap()).unwrap())
    };
    let (status, now) = post(&app, None, r#"{"program": "filter: {port: 80}"}"#).await;
    assert_eq!((status, &now["state"]), (StatusCode::OK, &"running".into()), "{now}");
    assert_eq!(ok(&app, "/api/v1/packets").await["program"], "filter: {port: 80}");
    // The servers of a service are those of its spans.
    let (status, now) = post(&app, None, r#"{"program": "of payment"}"#).await;
    let servers: Vec<SocketAddr> =
        now["notes"].as_array().unwrap().iter().map(|s| s.as_str().unwrap().parse().unwrap()).collect();
    assert_eq!(status, StatusCode::OK);
    let found = ok(&app, "/api/v1/spans?from=0&service=payment&tap=server-process&limit=1").await;
    let one: SocketAddr = found["spans"][0]["server"].as_str().unwrap().parse().unwrap();
    assert!(servers.contains(&one) && servers.len() < 10, "{servers:?} {one}");
    assert_eq!(post(&app, None, r#"{"program": "of nobody"}"#).await.1["notes"], serde_json::json!([]));
    let id = found["spans"][0]["id"].as_str().unwrap();
    let (_, now) = post(&app, None, &format!(r#"{{"program": "trace {id}"}}"#)).await;
    assert!(now["notes"].as_array().unwrap().iter().any(|s| s == &one.to_string()), "{now}");
    assert_eq!(post(&app, None, r#"{"program": "trace 00000000000000ff"}"#).await.0, StatusCode::NOT_FOUND);
    post(&app, None, r#"{"program": "filter: {port: 80}"}"#).await;
    let (status, wrong) = post(&app, None, r#"{"program": "wrong"}"#).await;
    assert_eq!((status, &wrong["error"]["param"]), (StatusCode::BAD_REQUEST, &"program".into()));
    assert_eq!(post(&app, None, r#"{"prog": ""}"#).await.0, StatusCode::BAD_REQUEST);
    let (status, _) = post(&app, Some(("origin", "http://shop.example")), r#"{"program": ""}"#).await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(ok(&app, "/api/v1/packets").await["state"], "running", "a page of another site ends nothing");
    let idle = router(state());
    assert_eq!(ok(&idle, "/api/v1/packets").await["state"], "off");
    assert_eq!(post(&idle, None, r#"{"program": ""}"#).await.0, StatusCode::NOT_FOUND);
    let (status, agents) = get(&idle, "/api/v1/packets/agents?lines=3").await;
    assert_eq!((status, &agents["error"]["code"]), (StatusCode::NOT_FOUND, &"not_found".into()), "it is no server");
}
