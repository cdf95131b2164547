//! Goroutines that are ready and that Go's scheduler does not run, as others have their turn. The service is the truth.

use crate::harness::{can_trace, go_build, has, otlp, root, WIRESPAN};
use serde_json::Value;
use std::process::Command;

const ASKED: usize = 12;
/// Most requests of which another time may be told: the machine is shared, and the service's own clock is not exact.
const WRONG: usize = 2;

#[test]
fn the_time_in_which_a_goroutine_is_ready_and_not_run_is_told() {
    let test = "ready_go";
    if !can_trace(test) || !has(test, &["go"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (program, spans) = (dir.path().join("service"), dir.path().join("spans"));
    let source = root().join("tests/apps/ready/service.go");
    go_build(&source, &program);
    let mut command = Command::new(WIRESPAN);
    command.args(["run", "--no-ui", "--print", "0", "--threshold", "5ms", "--otlp-file"]).arg(&spans).arg("--");
    let done = command.arg(&program).arg(ASKED.to_string()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let (spans, truth) = (otlp(&spans), String::from_utf8_lossy(&done.stdout).to_string());
    let mut wrong = Vec::new();
    for line in truth.lines().filter(|line| line.starts_with('{')) {
        let truth: Value = serde_json::from_str(line).unwrap();
        let path = truth["path"].as_str().unwrap();
        let span = spans.iter().find(|s| !s.parent.is_empty() && s.attr("url.path") == path);
        let span = span.unwrap_or_else(|| panic!("no span of {path}"));
        let ms = |part: &str| span.attr(&format!("wirespan.wait.{part}")).parse().unwrap_or(0.0) / 1e6;
        let (kept, of_runtime) = (truth["kept"].as_f64().unwrap() * 1e3, ms("runtime_queue"));
        // What keeps the thread from a processor keeps the goroutine, too. Before and behind what the service measures
        // it may have been kept for more, and of a busy machine a part is not known.
        let all = of_runtime + ms("run_queue");
        let off = span.duration_ns as f64 / 1e6 - truth["took"].as_f64().unwrap() * 1e3 + kept;
        let is_right = all + ms("unknown") > kept * 0.9 - 5.0 && all < off * 1.1 + 5.0;
        let as_wait = |e: &&std::collections::BTreeMap<String, String>| {
            e.get("wirespan.wait.resource").is_some_and(|resource| resource == "ready")
        };
        if kept < 20.0 || of_runtime < kept / 2.0 || !is_right || !span.events.iter().any(|e| as_wait(&e)) {
            wrong.push(format!(
                "{path}: kept for {kept:.1} ms, told {of_runtime:.1}, with the kernel's {all:.1}: {span:?}"
            ));
        }
    }
    assert_eq!(truth.lines().count(), ASKED, "{truth}");
    assert!(wrong.len() <= WRONG, "{} of {ASKED}: {wrong:#?}", wrong.len());
}
