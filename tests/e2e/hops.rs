//! `--watch-packets`: devices between a client and a server are spans of the request's trace.

use crate::harness::{has, otlp, skip, wirespan, within, Running, Span, WIRESPAN};
use crate::packets::{bridged, made, ready};
use crate::running::reader;
use crate::spaces::lacking;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// Answers each request with so many bytes, as its path says.
pub(crate) const SERVER: &str = "
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def answer(self):
        self.rfile.read(int(self.headers.get('Content-Length') or 0))
        body = b'x' * int(self.path.split('/')[2])
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_GET = do_POST = answer
    def log_message(self, *_):
        pass
server = http.server.HTTPServer((sys.argv[1], int(sys.argv[2])), Handler)
print('listening', file=sys.stderr, flush=True)
server.serve_forever()
";

/// When the file is there: a first request, then those of the test, then a large one.
pub(crate) const CLIENT: &str = "
import http.client, os, sys, time
print('listening', file=sys.stderr, flush=True)
while not os.path.exists(sys.argv[3]):
    time.sleep(0.01)
c = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=30)
def ask(method, path, body=None):
    c.request(method, path, body)
    c.getresponse().read()
ask('GET', '/watched/10')
time.sleep(1.5)
for n in range(10):
    ask('GET', '/watched/10')
    ask('GET', '/other/10')
ask('POST', '/large/10', b'y' * 1000000)
c.close()
open(sys.argv[3] + '.done', 'w').close()
time.sleep(60)
";

/// The spans from this one down, each the only child of the one before.
pub(crate) fn way<'a>(from: &'a Span, all: &'a [Span]) -> Vec<&'a Span> {
    let mut way = vec![from];
    loop {
        let last = way[way.len() - 1];
        let below: Vec<_> = all.iter().filter(|s| s.trace == last.trace && s.parent == last.id).collect();
        match below[..] {
            [] => return way,
            [one] if way.len() < 20 => way.push(one),
            _ => panic!("{below:#?}"),
        }
    }
}

fn ns(span: &Span, key: &str) -> u64 {
    span.attr(key).parse().unwrap_or_else(|_| panic!("{key} of {span:#?}"))
}

