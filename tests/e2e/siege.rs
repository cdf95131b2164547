//! A server under attack, or on a bad day: what it took is kept, what it cannot take is refused, and nobody can fill
//! it. `tests/attacks` has the same attacks at length.

use crate::harness::{eventually, skip, wirespan, within, Running, WIRESPAN};
use rustix::process::geteuid;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use wirespan_model::{Span, SpanId};
use wirespan_ship::link::{AgentInfo, Sender, SenderConfig, SenderState};

/// Start of the first span, Unix ns: old spans would be dropped by age.
fn start() -> u64 {
    static START: LazyLock<u64> =
        LazyLock::new(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64);
    *START
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A server whose ports are known.
struct Server {
    process: Running,
    ui: u16,
    otlp: u16,
    agents: u16,
}

impl Server {
    /// Starts it by a shell, after these commands.
    fn start(before: &str, dir: &Path, more: &[&str]) -> Server {
        let [ui, otlp, agents] = [free_port(), free_port(), free_port()];
        let config = dir.join("wirespan.toml");
        let serve = format!("[serve]\notlp_grpc = \"\"\notlp_http = \"127.0.0.1:{otlp}\"\n");
        std::fs::write(&config, serve).unwrap();
        let (ui_at, agents_at) = (format!("127.0.0.1:{ui}"), format!("127.0.0.1:{agents}"));
        let script = format!("{before}; exec \"$0\" \"$@\"");
        let mut args = vec!["--mount", "--propagation", "private", "sh", "-c", &script, WIRESPAN, "server"];
        args.extend(["--config", config.to_str().unwrap(), "--ui", &ui_at, "--listen", &agents_at]);
        args.extend(more);
        let mut process = Running::start("unshare", &args);
        process.wait_for("OTLP on");
        Server { process, ui, otlp, agents }
    }

    fn http(&self, port: u16, head: &str, body: &str) -> std::io::Result<String> {
        let mut to = TcpStream::connect(("127.0.0.1", port))?;
        to.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(
            to,
            "{head} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = String::new();
        to.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Reports a span as an SDK does; returns the answer.
    fn report(&self, id: u64) -> String {
        self.report_named(id, "n")
    }

    /// The same, with this name in JSON's notation.
    fn report_named(&self, id: u64, name: &str) -> String {
        let span = format!(
            "{{\"traceId\":\"{:032x}\",\"spanId\":\"{id:016x}\",\"name\":\"{name}\",\"startTimeUnixNano\":\"{}\"}}",
            id,
            start() + id
        );
        let body = format!("{{\"resourceSpans\":[{{\"scopeSpans\":[{{\"spans\":[{span}]}}]}}]}}");
        self.http(self.otlp, "POST /v1/traces", &body).unwrap()
    }

    fn status(&self) -> serde_json::Value {
        let answer = self.http(self.ui, "GET /api/v1/status", "").unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// An agent's link.
    fn sender(&self, token: &str) -> Sender {
        let agent = AgentInfo { host: "node-1".into(), host_id: 5, version: "0".into(), pid: 1, takes_orders: false };
        let config = SenderConfig::new(format!("127.0.0.1:{}", self.agents), agent);
        Sender::start(SenderConfig { token: token.into(), batch_wait: Duration::from_millis(10), ..config }).unwrap()
    }
}

fn spans(ids: std::ops::Range<u64>) -> Vec<Arc<Span>> {
    ids.map(|i| Arc::new(Span { id: SpanId(i), start_ns: start() + i, ..Span::default() })).collect()
}

fn may_mount(test: &str) -> bool {
    if !geteuid().is_root() {
        skip(test, "needs root to mount a small disk");
    }
    geteuid().is_root()
}

#[test]
fn a_full_store_refuses_sdks_and_agents_and_later_takes_what_they_kept() {
    if !may_mount("siege_full") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    std::fs::create_dir(&store).unwrap();
    // The store stops when less than 64 MiB are left.
    let mount = format!("mount -t tmpfs -o size=80m tmpfs {}", store.display());
    let server = Server::start(&mount, dir.path(), &["--store", store.to_str().unwrap()]);
    assert!(server.report(1).starts_with("HTTP/1.1 200"));
    let ballast = format!("/proc/{}/root{}/ballast", server.process.pid(), store.display());
    std::fs::write(&ballast, vec![0; 20 << 20]).unwrap();
    eventually("the store stops", || server.status()["store"]["stopped"].as_str().map(str::to_string));

    let answer = server.report(2);
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("retry-after: 1"), "{answer}");
    assert!(answer.contains("disk full"), "{answer}");
    let agent = server.sender("");
    agent.send(spans(100..1100));
    let held = eventually("the agent is told to wait", || match agent.status().state {
        SenderState::Held(why) => Some(why),
        _ => None,
    });
    assert!(held.contains("disk full"), "{held}");
    let status = agent.status();
    assert_eq!((status.acked, status.queued, status.dropped()), (0, 1000, 0), "nothing is acknowledged or lost");
    assert_eq!(server.status()["store"]["spans"], 1);
    let count = |stage: &str, name: &str| {
        let status = server.status();
        let stage = status["agent"]["stages"].as_array()?.iter().find(|s| s["name"] == stage)?;
        stage["counters"].as_array()?.iter().find(|c| c["name"] == name)?["value"].as_u64().filter(|n| *n > 0)
    };
    assert_eq!(eventually("the SDK's span is counted", || count("otlp-receive", "spans_deferred")), 1);
    eventually("the agent's spans are counted", || count("receive", "deferred"));

    std::fs::remove_file(&ballast).unwrap();
    eventually("the agent's spans are taken", || (agent.status().acked == 1000).then_some(()));
    assert!(agent.status().state == SenderState::Connected);
    eventually("the SDK's span is taken", || server.report(2).starts_with("HTTP/1.1 200").then_some(()));
    assert_eq!(server.status()["store"]["spans"], 1002, "each span once");
}

#[test]
fn half_open_connections_fill_neither_a_port_nor_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    // 64 slots for the UI, 64 for OTLP and 32 for agents.
    let more = ["--token", "secret", "--store", store.to_str().unwrap()];
    if !may_mount("siege_connections") {
        return;
    }
    let server = Server::start("ulimit -n 640", dir.path(), &more);
    let mut held = Vec::new();
    for begin in ["", "G", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        for port in [server.ui, server.otlp, server.agents] {
            for _ in 0..80 {
                let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
                let _ = stream.write_all(begin.as_bytes());
                held.push(stream);
            }
        }
    }
    // Bodies that never come.
    for _ in 0..80 {
        let mut stream = TcpStream::connect(("127.0.0.1", server.otlp)).unwrap();
        let head = "POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n";
        let _ = write!(stream, "{head}Content-Length: 10000000\r\n\r\n{{");
        held.push(stream);
    }
    let began = Instant::now();
    for id in 1..=20 {
        let answer = server.report(id);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let agent = server.sender("secret");
    agent.send(spans(100..1100));
    within(Duration::from_secs(5), "the agent's spans are taken", || (agent.status().acked == 1000).then_some(()));
    let status = server.status();
    assert_eq!(status["store"]["spans"], 1020, "{status}");
    assert!(began.elapsed() < Duration::from_secs(8), "answers took {:?}", began.elapsed());
    assert!(status["store"]["stopped"].is_null(), "{status}");
    drop(held);
    server.process.end();
}

#[test]
fn a_slow_stranger_is_hung_up_on_in_time_whatever_it_sends() {
    if !may_mount("siege_slow") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start("true", dir.path(), &["--token", "secret"]);
    let ports = [server.ui, server.otlp, server.agents];
    let mut slow: Vec<_> = ports.iter().map(|port| TcpStream::connect(("127.0.0.1", *port)).unwrap()).collect();
    slow.iter().for_each(|s| s.set_read_timeout(Some(Duration::from_millis(1))).unwrap());
    // The agents' port hears a hello of 255 bytes, the others the name of a method.
    slow[2].write_all(b"WSPN\x05\x00\xff\x00\x00\x00\x01").unwrap();
    let began = Instant::now();
    while !slow.is_empty() {
        // A byte now and then: a limit for each read would never be reached.
        slow.retain_mut(|stream| {
            let alive = stream.write_all(b"W").is_ok();
            let ended = |e: &std::io::Error| !matches!(e.kind(), std::io::ErrorKind::WouldBlock);
            alive && !matches!(stream.read(&mut [0; 64]), Ok(0)) && !stream.read(&mut [0; 64]).is_err_and(|e| ended(&e))
        });
        assert!(began.elapsed() < Duration::from_secs(20), "{} strangers are still connected", slow.len());
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_name_that_came_by_otlp_moves_no_terminal_and_forges_no_line() {
    if !may_mount("siege_terminal") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start("true", dir.path(), &[]);
    let name = "\\u001b]0;title\\u0007\\u009b2J\\r\\nforged  line\\u202e";
    assert!(server.report_named(7, name).starts_with("HTTP/1.1 200"));
    let ui = format!("127.0.0.1:{}", server.ui);
    let from = ["--from", "0"];
    let asked: [Vec<&str>; 5] = [
        [&["traces"], &from[..]].concat(),
        [&["traces", "--format", "json"], &from[..]].concat(),
        vec!["trace", "0000000000000007"],
        vec!["trace", "0000000000000007", "--format", "otlp"],
        [&["map", "--format", "dot"], &from[..]].concat(),
    ];
    for args in asked {
        let done = wirespan(&[&args[..], &["--server", &ui]].concat());
        let text = String::from_utf8(done.stdout).unwrap();
        assert!(done.status.success() && !text.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        assert!(!text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'), "{args:?}: {text:?}");
        assert!(!text.lines().any(|l| l.starts_with("forged")), "{args:?}: {text:?}");
    }
}

#[test]
fn a_ui_for_other_machines_asks_for_the_token_that_it_prints() {
    let (port, link) = (free_port(), free_port());
    let (ui, link) = (format!("0.0.0.0:{port}"), format!("127.0.0.1:{link}"));
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("wirespan.toml");
    std::fs::write(&config, "[serve]\notlp_grpc = \"\"\notlp_http = \"\"\n").unwrap();
    let args = ["server", "--ui", &ui, "--listen", &link, "--config", config.to_str().unwrap()];
    let mut server = Running::start(WIRESPAN, &args);
    let said = server.wait_for("agents on");
    assert!(said.contains("can be reached from other machines"), "{said}");
    let token = said.split("?token=").nth(1).unwrap().split(';').next().unwrap();
    assert_eq!(token.len(), 32, "{said}");
    let at = format!("127.0.0.1:{port}");
    let refused = wirespan(&["status", "--server", &at]);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("asks for a token"));
    let given = wirespan(&["status", "--server", &at, "--ui-token", token]);
    assert!(given.status.success(), "{}", String::from_utf8_lossy(&given.stderr));
    server.end();
}

#[test]
fn a_read_only_store_is_served_and_takes_nothing() {
    if !may_mount("siege_read_only") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (written, store) = (dir.path().join("written"), dir.path().join("store"));
    std::fs::create_dir(&store).unwrap();
    let server = Server::start("true", dir.path(), &["--store", written.to_str().unwrap()]);
    assert!((1..=20).all(|id| server.report(id).starts_with("HTTP/1.1 200")));
    server.process.end();
    let (from, to) = (written.display(), store.display());
    let mount = format!("mount -t tmpfs -o size=80m tmpfs {to} && cp -r {from}/. {to} && mount -o remount,ro {to}");
    let server = Server::start(&mount, dir.path(), &["--store", store.to_str().unwrap()]);
    assert_eq!(server.status()["store"]["spans"], 20);
    let answer = server.report(21);
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("only looked at"), "{answer}");
    let said = wirespan(&["status", "--server", &format!("127.0.0.1:{}", server.ui)]);
    let said = String::from_utf8_lossy(&said.stdout).to_string();
    assert!(said.contains("only looked at") && said.contains("directory that can be written"), "{said}");
}
