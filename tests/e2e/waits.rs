//! What slow requests waited for: services whose waits are known are asked, and each wait is compared.

use crate::harness::{can_trace, has, otlp, root, Span, WIRESPAN};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// Shorter waits are not compared: an interpreter has many of its own.
pub(crate) const COMPARED_MS: f64 = 1.0;
/// How far the sum of the waits may be below 0.8 of what the service has measured: it measures also what it runs, and
/// how long it is ready, which is much on a busy machine.
const BELOW_MS: f64 = 3.0;

pub(crate) struct Wait<'a>(&'a BTreeMap<String, String>);

impl Wait<'_> {
    /// The waits of a span.
    pub(crate) fn all(span: &Span) -> Vec<Wait<'_>> {
        span.events.iter().map(Wait).filter(|wait| !wait.fact("kind").is_empty()).collect()
    }

    pub(crate) fn fact(&self, name: &str) -> &str {
        self.0.get(&format!("wirespan.wait.{name}")).map_or("", String::as_str)
    }

    pub(crate) fn ms(&self) -> f64 {
        self.fact("duration").parse::<f64>().unwrap() / 1e6
    }

    pub(crate) fn is(&self, (kind, woken_by): (&str, &str)) -> bool {
        self.fact("kind") == kind && self.fact("woken_by") == woken_by
    }
}

/// What the request of a case waits for, and what ends it.
fn expected(case: &str, path: &str) -> &'static [(&'static str, &'static str)] {
    match (case, path.split('/').nth(1).unwrap()) {
        ("sleep", _) | ("lock", "hold") => &[("sleep", "timer")],
        ("call", _) => &[("socket", "network")],
        ("mix", _) => &[("sleep", "timer"), ("socket", "network")],
        ("disk", _) | ("convoy", "keep") => &[("disk", "disk")],
        ("pipe", _) => &[("pipe", "thread python3")],
        ("socket", _) => &[("socket", "thread python3")],
        ("child", _) => &[("process", "service sleep")],
        ("lock", _) => &[("lock", "thread python3")],
        ("convoy", "convoy") => &[("lock", "thread keeper")],
        ("convoy", _) => &[("lock", "thread middle")],
        ("limit", _) => &[("cpu-limit", "")],
        ("loop", "nap") => &[("runtime", "")],
        _ => &[],
    }
}

/// A busy machine lets any thread wait for a processor, and for a page of its program that is no longer in memory;
/// threads of Python wait for the interpreter's lock.
pub(crate) fn is_always_possible(wait: &Wait<'_>) -> bool {
    let paged = wait.is(("page-fault", "disk"));
    paged
        || wait.fact("kind") == "run-queue"
        || (wait.fact("kind") == "lock" && wait.fact("woken_by").starts_with("thread "))
}

/// Whether the waits of a request are those that its service has measured.
fn tells(truth: &Value, waits: &[Wait<'_>]) -> bool {
    let (case, path) = (truth["case"].as_str().unwrap(), truth["path"].as_str().unwrap());
    let own = expected(case, path);
    let of = |wait: &&Wait<'_>| own.iter().any(|kind| wait.is(*kind));
    let sum: f64 = waits.iter().filter(of).map(Wait::ms).sum();
    let measured = 1e3 * (truth["slept"].as_f64().unwrap() + truth["called"].as_f64().unwrap());
    match (case, path.split('/').nth(1).unwrap()) {
        // The rest is running, and waiting for a processor between many short waits.
        ("disk", _) | ("convoy", "keep") => {
            let synced = |w: &Wait<'_>| w.fact("syscall") == "fsync" && w.fact("resource").ends_with("/app.log");
            waits.iter().filter(of).any(synced)
        }
        ("limit" | "loop", _) => true,
        _ => sum >= 0.8 * measured - BELOW_MS,
    }
}

/// What the waits say of who held the lock.
fn holders(path: &str) -> Option<&'static [&'static str]> {
    match path.split('/').nth(1).unwrap() {
        "lock" => Some(&["thread python3 (sleep clock_nanosleep)"]),
        "convoy" => Some(&["thread keeper"]),
        "end" => Some(&["thread middle (lock futex 0x", ", thread keeper"]),
        _ => None,
    }
}

