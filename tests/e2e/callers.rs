//! Stacks of programs that keep no frame pointers: servers write down their own stacks, and each function is compared.

use crate::harness::{can_trace, compile_with, has, otlp, root, within, Running, Span, WIRESPAN};
use crate::stacks::{longest, traced, written, Server};
use crate::stacks_bad::damage;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// callers.c without frame pointers. Without `-g`, no function shows that the compiler has put into another one.
pub(crate) fn in_c(dir: &Path, arguments: &[&str]) -> PathBuf {
    compile_with("stacks/callers.c", dir, &[&["-O2", "-fomit-frame-pointer", "-rdynamic"], arguments].concat())
}

fn in_rust(dir: &Path) -> PathBuf {
    let program = dir.join("callers_rust");
    let source = root().join("tests/apps/stacks/callers.rs");
    let done =
        Command::new("rustc").args(["--edition", "2021", "-O", "-o"]).args([&program, &source]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    program
}

/// A frame without its line, and without its file or module if that is not wanted.
pub(crate) fn without_line(frame: &str, keeps_file: bool) -> String {
    let Some((name, place)) = frame.rsplit_once(" (") else { return frame.into() };
    let file = place.trim_end_matches(')').trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches(':');
    if keeps_file {
        format!("{name} ({file})")
    } else {
        name.into()
    }
}

/// Compares what was told with what the program has written of its own functions: how many are right, and all.
pub(crate) fn compared(path: &str, told: &[String], known: &[String]) -> (usize, usize) {
    println!("{path}: {told:?}");
    let known: Vec<_> = known.iter().filter(|name| !name.is_empty()).collect();
    // Between them stand functions of libraries.
    let own: Vec<_> = told.iter().filter(|name| known.contains(name)).collect();
    (known.iter().zip(&own).filter(|(known, told)| known == told).count(), known.len().max(own.len()))
}

/// Asks a program for each path. At least 95 of 100 functions in which it waited are right.
fn assert_known(program: &Path, paths: &[&str]) {
    let spans = traced(program, paths);
    let truth = std::fs::read_to_string(program.with_extension("truth")).unwrap();
    let (mut right, mut all) = (0, 0);
    for (span, path) in spans.iter().zip(paths) {
        let told: Vec<String> = longest(span).0.iter().map(|frame| without_line(frame, false)).collect();
        let (n, of) = compared(path, &told, &written(&truth, path));
        (right, all) = (right + n, all + of);
    }
    println!("{right} of {all} functions are right");
    assert!(all > 20 && right * 100 >= all * 95, "{right} of {all}");
}

#[test]
fn functions_of_c_without_frame_pointers_are_told_as_the_program_knows_them() {
    let test = "callers_c";
    if !can_trace(test) || !has(test, &["cc"]) {
        return;
    }
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    assert_known(&in_c(dir.path(), &[]), &["/sleep/40", "/deep/40", "/library/40", "/signal/40", "/aligned/40"]);
}

#[test]
fn a_program_that_lies_at_a_fixed_place_has_its_functions_too() {
    let test = "callers_fixed";
    if !can_trace(test) || !has(test, &["cc"]) {
        return;
    }
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    assert_known(&in_c(dir.path(), &["-no-pie", "-fno-pie"]), &["/sleep/40", "/deep/40"]);
}

#[test]
fn functions_of_rust_without_frame_pointers_are_told_as_the_program_knows_them() {
    let test = "callers_rust";
    if !can_trace(test) || !has(test, &["rustc"]) {
        return;
    }
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    assert_known(&in_rust(dir.path()), &["/sleep/40", "/deep/40", "/called/40"]);
}

/// The span of a request to a program that is changed once it runs, and what is counted of copies of stacks.
pub(crate) fn traced_after(program: &Path, path: &str, change: impl FnOnce(&Path)) -> (Span, BTreeMap<String, u64>) {
    let server = Server::start(program);
    change(program);
    let file = program.with_extension("later");
    let ui = format!("127.0.0.1:{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port());
    let pid = server.pid().to_string();
    let file_name = file.to_str().unwrap();
    let args = ["up", "--ui", &ui, "--threshold", "10ms", "--pid", &pid, "--otlp-file", file_name];
    let mut agent = Running::start(WIRESPAN, &args);
    agent.wait_for("Ctrl-C ends");
    let span = within(Duration::from_secs(30), "a span with stacks", || {
        server.ask(path);
        let is = |s: &Span| s.attr("url.path") == path && s.attr("wirespan.tap_side") == "server-process";
        let has_stack = |s: &Span| s.events.iter().any(|e| e.contains_key("code.stacktrace"));
        otlp(&file).into_iter().find(|s| is(s) && has_stack(s))
    });
    let counted = || {
        let metrics = ureq::get(format!("http://{ui}/metrics")).call().ok()?.body_mut().read_to_string().ok()?;
        let lines = metrics.lines().filter(|line| line.contains("stack_copies_"));
        let counters: BTreeMap<String, u64> = lines
            .filter_map(|line| {
                let name = &line[line.find("stack_copies_")?..];
                let end = name.find(|c: char| !c.is_ascii_lowercase() && c != '_')?;
                Some((name[..end].to_string(), line.rsplit_once(' ')?.1.parse::<f64>().ok()? as u64))
            })
            .collect();
        counters.values().any(|n| *n > 0).then_some(counters)
    };
    (span, within(Duration::from_secs(10), "counters", counted))
}

/// At least 95 of 100 samples of a request that ran have these functions in this order.
pub(crate) fn assert_ran_in(span: &Span, functions: &[&str]) {
    let (mut right, mut all) = (0, 0);
    for event in &span.events {
        let Some(samples) = event.get("wirespan.cpu.samples").map(|n| n.parse::<u64>().unwrap()) else { continue };
        let stack = event.get("code.stacktrace").map_or("", String::as_str);
        let mut frames = stack.lines().map(|frame| without_line(frame, false));
        all += samples;
        if functions.iter().all(|wanted| frames.any(|frame| frame == *wanted)) {
            right += samples;
        } else {
            println!("{samples} samples without {functions:?}:\n{stack}");
        }
    }
    println!("{right} of {all} samples are right");
    assert!(all >= 5 && right * 100 >= all * 95, "{right} of {all}");
}

#[test]
fn samples_of_programs_without_frame_pointers_have_all_callers() {
    let test = "callers_samples";
    if !can_trace(test) || !has(test, &["cc", "rustc"]) {
        return;
    }
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    let spans = traced(&in_c(dir.path(), &[]), &["/spin/800"]);
    assert_ran_in(&spans[0], &["spin_work", "price", "checkout", "handle"]);
    let spans = traced(&in_rust(dir.path()), &["/spin/800"]);
    let own = ["spin_work", "price", "checkout", "main"].map(|name| format!("callers::{name}"));
    assert_ran_in(&spans[0], &own.each_ref().map(String::as_str));
}

#[test]
fn programs_that_are_static_stripped_or_deleted_have_their_callers_and_corrupt_ones_cost_themselves_only() {
    let test = "callers_bad";
    if !can_trace(test) || !has(test, &["cc", "strip", "objcopy"]) {
        return;
    }
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    let own = ["sleep_work", "price", "checkout", "handle"];
    let has_own = |span: &Span| {
        let told: Vec<String> = longest(span).0.iter().map(|frame| without_line(frame, false)).collect();
        println!("{told:?}");
        let mut frames = told.iter();
        own.iter().all(|wanted| frames.any(|frame| frame == wanted))
    };
    let program = in_c(dir.path(), &["-static"]);
    assert!(has_own(&traced(&program, &["/sleep/40"])[0]), "static");
    // What a program exports for others keeps its name.
    let program = in_c(dir.path(), &["-s"]);
    assert!(has_own(&traced(&program, &["/sleep/40"])[0]), "stripped");
    let (span, counters) = traced_after(&program, "/sleep/40", |program| std::fs::remove_file(program).unwrap());
    assert!(has_own(&span) && counters["stack_copies_followed"] > 0, "deleted: {counters:?}");
    // 10,000 levels do not fit into a copy: the innermost are told.
    let program = in_c(dir.path(), &[]);
    let (span, counters) = traced_after(&program, "/endless/40", |_| ());
    let told: Vec<String> = longest(&span).0.iter().map(|frame| without_line(frame, false)).collect();
    assert!(told.iter().filter(|name| *name == "deep").count() > 50, "{told:#?}");
    assert!(counters["stack_copies_followed_partly"] > 0, "{counters:?}");
    // Tables in which each byte is wrong.
    damage(&program, ".eh_frame");
    let (span, counters) = traced_after(&program, "/idle/40", |_| ());
    println!("corrupt: {:?}\n{counters:?}", longest(&span).0);
    assert!(counters["stack_copies_not_followed"] + counters["stack_copies_followed_partly"] > 0);
}

/// Whether a file below this folder, or the file itself, has these bytes.
fn holds(path: &Path, bytes: &[u8]) -> bool {
    if path.is_dir() {
        return std::fs::read_dir(path).unwrap().flatten().any(|entry| holds(&entry.path(), bytes));
    }
    std::fs::read(path).is_ok_and(|file| file.windows(bytes.len()).any(|window| window == bytes))
}

#[test]
fn what_a_stack_holds_is_found_nowhere_else() {
    let test = "callers_secret";
    if !can_trace(test) || !has(test, &["cc"]) {
        return;
    }
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    let program = in_c(dir.path(), &[]);
    let server = Server::start(&program);
    let (store, file, said) = (dir.path().join("store"), dir.path().join("spans"), dir.path().join("said"));
    let mut agent = Command::new(WIRESPAN)
        .args(["up", "--no-ui", "--threshold", "10ms", "--pid", &server.pid().to_string()])
        .args([&"--store".into(), &store, &"--otlp-file".into(), &file])
        .env("WIRESPAN_LOG", "trace")
        .env("WIRESPAN_RECORD_SPANS", dir.path().join("recorded"))
        .stdout(std::fs::File::create(&said).unwrap())
        .stderr(std::fs::File::create(dir.path().join("log")).unwrap())
        .spawn()
        .unwrap();
    // The caller of the function that waits is found by a copy only, and `handle` has the secret in its frame.
    within(Duration::from_secs(40), "a stack that was followed", || {
        server.ask("/sleep/40");
        let has_caller = |e: &BTreeMap<String, String>| {
            e.get("code.stacktrace").is_some_and(|stack| stack.contains("sleep_work") && stack.contains("handle"))
        };
        let spans = if file.exists() { otlp(&file) } else { Vec::new() };
        spans.iter().any(|s| s.events.iter().any(has_caller)).then_some(())
    });
    rustix::process::kill_process(rustix::process::Pid::from_child(&agent), rustix::process::Signal::INT).unwrap();
    agent.wait().unwrap();
    let secret = b"vectetwfdufuvectetwfdufuvectetwf";
    std::thread::scope(|scope| {
        scope.spawn(|| server.ask("/sleep/1500"));
        within(Duration::from_secs(1), "the secret in the program", || in_memory(server.pid(), secret).then_some(()));
    });
    for name in ["store", "spans", "said", "log", "recorded"] {
        let path = dir.path().join(name);
        println!("{name}: {}", path.exists());
        assert!(!path.exists() || !holds(&path, secret), "{name}");
    }
    assert!(holds(&file, b"sleep_work"), "what is looked for would be found");
}

/// Whether the memory of a process holds these bytes.
fn in_memory(pid: u32, bytes: &[u8]) -> bool {
    use std::os::unix::fs::FileExt as _;
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    maps.lines().filter(|line| line.contains(" rw-p ")).any(|line| {
        let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let [from, to] = [from, to].map(|hex| u64::from_str_radix(hex, 16).unwrap());
        let mut block = vec![0; (to - from) as usize];
        memory.read_at(&mut block, from).is_ok_and(|_| block.windows(bytes.len()).any(|window| window == bytes))
    })
}
