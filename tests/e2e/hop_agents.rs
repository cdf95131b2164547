//! `--watch-packets` of two agents that see one network namespace each, as two hosts do: one trace has the devices of
//! both, in the order of the way, and the times between the two hosts are told with errors that contain the truth.

use crate::harness::{has, skip, wirespan, within, Running, WIRESPAN};
use crate::hop_ways::shown;
use crate::hops::{packets, SERVER};
use crate::packets::{made, ready};
use crate::spaces::{lacking, Spaces};
use crate::split::Place;
use crate::trace_why::get;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// When the file is there: ten requests of one trace. Before the last one, datagrams fill the queue of the slow device.
const CLIENT: &str = "
import http.client, os, socket, sys, time
print('listening', file=sys.stderr, flush=True)
while not os.path.exists(sys.argv[3]):
    time.sleep(0.01)
c = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=30)
filler = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(10):
    if n == 9:
        for _ in range(30):
            filler.sendto(b'z' * 1400, (sys.argv[1], 9))
    parent = '00-0af7651916cd43dd8448eb211c80319c-%016x-01' % (n + 1)
    c.request('GET', '/watched/10', None, {'traceparent': parent})
    c.getresponse().read()
    time.sleep(0.05)
open(sys.argv[3] + '.done', 'w').close()
time.sleep(60)
";

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const REQUESTS: usize = 10;
/// At each of four points, the kernel runs the programs of both agents and of the test one after the other, and an
/// interrupt may come between.
const OWN_NS: f64 = 40_000.0;
/// The clock of the second agent.
const SKEW_NS: i64 = -3_123_456_789;
const DRIFT: f64 = 180e-6;

/// `wirespan` on a host of another name.
fn host(name: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--uts", "sh", "-c", "hostname \"$0\" && exec \"$@\"", name, WIRESPAN]);
    command
}

/// When a packet with this byte was first seen at a point of a namespace, by the one true clock.
fn first(records: &[Value], space: &str, point: &str, byte: u64) -> f64 {
    let number = |p: &Value, key: &str| p[key].as_u64().unwrap();
    let has = |p: &&Value| {
        let ahead = (byte as u32).wrapping_sub(number(p, "seq") as u32);
        p["netns_name"] == space && p["point"] == point && u64::from(ahead) < number(p, "len")
    };
    let packets = records.iter().filter(|line| line["kind"] == "packet");
    let times = packets.filter(has).map(|p| number(p, "time_ns"));
    times.min().unwrap_or_else(|| panic!("{byte} at {point} in {space}")) as f64
}

#[test]
fn one_trace_has_the_devices_of_two_agents_and_times_between_them() {
    let test = "one_trace_has_the_devices_of_two_agents_and_times_between_them";
    if !ready(test) || !has(test, &["tc", "unshare", "hostname"]) {
        return;
    }
    let Some(spaces) = made(test, Spaces::pair("ha")) else { return };
    let slow = "tc qdisc add dev eth0 root tbf rate 20mbit burst 5kb limit 200kb";
    if let Err(why) = spaces.inside(0, &slow.split(' ').collect::<Vec<_>>()) {
        return skip(test, &lacking(why));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let targets = [
        spaces.python(0, CLIENT, &["10.214.1.2", "7061", &path("go")]),
        spaces.python(1, SERVER, &["0.0.0.0", "7061"]),
    ];
    let place = Place::new(folder.path());
    let server = place.serve(&[]);
    let since_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let mut said = String::new();
    let agents: Vec<Running> = (0..2)
        .map(|n| {
            let mut command = host(["left", "right"][n]);
            if n == 1 {
                command.env("WIRESPAN_TEST_CLOCK", format!("{SKEW_NS} {} {since_ns}", DRIFT * 1e6));
            }
            let watch = ["--watch-packets", "/watched/10", "--watch-netns", spaces.name(n)];
            place.trace_by(command, targets[n].pid(), &watch.map(Path::new))
        })
        .collect();

    // What happened in truth, by one clock.
    let program = "filter: {protocol: tcp, port: 7061}\nwhere: [queue, receive]\naction: [record]\nfor: 60s\n";
    let all = ["--netns", spaces.name(0), spaces.name(1)];
    let (records, _) = packets(program, folder.path(), &all, || {
        std::fs::write(path("go"), "").unwrap();
        within(Duration::from_secs(60), "the client is done", || std::fs::metadata(path("go.done")).ok());
        std::thread::sleep(Duration::from_millis(300));
    });
    let trace = within(Duration::from_secs(20), "all views of all requests have come", || {
        let trace = get(place.ui(), &format!("trace/{TRACE}"));
        let all = trace["spans"].as_array().map_or(0, Vec::len);
        (all == 4 * REQUESTS).then_some(trace)
    });
    let text = wirespan(&["trace", "--server", place.ui(), TRACE]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    agents.into_iter().for_each(|agent| said += &agent.end().1);
    server.end();
    if !shown(test, &said) {
        return;
    }

    let spans = trace["spans"].as_array().unwrap();
    let mut known = 0;
    for way in spans.chunks(4) {
        let of = |n: usize, key: &str| way[n]["span"][key].clone();
        let taps: Vec<_> = (0..4).map(|n| of(n, "tap")).collect();
        assert_eq!(taps, ["client-process", "client-nic", "server-nic", "server-process"], "{text}\n{said}");
        let hosts: Vec<_> = (0..4).map(|n| of(n, "attributes")["host.name"].clone()).collect();
        assert_eq!(hosts, ["left", "left", "right", "right"], "{text}");
        for two in way.windows(2) {
            assert_eq!(two[1]["parent"]["span_id"], two[0]["span"]["id"], "{text}");
        }
        let tcp = of(2, "tcp");
        let [asked, answered] = ["request_seq", "response_seq"].map(|key| tcp[key].as_u64().unwrap());
        let at = |n: usize, point, byte| first(&records, spaces.name(n), point, byte);
        let there = at(1, "receive", asked) - at(0, "queue", asked);
        let back = at(0, "receive", answered) - at(1, "queue", answered);
        let attributes = of(2, "attributes");
        let told = |key: &str| attributes[format!("wirespan.hop.{key}_ns")].as_f64();
        // The clock of the second host drifts while the request is there.
        let off = OWN_NS + of(2, "duration_ns").as_f64().unwrap() * DRIFT;
        let both = told("round_trip").unwrap();
        assert!((both - there - back).abs() <= off, "{both} is {there} + {back}: {text}");
        for (key, truth) in [("request", there), ("response", back)] {
            let Some(ns) = told(key) else { continue };
            let error = told(&format!("{key}_error")).unwrap();
            assert!((ns - truth).abs() <= error + off, "{key} {ns} ± {error}, but {truth}: {text}");
            known += 1;
        }
        // Those of one host compare no clocks.
        assert_eq!(attributes["wirespan.hop.clocks"], "two hosts", "{text}");
        for n in [1, 3] {
            assert!(of(n, "attributes")["wirespan.hop.clocks"].is_null(), "{text}");
        }
    }
    // The last one waited in the queue for much longer than the others bound the clocks, so its time is known.
    let last = &spans[4 * REQUESTS - 2]["span"]["attributes"];
    let waited = last["wirespan.hop.request_ns"].as_f64().unwrap_or_else(|| panic!("{last}: {text}"));
    assert!(waited > 5_000_000.0 && known >= 1, "{waited} {known}: {text}");
    eprintln!("{known} of {} times of one direction are known:\n{text}", 2 * REQUESTS);
}
