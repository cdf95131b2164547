//! What a running wirespan says of itself: its memory, and metrics as Prometheus reads them.

use crate::harness::{can_trace, eventually, has, Running, WIRESPAN};
use serde_json::Value;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Together, with the kernel's part, of a release build that traces one idle process: the bar. A build for tests has a
/// larger program file.
const IDLE_MIB: f64 = if cfg!(debug_assertions) { 50.0 } else { 45.0 };

/// Three requests to a server of its own, by a client in the same process; then it waits.
const APP: &str = r"
import http.server, threading, time, urllib.request
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
while True:
    urllib.request.urlopen('http://127.0.0.1:%d/' % server.server_address[1]).read()
    time.sleep(0.3)
";

/// `wirespan up` for this process; the agent and the address of its view.
fn up(pid: u32) -> (Running, String) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ui = format!("127.0.0.1:{port}");
    let mut agent = Running::start(WIRESPAN, &["up", "--ui", &ui, "--pid", &pid.to_string()]);
    agent.wait_for("Ctrl-C ends");
    (agent, ui)
}

fn get(ui: &str, path: &str) -> String {
    ureq::get(format!("http://{ui}{path}")).call().unwrap().body_mut().read_to_string().unwrap()
}

#[test]
fn an_idle_agent_takes_little_memory_the_kernels_part_included() {
    if !can_trace("state_memory") {
        return;
    }
    let target = Running::start("sleep", &["60"]);
    let (_agent, ui) = up(target.pid());
    // All programs are loaded, and what only the start needed is given back.
    std::thread::sleep(Duration::from_secs(8));
    let status: Value = serde_json::from_str(&get(&ui, "/api/v1/status")).unwrap();
    let memory = &status["agent"]["memory"];
    let mib = |part: &str| memory[part].as_u64().unwrap() as f64 / f64::from(1 << 20);
    let parts = ["kernel_tables", "kernel_programs", "resident"].map(mib);
    println!("MiB: {parts:?}");
    assert!(parts.iter().all(|part| *part > 0.0), "{memory}");
    assert!(parts.iter().sum::<f64>() <= IDLE_MIB, "{parts:?} MiB, more than {IDLE_MIB}");
}

#[test]
fn promtool_finds_no_fault_with_the_metrics() {
    let test = "state_promtool";
    if !can_trace(test) || !has(test, &["python3", "promtool"]) {
        return;
    }
    let app = Running::start("python3", &["-c", APP]);
    let (_agent, ui) = up(app.pid());
    let metrics = eventually("metrics of spans", || {
        let metrics = get(&ui, "/metrics");
        metrics.contains("http_server_request_duration_seconds_bucket").then_some(metrics)
    });
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = promtool.spawn().unwrap();
    promtool.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let done = promtool.wait_with_output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && said.trim().is_empty(), "{said}\n{metrics}");
}
