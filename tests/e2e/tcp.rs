//! TCP facts of a span: packets are lost, connections are reset, readers are late; one fault at a time and on purpose.

use crate::flows::flows;
use crate::harness::{can_trace, eventually, has, otlp, skip, Running, Span, WIRESPAN};
use crate::spaces::Spaces;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

/// Serves one connection at a time; sleeps after `/nap`, resets instead of answering `/reset`.
const SERVER: &str = r#"
import socket, struct, time
def serve(c):
    while True:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            more = c.recv(4096)
            if not more:
                return
            head += more
        if b"/lost" in head:
            time.sleep(0.2)  # the request is acknowledged on its own
        if b"/reset" in head:
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return
        c.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 102\r\n\r\n" + b"." * 100 + b"ok")
        if b"/nap" in head:
            time.sleep(0.5)
s = socket.create_server(("10.214.1.2", 80))
while True:
    c, _ = s.accept()
    serve(c)
    c.close()
"#;

/// Makes the requests that it is asked for, each on the last connection or on a new one.
const CLIENT: &str = r#"
import socket, sys
c = None
print("ready", flush=True)
for line in sys.stdin:
    where, path = line.split()
    if where == "new" or c is None:
        if c:
            c.close()
        c = socket.create_connection(("10.214.1.2", 80))
    try:
        c.sendall(f"GET {path} HTTP/1.1\r\nHost: s\r\n\r\n".encode())
        got = b""
        while not got.endswith(b"ok"):
            got += c.recv(4096)
    except ConnectionResetError:
        pass
    print(path, flush=True)
"#;

const DATA: &str = "ip length > 60";
const SYN: &str = "tcp flags syn / syn,ack";

struct Stage {
    spaces: Spaces,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Stage {
    fn said(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line.trim().to_string()
    }

    fn start(&mut self, request: &str) {
        self.to.write_all(format!("{request}\n").as_bytes()).unwrap();
    }

    fn ask(&mut self, request: &str) {
        self.start(request);
        let path = request.split(' ').next_back().unwrap();
        assert_eq!(self.said(), path);
    }

    /// Like `ask`, while this namespace drops packets of this kind until one packet was lost.
    fn ask_through_loss(&mut self, request: &str, space: usize, what: &str) {
        // Wait until the last message was acknowledged, so that the lost packet is not its ACK (TCP_DELACK_MAX is 200
        // ms).
        std::thread::sleep(Duration::from_millis(250));
        let table =
            format!("table ip gate {{\nchain in {{ type filter hook input priority 0; {what} counter drop; }}\n}}\n");
        self.spaces.inside(space, &["nft", &table]).unwrap();
        self.start(request);
        eventually("a packet is lost", || {
            let rules = self.spaces.inside(space, &["nft", "list", "table", "ip", "gate"]).unwrap();
            (!rules.contains("packets 0 ")).then_some(())
        });
        self.spaces.inside(space, &["nft", "delete", "table", "ip", "gate"]).unwrap();
        assert_eq!(self.said(), request.split(' ').next_back().unwrap());
    }
}

/// Spans by path and side where an attribute is a number above this.
fn above<'a>(spans: &'a [Span], key: &str, least: u64) -> BTreeSet<(&'a str, &'a str)> {
    let value = |s: &Span| s.attr(key).parse::<u64>().unwrap_or(0);
    spans.iter().filter(|s| value(s) > least).map(|s| (s.attr("url.path"), s.attr("wirespan.tap_side"))).collect()
}

