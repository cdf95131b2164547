//! The receiver against a real SDK: OpenTelemetry's for Python, by gRPC, HTTP, and HTTP with gzip.
//!
//! Installs the SDK once into `CARGO_TARGET_TMPDIR`. Where it cannot be installed the test is skipped with the reason;
//! with `WIRESPAN_REQUIRE_SDK=1` it fails instead.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use wirespan_model::{Span, SpanKind, Status, TapSide, Value};
use wirespan_ship::otlp::{OtlpReceiver, ReceiveConfig};

const PACKAGES: [&str; 2] = ["opentelemetry-sdk==1.45.2", "opentelemetry-exporter-otlp==1.45.2"];

fn run(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    match output.status.success() {
        true => Ok(output),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// A Python with the SDK.
fn python() -> Result<PathBuf, String> {
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join("otel-sdk");
    let python = venv.join("bin/python");
    let has_sdk = |python: &Path| {
        run(Command::new(python).args(["-c", "import opentelemetry.exporter.otlp.proto.grpc.trace_exporter"])).is_ok()
    };
    if !has_sdk(&python) {
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        let pip = ["-m", "pip", "install", "--quiet", "--timeout", "20", "--retries", "1"];
        run(Command::new(&python).args(pip).args(PACKAGES))?;
    }
    Ok(python)
}

#[test]
fn spans_of_the_python_sdk_arrive_as_they_were_made() {
    let python = match python() {
        Ok(python) => python,
        Err(why) => {
            assert!(std::env::var_os("WIRESPAN_REQUIRE_SDK").is_none(), "{why}");
            // Not `eprintln!`: the test runner swallows that of tests that pass.
            let _ = writeln!(std::io::stderr(), "SKIPPED sdk: the OpenTelemetry SDK cannot be installed: {why}");
            return;
        }
    };
    let taken: Arc<Mutex<Vec<Arc<Span>>>> = Arc::default();
    let kept = taken.clone();
    let local = "127.0.0.1:0".parse().unwrap();
    let config = ReceiveConfig::new(vec![local, local]);
    let sink = Arc::new(move |spans: Vec<_>| {
        kept.lock().unwrap().extend(spans);
        Ok(())
    });
    let receiver = OtlpReceiver::start(config, sink).unwrap();
    for (how, port) in [("grpc", 0), ("http", 1), ("http-gzip", 1)] {
        let endpoint = format!("http://{}", receiver.local_addrs()[port]);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk.py");
        let output = run(Command::new(&python).arg(script).args([how, &endpoint])).unwrap();
        let ids: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let spans = std::mem::take(&mut *taken.lock().unwrap());
        check(how, &ids, &spans);
    }
    assert_eq!(receiver.status().spans, 9);
    assert_eq!(receiver.status().requests, 3);
}

fn check(how: &str, ids: &serde_json::Value, spans: &[Arc<Span>]) {
    assert_eq!(spans.len(), 3, "{how}");
    let named = |name: &str| spans.iter().find(|s| s.name() == name).unwrap_or_else(|| panic!("{how}: no {name}"));
    for (name, id) in ids.as_object().unwrap() {
        let span = named(name);
        assert_eq!(span.id.to_string(), id["span"], "{how}");
        assert_eq!(span.trace_id.unwrap().to_string(), id["trace"], "{how}");
        assert_eq!(*span.resource.service, *format!("sdk-{how}"));
        assert_eq!(&*span.resource.host, "here");
        assert!(span.resource.extra.contains(&("telemetry.sdk.language".into(), "python".into())));
        assert!(span.start_ns > 1_700_000_000_000_000_000 && span.end_ns >= span.start_ns);
        assert_eq!(span.tap, TapSide::App);
    }
    let (server, work, client) = (named("GET /cart/{id}"), named("work"), named("SELECT cart"));
    assert_eq!((server.parent_span_id, server.kind, server.status), (None, SpanKind::Server, Status::ServerError));
    assert_eq!((work.parent_span_id, work.kind, work.status), (Some(server.id), SpanKind::Internal, Status::Unset));
    assert_eq!((client.parent_span_id, client.kind), (Some(work.id), SpanKind::Client));
    assert_eq!((&*server.protocol, &*client.protocol), ("http", "postgresql"));
    assert_eq!((client.status, &*client.error), (Status::ServerError, "no row – é"));
    assert_eq!(client.tuple.server.to_string(), "10.1.2.3:5432");
    let attr = |span: &Span, key: &str| span.attrs.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone());
    assert_eq!(attr(server, "tags"), Some(Value::from(r#"["a","b"]"#)));
    assert_eq!(attr(client, "exception.type"), Some("KeyError".into()));
    assert_eq!(attr(client, "otel.scope.name"), Some("test.lib".into()));
}
