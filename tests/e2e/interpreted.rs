//! Functions of Ruby and PHP in stacks: servers write down their own stacks, and each function is compared.

use crate::callers::assert_ran_in;
use crate::harness::{can_trace, has, root, Span};
use crate::stacks::{longest, traced, written};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Functions of an interpreter that are told at most.
const MOST: usize = 64;

/// Interpreters: that of the path, and those that a variable names, with their versions.
fn interpreters(name: &str, variable: &str, version: &[&str]) -> Vec<(String, PathBuf)> {
    let named = std::env::var(variable).unwrap_or_default();
    let found = Command::new("sh").args(["-c", &format!("command -v {name}")]).output().unwrap();
    let found = String::from_utf8_lossy(&found.stdout).trim().to_string();
    let all = named.split(':').chain([&*found]).filter(|path| !path.is_empty());
    let version = |path: &str| {
        let said = Command::new(path).args(version).output().ok()?;
        Some((String::from_utf8_lossy(&said.stdout).trim().to_string(), path.into()))
    };
    let mut all: Vec<_> = all.filter_map(version).collect();
    all.sort();
    all
}

fn rubies() -> Vec<(String, PathBuf)> {
    interpreters("ruby", "WIRESPAN_RUBIES", &["-e", "print RUBY_VERSION"])
}

/// A program of tests/apps/stacks that begins with this line.
fn program(dir: &Path, name: &str, first: &str) -> PathBuf {
    let source = std::fs::read_to_string(root().join("tests/apps/stacks").join(name)).unwrap();
    let program = dir.join(name);
    std::fs::write(&program, format!("#!{first}\n{source}")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// Compares what was told of a wait with what the program has written: how many functions are right, and all. Below
/// the innermost one stand the functions in C that it called.
pub(crate) fn right(span: &Span, path: &str, known: &[String]) -> (usize, usize) {
    let (told, _) = longest(span);
    println!("{path}: {told:?}");
    let first = told.iter().position(|frame| Some(*frame) == known.first().map(String::as_str)).unwrap_or(told.len());
    let told = told.get(first..).unwrap_or_default();
    let right = known.iter().zip(told).filter(|(known, told)| known == told).count();
    // Of a deep stack, those that are told include the functions in C that wait.
    let all = told.len().max(known.len().min(MOST - 4));
    if right < all {
        println!("  written: {known:?}");
    }
    (right, all)
}

fn assert_right(version: &str, spans: &[Span], paths: &[String], truth: &Path) {
    let truth = std::fs::read_to_string(truth).unwrap();
    let counts = spans.iter().zip(paths).map(|(span, path)| right(span, path, &written(&truth, path)));
    let (right, all) = counts.fold((0, 0), |sum, n| (sum.0 + n.0, sum.1 + n.1));
    println!("{version}: {right} of {all} functions are right");
    assert!(all > 50 && right * 100 >= all * 95, "{version}: {right} of {all}");
}

/// Of a recursion of thousands of levels, the innermost functions are told.
fn assert_innermost(span: &Span, function: &str) {
    let (told, _) = longest(span);
    let levels = told.iter().filter(|frame| frame.split(' ').next() == Some(function)).count();
    assert!((MOST - 4..=MOST).contains(&levels), "{levels}: {told:#?}");
}

#[test]
fn functions_of_ruby_are_told_as_the_program_knows_them() {
    let test = "stacks_ruby";
    if !can_trace(test) || !has(test, &["ruby"]) {
        return;
    }
    for (version, ruby) in rubies() {
        let dir = tempfile::tempdir_in(root().join("target")).unwrap();
        let program = program(dir.path(), "stacks.rb", &ruby.display().to_string());
        let paths = [
            "sleep", "lock", "deep", "each", "sorted", "letters", "rescued", "defined", "missing", "class", "fiber",
            "long", "read",
        ];
        let paths = paths.map(|what| format!("/{what}/40"));
        let spans = traced(&program, &paths.each_ref().map(String::as_str));
        assert_right(&version, &spans, &paths, &dir.path().join("stacks.rb.truth"));
        let deep = traced(&program, &["/recursion/40", "/spin/600"]);
        assert_innermost(&deep[0], "deep");
        assert_ran_in(&deep[1], &["spin_work", "call", "handle"]);
        // The function in C that waits is told by the name that it has in Ruby.
        let (told, _) = longest(&spans[0]);
        assert!(told.iter().any(|frame| frame.starts_with("sleep (stacks.rb:")), "{told:?}");
    }
}

fn phps() -> Vec<(String, PathBuf)> {
    interpreters("php", "WIRESPAN_PHPS", &["-n", "-r", "echo PHP_VERSION;"])
}

#[test]
fn functions_of_php_are_told_as_the_program_knows_them() {
    let test = "stacks_php";
    if !can_trace(test) || !has(test, &["php"]) {
        return;
    }
    for (version, php) in phps() {
        let dir = tempfile::tempdir_in(root().join("target")).unwrap();
        let program = program(dir.path(), "stacks.php", &php.display().to_string());
        let paths =
            ["sleep", "deep", "mapped", "generated", "letters", "class", "missing", "made", "caught", "read", "fiber"];
        let paths = paths.map(|what| format!("/{what}/40"));
        let spans = traced(&program, &paths.each_ref().map(String::as_str));
        assert_right(&version, &spans, &paths, &dir.path().join("stacks.php.truth"));
        let deep = traced(&program, &["/recursion/40", "/spin/600"]);
        assert_innermost(&deep[0], "Shop::deep");
        assert_ran_in(&deep[1], &["Shop::spin", "answer", "{main}"]);
        let (told, _) = longest(&spans[0]);
        assert!(told.iter().any(|frame| frame.starts_with("usleep (stacks.php:")), "{told:?}");
    }
}
