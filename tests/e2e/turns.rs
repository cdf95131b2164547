//! Tasks that a runtime runs in turns: a request has the time of its task, not that of the thread. The services are the
//! truth: each request says how long it ran, awaited something, and was ready while others had their turn.

use crate::harness::{can_trace, has, otlp, root, skip, Span, WIRESPAN};
use crate::java_stacks::machines;
use crate::waits::Wait;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const ASKED: usize = 12;
/// Most requests of which another time may be told: the machine is shared, and the service's own clock is not exact.
const WRONG: usize = 2;
/// What is told may differ from what the service says by a tenth and so much.
const OFF_MS: f64 = 5.0;

/// What a request did for how long, ms.
#[derive(Debug)]
struct Did {
    ran: f64,
    awaited: f64,
    kept: f64,
    /// Besides what the service has measured.
    rest: f64,
}

impl Did {
    fn said(truth: &Value, span: &Span) -> Did {
        let of = |what: &str| truth[what].as_f64().unwrap() * 1e3;
        let rest = (span.duration_ns as f64 / 1e6 - of("took")).max(0.0);
        Did { ran: of("ran"), awaited: of("awaited"), kept: of("kept"), rest }
    }

    /// Whether the parts of a span are these. Of a busy thread, the kernel may have forgotten when it ran for the
    /// request and when it was kept from a processor, but not when it ran others.
    fn is_told(&self, span: &Span) -> bool {
        let ms = |part: &str| span.attr(&format!("wirespan.wait.{part}")).parse().unwrap_or(0.0) / 1e6;
        let is = |told: f64, unknown: f64, said: f64| {
            told + unknown >= said * 0.9 - OFF_MS && told <= said * 1.1 + OFF_MS + self.rest
        };
        is(ms("on_cpu"), ms("unknown"), self.ran)
            && is(ms("blocked"), 0.0, self.awaited)
            && is(ms("runtime_queue"), 0.0, self.kept)
    }
}

/// Asks a service that says of each request what it did; of most requests the same must be told. `awaits`: waits of 25
/// ms or more that each request has.
fn ask(service: &mut Command, name: &str, awaits: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let spans = dir.path().join("spans");
    let mut command = Command::new(WIRESPAN);
    command.args(["run", "--no-ui", "--print", "0", "--threshold", "20ms", "--otlp-file"]).arg(&spans).arg("--");
    let done = command.arg(service.get_program()).args(service.get_args()).output().unwrap();
    assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
    let (spans, truth) = (otlp(&spans), String::from_utf8_lossy(&done.stdout).to_string());
    let (mut wrong, mut asked) = (Vec::new(), 0);
    for line in truth.lines().filter(|line| line.starts_with('{')) {
        let truth: Value = serde_json::from_str(line).unwrap();
        let path = truth["path"].as_str().unwrap();
        let span = spans.iter().find(|s| s.attr("url.path") == path && !s.attr("wirespan.wait.reason").is_empty());
        let span = span.unwrap_or_else(|| panic!("{name}: no slow request {path}"));
        let did = Did::said(&truth, span);
        let waits = Wait::all(span);
        let has = |what: &&&str| waits.iter().any(|w| w.fact("resource") == **what && w.ms() >= 25.0);
        let lacks: Vec<_> = awaits.iter().filter(|what| !has(what)).collect();
        asked += 1;
        if !did.is_told(span) || !lacks.is_empty() {
            let parts: Vec<_> = span.attrs.iter().filter(|(key, _)| key.starts_with("wirespan.wait.")).collect();
            wrong.push(format!("{path}: {did:?}: {parts:?}, lacks {lacks:?}: {:?}", span.events));
        }
    }
    println!("{name}: {} of {asked} requests are told right", asked - wrong.len());
    assert_eq!(asked, ASKED, "{name}: {truth}");
    assert!(wrong.len() <= WRONG, "{name}: {} of {ASKED}: {wrong:#?}", wrong.len());
}

/// A service of asyncio.
fn python(interpreter: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(interpreter);
    command.arg(root().join("tests/apps/ready/service.py")).arg(ASKED.to_string()).args(arguments);
    command
}

/// Where the tasks of asyncio stopped is known from Python 3.11 on.
const AWAITED: [&str; 3] = ["awaits: sleep", "awaits: Lock.acquire", "ready"];

#[test]
fn a_request_of_asyncio_has_the_time_of_its_task() {
    let test = "turns_asyncio";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    for how in ["streams", "tasks"] {
        ask(&mut python(Path::new("/usr/bin/python3"), &[how]), how, &AWAITED);
    }
}

#[test]
fn a_request_of_uvloop_has_the_time_of_its_task() {
    let (test, python3) = ("turns_uvloop", root().join("target/servers/venv/bin/python3"));
    if !can_trace(test) {
        return;
    }
    if !python3.exists() {
        return skip(test, "needs uvloop: tests/apps/fetch/fetch.py python");
    }
    for how in ["streams", "tasks"] {
        ask(&mut python(&python3, &[how, "uvloop"]), &format!("{how} of uvloop"), &AWAITED);
    }
}

#[test]
fn a_request_of_tokio_has_the_time_of_its_task() {
    let test = "turns_tokio";
    if !can_trace(test) {
        return;
    }
    let program = Path::new(WIRESPAN).with_file_name("examples").join("ready_tokio");
    if !program.exists() {
        return skip(test, "needs cargo build --example ready_tokio");
    }
    let mut service = Command::new(program);
    ask(service.arg(ASKED.to_string()), "tokio", &["parked"]);
}

/// That a virtual thread is ready is not seen: it counts as awaiting.
#[test]
fn a_request_of_a_virtual_thread_has_the_time_of_that_thread() {
    let test = "turns_java";
    if !can_trace(test) {
        return;
    }
    let Some((java, _)) = machines().into_iter().find(|(_, version)| *version >= 21) else {
        return skip(test, "needs Java 21 or newer");
    };
    let (dir, source) = (tempfile::tempdir().unwrap(), root().join("tests/apps/ready/Service.java"));
    let done = Command::new(java.with_file_name("javac")).arg("-d").args([dir.path(), &source]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let mut service = Command::new(java);
    let one = ["parallelism", "maxPoolSize"].map(|what| format!("-Djdk.virtualThreadScheduler.{what}=1"));
    ask(service.args(one).arg("-cp").arg(dir.path()).arg("Service").arg(ASKED.to_string()), "java", &["parked"]);
}
