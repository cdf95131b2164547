//! Requests that are answered late.

use crate::harness::{can_trace, has, otlp, Span, WIRESPAN};
use std::process::Command;

/// A report that takes longer than most windows, and asks for its data before it answers.
const PROGRAM: &str = "
import http.server, socketserver, threading, time, urllib.request
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == '/report':
            time.sleep(32)
            urllib.request.urlopen(f'{base}/data').read()
        self.send_response(200)
        self.send_header('Content-Length', '0')
        self.end_headers()
    def log_message(self, *_):
        pass
class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
server = Server(('127.0.0.1', 0), Page)
base = f'http://127.0.0.1:{server.server_port}'
threading.Thread(target=server.serve_forever, daemon=True).start()
urllib.request.urlopen(f'{base}/report').read()
";

/// The spans of a program in Python.
fn spans_of(program: &str) -> Vec<Span> {
    let dir = tempfile::tempdir().unwrap();
    let spans = dir.path().join("spans");
    let mut command = Command::new(WIRESPAN);
    command.args(["run", "--no-ui", "--print", "0", "--otlp-file"]).arg(&spans);
    let done = command.args(["--", "python3", "-c", program]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    otlp(&spans)
}

#[test]
fn a_request_that_is_answered_after_half_a_minute_is_one_span_in_one_trace() {
    let test = "patience";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    let spans = spans_of(PROGRAM);
    let of = |path: &str| spans.iter().filter(|s| s.attr("url.path") == path).collect::<Vec<&Span>>();
    let (report, data) = (of("/report"), of("/data"));
    // Both ends of each.
    assert_eq!((report.len(), data.len()), (2, 2), "{spans:#?}");
    assert!(report.iter().all(|s| s.attr("wirespan.status") == "ok"), "{report:#?}");
    assert!(report.iter().chain(&data).all(|s| s.trace == report[0].trace), "{spans:#?}");
    let served = report.iter().find(|s| s.attr("wirespan.tap_side") == "server-process").unwrap();
    assert!(data.iter().any(|s| s.parent == served.id), "{spans:#?}");
}

/// A stream of events with pauses and a call in each part, which ends with a last chunk. Behind it on the same
/// connection, a request with a short answer. Last, a stream that goes on when the program ends.
const STREAM: &str = "
import http.client, http.server, os, threading, time, urllib.request
class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        self.send_response(200)
        if not self.path.startswith('/stream'):
            self.send_header('Content-Length', '0')
            return self.end_headers()
        self.send_header('Transfer-Encoding', 'chunked')
        self.end_headers()
        for n in range(3 if self.path == '/stream' else 1000):
            time.sleep(3 if n else 0)
            urllib.request.urlopen(f'{base}/data/{n}').read()
            for part in range(2):
                data = b'data: %d\\n\\n' % n + b'.' * 700
                self.wfile.write(b'%x\\r\\n%s\\r\\n' % (len(data), data))
        self.wfile.write(b'0\\r\\n\\r\\n')
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Page)
base = f'http://127.0.0.1:{server.server_port}'
threading.Thread(target=server.serve_forever, daemon=True).start()
client = http.client.HTTPConnection('127.0.0.1', server.server_port)
for path in ('/before', '/stream', '/after'):
    client.request('GET', path)
    client.getresponse().read()
client.request('GET', '/streams')
client.getresponse().read(1500)
time.sleep(4)
os._exit(0)
";

#[test]
fn a_stream_with_pauses_is_one_span_until_its_last_chunk_and_holds_its_calls() {
    let test = "patience_stream";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    let spans = spans_of(STREAM);
    let of = |path: &str| spans.iter().filter(|s| s.attr("url.path") == path).collect::<Vec<&Span>>();
    let (stream, after, open) = (of("/stream"), of("/after"), of("/streams"));
    assert_eq!((stream.len(), after.len(), open.len()), (2, 2, 2), "{spans:#?}");
    assert!(stream.iter().all(|s| (6_000_000_000..9_000_000_000).contains(&s.duration_ns)), "{stream:#?}");
    // Two parts that are three seconds apart, then four seconds until the end of the program.
    assert!(open.iter().all(|s| (3_000_000_000..9_000_000_000).contains(&s.duration_ns)), "{open:#?}");
    let served = stream.iter().find(|s| s.attr("wirespan.tap_side") == "server-process").unwrap();
    let held = |s: &&Span| s.attr("url.path").starts_with("/data/") && s.parent == served.id;
    assert_eq!(spans.iter().filter(held).count(), 3, "{spans:#?}");
}
