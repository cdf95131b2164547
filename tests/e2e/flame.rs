//! In which code slow requests ran: a server whose functions are known is asked, and its flame graph is compared.

use crate::harness::{can_trace, compile_with, eventually, has, root, wirespan, within, Running, WIRESPAN};
use crate::trace_why::get;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn ask(port: u16, path: &str) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: shop\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}

/// The served spans of a path whose waits were recorded for this reason.
fn served(ui: &str, path: &str, reason: &str) -> Vec<Value> {
    let found = get(ui, &format!("spans?from=-1h&tap=server-process&attr=url.path:{path}"));
    let spans = found["spans"].as_array().cloned().unwrap_or_default();
    spans.into_iter().filter(|s| s["attributes"]["wirespan.wait.reason"] == reason).collect()
}

/// Time of the lines of folded text that have these functions in this order, and of all, µs. The last number counts.
fn times(folded: &str, functions: &str) -> (u64, u64) {
    let line = |line: &str| {
        let (stack, us) = line.rsplit_once(' ').unwrap();
        (stack.contains(functions), us.parse::<u64>().unwrap())
    };
    // On a busy machine it waits for a processor, too.
    let lines: Vec<_> = folded
        .lines()
        .filter(|l| !l.contains("[waited: run-queue]") && !l.contains("[waited: shorter"))
        .map(line)
        .collect();
    (lines.iter().filter(|l| l.0).map(|l| l.1).sum(), lines.iter().map(|l| l.1).sum())
}

fn flame(ui: &str, what: &[&str], file: &Path) -> String {
    let mut args = vec!["explain"];
    args.extend(what);
    args.extend(["--server", ui, "--flame", file.to_str().unwrap()]);
    let done = wirespan(&args);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn a_flame_graph_shows_in_which_code_a_request_ran_and_slow_ones_beside_usual_ones() {
    let test = "flame";
    if !can_trace(test) || !has(test, &["cc"]) {
        return;
    }
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    let program = compile_with("stacks/stacks.c", dir.path(), &["-g", "-O2", "-fno-omit-frame-pointer"]);
    let config = dir.path().join("config.toml");
    std::fs::write(&config, "[waits]\nthreshold = \"150ms\"\none_of = 1\n").unwrap();
    let (port, ui) = (free_port(), format!("127.0.0.1:{}", free_port()));
    let server = Running::start(program.to_str().unwrap(), &[&port.to_string()]);
    eventually("the server listens", || TcpStream::connect(("127.0.0.1", port)).ok());
    let config = config.to_str().unwrap();
    let mut up = Running::start(WIRESPAN, &["up", "--ui", &ui, "--pid", &server.pid().to_string(), "--config", config]);
    up.wait_for("Ctrl-C ends");

    // The programs are attached after the start: the first requests may come before.
    let slow = within(Duration::from_secs(40), "a span that ran", || {
        ask(port, "/spin/400");
        let mut spans = served(&ui, "/spin/400", "slow");
        spans.retain(|span| span["attributes"]["wirespan.wait.on_cpu"].as_u64() > Some(100_000_000));
        spans.retain(|span| {
            get(&ui, &format!("trace/{}", span["id"].as_str().unwrap())).to_string().contains("spin_work")
        });
        spans.pop()
    });
    let id = slow["id"].as_str().unwrap();
    let folded = flame(&ui, &[id], &dir.path().join("one.folded"));
    let (within_spin, all) = times(&folded, "handle;checkout;price;spin_work");
    let whole: u64 = folded.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
    let duration_us = slow["duration_ns"].as_u64().unwrap() / 1000;
    println!("{within_spin} of {all} us in spin_work, the span took {duration_us}\n{folded}");
    assert!(within_spin * 10 >= all * 8, "{folded}");
    // A sample each 10 ms, and the waits.
    assert!((duration_us / 2..=duration_us * 3 / 2).contains(&whole), "{whole} of {duration_us}\n{folded}");
    let picture = flame(&ui, &[id], &dir.path().join("one.svg"));
    assert!(picture.starts_with("<svg") && picture.contains(">spin_work</text>"), "{picture}");

    // Two slow requests at least are compared with usual ones.
    within(Duration::from_secs(40), "more slow requests", || {
        ask(port, "/spin/400");
        (served(&ui, "/spin/400", "slow").len() >= 3).then_some(())
    });
    within(Duration::from_secs(20), "usual requests", || {
        ask(port, "/sleep/20");
        (served(&ui, "/sleep/20", "sample").len() >= 3).then_some(())
    });
    let service = format!("service={}", slow["service"].as_str().unwrap());
    let picture = flame(&ui, &[&service], &dir.path().join("both.svg"));
    assert!(picture.contains("slow requests beside") && picture.contains(">spin_work</text>"), "{picture}");
    let folded = flame(&ui, &[&service], &dir.path().join("both.folded"));
    let spin = folded.lines().find(|line| line.contains("price;spin_work")).unwrap();
    let (rest, us) = spin.rsplit_once(' ').unwrap();
    let usual_us: u64 = rest.rsplit_once(' ').unwrap().1.parse().unwrap();
    assert!(usual_us * 10 < us.parse::<u64>().unwrap(), "{spin}");
    up.end();
    drop(server);
}
