//! Kafka: every record that a consumer got is linked to the request that produced it, and to no other; what the consumer calls
//! for a record is caused by the fetch that brought it.

use crate::harness::{can_trace, root, skip, WIRESPAN};
use serde_json::Value;
use std::process::Command;

#[test]
fn every_fetched_record_is_linked_to_its_producer() {
    let test = "brokers_kafka";
    let python = root().join("target/servers/venv/bin/python3");
    if !can_trace(test) {
        return;
    }
    if !python.exists() {
        return skip(test, "needs tests/apps/fetch.py");
    }
    let dir = tempfile::tempdir().unwrap();
    let (spans, work) = (dir.path().join("spans.jsonl"), dir.path().join("work"));
    let script = root().join("tests/apps/shapes/brokers.py");
    std::fs::create_dir(&work).unwrap();
    let mut command = Command::new(WIRESPAN);
    command.args(["run", "--no-ui", "--print", "0", "--otlp-file"]).arg(&spans).arg("--").arg(&python);
    let done = command.arg(&script).arg("run").arg("--dir").arg(&work).args(["--records", "60"]).output().unwrap();
    let (out, said) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{out}{said}");
    if let Some(reason) = out.lines().find_map(|l| l.strip_prefix("skip ")) {
        return skip(test, reason);
    }
    let checked = Command::new(&python).arg(&script).arg("compare").arg(&spans).arg(&work).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let report: Value = serde_json::from_slice(&checked.stdout).unwrap();
    println!("{report}");
    assert_eq!(report["records"], 2 * 2 * 60, "two producers' records reach two consumers");
    assert_eq!(report["linked"], report["records"], "{report}\n{said}");
    assert_eq!(report["right"], report["links"], "{report}");
    assert_eq!(report["calls"], report["records"], "one call for each record: {report}");
    assert_eq!(report["caused"], report["calls"], "{report}\n{said}");
}
