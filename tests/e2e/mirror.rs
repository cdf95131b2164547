//! `--mirror`: the packets of a switch's port, mirrored by `tc mirred` to a device that wirespan reads.

use crate::harness::{has, otlp, skip, Running, Span, WIRESPAN};
use crate::hops::way;
use crate::packets::{made, ready};
use crate::spaces::{lacking, Spaces};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Answers each GET with 200, or with 404 if the path is `/none`.
const SERVER: &str = "
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        body = b'x' * 5000
        self.send_response(404 if self.path == '/none' else 200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
s = http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler)
print('listening', file=sys.stderr, flush=True)
s.serve_forever()
";

/// So many requests on one connection, then one that is not found. Begins when a file is there.
const CLIENT: &str = "
import http.client, os, sys, time
print('listening', file=sys.stderr, flush=True)
for _ in range(6000):
    if os.path.exists(sys.argv[4]):
        break
    time.sleep(0.01)
c = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=10)
for path in ['/item'] * int(sys.argv[3]) + ['/none']:
    c.request('GET', path)
    c.getresponse().read()
";

/// Client 0 and server 1 at a bridge in 2, whose port to the client is mirrored to `mon` in 3.
fn mirrored(test: &str, tag: &str) -> Option<Spaces> {
    if !ready(test) || !has(test, &["tc"]) {
        return None;
    }
    let spaces = Spaces::new(
        tag,
        4,
        &[
            "-n {2} link add name br0 type bridge",
            "-n {2} link set br0 up",
            "-n {2} link add name porta type veth peer name eth0 netns {0}",
            "-n {2} link add name portb type veth peer name eth0 netns {1}",
            "-n {2} link add name copy type veth peer name mon netns {3}",
            "-n {2} link set dev porta master br0 up",
            "-n {2} link set dev portb master br0 up",
            "-n {2} link set dev copy up",
            "-n {3} link set dev mon up",
            "-n {0} addr add 10.214.7.1/24 dev eth0",
            "-n {1} addr add 10.214.7.2/24 dev eth0",
            "-n {0} link set eth0 up",
            "-n {1} link set eth0 up",
        ],
    );
    let spaces = made(test, spaces)?;
    let mirror = "protocol all u32 match u32 0 0 action mirred egress mirror dev copy";
    for line in [
        "tc qdisc add dev porta clsact".to_owned(),
        format!("tc filter add dev porta ingress {mirror}"),
        format!("tc filter add dev porta egress {mirror}"),
    ] {
        if let Err(why) = spaces.inside(2, &line.split(' ').collect::<Vec<_>>()) {
            skip(test, &lacking(why));
            return None;
        }
    }
    Some(spaces)
}

/// The attributes of all spans of an OTLP file, each as `key=value`.
fn spans(file: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(file).unwrap();
    let mut all = Vec::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let resources = line["resourceSpans"].as_array().unwrap().iter();
        let scopes = resources.flat_map(|r| r["scopeSpans"].as_array().unwrap());
        for span in scopes.flat_map(|s| s["spans"].as_array().unwrap()) {
            let text = |a: &Value| {
                let value = a["value"].as_object().unwrap().values().next().unwrap();
                format!("{}={}", a["key"].as_str().unwrap(), value.to_string().trim_matches('"'))
            };
            all.push(span["attributes"].as_array().unwrap().iter().map(text).collect());
        }
    }
    all
}

