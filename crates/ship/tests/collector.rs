//! Against a real OpenTelemetry collector: wirespan → collector → file, and collector → wirespan.
//!
//! The collector is that of `tests/apps/fetch/otelcol`, built by `tests/apps/fetch/fetch.py otelcol`, or the one that
//! `WIRESPAN_OTELCOL` names (any with the OTLP receiver, the OTLP exporter and the file exporter).
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wirespan_model::test_support::SpanBuilder;
use wirespan_model::{Evidence, ParentLink, Resource, Span, SpanId, SpanKind, Status, Trace, TraceId, TraceSpan};
use wirespan_ship::otlp::export::Protocol;
use wirespan_ship::otlp::proto::{self, AnyValue, KeyValue};
use wirespan_ship::otlp::{encode_traces, instance_id, json, ExportConfig, Exporter, OtlpReceiver, ReceiveConfig};

/// Ends the collector with the test, also after a panic.
struct Collector(Child);

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_addr() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn start(program: &str, dir: &Path, grpc: SocketAddr, http: SocketAddr, next: SocketAddr) -> Collector {
    let config = format!(
        "receivers:\n  otlp:\n    protocols:\n      grpc: {{endpoint: \"{grpc}\"}}\n      http: {{endpoint: \
         \"{http}\"}}\n\
         exporters:\n  file: {{path: {}, flush_interval: 100ms}}\n  otlp:\n    endpoint: \"{next}\"\n    tls: \
         {{insecure: true}}\n\
         service:\n  telemetry: {{metrics: {{level: none}}}}\n  pipelines:\n    traces: {{receivers: [otlp], \
         exporters: [file, otlp]}}\n",
        dir.join("out.jsonl").display()
    );
    fs::write(dir.join("config.yaml"), config).unwrap();
    let log = fs::File::create(dir.join("log")).unwrap();
    let child = Command::new(program).arg("--config").arg(dir.join("config.yaml")).stderr(log).spawn().unwrap();
    let collector = Collector(child);
    eventually("the collector to listen", || TcpStream::connect(http).is_ok() && TcpStream::connect(grpc).is_ok());
    collector
}

fn eventually(what: &str, mut f: impl FnMut() -> bool) {
    let start = Instant::now();
    while !f() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited too long for: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn trace(id: u8) -> Trace {
    let resource = Resource { service: "cart".into(), host: "n1".into(), ..Resource::default() };
    let root = SpanBuilder::server(u64::from(id) << 8 | 1)
        .request("http", "GET", "/cart?<é>&\"")
        .time(1_700_000_000_000_000_000, 1_700_000_000_005_000_000)
        .status(Status::ServerError, 503)
        .attr("n", i64::MIN)
        .attr("x", 0.1)
        .attr("b", false)
        .attr("e", "")
        .process(7, 0, "")
        .resource(Arc::new(resource))
        .build();
    let child = Span { id: SpanId(u64::from(id) << 8 | 2), status: Status::Ok, kind: SpanKind::Client, ..root.clone() };
    let link = ParentLink { parent: root.id, evidence: Evidence::Thread, confidence: 0.95 };
    let spans = vec![
        TraceSpan { span: Arc::new(root), link: None, depth: 0, links: Vec::new() },
        TraceSpan { span: Arc::new(child), link: Some(link), depth: 1, links: Vec::new() },
    ];
    Trace { id: TraceId([id; 16]), spans, complete: true }
}

/// The attribute that the exporter adds.
fn encode_instance() -> KeyValue {
    let value = Some(proto::Value::String(instance_id().into()));
    KeyValue { key: "wirespan.instance.id".into(), value: Some(AnyValue { value }) }
}

/// The collector; says why there is none, where `scripts/test` counts it.
fn program() -> Option<String> {
    if let Ok(named) = std::env::var("WIRESPAN_OTELCOL") {
        return Some(named);
    }
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/servers/otelcol");
    if built.exists() {
        return Some(built.display().to_string());
    }
    let reason = "collector: needs tests/apps/fetch/fetch.py otelcol";
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
    if let Some(skips) = std::env::var_os("WIRESPAN_SKIPS") {
        let file = fs::OpenOptions::new().append(true).create(true).open(skips);
        let _ = file.and_then(|mut f| writeln!(f, "{reason}"));
    }
    None
}

#[test]
fn the_collector_takes_and_writes_what_we_write() {
    let Some(program) = program() else { return };
    let dir = tempfile::tempdir().unwrap();
    let taken: Arc<Mutex<Vec<Arc<Span>>>> = Arc::default();
    let kept = taken.clone();
    let sink = Arc::new(move |spans: Vec<_>| {
        kept.lock().unwrap().extend(spans);
        Ok(())
    });
    // The instance id of another process.
    let config = ReceiveConfig { own_instance: String::new(), ..ReceiveConfig::new(vec![free_addr()]) };
    let receiver = OtlpReceiver::start(config, sink).unwrap();
    let (grpc, http) = (free_addr(), free_addr());
    let _collector = start(&program, dir.path(), grpc, http, receiver.local_addrs()[0]);

    let ways = [
        (Protocol::Grpc, grpc, false),
        (Protocol::Grpc, grpc, true),
        (Protocol::HttpProtobuf, http, false),
        (Protocol::HttpProtobuf, http, true),
        (Protocol::HttpJson, http, false),
        (Protocol::HttpJson, http, true),
    ];
    let mut expected = Vec::new();
    for (i, (protocol, addr, gzip)) in ways.into_iter().enumerate() {
        let trace = trace(i as u8 + 1);
        let config = ExportConfig { gzip, ..ExportConfig::new(&format!("http://{addr}"), Some(protocol)).unwrap() };
        let exporter = Exporter::start(config).unwrap();
        exporter.send(&trace);
        let status = exporter.close(Duration::from_secs(10));
        assert_eq!((status.exported, &status.error), (2, &None), "{protocol:?}, gzip {gzip}: {status:?}");
        let mut line = Vec::new();
        let mut request = encode_traces([&trace]);
        let id = encode_instance();
        request.resource_spans.iter_mut().for_each(|r| r.resource.as_mut().unwrap().attributes.push(id.clone()));
        json::write_request(&request, &mut line);
        expected.push(String::from_utf8(line).unwrap());
    }

    let path = dir.path().join("out.jsonl");
    let written = || fs::read_to_string(&path).unwrap_or_default();
    // The collector flushes without regard to lines, so the last line may be incomplete.
    eventually("the file", || written().lines().count() == ways.len() && written().ends_with('\n'));
    for (theirs, ours) in written().lines().zip(&expected) {
        let value = |s: &str| serde_json::from_str::<serde_json::Value>(s).unwrap();
        println!("byte for byte the same: {}", theirs == ours);
        assert_eq!(value(theirs), value(ours));
    }
    eventually("the collector's own export", || taken.lock().unwrap().len() == 2 * ways.len());
    let spans = taken.lock().unwrap();
    assert!(spans.iter().all(|s| s.name() == "GET /cart?<é>&\"" && &*s.resource.service == "cart"));
    assert!(spans[1].parent_span_id.is_some());
}
