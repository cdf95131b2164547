//! What slow requests waited for, in each language: services whose waits are known are asked, and each wait is compared
//! with what the service has measured: kind, what ended it, who held it up, and for how long.

use crate::explain::{is_right, Request};
use crate::harness::{can_trace, compile, go_build, has, otlp, root, skip, Span, WIRESPAN};
use crate::java_stacks::machines;
use crate::javascript::nodes;
use crate::waits::{is_always_possible, Wait, COMPARED_MS};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// What is told may be shorter than what was measured by so much, by a fiftieth, and by the time in which the request
/// was ready without a processor: the service runs, too.
const SHORTER_MS: f64 = 1.5;
/// How much longer it may be, besides a fiftieth: the service measures one wait, and may have had another of that kind.
const LONGER_MS: f64 = 1.0;
/// The parts of a request may differ from its duration by so much, or by a hundredth.
const PARTS_MS: f64 = 0.02;

/// A kind of wait, and what ended it. `thread` stands for any thread.
type Kind = (&'static str, &'static str);

/// What the kernel can tell of the waits of a language.
struct Language {
    /// Of a wait that the service calls so.
    told: fn(&Value) -> (String, String),
    /// What its runtime may wait for at any time.
    also: &'static [Kind],
    /// Cases in which several threads or requests share the waits: the parts tell how long, the waits may not.
    by_parts: &'static [&'static str],
    /// Why its runtime parks what waits, of a wait that the service calls so; empty if it does not.
    parked: fn(&str) -> &'static str,
}

fn text(wait: &Value, what: &str) -> String {
    wait[what].as_str().unwrap_or_default().to_string()
}

fn as_said(wait: &Value) -> (String, String) {
    (text(wait, "kind"), text(wait, "by"))
}

/// A thread for each request waits as the service says. To begin a child, it waits for the child, too.
const THREADS: Language =
    Language { told: as_said, also: &[("process", "service sleep")], by_parts: &[], parked: |_| "" };

/// The machine of Java stops its threads. They ask for a lock for a time, too, which is a sleep if they get it then.
const JAVA: Language = Language {
    told: as_said,
    also: &[
        ("runtime", "thread VM Thread"),
        ("process", "service sleep"),
        ("pipe", "service sleep"),
        ("sleep", "timer"),
        ("lock", "timer"),
    ],
    by_parts: &[],
    parked: |_| "",
};

/// A goroutine that does not wait in a system call leaves its thread. Its runtime says why.
const GOROUTINES: Language = Language {
    told: |wait| match text(wait, "kind").as_str() {
        "disk" | "process" => as_said(wait),
        _ => ("runtime".to_string(), String::new()),
    },
    also: &[("runtime", ""), ("process", "service service")],
    by_parts: &[],
    parked: |kind| match kind {
        "sleep" => "sleep",
        "event" => "chan receive",
        "lock" => "sync.Mutex.Lock",
        "pipe" => "IO wait",
        // The client of net/http waits for the answer or the end of the connection.
        "socket" => "select",
        _ => "",
    },
};

/// An event loop waits for events, whatever they mean to a request, unless it stands still. A name is looked up by
/// another thread, whose waits are the request's. Threads that collect garbage take the lock of the memory.
const LOOP: Language = Language {
    told: |wait| match (text(wait, "kind").as_str(), text(wait, "by").as_str()) {
        ("disk", "disk") | ("lock", _) => as_said(wait),
        ("dns", _) => ("socket".to_string(), "network".to_string()),
        _ => ("epoll".to_string(), text(wait, "by")),
    },
    also: &[("pipe", "service sleep"), ("process", "service sleep"), ("lock", ""), ("epoll", "timer")],
    by_parts: &["pool", "dns"],
    parked: |_| "",
};

fn is(wait: &Wait<'_>, (kind, by): (&str, &str)) -> bool {
    let told = wait.fact("woken_by").trim_end();
    let is_by = told == by || (by == "thread" && told.starts_with("thread "));
    // A lock may be asked for several times, and a loop has timers of its own.
    wait.fact("kind") == kind && (is_by || (["lock", "epoll"].contains(&kind) && told == "timer"))
}

#[derive(Default)]
struct Found {
    right: usize,
    wrong: Vec<String>,
}

impl Found {
    fn add(&mut self, wrong: Option<String>) {
        match wrong {
            Some(wrong) => self.wrong.push(wrong),
            None => self.right += 1,
        }
    }

    fn is_good(&self) -> bool {
        self.wrong.len() * 100 <= self.right + self.wrong.len()
    }

