//! Context injection into what a service sends that runs in namespaces of its own (processes, files, users), as in a
//! container, and whose threads make the calls. The truth is what the server behind it received.

use crate::harness::{can_trace, has, otlp, root, Running, WIRESPAN};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

const ASKED: usize = 60;
const AT_ONCE: usize = 6;

#[test]
fn threads_of_a_service_in_its_own_namespaces_go_on_with_the_traces_that_came() {
    let test = "propagate_contained";
    if !can_trace(test) || !has(test, &["python3", "unshare"]) {
        return;
    }
    let app = root().join("tests/apps/inject/contained.py").to_str().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let (config, truth, spans) = (dir.path().join("config"), dir.path().join("truth"), dir.path().join("spans"));
    std::fs::write(&config, "[capture]\npropagate = \"auto\"\n").unwrap();
    let mut back = Command::new("python3");
    back.args([app.as_str(), "back"]).arg(&truth).stdout(Stdio::piped());
    let mut back = Running(back.spawn().unwrap());
    let mut port = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(back.0.stdout.take().unwrap()), &mut port).unwrap();
    let script = format!(
        "unshare --user --map-root-user --pid --fork --mount --mount-proc \\
           python3 {app} front {} >{dir}/port & while ! test -s {dir}/port; do sleep 0.05; done; \\
         python3 {app} drive $(cat {dir}/port) {ASKED} {AT_ONCE}; wait",
        port.trim(),
        dir = dir.path().display()
    );
    let mut command = Command::new(WIRESPAN);
    command.arg("--config").arg(&config).args(["run", "--no-ui", "--print", "0", "--otlp-file"]).arg(&spans);
    let done = command.args(["--", "sh", "-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    let text = std::fs::read_to_string(&truth).unwrap_or_default();
    let received: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(received.len(), ASKED, "{said}");
    if said.contains("no trace context is put into requests") {
        return crate::harness::skip(test, &format!("injection stands down: {said}"));
    }
    let spans = otlp(&spans);
    let by_id: BTreeMap<_, _> = spans.iter().map(|s| (s.id.as_str(), s)).collect();
    for request in &received {
        let (path, all) = (request["path"].as_str().unwrap(), request["contexts"].as_array().unwrap());
        let [context] = all.as_slice() else { panic!("{request}: one context") };
        let context = context.as_str().unwrap();
        assert_eq!(Some(&context[3..35]), request["trace"].as_str(), "{path} goes on with the trace that came");
        let span = by_id.get(&context[36..52]).unwrap_or_else(|| panic!("{path}: no span {context}"));
        assert_eq!((span.attr("url.path"), span.trace.as_str()), (path, &context[3..35]));
    }
}
