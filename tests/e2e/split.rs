//! Agent and server as two processes, and the command line against the server.

use crate::harness::{can_trace, eventually, has, wirespan, Running, WIRESPAN};
use std::process::{Command, Stdio};

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn an_agent_sends_to_a_server_that_answers() {
    let test = "split";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("w.toml");
    let (ui, link) = (format!("127.0.0.1:{}", free_port()), format!("127.0.0.1:{}", free_port()));
    std::fs::write(&config, "[serve]\notlp_grpc = \"\"\notlp_http = \"\"\n").unwrap();
    let piped = |command: &mut Command| Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let (store, exported) = (dir.path().join("store"), dir.path().join("spans.jsonl"));
    let mut server = piped(
        Command::new(WIRESPAN)
            .args(["server", "--token", "s3cret", "--listen", &link, "--ui", &ui, "--config"])
            .arg(&config)
            .arg("--store")
            .arg(&store)
            .arg("--otlp-file")
            .arg(&exported),
    );
    server.wait_for("agents on");
    let script = "import http.server, threading, http.client, time\n\
        input()\n\
        s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n\
        threading.Thread(target=s.serve_forever, daemon=True).start()\n\
        for i in range(3):\n    c = http.client.HTTPConnection(*s.server_address); c.request('GET', '/over/the/link'); c.getresponse().read()\n\
        time.sleep(20)\n";
    let mut target = piped(Command::new("python3").args(["-c", script]).stdin(Stdio::piped()));
    let mut agent = piped(Command::new(WIRESPAN).args([
        "agent",
        "--token",
        "s3cret",
        "--server",
        &link,
        "--pid",
        &target.pid().to_string(),
    ]));
    agent.wait_for("tracing");
    std::io::Write::write_all(target.0.stdin.as_mut().unwrap(), b"\n").unwrap();
    let found = eventually("the server has the spans", || {
        let done = wirespan(&["traces", "--server", &ui, "endpoint=/over/the/link", "--format", "json"]);
        let text = String::from_utf8_lossy(&done.stdout).to_string();
        (text.lines().count() == 3).then_some(text)
    });
    let summary: serde_json::Value = serde_json::from_str(found.lines().next().unwrap()).unwrap();
    let id = summary["id"].as_str().unwrap();
    let tree = wirespan(&["trace", "--server", &ui, id]);
    let tree = String::from_utf8_lossy(&tree.stdout).to_string();
    assert!(tree.contains("GET /over/the/link") && tree.contains("wire 1.00"), "{tree}");
    let json = wirespan(&["trace", "--server", &ui, id, "--format", "otlp"]);
    assert!(String::from_utf8_lossy(&json.stdout).starts_with("{\"resourceSpans\""));
    let map = wirespan(&["map", "--server", &ui]);
    assert!(String::from_utf8_lossy(&map.stdout).contains("3 requests"), "{}", String::from_utf8_lossy(&map.stdout));
    let status = wirespan(&["status", "--server", &ui]);
    assert!(String::from_utf8_lossy(&status.stdout).contains("agents_connected"));
    eventually("the server exports while it runs", || {
        let spans = std::fs::read_to_string(&exported).unwrap();
        (spans.matches("\"/over/the/link\"").count() == 6).then_some(())
    });
    let missing = wirespan(&["trace", "--server", &ui, "00000000000000ff"]);
    assert_eq!(missing.status.code(), Some(1));
    agent.end();
    server.end();
}
