//! Packets of two agents whose clocks differ: they meet, and their times have bounds that contain the truth.

use crate::harness::{skip, wirespan, within, Running, WIRESPAN};
use crate::packet_fleet::{ended, named};
use crate::packets::{made, ready};
use crate::running::reader;
use crate::spaces::{lacking, Spaces};
use crate::split::Place;
use crate::trace_why::get;
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// Answers what it reads, in short.
const SERVER: &str = "
import socket, sys
s = socket.socket()
s.bind((sys.argv[1], int(sys.argv[2])))
s.listen(5)
print('listening', file=sys.stderr, flush=True)
while True:
    c, _ = s.accept()
    while data := c.recv(1000000):
        c.sendall(b'had %d' % len(data))
    c.close()
";

/// Sends for so many seconds. Every tenth message is 20 kB, which the slow device sends in several milliseconds.
const CLIENT: &str = "
import socket, sys, time
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
print('listening', file=sys.stderr, flush=True)
end, n = time.time() + float(sys.argv[3]), 0
while time.time() < end:
    s.sendall(b'x' * (20000 if n % 10 == 9 else 20))
    s.recv(1000)
    n += 1
    time.sleep(0.01)
s.close()
print(n, flush=True)
";

/// Reads and says nothing.
const SINK: &str = "
import socket, sys
s = socket.socket()
s.bind((sys.argv[1], int(sys.argv[2])))
s.listen(5)
print('listening', file=sys.stderr, flush=True)
c, _ = s.accept()
while c.recv(1000000):
    pass
";

/// Connects. When the file is there, it sends more than the slow device can, for so many seconds.
const BULK: &str = "
import os, socket, sys, time
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
print('listening', file=sys.stderr, flush=True)
while not os.path.exists(sys.argv[3]):
    time.sleep(0.01)
end = time.time() + float(sys.argv[4])
while time.time() < end:
    s.sendall(b'x' * 20000)
    time.sleep(0.005)
time.sleep(60)
";

/// The clock of the second agent.
const SKEW_NS: f64 = -3_123_456_789.0;
const DRIFT: f64 = 180e-6;

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// How far the agent of a clock is ahead in truth, by what the server tells. The one with the wrong clock is `wrong`.
fn truth(clock: &Value, wrong: &str, since_ns: u64) -> f64 {
    let at = (i128::from(clock["at_ns"].as_u64().unwrap()) - i128::from(since_ns)) as f64;
    match clock["agent"] == wrong {
        true => SKEW_NS + at * DRIFT,
        // `at_ns` is of the wrong clock.
        false => (at - SKEW_NS) / (1.0 + DRIFT) - at,
    }
}

/// An agent that sees one of the namespaces: `./own` in its folder.
pub(crate) fn agent(
    place: &Place,
    folder: &Path,
    spaces: &Spaces,
    space: usize,
    target: &Running,
    clock: Option<&str>,
) -> Running {
    let folder = folder.join(format!("agent-{space}"));
    std::fs::create_dir(&folder).unwrap();
    symlink(Path::new("/run/netns").join(spaces.name(space)), folder.join("own")).unwrap();
    let mut command = Command::new(WIRESPAN);
    command.current_dir(&folder).envs(clock.map(|clock| ("WIRESPAN_TEST_CLOCK", clock)));
    place.trace_by(command, target.pid(), &[Path::new("--packet-programs")])
}