    /// Compares a request with what its service said of it.
    fn compare(&mut self, truth: &Value, span: &Span, language: &Language) {
        let path = truth["path"].as_str().unwrap();
        let (request, waits) = (Request { truth, span }, Wait::all(span));
        let said: Vec<&Value> = truth["waits"].as_array().unwrap().iter().collect();
        let mut known: BTreeMap<(String, String), Vec<&Value>> = BTreeMap::new();
        said.iter().for_each(|wait| known.entry((language.told)(wait)).or_default().push(wait));
        let limit: &[Kind] = if truth["case"] == "limit" { &[("cpu-limit", "")] } else { &[] };
        let is_expected = |w: &&Wait<'_>| {
            known.keys().any(|(kind, by)| is(w, (kind, by)))
                || language.also.iter().chain(limit).any(|kind| is(w, *kind))
        };
        let shown = |w: &Wait<'_>| format!("{} {} {:.2}", w.fact("kind"), w.fact("woken_by"), w.ms());
        for wait in waits.iter().filter(|w| w.ms() >= COMPARED_MS && !is_always_possible(w)) {
            self.add(Some(wait).filter(|wait| !is_expected(wait)).map(|wait| format!("{path}: {}", shown(wait))));
        }
        for ((kind, by), said) in &known {
            let all = || waits.iter().filter(|w| w.ms() >= COMPARED_MS).map(shown).collect::<Vec<_>>();
            let by_parts = language.by_parts.contains(&truth["case"].as_str().unwrap());
            let wrong = compared(&request, &waits, (kind, by), said, by_parts);
            self.add(wrong.map(|wrong| format!("{path}: {wrong} of {:?} in {request:?}", all())));
        }
        for said in said.iter().filter(|wait| 1e3 * wait["took"].as_f64().unwrap() >= 5.0 * COMPARED_MS) {
            let (kind, took) = (text(said, "kind"), 1e3 * said["took"].as_f64().unwrap());
            let why = (language.parked)(&kind);
            let is_it =
                |w: &Wait<'_>| w.fact("resource") == format!("parked: {why}") && w.ms() >= 0.8 * took - SHORTER_MS;
            let all = || waits.iter().map(|w| format!("{} {:.2}", w.fact("resource"), w.ms())).collect::<Vec<_>>();
            if !why.is_empty() {
                let wrong = !waits.iter().any(is_it);
                self.add(wrong.then(|| format!("{path}: {kind} of {took:.2} is not {why:?} in {:?}", all())));
            }
        }
        let sum = request.all_parts() - span.duration_ns as f64 / 1e6;
        let add_up = sum.abs() <= PARTS_MS.max(span.duration_ns as f64 / 1e8);
        if !add_up || (matches!(truth["case"].as_str(), Some("spin" | "queue" | "limit")) && !is_right(&request)) {
            self.wrong.push(format!("{path}: the parts are not those of {request:?}"));
        }
    }
}

