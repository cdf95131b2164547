//! What is made, loaded and attached at the start, and what only when a target first needs it.

use crate::harness::{can_trace, eventually, has, skip, Running, WIRESPAN};
use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;
use wirespan_capture::{Capture, Options, Targets};
use wirespan_model::{Direction, Event};

/// Performs the action that each input line names, and answers with a line.
const PROGRAM: &str = r#"
import ctypes, os, socket, sys
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
read, write = os.pipe()
libc = ctypes.CDLL(None, use_errno=True)
print(client.getsockname()[1], flush=True)
for line in sys.stdin:
    if line == "splice\n":
        server.sendall(b"s" * 1000)
        left = 1000
        while left:
            n = os.splice(client.fileno(), write, left)
            os.read(read, n)
            left -= n
        server.sendall(b"read")
        done = client.recv(4) == b"read"
    elif line == "ring\n":
        done = libc.syscall(425, 8, ctypes.create_string_buffer(120)) >= 0
    print(done, flush=True)
"#;

#[test]
fn programs_that_no_target_needs_are_not_attached() {
    let test = "on_demand";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    let mut capture = Capture::open(&Options::default(), &Targets::default()).unwrap();
    if capture.rung().as_str() != "socket-tracepoints" {
        return skip(test, "all programs of the other rung are needed");
    }
    let mut child =
        Command::new("python3").args(["-c", PROGRAM]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()).lines());
    let mut answer = move || output.next().unwrap().unwrap();
    let port: u16 = answer().parse().unwrap();
    capture.add_pid(child.id()).unwrap();
    let mut events = Vec::new();
    let mut after = |word: &str, capture: &mut Capture| {
        writeln!(input, "{word}").unwrap();
        let done = answer();
        events.clear();
        capture.drain(&mut events);
        let is_ours = |d: &&wirespan_model::event::DataEvent| d.local.port == port && d.direction == Direction::Ingress;
        let received = events.iter().filter_map(|e| if let Event::Data(d) = e { Some(d) } else { None });
        (done, received.filter(is_ours).map(|d| d.len).sum::<u64>())
    };
    let attached = |capture: &Capture| {
        let counters = capture.counters();
        counters.iter().find(|c| c.0 == "hooks_attached_later").expect("a counter").1
    };
    assert_eq!(attached(&capture), 0);
    // For a connection older than the agent, the first read gives the position; so the second splice is the first gap.
    let firsts: Vec<_> = (0..2).map(|_| after("splice", &mut capture)).collect();
    assert_eq!(firsts, [("True".to_string(), 4), ("True".to_string(), 4)]);
    eventually("splice() to be watched", || {
        capture.drain(&mut Vec::new());
        (attached(&capture) == 1).then_some(())
    });
    assert_eq!(after("splice", &mut capture), ("True".to_string(), 1004));
    let (made, _) = after("ring", &mut capture);
    if made == "True" {
        eventually("io_uring to be watched", || {
            capture.drain(&mut Vec::new());
            (attached(&capture) == 3).then_some(())
        });
    } else {
        println!("{test}: io_uring_setup() is refused here, so that its part is left out");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A number that the kernel tells of each program, or table, of a process of wirespan that traces an idle process. It
/// is a process of its own: other tests of this one may have loaded programs, too.
fn idle(kind: &str, number: &str) -> HashMap<u64, u64> {
    let traced = Running::start("sleep", &["600"]);
    let mut agent = Running::start(WIRESPAN, &["up", "--no-ui", "--pid", &traced.pid().to_string()]);
    agent.wait_for("Ctrl-C ends");
    let read = |text: String| {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        Some((field(kind)?, field(number)?))
    };
    let all = || -> HashMap<u64, u64> {
        let files = std::fs::read_dir(format!("/proc/{}/fdinfo", agent.pid())).unwrap().filter_map(|entry| entry.ok());
        files.filter_map(|file| read(std::fs::read_to_string(file.path()).ok()?)).collect()
    };
    // Some programs are loaded after the start.
    let mut before = all();
    eventually("the last program to be loaded", || {
        std::thread::sleep(Duration::from_secs(1));
        let now = all();
        (now.len() == std::mem::replace(&mut before, now).len()).then_some(())
    });
    before
}

/// Tables that an idle process does not need are not made. The rings take 10 MiB of the bound.
#[test]
fn an_idle_process_needs_few_tables() {
    if !can_trace("an_idle_process_needs_few_tables") {
        return;
    }
    let tables = idle("map_id:", "memlock:");
    let all: u64 = tables.values().sum();
    assert!(tables.len() > 20 && all < 20 << 20, "{all} bytes in {} tables: {tables:?}", tables.len());
}

/// The kernel refuses a program of which it has to follow a million instructions, and each of them delays the start.
#[test]
fn the_kernel_verifies_the_programs_quickly() {
    let test = "verified";
    if !can_trace(test) {
        return;
    }
    let programs = idle("prog_id:", "verified_insns:");
    if programs.is_empty() {
        return skip(test, "this kernel does not say how much it verified (Linux 5.16)");
    }
    assert!(programs.len() > 50, "{programs:?}");
    assert!(programs.values().all(|count| *count < 300_000), "{programs:?}");
    let all: u64 = programs.values().sum();
    assert!(all < 1_200_000, "{all} in {} programs", programs.len());
}
