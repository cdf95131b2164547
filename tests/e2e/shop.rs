//! The demo shop: whole traces against the ground truth that its services wrote.

use crate::harness::{can_trace, has, root, skip, wirespan, within, Running};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const PROGRAMS: &[&str] = &["python3", "nginx", "redis-server", "go", "javac", "java", "cc", "unshare"];

fn exact(test: &str, requests: u32, users: u32, rung: Option<&str>) {
    exact_with(test, requests, users, rung, "");
}

/// The same with more parts of the shop; see `tests/apps/shop/more.py`.
fn exact_with(test: &str, requests: u32, users: u32, rung: Option<&str>, parts: &str) {
    if !can_trace(test) || !has(test, PROGRAMS) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (spans, work) = (dir.path().join("spans.jsonl"), dir.path().join("shop"));
    // The services write down each call that they make, log-ins too.
    let config = dir.path().join("wirespan.toml");
    std::fs::write(&config, "[traces]\nhousekeeping = true\n").unwrap();
    let shop = root().join("tests/apps/shop/run.py");
    let built = Command::new("python3").arg(&shop).arg("--build-only").output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut run = Command::new(crate::harness::WIRESPAN);
    run.args(["run", "--no-ui", "--print", "0", "--config"]).arg(&config).arg("--otlp-file").arg(&spans);
    run.args(["--", "python3"]).arg(&shop).args(["--netns", "--with", parts, "--dir"]).arg(&work);
    run.args(["--load", &requests.to_string(), "--users", &users.to_string()]);
    if let Some(rung) = rung {
        run.env("WIRESPAN_RUNG", rung);
    }
    let done = run.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    assert!(!said.contains("lost"), "{said}");
    if let Some(left_out) = said.lines().find(|l| l.contains("without ")) {
        return skip(test, left_out);
    }
    let check = Command::new("python3")
        .arg(root().join("tests/apps/truth/check.py"))
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
fn every_trace_is_exact_over_tls_and_postgresql() {
    exact_with("shop_payment", 600, 10, None, "payment");
}

/// One demo at a time, because the files that a demo leaves are found by its name.
fn one_demo() -> MutexGuard<'static, ()> {
    static DEMO: Mutex<()> = Mutex::new(());
    DEMO.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn the_demo_pays_over_tls_and_ships_through_kafka() {
    let test = "demo_parts";
    if !can_trace(test) || !has(test, PROGRAMS) || !has(test, &["openssl"]) {
        return;
    }
    if !root().join("target/servers/kafka").is_dir() {
        return skip(test, "Kafka's jars are not there (scripts/deps demo)");
    }
    let _one = one_demo();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("spans.jsonl");
    let shop = root().join("tests/apps/shop/run.py");
    let demo = Running::start(
        crate::harness::WIRESPAN,
        &["demo", "--no-ui", "--shop", shop.to_str().unwrap(), "--otlp-file", file.to_str().unwrap()],
    );
    // Kafka needs some seconds to start; the shop does not wait for it. A request over TLS shows its path, because it
    // was read before encryption.
    let wanted = ["/payments/", "INSERT payments", "Produce shipments", "Fetch shipments"];
    within(Duration::from_secs(120), "payments and shipments", || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        wanted.iter().all(|name| text.contains(name)).then_some(())
    });
    demo.end();
}

#[test]
fn the_demo_shows_a_trace_and_leaves_nothing() {
    let test = "demo";
    if !can_trace(test) || !has(test, PROGRAMS) {
        return;
    }
    let _one = one_demo();
    let cgroups = || {
        let found =
            Command::new("find").args(["/sys/fs/cgroup", "-maxdepth", "2", "-name", "wirespan-demo-*"]).output();
        String::from_utf8_lossy(&found.unwrap().stdout).to_string()
    };
    assert_eq!(cgroups(), "", "of another run");
    let done = wirespan(&[
        "demo",
        "--seconds",
        "25",
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
