//! `--watch-packets` over the link to a server, through address translation, and of HTTP/2.

use crate::harness::{has, otlp, skip, within, Running, Span, WIRESPAN};
use crate::hops::{way, CLIENT, SERVER};
use crate::packets::{bridged, made, ready};
use crate::spaces::Spaces;
use crate::split::Place;
use std::path::Path;
use std::time::Duration;

/// Frames of HTTP/2 with their length, kind, flags and stream (RFC 9113, section 4.1).
const FRAMES: &str = "
import os, select, socket, struct, sys, time
def frame(kind, flags, stream, payload=b''):
    return struct.pack('>I', len(payload))[1:] + bytes([kind, flags]) + struct.pack('>I', stream) + payload
def exactly(s, n):
    data = b''
    while len(data) < n:
        more = s.recv(n - len(data))
        if not more:
            sys.exit(0)
        data += more
    return data
def next_frame(s):
    head = exactly(s, 9)
    return head[3], head[4], int.from_bytes(head[5:], 'big'), exactly(s, int.from_bytes(head[:3], 'big'))
";

/// Answers the streams that are open together, the last one first.
const STREAMS: &str = "
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
print('listening', file=sys.stderr, flush=True)
s, _ = listener.accept()
exactly(s, 24)
s.sendall(frame(4, 0, 0))
open_streams = []
while True:
    kind, flags, stream, _ = next_frame(s)
    if kind == 4 and not flags & 1:
        s.sendall(frame(4, 1, 0))
    if kind == 1:
        open_streams.append(stream)
    if not select.select([s], [], [], 0.05)[0]:
        for stream in reversed(open_streams):
            s.sendall(frame(1, 4, stream, b'\\x88') + frame(0, 1, stream, b'x' * 100))
        open_streams = []
";

/// When the file is there: one request, then three at a time.
const ASKER: &str = "
print('listening', file=sys.stderr, flush=True)
while not os.path.exists(sys.argv[3]):
    time.sleep(0.01)
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
path = b'/many/10'
block = b'\\x82\\x86\\x04' + bytes([len(path)]) + path + b'\\x01\\x04shop'
def ask(streams):
    s.sendall(b''.join(frame(1, 5, stream, block) for stream in streams))
    left = set(streams)
    while left:
        kind, flags, stream, _ = next_frame(s)
        if flags & 1 and kind == 0:
            left.discard(stream)
s.sendall(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n' + frame(4, 0, 0))
ask([1])
time.sleep(1.5)
for first in range(3, 33, 6):
    ask([first, first + 2, first + 4])
open(sys.argv[3] + '.done', 'w').close()
time.sleep(60)
";

const ALL: [&str; 6] = ["client-process", "client-nic", "gateway", "gateway", "server-nic", "server-process"];

/// The ways of the requests to this path, each from the process of the client on.
fn ways<'a>(spans: &'a [Span], path: &str) -> Vec<Vec<&'a Span>> {
    let is_call = |s: &&Span| s.attr("wirespan.tap_side") == "client-process" && s.attr("url.path") == path;
    spans.iter().filter(is_call).map(|call| way(call, spans)).collect()
}

/// All requests, also the first one, have these devices on their way, and the server's process at its end.
fn assert_ways(ways: &[Vec<&Span>], requests: usize, devices: [&str; 4], said: &str) {
    assert_eq!(ways.len(), requests, "{said}");
    for way in ways {
        let taps: Vec<_> = way.iter().map(|s| s.attr("wirespan.tap_side")).collect();
        assert_eq!(taps, ALL, "{way:#?}\n{said}");
        let names: Vec<_> = way[1..5].iter().map(|s| s.attr("network.interface.name")).collect();
        assert_eq!(names, devices, "{way:#?}");
    }
}

fn is_done(file: &Path) {
    std::fs::write(file, "").unwrap();
    let done = file.with_extension("done");
    within(Duration::from_secs(60), "the client is done", || std::fs::metadata(&done).ok());
    // The devices of a request are told a little later.
    std::thread::sleep(Duration::from_millis(500));
}

