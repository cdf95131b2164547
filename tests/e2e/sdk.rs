//! Spans of an SDK: where did their own time go? The service measures it itself.

use crate::harness::{can_trace, has, otlp, root, skip, Span, WIRESPAN};
use serde_json::Value;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

const PARTS: [&str; 7] = ["on_cpu", "run_queue", "cpu_limit", "blocked", "children", "other_requests", "unknown"];
/// What a span does besides its known waits, and how long a busy machine may keep it.
const BESIDES_MS: f64 = 12.0;
/// How far clocks may be off.
const OFF_MS: f64 = 1.0;

#[test]
fn spans_of_an_sdk_have_the_parts_and_waits_of_their_own_time() {
    check("sdk_own", "own", Path::new("python3"));
}

#[test]
fn the_same_with_opentelemetrys_sdk() {
    let python = root().join("target/servers/otel_sdk/bin/python3");
    match python.exists() {
        true => check("sdk_otel", "sdk", &python),
        false => skip("sdk_otel", "needs target/servers/otel_sdk: tests/apps/fetch/fetch.py otel_sdk"),
    }
}

fn check(test: &str, which: &str, python: &Path) {
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    let Some(wrong) = wrong_spans(test, which, python) else { return };
    if !wrong.is_empty() {
        println!("once more, as a shared machine may stop for a long time: {wrong:#?}");
        let wrong = wrong_spans(test, which, python).unwrap_or_default();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

/// Spans whose parts or waits are not those that the service has measured; `None` if nothing could be seen.
fn wrong_spans(test: &str, which: &str, python: &Path) -> Option<Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    let (config, spans, truth) = (dir.path().join("config.toml"), dir.path().join("spans"), dir.path().join("truth"));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    std::fs::write(&config, format!("[serve]\notlp_grpc = \"\"\notlp_http = \"127.0.0.1:{port}\"\n")).unwrap();
    let mut command = Command::new(WIRESPAN);
    command.args(["run", "--no-ui", "--print", "0", "--threshold", "20ms", "--config"]).arg(&config);
    command.arg("--otlp-file").arg(&spans).arg("--").arg(python).arg(root().join("tests/apps/sdk/run.py"));
    let done = command.args([which, &format!("http://127.0.0.1:{port}/v1/traces")]).arg(&truth).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    if said.contains("no OTLP is received") {
        skip(test, "another program took the port");
        return None;
    }
    assert!(done.status.success(), "{said}");
    let (spans, truth) = (otlp(&spans), std::fs::read_to_string(&truth).unwrap());
    let mut wrong = Vec::new();
    for line in truth.lines() {
        let truth: Value = serde_json::from_str(line).unwrap();
        let span = spans.iter().find(|s| s.id == truth["span"]).unwrap_or_else(|| panic!("no span of {truth}"));
        let told = Told { truth: &truth, span };
        wrong.extend(told.is_wrong().map(|why| format!("{why}: {told:?}")));
    }
    assert_eq!(truth.lines().count(), 4 + 4 + 5 + 1, "{truth}");
    Some(wrong)
}

struct Told<'a> {
    truth: &'a Value,
    span: &'a Span,
}

impl Told<'_> {
    fn part(&self, part: &str) -> f64 {
        self.span.attr(&format!("wirespan.wait.{part}")).parse().unwrap_or(0.0) / 1e6
    }

    fn truth(&self, what: &str) -> f64 {
        self.truth[what].as_f64().unwrap() * 1e3
    }

    fn is_about(&self, part: &str, ms: f64) -> bool {
        (ms - OFF_MS..=ms + BESIDES_MS).contains(&self.part(part))
    }

    fn slept(&self) -> Vec<f64> {
        let events = self.span.events.iter().filter(|e| e.get("wirespan.wait.kind").is_some_and(|k| k == "sleep"));
        events.map(|e| e["wirespan.wait.duration"].parse::<f64>().unwrap() / 1e6).collect()
    }

    fn is_wrong(&self) -> Option<&'static str> {
        let (case, name) = (self.truth["case"].as_str().unwrap(), self.truth["name"].as_str().unwrap());
        let sum: f64 = PARTS.iter().map(|part| self.part(part)).sum();
        let evidence = match case {
            "carried" => "context",
            "called" => "call",
            "job" => "thread",
            _ => "process",
        };
        let (ran, slept) = (self.truth("ran"), self.truth("slept"));
        // No waits of the job are recorded: what its thread did between its messages is known, and not when.
        let is_exact = case != "job";
        let rules = [
            ("the parts do not add up", (sum - self.span.duration_ns as f64 / 1e6).abs() < 0.001),
            ("the evidence is wrong", self.span.attr("wirespan.wait.evidence") == evidence),
            ("its reason is wrong", (self.span.attr("wirespan.wait.reason") == "slow") == is_exact),
            ("more than it ran", self.part("on_cpu") <= ran + BESIDES_MS),
            ("it ran for longer", self.part("on_cpu") >= ran - if is_exact { OFF_MS } else { BESIDES_MS }),
            // The request's own span sleeps in those within it.
            ("it slept for longer", !is_exact || name == "request" || self.is_about("blocked", slept)),
            ("its calls took longer", !is_exact || name != "call" || self.is_about("children", 40.0)),
            ("its sleep is not told", !is_exact || slept == 0.0 || self.slept().iter().any(|ms| *ms > 40.0 - OFF_MS)),
            ("another span's sleep is told", name != "spin" || self.slept().iter().all(|ms| *ms < OFF_MS)),
            ("too little is known", self.part("unknown") < if is_exact { BESIDES_MS } else { 2.0 * BESIDES_MS }),
        ];
        rules.into_iter().find(|(_, holds)| !holds).map(|(why, _)| why)
    }
}

impl std::fmt::Debug for Told<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts: Vec<String> = PARTS.iter().map(|p| format!("{p} {:.2}", self.part(p))).collect();
        let evidence = self.span.attr("wirespan.wait.evidence");
        write!(f, "{} by {evidence} [{}]", self.truth, parts.join(", "))
    }
}
