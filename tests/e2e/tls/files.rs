//! Libraries that the agent cannot open by their names: in a container's mount namespace, or replaced by an upgrade.

use super::{certified, is_joined, script, PYTHON};
use crate::harness::{can_trace, eventually, has, otlp, skip, tracing, Running};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const LIBRARY: &str = "libssl.so.3";
/// Loads the library, which lies at an unusual path, and waits: the agent checks new processes ten times a second.
const SETTLE: &str = "import ssl, time\ntime.sleep(1)\n";

/// The system's library; skips the test if there is none.
fn library(test: &str) -> Option<PathBuf> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let found = folders.iter().map(|f| Path::new(f).join(LIBRARY)).find(|p| p.exists());
    if found.is_none() {
        skip(test, "needs a libssl.so.3");
    }
    found
}

#[test]
fn a_library_that_only_a_container_has_is_read() {
    let test = "tls_mount_namespace";
    if !can_trace(test) || !has(test, &["python3", "openssl", "unshare", "mount"]) {
        return;
    }
    let Some(library) = library(test) else { return };
    let dir = certified();
    let own = dir.path().join("own");
    std::fs::create_dir(&own).unwrap();
    let mapped = format!("assert '{}' in open('/proc/self/maps').read()\n", own.join(LIBRARY).display());
    let program = script(dir.path(), "pair.py", &format!("{SETTLE}{mapped}{PYTHON}"));
    // The file system is mounted, and the library put there, where no other process sees it.
    let inside = format!(
        "mount -t tmpfs none {own} && cp {library} {own}/ && LD_LIBRARY_PATH={own} exec python3 {program}",
        own = own.display(),
        library = library.display()
    );
    let spans = super::run(dir.path(), &["unshare", "--mount", "sh", "-c", &inside]);
    assert!(!own.join(LIBRARY).exists(), "it is here, too");
    is_joined(&spans, "GET /TLSv1_2/100", "200");
    is_joined(&spans, "GET /TLSv1_3/40000", "200");
}

/// Replaces the library like a package manager: a new file takes the name of the old one.
fn upgrade(library: &Path) {
    let new = library.with_extension("new");
    std::fs::copy(library, &new).unwrap();
    std::fs::rename(&new, library).unwrap();
}

#[test]
fn a_library_that_was_upgraded_is_read_once() {
    let test = "tls_upgraded";
    if !can_trace(test) || !has(test, &["python3", "openssl"]) {
        return;
    }
    let Some(library) = library(test) else { return };
    let dir = certified();
    // Three processes: the library is replaced under the first before it is traced, and under the second while it is
    // traced; the third starts afterwards.
    let start = |name: &str| {
        let own = dir.path().join(name);
        std::fs::create_dir(&own).unwrap();
        std::fs::copy(&library, own.join(LIBRARY)).unwrap();
        let text = PYTHON.replace("'/%s/%d'", &format!("'/{name}/%s/%d'"));
        let wait = "import os, ssl, sys\nprint('up', file=sys.stderr, flush=True)\nos.read(0, 1)\n";
        let again = "if os.fork() == 0: os.execvp('python3', ['python3', sys.argv[1]])\nos.wait()\n";
        let born = script(
            dir.path(),
            &format!("{name}-born.py"),
            &(SETTLE.to_string() + &text.replace(name, &format!("{name}-born"))),
        );
        let program = script(dir.path(), &format!("{name}.py"), &format!("{wait}{text}{again}"));
        let child = Command::new("python3")
            .args([&program, &born])
            .env("LD_LIBRARY_PATH", &own)
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut process = Running(child);
        process.wait_for("up");
        (process, own.join(LIBRARY))
    };
    let (mut before, replaced) = start("before");
    upgrade(&replaced);
    let (mut meanwhile, replaced) = start("meanwhile");
    let spans = dir.path().join("spans.jsonl");
    let agent = tracing(&[before.pid(), meanwhile.pid()], &spans);
    upgrade(&replaced);
    std::thread::sleep(std::time::Duration::from_millis(500)); // the agent checks it every 100 ms
    for process in [&mut before, &mut meanwhile] {
        process.0.stdin.take().unwrap().write_all(b"\n").unwrap();
        eventually("it has ended", || process.0.try_wait().unwrap());
    }
    std::thread::sleep(std::time::Duration::from_millis(500));
    agent.end();
    let seen = otlp(&spans);
    for name in ["before", "meanwhile", "before-born", "meanwhile-born"] {
        for size in [0, 100, 40_000] {
            is_joined(&seen, &format!("GET /{name}/TLSv1_3/{size}"), "200");
        }
    }
}
