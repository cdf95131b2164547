//! Functions that a packet program names: of the kernel, where packets are seen, and of programs, as marks in time.

use crate::harness::{compile, has, wirespan};
use crate::packets::{bridged, made, of_kind, ready, traced, ECHO, PINGS};
use serde_json::Value;
use std::path::Path;

#[test]
fn calls_of_a_programs_function_are_marks_among_the_packets() {
    let test = "calls_of_a_programs_function_are_marks_among_the_packets";
    if !ready(test) || !has(test, &["cc"]) {
        return;
    }
    let Some(spaces) = made(test, bridged("nu")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let sender = compile("packets/marked.c", folder.path());
    let sender = sender.to_str().unwrap();
    let program = format!(
        "filter: {{protocol: udp, port: 7120}}\nwhere: [queue, uprobe: {sender}:send_one]\naction: [record, count]\n"
    );
    let (lines, said) = traced(&spaces, &[0], &program, || {
        spaces.inside(0, &[sender, "10.214.1.2", "7120", "7"]).unwrap();
        // Of another namespace.
        spaces.inside(2, &[sender, "127.0.0.1", "7120", "7"]).unwrap();
    });
    let all = of_kind(&lines, "packet");
    let marks: Vec<_> = all.iter().filter(|line| line["point"] == "mark").collect();
    assert_eq!(marks.len(), 7, "{said}");
    let mut times: Vec<(u64, String)> =
        all.iter().map(|p| (p["time_ns"].as_u64().unwrap(), p["point"].as_str().unwrap().to_owned())).collect();
    times.sort_unstable();
    let order: Vec<&str> = times.iter().map(|(_, point)| point.as_str()).collect();
    assert_eq!(order, ["mark", "queue"].repeat(7), "each call sends one packet: {said}");
    for mark in marks {
        assert_eq!((&mark["function"], &mark["device"]), (&"send_one".into(), &"marked".into()), "{mark}");
        assert_eq!((&mark["netns_name"], &mark["seq"]), (&spaces.name(0).into(), &mark["len"]), "{mark}");
    }
    let counts = of_kind(&lines, "count");
    let count = counts.iter().find(|c| c["place"]["function"] == "send_one").unwrap();
    assert_eq!((&count["packets"], &count["bytes"]), (&7.into(), &0.into()), "{count}");
}

#[test]
fn a_function_that_cannot_be_named_is_refused_with_the_reason() {
    let test = "a_function_that_cannot_be_named_is_refused_with_the_reason";
    if !ready(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let refused = |place: &str| {
        let file = folder.path().join("program.yaml");
        std::fs::write(&file, format!("filter: {{port: 7121}}\nwhere: [{place}]\nfor: 1s\n")).unwrap();
        let done = wirespan(&["packet", file.to_str().unwrap()]);
        assert!(!done.status.success(), "{place}");
        String::from_utf8_lossy(&done.stderr).into_owned()
    };
    let has_kprobes = Path::new("/sys/bus/event_source/devices/kprobe/type").exists();
    let said = refused("kprobe: no_such_function");
    match has_kprobes {
        true => assert!(said.contains("describes no function `no_such_function`"), "{said}"),
        false => assert!(said.contains("built without kprobes") && said.contains("Use the points"), "{said}"),
    }
    let said = refused("uprobe: /no/such/program:main");
    assert!(said.contains("`uprobe: /no/such/program:main`: No such file"), "{said}");
    let own = std::env::current_exe().unwrap();
    let said = refused(&format!("uprobe: {}:no_such_function", own.display()));
    assert!(said.contains("it has no such function"), "{said}");
}

#[test]
fn packets_are_seen_at_a_function_of_the_kernel() {
    let test = "packets_are_seen_at_a_function_of_the_kernel";
    if !ready(test) {
        return;
    }
    if !Path::new("/sys/bus/event_source/devices/kprobe/type").exists() {
        // tests/kernels/run does the same on kernels with kprobes.
        return crate::harness::skip(test, "this kernel has no kprobes");
    }
    let Some(spaces) = made(test, bridged("nk")) else { return };
    let _echo = spaces.python(1, ECHO, &["10.214.1.2", "7122"]);
    let program = "filter: {protocol: udp, port: 7122}\nwhere: [queue, receive, kprobe: ip_rcv]\naction: [journeys]\n";
    let (lines, said) = traced(&spaces, &[0, 1], program, || {
        spaces.inside(0, &["python3", "-c", PINGS, "10.214.1.2", "7122", "20"]).unwrap();
    });
    let there = |j: &&Value| j["route"]["destination_port"] == 7122;
    let journeys: Vec<_> = of_kind(&lines, "journey").into_iter().filter(there).collect();
    assert_eq!(journeys.len(), 20, "{said}");
    for journey in journeys {
        let steps: Vec<_> = journey["steps"].as_array().unwrap().iter().map(|s| s["point"].as_str().unwrap()).collect();
        assert_eq!(steps, ["queue", "receive", "function"], "{journey}");
        assert_eq!(journey["steps"][2]["function"], "ip_rcv", "{journey}");
    }
}
