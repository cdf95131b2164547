//! Context in requests of HTTP/2 and gRPC, by clients of several languages. The truth is what servers received, with
//! and without tracing.

use crate::harness::{can_trace, go_build, has, otlp, root, Running, Span, WIRESPAN};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Requests of each client, and how many of them are under way at a time.
const ASKED: usize = 200;
const AT_ONCE: usize = 10;

fn app(name: &str) -> String {
    root().join("tests/apps/inject/http2").join(name).to_str().unwrap().to_string()
}

/// An interpreter that has the package h2.
fn python() -> Option<String> {
    let fetched = root().join("target/servers/venv/bin/python3").to_str().unwrap().to_string();
    let has_it = |python: &String| {
        let done = Command::new(python).args(["-c", "import h2"]).output();
        done.is_ok_and(|done| done.status.success())
    };
    [fetched, "python3".to_string()].into_iter().find(has_it)
}

fn build(dir: &Path) -> String {
    let program = dir.join("http2");
    go_build(app("").as_ref(), &program);
    program.to_str().unwrap().to_string()
}

/// A server that writes down what it received.
struct Server {
    port: String,
    truth: PathBuf,
    _running: Running,
    _dir: tempfile::TempDir,
}

impl Server {
    fn start(command: &[&str]) -> Server {
        let dir = tempfile::tempdir().unwrap();
        let truth = dir.path().join("truth");
        let mut child = Command::new(command[0]);
        child.args(&command[1..]).arg(&truth).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut running = Running(child.spawn().unwrap());
        let mut port = String::new();
        let out = running.0.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut port).unwrap();
        Server { port: port.trim().to_string(), truth, _running: running, _dir: dir }
    }

    fn received(&self) -> BTreeMap<String, Value> {
        let text = std::fs::read_to_string(&self.truth).unwrap();
        std::fs::write(&self.truth, "").unwrap();
        let all: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let number = all.len();
        let by_target: BTreeMap<_, _> =
            all.into_iter().map(|r| (r["target"].as_str().unwrap().to_string(), r)).collect();
        assert_eq!(by_target.len(), number, "each request comes once");
        by_target
    }
}

/// What a server receives from a client, with the spans and counters of wirespan if it is traced.
fn ask(server: &Server, client: &[&str], own: bool, traced: bool) -> (BTreeMap<String, Value>, Vec<Span>) {
    let dir = tempfile::tempdir().unwrap();
    let (config, spans) = (dir.path().join("wirespan.toml"), dir.path().join("spans"));
    std::fs::write(&config, "[capture]\npropagate = \"vouched\"\n").unwrap();
    let mut command = Command::new(if traced { WIRESPAN } else { "env" });
    if traced {
        command.arg("--config").arg(&config).args(["run", "--no-ui", "--print", "0", "--otlp-file"]).arg(&spans);
        command.arg("--");
    }
    command.args(client).arg(format!("127.0.0.1:{}", server.port)).args([ASKED.to_string(), AT_ONCE.to_string()]);
    command.args(own.then_some("own"));
    let done = command.output().unwrap();
    assert!(done.status.success(), "{client:?}: {}", String::from_utf8_lossy(&done.stderr));
    (server.received(), if traced { otlp(&spans) } else { Vec::new() })
}

fn contexts(request: &Value) -> Vec<&str> {
    request["contexts"].as_array().unwrap().iter().map(|c| c.as_str().unwrap()).collect()
}

/// Every request carries one context, that of its own span, and nothing else differs.
fn check(server: &Server, client: &[&str]) {
    let (plain, _) = ask(server, client, false, false);
    let (received, spans) = ask(server, client, false, true);
    assert_eq!((plain.len(), received.len()), (ASKED, ASKED), "{client:?}");
    let (mut without, mut ids, mut apart) = (Vec::new(), BTreeSet::new(), Vec::new());
    for (target, request) in &received {
        let untraced = &plain[target];
        for part in ["target", "body", "length"] {
            assert_eq!(untraced[part], request[part], "{client:?}: {part}");
        }
        // The address of the server is the same; a date or a number of a port would differ.
        assert_eq!(untraced["rest"], request["rest"], "{client:?}");
        let all = contexts(request);
        assert!(all.len() <= 1, "{client:?}: {request}");
        let Some(context) = all.first() else {
            without.push(target);
            continue;
        };
        ids.insert(context[36..52].to_string());
        let span = spans.iter().find(|s| s.id == context[36..52]);
        match span {
            Some(span) if span.attr("url.path") == target || span.name.contains(target.as_str()) => {
                assert_eq!(span.trace, context[3..35], "{client:?}: {target}");
            }
            _ => apart.push((target, span.map(|s| (s.name.clone(), s.attr("url.path").to_string())))),
        }
    }
    println!("{client:?}: {} of {ASKED} without a context, {} spans not found", without.len(), apart.len());
    assert!(without.is_empty(), "{client:?}: {:?}…", without.first());
    assert_eq!(ids.len(), ASKED, "{client:?}: each has a span id of its own");
    assert!(apart.is_empty(), "{client:?}: {apart:?}");
}