/// What is wrong with the waits of a kind of this request.
fn compared(
    request: &Request<'_>,
    waits: &[Wait<'_>],
    kind: (&str, &str),
    said: &[&Value],
    by_parts: bool,
) -> Option<String> {
    let measured: f64 = said.iter().map(|wait| 1e3 * wait["took"].as_f64().unwrap()).sum();
    // Of a collection it is known how long the runtime was at it, not how long this request waited for it.
    if measured < COMPARED_MS || said.iter().any(|wait| wait["kind"] == "gc") {
        return None;
    }
    let of: Vec<&Wait<'_>> = waits.iter().filter(|wait| is(wait, kind)).collect();
    let parts = request.part("children") + request.part("blocked");
    let told = if by_parts { parts } else { of.iter().map(|wait| wait.ms()).sum() };
    let least = measured - SHORTER_MS - measured / 50.0 - request.part("run_queue");
    if !(least..=measured * 1.02 + LONGER_MS).contains(&told) && kind.0 != "runtime" {
        return Some(format!("{kind:?} took {measured:.2}, told {told:.2}"));
    }
    if told < least {
        return Some(format!("{kind:?} took {measured:.2}, told {told:.2} only"));
    }
    let is_held = |held: &String| held.is_empty() || of.iter().any(|wait| wait.fact("held_by").contains(held.as_str()));
    let held = said.iter().map(|wait| text(wait, "held")).find(|held| !is_held(held));
    held.map(|held| {
        format!(
            "{kind:?} is held by {:?}, not {held:?}",
            of.iter().map(|wait| wait.fact("held_by")).collect::<Vec<_>>()
        )
    })
}

/// Asks a service for these cases, and compares its waits with what it measured.
fn asked(test: &str, command: &[&str], cases: &str, language: &Language) -> Found {
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    let (file, truth) = (dir.path().join("spans"), dir.path().join("truth"));
    let mut wirespan = Command::new(WIRESPAN);
    wirespan.args(["run", "--no-ui", "--print", "0", "--threshold", "10ms", "--otlp-file"]).arg(&file);
    wirespan.args(["--", "python3"]).arg(root().join("tests/apps/waits/ask.py")).arg(&truth).arg(cases).args(command);
    let done = wirespan.env("WAITS_DIR", dir.path()).output().unwrap();
    let log = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{log}");
    let (spans, truth) = (otlp(&file), std::fs::read_to_string(&truth).unwrap());
    let mut found = Found::default();
    if log.contains("lost_waits") {
        found.wrong.push(log.to_string());
    }
    for line in truth.lines() {
        let truth: Value = serde_json::from_str(line).unwrap();
        if truth["skipped"] == true {
            let reason = log.lines().filter(|line| line.starts_with("waits: ")).collect::<Vec<_>>().join("; ");
            skip(&format!("{test}: {}", truth["case"]), &reason);
        } else if truth["case"] != "warm" {
            let path = truth["path"].as_str().unwrap();
            let served = |s: &&Span| s.attr("url.path") == path && s.attr("wirespan.tap_side") == "server-process";
            let span = spans.iter().find(served).unwrap_or_else(|| panic!("no span of {path}"));
            found.compare(&truth, span, language);
        }
    }
    found
}

/// At least 99 of 100 waits must be right, of so many.
fn check(test: &str, command: &[&str], cases: &str, language: &Language, least: usize) {
    let mut found = asked(test, command, cases, language);
    if !found.is_good() {
        println!("{test}: once more, as a shared machine may stop for a long time: {:#?}", found.wrong);
        found = asked(test, command, cases, language);
    }
    println!("{test}: {} are right, not these: {:#?}", found.right, found.wrong);
    assert!(found.right >= least && found.is_good(), "{test}: {} right, {:#?}", found.right, found.wrong);
}

const CASES: &str = "sleep,call,event,dns,child,spin,pool,queue,limit";

#[test]
fn waits_of_threads_in_c() {
    let test = "waits_c";
    if !can_trace(test) || !has(test, &["python3", "timeout", "cc"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = compile("waits/service.c", dir.path());
    let cases = format!("pipe,pair,{CASES},slow-disk+convoy");
    check(test, &[program.to_str().unwrap()], &cases, &THREADS, 50);
}

#[test]
fn waits_of_goroutines() {
    let test = "waits_go";
    if !can_trace(test) || !has(test, &["python3", "timeout", "go"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("service");
    let source = root().join("tests/apps/waits/service.go");
    go_build(&source, &program);
    let cases = format!("pipe,gc,{CASES},slow-disk+convoy");
    check(test, &[program.to_str().unwrap()], &cases, &GOROUTINES, 50);
}

#[test]
fn waits_of_threads_in_java() {
    let test = "waits_java";
    if !can_trace(test) || !has(test, &["python3", "timeout", "java", "javac"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let source = root().join("tests/apps/waits/Service.java");
    let done = Command::new("javac").args(["--release", "17", "-d"]).args([dir.path(), &source]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let cases = format!("pipe,gc,stopped,{CASES},slow-disk+convoy");
    for (java, version) in machines() {
        let command = [java.to_str().unwrap(), "-XX:+UseG1GC", "-cp", dir.path().to_str().unwrap(), "Service"];
        check(&format!("{test}_{version}"), &command, &cases, &JAVA, 50);
    }
}

#[test]
fn waits_of_the_event_loop_of_node() {
    let test = "waits_node";
    if !can_trace(test) || !has(test, &["python3", "timeout", "node"]) {
        return;
    }
    let service = root().join("tests/apps/waits/service.js");
    let cases = format!("message,gc,{CASES},slow-disk+synced");
    for (node, version) in nodes() {
        let command = [node.to_str().unwrap(), "--expose-gc", service.to_str().unwrap()];
        check(&format!("{test}_{version}"), &command, &cases, &LOOP, 50);
    }
}

#[test]
fn waits_of_a_pool_of_names_and_of_a_slow_disk_in_python() {
    let test = "waits_python";
    if !can_trace(test) || !has(test, &["python3", "timeout"]) {
        return;
    }
    let service = root().join("tests/apps/waits/service.py");
    check(test, &["python3", service.to_str().unwrap(), "threads"], "pool,dns,slow-disk", &THREADS, 12);
}
