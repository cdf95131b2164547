//! Drivers' housekeeping and port probes: no spans and no traces of their own, unless they are asked for.

use crate::harness::{can_trace, has, otlp, Span, WIRESPAN};
use crate::split::free_port;
use std::path::Path;
use std::process::Command;

/// A service that speaks Redis as drivers do: `/get` sets up a connection, pings and asks; `/health` only pings. Before
/// that it waits until Redis listens, and asks a port at which nothing does.
const PROGRAM: &str = "
import http.server, socket, socketserver, subprocess, sys, threading, time, urllib.request
port, closed = int(sys.argv[1]), int(sys.argv[2])
redis = subprocess.Popen(['redis-server', '--port', str(port), '--save', '', '--dir', sys.argv[3]],
                         stdout=subprocess.DEVNULL)
def listens(port):
    try:
        socket.create_connection(('127.0.0.1', port)).close()
        return True
    except OSError:
        return False
while not listens(port):
    time.sleep(0.05)
listens(closed)
def ask(connection, *words):
    text = ''.join(f'${len(word)}\\r\\n{word}\\r\\n' for word in words)
    connection.sendall(f'*{len(words)}\\r\\n{text}'.encode())
    connection.recv(4096)
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with socket.create_connection(('127.0.0.1', port)) as connection:
            if self.path == '/get':
                ask(connection, 'CLIENT', 'SETNAME', 'shop')
                ask(connection, 'SELECT', '2')
                ask(connection, 'PING')
                ask(connection, 'GET', 'cart')
            else:
                ask(connection, 'PING')
        self.send_response(200)
        self.send_header('Content-Length', '0')
        self.end_headers()
    def log_message(self, *_):
        pass
server = socketserver.ThreadingTCPServer(('127.0.0.1', 0), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
for path in ('get', 'health'):
    urllib.request.urlopen(f'http://127.0.0.1:{server.server_address[1]}/{path}').read()
redis.terminate()
redis.wait()
";

fn traced(dir: &Path, config: &str) -> Vec<Span> {
    let (spans, file) = (dir.join("spans"), dir.join("wirespan.toml"));
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new(WIRESPAN);
    command.args(["run", "--no-ui", "--print", "0", "--config"]).arg(&file).arg("--otlp-file").arg(&spans);
    command.args(["--", "python3", "-c", PROGRAM, &free_port().to_string(), &free_port().to_string()]).arg(dir);
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    otlp(&spans)
}

/// The calls of the service that handled this path, with its own span first.
fn calls<'a>(spans: &'a [Span], path: &str) -> Vec<&'a Span> {
    let of = |s: &&Span| s.attr("url.path") == path && s.attr("wirespan.tap_side") == "server-process";
    let served = spans.iter().find(of).unwrap();
    std::iter::once(served).chain(spans.iter().filter(|s| s.parent == served.id)).collect()
}

#[test]
fn a_call_tells_the_housekeeping_of_its_connection_and_a_lone_ping_stays() {
    let test = "housekeeping";
    if !can_trace(test) || !has(test, &["python3", "redis-server"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let spans = traced(dir.path(), "");
    let get = calls(&spans, "/get");
    let names: Vec<&str> = get.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["GET /get", "GET"], "{get:#?}");
    assert_eq!(get[1].attr("wirespan.housekeeping.count"), "3");
    assert_eq!(get[1].attr("wirespan.housekeeping.operations"), "CLIENT SETNAME, SELECT, PING");
    assert!(get[1].attr("wirespan.housekeeping.duration_ns").parse::<u64>().unwrap() > 0);
    let health: Vec<&str> = calls(&spans, "/health").iter().map(|s| s.name.as_str()).collect();
    assert_eq!(health, ["GET /health", "PING"]);
    let is_probe = |s: &&Span| s.attr("wirespan.calls") == "0" || s.name.starts_with("connect");
    assert_eq!(spans.iter().filter(is_probe).count(), 0, "{spans:#?}");

    let all = traced(dir.path(), "[traces]\nhousekeeping = true\n");
    assert_eq!(calls(&all, "/get").len(), 5);
    assert!(all.iter().filter(is_probe).count() >= 2, "{all:#?}");
}
