//! Starts wirespan and other programs, and reads their output.

#[allow(unused_imports)] // the tests of servers use a part of it
pub(crate) use crate::running::{wirespan, Running};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wirespan_capture::Capture;
use wirespan_model::Event;

pub(crate) const WIRESPAN: &str = env!("CARGO_BIN_EXE_wirespan");

pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Says why a test does not run, in the form that `scripts/test` counts.
pub(crate) fn skip(test: &str, reason: &str) {
    eprintln!("skipped: {test}: {reason}");
    if let Some(path) = std::env::var_os("WIRESPAN_SKIPS") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        let _ = file.and_then(|mut f| writeln!(f, "{test}: {reason}"));
    }
}

/// Whether this machine can trace; prints the reason for skipping the test if not.
pub(crate) fn can_trace(test: &str) -> bool {
    let reason = if !rustix::process::geteuid().is_root() {
        "needs root"
    } else if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        "this kernel has no BTF"
    } else {
        return true;
    };
    skip(test, reason);
    false
}

/// Whether these programs are installed; prints the reason for skipping the test if not.
pub(crate) fn has(test: &str, programs: &[&str]) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    let found = |p: &&&str| path.split(':').any(|dir| Path::new(dir).join(**p).exists());
    match programs.iter().find(|p| !found(p)) {
        Some(missing) => {
            skip(test, &format!("needs {missing}"));
            false
        }
        None => true,
    }
}

/// Compiles one of `tests/apps`' C programs.
pub(crate) fn compile(source: &str, into: &Path) -> PathBuf {
    compile_with(source, into, &[])
}

/// As [`compile`], with further arguments for the compiler.
pub(crate) fn compile_with(source: &str, into: &Path, arguments: &[&str]) -> PathBuf {
    let source = root().join("tests/apps").join(source);
    let program = into.join(source.file_stem().unwrap());
    let done =
        Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(&source).args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    program
}

/// Runs a program of which all is captured. Returns its pid, the events, and the program's report: JSON lines.
pub(crate) fn captured(capture: &mut Capture, program: &Path, arguments: &str) -> (u32, Vec<Event>, Vec<Value>) {
    // The shell waits for a line until its pid is a target; then it executes the program under the same pid.
    let mut child = Command::new("sh")
        .args(["-c", &format!("read _; exec \"$0\" {arguments}")])
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    capture.add_pid(child.id()).unwrap();
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let stdout = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || BufReader::new(stdout).lines().map(|l| l.unwrap()).collect::<Vec<_>>());
    let mut events = Vec::new();
    while child.try_wait().unwrap().is_none() {
        capture.drain(&mut events);
        std::thread::sleep(Duration::from_millis(1));
    }
    capture.drain(&mut events);
    assert!(child.wait().unwrap().success());
    let report = reader.join().unwrap().iter().map(|l| serde_json::from_str(l).unwrap()).collect();
    (child.id(), events, report)
}

/// An agent that traces these processes and writes its spans to a file. It traces when this returns.
pub(crate) fn tracing(pids: &[u32], spans: &Path) -> Running {
    let mut args = vec!["up".into(), "--no-ui".into(), "--otlp-file".into(), spans.as_os_str().to_owned()];
    args.extend(pids.iter().flat_map(|pid| ["--pid".into(), pid.to_string().into()]));
    let mut agent = Running::start(WIRESPAN, &args);
    agent.wait_for("Ctrl-C ends");
    agent
}

/// Repeats until there is a value, for at most ten seconds.
pub(crate) fn eventually<T>(what: &str, attempt: impl FnMut() -> Option<T>) -> T {
    within(Duration::from_secs(10), what, attempt)
}

/// Repeats until there is a value, for at most this long.
pub(crate) fn within<T>(patience: Duration, what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(started.elapsed() < patience, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// One span of an OTLP file.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) name: String,
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Empty for a root span.
    pub(crate) parent: String,
    pub(crate) duration_ns: u64,
    pub(crate) attrs: BTreeMap<String, String>,
    /// Attributes of its events.
    pub(crate) events: Vec<BTreeMap<String, String>>,
}

impl Span {
    pub(crate) fn attr(&self, key: &str) -> &str {
        self.attrs.get(key).map_or("", String::as_str)
    }
}

fn attributes(list: &Value) -> BTreeMap<String, String> {
    let one = |a: &Value| {
        let value = a["value"].as_object().unwrap().values().next().unwrap();
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
        (a["key"].as_str().unwrap().to_string(), text)
    };
    list.as_array().into_iter().flatten().map(one).collect()
}

/// Spans of an OTLP JSON-lines file.
pub(crate) fn otlp(path: &Path) -> Vec<Span> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut spans = Vec::new();
    // The last line may not be whole yet.
    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let request: Value = serde_json::from_str(line).unwrap();
        for group in request["resourceSpans"].as_array().unwrap() {
            for s in group["scopeSpans"].as_array().unwrap().iter().flat_map(|s| s["spans"].as_array().unwrap()) {
                let text = |key: &str| s[key].as_str().unwrap_or("").to_string();
                let (name, trace) = (text("name"), text("traceId"));
                let (id, parent) = (text("spanId"), text("parentSpanId"));
                let time = |key: &str| text(key).parse::<u64>().unwrap_or(0);
                let duration_ns = time("endTimeUnixNano") - time("startTimeUnixNano");
                let events = s["events"].as_array().into_iter().flatten().map(|e| attributes(&e["attributes"]));
                let (attrs, events) = (attributes(&s["attributes"]), events.collect());
                spans.push(Span { name, trace, id, parent, duration_ns, attrs, events });
            }
        }
    }
    spans
}

/// Builds a program of Go from a file, or from the module in a folder.
pub(crate) fn go_build(source: &Path, program: &Path) {
    let (folder, what) = if source.is_dir() { (source, Path::new(".")) } else { (Path::new("."), source) };
    let done = Command::new("go").args(["build", "-o"]).args([program, what]).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
