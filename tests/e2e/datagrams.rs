//! The sender of a datagram: several clients take turns to ask a server whose socket is not connected.

use crate::harness::{can_trace, has, otlp, skip, WIRESPAN};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use wirespan_capture::{Capture, Options, Targets};
use wirespan_model::{Direction, Event};

/// Prints the events of the server's socket: its port, the client's port, received or sent, number of datagrams.
const SCRIPT: &str = r#"
import os, socket, sys
print("ready", flush=True)
sys.stdin.readline()
def exchange(family, server_ip, client_ip, by):
    try:
        server = socket.socket(family, socket.SOCK_DGRAM)
        server.bind((server_ip, 0))
    except OSError:
        return
    port = server.getsockname()[1]
    clients = []
    for _ in range(5):
        c = socket.socket(socket.AF_INET if "." in client_ip else family, socket.SOCK_DGRAM)
        c.bind((client_ip.replace("::ffff:", ""), 0))
        clients.append(c)
    for turn in range(3):
        for c in clients:
            c.sendto(b"ask", (client_ip.replace("::ffff:", ""), port))
        for _ in clients:
            if by == "recvfrom":
                data, sender = server.recvfrom(100)
            else:
                data, _, _, sender = server.recvmsg(100)
            server.sendto(b"answer", sender)
        for c in clients:
            c.recvfrom(100)
    for c in clients:
        for way in ("received", "sent"):
            print(port, c.getsockname()[1], way, 3)
for by in ("recvfrom", "recvmsg"):
    exchange(socket.AF_INET, "127.0.0.1", "127.0.0.1", by)
    exchange(socket.AF_INET6, "::1", "::1", by)
    exchange(socket.AF_INET6, "::", "::ffff:127.0.0.1", by)
"#;

fn every_sender_is_known(test: &str, rung: &str) {
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    let options = Options { rung: Some(rung.into()), ..Options::default() };
    let mut capture = Capture::open(&options, &Targets::default()).unwrap();
    let sees = |f: &wirespan_capture::features::Feature| f.active || !f.feature.starts_with("senders of datagrams");
    if !capture.features().iter().all(sees) {
        return skip(test, "this kernel tells no cgroup program who sent a datagram");
    }
    let mut child =
        Command::new("python3").args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|l| l.unwrap());
    assert_eq!(lines.next().as_deref(), Some("ready"));
    capture.add_pid(child.id()).unwrap();
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut said = BTreeMap::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let [server, client, way, count] = words[..] else { panic!("{line}") };
        let key = (server.parse::<u16>().unwrap(), client.parse::<u16>().unwrap(), way == "sent");
        said.insert(key, count.parse::<u32>().unwrap());
    }
    assert!(child.wait().unwrap().success());
    let mut events = Vec::new();
    capture.drain(&mut events);
    let mut seen = BTreeMap::new();
    for event in &events {
        if let Event::Data(d) = event {
            let key = (d.local.port, d.remote.port, d.direction == Direction::Egress);
            // The clients' own view has the ports the other way round, and a client may have got the port of a server
            // of the other family.
            let server = said.keys().any(|k| k.0 == key.0) && !said.contains_key(&(key.1, key.0, !key.2));
            if server {
                *seen.entry(key).or_insert(0u32) += 1;
            }
        }
    }
    assert_eq!(seen, said, "{rung}");
    assert!(said.len() >= 20, "{said:?}");
}

#[test]
fn socket_hooks_know_every_sender() {
    every_sender_is_known("datagrams_socket", "socket-tracepoints");
}

#[test]
fn syscall_hooks_know_every_sender() {
    every_sender_is_known("datagrams_syscall", "syscall-tracepoints");
}

/// Asks a server of its own ten questions of DNS, over sockets that are bound to all addresses; arguments: the address
/// to which the client binds, that to which the server binds, and that at which it is asked.
const RESOLVER: &str = r#"
import os, socket, struct, sys
mine, theirs, at = sys.argv[1:]
family = lambda ip: socket.AF_INET6 if ":" in ip else socket.AF_INET
server = socket.socket(family(theirs), socket.SOCK_DGRAM)
server.bind((theirs, 0))
port = server.getsockname()[1]
if not os.fork():
    for _ in range(10):
        asked, sender = server.recvfrom(512)
        answer = asked[:2] + b"\x81\x80" + asked[4:6] + b"\0\x01\0\0\0\0" + asked[12:]
        server.sendto(answer + b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x0a\0\0\x01", sender)
    os._exit(0)
client = socket.socket(family(mine), socket.SOCK_DGRAM)
client.bind((mine, 0))
for n in range(10):
    name = b"\x05name%d\x07example\0" % n
    question = struct.pack(">HHHHHH", 4000 + n, 0x0100, 1, 0, 0, 0) + name + b"\0\x01\0\x01"
    client.sendto(question, (at, port))
    client.recvfrom(512)
os.wait()
"#;

#[test]
fn both_ends_of_a_question_are_joined_though_neither_socket_knows_its_address() {
    let test = "datagrams_joined";
    if !can_trace(test) || !has(test, &["python3"]) {
        return;
    }
    let binds = [
        ["0.0.0.0", "0.0.0.0", "127.0.0.1"],
        ["::", "::1", "::1"],
        ["::", "::", "::1"],
        ["::", "0.0.0.0", "::ffff:127.0.0.1"],
        ["0.0.0.0", "::", "127.0.0.1"],
    ];
    for bind in binds {
        let dir = tempfile::tempdir().unwrap();
        let spans = dir.path().join("spans");
        let mut command = Command::new(WIRESPAN);
        command.args(["run", "--no-ui", "--print", "0", "--otlp-file"]).arg(&spans).args(["--", "python3", "-c"]);
        let done = command.arg(RESOLVER).args(bind).output().unwrap();
        assert!(done.status.success(), "{bind:?}: {}", String::from_utf8_lossy(&done.stderr));
        let spans: Vec<_> =
            otlp(&spans).into_iter().filter(|s| s.attr("dns.question.name").ends_with("example")).collect();
        let at = |side: &str| spans.iter().filter(|s| s.attr("wirespan.tap_side") == side).collect::<Vec<_>>();
        let (asked, answered) = (at("client-process"), at("server-process"));
        assert_eq!((asked.len(), answered.len()), (10, 10), "{bind:?}: {spans:?}");
        for span in answered {
            let asker = asked.iter().find(|s| s.id == span.parent);
            let name = span.attr("dns.question.name");
            assert!(asker.is_some_and(|s| s.attr("dns.question.name") == name), "{bind:?}: {span:?}");
        }
    }
}