#[test]
fn requests_between_untraced_machines_are_spans_of_a_mirror_port() {
    let test = "requests_between_untraced_machines_are_spans_of_a_mirror_port";
    let Some(spaces) = mirrored(test, "mi") else { return };
    let _one = spaces.python(1, SERVER, &["10.214.7.2", "8080"]);
    let _other = spaces.python(1, SERVER, &["10.214.7.2", "8081"]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("spans.jsonl");
    let args = ["agent", "--mirror", "mon", "--mirror-port", "8080", "--otlp-file", out.to_str().unwrap()];
    let mut all = vec!["netns", "exec", spaces.name(3), WIRESPAN];
    all.extend(args);
    let mut agent = Running::start("ip", &all);
    agent.wait_for("tracing packets of mon");
    for port in ["8080", "8081"] {
        spaces.inside(0, &["python3", "-c", CLIENT, "10.214.7.2", port, "20", "/"]).unwrap();
    }
    std::thread::sleep(Duration::from_millis(500));
    agent.signal(rustix::process::Signal::TERM);
    let done = agent.finish(Duration::from_secs(60));
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{said}");
    assert!(!said.contains("lost: mirror"), "{said}");
    let spans = spans(&out);
    let having = |words: &[&str]| spans.iter().filter(|s| words.iter().all(|w| s.iter().any(|a| a == w))).count();
    let of_port = ["network.interface.name=mon", "wirespan.tap_side=capture", "server.port=8080"];
    let with = |more: &[&str]| having(&[&of_port[..], more].concat());
    assert_eq!(with(&["url.path=/item", "http.response.status_code=200"]), 20, "{said} {spans:?}");
    assert_eq!(with(&["url.path=/none", "http.response.status_code=404", "client.address=10.214.7.1"]), 1, "{said}");
    assert_eq!(spans.len(), 21, "port 8081 was not chosen: {said}");
}

#[test]
fn a_mirrored_device_is_between_the_processes_of_a_request() {
    let test = "a_mirrored_device_is_between_the_processes_of_a_request";
    let Some(spaces) = mirrored(test, "mp") else { return };
    let _server = spaces.python(1, SERVER, &["10.214.7.2", "8080"]);
    let folder = tempfile::tempdir().unwrap();
    let (out, begin) = (folder.path().join("spans.jsonl"), folder.path().join("begin"));
    let client = spaces.python(0, CLIENT, &["10.214.7.2", "8080", "5", begin.to_str().unwrap()]);
    let mut all = vec!["netns", "exec", spaces.name(3), WIRESPAN, "agent", "--mirror", "mon"];
    all.extend(["--netns", spaces.name(0), "--netns", spaces.name(1), "--otlp-file", out.to_str().unwrap()]);
    let mut agent = Running::start("ip", &all);
    agent.wait_for("tracing ");
    std::fs::write(&begin, "").unwrap();
    assert!(client.finish(Duration::from_secs(90)).status.success());
    std::thread::sleep(Duration::from_millis(500));
    agent.signal(rustix::process::Signal::TERM);
    let done = agent.finish(Duration::from_secs(60));
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{said}");
    let spans = spans(&out);
    for tap in ["client-process", "capture", "server-process"] {
        let tap = format!("wirespan.tap_side={tap}");
        let requests = spans.iter().filter(|s| s.contains(&tap) && s.iter().any(|a| a.starts_with("url.path")));
        assert_eq!(requests.count(), 6, "{tap}: {said} {spans:?}");
    }
    // Child of the client, parent of the server: known by the bytes.
    let by_wire = |tap: &str| {
        let tap = format!("wirespan.tap_side={tap}");
        spans.iter().filter(|s| s.contains(&tap) && s.iter().any(|a| a == "wirespan.evidence=wire")).count()
    };
    assert_eq!((by_wire("capture"), by_wire("server-process")), (6, 6), "{said} {spans:?}");
}

/// Runs an agent that mirrors these devices in a namespace, while a client asks. Returns its spans and what it said.
fn of_devices(spaces: &Spaces, within: usize, devices: &[&str], server: &str) -> (Vec<Span>, String) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("spans.jsonl");
    let mut all = vec!["netns", "exec", spaces.name(within), WIRESPAN, "agent", "--otlp-file", out.to_str().unwrap()];
    all.extend(devices.iter().flat_map(|device| ["--mirror", *device]));
    let mut agent = Running::start("ip", &all);
    agent.wait_for("tracing packets of");
    spaces.inside(0, &["python3", "-c", CLIENT, server, "8080", "20", "/"]).unwrap();
    // The views of a request wait for each other.
    let come = || std::fs::read_to_string(&out).ok().filter(|text| text.contains("/none"));
    crate::harness::within(Duration::from_secs(20), "the last request is told while the agent runs", come);
    agent.signal(rustix::process::Signal::TERM);
    let done = agent.finish(Duration::from_secs(60));
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success() && !said.contains("lost: mirror"), "{said}");
    (otlp(&out), said)
}

