//! rustls, in a program that keeps its symbols.

use super::{both, certified_by, is_joined, run};
use crate::harness::{can_trace, has, skip, WIRESPAN};
use std::path::{Path, PathBuf};

/// A certificate for localhost without the CA flag, because rustls rejects a CA as a server certificate.
pub(super) fn certified_leaf() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let text = "[req]\ndistinguished_name = n\nx509_extensions = e\n[n]\n[e]\nbasicConstraints = critical, CA:FALSE\n\
                subjectAltName = DNS:localhost, IP:127.0.0.1\n";
    std::fs::write(dir.path().join("leaf.conf"), text).unwrap();
    certified_by(dir, &["-config", "leaf.conf"])
}

/// The program with rustls, built by cargo with the tests. Without it the test is skipped.
pub(super) fn program(test: &str) -> Option<PathBuf> {
    let path = Path::new(WIRESPAN).parent().unwrap().join("examples/tls_rustls");
    if !path.exists() {
        skip(test, "needs cargo build --example tls_rustls");
        return None;
    }
    Some(path)
}

/// Requests of tasks that move between threads, and of threads that block; each over a connection of its own.
#[test]
fn rustls_is_read_through_its_memory() {
    let test = "tls_rustls";
    if !can_trace(test) || !has(test, &["openssl"]) {
        return;
    }
    let Some(program) = program(test) else { return };
    let dir = certified_leaf();
    let spans = run(dir.path(), &[program.to_str().unwrap(), "cert.pem", "key.pem"]);
    for size in [0, 100, 40_000] {
        is_joined(&spans, &format!("GET /blocking/{size}"), "200");
    }
    for connection in 0..6 {
        for (i, size) in [0, 100, 40_000, 5].iter().enumerate() {
            is_joined(&spans, &format!("GET /tasks/{connection}-{i}/{size}"), "200");
        }
    }
    for n in 0..3 {
        is_joined(&spans, &format!("GET /hop/{n}"), "200");
        is_joined(&spans, &format!("GET /leaf/{n}"), "200");
        let (_, served) = both(&spans, &format!("GET /hop/{n}"));
        let (sent, _) = both(&spans, &format!("GET /leaf/{n}"));
        assert_eq!(sent.parent, served.id, "what was sent for a request hangs below it");
    }
}
