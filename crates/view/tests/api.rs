//! The API over HTTP's own types: what it answers to good and bad requests.
#![allow(clippy::unwrap_used)]

#[path = "../examples/sample/mod.rs"]
mod sample;

#[path = "api/jaeger.rs"]
mod jaeger;
#[path = "api/orders.rs"]
mod orders;

use axum::body::{to_bytes, Body};
use axum::http::{Request, StatusCode};
use axum::response::Response;
use axum::Router;
use serde_json::Value;
use std::sync::Arc;
use tower::ServiceExt;
use wirespan_model::event::Role;
use wirespan_model::{Flow, FlowCounts, FlowKey, Transport};
use wirespan_view::{router, AgentStatus, Counter, Hosts, Stage, ViewState};

const NOW: u64 = 1_800_000_000_000_000_000;
const DAY: &str = "from=0&to=2100000000000000000";

fn state() -> ViewState {
    let store = sample::store().unwrap();
    store.append(sample::Shop::day(NOW, 40)).unwrap();
    ViewState::new(store)
}

fn app() -> Router {
    router(state())
}

async fn send(app: &Router, method: &str, path: &str, host: &str) -> Response {
    let request = Request::builder().method(method).uri(path).header("host", host).body(Body::empty()).unwrap();
    app.clone().oneshot(request).await.unwrap()
}

async fn get(app: &Router, path: &str) -> (StatusCode, Value) {
    let response = send(app, "GET", path, "127.0.0.1:7000").await;
    let status = response.status();
    let body = to_bytes(response.into_body(), 1 << 26).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into()))
}

async fn ok(app: &Router, path: &str) -> Value {
    let (status, body) = get(app, path).await;
    assert_eq!(status, StatusCode::OK, "{path}: {body}");
    body
}

