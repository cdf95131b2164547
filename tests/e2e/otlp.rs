//! Spans of SDKs beside those of the kernel.

use crate::harness::{can_trace, has, otlp, skip, Running, Span, WIRESPAN};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

/// Reports a span, as an SDK does, and makes a call; to the ports that it is given.
const PROGRAM: &str = "
import http.server, json, sys, threading, time, urllib.request
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(('127.0.0.1', 0), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
urllib.request.urlopen(f'http://127.0.0.1:{server.server_port}/hello').read()
now = time.time_ns()
span = {'traceId': 'ab' * 16, 'spanId': 'cd' * 8, 'name': 'said by an SDK', 'kind': 1,
        'startTimeUnixNano': str(now - 1000000), 'endTimeUnixNano': str(now)}
body = json.dumps({'resourceSpans': [{'scopeSpans': [{'spans': [span]}]}]}).encode()
to = urllib.request.Request(f'http://127.0.0.1:{sys.argv[1]}/v1/traces', body, {'Content-Type': 'application/json'})
assert urllib.request.urlopen(to).status == 200
";

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// What `run` writes of the program, with these further lines of configuration.
fn written(test: &str, more: &str) -> Option<Vec<Span>> {
    if !can_trace(test) || !has(test, &["python3"]) {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let (config, spans) = (dir.path().join("config.toml"), dir.path().join("spans"));
    let port = free_port();
    let serve = format!("[serve]\notlp_grpc = \"\"\notlp_http = \"127.0.0.1:{port}\"\n{more}");
    std::fs::write(&config, serve).unwrap();
    let mut command = Command::new(WIRESPAN);
    command.args(["run", "--no-ui", "--print", "0", "--config"]).arg(&config).arg("--otlp-file").arg(&spans);
    let done = command.args(["--", "python3", "-c", PROGRAM, &port.to_string()]).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    if said.contains("no OTLP is received") {
        skip(test, "another program took the port");
        return None;
    }
    assert!(done.status.success(), "{said}");
    Some(otlp(&spans))
}

fn has_path(spans: &[Span], path: &str) -> bool {
    spans.iter().any(|s| s.attr("url.path") == path)
}

#[test]
fn run_receives_spans_of_sdks_and_leaves_out_their_export() {
    let Some(spans) = written("otlp_run", "") else { return };
    assert!(spans.iter().any(|s| s.name == "said by an SDK" && s.id == "cd".repeat(8)), "{spans:?}");
    assert!(has_path(&spans, "/hello"), "{spans:?}");
    assert!(!has_path(&spans, "/v1/traces"), "{spans:?}");
}

#[test]
fn exports_of_telemetry_are_kept_by_choice() {
    let Some(spans) = written("otlp_telemetry", "[join]\ntelemetry = true\n") else { return };
    assert!(has_path(&spans, "/v1/traces"), "{spans:?}");
}

#[test]
fn a_server_exports_spans_of_sdks() {
    let dir = tempfile::tempdir().unwrap();
    let (config, spans, port) = (dir.path().join("config.toml"), dir.path().join("spans"), free_port());
    std::fs::write(&config, format!("[serve]\notlp_grpc = \"\"\notlp_http = \"127.0.0.1:{port}\"\n")).unwrap();
    let (config, file) = (config.to_str().unwrap(), spans.to_str().unwrap());
    let listen = ["--listen", "127.0.0.1:0", "--ui", "127.0.0.1:0"];
    let mut server =
        Running::start(WIRESPAN, &[&["server", "--config", config, "--otlp-file", file], &listen[..]].concat());
    server.wait_for("OTLP on");
    let span = format!(
        "{{\"traceId\":\"{}\",\"spanId\":\"{}\",\"name\":\"said by an SDK\",\"kind\":3,\
         \"startTimeUnixNano\":\"1790000000000000000\",\"endTimeUnixNano\":\"1790000000001000000\"}}",
        "ab".repeat(16),
        "cd".repeat(8)
    );
    let body = format!("{{\"resourceSpans\":[{{\"scopeSpans\":[{{\"spans\":[{span}]}}]}}]}}");
    let mut to = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(
        to,
        "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    to.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    server.end();
    let written = otlp(&spans);
    assert!(written.iter().any(|s| s.name == "said by an SDK" && s.id == "cd".repeat(8)), "{written:?}");
}
