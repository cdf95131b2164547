//! Context in every request of kept connections. The truth is what the server received, with and without tracing.

use crate::harness::{can_trace, go_build, has, otlp, root, Span, WIRESPAN};
use serde_json::Value;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// Requests of each client.
const ASKED: usize = 24;
/// A body of this length may come in one call with its head, and such a call is too long for a context.
const LONG: u64 = 20_000;

fn app(name: &str) -> String {
    root().join("tests/apps/inject").join(name).to_str().unwrap().to_string()
}

/// What reaches the server from a client, or from a service (`front`) on behalf of one; traced if `traced`.
fn ask(kind: &str, client: &str, port: u16, traced: bool) -> (Vec<Value>, Vec<Span>) {
    let dir = tempfile::tempdir().unwrap();
    let (config, truth, spans) = (dir.path().join("wirespan.toml"), dir.path().join("truth"), dir.path().join("spans"));
    std::fs::write(&config, "[capture]\npropagate = \"vouched\"\n").unwrap();
    let mut command = Command::new(if traced { WIRESPAN } else { "env" });
    if traced {
        command.arg("--config").arg(&config).args(["run", "--no-ui", "--print", "0", "--otlp-file"]).arg(&spans);
        command.arg("--");
    }
    command.args(["python3", &app("kept.py"), &port.to_string()]).arg(&truth).args([kind, client]);
    let done = command.output().unwrap();
    assert!(done.status.success(), "{client}: {}", String::from_utf8_lossy(&done.stderr));
    let received = std::fs::read_to_string(&truth).unwrap();
    let received = received.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (received, if traced { otlp(&spans) } else { Vec::new() })
}

/// A server in Go now and then sends the context of a trace in which its call does not come to lie (known defect:
/// docs/propagation.md).
const ELSEWHERE: usize = 6;

/// The requests of a client carry one context each, that of their own span, and no other byte differs. The trace that
/// up to `elsewhere` of them name is another one than that in which their span came to lie.
fn check(kind: &str, client: &str, elsewhere: usize) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (plain, _) = ask(kind, client, port, false);
    let (received, spans) = ask(kind, client, port, true);
    assert_eq!((plain.len(), received.len()), (ASKED, ASKED), "{client}");
    let (mut without, mut others) = (Vec::new(), Vec::new());
    for (untraced, request) in plain.iter().zip(&received) {
        for part in ["connection", "target", "rest", "body", "length"] {
            assert_eq!(untraced[part], request[part], "{client}: {part}");
        }
        let contexts = request["contexts"].as_array().unwrap();
        assert!(contexts.len() <= 1, "{client}: {request}");
        let Some(context) = contexts.first().and_then(Value::as_str) else {
            without.push(request);
            continue;
        };
        let (trace, span) = (&context[3..35], &context[36..52]);
        let named = spans.iter().find(|s| s.id == span).unwrap_or_else(|| panic!("{client}: no span for {request}"));
        assert_eq!(named.attr("url.path"), request["target"].as_str().unwrap(), "{client}");
        if named.trace != trace {
            others.push(request);
        }
    }
    assert!(others.len() <= elsewhere, "{client}: {others:?}");
    println!("{client}: {} of {ASKED} requests without a context", without.len());
    assert!(without.iter().all(|request| request["length"] == LONG), "{client}: {without:?}");
}

#[test]
fn every_request_of_a_kept_connection_carries_its_context() {
    let test = "propagate_kept";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    check("client", &format!("python3 {} client", app("kept.py")), 0);
    if has(test, &["curl"]) {
        check("client", &app("kept.sh"), 0);
    }
    if has(test, &["node"]) {
        check("front", &format!("node {}", app("kept.js")), 0);
    }
    if has(test, &["go"]) {
        let dir = tempfile::tempdir().unwrap();
        check("front", &go(dir.path()), ELSEWHERE);
    }
}

fn go(dir: &Path) -> String {
    let program = dir.join("kept");
    go_build(app("kept.go").as_ref(), &program);
    program.to_str().unwrap().to_string()
}
