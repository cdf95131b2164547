//! Plug-ins, end to end: the example's protocol, live and from a capture, beside a plug-in that loops.

use crate::harness::{can_trace, has, otlp, root, wirespan, Span};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

const SECRET: &str = "zq-payload-secret";

fn example() -> String {
    root().join("crates/plugin/examples/parcel.wat").to_str().unwrap().to_string()
}

/// The agent asks this plug-in before the example. It never returns, so it claims no connection.
fn looping(dir: &Path) -> String {
    let path = dir.join("looping.wat");
    let text = r#"(module (memory (export "memory") 1)
        (func (export "wirespan_abi") (result i32) (i32.const 1))
        (func (export "wirespan_alloc") (param i32) (result i32) (i32.const 1024))
        (func (export "wirespan_detect") (param i32 i32 i32 i32 i32 i32) (result i32) (loop $l (br $l)) (i32.const 2))
        (func (export "wirespan_read") (param i32 i32 i32 i32 i32) (result i64) (i64.const 1)))"#;
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_string()
}

/// Number of calls by operation, target and status.
type Calls = BTreeMap<(String, String), usize>;

fn truth(path: &Path) -> Calls {
    let mut calls = Calls::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let call: Value = serde_json::from_str(line).unwrap();
        let name = format!("{} {}", call["operation"].as_str().unwrap(), call["target"].as_str().unwrap());
        let status = match call["status"].as_u64() {
            None => "one-way",
            Some(0) => "ok",
            Some(1) => "client-error",
            Some(_) => "server-error",
        };
        *calls.entry((name, status.to_string())).or_default() += 1;
    }
    calls
}

#[test]
fn plugin_reads_a_capture_of_a_real_server() {
    let dir = tempfile::tempdir().unwrap();
    let tests = root().join("crates/plugin/tests");
    let capture = tests.join("parcel.pcap");
    let done = wirespan(&[
        "--plugin",
        &looping(dir.path()),
        "--plugin",
        &example(),
        "replay",
        capture.to_str().unwrap(),
        "--format",
        "json",
    ]);
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{err}");
    let mut seen = Calls::new();
    for line in out.lines() {
        let span: Value = serde_json::from_str(line).unwrap();
        assert_eq!(span["network.protocol.name"], "parcel", "{line}");
        let text = |key: &str| span[key].as_str().unwrap_or("").to_string();
        *seen.entry((text("name"), text("status"))).or_default() += 1;
    }
    assert_eq!(seen, truth(&tests.join("parcel.jsonl")), "{out}");
    // Two connections have one fault each, too few for switching the plug-in off.
    assert!(err.contains("plugin looping_faults_loop 2") && err.contains("lost a connection"), "{err}");
    assert!(!err.contains("parcel_off") && !err.contains("parcel_faults"), "{err}");
    assert!(!out.contains(SECRET));
}

#[test]
fn plugin_reads_live_traffic_beside_a_plugin_that_loops() {
    if !can_trace("plugin_live") || !has("plugin_live", &["python3"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (calls, spans) = (dir.path().join("truth.jsonl"), dir.path().join("spans.jsonl"));
    let config = dir.path().join("w.toml");
    let plugin = |path: &str, name: &str| format!("[[plugin]]\npath = {path:?}\nname = {name:?}\n");
    std::fs::write(&config, plugin(&looping(dir.path()), "looping") + &plugin(&example(), "packages")).unwrap();
    let program = root().join("tests/apps/parcel/parcel.py");
    let args: [&std::ffi::OsStr; 12] = [
        "--config".as_ref(),
        config.as_ref(),
        "run".as_ref(),
        "--no-ui".as_ref(),
        "--print".as_ref(),
        "0".as_ref(),
        "--otlp-file".as_ref(),
        spans.as_ref(),
        "--".as_ref(),
        "python3".as_ref(),
        program.as_ref(),
        calls.as_ref(),
    ];
    let done = wirespan(&args);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let (spans, truth) = (otlp(&spans), truth(&calls));
    for side in ["client-process", "server-process"] {
        let of_side = |s: &&Span| s.attr("wirespan.tap_side") == side && s.attr("network.protocol.name") == "packages";
        let mut seen = Calls::new();
        for span in spans.iter().filter(of_side) {
            *seen.entry((span.name.clone(), span.attr("wirespan.status").to_string())).or_default() += 1;
        }
        assert_eq!(seen, truth, "{side}\n{said}");
    }
    assert!(said.contains("plugin looping_off_faults 1"), "{said}");
    assert!(!format!("{spans:?}").contains(SECRET));
}

#[test]
fn a_file_that_is_no_plugin_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("letter.wasm");
    std::fs::write(&file, "Dear wirespan").unwrap();
    let done = wirespan(&["--plugin", file.to_str().unwrap(), "replay", "x.pcap"]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1));
    assert!(said.contains("letter.wasm") && said.contains("no WebAssembly module"), "{said}");
    let config = dir.path().join("w.toml");
    std::fs::write(&config, "[[plugin]]\npaht = \"x\"\n").unwrap();
    let done = wirespan(&["--config", config.to_str().unwrap(), "replay", "x.pcap"]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("plugin.paht") && said.contains("plugin.path"), "{said}");
}
