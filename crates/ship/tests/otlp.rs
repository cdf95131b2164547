//! Exporter and receiver against each other, and the exporter against collectors that misbehave.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wirespan_model::test_support::SpanBuilder;
use wirespan_model::{
    Evidence, ParentLink, Resource, Span, SpanId, SpanKind, Status, TapSide, Trace, TraceId, TraceSpan,
};
use wirespan_ship::otlp::export::Protocol;
use wirespan_ship::otlp::{ExportConfig, Exporter, OtlpReceiver, ReceiveConfig};
use wirespan_ship::{Sink, SinkError};

type Spans = Arc<Mutex<Vec<Arc<Span>>>>;

fn local() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn collect() -> (Spans, Sink) {
    let taken = Spans::default();
    let kept = taken.clone();
    (
        taken,
        Arc::new(move |spans| {
            kept.lock().unwrap().extend(spans);
            Ok(())
        }),
    )
}

/// A receiver that acts as another process.
fn receiver(sink: Sink) -> OtlpReceiver {
    receiver_at(vec![local(), local()], sink)
}

fn receiver_at(listen: Vec<SocketAddr>, sink: Sink) -> OtlpReceiver {
    let config = ReceiveConfig { own_instance: String::new(), ..ReceiveConfig::new(listen) };
    OtlpReceiver::start(config, sink).unwrap()
}

#[test]
fn a_process_that_exports_to_itself_gets_an_error() {
    let (taken, sink) = collect();
    let r = OtlpReceiver::start(ReceiveConfig::new(vec![local()]), sink).unwrap();
    let e = Exporter::start(config(r.local_addrs()[0], Protocol::HttpProtobuf)).unwrap();
    e.send(&trace(3));
    let status = e.close(Duration::from_secs(10));
    assert_eq!((status.exported, taken.lock().unwrap().len()), (0, 0));
    assert_eq!(status.dropped, [("partial_success", 3)].into());
    assert!(status.error.unwrap().contains("its own collector"));
}

fn trace(spans: u64) -> Trace {
    let resource = Arc::new(Resource { service: "cart".into(), host: "n1".into(), ..Resource::default() });
    let span = |i: u64| {
        SpanBuilder::server(i + 1)
            .request("http", "GET", "/cart")
            .time(1_000 + i, 2_000 + i)
            .status(Status::ServerError, 503)
            .attr("http.request.method", "GET")
            .attr("http.response.status_code", 503i64)
            .process(7, 0, "")
            .resource(resource.clone())
    };
    let link = |i| (i > 0).then_some(ParentLink { parent: SpanId(1), evidence: Evidence::Thread, confidence: 0.95 });
    let spans = (0..spans)
        .map(|i| TraceSpan {
            span: Arc::new(Span { error: "no \"stock\" – é".into(), ..span(i).build() }),
            link: link(i),
            depth: 0,
            links: Vec::new(),
        })
        .collect();
    Trace { id: TraceId([0xab; 16]), spans, complete: true }
}

fn config(addr: SocketAddr, protocol: Protocol) -> ExportConfig {
    ExportConfig {
        batch_wait: Duration::from_millis(20),
        first_backoff: Duration::from_millis(20),
        timeout: Duration::from_secs(3),
        ..ExportConfig::new(&format!("http://{addr}"), Some(protocol)).unwrap()
    }
}

