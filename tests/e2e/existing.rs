//! Processes and connections that existed before the agent.

use crate::harness::{can_trace, has, otlp, tracing, Running};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

const SERVER: &str = "import http.server, sys\n\
    class H(http.server.BaseHTTPRequestHandler):\n\
    \x20   protocol_version = 'HTTP/1.1'\n\
    \x20   def do_GET(self):\n\
    \x20       self.send_response(204); self.end_headers()\n\
    s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), H)\n\
    print(s.server_address[1], file=sys.stderr, flush=True)\n\
    s.serve_forever()\n";

fn ask(connection: &mut TcpStream, path: &str) {
    connection.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    let mut answer = [0; 4096];
    assert!(connection.read(&mut answer).unwrap() > 0);
}

#[test]
fn sockets_and_threads_older_than_the_tracing_are_traced() {
    let test = "existing";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let spans = dir.path().join("spans.jsonl");
    let mut server = Running::start("python3", &["-u", "-c", SERVER]);
    let port: u16 = server.wait_for("\n").trim().parse().unwrap();
    let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
    ask(&mut connection, "/before");
    let agent = tracing(&[server.pid()], &spans);
    for i in 0..5 {
        ask(&mut connection, &format!("/after/{i}"));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    agent.end();
    let seen = otlp(&spans);
    let names: Vec<_> = seen.iter().map(|s| s.name.as_str()).collect();
    for i in 0..5 {
        let name = format!("GET /after/{i}");
        let span = seen.iter().find(|s| s.name == name).unwrap_or_else(|| panic!("{name} is missing: {names:?}"));
        // The connection is known although the agent did not see its accept.
        assert_eq!(span.attr("wirespan.tap_side"), "server-process");
        assert_eq!(span.attr("http.response.status_code"), "204");
        assert_eq!(span.attr("server.port"), port.to_string());
    }
    assert!(!names.contains(&"GET /before"));
}
