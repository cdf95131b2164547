//! The tables of `wirespan packet` while packets come.

use crate::harness::{Running, WIRESPAN};
use crate::packets::{bridged, made, ready, ECHO, PINGS};
use std::time::Duration;

#[test]
fn tables_are_shown_while_packets_come() {
    let test = "tables_are_shown_while_packets_come";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, bridged("pl")) else { return };
    let _echo = spaces.python(1, ECHO, &["10.214.1.2", "7010"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program.yaml");
    std::fs::write(&file, "filter: {protocol: udp, port: 7010}\naction: [count, drops]\nfor: 9s\n").unwrap();
    let args = ["packet", file.to_str().unwrap(), "--live", "--netns", spaces.name(0), "--netns", spaces.name(1)];
    let mut running = Running::start(WIRESPAN, &args);
    running.wait_for("packets are seen");
    spaces.inside(0, &["python3", "-c", PINGS, "10.214.1.2", "7010", "30"]).unwrap();
    let done = running.finish(Duration::from_secs(60));
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{text}");
    let tables: Vec<&str> = text.split("after ").skip(1).collect();
    assert!(tables.len() >= 4, "{text}");
    assert!(tables[tables.len() - 1].starts_with("9 of 9 s"), "{text}");
    // Before the end, too: 30 there and 30 back.
    let rows = |table: &&&str| table.lines().any(|l| l.contains("queue eth0") && l.contains(" 30 "));
    assert!(tables.iter().filter(rows).count() >= 2, "{text}");
    // Their ways are known a little later, although no other packet comes.
    let ways = |table: &&&str| table.contains("60 packets, of these 0 dropped");
    assert!(tables[..tables.len() - 1].iter().any(|table| ways(&table)), "{text}");
    let says_late =
        |table: &&str| table.lines().next().is_some_and(|l| l.ends_with("without the ways of the last 3 s"));
    assert!(tables[..tables.len() - 1].iter().all(says_late), "{text}");
    assert!(!says_late(&tables[tables.len() - 1]), "{text}");
    assert!(!text.contains('\u{1b}'), "not a terminal: {text}");
}
