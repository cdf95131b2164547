//! The demo shop: whole traces against the ground truth that its services wrote.

use crate::harness::{can_trace, has, root, wirespan};
use std::process::Command;

const PROGRAMS: &[&str] = &["python3", "nginx", "redis-server", "go", "javac", "java", "cc", "unshare"];

fn exact(test: &str, requests: u32, users: u32, rung: Option<&str>) {
    if !can_trace(test) || !has(test, PROGRAMS) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (spans, work) = (dir.path().join("spans.jsonl"), dir.path().join("shop"));
    let shop = root().join("tests/apps/shop/run.py");
    let built = Command::new("python3").arg(&shop).arg("--build-only").output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut run = Command::new(crate::harness::WIRESPAN);
    run.args(["run", "--no-ui", "--print", "0", "--otlp-file"]).arg(&spans).args(["--", "python3"]).arg(&shop);
    run.args(["--netns", "--dir"]).arg(&work);
    run.args(["--load", &requests.to_string(), "--users", &users.to_string()]);
    if let Some(rung) = rung {
        run.env("WIRESPAN_RUNG", rung);
    }
    let done = run.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    assert!(!said.contains("lost"), "{said}");
    let check = Command::new("python3")
        .arg(root().join("tests/apps/check.py"))
        .arg(&spans)
        .arg(work.join("truth"))
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&check.stdout);
    println!("{users} users: {report}");
    assert!(check.status.success(), "{report}{}", String::from_utf8_lossy(&check.stderr));
    assert!(report.contains("share              1.000000"), "{report}");
}

#[test]
fn every_trace_is_exact_with_one_user() {
    exact("shop_1", 200, 1, None);
}

#[test]
fn every_trace_is_exact_with_fifty_users() {
    exact("shop_50", 1500, 50, None);
}

#[test]
fn every_trace_is_exact_with_two_hundred_users() {
    exact("shop_200", 2000, 200, None);
}

#[test]
fn every_trace_is_exact_by_system_calls() {
    exact("shop_syscalls", 500, 20, Some("syscall-tracepoints"));
}

#[test]
fn the_demo_shows_a_trace_and_leaves_nothing() {
    let test = "demo";
    if !can_trace(test) || !has(test, PROGRAMS) {
        return;
    }
    let cgroups = || {
        let found =
            Command::new("find").args(["/sys/fs/cgroup", "-maxdepth", "2", "-name", "wirespan-demo-*"]).output();
        String::from_utf8_lossy(&found.unwrap().stdout).to_string()
    };
    assert_eq!(cgroups(), "", "of another run");
    let done = wirespan(&[
        "demo",
        "--seconds",
        "12",
        "--no-ui",
        "--shop",
        root().join("tests/apps/shop/run.py").to_str().unwrap(),
    ]);
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{err}");
    for service in ["nginx", "storefront", "catalog", "Cart", "pricing", "redis-server"] {
        assert!(out.contains(service), "{service} is missing:\n{out}\n{err}");
    }
    assert_eq!(cgroups(), "", "a cgroup stayed");
}
