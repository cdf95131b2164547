//! Functions that the compiler has put into their callers: each is told, with file and line.

use crate::callers::compared;
use crate::harness::{can_trace, has, root};
use crate::stacks::{longest, traced, written};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds a program of tests/apps/stacks.
fn built(compiler: &str, arguments: &[&str], source: &str, dir: &Path) -> PathBuf {
    let program = dir.join("inlined");
    let mut command = Command::new(compiler);
    command.args(arguments).arg("-o").arg(&program).arg(root().join("tests/apps/stacks").join(source));
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    program
}

/// Where a source says this, as `file:line`.
fn place(source: &str, says: &str) -> String {
    let text = std::fs::read_to_string(root().join("tests/apps/stacks").join(source)).unwrap();
    let line = text.lines().position(|line| line.contains(says)).unwrap_or_else(|| panic!("no line says {says}"));
    format!("{source}:{}", line + 1)
}

/// Each of these functions is told at this place, in this order, and nothing is between them.
fn assert_told(told: &[&str], wanted: &[(&str, String)]) {
    let wanted: Vec<String> = wanted.iter().map(|(name, place)| format!("{name} ({place})")).collect();
    assert!(told.windows(wanted.len()).any(|w| w.iter().zip(&wanted).all(|(a, b)| a == b)), "{wanted:#?} in {told:#?}");
}

#[test]
fn functions_of_cpp_that_were_put_into_their_callers_are_told() {
    let test = "inlined_cpp";
    if !can_trace(test) || !has(test, &["c++"]) {
        return;
    }
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    let source = "inlined.cc";
    let program = built("c++", &["-std=c++20", "-O2", "-g", "-pthread", "-fpermissive"], source, dir.path());
    let spans = traced(&program, &["/sleep/40"]);
    let own = [
        ("long shop::Shop::sleep<int>(int)", place(source, "nanosleep(&time")),
        ("shop::Shop::price(int)", place(source, "return sleep(ms)")),
        ("checkout", place(source, "return shop.price(ms)")),
        ("handle", place(source, "done = shop::checkout(ms)")),
    ];
    assert_told(&longest(&spans[0]).0, &own);
}

#[test]
fn functions_of_go_that_were_put_into_their_callers_are_told() {
    let test = "inlined_go";
    if !can_trace(test) || !has(test, &["go"]) {
        return;
    }
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    let source = "stacks.go";
    let spans = traced(&built("go", &["build"], source, dir.path()), &["/inlined/40"]);
    let own = [
        ("main.sleepWork", place(source, "_ = syscall.Nanosleep")),
        ("main.(*shop).total", place(source, "total(ms int) { sleepWork")),
        ("main.inlined", place(source, "func inlined(ms int)")),
        ("main.price", place(source, "\t\tinlined(ms)")),
    ];
    assert_told(&longest(&spans[0]).0, &own);
}

#[test]
fn functions_of_rust_that_were_put_into_their_callers_are_told() {
    let test = "inlined_rust";
    if !can_trace(test) || !has(test, &["rustc"]) {
        return;
    }
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    let program = built("rustc", &["--edition", "2021", "-O", "-g"], "callers.rs", dir.path());
    let paths = ["/called/40"];
    let spans = traced(&program, &paths);
    // With `-g`, the backtrace that the program writes has functions that were put into others, too.
    let truth = std::fs::read_to_string(program.with_extension("truth")).unwrap();
    let mut known = written(&truth, paths[0]);
    known.truncate(1 + known.iter().position(|name| name == "callers::main").unwrap());
    let told: Vec<String> =
        longest(&spans[0]).0.iter().map(|frame| frame.split(" (").next().unwrap().to_string()).collect();
    let (right, all) = compared(paths[0], &told, &known);
    println!("{right} of {all} functions are right: {known:#?}");
    assert!(all > 10 && right * 100 >= all * 95, "{right} of {all}");
}
