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
