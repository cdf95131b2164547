//! Flows in cases that are easy to count wrong: bytes that no message call moves, packets that the kernel refuses, pids
//! that are reused.

use crate::flows::flows;
use crate::harness::{can_trace, has, skip, WIRESPAN};
use crate::spaces::Spaces;
use serde_json::Value;
use std::process::{Command, Output};
use wirespan_model::{Flow, Role};

/// Runs a Python program, traced without messages. Returns its own report (JSON) and its flows.
fn traced(command: impl Fn(&[&str]) -> Command, program: &[&str]) -> (Value, Vec<Flow>) {
    traced_with("", command, program)
}

/// The same with more configuration.
fn traced_with(more: &str, command: impl Fn(&[&str]) -> Command, program: &[&str]) -> (Value, Vec<Flow>) {
    let dir = tempfile::tempdir().unwrap();
    let (toml, store) = (dir.path().join("config.toml"), dir.path().join("store"));
    std::fs::write(&toml, format!("[capture]\nmessages = false\n{more}")).unwrap();
    let (toml, path) = (toml.display().to_string(), store.display().to_string());
    let own = [WIRESPAN, "--config", &toml, "run", "--no-ui", "--print=0", "--store", &path, "--"];
    let Output { status, stdout, stderr } = command(&[&own[..], program].concat()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{out}{err}");
    (serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}")), flows(&store))
}

fn here(args: &[&str]) -> Command {
    let mut command = Command::new(args[0]);
    command.args(&args[1..]);
    command
}

/// The program sends a file by sendfile(), and splices the answer into a pipe; it reads some bytes before and after.
const UNCOPIED: &str = r#"
import json, os, socket, tempfile
listener = socket.create_server(("127.0.0.1", 0))
client = os.fork()
if client == 0:
    c = socket.create_connection(listener.getsockname())
    got = 0
    while got < 300000:
        got += len(c.recv(65536))
    c.sendall(b"x" * 200000)
    c.shutdown(socket.SHUT_WR)
    c.recv(1)
    os._exit(0)
c, _ = listener.accept()
with tempfile.TemporaryFile() as f:
    f.write(b"y" * 300000)
    f.flush()
    sent = 0
    while sent < 300000:
        sent += os.sendfile(c.fileno(), f.fileno(), sent, 300000 - sent)
read, write = os.pipe()
null = os.open("/dev/null", os.O_WRONLY)
got = len(c.recv(1000))
while got < 199000:
    n = os.splice(c.fileno(), write, 199000 - got)
    while n:
        m = os.splice(read, null, n)
        n, got = n - m, got + m
while more := c.recv(4096):
    got += len(more)
c.close()
os.waitpid(client, 0)
print(json.dumps({"client": client, "server": os.getpid(), "got": got}))
"#;

#[test]
fn bytes_of_sendfile_and_splice_are_counted() {
    let test = "flows_uncopied";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    let (truth, flows) = traced(here, &["python3", "-c", UNCOPIED]);
    assert_eq!(truth["got"], 200_000);
    let of = |who: &str, role| {
        let pid = truth[who].as_u64().unwrap() as u32;
        let mine = flows.iter().filter(|f| f.key.pid == pid && f.key.role == role && !f.key.remote.is_unspecified());
        let mine: Vec<&Flow> = mine.collect();
        assert_eq!(mine.len(), 1, "{who}: {flows:#?}");
        (mine[0].counts.bytes_sent, mine[0].counts.bytes_received)
    };
    assert_eq!(of("server", Role::Server), (300_000, 200_000));
    assert_eq!(of("client", Role::Client), (200_000, 300_000));
}

/// A reader that is too slow for its datagrams, and a listener that never accepts. The kernel itself says how much it
/// refused: SK_MEMINFO_DROPS of the socket, ListenDrops of the namespace.
const REFUSED: &str = r#"
import array, json, os, socket, time
slow = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
slow.bind(("127.0.0.1", 7751))
fast = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fast.connect(("127.0.0.1", 7751))
fast.send(b"first")
slow.recv(100)
for _ in range(200):
    fast.send(b"x" * 1000)
drops = array.array("I", slow.getsockopt(socket.SOL_SOCKET, 55, 64))[8]
listener = socket.socket()
listener.bind(("127.0.0.1", 7752))
listener.listen(1)
waiting = []
for _ in range(6):
    c = socket.socket()
    c.setblocking(False)
    c.connect_ex(("127.0.0.1", 7752))
    waiting.append(c)
def refused():
    names, values = [l.split() for l in open("/proc/net/netstat") if l.startswith("TcpExt:")]
    return int(values[names.index("ListenDrops")])
while not refused():
    time.sleep(0.01)
for c in waiting:
    c.close()
listener.close()
print(json.dumps({"pid": os.getpid(), "drops": drops, "refused": refused()}))
"#;

#[test]
fn refused_datagrams_and_connections_are_counted_by_reason() {
    let test = "flows_refused";
    if !can_trace(test) || !has(test, &["python3", "ip"]) {
        return;
    }
    let spaces = match Spaces::new("refused", 1, &[]) {
        Ok(spaces) => spaces,
        Err(reason) => return skip(test, &reason),
    };
    let (truth, flows) = traced(|args| spaces.command(0, args), &["python3", "-c", REFUSED]);
    let n = |key: &str| truth[key].as_u64().unwrap();
    assert!(n("drops") > 0 && n("refused") > 0, "{truth}");
    let all = |reason: &str| flows.iter().filter_map(|f| f.counts.drops.get(reason)).sum::<u64>();
    assert_eq!(all("SOCKET_RCVBUFF"), n("drops"), "{flows:#?}");
    // The reader is not connected, so only the packet says who sent the dropped datagram.
    let refused = flows.iter().filter(|f| f.counts.drops.contains_key("SOCKET_RCVBUFF"));
    let whose: Vec<_> = refused.map(|f| (f.key.remote.to_string(), f.key.port, f.key.role)).collect();
    assert_eq!(whose, [("127.0.0.1".to_string(), 7751, Role::Server)], "{flows:#?}");
    let listening: Vec<&Flow> = flows.iter().filter(|f| f.key.port == 7752 && f.counts.listen_overflows > 0).collect();
    assert_eq!(listening.len(), 1, "{flows:#?}");
    assert_eq!((listening[0].counts.listen_overflows, listening[0].key.role), (n("refused"), Role::Server));
}

/// Three megabytes, of which the network loses some packets; then a reader that stops reading. TCP itself reports the
/// consequences.
const TROUBLED: &str = r#"
import json, os, socket, struct, subprocess, threading, time
N = 3000000
def nft(rules):
    subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)