/// The request that kept another one waiting.
fn kept_by(path: &str) -> Option<&'static str> {
    match path {
        "/lock/0/waiter" => Some("/hold/80/holder"),
        "/convoy/0/middle" => Some("/keep/100/keeper"),
        "/end/0/last" => Some("/convoy/0/middle"),
        _ => None,
    }
}

/// Whether the waits of a request that competed for its processor say that a competitor ran. Other processes of the
/// machine compete, too: nothing is told of them.
fn says_who_ran(waits: &[Wait<'_>]) -> bool {
    let queued = || waits.iter().filter(|w| w.fact("kind") == "run-queue" && w.ms() >= COMPARED_MS);
    let of = |by: &dyn Fn(&str) -> bool| queued().filter(|w| by(w.fact("ran_by"))).map(Wait::ms).sum::<f64>();
    let (all, told, named) = (of(&|_| true), of(&|by| !by.is_empty()), of(&|by| by.starts_with("service ")));
    println!("of {all:.2} ms it is told for {told:.2} who ran, for {named:.2} a competitor");
    told >= 0.9 * all && named > 0.0
}

#[test]
fn a_slow_request_says_what_it_waited_for_and_who_ended_it() {
    let test = "waits";
    if !can_trace(test) || !has(test, &["python3", "timeout"]) {
        return;
    }
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    let (file, truth) = (dir.path().join("spans"), dir.path().join("truth"));
    let mut command = Command::new(WIRESPAN);
    command.args(["run", "--no-ui", "--print", "0", "--threshold", "10ms", "--otlp-file"]).arg(&file);
    command.args(["--", "python3"]).arg(root().join("tests/apps/waits/run.py")).arg(&truth);
    let done = command.env("WAITS_DIR", dir.path()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(!String::from_utf8_lossy(&done.stderr).contains("lost_waits"), "no wait was lost");
    let (spans, truth) = (otlp(&file), std::fs::read_to_string(&truth).unwrap());
    let (mut right, mut wrong, mut untold) = (0, Vec::new(), Vec::new());
    for line in truth.lines() {
        let truth: Value = serde_json::from_str(line).unwrap();
        let (case, path) = (truth["case"].as_str().unwrap(), truth["path"].as_str().unwrap_or_default());
        let served = |s: &&Span| s.attr("url.path") == path && s.attr("wirespan.tap_side") == "server-process";
        let Some(span) = spans.iter().find(served) else { continue };
        assert_eq!(span.attr("wirespan.wait.reason"), "slow", "{path}");
        assert_eq!(span.attr("wirespan.waits"), "", "what carries the waits inside of wirespan is not shown");
        let waits = Wait::all(span);
        for wait in waits.iter().filter(|w| w.ms() >= COMPARED_MS) {
            if expected(case, path).iter().any(|kind| wait.is(*kind)) || is_always_possible(wait) {
                right += 1;
            } else {
                wrong.push(format!("{path}: {:?}", wait.0));
            }
        }
        if !tells(&truth, &waits) {
            untold.push(format!("{truth} {:?}", span.events));
        }
        if case == "queue" && !says_who_ran(&waits) {
            untold.push(format!("{path}: who ran is not told"));
        }
        if let Some(other) = kept_by(path) {
            let id =
                spans.iter().find(|s| s.attr("url.path") == other && s.attr("wirespan.tap_side") == "server-process");
            let longest = waits.iter().max_by(|a, b| a.ms().total_cmp(&b.ms())).map(|w| w.fact("woken_by.span_id"));
            if longest.is_none() || longest != id.map(|span| &*span.id) {
                untold.push(format!("{path} was kept by {other}, not by {longest:?}"));
            }
        }
        if let Some(holders) = holders(path) {
            let longest = waits.iter().max_by(|a, b| a.ms().total_cmp(&b.ms())).map(|w| w.fact("held_by"));
            let held_by = longest.unwrap_or_default();
            if !holders.iter().all(|holder| held_by.contains(holder)) {
                untold.push(format!("{path} is held by: {held_by}"));
            }
        }
    }
    println!("{right} of {} waits are right, not these: {wrong:#?}", right + wrong.len());
    assert!(right > 30 && wrong.len() * 100 <= right + wrong.len(), "{wrong:#?}");
    assert!(untold.is_empty(), "{untold:#?}");
}
