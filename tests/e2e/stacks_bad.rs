//! Programs of which something is missing or wrong when their stacks are looked at. Each costs its own names only.

use crate::callers::{in_c, traced_after, without_line};
use crate::harness::{can_trace, has, otlp, root, Span, WIRESPAN};
use crate::stacks::{longest, traced};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const OWN: [&str; 4] = ["idle_work", "price", "checkout", "handle"];

/// Whether the longest wait has the program's own functions, in this order.
fn has_own(span: &Span) -> bool {
    let told: Vec<String> = longest(span).0.iter().map(|frame| without_line(frame, false)).collect();
    println!("{told:?}");
    let mut frames = told.iter();
    OWN.iter().all(|wanted| frames.any(|frame| frame == wanted))
}

fn script(path: PathBuf, text: &str) -> PathBuf {
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn run(command: &mut Command) {
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_program_that_is_replaced_while_it_runs_has_its_own_functions() {
    let test = "stacks_replaced";
    if !can_trace(test) || !has(test, &["cc"]) {
        return;
    }
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    let program = in_c(dir.path(), &["-g"]);
    // The new program has the same functions at other places.
    let other = dir.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let other = in_c(&other, &["-g", "-falign-functions=512"]);
    let (span, counters) = traced_after(&program, "/idle/40", |program| std::fs::rename(&other, program).unwrap());
    assert!(has_own(&span) && counters["stack_copies_followed"] > 0, "{counters:?}");
    let source = std::fs::read_to_string(root().join("tests/apps/stacks/callers.c")).unwrap();
    let line = 1 + source.lines().position(|line| line.contains("n = idle_work")).unwrap();
    let price = format!("price (callers.c:{line})");
    assert!(longest(&span).0.contains(&&*price), "{price} in {:?}", longest(&span).0);
}

#[test]
fn a_program_whose_files_only_it_sees_has_its_functions() {
    let test = "stacks_mount_namespace";
    if !can_trace(test) || !has(test, &["cc", "unshare", "mount"]) {
        return;
    }
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    let inside = dir.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    let program = in_c(dir.path(), &["-g"]);
    // Outside, another file has the same name.
    std::fs::write(inside.join("callers"), "no program").unwrap();
    let (program, inside) = (program.display(), inside.display());
    let within = format!("mount -t tmpfs none {inside} && cp {program} {inside}/ && exec {inside}/callers $0");
    let start = script(dir.path().join("start"), &format!("exec unshare --mount sh -c '{within}' \"$1\""));
    let span = traced(&start, &["/idle/40"]).remove(0);
    assert!(has_own(&span));
    assert!(longest(&span).0.iter().any(|frame| frame.starts_with("price (callers.c:")), "{:?}", longest(&span).0);
}

#[test]
fn corrupt_debugging_information_costs_files_and_lines_only() {
    let test = "stacks_dwarf";
    if !can_trace(test) || !has(test, &["cc", "objcopy", "readelf"]) {
        return;
    }
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    for section in ["info", "abbrev", "line", "str"].map(|name| format!(".debug_{name}")) {
        let program = in_c(dir.path(), &["-g"]);
        damage(&program, &section);
        let (span, counters) = traced_after(&program, "/idle/40", |_| ());
        println!("{section}: {counters:?}");
        // A name that is read of damaged strings may be none.
        let has_names = section == ".debug_str" || has_own(&span);
        assert!(has_names && counters["stack_copies_followed"] > 0, "{section}: {counters:?}");
        // The C library's information is whole.
        assert!(longest(&span).0.iter().any(|frame| frame.starts_with("start_thread (")), "{:?}", longest(&span).0);
    }
}

/// Overwrites a section of a file with noise.
pub(crate) fn damage(program: &Path, section: &str) {
    let all = Command::new("readelf").arg("-SW").arg(program).output().unwrap();
    let all = String::from_utf8_lossy(&all.stdout).into_owned();
    let line = all.lines().find(|line| line.contains(&format!(" {section} "))).unwrap();
    let fields: Vec<&str> = line.split(section).nth(1).unwrap().split_whitespace().collect();
    let size = usize::from_str_radix(fields[3], 16).unwrap();
    let noise = program.with_extension("noise");
    std::fs::write(&noise, (0..size).map(|n| (n * 167 + 13) as u8).collect::<Vec<u8>>()).unwrap();
    let update = format!("{section}={}", noise.display());
    run(Command::new("objcopy").args(["--update-section", &update]).arg(program));
}

#[test]
fn processes_that_end_before_their_stacks_are_looked_at_cost_no_other_process() {
    let test = "stacks_ended";
    if !can_trace(test) || !has(test, &["cc", "python3"]) {
        return;
    }
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    let program = in_c(dir.path(), &["-g"]);
    let (spans, client) = (dir.path().join("spans"), dir.path().join("client.py"));
    std::fs::write(&client, CLIENT).unwrap();
    let mut command = Command::new(WIRESPAN);
    command.args(["run", "--no-ui", "--print", "0", "--threshold", "10ms", "--otlp-file"]).arg(&spans);
    let done = command.args(["--", "python3"]).args([&client, &program]).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && !said.contains("panicked"), "{said}");
    let spans = otlp(&spans);
    let of = |path: &str| {
        let is = |s: &&Span| s.attr("url.path") == path && s.attr("wirespan.tap_side") == "server-process";
        spans.iter().filter(is).collect::<Vec<_>>()
    };
    // Of those that have ended, the parts and the waits are told.
    let slept = |span: &&&Span| {
        let blocked: u64 = span.attr("wirespan.wait.blocked").parse().unwrap_or(0);
        let mut kinds = span.events.iter().filter_map(|e| e.get("wirespan.wait.kind"));
        blocked >= 39_000_000 && kinds.any(|kind| kind == "sleep")
    };
    let ended = of("/last/40");
    let told = ended.iter().filter(slept).count();
    println!("{told} of {} that have ended say what they waited for", ended.len());
    assert!(ended.len() == 20 && told >= 18, "{ended:#?}");
    // One that goes on has its functions.
    assert!(of("/idle/40").into_iter().filter(|span| !span.events.is_empty()).any(has_own));
}

/// Starts servers that end with their first answer, and one that does not, and asks each.
const CLIENT: &str = r#"
import http.client, socket, subprocess, sys, time

def start():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.argv[1], str(port)])
    for _ in range(500):
        try:
            return server, socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(0.02)

def ask(connection, path):
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: shop\r\n\r\n".encode())
    assert connection.recv(1000).startswith(b"HTTP/1.1 200")

stays, to = start()
# The first requests may come before waits are recorded.
for _ in range(8):
    ask(to, "/idle/40")
    time.sleep(0.5)
for _ in range(20):
    server, connection = start()
    ask(connection, "/last/40")
    server.wait()
    ask(to, "/idle/40")
time.sleep(2)
stays.kill()
"#;
