//! `[mask]`: by default no value leaves the capturing process. Values that are allowed are shown; values beside them
//! are not.

use crate::harness::{can_trace, has, root, WIRESPAN};
use std::path::Path;
use std::process::{Command, Stdio};

/// The configuration lets these through, and nothing else.
const ALLOWED: [&str; 6] =
    ["allowed-tenant", "page=allowed-page", "allowed-timing", "SET allowed:key", "get allowed:cached", "allowed-row"];

const MASK: &str = r#"
[mask.http]
request_headers = ["X-Tenant"]
response_headers = ["Server-Timing"]
query = ["page"]
hide = ["user_agent.original"]
[mask.redis]
keys = true
[mask.memcached]
keys = true
[mask.postgresql]
literals = true
"#;

fn files(dir: &Path, into: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        if entry.path().is_dir() {
            files(&entry.path(), into);
        } else {
            let text = String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()).into_owned();
            into.push((entry.path().display().to_string(), text));
        }
    }
}

/// All output of wirespan about the program's run: spans, store, the most detailed log, traces on stdout.
fn written(config: &str) -> Vec<(String, String)> {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    std::fs::create_dir(&out).unwrap();
    std::fs::write(dir.path().join("w.toml"), config).unwrap();
    let done = Command::new(WIRESPAN)
        .env("WIRESPAN_LOG", "trace")
        .arg("--config")
        .arg(dir.path().join("w.toml"))
        .args(["run", "--no-ui", "--print", "50", "--store"])
        .arg(out.join("store"))
        .arg("--otlp-file")
        .arg(out.join("spans.jsonl"))
        .args(["--", "python3"])
        .arg(root().join("tests/apps/masks/masks.py"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(done.status.success(), "{}", text(&done.stderr));
    let mut all = vec![("stdout".into(), text(&done.stdout)), ("stderr".into(), text(&done.stderr))];
    files(&out, &mut all);
    all
}

fn found(all: &[(String, String)], what: &str) -> Vec<String> {
    all.iter().filter(|(_, text)| text.contains(what)).map(|(place, _)| place.clone()).collect()
}

#[test]
fn masks_let_only_allowed_values_through() {
    if !can_trace("masks") || !has("masks", &["python3"]) {
        return;
    }
    let before = written("");
    let after = written(MASK);
    for all in [&before, &after] {
        assert_eq!(found(all, "canary"), Vec::<String>::new());
        for name in ["GET /orders", "INSERT", "postgresql", "redis"] {
            assert!(!found(all, name).is_empty(), "{name} was not seen");
        }
    }
    for allowed in ALLOWED {
        assert_eq!(found(&before, allowed), Vec::<String>::new(), "{allowed}");
        assert!(found(&after, allowed).iter().any(|p| p.ends_with("spans.jsonl")), "{allowed} is not shown");
    }
    assert!(!found(&before, "agent-of-the-test").is_empty());
    assert_eq!(found(&after, "agent-of-the-test"), Vec::<String>::new());
}
