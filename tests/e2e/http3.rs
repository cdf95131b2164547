//! HTTP/3 between two services: both ends read each handshake, and the datagrams neither make calls nor take those of
//! the other requests of their process.

use crate::harness::{can_trace, go_build, has, otlp, root, skip, Span, WIRESPAN};
use std::process::Command;

/// Requests of each kind that tests/apps/http3/mesh.py makes.
const REQUESTS: usize = 30;

#[test]
fn both_ends_read_each_handshake_and_other_calls_keep_their_parents() {
    let test = "http3";
    let python = root().join("target/servers/venv/bin/python3");
    if !can_trace(test) {
        return;
    }
    if !Command::new(&python).args(["-c", "import aioquic"]).output().is_ok_and(|done| done.status.success()) {
        return skip(test, "needs tests/apps/fetch/fetch.py");
    }
    let dir = tempfile::tempdir().unwrap();
    let spans = dir.path().join("spans.jsonl");
    let mut command = Command::new(WIRESPAN);
    command.args(["run", "--no-ui", "--print", "0", "--otlp-file"]).arg(&spans).arg("--").arg(&python);
    let done = command.arg(root().join("tests/apps/http3/mesh.py")).arg(REQUESTS.to_string()).output().unwrap();
    let (out, said) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{out}{said}");
    let spans = otlp(&spans);
    let made: Vec<usize> = out
        .lines()
        .find_map(|line| line.strip_prefix("connections "))
        .map(|line| line.split(' ').map(|n| n.parse().unwrap()).collect())
        .unwrap();
    assert_eq!(made, [REQUESTS + 1; 2], "connections that the services made");
    let named = |id: &str| spans.iter().find(|s| s.id == id);
    let at = |side: &str, name: &str| -> Vec<&Span> {
        spans.iter().filter(|s| s.attr("wirespan.tap_side") == side && s.name.contains(name)).collect()
    };
    let (asked, answered) = (at("client-process", "handshake"), at("server-process", "handshake"));
    assert_eq!((asked.len(), answered.len()), (made[0], made[1]), "handshakes that were read\n{said}");
    for s in &answered {
        assert_eq!(s.attr("server.address"), "shop.example", "{s:?}");
        let other = named(&s.parent).unwrap_or_else(|| panic!("the other end: {s:?}"));
        assert_eq!(other.attr("wirespan.tap_side"), "client-process", "{other:?}");
    }
    let path = |s: &Span| s.attr("url.path").to_string();
    // Each new connection belongs to the request that opened it.
    let opened = asked.iter().filter(|s| named(&s.parent).is_some_and(|p| path(p).starts_with("/web/"))).count();
    assert_eq!(opened, REQUESTS, "handshakes below their requests");
    let calls: Vec<&Span> = spans
        .iter()
        .filter(|s| s.attr("wirespan.tap_side") == "client-process" && path(s).starts_with("/from/"))
        .collect();
    let (mut right, mut none, mut wrong) = (0, 0, Vec::new());
    for s in &calls {
        let expected = path(s).replacen("/from", "", 1);
        match named(&s.parent) {
            // The requests of HTTP/3 are not read.
            None if expected.starts_with("/h3/") => right += 1,
            None => none += 1,
            Some(p) if path(p) == expected => right += 1,
            Some(p) => wrong.push(format!("{} below {} {} {:?}", path(s), p.name, path(p), s.attrs)),
        }
    }
    println!("{right} of {} calls have the right parent, {none} have none, {} a wrong one", calls.len(), wrong.len());
    // One of each kind and number, two more of HTTP/3, and the last two that ask for the number of connections.
    assert_eq!(calls.len(), 5 * REQUESTS + 2);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(none, 0, "calls without a parent");
}

/// quic-go takes several datagrams with one call and gives several to one call, and its goroutines share one socket.
#[test]
fn both_ends_read_each_handshake_of_a_stack_that_batches_its_calls() {
    let test = "http3_batches";
    if !can_trace(test) || !has(test, &["go"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (program, spans) = (dir.path().join("quic_go"), dir.path().join("spans.jsonl"));
    let source = root().join("tests/apps/http3/quic_go");
    go_build(&source, &program);
    let script = format!(
        "{program} serve >{dir}/out & while ! test -s {dir}/out; do sleep 0.05; done; \
         {program} ask $(head -n 1 {dir}/out) {REQUESTS} 3; kill $!; wait $!; tail -n 1 {dir}/out",
        program = program.display(),
        dir = dir.path().display()
    );
    let mut command = Command::new(WIRESPAN);
    command.args(["run", "--no-ui", "--print", "0", "--otlp-file"]).arg(&spans).args(["--", "sh", "-c", &script]);
    let done = command.output().unwrap();
    let (out, said) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert_eq!(out.trim(), REQUESTS.to_string(), "connections that the server has seen\n{said}");
    let spans = otlp(&spans);
    let at = |side: &str| -> Vec<&Span> {
        spans.iter().filter(|s| s.attr("wirespan.tap_side") == side && s.name.contains("handshake")).collect()
    };
    let (asked, answered) = (at("client-process"), at("server-process"));
    assert_eq!((asked.len(), answered.len()), (REQUESTS, REQUESTS), "handshakes that were read\n{said}");
    for s in answered {
        assert_eq!(s.attr("server.address"), "shop.example", "{s:?}");
        assert!(asked.iter().any(|other| other.id == s.parent), "the other end: {s:?}");
    }
}
