//! Each message system call, on every kind of socket, on both rungs: the captured messages equal the program's own
//! report.

use crate::harness::{can_trace, captured, compile, has};
use serde_json::Value;
use std::collections::BTreeMap;
use wirespan_capture::{Capture, Options, Targets};
use wirespan_model::{Direction, Event};

type Moved = BTreeMap<(String, String, bool), u64>;

fn ports(end: &str) -> String {
    // A v4-mapped address and the IPv4 address are the same end.
    end.replace("::ffff:", "").replace(['[', ']'], "")
}

/// Bytes by own end, other end and direction, from the program's report.
fn said(lines: &[Value], counts: impl Fn(&Value) -> bool) -> Moved {
    let mut moved = Moved::new();
    for call in lines.iter().filter(|c| c["peek"] != true && c["bytes"].as_i64() > Some(0) && counts(c)) {
        let end = |key: &str| ports(call[key].as_str().unwrap());
        let sent = call["op"] == "send";
        *moved.entry((end("local"), end("peer"), sent)).or_default() += call["bytes"].as_u64().unwrap();
    }
    moved
}

fn every_abi(test: &str, rung: &str) {
    if !can_trace(test) || !has(test, &["cc"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = compile("abi/abi.c", dir.path());
    let options = Options {
        rung: Some(rung.into()),
        payload_bytes: 128,
        young_bytes: 0,
        hooks_from_start: true,
        ..Options::default()
    };
    let mut capture = Capture::open(&options, &Targets::default()).unwrap();
    let (_, events, lines) = captured(&mut capture, &program, "--mark WIRE");

    let inet = |c: &Value| !c["local"].as_str().unwrap().is_empty();
    // splice() out of a Unix socket calls none of the socket tracepoints.
    let unseen = |c: &Value| rung == "socket-tracepoints" && c["op"] == "recv" && c["abi"] == "splice" && !inet(c);
    let seen_here = |c: &Value| !unseen(c);
    let expected = said(&lines, |c| seen_here(c) && inet(c));
    let mut seen = Moved::new();
    let mut marked = 0;
    for event in &events {
        let Event::Data(d) = event else { continue };
        let sent = d.direction == Direction::Egress;
        if d.transport.as_str() != "unix" && d.len > 0 {
            *seen.entry((ports(&d.local.to_string()), ports(&d.remote.to_string()), sent)).or_default() += d.len;
        }
        marked += usize::from(d.payload.starts_with(b"WIRE "));
        assert!(d.payload.len() as u64 <= d.len.min(128) && d.enter_ns <= d.exit_ns && d.socket.0 != 0, "{d:?}");
        assert_eq!(d.seq.is_some(), d.transport.as_str() == "tcp", "{d:?}");
    }
    let differ = |a: &Moved, b: &Moved| {
        a.iter().filter(|(k, n)| b.get(*k) != Some(n)).map(|e| format!("{e:?}")).collect::<Vec<_>>()
    };
    assert_eq!((differ(&seen, &expected), differ(&expected, &seen)), (vec![], vec![]), "{rung}: seen, said");
    // Unix sockets have no addresses to distinguish them, so only their totals are compared.
    let unix = |sent: bool| -> u64 {
        let data = events.iter().filter_map(|e| if let Event::Data(d) = e { Some(d) } else { None });
        data.filter(|d| d.transport.as_str() == "unix" && (d.direction == Direction::Egress) == sent)
            .map(|d| d.len)
            .sum()
    };
    let unix_said = said(&lines, |c| seen_here(c) && !inet(c));
    for sent in [true, false] {
        let total: u64 = unix_said.iter().filter(|(k, _)| k.2 == sent).map(|(_, n)| n).sum();
        assert_eq!(unix(sent), total, "{rung}: unix sockets, sent: {sent}");
    }
    assert!(marked > 100, "{marked} payloads begin with the mark");
    let lost: u64 = capture.counters().iter().filter(|c| c.0.starts_with("lost")).map(|c| c.1).sum();
    assert_eq!(lost, 0);
}

#[test]
fn socket_tracepoints_see_every_abi() {
    every_abi("abi_socket", "socket-tracepoints");
}

#[test]
fn syscall_tracepoints_see_every_abi() {
    every_abi("abi_syscall", "syscall-tracepoints");
}
