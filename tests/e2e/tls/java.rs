//! TLS of the JDK is read by the agent of `--attach-java`, at both ends, by sockets and by engines.

use super::{both, done};
use crate::harness::{can_trace, has, otlp, root, skip, within, Running, Span, WIRESPAN};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Until the agent has come, and until all calls are made. A busy machine needs long for both.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with the compiled program and its keys; nothing if this machine lacks what makes them.
fn program(test: &str) -> Option<tempfile::TempDir> {
    if !can_trace(test) || !has(test, &["java", "javac", "keytool"]) {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let source = root().join("tests/apps/jsse/Tls.java");
    compile(dir.path(), &source);
    let names = ["-alias", "own", "-dname", "CN=localhost", "-ext", "san=ip:127.0.0.1", "-keyalg", "RSA"];
    let store = ["-storetype", "PKCS12", "-keystore", "keys.p12", "-storepass", "secret", "-validity", "2"];
    done(Command::new("keytool").arg("-genkeypair").args(names).args(store).current_dir(dir.path()));
    Some(dir)
}

/// Compiles a program into a folder, with what it uses of tests/apps/jsse.
pub(super) fn compile(dir: &Path, source: &Path) {
    let used = root().join("tests/apps/jsse");
    let mut javac = Command::new("javac");
    done(javac.args(["-nowarn", "-d", ".", "-sourcepath"]).arg(used).arg(source).current_dir(dir));
}

/// What this machine's calls with this version of TLS look like, if the agent comes while it serves.
fn spans_of(java: &Path, dir: &Path, version: &str) -> Vec<Span> {
    let mut command = Command::new(java);
    command
        .args(["-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", ".", "Tls", version])
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut twin = Running(command.spawn().unwrap());
    twin.wait_for("serving");
    let file = dir.join(format!("{version}.jsonl"));
    let (pid, path) = (twin.pid().to_string(), file.to_str().unwrap());
    let args = ["up", "--no-ui", "--attach-java", "--otlp-file", path, "--pid", &pid];
    let mut agent = Running::start(WIRESPAN, &args);
    agent.wait_for("Ctrl-C ends");
    let reads = |spans: &[Span], server: &str| {
        spans
            .iter()
            .any(|s| s.name == format!("GET /warm-{server}/1") && s.attr("wirespan.tap_side") == "server-process")
    };
    within(PATIENCE, "both servers are read", || {
        let spans = if file.exists() { otlp(&file) } else { Vec::new() };
        (reads(&spans, "engine") && reads(&spans, "socket")).then_some(())
    });
    twin.0.stdin.take().unwrap().write_all(b"\n").unwrap();
    within(PATIENCE, "it has ended", || twin.0.try_wait().unwrap());
    agent.end();
    otlp(&file)
}

fn are_read(spans: &[Span], version: &str) {
    for server in ["engine", "socket"] {
        for client in ["connection", "fresh", "old"] {
            for size in ["10", "40000"] {
                let name = format!("GET /{server}-{client}/{size}");
                let (sent, served) = both(spans, &name);
                for span in [sent, served] {
                    assert_eq!(span.attr("http.response.status_code"), "200", "{version} {name}");
                    assert_eq!(span.attr("http.response.body.size"), size, "{version} {name}");
                }
                // A server of TLS 1.3 may read the end of the handshake together with its first request.
                if size != "10" {
                    assert_eq!(served.parent, sent.id, "{version} {name}");
                }
            }
        }
    }
}

#[test]
fn tls_of_java_is_read_with_an_agent() {
    let Some(dir) = program("tls_java_agent") else { return };
    for version in ["TLSv1.3", "TLSv1.2"] {
        are_read(&spans_of(Path::new("java"), dir.path(), version), version);
    }
}

#[test]
fn tls_of_a_newer_java_is_read_with_an_agent() {
    let test = "tls_java_agent_newer";
    let Some(dir) = program(test) else { return };
    let Some(java) = newer() else { return skip(test, "needs a Java of version 21 or newer in /usr/lib/jvm") };
    are_read(&spans_of(&java, dir.path(), "TLSv1.3"), "TLSv1.3");
}

/// A Java machine of version 21 or newer, wherever distributions and vendors put them.
fn newer() -> Option<PathBuf> {
    let all = std::fs::read_dir("/usr/lib/jvm").ok()?.flatten().map(|entry| entry.path());
    let is_new = |path: &PathBuf| {
        let release = std::fs::read_to_string(path.join("release")).unwrap_or_default();
        let version = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""));
        version.and_then(|v| v.split(['.', '"']).next()?.parse::<u32>().ok()).is_some_and(|v| v >= 21)
    };
    all.filter(is_new).map(|path| path.join("bin/java")).find(|java| java.exists())
}
