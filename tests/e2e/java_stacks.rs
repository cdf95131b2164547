//! Functions of Java in stacks: a server writes down its own stacks, and each function, file and line is compared.

use crate::callers::{compared, without_line};
use crate::harness::{can_trace, has, root, Span};
use crate::stacks::{longest, longest_wait, traced, written};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The machines that are here, with their versions: installed ones, and those that `WIRESPAN_JVMS` names.
pub(crate) fn machines() -> Vec<(PathBuf, u32)> {
    let named = std::env::var("WIRESPAN_JVMS").unwrap_or_default();
    let installed = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    let installed = installed.map(|machine| machine.path().join("bin/java"));
    let all = installed.chain(named.split(':').filter(|name| !name.is_empty()).map(PathBuf::from));
    let version = |java: &PathBuf| {
        let said = Command::new(java).arg("-version").output().ok()?;
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        said.split('"').nth(1)?.split('.').next()?.parse().ok()
    };
    let paths: BTreeSet<PathBuf> = all.filter_map(|java| java.canonicalize().ok()).collect();
    let found =
        paths.into_iter().filter_map(|java| Some((version(&java)?, java))).map(|(version, java)| (java, version));
    found.filter(|(_, version)| *version >= 17).collect()
}

/// The server as a program that takes a port.
fn server(java: &Path, options: &str, dir: &Path) -> PathBuf {
    let classes = dir.join("classes");
    if !classes.exists() {
        let source = root().join("tests/apps/stacks/Stacks.java");
        let mut javac = Command::new("javac");
        let done =
            javac.args(["-encoding", "UTF-8", "--release", "17", "-d"]).args([&classes, &source]).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let program = dir.join("stacks_java");
    let run = format!("exec {} {options} -cp {} Stacks", java.display(), classes.display());
    std::fs::write(&program, format!("#!/bin/sh\n{run} {}.truth \"$1\"\n", program.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let _ = std::fs::remove_file(program.with_extension("truth"));
    let _ = std::fs::remove_file(program.with_extension("spans"));
    program
}

/// Asks a server for each of these. Returns how many functions were right, and how many there were.
fn waited_in(program: &Path, whats: &[&str]) -> (usize, usize) {
    let paths: Vec<String> = whats.iter().map(|what| format!("/{what}/40")).collect();
    let spans = traced(program, &paths.iter().map(String::as_str).collect::<Vec<_>>());
    let truth = std::fs::read_to_string(program.with_extension("truth")).unwrap();
    let (mut right, mut all) = (0, 0);
    for (span, path) in spans.iter().zip(&paths) {
        let known = written(&truth, path);
        let told: Vec<String> = longest(span).0.iter().map(ToString::to_string).collect();
        let (n, of) = compared(path, &told, &known);
        if n < of {
            println!("  known: {known:?}");
        }
        (right, all) = (right + n, all + of);
    }
    (right, all)
}

const WAITS: [&str; 10] =
    ["sleep", "method", "made", "streamed", "letters", "privileged", "guarded", "deep", "sorted", "reflected"];

#[test]
fn functions_of_java_are_told_as_the_program_knows_them() {
    let test = "java_stacks";
    if !can_trace(test) || !has(test, &["java", "javac"]) {
        return;
    }
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    let (mut right, mut all) = (0, 0);
    for (java, version) in machines() {
        // As it comes, with code of each kind; with the simpler compiler only; and with the interpreter only.
        for options in ["-Dturns=20000", "-XX:TieredStopAtLevel=1 -Dturns=5000", "-Xint"] {
            let program = server(&java, options, dir.path());
            let whats = if options == "-Xint" { &WAITS[7..] } else { &WAITS[..] };
            let (n, of) = waited_in(&program, whats);
            println!("Java {version} {options}: {n} of {of} functions are right");
            (right, all) = (right + n, all + of);
        }
    }
    println!("{right} of {all} functions of Java are right");
    assert!(all > 100 && right * 100 >= all * 95, "{right} of {all}");
}

/// How many samples of a span have their callers, and all: in the server's own functions, in this order.
fn ran_in(span: &Span, functions: &[&str]) -> (u64, u64) {
    let (mut right, mut all) = (0, 0);
    for event in &span.events {
        let Some(samples) = event.get("wirespan.cpu.samples").map(|n| n.parse::<u64>().unwrap()) else { continue };
        let stack = event.get("code.stacktrace").map_or("", String::as_str);
        let own: Vec<String> = stack.lines().map(|frame| without_line(frame, false)).collect();
        let own: Vec<&str> = own.iter().map(String::as_str).filter(|name| name.starts_with("Stacks")).collect();
        // Before and after it spins, the server reads and writes, and writes its stack down.
        let spins = own.iter().any(|name| functions[..2].contains(name));
        let wanted = if spins { &functions[1..] } else { &functions[functions.len() - 1..] };
        let mut frames = own.iter();
        all += samples;
        if wanted.iter().all(|wanted| frames.any(|frame| frame == wanted)) {
            right += samples;
        } else {
            println!("{samples} samples without {wanted:?}:\n{stack}");
        }
    }
    (right, all)
}

#[test]
fn samples_of_java_have_all_callers() {
    let test = "java_samples";
    if !can_trace(test) || !has(test, &["java", "javac"]) {
        return;
    }
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    let own = ["Stacks$Shop.mix", "Stacks$Asked.spin", "Stacks.work", "Stacks.handle"];
    let (mut right, mut all) = (0, 0);
    for (java, version) in machines() {
        let virtual_threads = (version >= 21).then_some("-Dvirtual=true");
        for options in ["", "-XX:TieredStopAtLevel=1", "-Xint"].into_iter().chain(virtual_threads) {
            let program = server(&java, options, dir.path());
            // At the first stack the files of the machine are read, which may take longer than a stack is waited for.
            let spans = traced(&program, &["/spin/100", "/spin/800"]);
            let (n, of) = ran_in(&spans[1], &own);
            println!("Java {version} {options}: {n} of {of} samples are right");
            assert!(of >= 5, "{of} samples");
            (right, all) = (right + n, all + of);
        }
    }
    println!("{right} of {all} samples of Java are right");
    assert!(right * 100 >= all * 95, "{right} of {all}");
}

#[test]
fn a_recursion_of_ten_thousand_levels_in_java_costs_its_outer_functions_only() {
    let test = "java_recursion";
    if !can_trace(test) || !has(test, &["java", "javac"]) {
        return;
    }
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    for (n, (java, version)) in machines().into_iter().enumerate() {
        // Compiled; and interpreted, by one machine.
        for options in ["-Xss64m", "-Xss64m -Xint"].into_iter().take(if n == 0 { 2 } else { 1 }) {
            let program = server(&java, options, dir.path());
            // At the first stack the files of the machine are read, which may take longer than a stack is waited for.
            let spans = traced(&program, &["/sleep/30", "/recursion/40", "/sleep/40"]);
            let [deep, next]: [Vec<String>; 2] = [&spans[1], &spans[2]]
                .map(|span| longest(span).0.iter().map(|frame| without_line(frame, false)).collect());
            let (_, slept_ns) = longest_wait(&spans[1]);
            let levels = deep.iter().filter(|name| *name == "Stacks.deep").count();
            println!("Java {version} {options}: {levels} levels of {} functions", deep.len());
            assert!(levels > 50 && deep.len() < 1000, "Java {version} {options}: {deep:#?}");
            assert!(slept_ns >= 39_000_000, "{slept_ns}");
            // The stack of the next request is whole.
            let whole = ["Stacks.handle", "start_thread"].iter().all(|wanted| next.iter().any(|name| name == wanted));
            assert!(whole, "Java {version} {options}: {next:#?}");
        }
    }
}

#[test]
fn a_collection_of_garbage_in_java_is_told_by_its_name() {
    let test = "java_collection";
    if !can_trace(test) || !has(test, &["java", "javac"]) {
        return;
    }
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    for (java, version) in machines() {
        let program = server(&java, "-XX:+UseParallelGC -Xmx512m", dir.path());
        let spans = traced(&program, &["/sleep/30", "/stopped/10"]);
        let fact = |e: &BTreeMap<String, String>, name: &str| {
            e.get(&format!("wirespan.wait.{name}")).cloned().unwrap_or_default()
        };
        let collections = spans[1].events.iter().filter(|e| fact(e, "resource") == "garbage collection");
        let longest = collections.max_by_key(|e| fact(e, "duration").parse::<u64>().unwrap());
        let longest = longest.unwrap_or_else(|| panic!("Java {version}: {:#?}", spans[1].events));
        println!("Java {version}: {longest:?}");
        assert_eq!((&*fact(longest, "kind"), &*fact(longest, "woken_by")), ("runtime", "thread VM Thread"));
        assert!(fact(longest, "held_by").contains("thread GC Thread#"), "{longest:?}");
    }
}
