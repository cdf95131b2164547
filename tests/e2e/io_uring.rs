//! Messages through io_uring: the captured messages and their bytes equal the program's own report.

use crate::harness::{can_trace, captured, compile_with, has, skip};
use std::collections::BTreeMap;
use wirespan_capture::{Capture, Options, Targets};
use wirespan_model::{Direction, Event};

/// Messages and bytes by own end, other end, and whether they were sent.
type Moved = BTreeMap<(String, String, bool), (u64, u64)>;

fn every_form(test: &str, arguments: &str, young_bytes: u32) {
    if !can_trace(test) || !has(test, &["cc"]) {
        return;
    }
    if std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").is_ok_and(|n| n.trim() != "0") {
        return skip(test, "io_uring is switched off here (kernel.io_uring_disabled)");
    }
    if !std::path::Path::new("/usr/include/liburing.h").exists() {
        return skip(test, "liburing-dev is not installed");
    }
    let dir = tempfile::tempdir().unwrap();
    let program = compile_with("uring/uring.c", dir.path(), &["-luring"]);
    let options = Options { young_bytes, hooks_from_start: true, ..Options::default() };
    let mut capture = Capture::open(&options, &Targets::default()).unwrap();
    if capture.rung().as_str() != "socket-tracepoints" {
        return skip(test, "this kernel shows io_uring only on the socket-tracepoint rung");
    }
    let (pid, events, report) = captured(&mut capture, &program, arguments);

    let mut said = Moved::new();
    let mut forms = BTreeMap::new();
    for call in &report {
        let end = |key: &str| call[key].as_str().unwrap().to_string();
        let sum = said.entry((end("local"), end("peer"), call["op"] == "send")).or_default();
        *sum = (sum.0 + 1, sum.1 + call["bytes"].as_u64().unwrap());
        forms.insert((end("local"), end("peer")), end("form"));
    }
    let mut seen = Moved::new();
    for event in &events {
        let Event::Data(d) = event else { continue };
        let ends = (d.local.to_string(), d.remote.to_string());
        if d.len == 0 {
            continue;
        }
        let form = &forms[&ends];
        let text = String::from_utf8_lossy(&d.payload);
        let first = !seen.contains_key(&(ends.0.clone(), ends.1.clone(), d.direction == Direction::Egress));
        assert!(
            young_bytes == 0 && !first && text.is_empty() || text.starts_with(&format!("WIRE {form} ")),
            "{form}, {:?}: {text:?}",
            d.direction
        );
        assert!(
            (d.payload.is_empty() || d.payload.len() as u64 == d.len) && d.seq.is_some() && d.exchange != 0,
            "{d:?}"
        );
        assert_eq!(d.actor.pid, pid, "{d:?}");
        let sum = seen.entry((ends.0, ends.1, d.direction == Direction::Egress)).or_default();
        *sum = (sum.0 + 1, sum.1 + d.len);
    }
    assert_eq!(seen, said);
    assert_eq!(said.len(), 12, "two ends of each of six forms");
}

#[test]
fn io_uring_is_seen_in_every_form() {
    every_form("io_uring", "", 1 << 20);
}

#[test]
fn io_uring_is_seen_from_a_submission_thread() {
    every_form("io_uring_sqpoll", "--sqpoll", 1 << 20);
}

/// Bytes that were not wanted must not precede the bytes of the next call.
#[test]
fn io_uring_shows_the_first_call_of_a_run_and_no_other() {
    every_form("io_uring_first", "", 0);
}
