//! Attributes are named as OpenTelemetry's semantic conventions name them, and none is deprecated.
//!
//! `conventions-1.45.txt` lists what release 1.45.0 has in the namespaces that parsers use (from the package
//! `@opentelemetry/semantic-conventions`, without what is marked deprecated there). Another name belongs below
//! `wirespan.`.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            sources(&path, into);
        } else if name.ends_with(".rs") && !name.contains("test") {
            into.push(path);
        }
    }
}

/// Whether it is words with dots between them, as names of attributes are.
fn is_name(text: &str) -> bool {
    let word = |w: &str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    text.contains('.') && text.split('.').all(word)
}

#[test]
fn every_attribute_is_one_of_the_conventions() {
    let listed: BTreeSet<&str> = include_str!("conventions-1.45.txt").lines().collect();
    let roots: BTreeSet<&str> = listed.iter().filter_map(|name| name.split('.').next()).collect();
    let known = |name: &str| {
        let template = name.rsplit_once('.').map(|(head, _)| format!("{head}.*")).unwrap_or_default();
        listed.contains(name) || listed.contains(template.as_str())
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec![root.join("../model/src/semconv.rs")];
    sources(&root.join("src"), &mut files);
    let (mut used, mut wrong) = (BTreeSet::new(), Vec::new());
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        for name in text.split('"').filter(|t| is_name(t)) {
            if !roots.contains(name.split('.').next().unwrap()) {
                continue;
            }
            used.insert(name.to_owned());
            if !known(name) {
                wrong.push(format!("{}: {name}", file.display()));
            }
        }
    }
    // Prefixes by which attributes are taken out again.
    wrong.retain(|line| !line.ends_with("amqp1/reader.rs: messaging.operation"));
    assert!(wrong.is_empty(), "not in the conventions:\n{}", wrong.join("\n"));
    assert!(used.len() > 50, "the search found only {used:?}");
}