def info(s, at):
    return struct.unpack_from("I", s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256), at)[0]
RETRANSMITTED, OUT_OF_ORDER, WINDOW = 100, 224, 228
listener = socket.create_server(("127.0.0.1", 7753))
near = socket.create_connection(("127.0.0.1", 7753))
far, _ = listener.accept()
def read(left):
    while left:
        left -= len(far.recv(65536))
reader = threading.Thread(target=read, args=(N,), daemon=True)
reader.start()
try:
    nft("table ip gate {\n chain in {\n type filter hook input priority 0;\n \
         tcp dport 7753 meta length > 1000 numgen random mod 8 0 drop\n }\n}\n")
except subprocess.CalledProcessError:
    print('{"skip": "nft does not know numgen here"}')
    os._exit(0)
near.sendall(b"x" * N)
reader.join()
nft("delete table ip gate")
near.setblocking(False)
queued = 0
while info(near, WINDOW):
    try:
        queued += near.send(b"x" * 65536)
    except BlockingIOError:
        time.sleep(0.01)
time.sleep(1)
read(queued)
retransmitted = info(near, RETRANSMITTED)
near.close()
assert far.recv(1) == b""
print(json.dumps({"retransmitted": retransmitted, "out_of_order": info(far, OUT_OF_ORDER), "bytes": N + queued}))
"#;

