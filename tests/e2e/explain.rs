//! Where the time of requests went: services that measure it themselves are asked.

use crate::harness::{can_trace, has, otlp, root, skip, Span, WIRESPAN};
use serde_json::Value;
use std::process::Command;

const PARTS: [&str; 7] = ["on_cpu", "run_queue", "cpu_limit", "blocked", "children", "other_requests", "unknown"];
/// What a request does besides its known waits: parsing and answering, by an interpreter, on a busy machine.
const BESIDES_MS: f64 = 12.0;
/// How far the clocks may be off.
const OFF_MS: f64 = 0.6;

struct Request<'a> {
    truth: &'a Value,
    span: &'a Span,
}

impl Request<'_> {
    fn part(&self, part: &str) -> f64 {
        self.span.attr(&format!("wirespan.wait.{part}")).parse().unwrap_or(0.0) / 1e6
    }

    fn truth(&self, what: &str) -> f64 {
        self.truth[what].as_f64().unwrap() * 1e3
    }

    /// A part is at least what the service has measured, and not much more.
    fn is_about(&self, part: &str, ms: f64) {
        let seen = self.part(part);
        assert!(seen >= ms - OFF_MS && seen <= ms + BESIDES_MS, "{part}: {seen} for {ms} ms: {self:?}");
    }
}

impl std::fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts: Vec<String> = PARTS.iter().map(|p| format!("{p} {:.2}", self.part(p))).collect();
        write!(f, "{} [{}] of {:.2} ms", self.truth, parts.join(", "), self.span.duration_ns as f64 / 1e6)
    }
}

#[test]
fn the_parts_of_a_request_are_what_its_service_has_measured() {
    let test = "explain";
    if !can_trace(test) || !has(test, &["python3", "timeout"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (spans, truth) = (dir.path().join("spans"), dir.path().join("truth"));
    let mut command = Command::new(WIRESPAN);
    command.args(["run", "--no-ui", "--print", "0", "--otlp-file"]).arg(&spans).args(["--", "python3"]);
    let done = command.arg(root().join("tests/apps/waits/run.py")).arg(&truth).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let (spans, truth) = (otlp(&spans), std::fs::read_to_string(&truth).unwrap());
    let (mut limited, mut throttled) = (0.0, None);
    for line in truth.lines() {
        let truth: Value = serde_json::from_str(line).unwrap();
        if truth["case"] == "limit-total" {
            throttled = truth["throttled"].as_f64().map(|s| s * 1e3);
            continue;
        }
        if truth["skipped"] == true {
            skip("explain: limit", "no cgroup with a CPU limit can be made here");
            continue;
        }
        let path = truth["path"].as_str().unwrap();
        let served = |s: &&Span| s.attr("url.path") == path && s.attr("wirespan.tap_side") == "server-process";
        let span = spans.iter().find(served).unwrap_or_else(|| panic!("no span of {path}"));
        let request = Request { truth: &truth, span };
        check(&request);
        limited += request.part("cpu_limit");
    }
    // What the group itself says; some of it is outside of requests.
    if let Some(throttled) = throttled {
        assert!(
            throttled > 20.0 && (0.3 * throttled..=throttled + OFF_MS).contains(&limited),
            "{limited} of {throttled}"
        );
    }
}

fn check(request: &Request<'_>) {
    let sum: f64 = PARTS.iter().map(|part| request.part(part)).sum();
    assert!((sum - request.span.duration_ns as f64 / 1e6).abs() < 0.001, "{request:?}");
    request.is_about("on_cpu", request.truth("ran"));
    let case = request.truth["case"].as_str().unwrap();
    let idle = request.truth("took") - request.truth("ran");
    let (run_queue, cpu_limit) = (request.part("run_queue"), request.part("cpu_limit"));
    match case {
        // What was asked for is the least; on a busy machine, it also waits for a processor to wake up on.
        "sleep" | "mix" => {
            let asked = request.truth["path"].as_str().unwrap().split('/').nth(2).unwrap().parse::<f64>().unwrap();
            assert!(request.part("blocked") >= asked - OFF_MS, "{request:?}");
            assert!(request.part("blocked") <= request.truth("slept") + BESIDES_MS, "{request:?}");
        }
        // While its call was under way, its thread may have waited for a processor.
        "call" => assert!(request.part("children") + run_queue >= 40.0 - OFF_MS, "{request:?}"),
        "queue" => {
            assert!(idle > 30.0, "the competitors took nothing: {request:?}");
            assert!(run_queue >= 0.9 * idle - OFF_MS && cpu_limit < OFF_MS, "{request:?}");
        }
        "limit" => assert!(cpu_limit + run_queue >= 0.9 * idle - OFF_MS, "{request:?}"),
        "lock" => assert!(request.part("blocked") >= request.truth("slept") - run_queue - OFF_MS, "{request:?}"),
        // Its timer was due after 40 ms, 20 ms after the loop had begun to run 80 ms for the other request.
        "loop" if request.truth["path"].as_str().unwrap().ends_with("napper") => {
            assert!(request.part("other_requests") >= 60.0, "{request:?}");
        }
        _ => {}
    }
    assert!(request.part("unknown") < BESIDES_MS, "{request:?}");
}
