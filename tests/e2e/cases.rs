//! The cases of `tests/cases`, in short. Each script decides by itself whether the trouble was found.

use crate::harness::{root, skip, WIRESPAN};
use crate::packets::ready;
use crate::running::output;
use serde_json::Value;
use std::process::Command;

/// What each phase of a case found; nothing if this machine lacks something.
fn phases(test: &str, script: &str, messages: &str, expected: &[&str]) -> Option<Vec<Value>> {
    if !ready(test) {
        return None;
    }
    let mut command = Command::new("python3");
    command.arg(root().join("tests/cases").join(script)).args([
        "--wirespan",
        WIRESPAN,
        "--messages",
        messages,
        "--json",
    ]);
    let done = output(&mut command);
    let [out, err] = [&done.stdout, &done.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    if done.status.code() == Some(77) {
        skip(test, out.lines().last().unwrap_or_default());
        return None;
    }
    assert!(done.status.success(), "{}\n{out}\n{err}", done.status);
    let phases: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<_> = phases.iter().map(|phase| phase["phase"].as_str().unwrap()).collect();
    assert_eq!(names, expected);
    Some(phases)
}

#[test]
fn congestion_at_the_port_of_a_bridge_is_found_by_decomposition() {
    let test = "congestion_at_the_port_of_a_bridge_is_found_by_decomposition";
    let Some(phases) = phases(test, "congestion.py", "100", &["quiet", "congested", "mended"]) else { return };
    let total = |n: usize| phases[n]["total"]["p50_ns"].as_u64().unwrap();
    assert!(total(1) > 2 * total(0) && total(1) > 2 * total(2), "{phases:?}");
    assert_eq!(phases[1]["longest"], "queue ports → xmit ports", "{phases:?}");
}

#[test]
fn a_server_that_waits_for_its_processor_is_found_behind_the_network() {
    let test = "a_server_that_waits_for_its_processor_is_found_behind_the_network";
    let Some(phases) = phases(test, "scheduler.py", "150", &["alone", "competing", "mended", "limited"]) else {
        return;
    };
    assert!(phases[1]["reader_share"].as_f64().unwrap() > 0.8, "{phases:?}");
    assert!(phases[3]["throttled"].as_u64().unwrap() > 0, "{phases:?}");
}

#[test]
fn the_receive_passes_of_an_overlay_are_counted_with_their_processors() {
    let test = "the_receive_passes_of_an_overlay_are_counted_with_their_processors";
    let Some(phases) = phases(test, "overlay.py", "150", &["direct", "overlay", "steered"]) else { return };
    let passes = |n: usize| phases[n]["passes"].as_f64().unwrap();
    assert!(passes(1) > passes(0), "{phases:?}");
}

#[test]
fn a_proxy_that_answers_404_is_found_among_its_siblings() {
    let test = "a_proxy_that_answers_404_is_found_among_its_siblings";
    let Some(phases) = phases(test, "proxies.py", "30", &["healthy", "broken", "mended"]) else { return };
    assert_eq!(phases[1]["failed_at"], serde_json::json!({"10.217.5.22": 10}), "{phases:?}");
}

#[test]
fn orders_that_a_brokers_backlog_has_lost_are_found_where_nobody_read_them() {
    let test = "orders_that_a_brokers_backlog_has_lost_are_found_where_nobody_read_them";
    let Some(phases) = phases(test, "broker.py", "40", &["healthy", "stalled", "mended"]) else { return };
    let count = |n: usize, what: &str| phases[n][what].as_u64().unwrap();
    assert!(count(1, "unread") > 20 && count(0, "reset") == 0 && count(2, "reset") == 0, "{phases:?}");
}

#[test]
fn an_address_that_nobody_answers_for_is_counted_at_the_device() {
    let test = "an_address_that_nobody_answers_for_is_counted_at_the_device";
    let Some(phases) = phases(test, "arp.py", "1", &["healthy", "broken", "mended"]) else { return };
    let count = |n: usize, what: &str| phases[n][what].as_u64().unwrap();
    assert_eq!((count(0, "unanswered"), count(1, "unanswered"), count(2, "unanswered")), (0, 1, 0), "{phases:?}");
}
