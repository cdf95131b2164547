//! Context injection. The truth is what servers received: the right context, once, and no other byte changed.

use crate::harness::{can_trace, has, otlp, root, wirespan, Running, Span, WIRESPAN};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

const OWN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// Whether injection works on this machine: `wirespan check` says how, or why not.
fn injects(test: &str) -> bool {
    if !can_trace(test) || !has(test, &["python3"]) {
        return false;
    }
    let checked = wirespan(&["check", "--format", "json"]);
    let table: Value = serde_json::from_slice(&checked.stdout).unwrap();
    let rows = table["features"].as_array().unwrap();
    let row = rows.iter().find(|f| f["feature"] == "context put into requests").expect("a row of the table");
    println!("{row}");
    if row["active"] == false {
        crate::harness::skip(test, &format!("stands down: {}", row["remedy"]));
        assert!(!row["remedy"].as_str().unwrap().is_empty());
        return false;
    }
    true
}

fn app() -> String {
    root().join("tests/apps/inject/propagate.py").to_str().unwrap().to_string()
}

/// The contexts that servers received, by target, and the spans.
fn calls(mode: &str, dir: &Path) -> (BTreeMap<String, Vec<String>>, Vec<Value>, Vec<Span>) {
    let (config, truth, spans) = (dir.join("wirespan.toml"), dir.join("truth"), dir.join("spans"));
    std::fs::write(&config, format!("[capture]\npropagate = \"{mode}\"\n")).unwrap();
    let done = Command::new(WIRESPAN)
        .arg("--config")
        .arg(&config)
        .args(["run", "--no-ui", "--print", "0", "--otlp-file"])
        .arg(&spans)
        .args(["--", "python3", &app(), "calls"])
        .arg(&truth)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = std::fs::read_to_string(&truth).unwrap();
    let received: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let contexts = |r: &Value| {
        r["traceparent"].as_array().unwrap().iter().map(|t| t.as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    let by_target = received.iter().map(|r| (r["target"].as_str().unwrap().to_string(), contexts(r))).collect();
    (by_target, received, otlp(&spans))
}

fn parts(traceparent: &str) -> (&str, &str, &str) {
    let mut parts = traceparent.split('-').skip(1);
    (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap())
}

/// Whether the two spans of a call are joined.
fn joined(spans: &[Span], target: &str) -> bool {
    let both: Vec<_> = spans.iter().filter(|s| s.attr("url.path") == target).collect();
    both.len() == 2 && both.iter().filter(|s| both.iter().any(|c| c.id == s.parent)).count() == 1
}

#[test]
fn requests_carry_the_context_of_their_client_span() {
    let test = "propagate_calls";
    if !injects(test) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (mut contexts, mut received, mut spans) = calls("auto", dir.path());
    // A retry, as in shapes.rs: a shared machine may stop for a moment.
    if contexts.keys().any(|target| !joined(&spans, target)) {
        println!("{test}: tried once more, as a call was torn apart: {spans:?}");
        let again = tempfile::tempdir().unwrap();
        (contexts, received, spans) = calls("auto", again.path());
    }
    let one = |target: &str| match contexts[target].as_slice() {
        [one] => one.as_str(),
        other => panic!("{target} came with {other:?}"),
    };
    // Each call has a span of its own, and the context names the exported client span.
    for target in ["/chain", "/body"] {
        let (_, its_span, flags) = parts(one(target));
        assert_eq!(flags, "01");
        let client =
            spans.iter().find(|s| s.id == its_span).unwrap_or_else(|| panic!("no span {its_span} for {target}"));
        assert_eq!(client.attr("url.path"), target);
        spans.iter().find(|s| s.parent == its_span && s.attr("url.path") == target).expect("a server span");
    }
    // The application's own context wins, however it is written and sent; `tracestate` stays.
    assert_eq!(one("/own"), OWN);
    assert_eq!(one("/writes"), OWN);
    assert_eq!(one("/unsampled"), OWN);
    let own = received.iter().find(|r| r["target"] == "/own").unwrap();
    assert_eq!(own["tracestate"][0], "a=b");
    // First requests always get a context; later ones as far as the kernel allows.
    one("/alive/0");
    one("/piped/0");
    assert!(contexts.values().all(|c| c.len() <= 1), "{contexts:?}");
    let body = received.iter().find(|r| r["target"] == "/body").unwrap();
    assert_eq!((body["length"].as_u64(), body["host"].as_array().unwrap().len()), (Some(2048), 1));
    // Injected bytes, which the client did not write, must not separate client and server spans.
    for target in contexts.keys() {
        assert!(joined(&spans, target), "{target}: {spans:?}");
    }
    // The chain is one trace. A request that was not sampled stays so behind a service without tracing.
    let behind = |target: &str| match contexts[target].as_slice() {
        [one] => Some(parts(one)),
        _ => None,
    };
    let goes_on = |from: &str, flags: &str| {
        (0..2).all(|n| {
            behind(&format!("{from}/{n}")).is_some_and(|(trace, span, its)| {
                let (first, first_span, _) = parts(one(from));
                (trace, its) == (first, flags) && span != first_span
            })
        })
    };
    let in_one_trace = |target: &str| {
        let (trace, span, _) = parts(one(target));
        spans.iter().any(|s| s.id == span && s.trace == trace)
    };
    assert!(goes_on("/chain", "01"), "{contexts:?}");
    assert!(goes_on("/unsampled", "00"), "{contexts:?}");
    assert!(in_one_trace("/chain"), "{contexts:?}");
}

/// Random requests and lookalikes in random writes. The program compares every byte.
fn soak(mode: &str, connections: &str) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("wirespan.toml");
    std::fs::write(&config, format!("[capture]\npropagate = \"{mode}\"\npropagate_option = true\n")).unwrap();
    let mut command = Command::new(WIRESPAN);
    command.arg("--config").arg(&config);
    command.args(["run", "--no-ui", "--print", "0", "--", "python3", &app(), "soak", connections]);
    if mode == "off" {
        command.env_remove("WIRESPAN_SOAK_BYTES");
    }
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).to_string();
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    let report = said.lines().find(|l| l.starts_with('{')).expect("a report");
    println!("{mode}: {report}");
    serde_json::from_str(report).unwrap()
}