#[test]
fn devices_on_the_way_of_a_watched_request_are_spans_with_waits_and_drops() {
    let test = "devices_on_the_way_of_a_watched_request_are_spans_with_waits_and_drops";
    if !ready(test) || !has(test, &["tc"]) {
        return;
    }
    let Some(spaces) = made(test, bridged("ph")) else { return };
    let slow: Vec<&str> = "tc qdisc add dev portb root tbf rate 20mbit burst 5kb limit 20kb".split(' ').collect();
    if let Err(why) = spaces.inside(2, &slow) {
        return skip(test, &lacking(why));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let server = spaces.python(1, SERVER, &["10.214.1.2", "7011"]);
    let client = spaces.python(0, CLIENT, &["10.214.1.2", "7011", &path("go")]);
    let (server, client) = (&server.pid().to_string(), &client.pid().to_string());
    let mut args = vec!["up", "--no-ui", "--watch-packets", "/watched/10", "--watch-packets", "/large/10"];
    let file = path("spans");
    args.extend(["--otlp-file", &file, "--pid", server, "--pid", client]);
    let mut agent = Running::start(WIRESPAN, &args);
    let said = agent.wait_for("Ctrl-C ends");
    if said.contains("does not show packets") {
        return skip(test, &said);
    }
    std::fs::write(path("go"), "").unwrap();
    within(Duration::from_secs(60), "the client is done", || std::fs::metadata(path("go.done")).ok());
    std::thread::sleep(Duration::from_millis(500));
    let (_, said) = agent.end();
    let spans = otlp(std::path::Path::new(&file));

    let calls = |path: &str| {
        let is_call = |s: &&Span| s.attr("wirespan.tap_side") == "client-process" && s.attr("url.path") == path;
        spans.iter().filter(is_call).collect::<Vec<_>>()
    };
    let watched = calls("/watched/10");
    assert_eq!(watched.len(), 11, "{said}");
    let taps = |way: &[&Span]| way.iter().map(|s| s.attr("wirespan.tap_side").to_owned()).collect::<Vec<_>>();
    let all = ["client-process", "client-nic", "gateway", "gateway", "server-nic", "server-process"];
    let mut ids = std::collections::BTreeSet::new();
    // Also of the first one, which shows the address of the server.
    for way in watched.iter().map(|call| way(call, &spans)) {
        assert_eq!(taps(&way), all, "{way:#?}\n{said}");
        let devices: Vec<_> = way[1..5].iter().map(|s| s.attr("network.interface.name")).collect();
        assert_eq!(devices, ["eth0", "porta", "portb", "eth0"]);
        let places: Vec<_> = way[1..5].iter().map(|s| s.attr("wirespan.hop.netns")).collect();
        assert_eq!(places, [0, 2, 2, 1].map(|n| spaces.name(n)));
        assert!(way.iter().all(|s| ids.insert(s.id.clone())), "{way:#?}");
        // What each hop took adds up to what the way took: nothing is told twice, nothing is left out.
        let hops: u64 = way[1..5].iter().map(|s| ns(s, "wirespan.hop.round_trip_ns")).sum();
        let [asked, answered] = [0, 4].map(|n| ns(way[n], "wirespan.first_byte_ns"));
        assert_eq!(hops, asked - answered, "{way:#?}");
        assert!(way.windows(2).all(|w| w[0].duration_ns + 1_000_000 >= w[1].duration_ns), "{way:#?}");
    }
    // Requests to another path of the same server are seen, and not told.
    for call in calls("/other/10") {
        assert_eq!(taps(&way(call, &spans)), ["client-process", "server-process"]);
    }
    let large = calls("/large/10");
    let large = way(large[0], &spans);
    assert_eq!(taps(&large), all, "{large:#?}\n{said}");
    let portb = large[3];
    assert!(ns(portb, "wirespan.hop.dropped_packets") > 0, "{portb:#?}");
    assert_eq!(portb.attr("wirespan.hop.drop_reason"), "QDISC_DROP");
    // 20 kB wait in a queue that sends 20 Mbit/s.
    let wait = ns(portb, "wirespan.hop.queue_ns");
    assert!((2_000_000..100_000_000).contains(&wait), "{portb:#?}");
    assert!(ns(large[4], "wirespan.hop.lost_bytes") > 0, "{large:#?}");
    assert!(large[1].attr("wirespan.hop.dropped_packets").is_empty(), "{large:#?}");
}

/// `wirespan packet` with this program, until `work` is done. Returns its JSON lines and what it said.
pub(crate) fn packets(
    program: &str,
    folder: &std::path::Path,
    more: &[&str],
    work: impl FnOnce(),
) -> (Vec<Value>, String) {
    let file = folder.join("program.yaml");
    std::fs::write(&file, program).unwrap();
    let mut args = vec!["packet", file.to_str().unwrap(), "--format", "json"];
    args.extend(more);
    let mut running = Running::start(WIRESPAN, &args);
    let mut said = String::new();
    let out = reader(running.0.stdout.take());
    if !more.contains(&"--from") {
        said = running.wait_for("packets are seen");
        work();
        running.signal(rustix::process::Signal::TERM);
    }
    let done = running.finish(Duration::from_secs(180));
    said += &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let text = String::from_utf8(out.recv_timeout(Duration::from_secs(30)).unwrap()).unwrap();
    (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), said)
}