#[test]
fn flows_have_the_same_counts_as_tcp_itself() {
    let test = "flows_troubled";
    if !can_trace(test) || !has(test, &["python3", "ip", "nft"]) {
        return;
    }
    let spaces = match Spaces::new("troubled", 1, &[]) {
        Ok(spaces) => spaces,
        Err(reason) => return skip(test, &reason),
    };
    let rhythm = "[flows]\ndrain_ms = 100\n";
    let (truth, flows) = traced_with(rhythm, |args| spaces.command(0, args), &["python3", "-c", TROUBLED]);
    if let Some(reason) = truth["skip"].as_str() {
        return skip(test, reason);
    }
    let n = |key: &str| truth[key].as_u64().unwrap();
    let of = |role| {
        let mine = flows.iter().filter(|f| f.key.port == 7753 && f.key.role == role && !f.key.remote.is_unspecified());
        let mine: Vec<&Flow> = mine.collect();
        assert_eq!(mine.len(), 1, "{flows:#?}");
        &mine[0].counts
    };
    let (near, far) = (of(Role::Client), of(Role::Server));
    assert_eq!((near.bytes_sent, far.bytes_received), (n("bytes"), n("bytes")));
    assert!(n("retransmitted") > 0 && n("out_of_order") > 0, "{truth}");
    assert_eq!((near.retransmits, near.out_of_order), (n("retransmitted"), 0), "{near:#?}");
    assert_eq!((far.retransmits, far.out_of_order), (0, n("out_of_order")), "{far:#?}");
    assert!(near.zero_windows > 0, "{near:#?}");
    assert_eq!(far.zero_windows, 0, "who does not write is not held up: {far:#?}");
}

/// Consecutive processes that have the same pid, each in a pid namespace of its own.
const SAME_PID: &str = r#"
import json, os, socket
listener = socket.create_server(("127.0.0.1", 0))
pids = []
for n in range(3):
    with open("/proc/sys/kernel/ns_last_pid", "w") as f:
        f.write("999")
    child = os.fork()
    if child == 0:
        for _ in range(n + 1):
            c = socket.create_connection(listener.getsockname())
            c.sendall(b"x" * 10)
            c.close()
        os._exit(0)
    for _ in range(n + 1):
        listener.accept()[0].close()
    os.waitpid(child, 0)
    pids.append(child)
print(json.dumps(pids))
"#;

#[test]
fn a_pid_that_is_used_again_is_another_process() {
    let test = "flows_pids";
    if !can_trace(test) || !has(test, &["python3", "unshare"]) {
        return;
    }
    if !std::path::Path::new("/proc/sys/kernel/ns_last_pid").exists() {
        return skip(test, "this kernel lets nobody choose a pid (CONFIG_CHECKPOINT_RESTORE)");
    }
    let own = ["unshare", "--pid", "--fork", "--mount-proc", "python3", "-c", SAME_PID];
    let (pids, flows) = traced(here, &own);
    assert_eq!(pids, serde_json::json!([1000, 1000, 1000]));
    let mut clients: Vec<_> = flows.iter().filter(|f| f.key.role == Role::Client).collect();
    clients.sort_by_key(|f| f.counts.opened);
    let opened: Vec<_> = clients.iter().map(|f| (f.counts.opened, f.counts.bytes_sent)).collect();
    assert_eq!(opened, [(1, 10), (2, 20), (3, 30)], "{flows:#?}");
    assert!(clients.windows(2).all(|w| w[0].key.process_start_ns <= w[1].key.process_start_ns), "{flows:#?}");
}

/// Connects to itself, and exits before the first drain of the bundles.
const SHORT: &str = r#"
import json, socket
listener = socket.create_server(("127.0.0.1", 0))
socket.create_connection(listener.getsockname()).sendall(b"x")
print(json.dumps(listener.getsockname()[1]))
"#;

#[test]
fn a_process_that_ends_before_the_first_drain_has_its_name() {
    let test = "flows_short_process";
    if !can_trace(test) || !has(test, &["python3", "env"]) {
        return;
    }
    let (port, flows) = traced(here, &["env", "OTEL_SERVICE_NAME=batch", "python3", "-c", SHORT]);
    let ends: Vec<&Flow> =
        flows.iter().filter(|f| u64::from(f.key.port) == port.as_u64().unwrap() && f.counts.opened > 0).collect();
    assert_eq!(ends.len(), 2, "{flows:#?}");
    assert!(ends.iter().all(|f| &*f.resource.service == "batch" && f.key.process_start_ns > 0), "{flows:#?}");
}
