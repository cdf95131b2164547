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