#[tokio::test]
async fn a_token_opens_the_view_by_header_by_link_and_by_cookie() {
    let app = router(state().with_token("s3cret"));
    let ask = async |path: &str, header: Option<(&str, &str)>| {
        let mut request = Request::builder().uri(path).header("host", "127.0.0.1");
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    };
    for path in ["/", "/api/v1/status", "/metrics", "/api/services", "/api/v1/status?token=wrong"] {
        assert_eq!(ask(path, None).await.status(), StatusCode::UNAUTHORIZED, "{path}");
    }
    assert_eq!(ask("/healthz", None).await.status(), StatusCode::OK);
    assert_eq!(ask("/metrics", Some(("authorization", "Bearer wrong!"))).await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(ask("/metrics", Some(("authorization", "Bearer s3cret"))).await.status(), StatusCode::OK);
    let linked = ask("//evil.example/?token=s3cret&a=b%26", None).await;
    assert_eq!(linked.status(), StatusCode::SEE_OTHER);
    assert_eq!(linked.headers()["location"], "/evil.example/?a=b%26");
    let cookie = linked.headers()["set-cookie"].to_str().unwrap().to_string();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    assert_eq!(ask("/api/v1/status", Some(("cookie", cookie))).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn spans_are_found_by_every_condition() {
    let app = app();
    let found = ok(&app, &format!("/api/v1/spans?{DAY}&service=cart&protocol=redis&limit=3")).await;
    let spans = found["spans"].as_array().unwrap();
    assert_eq!((spans.len(), &found["limited"]), (3, &Value::Bool(true)));
    for span in spans {
        assert_eq!(span["service"], "cart");
        assert_eq!(span["tap"], "client-process");
        assert_eq!(span["attributes"]["db.system.name"], "redis");
        assert!(span["start_ns"].as_str().unwrap().len() == 19, "times are text: {span}");
        assert!(span["duration_ns"].is_number());
    }
    let q = "service%3Dweb%20status%3Derror%20duration%3E10ms%20http.route%3D%2Fcheckout";
    let found = ok(&app, &format!("/api/v1/spans?q={q}")).await;
    let spans = found["spans"].as_array().unwrap();
    assert!(!spans.is_empty());
    assert!(spans.iter().all(|s| s["error"] == true && s["attributes"]["http.route"] == "/checkout"), "{spans:?}");
}

#[tokio::test]
async fn traces_are_grouped_and_whole() {
    let app = app();
    let found = ok(&app, &format!("/api/v1/traces?{DAY}&service=redis&limit=5")).await;
    let traces = found["traces"].as_array().unwrap();
    assert_eq!(traces.len(), 5);
    let ids: std::collections::BTreeSet<_> = traces.iter().map(|t| t["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 5, "each trace once");
    for t in traces {
        assert_ne!(t["service"], "redis", "the root is a caller: {t}");
        assert!(t["matched"].as_array().is_some_and(|m| !m.is_empty()));
        let whole = ok(&app, &format!("/api/v1/trace/{}", t["id"].as_str().unwrap())).await;
        assert_eq!(whole["id"], t["id"]);
        assert_eq!(whole["spans"].as_array().unwrap().len() as u64, t["spans"].as_u64().unwrap());
    }
}

#[tokio::test]
async fn the_same_trace_comes_from_each_of_its_spans() {
    let app = app();
    let found = ok(&app, &format!("/api/v1/traces?{DAY}&service=catalog&limit=1")).await;
    let whole = ok(&app, &format!("/api/v1/trace/{}", found["traces"][0]["id"].as_str().unwrap())).await;
    let spans = whole["spans"].as_array().unwrap();
    assert!(spans.len() >= 9, "{}", spans.len());
    assert_eq!(spans[0]["depth"], 0);
    assert!(spans[0].get("parent").is_none());
    for s in spans {
        let id = s["span"]["id"].as_str().unwrap();
        assert_eq!(ok(&app, &format!("/api/v1/trace/{id}")).await, whole);
        assert_eq!(ok(&app, &format!("/api/v1/span/{id}")).await, s["span"]);
    }
    let evidence: Vec<_> = spans.iter().filter_map(|s| s["parent"]["evidence"].as_str()).collect();
    assert!(evidence.contains(&"wire") && evidence.contains(&"thread"), "{evidence:?}");
}

#[tokio::test]
async fn a_thousand_spans() {
    let app = app();
    let found = ok(&app, &format!("/api/v1/traces?{DAY}&service=nightly-report&limit=1")).await;
    let whole = ok(&app, &format!("/api/v1/trace/{}", found["traces"][0]["root_id"].as_str().unwrap())).await;
    assert_eq!(whole["spans"].as_array().unwrap().len(), 1201);
    assert_eq!(whole["complete"], true);
}

#[tokio::test]
async fn what_cannot_be_understood_is_named() {
    let app = app();
    let (status, body) = get(&app, "/api/v1/spans?q=service%3Dcart%20statsu%3Derror").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let e = &body["error"];
    assert_eq!((&e["param"], &e["offset"], &e["part"]), (&"q".into(), &13.into(), &"statsu".into()));
    assert_eq!(e["hint"], "did you mean `status`?");
    for (path, status) in [
        ("/api/v1/spans?limit=0", 400),
        ("/api/v1/spans?color=red", 400),
        ("/api/v1/spans?from=%ff", 400),
        ("/api/v1/traces?min_duration=fast", 400),
        ("/api/v1/trace/xyz", 400),
        ("/api/v1/trace/+123456789abcdef", 400),
        ("/api/v1/trace/0000000000000001", 404),
        ("/api/v1/trace/00000000000000000000000000000001", 404),
        ("/api/v1/span/zzzzzzzzzzzzzzzz", 400),
        ("/api/v1/suggest?field=color", 400),
        ("/api/v1/map?from=tomorrow", 400),
        ("/api/v1/map?from=now&to=-1h", 400),
        ("/api/v1/map/edge?client=web&server=service:cart&port=8081", 400),
        ("/api/v1/map/edge?client=service:web&server=service:cart&port=8081&steps=0", 400),
        ("/api/v1/map/edge?client=service:web&server=service:cart&port=8081&transport=sctp", 400),
        ("/api/v1/map/edge?client=service:web", 400),
        ("/api/v1/flows?limit=0", 400),
        ("/api/v1/flows?remote=nowhere", 400),
        ("/api/v1/flows?colour=red", 400),
        ("/api/v1/nothing", 404),
    ] {
        let (got, body) = get(&app, path).await;
        assert_eq!(got.as_u16(), status, "{path}: {body}");
        assert!(body["error"]["message"].is_string(), "{path}: {body}");
    }
}

#[tokio::test]
async fn names_and_map() {
    let app = app();
    let services = ok(&app, "/api/v1/services").await;
    for name in ["web", "cart", "catalog", "payment", "redis"] {
        assert!(services["values"].as_array().unwrap().contains(&name.into()), "{name} in {services}");
    }
    let some = ok(&app, "/api/v1/suggest?field=service&prefix=CA&limit=5").await;
    assert_eq!(some["values"].as_array().unwrap().len(), 2);
    let map = ok(&app, &format!("/api/v1/map?{DAY}")).await;
    let edges: Vec<String> = map["edges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| {
            let name = |end: &str| e[end].as_str().unwrap().split_once(':').unwrap().1.to_owned();
            format!("{}>{}", name("from"), name("to"))
        })
        .collect();
    for edge in ["web>cart", "cart>redis", "web>payment", "10.7.0.200>web", "catalog>10.7.0.15:5432"] {
        assert!(edges.iter().any(|e| e == edge), "{edge} in {edges:?}");
    }
}

#[tokio::test]
async fn an_edge_over_time() {
    let app = app();
    let map = ok(&app, &format!("/api/v1/map?{DAY}")).await;
    let whole = map["edges"].as_array().unwrap().iter().find(|e| e["to"] == "service:payment").unwrap();
    assert_eq!(
        (&whole["from"], &whole["port"], &whole["protocol"]),
        (&"service:web".into(), &8083.into(), &"http".into())
    );
    let query = "client=service:web&server=service:payment&port=8083&steps=50";
    let history = ok(&app, &format!("/api/v1/map/edge?{query}&{DAY}")).await;
    assert_eq!(&history["edge"], whole);
    let points = history["points"].as_array().unwrap();
    let sum = |key: &str| points.iter().map(|p| p[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(points.len(), 50);
    assert_eq!(
        (sum("calls"), sum("errors")),
        (whole["calls"]["count"].as_u64().unwrap(), whole["calls"]["errors"].as_u64().unwrap())
    );
    assert!(points.iter().any(|p| p["tcp"]["rtt_p50_ns"].as_u64().unwrap() > 0));
    let none = ok(&app, &format!("/api/v1/map/edge?client=service:web&server=service:nobody&port=1&{DAY}")).await;
    assert!(none["edge"].is_null());
}

#[tokio::test]
async fn flow_records_are_returned_as_they_were_written() {
    let store = sample::store().unwrap();
    let flow = |pid: u32, remote: [u8; 4], port: u16| {
        let key = FlowKey {
            host_id: 1,
            role: Role::Client,
            transport: Transport::Tcp,
            local: [10, 0, 0, 1].into(),
            remote: remote.into(),
            port,
            pid,
            process_start_ns: 7,
            netns: 3,
        };
        let mut counts = FlowCounts { opened: u64::from(pid), ..FlowCounts::default() };
        counts.drops.insert("NO_SOCKET".into(), 2);
        counts.srtt.0[3] = 5;
        let (resource, comm) = (Arc::default(), "batch".into());
        Flow { start_ns: NOW, end_ns: NOW + 10, key, comm, cgroup_id: 0, client_port: 9, resource, counts }
    };
    store.append_flows(&[flow(1, [10, 0, 0, 2], 80), flow(2, [10, 0, 0, 2], 80), flow(3, [10, 0, 0, 3], 443)]).unwrap();
    let app = router(ViewState::new(store));
    let pids = |answer: &Value| -> Vec<u64> {
        answer["flows"].as_array().unwrap().iter().map(|f| f["pid"].as_u64().unwrap()).collect()
    };
    let all = ok(&app, &format!("/api/v1/flows?{DAY}")).await;
    assert_eq!((pids(&all), all["matched"].as_u64()), (vec![1, 2, 3], Some(3)));
    let first = &all["flows"][0];
    assert_eq!(
        (&first["service"], &first["role"], &first["remote"]),
        (&"batch".into(), &"client".into(), &"10.0.0.2".into())
    );
    assert_eq!((first["opened"].as_u64(), first["drops"]["NO_SOCKET"].as_u64()), (Some(1), Some(2)));
    assert_eq!(first["srtt"], serde_json::json!([0, 0, 0, 5]));
    assert_eq!(first["start_ns"], NOW.to_string());
    for (query, want) in [
        ("remote=10.0.0.3", vec![3]),
        ("port=80", vec![1, 2]),
        ("pid=2&service=batch", vec![2]),
        ("service=other", vec![]),
    ] {
        assert_eq!(pids(&ok(&app, &format!("/api/v1/flows?{DAY}&{query}")).await), want, "{query}");
    }
    let latest = ok(&app, &format!("/api/v1/flows?{DAY}&limit=2")).await;
    assert_eq!((pids(&latest), latest["matched"].as_u64()), (vec![2, 3], Some(3)));
}

#[tokio::test]
async fn status_metrics_health() {
    let mode = || AgentStatus { mode: "test".into(), ..AgentStatus::default() };
    let app = router(state().with_status(Arc::new(mode)).with_metrics(Arc::new(|| "a_metric 1\n".into())));
    let status = ok(&app, "/api/v1/status").await;
    assert_eq!(status["agent"]["mode"], "test");
    assert!(status["store"]["spans"].as_u64().unwrap() > 1000);
    // What the store forgot is told once, also where the process has no stage for it.
    assert!(status["store"].get("dropped").is_none(), "{status}");
    let stores = |status: &Value| {
        let stages = status["agent"]["stages"].as_array().unwrap().iter();
        stages.filter(|stage| stage["name"] == "store").cloned().collect::<Vec<_>>()
    };
    assert_eq!(stores(&status).len(), 1, "{status}");
    let own = || {
        let counters = vec![Counter::new("dropped_old", 5, true)];
        AgentStatus { stages: vec![Stage { name: "store".into(), counters }], ..AgentStatus::default() }
    };
    let told = ok(&router(state().with_status(Arc::new(own))), "/api/v1/status").await;
    assert_eq!(stores(&told).len(), 1, "{told}");
    assert_eq!(stores(&told)[0]["counters"][0]["value"], 5);
    get(&app, "/api/v1/trace/xyz").await;
    let (_, metrics) = get(&app, "/metrics").await;
    let metrics = metrics.as_str().unwrap();
    assert!(metrics.starts_with("a_metric 1\n"));
    assert!(metrics.contains("wirespan_view_requests_total{outcome=\"answered\"} 1\n"), "{metrics}");
    assert!(metrics.contains("wirespan_view_requests_total{outcome=\"client_error\"} 1\n"), "{metrics}");
    assert_eq!(get(&app, "/healthz").await, (StatusCode::OK, "ok\n".into()));
}

#[tokio::test]
async fn only_reading_and_only_known_hosts() {
    let app = app();
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        let response = send(&app, method, "/api/v1/spans", "localhost").await;
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{method}");
        assert_eq!(response.headers()["allow"], "GET, HEAD");
    }
    assert_eq!(send(&app, "HEAD", "/api/v1/status", "localhost").await.status(), StatusCode::OK);
    for path in ["/", "/api/v1/spans", "/api/services", "/metrics"] {
        assert_eq!(send(&app, "GET", path, "rebind.example").await.status(), StatusCode::FORBIDDEN, "{path}");
    }
    let open = router(state().with_hosts(Hosts::any()));
    assert_eq!(send(&open, "GET", "/api/v1/status", "rebind.example").await.status(), StatusCode::OK);
    let page = send(&app, "GET", "/trace/abc", "localhost").await;
    assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
    let policy = page.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"));
    assert!(page.headers().get("access-control-allow-origin").is_none());
    assert_eq!(send(&app, "GET", "/../../etc/passwd", "localhost").await.status(), StatusCode::OK, "the UI's own page");
    assert_eq!(send(&app, "GET", "/missing.js", "localhost").await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_description_names_every_endpoint() {
    let app = app();
    let description = ok(&app, "/api/v1/openapi.json").await;
    for path in
        ["spans", "traces", "trace/{id}", "span/{id}", "suggest", "services", "map", "map/edge", "flows", "status"]
    {
        assert!(description["paths"].get(format!("/api/v1/{path}")).is_some(), "{path}");
    }
    let parameters = description["paths"]["/api/v1/spans"]["get"]["parameters"].as_array().unwrap();
    assert_eq!(parameters.len(), 14);
}

#[tokio::test]
async fn long_answers_are_compressed_for_clients_that_take_it() {
    use std::io::Read as _;
    let app = app();
    let path = format!("/api/v1/spans?{DAY}&limit=500");
    let ask = async |accepted: &str| {
        let request = Request::builder().uri(&path).header("host", "localhost").header("accept-encoding", accepted);
        let response = app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let coding = response.headers().get("content-encoding").map(|v| v.to_str().unwrap().to_string());
        (coding, to_bytes(response.into_body(), 1 << 26).await.unwrap())
    };
    let (coding, plain) = ask("br, gzip;q=0").await;
    assert_eq!(coding, None);
    let (coding, packed) = ask("deflate, gzip, br").await;
    assert_eq!(coding.as_deref(), Some("gzip"));
    assert!(packed.len() * 5 < plain.len(), "{} of {} bytes", packed.len(), plain.len());
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain);
}