fn text(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// A port on which nothing listens now.
pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Bytes of TCP that came in at a device, each counted once, however often it was sent.
pub(crate) fn bytes_at(device: &str, seen: &[&Value]) -> u64 {
    let number = |value: &Value| value.as_u64().unwrap();
    let mut directions: HashMap<u64, Vec<(u32, u32)>> = HashMap::new();
    for p in seen.iter().filter(|p| p["point"] == "receive" && p["device"] == device) {
        let (seq, len) = (number(&p["seq"]) as u32, number(&p["len"]) as u32);
        directions.entry(number(&p["route"]["source_port"])).or_default().push((seq, len));
    }
    let once = |parts: Vec<(u32, u32)>| {
        // Sequence numbers may begin again at 0.
        let zero = parts[0].0.wrapping_sub(1 << 30);
        let parts = parts.into_iter().map(|(seq, len)| (seq.wrapping_sub(zero), len));
        let parts = BTreeSet::from_iter(parts);
        let count = |(sum, end): (u64, u32), (seq, len): (u32, u32)| {
            let until = end.max(seq + len);
            (sum + u64::from(until - seq.max(end)), until)
        };
        parts.into_iter().fold((0, 0), count).0
    };
    directions.into_values().map(once).sum()
}

#[test]
fn packets_are_chosen_by_the_id_of_a_trace_and_by_endpoint() {
    let test = "packets_are_chosen_by_the_id_of_a_trace_and_by_endpoint";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, bridged("pi")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let server = spaces.python(1, SERVER, &["10.214.1.2", "7012"]);
    let client = spaces.python(0, CLIENT, &["10.214.1.2", "7012", &path("go")]);
    let _unrelated = spaces.python(1, SERVER, &["10.214.1.2", "7013"]);
    let _other = spaces.python(0, CLIENT, &["10.214.1.2", "7013", &path("other")]);
    let ui = format!("127.0.0.1:{}", free_port());
    let (server, client) = (&server.pid().to_string(), &client.pid().to_string());
    let mut agent = Running::start(WIRESPAN, &["up", "--ui", &ui, "--pid", server, "--pid", client]);
    agent.wait_for("Ctrl-C ends");
    let spaces_of: Vec<&str> = (0..3).map(|n| spaces.name(n)).collect();
    let all = [&["--netns"][..], &spaces_of].concat();
    let ends = |name: &str| {
        std::fs::write(path(name), "").unwrap();
        let done = path(&format!("{name}.done"));
        within(Duration::from_secs(60), "the client is done", || std::fs::metadata(&done).ok());
    };
    let (recorded, _) = packets("filter: {protocol: tcp}\naction: [record]\n", folder.path(), &all, || ends("go"));
    std::fs::write(path("recorded.jsonl"), text(&recorded)).unwrap();
    let found = within(Duration::from_secs(20), "the large request is found", || {
        let done = wirespan(&["traces", "endpoint=/large/10", "--format", "json", "--server", &ui]);
        let line = String::from_utf8_lossy(&done.stdout).lines().next()?.to_owned();
        serde_json::from_str::<Value>(&line).ok()
    });
    let id = found["id"].as_str().unwrap();
    let from = ["--from", &path("recorded.jsonl"), "--server", &ui];
    let program = format!("filter: {{trace: '{id}'}}\naction: [record]\n");
    let (chosen, said) = packets(&program, folder.path(), &from, || {});
    let seen: Vec<&Value> = chosen.iter().filter(|line| line["kind"] == "packet").collect();
    let bytes = bytes_at("porta", &seen);
    // The request and its answer passed the port, and nothing of the requests before, which took the same connection.
    assert!((1_000_000..1_050_000).contains(&bytes), "{bytes} {said}");
    let times = seen.iter().map(|p| p["time_ns"].as_u64().unwrap());
    let began = found["start_ns"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(times.min().unwrap() + 1_000_000 >= began, "{said}");
    assert!(seen.len() + 100 < recorded.len(), "{} of {}", seen.len(), recorded.len());

    // The agent knows the server's address, so its packets are seen live, and those of the other server are not.
    let _again = spaces.python(0, CLIENT, &["10.214.1.2", "7012", &path("again")]);
    let program = "filter: {endpoint: /watched/10}\naction: [record]\n";
    let (live, said) = packets(program, folder.path(), &["--server", &ui], || {
        ends("other");
        ends("again");
    });
    let seen: Vec<&Value> = live.iter().filter(|line| line["kind"] == "packet").collect();
    assert!(seen.len() > 100, "{} {said}", seen.len());
    for packet in seen {
        let route = &packet["route"];
        assert!(route["source_port"] == 7012 || route["destination_port"] == 7012, "{packet}");
    }
}
