//! Services that publish what they are (OTEP 4719): their spans have these names, below what the user says.

use crate::harness::{can_trace, has, root, WIRESPAN};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Attributes of the resource of each span of a server, by its path.
fn resources(file: &Path) -> BTreeMap<String, BTreeMap<String, String>> {
    let text = std::fs::read_to_string(file).unwrap();
    let mut all = BTreeMap::new();
    let pairs = |of: &Value| -> BTreeMap<String, String> {
        let list = of["attributes"].as_array().into_iter().flatten();
        list.map(|a| (a["key"].as_str().unwrap().into(), a["value"]["stringValue"].as_str().unwrap_or("").into()))
            .collect()
    };
    for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        for group in line["resourceSpans"].as_array().unwrap() {
            let scopes = group["scopeSpans"].as_array().unwrap().iter();
            for span in scopes.flat_map(|scope| scope["spans"].as_array().unwrap()) {
                let attrs = pairs(span);
                if attrs.get("wirespan.tap_side").is_some_and(|tap| tap == "server-process") {
                    all.insert(attrs["url.path"].clone(), pairs(&group["resource"]));
                }
            }
        }
    }
    all
}

#[test]
fn a_service_that_publishes_its_name_has_it() {
    let test = "published";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("spans");
    let mut command = Command::new(WIRESPAN);
    command.args(["run", "--no-ui", "--print", "0", "--otlp-file"]).arg(&file).args(["--", "python3"]);
    let done = command.arg(root().join("tests/apps/sdk/published.py")).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let resources = resources(&file);
    let of = |path: &str, key: &str| resources[path].get(key).cloned().unwrap_or_default();
    assert_eq!(
        (of("/published", "service.name"), of("/published", "service.instance.id")),
        ("cart".into(), "i-1".into())
    );
    assert_eq!(
        (of("/changed", "service.name"), of("/changed", "service.instance.id")),
        ("basket".into(), "i-2".into())
    );
    assert_eq!(of("/changed", "deployment.environment.name"), "test");
    assert_eq!(
        (of("/declared", "service.name"), of("/declared", "service.instance.id")),
        ("mine".into(), "i-3".into())
    );
    for path in ["/wrong", "/forked"] {
        let (name, id) = (of(path, "service.name"), of(path, "service.instance.id"));
        assert_eq!((&*name, &*id), ("published", ""), "{path}: named after the script");
    }
}