/// Once an application has sent a context of its own, the connection is its own.
fn check_own(server: &Server, client: &[&str]) {
    let (received, _) = ask(server, client, true, true);
    assert_eq!(received.len(), ASKED, "{client:?}");
    for (target, request) in &received {
        let all = contexts(request);
        let number: usize = target[3..].split('-').next().unwrap().parse().unwrap();
        let owns = all.first().is_some_and(|c| c.starts_with("00-0af7651916cd43dd8448eb211c80319c"));
        assert_eq!(owns, number == 10 || number == 11, "{client:?}: {request}");
        assert!(all.len() <= 1, "{client:?}: {request}");
        // Requests that were sent before those two may have one.
        assert!(number < 11 + 2 * AT_ONCE || owns || all.is_empty(), "{client:?}: {request}");
    }
}

fn tools(test: &str) -> bool {
    can_trace(test) && has(test, &["go"])
}

#[test]
fn every_request_of_http2_carries_its_context() {
    let test = "propagate_http2";
    if !tools(test) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let go = build(dir.path());
    let server = Server::start(&[&go, "serve"]);
    check(&server, &[&go, "ask"]);
    check_own(&server, &[&go, "ask"]);
    if has(test, &["node"]) {
        let node = Server::start(&["node", &app("node.mjs"), "serve"]);
        check(&server, &["node", &app("node.mjs"), "ask"]);
        check(&node, &[&go, "ask"]);
        check_own(&node, &["node", &app("node.mjs"), "ask"]);
    }
    if let Some(python) = python() {
        check(&server, &[&python, &app("client.py")]);
        check_own(&server, &[&python, &app("client.py")]);
    } else {
        crate::harness::skip(test, "the client in Python needs the package h2 (tests/apps/fetch/fetch.py python)");
    }
}

#[test]
fn every_call_of_grpc_carries_its_context() {
    let test = "propagate_grpc";
    if !tools(test) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let go = build(dir.path());
    let server = Server::start(&[&go, "rpc-serve"]);
    check(&server, &[&go, "rpc-ask"]);
    check_own(&server, &[&go, "rpc-ask"]);
}

/// A client, a service that passes requests on, and a server, all over HTTP/2: the service goes on with the trace that
/// came, of each stream its own.
fn check_chain(server: &Server, client: &str, front: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let (config, spans) = (dir.path().join("wirespan.toml"), dir.path().join("spans"));
    std::fs::write(&config, "[capture]\npropagate = \"vouched\"\n").unwrap();
    // A second: streams have names once the agent has found the runtime of the new process.
    let script = format!(
        "{} 127.0.0.1:{} >{dir}/port & while ! test -s {dir}/port; do sleep 0.05; done; sleep 1; \
         {client} ask 127.0.0.1:$(cat {dir}/port) {ASKED} {AT_ONCE}; sleep 0.5; kill $!",
        front.join(" "),
        server.port,
        dir = dir.path().display()
    );
    let mut command = Command::new(WIRESPAN);
    command.arg("--config").arg(&config).args(["run", "--no-ui", "--print", "0", "--otlp-file"]).arg(&spans);
    let done = command.args(["--", "sh", "-c", &script]).output().unwrap();
    println!("{}", String::from_utf8_lossy(&done.stderr));
    let (received, spans) = (server.received(), otlp(&spans));
    assert_eq!(received.len(), ASKED, "{front:?}");
    let by_id: BTreeMap<_, _> = spans.iter().map(|s| (s.id.as_str(), s)).collect();
    let (mut without, mut unknown, mut apart) = (0, 0, Vec::new());
    for (target, request) in &received {
        let all = contexts(request);
        assert!(all.len() <= 1, "{front:?}: {request}");
        let Some(context) = all.first() else {
            without += 1;
            continue;
        };
        // The call of the service, its own request, and the call of the client that made that.
        let above = |span: &&Span| by_id.get(span.parent.as_str()).copied();
        let chain: Vec<_> = std::iter::successors(by_id.get(&context[36..52]).copied(), above).collect();
        if chain.len() != 3 {
            unknown += 1;
        } else if chain.iter().any(|s| s.attr("url.path") != target || s.trace != context[3..35]) {
            apart.push(target);
        }
    }
    println!("{front:?}: of {ASKED} {without} without a context, {unknown} without a chain, {} wrong", apart.len());
    assert!(apart.is_empty(), "{front:?}: {apart:?}");
    assert!(without + unknown <= ASKED / 50, "{front:?}: {without} without a context, {unknown} without a chain");
}

#[test]
fn a_service_goes_on_with_the_traces_that_came_over_http2() {
    let test = "propagate_http2_chain";
    if !tools(test) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let go = build(dir.path());
    let server = Server::start(&[&go, "serve"]);
    check_chain(&server, &go, &[&go, "front"]);
    if has(test, &["node"]) {
        check_chain(&server, &go, &["node", &app("node.mjs"), "front"]);
    }
}