/// A client in the first namespace, and its server.
struct World<'a> {
    spaces: &'a Spaces,
    /// Namespace of the server, where it listens, and where the client asks it.
    server: (usize, [&'a str; 2]),
    asked: [&'a str; 2],
    /// Scripts of client and server.
    scripts: [&'a str; 2],
}

impl World<'_> {
    /// Starts both. `trace` gets their pids, traces until the file is there, and returns what was said.
    fn traced(&self, go: &Path, trace: impl FnOnce([u32; 2]) -> String) -> String {
        let (space, listens) = self.server;
        let server = self.spaces.python(space, self.scripts[1], &listens);
        let client = self.spaces.python(0, self.scripts[0], &[self.asked[0], self.asked[1], go.to_str().unwrap()]);
        trace([client.pid(), server.pid()])
    }

    /// What `up` writes of requests to a path.
    fn up(&self, path: &str) -> (Vec<Span>, String) {
        let folder = tempfile::tempdir().unwrap();
        let (go, file) = (folder.path().join("go"), folder.path().join("spans"));
        let said = self.traced(&go, |pids| {
            let pids = pids.map(|pid| pid.to_string());
            let mut args = vec!["up", "--no-ui", "--watch-packets", path, "--otlp-file", file.to_str().unwrap()];
            pids.iter().for_each(|pid| args.extend(["--pid", pid]));
            let mut agent = Running::start(WIRESPAN, &args);
            let begun = agent.wait_for("Ctrl-C ends");
            is_done(&go);
            begun + &agent.end().1
        });
        (otlp(&file), said)
    }
}

/// Whether this kernel shows devices on the way.
pub(crate) fn shown(test: &str, said: &str) -> bool {
    let shown = !said.contains("does not show packets");
    if !shown {
        skip(test, said);
    }
    shown
}

#[test]
fn devices_are_told_to_the_server_of_an_agent() {
    let test = "devices_are_told_to_the_server_of_an_agent";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, bridged("pa")) else { return };
    let here = ["10.214.1.2", "7014"];
    let world = World { spaces: &spaces, server: (1, here), asked: here, scripts: [CLIENT, SERVER] };
    let folder = tempfile::tempdir().unwrap();
    let (go, exported) = (folder.path().join("go"), folder.path().join("exported"));
    let place = Place::new(folder.path());
    let server = place.serve(&[Path::new("--otlp-file"), &exported]);
    let said = world.traced(&go, |[client, server]| {
        let server = server.to_string();
        let agent = place.trace(client, &["--pid", &server, "--watch-packets", "/watched/10"].map(Path::new));
        is_done(&go);
        agent.end().1
    });
    server.end();
    if shown(test, &said) {
        let spans = otlp(&exported);
        assert_ways(&ways(&spans, "/watched/10"), 11, ["eth0", "porta", "portb", "eth0"], &said);
    }
}

#[test]
fn devices_are_on_the_way_on_both_sides_of_address_translation() {
    let test = "devices_are_on_the_way_on_both_sides_of_address_translation";
    if !ready(test) || !has(test, &["nft", "sysctl"]) {
        return;
    }
    let Some(spaces) = made(test, Spaces::behind_nat("ht")) else { return };
    let server = (2, ["10.213.2.2", "80"]);
    let world = World { spaces: &spaces, server, asked: ["10.213.1.1", "8080"], scripts: [CLIENT, SERVER] };
    let (spans, said) = world.up("/watched/10");
    if shown(test, &said) {
        assert_ways(&ways(&spans, "/watched/10"), 11, ["eth0", "toc", "tos", "eth0"], &said);
    }
}

#[test]
fn each_stream_of_a_connection_has_its_own_way() {
    let test = "each_stream_of_a_connection_has_its_own_way";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, bridged("h2")) else { return };
    let scripts = [ASKER, STREAMS].map(|script| format!("{FRAMES}{script}"));
    let [client, server] = &scripts;
    let here = ["10.214.1.2", "7015"];
    let world = World { spaces: &spaces, server: (1, here), asked: here, scripts: [client, server] };
    let (spans, said) = world.up("/many/10");
    if !shown(test, &said) {
        return;
    }
    let ways = ways(&spans, "/many/10");
    assert_ways(&ways, 16, ["eth0", "porta", "portb", "eth0"], &said);
    let ids: std::collections::BTreeSet<_> = ways.iter().flatten().map(|span| span.id.as_str()).collect();
    assert_eq!(ids.len(), ways.iter().map(Vec::len).sum::<usize>(), "no span is on two ways");
}