/// How long packets took from one agent to the other, by the true clock, in ascending order; how many of them arrived,
/// and how many were not seen there. `forth`: from the first.
fn true_times(packets: &[Value], names: &[String; 2], forth: bool, since_ns: u64) -> (Vec<f64>, u64, u64) {
    let number = |of: &Value| of.as_u64().unwrap();
    let time = |packet: &Value| {
        let shown = (i128::from(number(&packet["time_ns"])) - i128::from(since_ns)) as f64;
        if packet["agent"] == names[1].as_str() {
            (shown - SKEW_NS) / (1.0 + DRIFT)
        } else {
            shown
        }
    };
    let at = |point: &str, agent: &String| {
        let there = packets.iter().filter(|p| p["point"] == point && p["agent"] == agent.as_str());
        // A SYN and a FIN count as a byte.
        let marks = |p: &Value| (number(&p["flags"]) & 3).count_ones();
        let bytes = there.filter(|p| number(&p["len"]) > 0 || marks(p) > 0);
        let end = |p: &Value| (number(&p["seq"]) as u32).wrapping_add(number(&p["len"]) as u32 + marks(p));
        bytes.map(|p| (number(&p["seq"]) as u32, end(p), time(p))).collect::<Vec<_>>()
    };
    let [from, to] = if forth { [&names[0], &names[1]] } else { [&names[1], &names[0]] };
    let came = at("receive", to);
    // Devices cut segments: the last byte of what left is somewhere in what came. Bytes that TCP sent again keep their
    // order.
    let left = at("queue", from);
    let times = |of: &[(u32, u32, f64)], end: u32| {
        let has = |(from, to, _): &&(u32, u32, f64)| end.wrapping_sub(*from).wrapping_sub(1) < to.wrapping_sub(*from);
        let mut all: Vec<f64> = of.iter().filter(has).map(|(.., time)| *time).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let took = left.iter().filter_map(|(_, end, time)| {
        let (sent, received) = (times(&left, *end), times(&came, *end));
        let nth = sent.iter().position(|sent| sent == time)?;
        (sent.len() == received.len()).then(|| received[nth] - time)
    });
    let mut all: Vec<f64> = took.collect();
    all.sort_by(f64::total_cmp);
    let lonely = left.iter().filter(|(_, end, _)| times(&came, *end).is_empty()).count();
    (all, (left.len() - lonely) as u64, lonely as u64)
}

/// What a program told, and each window of the clocks that the server had meanwhile, by its packets each way.
pub(crate) struct Told {
    lines: Vec<Value>,
    pub(crate) windows: BTreeMap<[u64; 2], Value>,
    said: String,
}

impl Told {
    fn of(&self, kind: &str) -> Vec<Value> {
        self.lines.iter().filter(|line| line["kind"] == kind).cloned().collect()
    }

    /// There are so many windows, and each contains the truth. Returns the width of the widest, ns.
    pub(crate) fn assert_true(&self, least: usize, wrong: &str, since_ns: u64) -> f64 {
        assert!(self.windows.len() >= least, "{:?} {}", self.windows, self.said);
        let mut widest = 0.0f64;
        for clock in self.windows.values() {
            let ([low, high], is) =
                (["low_ns", "high_ns"].map(|k| clock[k].as_f64().unwrap()), truth(clock, wrong, since_ns));
            // The two agents convert the kernel's time on their own, each with an error below a microsecond.
            assert!(low - 1000.0 <= is && is <= high + 1000.0, "{is} {clock}");
            widest = widest.max(high - low);
            let [least, most] = ["drift_low_ppm", "drift_high_ppm"].map(|k| clock[k].as_f64().unwrap() * 1e-6);
            let gains = if clock["agent"] == wrong { DRIFT } else { -DRIFT / (1.0 + DRIFT) };
            assert!(least <= gains && gains <= most, "{clock}");
            assert_eq!(clock["set"], 0);
        }
        widest
    }
}

/// Two machines with an agent each, of which the second has a wrong clock, and their server.
pub(crate) struct Two {
    pub(crate) folder: TempDir,
    pub(crate) spaces: Spaces,
    pub(crate) place: Place,
    server: Running,
    agents: [Running; 2],
    pub(crate) names: [String; 2],
    pub(crate) since_ns: u64,
    _targets: [Running; 2],
}

impl Two {
    /// `None`, after saying why, where the test cannot run. `slow`: what the first one sends waits in a queue.
    pub(crate) fn start(test: &str, prefix: &str, slow: bool) -> Option<Two> {
        if !ready(test) {
            return None;
        }
        let spaces = made(test, Spaces::pair(prefix))?;
        let queue = "tc qdisc add dev eth0 root tbf rate 20mbit burst 5kb limit 200kb";
        let made = if slow { spaces.inside(0, &queue.split(' ').collect::<Vec<_>>()) } else { Ok(String::new()) };
        if let Err(why) = made {
            skip(test, &lacking(why));
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(folder.path());
        let server = place.serve(&[]);
        let targets = [(); 2].map(|()| Running::start("sleep", &["120"]));
        let since_ns = now_ns();
        let clock = format!("{SKEW_NS} {} {since_ns}", DRIFT * 1e6);
        let right = agent(&place, folder.path(), &spaces, 0, &targets[0], None);
        let wrong = agent(&place, folder.path(), &spaces, 1, &targets[1], Some(&clock));
        let names = [&right, &wrong].map(named);
        let agents = [right, wrong];
        Some(Two { folder, spaces, place, server, agents, names, since_ns, _targets: targets })
    }

    pub(crate) fn end(self) {
        self.agents.into_iter().for_each(|agent| _ = agent.end());
        self.server.end();
    }
}

/// Runs the program on both agents. `work` begins when both see packets.
pub(crate) fn run(place: &Place, program: &Path, work: impl FnOnce()) -> Told {
    let args = ["packet", program.to_str().unwrap(), "--fleet", "--server", place.ui(), "--format", "json"];
    let mut client = Running::start(WIRESPAN, &args);
    client.wait_for("wirespan: asked ");
    let ask = || {
        let now = get(place.ui(), "packets/agents");
        assert!(!now.is_null(), "the server does not answer");
        now
    };
    within(Duration::from_secs(15), "both see packets", || {
        ask()["agents"].as_array().unwrap().iter().all(|agent| agent["state"] == "running").then_some(())
    });
    work();
    let mut windows = BTreeMap::new();
    let mut keep = |clock: &Value| {
        if clock["low_ns"].is_number() {
            let packets = ["packets_to", "packets_back"].map(|way| clock[way].as_u64().unwrap());
            windows.insert(packets, clock.clone());
        }
    };
    while let Some(Value::Array(clocks)) =
        Some(ask()).filter(|now| now["state"] == "running").map(|now| now["clocks"].clone())
    {
        clocks.iter().for_each(&mut keep);
        std::thread::sleep(Duration::from_millis(200));
    }
    let stdout = reader(client.0.stdout.take());
    let (lines, said) = ended(client, &stdout);
    lines.iter().filter(|line| line["kind"] == "clock").for_each(keep);
    Told { lines, windows, said }
}

/// What the agents recorded gives the same tables again, and each packet keeps its agent.
fn assert_recorded(two: &Two, packets: &[Value], between: &[Value]) {
    let recorded = two.folder.path().join("recorded.jsonl");
    std::fs::write(&recorded, packets.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    // Without the namespaces: each agent called its own by another name.
    let program = two.folder.path().join("again.yaml");
    std::fs::write(&program, "filter: {protocol: tcp, port: 7051}\naction: [record, latency]\n").unwrap();
    let [program, recorded] = [&program, &recorded].map(|path| path.to_str().unwrap());
    let done = wirespan(&["packet", program, "--from", recorded, "--format", "json"]);
    let told = String::from_utf8_lossy(&done.stdout);
    let lines: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).collect::<Vec<_>>();
    let by = |packets: &[&Value]| {
        two.names.iter().map(|name| packets.iter().filter(|p| p["agent"] == name.as_str()).count()).collect::<Vec<_>>()
    };
    assert_eq!(by(&of("packet")), by(&packets.iter().collect::<Vec<_>>()));
    let again = of("between");
    assert_eq!(again.len(), between.len(), "{told}");
    for row in between {
        let is_same = |again: &&&Value| again["from_agent"] == row["from_agent"];
        let again = again.iter().find(is_same).unwrap_or_else(|| panic!("{row} {told}"));
        for key in ["from_agent", "to_agent", "packets", "unknown"] {
            assert_eq!(again[key], row[key], "{again} {row}");
        }
        // The clocks are compared by the same packets, but in other parts at a time.
        let middle =
            |row: &Value| (row["p50"]["low_ns"].as_f64().unwrap() + row["p50"]["high_ns"].as_f64().unwrap()) / 2.0;
        let wide = row["p50"]["high_ns"].as_f64().unwrap() - row["p50"]["low_ns"].as_f64().unwrap();
        assert!((middle(again) - middle(row)).abs() <= wide + 1000.0, "{again} {row}");
    }
    assert_eq!(of("clock").len(), 1);
}

#[test]
fn packets_of_two_agents_meet_and_their_times_have_errors() {
    let test = "packets_of_two_agents_meet_and_their_times_have_errors";
    let Some(two) = Two::start(test, "fm", true) else { return };
    let Two { folder, spaces, place, names, since_ns, .. } = &two;

    // `record` tells what each agent saw, so the truth of these same packets is known.
    let file = folder.path().join("program.yaml");
    let filter = "filter: {protocol: tcp, port: 7051, netns: ./own}\nwhere: [queue, receive]";
    std::fs::write(&file, format!("{filter}\naction: [record, latency]\nfor: 20s\n")).unwrap();
    let (mut receiver, mut sender) = (None, None);
    let told = run(place, &file, || {
        receiver = Some(spaces.python(1, SERVER, &["10.214.1.2", "7051"]));
        sender = Some(spaces.python(0, CLIENT, &["10.214.1.2", "7051", "10"]));
    });
    assert!(sender.unwrap().finish(Duration::from_secs(30)).status.success());
    let widest = told.assert_true(3, &names[1], *since_ns);
    let of = |kind: &str| told.of(kind);

    // Each packet met its counterpart, there and back.
    let met: BTreeMap<String, Value> =
        of("agent").into_iter().map(|a| (a["agent"].as_str().unwrap().to_owned(), a["met"].clone())).collect();
    let between = of("between");
    assert_eq!(between.len(), 2, "{between:?} {}", told.said);
    let packets = of("packet");
    let mut known = 0;
    for row in &between {
        let (truth, met_there, lonely) = true_times(&packets, names, row["from_agent"] == names[0].as_str(), *since_ns);
        let count = truth.len() as u64;
        assert_eq!((row["packets"].as_u64(), row["unknown"].as_u64()), (Some(count), Some(0)), "{row}");
        for (key, share) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
            let is = truth[((truth.len() as f64 * share).ceil() as usize).max(1) - 1];
            let [low, high] = ["low_ns", "high_ns"].map(|bound| row[key][bound].as_f64().unwrap());
            assert!(low - 1000.0 <= is && is <= high + 1000.0, "{key}: {is} {row}");
            known += usize::from(row[key]["ns"].is_number());
        }
        let tally = &met[row["from_agent"].as_str().unwrap()];
        assert_eq!((tally["met"].as_u64(), tally["only_left"].as_u64()), (Some(met_there), Some(lonely)), "{tally}");
        assert_eq!(tally["only_came"], 0, "{tally}");
    }
    assert!(known > 0, "the slow packets have a time: {between:?}");
    assert_recorded(&two, &packets, &between);
    eprintln!("{} windows, at most {widest} ns wide; {known} of 6 quantiles known; {between:?}", told.windows.len());
    two.end();
}

#[test]
fn a_transfer_in_one_direction_has_times_by_its_acknowledgements() {
    let test = "a_transfer_in_one_direction_has_times_by_its_acknowledgements";
    let Some(two) = Two::start(test, "fo", true) else { return };
    let Two { folder, spaces, place, names, since_ns, .. } = &two;
    let go = folder.path().join("go");
    // The handshake, which goes both ways, is over before packets are seen.
    let _sink = spaces.python(1, SINK, &["10.214.1.2", "7052"]);
    let _bulk = spaces.python(0, BULK, &["10.214.1.2", "7052", go.to_str().unwrap(), "8"]);
    let file = folder.path().join("program.yaml");
    let filter = "filter: {protocol: tcp, port: 7052, netns: ./own}\nwhere: [queue, receive]";
    std::fs::write(&file, format!("{filter}\naction: [latency]\nfor: 16s\n")).unwrap();
    let told = run(place, &file, || std::fs::write(&go, "").unwrap());
    let widest = told.assert_true(1, &names[1], *since_ns);
    let between = told.of("between");
    assert_eq!(between.len(), 1, "acknowledgements are in no table: {between:?}");
    let row = &between[0];
    let of = |key: &str| row[key].as_u64().unwrap();
    assert!(of("packets") > 500 && of("unknown") * 10 < of("packets"), "{row} {}", told.said);
    // Those that wait long in the queue do so for much longer than the clocks are uncertain, on a busy machine, too.
    assert!(row["p99"]["ns"].is_number(), "{row}");
    eprintln!("{} windows, at most {widest} ns wide; {row}", told.windows.len());
    two.end();
}