fn eventually(what: &str, mut f: impl FnMut() -> bool) {
    let start = Instant::now();
    while !f() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited too long for: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn every_protocol_carries_a_trace_to_either_port() {
    for protocol in [Protocol::Grpc, Protocol::HttpProtobuf, Protocol::HttpJson] {
        for gzip in [false, true] {
            let (taken, sink) = collect();
            let r = receiver(sink);
            let addr = r.local_addrs()[usize::from(gzip)];
            let e = Exporter::start(ExportConfig { gzip, batch_spans: 100, ..config(addr, protocol) }).unwrap();
            e.send(&trace(250));
            let status = e.close(Duration::from_secs(10));
            assert_eq!((status.exported, status.error.clone()), (250, None), "{protocol:?} {status:?}");
            assert_eq!((status.queued, status.dropped.len()), (0, 0));
            let spans = taken.lock().unwrap();
            assert_eq!(spans.len(), 250);
            let s = &spans[1];
            assert_eq!((s.id, s.parent_span_id, s.trace_id), (SpanId(2), Some(SpanId(1)), Some(TraceId([0xab; 16]))));
            assert_eq!((s.name().as_str(), s.kind, s.tap), ("GET /cart", SpanKind::Server, TapSide::App));
            assert_eq!((s.start_ns, s.end_ns, s.pid, s.status_code), (1_001, 2_001, 7, Some(503)));
            assert_eq!((s.status, &*s.error, &*s.resource.service), (Status::ServerError, "no \"stock\" – é", "cart"));
            assert!(s.attrs.contains(&("wirespan.evidence".into(), "thread".into())));
            assert_eq!(r.status().spans, 250);
            assert_eq!(r.status().requests, 3);
        }
    }
}

#[test]
fn a_busy_store_is_tried_again_and_nothing_is_lost() {
    for protocol in [Protocol::Grpc, Protocol::HttpProtobuf] {
        let (taken, inner) = collect();
        let tries = Arc::new(AtomicUsize::new(0));
        let count = tries.clone();
        let r = receiver(Arc::new(move |spans| match count.fetch_add(1, Ordering::SeqCst) {
            0 => Err(SinkError::Busy("disk".into())),
            _ => inner(spans),
        }));
        let e = Exporter::start(config(r.local_addrs()[0], protocol)).unwrap();
        e.send(&trace(5));
        eventually("the export", || e.status().exported == 5);
        assert_eq!((e.status().retries, taken.lock().unwrap().len()), (1, 5));
        assert_eq!((r.status().dropped, r.status().deferred), ([("busy", 1)].into(), 5));
    }
}

#[test]
fn a_collector_that_comes_later_gets_everything() {
    let listener = TcpListener::bind(local()).unwrap();
    let addr = listener.local_addr().unwrap();
    drop(listener);
    let e = Exporter::start(config(addr, Protocol::Grpc)).unwrap();
    e.send(&trace(5));
    eventually("a failure", || e.status().error.is_some());
    let why = e.status().error.unwrap();
    assert!(why.contains("refused"), "{why}");
    let (taken, sink) = collect();
    let _r = receiver_at(vec![addr], sink);
    let status = e.close(Duration::from_secs(15));
    assert_eq!((status.exported, status.error), (5, None));
    assert_eq!(taken.lock().unwrap().len(), 5);
}

/// A collector that answers each HTTP/1 request with the next of these answers, and repeats the last one.
fn canned(answers: &'static [&'static str]) -> (SocketAddr, Arc<Mutex<Vec<Instant>>>) {
    let listener = TcpListener::bind(local()).unwrap();
    let addr = listener.local_addr().unwrap();
    let times: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let seen = times.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            let mut buf = vec![0; 1 << 20];
            // The whole request arrives within one timeout on loopback.
            let mut got = 0;
            while let Ok(n @ 1..) = stream.read(&mut buf) {
                got += n;
            }
            if got == 0 {
                // The exporter only looked whether somebody is there.
                continue;
            }
            let mut seen = seen.lock().unwrap();
            let answer = answers[seen.len().min(answers.len() - 1)];
            seen.push(Instant::now());
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (addr, times)
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{}";

#[test]
fn a_dead_collector_is_known_before_there_is_anything_to_send() {
    let listener = TcpListener::bind(local()).unwrap();
    let addr = listener.local_addr().unwrap();
    drop(listener);
    let e = Exporter::start(config(addr, Protocol::Grpc)).unwrap();
    eventually("the failure is known", || e.status().error.is_some_and(|why| why.contains("refused")));
    assert!(!e.status().reached);
    let listener = TcpListener::bind(addr).unwrap();
    eventually("the collector is found", || e.status().reached && e.status().error.is_none());
    drop(listener);
}

#[test]
fn requests_for_names_of_other_sites_are_refused_on_loopback() {
    let (taken, sink) = collect();
    let r = receiver(sink);
    let body = br#"{"resourceSpans":[]}"#;
    for (host, status) in [("evil.example:4318", "403"), ("localhost:4318", "200"), ("127.0.0.1", "200"), ("", "403")] {
        let mut c = TcpStream::connect(r.local_addrs()[0]).unwrap();
        let head = "POST /v1/traces HTTP/1.1\r\nContent-Type: application/json\r\nConnection: close";
        write!(c, "{head}\r\nHost: {host}\r\nContent-Length: {}\r\n\r\n", body.len()).unwrap();
        c.write_all(body).unwrap();
        let mut answer = String::new();
        let _ = c.read_to_string(&mut answer);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{host}: {answer}");
    }
    assert!(taken.lock().unwrap().is_empty());
    assert_eq!(r.status().dropped, [("host", 2)].into());
}

#[test]
fn retry_after_is_honoured() {
    const BUSY: &str = "HTTP/1.1 429 Too Many\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let (addr, times) = canned(&[BUSY, OK]);
    let e = Exporter::start(config(addr, Protocol::HttpProtobuf)).unwrap();
    e.send(&trace(3));
    let status = e.close(Duration::from_secs(10));
    assert_eq!((status.exported, status.retries), (3, 1), "{status:?}");
    let times = times.lock().unwrap();
    assert!(times[1] - times[0] >= Duration::from_secs(1), "{:?}", times[1] - times[0]);
}

#[test]
fn what_cannot_be_repeated_is_dropped_with_the_reason() {
    const BAD: &str =
        "HTTP/1.1 400 Bad\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{\"message\":\"too odd\"}";
    let (addr, times) = canned(&[BAD]);
    let e = Exporter::start(config(addr, Protocol::HttpJson)).unwrap();
    e.send(&trace(3));
    let status = e.close(Duration::from_secs(10));
    assert_eq!((status.exported, times.lock().unwrap().len()), (0, 1));
    assert_eq!(status.dropped, [("rejected", 3)].into());
    assert_eq!(status.error.as_deref(), Some("HTTP 400 Bad Request: too odd"));

    const PART: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\
        {\"partialSuccess\":{\"rejectedSpans\":\"2\",\"errorMessage\":\"two\"}}";
    let (addr, _) = canned(&[PART]);
    let e = Exporter::start(config(addr, Protocol::HttpProtobuf)).unwrap();
    e.send(&trace(3));
    let status = e.close(Duration::from_secs(10));
    assert_eq!((status.exported, status.dropped), (1, [("partial_success", 2)].into()));
    assert_eq!(status.error.as_deref(), Some("two"));
}

#[test]
fn without_a_collector_the_queue_is_bounded_and_closing_keeps_its_time() {
    // This collector accepts connections and never answers.
    let listener = TcpListener::bind(local()).unwrap();
    let config = ExportConfig { queue_spans: 100, ..config(listener.local_addr().unwrap(), Protocol::HttpProtobuf) };
    let e = Exporter::start(config).unwrap();
    (0..50).for_each(|_| e.send(&trace(10)));
    assert!(e.status().queued <= 100);
    assert_eq!(e.status().dropped["queue_full"], 400);
    let start = Instant::now();
    let status = e.close(Duration::from_millis(300));
    assert!(start.elapsed() < Duration::from_secs(2));
    assert_eq!((status.offered, status.queued), (500, 0));
    assert_eq!(status.dropped, [("closed", 100), ("queue_full", 400)].into());
}

#[test]
fn a_batch_that_is_never_taken_is_given_up() {
    let addr = { TcpListener::bind(local()).unwrap().local_addr().unwrap() };
    let config = ExportConfig { retry_for: Duration::from_millis(100), ..config(addr, Protocol::HttpProtobuf) };
    let e = Exporter::start(config).unwrap();
    e.send(&trace(4));
    eventually("the end of patience", || e.status().dropped.get("retries_exhausted") == Some(&4));
    assert_eq!(e.status().queued, 0);
}

/// One HTTP/1 request; returns the answer.
fn http(addr: SocketAddr, head: &str, body: &[u8]) -> String {
    let mut c = TcpStream::connect(addr).unwrap();
    c.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    write!(c, "{head}\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len()).unwrap();
    let _ = c.write_all(body);
    let mut answer = Vec::new();
    let _ = c.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn bad_requests_get_proper_errors() {
    let (taken, sink) = collect();
    let config = ReceiveConfig { max_body: 10_000, ..ReceiveConfig::new(vec![local()]) };
    let r = OtlpReceiver::start(config, sink).unwrap();
    let addr = r.local_addrs()[0];
    let post = |headers: &str, body: &[u8]| http(addr, &format!("POST /v1/traces HTTP/1.1\r\n{headers}"), body);
    let json = "Content-Type: application/json";
    let has = |answer: &str, parts: &[&str]| {
        for p in parts {
            assert!(answer.contains(p), "{p:?} is not in {answer}");
        }
    };
    has(&http(addr, "GET /v1/traces HTTP/1.1\r\nA: b", b""), &["405", "allow: POST"]);
    has(&http(addr, &format!("POST /v1/metrics HTTP/1.1\r\n{json}"), b"{}"), &["404", "/v1/metrics is not served"]);
    has(&post("Content-Type: text/plain", b"{}"), &["415", "application/x-protobuf"]);
    has(&post(json, b"{\"resourceSpans\":7}"), &["400", r#""code":3"#, "resourceSpans: an array is expected"]);
    has(&post("Content-Type: application/x-protobuf", b"\xff\xff\xff"), &["400", "not an OTLP request"]);
    has(&post(&format!("{json}\r\nContent-Encoding: gzip"), b"nope"), &["400", "not gzip"]);
    has(&post(&format!("{json}\r\nContent-Encoding: zstd"), b"{}"), &["415", "use gzip"]);
    has(&post(json, &[b' '; 20_000]), &["413", "longer than 10000"]);
    // A small body that decompresses to a big one.
    let bomb = {
        let mut e = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        e.write_all(&vec![b' '; 5_000_000]).unwrap();
        e.finish().unwrap()
    };
    assert!(bomb.len() < 10_000);
    has(&post(&format!("{json}\r\nContent-Encoding: gzip"), &bomb), &["413"]);
    has(&post(json, b"{}"), &["200", "\r\n\r\n{}"]);
    let one_bad = br#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"00"},
        {"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","startTimeUnixNano":"1",
         "name":"ok"}]}]}]}"#;
    has(&post(json, one_bad), &["200", r#""rejectedSpans":"1""#, "trace id is not 16 bytes"]);
    assert_eq!(taken.lock().unwrap().len(), 1);
    let dropped = r.status().dropped;
    for reason in ["method", "path", "media_type", "malformed", "compression", "too_long", "trace id is not 16 bytes"] {
        assert!(dropped.contains_key(reason), "{reason}: {dropped:?}");
    }
}

#[test]
fn slow_clients_do_not_hold_the_receiver() {
    let (_, sink) = collect();
    let config = ReceiveConfig { read_timeout: Duration::from_millis(200), ..ReceiveConfig::new(vec![local()]) };
    let r = OtlpReceiver::start(config, sink).unwrap();
    let mut slow = TcpStream::connect(r.local_addrs()[0]).unwrap();
    write!(
        slow,
        "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{{"
    )
    .unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut answer = [0; 12];
    slow.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
    let start = Instant::now();
    drop(r);
    assert!(start.elapsed() < Duration::from_secs(3), "dropping the receiver ends it");
}

#[test]
fn too_many_requests_at_once_get_a_retry_status() {
    let gate = Arc::new(AtomicBool::new(false));
    let entered = Arc::new(AtomicBool::new(false));
    let (open, inside) = (gate.clone(), entered.clone());
    let sink: Sink = Arc::new(move |_| {
        inside.store(true, Ordering::SeqCst);
        while !open.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    });
    let config = ReceiveConfig { max_requests: 1, ..ReceiveConfig::new(vec![local()]) };
    let r = OtlpReceiver::start(config, sink).unwrap();
    let addr = r.local_addrs()[0];
    let head = "POST /v1/traces HTTP/1.1\r\nContent-Type: application/json";
    let span = br#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"5b8efff798038103d269b633813fc60c",
        "spanId":"eee19b7ec3c1b174","startTimeUnixNano":"1"}]}]}]}"#;
    let first = thread::spawn(move || http(addr, head, span));
    eventually("the first request to be at work", || entered.load(Ordering::SeqCst));
    let answer = http(addr, head, b"{}");
    assert!(answer.contains("503") && answer.contains("retry-after: 1"), "{answer}");
    gate.store(true, Ordering::SeqCst);
    assert!(first.join().unwrap().contains("200 OK"));
}