#[test]
fn no_byte_is_lost_or_changed() {
    let test = "propagate_soak";
    if !injects(test) {
        return;
    }
    let report = soak("auto", "200");
    assert!(report["injected"].as_u64() > Some(20), "{report}");
    assert_eq!(soak("off", "20")["injected"], 0);
}

/// The agent is killed in the middle. Its BPF links end with it, and the sockets that it had enrolled continue.
#[test]
fn nothing_hangs_when_the_agent_is_killed() {
    let test = "propagate_kill";
    if !injects(test) {
        return;
    }
    let mut program = Command::new("python3");
    program.args([&app(), "soak", "0"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = Running(program.spawn().unwrap());
    let mut lines = BufReader::new(program.0.stdout.take().unwrap()).lines();
    // Set it for a run of gigabytes; docs/propagation.md describes one.
    let least: f64 = std::env::var("WIRESPAN_SOAK_BYTES").map_or(0.0, |n| n.parse().expect("a number of bytes"));
    let (mut sent, mut killed) = (0.0, 0);
    while killed < 3 || sent < least {
        let pid = program.pid().to_string();
        let mut agent =
            Running::start(WIRESPAN, &["up", "--pid", &pid, "--no-ui", "--propagate", "--propagate-option"]);
        agent.wait_for("tracing process");
        let line = lines.next().unwrap().unwrap();
        sent = line.strip_prefix("injected ").expect("that it was injected").parse().unwrap();
        agent.0.kill().unwrap();
        agent.0.wait().unwrap();
        killed += 1;
    }
    drop(program.0.stdin.take());
    let said: Vec<String> = lines.map(Result::unwrap).collect();
    let status = program.0.wait().unwrap();
    let mut complaint = String::new();
    program.0.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    assert!(status.success(), "{said:?}{complaint}");
    let report: Value = serde_json::from_str(said.last().expect("a report")).unwrap();
    println!("{killed} agents killed: {report}");
    assert!(report["injected"].as_u64() >= Some(15), "{report}");
}
