//! In which code slow requests waited: servers whose functions are known are asked, and each stack is compared.

use crate::harness::{
    can_trace, compile_with, eventually, go_build, has, otlp, root, skip, within, Running, Span, WIRESPAN,
};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

/// A server, ended with the test.
pub(crate) struct Server(Child, u16);

impl Server {
    pub(crate) fn start(program: &Path) -> Server {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Server(Command::new(program).arg(port.to_string()).spawn().unwrap(), port);
        eventually("the server listens", || TcpStream::connect(("127.0.0.1", port)).ok());
        server
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn ask(&self, path: &str) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.1)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // In one piece: PHP's own server reads no request that comes in several.
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: shop\r\n\r\n").as_bytes()).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The spans of these requests to a program.
pub(crate) fn traced(program: &Path, paths: &[&str]) -> Vec<Span> {
    let server = Server::start(program);
    let file = program.with_extension("spans");
    let pid = server.0.id().to_string();
    let mut agent = Running::start(
        WIRESPAN,
        &["up", "--no-ui", "--threshold", "10ms", "--pid", &pid, "--otlp-file", file.to_str().unwrap()],
    );
    agent.wait_for("Ctrl-C ends");
    // The programs of waits are attached after the start: the first requests may come before.
    let found = |path: &&str| {
        within(Duration::from_secs(30), &format!("a span of {path} with stacks"), || {
            server.ask(path);
            let is = |s: &Span| s.attr("url.path") == *path && s.attr("wirespan.tap_side") == "server-process";
            let has_stack = |s: &Span| {
                let key = if path.starts_with("/spin") { "wirespan.cpu.samples" } else { "wirespan.wait.kind" };
                let is_wanted = |e: &&BTreeMap<String, String>| e.contains_key(key);
                s.events.iter().filter(is_wanted).any(|e| e.contains_key("code.stacktrace"))
            };
            otlp(&file).into_iter().find(|s| is(s) && has_stack(s))
        })
    };
    paths.iter().map(found).collect()
}

/// The longest wait of a span, and how long it was, ns.
pub(crate) fn longest_wait(span: &Span) -> (&BTreeMap<String, String>, u64) {
    let timed = span.events.iter().filter_map(|e| Some((e, e.get("wirespan.wait.duration")?.parse::<u64>().ok()?)));
    timed.max_by_key(|(_, ns)| *ns).unwrap_or_else(|| panic!("{} waited for nothing", span.name))
}

/// The stack of the longest wait of a span: functions of the program, functions of the kernel.
pub(crate) fn longest(span: &Span) -> (Vec<&str>, Vec<&str>) {
    let (longest, _) = longest_wait(span);
    let lines = |key: &str| longest.get(key).map_or(Vec::new(), |text| text.lines().collect());
    (lines("code.stacktrace"), lines("wirespan.wait.stack.kernel"))
}

/// Whether these functions stand in the stack in this order.
fn has_in_order(stack: &[&str], functions: &[&str]) -> bool {
    let mut frames = stack.iter();
    functions.iter().all(|f| frames.any(|frame| frame.split(' ').next() == Some(f)))
}

/// At least 95 of 100 frames have a name.
fn assert_named(spans: &[Span]) {
    let frames: Vec<&str> = spans.iter().flat_map(|span| longest(span).0).collect();
    let named = frames.iter().filter(|frame| !frame.starts_with('?')).count();
    println!("{named} of {} frames have names", frames.len());
    assert!(named > 0 && named * 100 >= frames.len() * 95, "{frames:#?}");
}

#[test]
fn a_wait_is_told_with_the_functions_of_the_program_and_of_the_kernel() {
    let test = "stacks";
    if !can_trace(test) || !has(test, &["cc"]) {
        return;
    }
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    let program = compile_with("stacks/stacks.c", dir.path(), &["-g", "-O2", "-fno-omit-frame-pointer"]);
    let spans = traced(&program, &["/sleep/40", "/pipe/40", "/lock/40"]);
    assert_named(&spans);
    for (span, kernel) in spans.iter().zip(["nanosleep", "pipe_read", "futex"]) {
        let (user, in_kernel) = longest(span);
        assert!(has_in_order(&user, &["price", "checkout", "handle"]), "{}: {user:#?}", span.name);
        let line = user.iter().find(|frame| frame.starts_with("checkout ")).unwrap();
        assert!(line.starts_with("checkout (stacks.c:"), "{line}");
        assert!(in_kernel.iter().any(|frame| frame.contains(kernel)), "{}: {in_kernel:#?}", span.name);
        assert!(!in_kernel.iter().any(|f| f.contains("schedule") || f.contains("bpf") || f.contains("syscall_64")));
    }
}

#[test]
fn a_thread_of_go_in_a_system_call_has_its_whole_stack() {
    let test = "stacks_go";
    if !can_trace(test) || !has(test, &["go"]) {
        return;
    }
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    let program = dir.path().join("stacks_go");
    let source = root().join("tests/apps/stacks/stacks.go");
    go_build(&source, &program);
    let spans = traced(&program, &["/sleep/40"]);
    assert_named(&spans);
    let (user, _) = longest(&spans[0]);
    let own = ["syscall.Nanosleep", "main.sleepWork", "main.price", "main.checkout", "net/http.(*conn).serve"];
    assert!(has_in_order(&user, &own), "{user:#?}");
}

/// The interpreters that are here, of Python 3.8 and newer.
fn interpreters() -> Vec<(String, u32)> {
    let versions = std::env::var("HOME").map(|home| format!("{home}/.pyenv/versions")).unwrap_or_default();
    let found = std::fs::read_dir(versions).into_iter().flatten().flatten();
    let found = found.map(|version| version.path().join("bin/python3").display().to_string());
    let fetched = root().join("target/servers/python314/python3").display().to_string();
    let all = found.chain(["/usr/bin/python3".to_string(), fetched]);
    let minor = |python: &String| {
        let asked = Command::new(python).args(["-c", "import sys; print(sys.version_info[1])"]).output().ok()?;
        String::from_utf8_lossy(&asked.stdout).trim().parse::<u32>().ok()
    };
    all.filter_map(|python| Some((minor(&python)?, python))).filter(|p| p.0 >= 8).map(|(m, p)| (p, m)).collect()
}

/// The stack that the server has written for a path before it waited.
pub(crate) fn written(truth: &str, path: &str) -> Vec<String> {
    let lines = truth.lines().map(|line| serde_json::from_str::<(String, Vec<String>)>(line).unwrap());
    lines.rev().find(|line| line.0 == path).unwrap().1
}

#[test]
fn functions_of_python_are_told_as_the_program_knows_them() {
    let test = "stacks_python";
    let interpreters = interpreters();
    if !can_trace(test) || (interpreters.is_empty() && !has(test, &["python3.11"])) {
        return;
    }
    for missing in (8..=14).filter(|minor| !interpreters.iter().any(|(_, has)| has == minor)) {
        skip(
            &format!("{test}: 3.{missing}"),
            "there is no such Python in ~/.pyenv, and target/servers has 3.14 at most",
        );
    }
    let source = std::fs::read_to_string(root().join("tests/apps/stacks/stacks.py")).unwrap();
    for (python, minor) in interpreters {
        let dir = tempfile::tempdir_in(root().join("target")).unwrap();
        let program = dir.path().join("stacks.py");
        std::fs::write(&program, format!("#!{python}\n{source}")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let paths = ["sleep", "lock", "deep", "recursion", "generated", "called", "letters", "coroutine"];
        let paths = paths.map(|what| format!("/{what}/40"));
        let spans = traced(&program, &paths.each_ref().map(String::as_str));
        let truth = std::fs::read_to_string(dir.path().join("stacks.py.truth")).unwrap();
        let (mut right, mut all) = (0, 0);
        for (span, path) in spans.iter().zip(&paths) {
            let mut known = written(&truth, path);
            known.truncate(64);
            let (told, _) = longest(span);
            let first = told.len().saturating_sub(known.len());
            println!("3.{minor} {path}: {:?} {:?}", &told[..first], &told[first..]);
            right += known.iter().zip(&told[first..]).filter(|(known, told)| known == told).count();
            all += known.len();
            // Below Python's functions are those of C that they called, with all callers. The C library of 3.14 is
            // stripped: the function that waits has no name there.
            let least = usize::from(minor < 14);
            assert!((least..=12).contains(&first), "3.{minor} {path}: {told:#?}\n{known:#?}");
            assert_eq!(told.get(first).copied(), known.first().map(String::as_str), "3.{minor} {path}: {told:#?}");
        }
        println!("3.{minor} ({python}): {right} of {all} functions of Python are right");
        assert_eq!(right, all, "3.{minor}");
    }
}
