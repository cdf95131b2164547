//! Context in TCP options. The segments on the wire are the truth.

use crate::harness::{can_trace, has, otlp, root, skip, wirespan, Span, WIRESPAN};
use crate::spaces::Spaces;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

const MTU: u64 = 1500;
const SMALL: usize = 40;

/// Trace and span of an option: kind, length, two letters, 16 bytes, 8 bytes.
fn named(option: &str) -> (String, String) {
    assert_eq!((option.len(), &option[..8]), (56, "fd1c5753"), "the sampled one of 28 bytes");
    (option[8..40].to_string(), option[40..].to_string())
}

/// By trace and span: the sequence numbers of the segments with the option, and whether the first of them began a
/// request.
fn options(packets: &Path, port: u64) -> BTreeMap<(String, String), Vec<(u64, bool)>> {
    let text = std::fs::read_to_string(packets).unwrap();
    let mut seen: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in text.lines() {
        let packet: Value = serde_json::from_str(line).unwrap();
        assert!(packet["length"].as_u64().unwrap() <= MTU, "{packet}");
        for option in packet["options"].as_array().unwrap() {
            assert_eq!(packet["to"], port, "an answer needs no context: {packet}");
            assert_ne!(packet["payload"], 0, "{packet}");
            let at = (packet["seq"].as_u64().unwrap(), packet["begins"] == "*");
            seen.entry(named(option.as_str().unwrap())).or_default().push(at);
        }
    }
    seen
}

#[test]
fn requests_that_are_not_http_carry_their_context_beside_their_bytes() {
    let test = "propagate_option";
    if !can_trace(test) || !has(test, &["python3", "redis-server", "ip"]) {
        return;
    }
    let checked = wirespan(&["check", "--format", "json"]);
    let table: Value = serde_json::from_slice(&checked.stdout).unwrap();
    let rows = table["features"].as_array().unwrap();
    let row = rows.iter().find(|f| f["feature"] == "context put into options of TCP").expect("a row of the table");
    if row["active"] == false {
        return skip(test, &format!("stands down: {}", row["remedy"]));
    }
    let spaces = match Spaces::pair("opt") {
        Ok(spaces) => spaces,
        Err(why) => return skip(test, &why),
    };
    let dir = tempfile::tempdir().unwrap();
    let (spans, packets) = (dir.path().join("spans"), dir.path().join("packets"));
    let done = Command::new(WIRESPAN)
        .args(["run", "--no-ui", "--print", "0", "--propagate-option", "--otlp-file"])
        .arg(&spans)
        .args(["--", "python3", root().join("tests/apps/inject/option.py").to_str().unwrap()])
        .args([spaces.name(0), spaces.name(1)])
        .arg(&packets)
        .arg(SMALL.to_string())
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{said}");
    let spans = otlp(&spans);
    let find = |id: &str| spans.iter().find(|s| s.id == id);

    let (redis, front) = (options(&packets.with_extension("0"), 7002), options(&packets.with_extension("1"), 7001));
    for (what, seen) in [("redis", &redis), ("front", &front)] {
        // Two requests are long and cut into many segments; the others are short. Each has its own option, once.
        assert_eq!(seen.len(), SMALL + 2, "{what}: {seen:?}\n{said}");
        for ((trace, span), segments) in seen {
            let first = segments.iter().min().expect("a segment");
            assert!(first.1, "{what}: {span} is beside {segments:?}, and none begins a request");
            let client = find(span).unwrap_or_else(|| panic!("{what}: nobody exported {span}"));
            assert_eq!(&client.trace, trace);
            let of = |s: &&Span| s.parent == *span;
            assert_eq!(spans.iter().filter(of).count(), 1, "{what}: the server's span of {span}");
        }
    }
    // The service hands on the context that it received.
    let traces = |seen: &BTreeMap<(String, String), _>| seen.keys().map(|(t, _)| t.clone()).collect::<BTreeSet<_>>();
    assert_eq!(traces(&redis), traces(&front));
    assert_eq!(traces(&front).len(), SMALL + 2, "each request of the client begins a trace");
}
