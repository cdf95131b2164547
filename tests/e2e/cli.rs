//! The command line: answers, exit codes, and errors that say what to do.

use crate::harness::{can_trace, root, wirespan};

#[test]
fn wrong_usage_ends_with_2_and_help_with_0() {
    assert_eq!(wirespan(&["--help"]).status.code(), Some(0));
    assert_eq!(wirespan(&["run"]).status.code(), Some(2));
    assert_eq!(wirespan(&["frobnicate"]).status.code(), Some(2));
}

#[test]
fn a_misspelled_option_before_the_command_is_refused_with_the_nearest() {
    let done = wirespan(&["run", "--prnit", "3", "--", "true"]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("--prnit") && said.contains("'--print'"), "{said}");
    assert_eq!(wirespan(&["run", "--treshold", "5ms", "--", "true"]).status.code(), Some(2));
}

#[test]
fn without_a_target_the_error_names_the_options() {
    let done = wirespan(&["up", "--no-ui"]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1));
    assert!(said.contains("--pid") && said.contains("--all"), "{said}");
    let done = wirespan(&["up", "--no-ui", "--pid", "4194305"]);
    assert!(String::from_utf8_lossy(&done.stderr).contains("no process 4194305"));
    let done = wirespan(&["up", "--no-ui", "--cgroup", "no/such/group"]);
    assert!(String::from_utf8_lossy(&done.stderr).contains("no/such/group"));
}

#[test]
fn a_wrong_configuration_key_names_the_nearest() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("w.toml");
    std::fs::write(&file, "[store]\nmax_mb = 3\n").unwrap();
    let done = wirespan(&["--config", file.to_str().unwrap(), "check"]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1));
    assert!(said.contains("store.max_mb") && said.contains("store.max_mib"), "{said}");
}

#[test]
fn a_file_that_is_no_capture_is_refused_with_its_first_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("letter.pcap");
    std::fs::write(&file, "Dear wirespan, I am a letter.").unwrap();
    let done = wirespan(&["replay", file.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1));
    assert!(said.contains("letter.pcap") && said.contains("44 65 61 72"), "{said}");
}

#[test]
fn check_prints_the_ladder() {
    if !can_trace("check") {
        return;
    }
    let done = wirespan(&["check", "--format", "json"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let table: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let features = table["features"].as_array().unwrap();
    assert!(features.iter().any(|f| f["active"] == true && f["rung"] == table["messages.rung"]), "{table}");
}

#[test]
fn run_ends_with_the_code_of_its_command() {
    if !can_trace("run_code") {
        return;
    }
    for (command, code) in
        [(["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -TERM $$"], 143), (["no-such-command", "", ""], 127)]
    {
        let mut args = vec!["run", "--no-ui", "--"];
        args.extend(command.iter().filter(|w| !w.is_empty()));
        assert_eq!(wirespan(&args).status.code(), Some(code), "{command:?}");
    }
}

#[test]
fn replay_reads_real_captures() {
    let pcaps = root().join("../shared/pcaps");
    if !pcaps.is_dir() {
        eprintln!("skipped: replay_captures: {} is not there", pcaps.display());
        return;
    }
    let file = pcaps.join("http/httpv1.pcap");
    let done = wirespan(&["replay", file.to_str().unwrap(), "--format", "json"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let spans: Vec<serde_json::Value> =
        String::from_utf8_lossy(&done.stdout).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert!(
        spans.iter().any(|s| s["http.request.method"] == "POST"
            && s["url.path"] == "/query"
            && s["http.response.status_code"] == 200),
        "{spans:?}"
    );
    assert!(spans.iter().all(|s| s["traceId"].as_str().is_some_and(|id| id.len() == 32)), "{spans:?}");
}

#[test]
fn the_room_in_memory_is_said_and_can_be_set() {
    use crate::harness::{Running, WIRESPAN};
    if !can_trace("memory_room") {
        return;
    }
    let own = std::process::id().to_string();
    let said = |more: &[&str]| {
        let mut args = vec!["up", "--no-ui", "--pid", &own];
        args.extend(more);
        Running::start(WIRESPAN, &args).wait_for("Ctrl-C ends")
    };
    assert!(said(&[]).contains("256 MiB of memory"));
    assert!(said(&["--memory-mib", "7"]).contains("7 MiB of memory"));
    let dir = tempfile::tempdir().unwrap();
    assert!(!said(&["--store", dir.path().to_str().unwrap()]).contains("of memory"));
}