#[test]
fn retransmissions_and_resets_count_only_on_the_span_of_their_bytes() {
    let test = "tcp_spans";
    if !can_trace(test) || !has(test, &["ip", "nft", "python3"]) {
        return;
    }
    let spaces = match Spaces::pair("tcp") {
        Ok(spaces) => spaces,
        Err(reason) => return skip(test, &reason),
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("spans.jsonl");
    let run = |space, script| spaces.command(space, &["python3", "-u", "-c", script]);
    let server = Running(run(1, SERVER).spawn().unwrap());
    eventually("the server listens", || {
        spaces.inside(0, &["python3", "-c", "import socket; socket.create_connection(('10.214.1.2', 80), 2)"]).ok()
    });
    let mut client = Running(run(0, CLIENT).stdin(Stdio::piped()).spawn().unwrap());
    let (to, from) = (client.0.stdin.take().unwrap(), BufReader::new(client.0.stdout.take().unwrap()));
    let (c, s) = (client.pid().to_string(), server.pid().to_string());
    let otlp_file = file.display().to_string();
    let store = dir.path().join("store").display().to_string();
    let args = [WIRESPAN, "up", "--ui", "127.0.0.1:9473", "--store", &store, "--otlp-file", &otlp_file];
    let args = [&args[..], &["--pid", &c, "--pid", &s]].concat();
    let mut up = Running(spaces.command(1, &args).spawn().unwrap());
    up.wait_for("tracing");
    let mut stage = Stage { spaces, to, from };
    assert_eq!(stage.said(), "ready");
    let netns = |pid: u32| std::fs::metadata(format!("/proc/{pid}/ns/net")).unwrap().ino() as u32;
    let (near_netns, far_netns) = (netns(client.pid()), netns(server.pid()));
    stage.ask("keep /plain/1");
    stage.ask("keep /plain/2");
    stage.ask_through_loss("keep /lost/response", 0, DATA);
    stage.ask("keep /plain/3");
    stage.ask_through_loss("keep /lost/request", 1, DATA);
    stage.ask("keep /nap");
    stage.ask("keep /queued");
    stage.ask_through_loss("new /slow/connect", 1, SYN);
    stage.ask("keep /plain/4");
    stage.ask("keep /reset");
    // The command line gives the same from the store.
    let inside = |args: &[&str]| stage.spaces.inside(1, &[&[WIRESPAN], args].concat()).unwrap();
    let trace = eventually("the trace is stored", || {
        let found = inside(&["traces", "endpoint=/queued", "--format", "json"]);
        let id = serde_json::from_str::<serde_json::Value>(found.lines().next()?).unwrap()["id"].as_str()?.to_string();
        Some(inside(&["trace", &id])).filter(|text| text.contains("  queued "))
    });
    assert!(trace.contains("/queued"), "{trace}");
    up.end();

    let spans = otlp(&file);
    let (client_side, server_side) = ("client-process", "server-process");
    assert_eq!(spans.len(), 20, "ten requests at two ends: {spans:#?}");
    assert_eq!(
        above(&spans, "wirespan.tcp.retransmits", 0),
        [("/lost/response", server_side), ("/lost/request", client_side), ("/slow/connect", client_side)].into(),
        "{spans:#?}"
    );
    assert_eq!(above(&spans, "wirespan.tcp.resets", 0), [("/reset", client_side), ("/reset", server_side)].into());
    assert_eq!(above(&spans, "wirespan.tcp.srtt_ns", 0).len(), 20);
    // Only the first span of a connection reports the handshake.
    let connected = above(&spans, "wirespan.tcp.connect_ns", 0);
    assert_eq!(connected, [("/plain/1", client_side), ("/slow/connect", client_side)].into());
    // The first SYN is sent again after a second.
    assert_eq!(above(&spans, "wirespan.tcp.connect_ns", 900_000_000), [("/slow/connect", client_side)].into());
    assert_eq!(above(&spans, "wirespan.tcp.queue_ns", 300_000_000), [("/queued", server_side)].into(), "{spans:#?}");
    // All bytes that were read had waited for a moment.
    assert_eq!(above(&spans, "wirespan.tcp.queue_ns", 0).len(), 19, "all but the one that got no answer: {spans:#?}");

    // Flows say the same: two connections of one client, in the namespaces of their sockets.
    let flows = flows(store.as_ref());
    let of = |pid: u32| {
        let mine: Vec<_> = flows.iter().filter(|f| f.key.pid == pid && !f.key.remote.is_unspecified()).collect();
        assert_eq!(mine.len(), 1, "{flows:#?}");
        mine[0]
    };
    let (near, far) = (of(client.pid()), of(server.pid()));
    for (flow, peer, netns) in [(near, "10.214.1.2", near_netns), (far, "10.214.1.1", far_netns)] {
        assert_eq!((flow.key.remote.to_string().as_str(), flow.key.port, flow.key.netns), (peer, 80, netns));
        assert_eq!((flow.counts.opened, flow.counts.closed, flow.counts.active), (2, 2, 0), "{flow:#?}");
    }
    assert!(near.counts.retransmits >= 2 && far.counts.retransmits >= 1, "{flows:#?}");
    assert_eq!((near.counts.resets_sent, near.counts.resets_received), (0, 1), "{near:#?}");
    assert_eq!((far.counts.resets_sent, far.counts.resets_received), (1, 0), "{far:#?}");
}
