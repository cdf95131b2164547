//! Functions of JavaScript in stacks: a server writes down its own stacks, and each function is compared.

use crate::callers::{compared, without_line};
use crate::harness::{can_trace, has, root, Span};
use crate::stacks::{longest, traced, written};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Nodes that are here: that of the path, that of the tools, and those that `WIRESPAN_NODES` names.
pub(crate) fn nodes() -> Vec<(PathBuf, String)> {
    let named = std::env::var("WIRESPAN_NODES").unwrap_or_default();
    let tools = root().join(".tools/node/bin/node").display().to_string();
    let all = named.split(':').chain(["node", &tools]).filter(|node| !node.is_empty());
    let version = |node: &str| {
        let asked = "process.version + ' ' + process.execPath";
        let said = Command::new(node).args(["-p", asked]).output().ok()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        said.trim().split_once(' ').map(|(version, path)| (PathBuf::from(path), version.to_string()))
    };
    let mut found: Vec<_> = all.filter_map(version).collect();
    found.sort();
    found.dedup();
    found
}

fn server(node: &Path, dir: &Path) -> PathBuf {
    let source = std::fs::read_to_string(root().join("tests/apps/stacks/stacks.js")).unwrap();
    let program = dir.join("stacks.js");
    std::fs::write(&program, format!("#!{}\n{source}", node.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

#[test]
fn functions_of_javascript_are_told_as_the_program_knows_them() {
    let test = "javascript";
    if !can_trace(test) || !has(test, &["node"]) {
        return;
    }
    for (node, version) in nodes() {
        let dir = tempfile::tempdir_in(root().join("target")).unwrap();
        let program = server(&node, dir.path());
        // The first request is not compared: until the files of Node are read, V8 may have moved what it refers to.
        let paths = ["sleep/30", "sleep", "method", "made", "getter", "builtin", "deep", "letters", "later"];
        let paths = paths.map(|what| if what.contains('/') { format!("/{what}") } else { format!("/{what}/40") });
        let spans = traced(&program, &paths.each_ref().map(String::as_str));
        let truth = std::fs::read_to_string(dir.path().join("stacks.js.truth")).unwrap();
        let (mut right, mut all) = (0, 0);
        for (span, path) in spans.iter().zip(&paths).skip(1) {
            let known = written(&truth, path);
            let told: Vec<String> = longest(span).0.iter().map(|frame| without_line(frame, true)).collect();
            let (n, of) = compared(path, &told, &known);
            (right, all) = (right + n, all + of);
            let line = longest(span).0.iter().find(|f| f.starts_with("sleepWork ")).map_or("", |f| f);
            assert!(["", "sleepWork (stacks.js:26)"].contains(&line), "{path}: {line}");
        }
        println!("{version}: {right} of {all} functions of JavaScript are right");
        assert!(right * 100 >= all * 95, "{version}: {right} of {all}");
    }
}

#[test]
fn of_a_deep_recursion_in_javascript_the_innermost_functions_are_told() {
    let test = "javascript_recursion";
    if !can_trace(test) || !has(test, &["node"]) {
        return;
    }
    for (node, version) in nodes() {
        let dir = tempfile::tempdir_in(root().join("target")).unwrap();
        let program = server(&PathBuf::from(format!("{} --stack-size=4000", node.display())), dir.path());
        let spans = traced(&program, &["/sleep/30", "/recursion/40"]);
        assert_innermost(&spans[1], "deep", &version);
    }
}

/// Of a recursion of 10,000 levels, tens of the innermost functions are told.
fn assert_innermost(span: &Span, function: &str, version: &str) {
    let told: Vec<String> = longest(span).0.iter().map(|frame| without_line(frame, false)).collect();
    let levels = told.iter().filter(|name| *name == function).count();
    println!("{version}: {levels} levels of {} functions", told.len());
    assert!(levels > 50, "{version}: {told:#?}");
}
