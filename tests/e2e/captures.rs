//! `wirespan replay` of captures of several places: one trace for each request, with a span for each hop.

use crate::harness::{can_trace, has, skip, wirespan};
use crate::spaces::Spaces;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Captures what passes a device (`-`: all devices) into a file. Its clock is so many ns ahead.
const CAPTURER: &str = "
import socket, struct, sys
device, path, ahead = sys.argv[1], sys.argv[2], int(sys.argv[3])
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
if device != '-':
    s.bind((device, 0))
s.setsockopt(socket.SOL_SOCKET, 35, 1)
f = open(path, 'wb')
f.write(struct.pack('<IHHiIII', 0xa1b23c4d, 2, 4, 0, 0, 65535, 1))
print('listening', file=sys.stderr, flush=True)
while True:
    data, extra, _, _ = s.recvmsg(65536, 128)
    seconds, ns = struct.unpack('qq', extra[0][2][:16])
    time = seconds * 10**9 + ns + ahead
    f.write(struct.pack('<IIII', time // 10**9, time % 10**9, len(data), len(data)) + data)
    f.flush()
";

/// Answers requests, many on one connection.
const SERVER: &str = "
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', '5')
        self.end_headers()
        self.wfile.write(b'hello')
    def log_message(self, *_):
        pass
server = http.server.HTTPServer((sys.argv[1], int(sys.argv[2])), Handler)
print('listening', file=sys.stderr, flush=True)
server.serve_forever()
";

const CLIENT: &str = "
import http.client, sys, time
c = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=10)
for n in range(int(sys.argv[3])):
    c.request('GET', f'/{n}')
    c.getresponse().read()
    time.sleep(0.005)
";

const REQUESTS: usize = 20;
const ROUTER_AHEAD: i64 = 5_000_000_000;
const SERVER_AHEAD: i64 = -2_000_000_000;

/// Captures at a client, at a router that translates addresses, and at a server.
fn capture(spaces: &Spaces, into: &Path) {
    let file = |name: &str| into.join(name).to_str().unwrap().to_owned();
    let _server = spaces.python(2, SERVER, &["10.213.2.2", "80"]);
    let _at_client = spaces.python(0, CAPTURER, &["eth0", &file("client.pcap"), "0"]);
    let _at_router = spaces.python(1, CAPTURER, &["-", &file("router.pcap"), &ROUTER_AHEAD.to_string()]);
    let _at_server = spaces.python(2, CAPTURER, &["eth0", &file("server.pcap"), &SERVER_AHEAD.to_string()]);
    spaces.inside(0, &["python3", "-c", CLIENT, "10.213.1.1", "8080", &REQUESTS.to_string()]).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
}

#[test]
fn captures_of_several_places_are_one_trace() {
    let test = "captures_of_several_places_are_one_trace";
    if !can_trace(test) || !has(test, &["ip", "python3", "nft", "sysctl"]) {
        return;
    }
    let spaces = match Spaces::behind_nat("cp") {
        Ok(spaces) => spaces,
        Err(why) => return skip(test, &why),
    };
    let dir = tempfile::tempdir().unwrap();
    capture(&spaces, dir.path());
    for names in [["client", "router", "server"], ["server", "client", "router"]] {
        let files: Vec<String> =
            names.iter().map(|n| dir.path().join(format!("{n}.pcap")).to_str().unwrap().to_owned()).collect();
        let mut args = vec!["replay", "--format", "json"];
        args.extend(files.iter().map(String::as_str));
        let done = wirespan(&args);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{said}");
        assert!(said.contains("the clock of"), "{said}");
        let mut requests: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for line in String::from_utf8_lossy(&done.stdout).lines() {
            let span: Value = serde_json::from_str(line).unwrap();
            requests.entry(span["url.path"].as_str().unwrap().to_owned()).or_default().push(span);
        }
        assert_eq!(requests.len(), REQUESTS, "{said}");
        for mut spans in requests.into_values() {
            spans.sort_by_key(|s| s["wirespan.hop.position"].as_i64());
            let taps: Vec<_> = spans.iter().map(|s| s["wirespan.tap_side"].as_str().unwrap()).collect();
            assert_eq!(taps, ["client-nic", "client-node", "server-node", "server-nic"], "{names:?} {spans:#?}");
            assert!(spans[0].get("parentSpanId").is_none(), "{spans:#?}");
            for pair in spans.windows(2) {
                assert_eq!(pair[0]["traceId"], pair[1]["traceId"]);
                assert_eq!(pair[0]["spanId"], pair[1]["parentSpanId"], "{names:?} {pair:#?}");
                assert_eq!(pair[1]["wirespan.evidence"], "wire");
                // The times are of one clock, whatever the clocks of the captures said, but for the error that is told.
                let [early, late] = [0, 1].map(|n| pair[n]["startTimeUnixNano"].as_i64().unwrap());
                let error: i64 = pair.iter().filter_map(|s| s["wirespan.clock.error_ns"].as_i64()).sum();
                let ns = |key: &str| pair[1][key].as_i64();
                assert!((-error..1_000_000_000).contains(&(late - early)), "{names:?} {pair:#?}");
                let both = ns("wirespan.hop.round_trip_ns").unwrap();
                let waited = |n: usize| pair[n]["wirespan.first_byte_ns"].as_i64().unwrap();
                let error = ns("wirespan.hop.round_trip_error_ns").unwrap();
                assert!((both - (waited(0) - waited(1))).abs() <= error + 1, "{pair:#?}");
                assert!(error * 1_000 <= waited(1) + 1_000, "the clocks drift by 1000 ppm at most: {pair:#?}");
            }
            // Both sides of the router were seen by one clock.
            assert_eq!(spans[2]["wirespan.hop.request_error_ns"], 0, "{:#?}", spans[2]);
            assert_eq!(spans[2]["wirespan.capture.file"], "router.pcap");
            let truth = |name: &str| match name {
                "client" => 0,
                "router" => ROUTER_AHEAD,
                _ => SERVER_AHEAD,
            };
            for (span, name) in spans.iter().zip(["client", "router", "router", "server"]) {
                let ahead = span["wirespan.clock.ahead_ns"].as_i64().unwrap_or(0);
                let error = span["wirespan.clock.error_ns"].as_i64().unwrap_or(0);
                let truth = truth(name) - truth(names[0]);
                assert!((ahead - truth).abs() <= error + 1, "{ahead} ± {error}, truth {truth}");
            }
        }
    }
}

/// The lengths at which a capture is cut: within its header, within the header of a packet, within a packet, and
/// elsewhere.
fn cuts(whole: &[u8]) -> Vec<usize> {
    let n = whole.len();
    let len = |at: usize| u32::from_le_bytes(whole[at + 8..at + 12].try_into().unwrap()) as usize;
    // The packet in the middle of the file.
    let mut at = 24;
    while at < n / 2 {
        at += 16 + len(at);
    }
    vec![0, 7, 24, 24 + 9, at, at + 15, at + 16, at + 16 + 20, at + 16 + len(at) - 1, n - 1]
}

#[test]
fn captures_that_end_too_early_are_read_as_far_as_they_go() {
    let test = "captures_that_end_too_early_are_read_as_far_as_they_go";
    if !can_trace(test) || !has(test, &["ip", "python3", "nft", "sysctl"]) {
        return;
    }
    let spaces = match Spaces::behind_nat("ct") {
        Ok(spaces) => spaces,
        Err(why) => return skip(test, &why),
    };
    let dir = tempfile::tempdir().unwrap();
    capture(&spaces, dir.path());
    let names = ["client", "router", "server"];
    let path = |name: &str| dir.path().join(format!("{name}.pcap")).to_str().unwrap().to_owned();
    let whole = names.map(|name| std::fs::read(path(name)).unwrap());
    let cut = |n: usize, all: bool| {
        for (i, bytes) in whole.iter().enumerate() {
            let len = if i == 0 || all { cuts(bytes)[n] } else { bytes.len() };
            std::fs::write(path(names[i]), &bytes[..len]).unwrap();
        }
        let done = wirespan(&["replay", "--format", "json", &path("client"), &path("router"), &path("server")]);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!said.contains("panicked"), "{n} {all}: {said}");
        let spans: Vec<Value> =
            String::from_utf8_lossy(&done.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (done.status.code(), spans, said)
    };
    for n in 0..cuts(&whole[0]).len() {
        for all in [false, true] {
            let (code, spans, said) = cut(n, all);
            let of = |tap: &str| spans.iter().filter(|span| span["wirespan.tap_side"] == tap).count();
            if n < 2 {
                // Not even the header of a file: the user is told which one.
                assert!(code == Some(1) && said.contains("client.pcap"), "{n} {all}: {code:?} {said}");
                continue;
            }
            assert_eq!(code, Some(0), "{n} {all}: {said}");
            match all {
                // The other two places have seen every request.
                false => assert_eq!(of("server-nic"), REQUESTS, "{n}: {said}"),
                true if n < 4 => assert_eq!(spans.len(), 0, "{n}: {said}"),
                // About half of the way there, at each place.
                true if n < 9 => {
                    assert!((REQUESTS / 4..REQUESTS).contains(&of("server-nic")), "{n}: {} {said}", of("server-nic"));
                }
                true => assert!(of("server-nic") >= REQUESTS - 1, "{n}: {said}"),
            }
        }
    }
}
