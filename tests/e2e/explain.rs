//! Where the time of requests went: services that measure it themselves are asked.

use crate::harness::{can_trace, has, otlp, root, skip, Span, WIRESPAN};
use serde_json::Value;
use std::process::Command;

/// The parts of a span's time, which add up to it.
pub(crate) const PARTS: [&str; 8] =
    ["on_cpu", "run_queue", "cpu_limit", "runtime_queue", "blocked", "children", "other_requests", "unknown"];
/// What a request does besides its known waits: parsing and answering, by an interpreter, on a busy machine.
const BESIDES_MS: f64 = 12.0;
/// How far the clocks may be off.
const OFF_MS: f64 = 0.6;

pub(crate) struct Request<'a> {
    pub(crate) truth: &'a Value,
    pub(crate) span: &'a Span,
}

impl Request<'_> {
    pub(crate) fn part(&self, part: &str) -> f64 {
        self.span.attr(&format!("wirespan.wait.{part}")).parse().unwrap_or(0.0) / 1e6
    }

    /// The sum of the parts, ms.
    pub(crate) fn all_parts(&self) -> f64 {
        PARTS.iter().map(|part| self.part(part)).sum()
    }

    fn truth(&self, what: &str) -> f64 {
        self.truth[what].as_f64().unwrap() * 1e3
    }

    /// What the service cannot explain: the host of a virtual machine let another one run.
    fn stolen(&self) -> f64 {
        let explained: f64 = ["ran", "queued", "slept", "called"].into_iter().map(|what| self.truth(what)).sum();
        (self.truth("took") - explained).max(0.0)
    }

    /// Whether a thread ran for at least what the service has measured, and not much more. Until the scheduler's clock
    /// knows better, stolen time counts as time on a processor, so less may remain for the rest of the request.
    fn ran_as_measured(&self) -> bool {
        let ran = self.truth("ran");
        (ran - self.stolen() - OFF_MS..=ran + BESIDES_MS).contains(&self.part("on_cpu"))
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
    let wrong = wrong_parts();
    if !wrong.is_empty() {
        println!("once more, as a shared machine may stop for a long time: {wrong:#?}");
        let wrong = wrong_parts();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

/// Requests whose parts are not those that their service has measured.
fn wrong_parts() -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let (spans, truth) = (dir.path().join("spans"), dir.path().join("truth"));
    let mut command = Command::new(WIRESPAN);
    command.args(["run", "--no-ui", "--print", "0", "--otlp-file"]).arg(&spans).args(["--", "python3"]);
    let done = command.arg(root().join("tests/apps/waits/run.py")).arg(&truth).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let (spans, truth) = (otlp(&spans), std::fs::read_to_string(&truth).unwrap());
    let (mut limited, mut throttled, mut wrong) = (0.0, None, Vec::new());
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
        if !is_right(&request) {
            wrong.push(format!("{request:?}"));
        }
        limited += request.part("cpu_limit");
    }
    // What the group itself says; some of it is outside of requests. On a crowded processor it may never be held back.
    if let Some(throttled) = throttled.filter(|ms| *ms > 20.0) {
        if !(0.3 * throttled..=throttled + OFF_MS).contains(&limited) {
            wrong.push(format!("held back for {limited} ms, its group for {throttled} ms"));
        }
    }
    wrong
}

pub(crate) fn is_right(request: &Request<'_>) -> bool {
    let adds_up = (request.all_parts() - request.span.duration_ns as f64 / 1e6).abs() < 0.001;
    let idle = request.truth("took") - request.truth("ran") - request.stolen();
    let part = |part| request.part(part);
    let path: Vec<&str> = request.truth["path"].as_str().unwrap().split('/').collect();
    let as_measured = match request.truth["case"].as_str().unwrap() {
        // On a busy machine, it also waits for a processor to wake up on. It may also sleep for less than was asked:
        // Python sets the end of a sleep before it lets another thread run, which may take the processor. And a thread
        // that Linux moves as it falls asleep counts as ready until it is woken (docs/why.md).
        // The service says how long it was ready.
        "sleep" | "mix" => {
            let asked: f64 = path[2].parse().unwrap();
            let least = asked - request.truth("queued") - OFF_MS;
            (least..=request.truth("slept") + request.stolen() + BESIDES_MS).contains(&part("blocked"))
        }
        // While its call was under way, its thread may have waited for a processor.
        "call" => part("children") + part("run_queue") >= 40.0 - OFF_MS,
        "queue" => idle > 30.0 && part("run_queue") >= 0.9 * idle - OFF_MS && part("cpu_limit") < OFF_MS,
        "limit" => part("cpu_limit") + part("run_queue") >= 0.9 * idle - OFF_MS,
        "lock" => part("blocked") >= request.truth("slept") - request.truth("queued") - OFF_MS,
        // Its timer was due after 40 ms, 20 ms after the loop had begun to run 80 ms for the other request.
        "loop" if path[1] == "nap" => part("other_requests") >= 60.0,
        _ => true,
    };
    adds_up && as_measured && request.ran_as_measured() && part("unknown") < BESIDES_MS
}
