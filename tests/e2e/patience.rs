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

#[test]
fn a_request_that_is_answered_after_half_a_minute_is_one_span_in_one_trace() {
    let test = "patience";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let spans = dir.path().join("spans");
    let mut command = Command::new(WIRESPAN);
    command.args(["run", "--no-ui", "--print", "0", "--otlp-file"]).arg(&spans);
    let done = command.args(["--", "python3", "-c", PROGRAM]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let spans = otlp(&spans);
    let of = |path: &str| spans.iter().filter(|s| s.attr("url.path") == path).collect::<Vec<&Span>>();
    let (report, data) = (of("/report"), of("/data"));
    // Both ends of each.
    assert_eq!((report.len(), data.len()), (2, 2), "{spans:#?}");
    assert!(report.iter().all(|s| s.attr("wirespan.status") == "ok"), "{report:#?}");
    assert!(report.iter().chain(&data).all(|s| s.trace == report[0].trace), "{spans:#?}");
    let served = report.iter().find(|s| s.attr("wirespan.tap_side") == "server-process").unwrap();
    assert!(data.iter().any(|s| s.parent == served.id), "{spans:#?}");
}

/// A stream of events with pauses, which ends with a last chunk, and a request behind it on the same connection.
const STREAM: &str = "
import http.client, http.server, threading, time
class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        self.send_response(200)
        if self.path == '/after':
            self.send_header('Content-Length', '0')
            return self.end_headers()
        self.send_header('Transfer-Encoding', 'chunked')
        self.end_headers()
        for n in range(3):
            time.sleep(1.5 if n else 0)
            for part in range(2):
                data = b'data: %d\\n\\n' % n + b'.' * 700
                self.wfile.write(b'%x\\r\\n%s\\r\\n' % (len(data), data))
        self.wfile.write(b'0\\r\\n\\r\\n')
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = http.client.HTTPConnection('127.0.0.1', server.server_port)
for path in ('/stream', '/after'):
    client.request('GET', path)
    client.getresponse().read()
";

#[test]
fn a_stream_with_pauses_is_one_span_until_its_last_chunk() {
    let test = "patience_stream";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let spans = dir.path().join("spans");
    let mut command = Command::new(WIRESPAN);
    command.args(["run", "--no-ui", "--print", "0", "--otlp-file"]).arg(&spans);
    let done = command.args(["--", "python3", "-c", STREAM]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let spans = otlp(&spans);
    let of = |path: &str| spans.iter().filter(|s| s.attr("url.path") == path).collect::<Vec<&Span>>();
    let (stream, after) = (of("/stream"), of("/after"));
    assert_eq!((stream.len(), after.len()), (2, 2), "{spans:#?}");
    assert!(stream.iter().all(|s| (3_000_000_000..20_000_000_000).contains(&s.duration_ns)), "{stream:#?}");
    assert!(spans.iter().all(|s| s.attr("wirespan.incomplete") != "true"), "{spans:#?}");
}
