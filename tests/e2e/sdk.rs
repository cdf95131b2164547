//! Spans of an SDK: where did their own time go? The service measures it itself.

use crate::explain::PARTS;
use crate::harness::{can_trace, has, otlp, root, skip, Span, WIRESPAN};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How long the service runs and sleeps at a time.
const MS: f64 = 20.0;
/// What a span does besides its known waits, and how long a busy machine may keep it.
const BESIDES_MS: f64 = 12.0;
/// How far clocks may be off.
const OFF_MS: f64 = 1.0;

/// Requests, and how many spans the service makes of each. The ids of `job`'s threads must be the kernel's.
const CASES: [(&str, usize); 4] = [("carried", 4), ("process", 4), ("called", 5), ("job", 1)];

/// Of so many spans it must be known to the microsecond where their time went: three are within one request.
const EXACT: usize = 3;
/// Of a goroutine, the time on a thread is not known that has not stopped since.
const EXACT_GO: usize = 8;
/// Java's threads also wait for its machine while it compiles, so that the rings are full sooner.
const EXACT_JAVA: usize = 10;

#[test]
fn spans_of_an_sdk_have_the_parts_and_waits_of_their_own_time() {
    check("sdk_own", "own", Path::new("python3"), &CASES, EXACT);
}

/// Two requests at once whose spans name neither process nor thread: only what the process publishes tells which span
/// is whose. The library is reached in each way in which a compiler may reach a thread-local variable.
#[test]
fn spans_are_found_by_the_context_that_their_process_publishes() {
    let test = "sdk_published";
    if !has(test, &["cc"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (name, flag, is_there) in [
        ("general", "-mtls-dialect=gnu", false),
        ("descriptor", "-mtls-dialect=gnu2", false),
        ("descriptor-at-start", "-mtls-dialect=gnu2", true),
        ("initial", "-ftls-model=initial-exec", true),
    ] {
        let library = dir.path().join(format!("{name}.so"));
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", "-O1", flag, "-o"])
            .arg(&library)
            .arg(root().join("tests/apps/sdk/context.c"));
        assert!(compiler.status().unwrap().success(), "{name}");
        let preload = if is_there { "LD_PRELOAD=\"$SDK_CONTEXT\" " } else { "" };
        let script = format!("#!/bin/sh\nexport SDK_CONTEXT={}\n{preload}exec python3 \"$@\"\n", library.display());
        let python = dir.path().join(name);
        std::fs::write(&python, script).unwrap();
        std::fs::set_permissions(&python, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        println!("{name}:");
        // Two threads hand the interpreter's lock to each other, which is more waits than are kept.
        check(test, "own", &python, &[("published", 8)], 0);
    }
}

#[test]
fn the_same_with_opentelemetrys_sdk() {
    if let Some(python) = fetched("sdk_otel", "otel_sdk/bin/python3", "otel_sdk") {
        check("sdk_otel", "sdk", &python, &CASES, EXACT);
    }
}

#[test]
fn the_same_with_the_sdk_for_cpp() {
    let Some(sdk) = fetched("sdk_cpp", "otel_cpp/include", "otel_cpp") else { return };
    if !has("sdk_cpp", &["c++"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (program, libraries) = (dir.path().join("service"), sdk.with_file_name("lib"));
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-O1", "-pthread", "-DHAVE_ABSEIL", "-DOPENTELEMETRY_ABI_VERSION_NO=1", "-I"]);
    compiler.arg(&sdk).arg(root().join("tests/apps/sdk/service.cc")).arg("-o").arg(&program).arg("-L").arg(&libraries);
    let named = ["trace", "resources", "common", "exporter_otlp_http"].map(|name| format!("-lopentelemetry_{name}"));
    let found = format!("-Wl,--disable-new-dtags,-rpath,{}", libraries.display());
    let done = compiler.args(named).args(["-labsl_bad_variant_access", &found]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    check("sdk_cpp", &program.display().to_string(), Path::new("python3"), &CASES, EXACT);
}

#[test]
fn a_span_of_go_has_the_time_of_its_goroutine_on_all_threads() {
    if let Some(program) = fetched("sdk_go", "otel_go", "otel_go") {
        check("sdk_go", &program.display().to_string(), Path::new("python3"), &CASES[..3], EXACT_GO);
    }
}

#[test]
fn the_same_with_the_sdk_for_java() {
    let Some(jars) = fetched("sdk_java", "otel_java", "otel_java") else { return };
    if !has("sdk_java", &["java"]) {
        return;
    }
    let command = format!("java -cp {0}/*:{0}-classes Service", jars.display());
    check("sdk_java", &command, Path::new("python3"), &CASES[..3], EXACT_JAVA);
}

/// What fetch.py has put below target/servers; says how to get it if it is not there.
fn fetched(test: &str, path: &str, part: &str) -> Option<PathBuf> {
    let path = root().join("target/servers").join(path);
    if !path.exists() {
        skip(test, &format!("needs target/servers/{part}: tests/apps/fetch/fetch.py {part}"));
        return None;
    }
    Some(path)
}

/// `exact`: of so many spans it must be known to the microsecond where their time went.
fn check(test: &str, which: &str, python: &Path, cases: &[(&str, usize)], exact: usize) {
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    let Some(wrong) = wrong_spans(test, which, python, cases, exact) else { return };
    if !wrong.is_empty() {
        println!("once more, as a shared machine may stop for a long time: {wrong:#?}");
        let wrong = wrong_spans(test, which, python, cases, exact).unwrap_or_default();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

/// Spans whose parts or waits are not those that the service has measured; `None` if nothing could be seen.
fn wrong_spans(test: &str, which: &str, python: &Path, cases: &[(&str, usize)], least: usize) -> Option<Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    let (config, spans, truth) = (dir.path().join("config.toml"), dir.path().join("spans"), dir.path().join("truth"));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    std::fs::write(&config, format!("[serve]\notlp_grpc = \"\"\notlp_http = \"127.0.0.1:{port}\"\n")).unwrap();
    let mut command = Command::new(WIRESPAN);
    command.args(["run", "--no-ui", "--print", "0", "--threshold", "10ms", "--config"]).arg(&config);
    command.arg("--otlp-file").arg(&spans).arg("--").arg(python).arg(root().join("tests/apps/sdk/run.py"));
    command.args([which, &format!("http://127.0.0.1:{port}/v1/traces")]).arg(&truth);
    let done = command.args(cases.iter().map(|(case, _)| case)).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    if said.contains("no OTLP is received") {
        skip(test, "another program took the port");
        return None;
    }
    assert!(done.status.success(), "{said}");
    let (spans, truth) = (otlp(&spans), std::fs::read_to_string(&truth).unwrap());
    let (mut wrong, mut exact) = (Vec::new(), 0);
    for line in truth.lines() {
        let truth: Value = serde_json::from_str(line).unwrap();
        let span = spans.iter().find(|s| s.id == truth["span"]).unwrap_or_else(|| panic!("no span of {truth}"));
        let told = Told { truth: &truth, span };
        exact += usize::from(told.is_exact());
        wrong.extend(told.is_wrong().map(|why| format!("{why}: {told:?}")));
    }
    let made: usize = cases.iter().map(|(_, spans)| spans).sum();
    assert_eq!(truth.lines().count(), made, "{truth}");
    println!("{exact} of {made} spans are told to the microsecond");
    if exact < least {
        wrong.push(format!("{exact} spans are exact"));
    }
    Some(wrong)
}

struct Told<'a> {
    truth: &'a Value,
    span: &'a Span,
}

impl Told<'_> {
    fn part(&self, part: &str) -> f64 {
        self.span.attr(&format!("wirespan.wait.{part}")).parse().unwrap_or(0.0) / 1e6
    }

    fn truth(&self, what: &str) -> f64 {
        self.truth[what].as_f64().unwrap() * 1e3
    }

    /// The waits of which this holds, by kind and resource, ms.
    fn waits(&self, holds: impl Fn(&str, &str) -> bool) -> Vec<f64> {
        let of = |wait: &&BTreeMap<String, String>| {
            let told = |key: &str| wait.get(key).map_or("", String::as_str);
            holds(told("wirespan.wait.kind"), told("wirespan.wait.resource"))
        };
        let events = self.span.events.iter().filter(of);
        events.map(|e| e["wirespan.wait.duration"].parse::<f64>().unwrap() / 1e6).collect()
    }

    /// Its sleeps; of a goroutine, the times in which no thread ran it.
    fn slept(&self) -> Vec<f64> {
        self.waits(|kind, resource| kind == "sleep" || resource == "parked: sleep")
    }

    /// How long its runtime stopped it. Java's VM stops all threads to collect garbage and at other safepoints: for up
    /// to 58 ms on a busy machine, since each thread must run to its stop.
    fn stopped(&self) -> f64 {
        self.waits(|_, resource| matches!(resource, "safepoint" | "garbage collection")).iter().sum()
    }

    /// When the thread ran is known of its waits. The kernel may have no room for all waits of a request that is
    /// preempted often; of a job none are recorded, and it is known what its thread did between its messages.
    fn is_exact(&self) -> bool {
        self.truth["case"] != "job" && self.part("unknown") < BESIDES_MS
    }

    fn is_wrong(&self) -> Option<&'static str> {
        let (case, name) = (self.truth["case"].as_str().unwrap(), self.truth["name"].as_str().unwrap());
        let sum: f64 = PARTS.iter().map(|part| self.part(part)).sum();
        let evidence = match case {
            "carried" => "context",
            "called" => "call",
            "job" => "thread",
            "published" => "thread-context",
            _ => "process",
        };
        let (ran, slept) = (self.truth("ran"), self.truth("slept"));
        let (is_exact, is_job) = (self.is_exact(), case == "job");
        let (unknown, queued) = (self.part("unknown"), self.part("run_queue") + self.part("runtime_queue"));
        // Its thread also waits for the interpreter's lock, as another one runs.
        let shares = case == "published";
        let slept_at_least = if slept > 0.0 { MS - OFF_MS } else { 0.0 };
        let rules = [
            ("the parts do not add up", (sum - self.span.duration_ns as f64 / 1e6).abs() < 0.001),
            ("the evidence is wrong", self.span.attr("wirespan.wait.evidence") == evidence),
            ("its reason is wrong", (self.span.attr("wirespan.wait.reason") == "slow") != is_job),
            ("more than it ran", self.part("on_cpu") <= ran + BESIDES_MS),
            ("it ran for longer", self.part("on_cpu") + unknown >= ran - OFF_MS),
            // The request's own span sleeps in those within it.
            ("it slept for longer", self.part("blocked") + unknown >= slept_at_least),
            (
                "it slept for less",
                name == "request" || shares || self.part("blocked") <= slept + self.stopped() + BESIDES_MS,
            ),
            ("its call took longer", name != "call" || self.part("children") + queued + unknown >= MS - OFF_MS),
            ("its sleep is not told", !is_exact || slept == 0.0 || self.slept().iter().any(|ms| *ms > MS - OFF_MS)),
            ("another span's sleep is told", name != "spin" || shares || self.slept().iter().all(|ms| *ms < OFF_MS)),
        ];
        rules.into_iter().find(|(_, holds)| !holds).map(|(why, _)| why)
    }
}

impl std::fmt::Debug for Told<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts: Vec<String> = PARTS.iter().map(|p| format!("{p} {:.2}", self.part(p))).collect();
        let evidence = self.span.attr("wirespan.wait.evidence");
        write!(f, "{} by {evidence} [{}]", self.truth, parts.join(", "))?;
        let waits =
            self.span.events.iter().filter(|wait| wait.get("wirespan.wait.kind").is_some_and(|k| k != "run-queue"));
        waits.into_iter().try_for_each(|wait| write!(f, "\n  {wait:?}"))
    }
}
