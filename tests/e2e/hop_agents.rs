//! `--watch-packets` of two agents that see one network namespace each, as two hosts do: one trace has the devices of
//! both, in the order of the way, and the times between the two hosts are told with errors that contain the truth.

use crate::harness::{has, skip, wirespan, within, Running, WIRESPAN};
use crate::hop_ways::shown;
use crate::hops::SERVER;
use crate::packets::{made, ready};
use crate::spaces::{lacking, Spaces};
use crate::split::Place;
use crate::trace_why::get;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// When the file is there: ten requests, each a trace of its own. Before the last one, datagrams fill the queue of the
/// slow device.
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
    c.request('GET', '/watched/10')
    c.getresponse().read()
    time.sleep(0.05)
open(sys.argv[3] + '.done', 'w').close()
time.sleep(60)
";

const REQUESTS: usize = 10;
/// Times are told in whole ns, and so is what the second clock shows.
const ROUNDED_NS: f64 = 10.0;
/// The clock of the second agent.
const SKEW_NS: i64 = -3_123_456_789;
const DRIFT: f64 = 180e-6;

/// `wirespan` on a host of another name.
fn host(name: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--uts", "sh", "-c", "hostname \"$0\" && exec \"$@\"", name, WIRESPAN]);
    command
}

/// When the request and the first byte of the response were seen, by the one true clock, ns since the start.
/// `by_second`: as the clock told it that the test gave to the second agent.
fn seen(span: &Value, since_ns: i128, by_second: bool) -> [f64; 2] {
    let corrected = span["attributes"]["wirespan.clock.ahead_ns"].as_i64().unwrap_or(0);
    ["start_ns", "response_ns"].map(|key| {
        let told: i128 = span[key].as_str().unwrap().parse().unwrap();
        let passed = told + i128::from(corrected) - since_ns;
        match by_second {
            false => passed as f64,
            true => (passed - i128::from(SKEW_NS)) as f64 / (1.0 + DRIFT),
        }
    })
}

#[test]
fn a_trace_has_the_devices_of_two_agents_and_times_between_them() {
    let test = "a_trace_has_the_devices_of_two_agents_and_times_between_them";
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
    let since_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i128;
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

    std::fs::write(path("go"), "").unwrap();
    within(Duration::from_secs(60), "the client is done", || std::fs::metadata(path("go.done")).ok());
    let traces = within(Duration::from_secs(20), "all views of all requests have come", || {
        let list = get(place.ui(), "traces?endpoint=/watched/10&limit=50");
        let id = |trace: &Value| trace["id"].as_str().map(str::to_owned);
        let ids: Vec<String> = list["traces"].as_array().into_iter().flatten().filter_map(id).collect();
        let mut traces: Vec<Value> = ids.iter().map(|id| get(place.ui(), &format!("trace/{id}"))).collect();
        traces.sort_by_key(|trace| trace["start_ns"].as_str().map(str::to_owned));
        let whole = |trace: &Value| trace["spans"].as_array().is_some_and(|spans| spans.len() == 4);
        (traces.len() == REQUESTS && traces.iter().all(whole)).then_some(traces)
    });
    let last = traces[REQUESTS - 1]["id"].as_str().unwrap();
    let text = wirespan(&["trace", "--server", place.ui(), last]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    agents.into_iter().for_each(|agent| said += &agent.end().1);
    server.end();
    if !shown(test, &said) {
        return;
    }

    let (mut told, mut known, mut widest) = (0, 0, 0.0_f64);
    for trace in &traces {
        let way = trace["spans"].as_array().unwrap();
        let of = |n: usize, key: &str| way[n]["span"][key].clone();
        let taps: Vec<_> = (0..4).map(|n| of(n, "tap")).collect();
        assert_eq!(taps, ["client-process", "client-nic", "server-nic", "server-process"], "{trace}\n{said}");
        let hosts: Vec<_> = (0..4).map(|n| of(n, "attributes")["host.name"].clone()).collect();
        assert_eq!(hosts, ["left", "left", "right", "right"], "{trace}");
        for two in way.windows(2) {
            assert_eq!(two[1]["parent"]["span_id"], two[0]["span"]["id"], "{trace}");
        }
        let ([sent, back], [came, answered]) =
            (seen(&way[1]["span"], since_ns, false), seen(&way[2]["span"], since_ns, true));
        let hop = &way[2]["hop"];
        let [there, way_back] = [came - sent, back - answered];
        // The clock of the second host drifts while the request is there.
        for (key, truth) in [("both", there + way_back), ("there", there), ("back", way_back)] {
            // Of the quickest request, the others say nothing more.
            let Some(low) = hop[key]["low_ns"].as_f64() else { continue };
            let high = hop[key]["high_ns"].as_f64().unwrap();
            assert!(low - ROUNDED_NS <= truth && truth <= high + ROUNDED_NS, "{key} {low} to {high}, {truth}: {trace}");
            if key == "both" {
                continue;
            }
            told += 1;
            known += usize::from(hop[key]["ns"].is_number());
            widest = widest.max(high - low);
        }
        // Those of one host compare no clocks.
        assert_eq!(of(2, "attributes")["wirespan.hop.clocks"], "two hosts", "{trace}");
        for n in [1, 3] {
            assert!(of(n, "attributes")["wirespan.hop.clocks"].is_null(), "{trace}");
            assert_eq!(way[n]["hop"]["there"]["error_ns"], 0, "{trace}");
        }
    }
    // The last one waited in the queue for much longer than the requests of the other traces leave the clocks open.
    let last = &traces[REQUESTS - 1]["spans"][2]["hop"];
    let waited = last["there"]["ns"].as_f64();
    assert!(waited.is_some_and(|ns| ns > 5_000_000.0) && last["back"]["high_ns"].is_number(), "{last}: {text}");
    assert!(text.contains(" ± "), "{text}");
    eprintln!(
        "of {} times of one direction {told} have bounds, at most {widest} ns wide; {known} are known:\n{text}",
        2 * REQUESTS
    );
}