#[test]
fn several_mirrored_devices_stand_in_the_order_of_the_way() {
    let test = "several_mirrored_devices_stand_in_the_order_of_the_way";
    if !ready(test) || !has(test, &["sysctl"]) {
        return;
    }
    // Client 0, a bridge and a router in 2, server 1.
    let spaces = Spaces::new(
        "mw",
        3,
        &[
            "-n {2} link add name br0 type bridge",
            "-n {2} addr add 10.214.8.1/24 dev br0",
            "-n {2} link set br0 up",
            "-n {2} link add name toc type veth peer name eth0 netns {0}",
            "-n {2} link add name tos type veth peer name eth0 netns {1}",
            "-n {2} link set dev toc master br0 up",
            "-n {2} addr add 10.214.9.1/24 dev tos",
            "-n {2} link set dev tos up",
            "-n {0} addr add 10.214.8.2/24 dev eth0",
            "-n {1} addr add 10.214.9.2/24 dev eth0",
            "-n {0} link set eth0 up",
            "-n {1} link set eth0 up",
            "-n {0} route add default via 10.214.8.1",
            "-n {1} route add default via 10.214.9.1",
        ],
    );
    let Some(spaces) = made(test, spaces) else { return };
    if let Err(why) = spaces.inside(2, &["sysctl", "-qw", "net.ipv4.ip_forward=1"]) {
        return skip(test, &lacking(why));
    }
    let _server = spaces.python(1, SERVER, &["10.214.9.2", "8080"]);
    // Not in the order of the way.
    let (spans, said) = of_devices(&spaces, 2, &["tos", "toc", "br0"], "10.214.9.2");
    let firsts: Vec<&Span> = spans.iter().filter(|span| span.attr("wirespan.hop.position") == "1").collect();
    assert_eq!((firsts.len(), spans.len()), (21, 63), "{said} {spans:#?}");
    for first in firsts {
        let way = way(first, &spans);
        let of = |key: &str| way.iter().map(|span| span.attr(key).to_owned()).collect::<Vec<_>>();
        assert_eq!(of("network.interface.name"), ["toc", "br0", "tos"], "{way:#?}");
        assert_eq!(of("wirespan.hop.position"), ["1", "2", "3"], "{way:#?}");
        assert_eq!(of("wirespan.hop.evidence"), ["", "clock", "ttl"], "{way:#?}");
        assert_eq!(of("wirespan.tap_side"), ["client-nic", "client-node", "server-nic"], "{way:#?}");
        for span in &way[1..] {
            let number = |key: &str| span.attr(&format!("wirespan.hop.{key}_ns")).parse::<i64>().unwrap();
            // What comes out of a port has one time at the port and at its bridge.
            assert!(number("request") >= 0 && number("response") > 0 && number("request_error") == 0, "{way:#?}");
            assert_eq!(number("round_trip"), number("request") + number("response"), "{way:#?}");
        }
    }
}

#[test]
fn two_copies_of_one_port_have_no_order() {
    let test = "two_copies_of_one_port_have_no_order";
    let Some(spaces) = mirrored(test, "mu") else { return };
    let again = ["-n {2} link add name more type veth peer name mon2 netns {3}", "-n {2} link set dev more up"];
    for line in again.iter().chain(&["-n {3} link set dev mon2 up"]) {
        let line = line.replace("{2}", spaces.name(2)).replace("{3}", spaces.name(3));
        assert!(Command::new("ip").args(line.split(' ')).status().unwrap().success(), "{line}");
    }
    for way in ["ingress", "egress"] {
        let copy = format!(
            "tc filter add dev porta {way} protocol all u32 match u32 0 0 action mirred egress mirror dev more"
        );
        // Each packet is copied to both, one after the other: `pipe` goes on behind the first copy.
        let both = copy.replace("mirror dev more", "mirror dev copy pipe action mirred egress mirror dev more");
        spaces.inside(2, &["tc", "filter", "del", "dev", "porta", way]).unwrap();
        spaces.inside(2, &both.split(' ').collect::<Vec<_>>()).unwrap();
    }
    let _server = spaces.python(1, SERVER, &["10.214.7.2", "8080"]);
    let (spans, said) = of_devices(&spaces, 3, &["mon", "mon2"], "10.214.7.2");
    assert_eq!(spans.len(), 42, "{said} {spans:#?}");
    for span in &spans {
        let of = |key: &str| span.attr(&format!("wirespan.hop.{key}"));
        assert_eq!((of("evidence"), of("position"), of("request_ns")), ("unknown", "", ""), "{span:#?}");
    }
}

#[test]
fn errors_of_icmp_are_counted_and_name_what_was_not_delivered() {
    let test = "errors_of_icmp_are_counted_and_name_what_was_not_delivered";
    let Some(spaces) = mirrored(test, "mc") else { return };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("spans.jsonl");
    let args = ["agent", "--mirror", "mon", "--mirror-port", "8080", "--otlp-file", out.to_str().unwrap()];
    let args = [&args[..], &["--status", "127.0.0.1:9475"]].concat();
    let mut agent = Running::start("ip", &[&["netns", "exec", spaces.name(3), WIRESPAN][..], &args].concat());
    agent.wait_for("tracing packets of mon");
    // Nobody listens there.
    let send = "import socket; socket.socket(2, 2).sendto(b'x', ('10.214.7.2', 7099))";
    spaces.inside(0, &["python3", "-c", send]).unwrap();
    let said = agent.wait_for("ICMP: port unreachable");
    assert!(said.contains("says 10.214.7.2 of a packet to 10.214.7.2, UDP port 7099"), "{said}");
    std::thread::sleep(Duration::from_secs(2));
    let ask = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9475/metrics').read().decode())";
    let metrics = spaces.inside(3, &["python3", "-c", ask]).unwrap();
    let line = metrics.lines().find(|line| line.contains("\"mon_icmp_port_unreachable\"")).unwrap_or(&metrics);
    assert!(line.ends_with(" 1"), "{line}");
}

/// How long a process has run, s.
fn ran(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let words: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: f64 = words[11].parse::<f64>().unwrap() + words[12].parse::<f64>().unwrap();
    ticks / rustix::param::clock_ticks_per_second() as f64
}

#[test]
fn a_device_that_goes_down_or_away_costs_nothing_and_is_told() {
    let test = "a_device_that_goes_down_or_away_costs_nothing_and_is_told";
    let Some(spaces) = mirrored(test, "md") else { return };
    let _server = spaces.python(1, SERVER, &["10.214.7.2", "8080"]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("spans.jsonl");
    let args = ["agent", "--mirror", "mon", "--otlp-file", out.to_str().unwrap()];
    let mut agent = Running::start("ip", &[&["netns", "exec", spaces.name(3), WIRESPAN][..], &args].concat());
    agent.wait_for("tracing packets of mon");
    let idle = |agent: &Running| {
        let before = ran(agent.pid());
        std::thread::sleep(Duration::from_secs(2));
        ran(agent.pid()) - before
    };
    spaces.inside(3, &["ip", "link", "set", "mon", "down"]).unwrap();
    agent.wait_for("a mirrored device is down");
    let down = idle(&agent);
    spaces.inside(3, &["ip", "link", "set", "mon", "up"]).unwrap();
    agent.wait_for("a mirrored device is up again");
    spaces.inside(0, &["python3", "-c", CLIENT, "10.214.7.2", "8080", "20", "/"]).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    spaces.inside(3, &["ip", "link", "del", "mon"]).unwrap();
    agent.wait_for("a mirrored device is gone");
    let gone = idle(&agent);
    assert!(down < 0.5 && gone < 0.5, "ran for {down} s and {gone} s of 2 s");
    agent.signal(rustix::process::Signal::TERM);
    let done = agent.finish(Duration::from_secs(60));
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let served = spans(&out).iter().filter(|s| s.iter().any(|a| a == "url.path=/item")).count();
    assert_eq!(served, 20, "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_device_that_does_not_exist_is_an_error() {
    if !ready("a_device_that_does_not_exist_is_an_error") {
        return;
    }
    let done = crate::harness::wirespan(&["agent", "--mirror", "nosuchdevice0", "--otlp-file", "/dev/null"]);
    assert!(!done.status.success());
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(said.contains("mirroring nosuchdevice0: no such device"), "{said}");
}
