//! What bounds a packet program, and what it leaves behind: nothing.

use crate::harness::{within, Running, WIRESPAN};
use crate::packet_changes::ask;
use crate::packets::{bridged, made, of_kind, ready, traced, way, ECHO, PINGS};
use crate::spaces::Spaces;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Generous: a busy machine. `bench/packets --start` measures.
const QUICK: Duration = Duration::from_secs(3);

/// Sends two datagrams of 60 bytes from each of so many ports; each is answered.
const MANY: &str = "
import socket, sys
for port in range(int(sys.argv[3])):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(('', 20000 + port))
    s.settimeout(5)
    for n in range(2):
        s.sendto(b'z' * 60, (sys.argv[1], int(sys.argv[2])))
        s.recv(100)
";

/// The programs and links of the kernel that a process holds.
fn held(pid: u32) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for fd in std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten() {
        let Ok(what) = std::fs::read_link(fd.path()) else { continue };
        let what = what.to_string_lossy().into_owned();
        if ["bpf-prog", "bpf-link", "bpf_link", "perf_event"].iter().any(|kind| what.contains(kind)) {
            *found.entry(what).or_default() += 1;
        }
    }
    found
}

#[test]
fn nothing_is_attached_unless_a_program_runs() {
    let test = "nothing_is_attached_unless_a_program_runs";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, Spaces::pair("bn")) else { return };
    let target = spaces.python(1, ECHO, &["10.214.1.2", "7130"]);
    let pid = target.pid().to_string();
    let up = |more: &[&str]| {
        let ui = format!("127.0.0.1:{}", crate::split::free_port());
        let mut up = Running::start(WIRESPAN, &[&["up", "--ui", &ui, "--pid", &pid], more].concat());
        up.wait_for("Ctrl-C ends");
        (up, ui)
    };
    let settled = |of: &Running| {
        // Some programs are loaded after the start, and when they are needed.
        let (mut last, mut since) = (held(of.pid()), Instant::now());
        within(Duration::from_secs(120), "no more is loaded", || {
            let now = held(of.pid());
            if now != last {
                (last, since) = (now, Instant::now());
            }
            (since.elapsed() > Duration::from_secs(4)).then(|| last.clone())
        })
    };
    let (plain, _) = up(&[]);
    let without = settled(&plain);
    plain.end();
    let (ready, ui) = up(&["--packet-programs"]);
    let idle = settled(&ready);
    assert_eq!(idle, without, "an agent that may run packet programs, and one that may not");
    let netns = format!("[{}, {}]", spaces.name(0), spaces.name(1));
    let program = format!("filter: {{protocol: udp, port: 7130, netns: {netns}}}\nwhere: [queue, receive]\nfor: 60s\n");
    assert_eq!(ask(&ui, Some(&program)).0, 200);
    let count = |held: &BTreeMap<String, usize>| held.values().sum::<usize>();
    assert!(count(&held(ready.pid())) >= count(&idle) + 4, "{idle:?}, now {:?}", held(ready.pid()));
    ask(&ui, Some(""));
    within(Duration::from_secs(20), "all is detached", || (held(ready.pid()) == idle).then_some(()));
    ready.end();
}

#[test]
fn a_program_starts_and_ends_quickly() {
    let test = "a_program_starts_and_ends_quickly";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, Spaces::pair("bq")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program.yaml");
    std::fs::write(&file, "action: [record, latency, drops, loss, snap: 64, stack]\nby: flow\nfor: 60s\n").unwrap();
    let args = ["packet", file.to_str().unwrap(), "--netns", spaces.name(0), "--format", "json"];
    let began = Instant::now();
    let mut running = Running::start(WIRESPAN, &args);
    running.wait_for("packets are seen");
    let started = began.elapsed();
    let began = Instant::now();
    running.signal(rustix::process::Signal::TERM);
    let done = running.finish(Duration::from_secs(60));
    let ended = began.elapsed();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(started < QUICK && ended < QUICK, "started in {started:?}, ended in {ended:?}");
}

#[test]
fn a_program_for_all_namespaces_ends_at_its_bound() {
    let test = "a_program_for_all_namespaces_ends_at_its_bound";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, bridged("ba")) else { return };
    let _echo = spaces.python(1, ECHO, &["10.214.1.2", "7131"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program.yaml");
    // Without a filter it would see the packets of the machine's other programs.
    let program = "filter: {protocol: udp, port: 7131}\naction: [count]\nat_most: 300\nfor: 60s\n";
    std::fs::write(&file, program).unwrap();
    let mut running =
        Running::start(WIRESPAN, &["packet", file.to_str().unwrap(), "--all-traffic", "--format", "json"]);
    running.wait_for("packets are seen");
    let began = Instant::now();
    spaces.inside(0, &["python3", "-c", PINGS, "10.214.1.2", "7131", "100"]).unwrap();
    let done = running.finish(Duration::from_secs(30));
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success() && said.contains("ended early, because `at_most` is 300"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(30), "long before its time");
    let lines: Vec<Value> =
        String::from_utf8_lossy(&done.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let counts = of_kind(&lines, "count");
    let told: u64 = counts.iter().map(|line| line["packets"].as_u64().unwrap()).sum();
    assert_eq!(told, 300, "{said}");
}

#[test]
fn a_sample_has_whole_flows() {
    let test = "a_sample_has_whole_flows";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, bridged("bs")) else { return };
    let _echo = spaces.python(1, ECHO, &["10.214.1.2", "7132"]);
    let program = "filter: {protocol: udp, port: 7132}\nwhere: [queue, receive]\none_flow_of: 4\naction: [record]\n";
    let (lines, said) = traced(&spaces, &[0, 1, 2], program, || {
        spaces.inside(0, &["python3", "-c", MANY, "10.214.1.2", "7132", "200"]).unwrap();
    });
    let mut flows: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for packet in of_kind(&lines, "packet") {
        let ports = ["source_port", "destination_port"].map(|key| packet["route"][key].as_u64().unwrap());
        let way = format!("{} {} {}", packet["point"], packet["netns_name"], packet["device"]);
        flows.entry(ports[0].max(ports[1])).or_default().push(way);
    }
    // A quarter of 200, give or take five times the standard deviation (6.1).
    assert!((20..=80).contains(&flows.len()), "{} {said}", flows.len());
    for (port, mut seen) in flows {
        // Four packets, each at four places.
        assert_eq!(seen.len(), 16, "{port}: {seen:?}");
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 8, "{port}: {seen:?}");
    }
}

#[test]
fn devices_and_namespaces_may_vanish_while_a_program_runs() {
    let test = "devices_and_namespaces_may_vanish_while_a_program_runs";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, bridged("bv")) else { return };
    let run = |line: &str| {
        let done = crate::running::output(std::process::Command::new("ip").args(line.split(' ')));
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    };
    let [near, far, switch] = [0, 1, 2].map(|n| spaces.name(n).to_owned());
    let program = "filter: {protocol: udp, port: 7133, device: [eth0, portb]}\naction: [journeys, count, drops]\n";
    let (lines, said) = traced(&spaces, &[0, 1, 2], program, || {
        {
            let _echo = spaces.python(1, ECHO, &["10.214.1.2", "7133"]);
            spaces.inside(0, &["python3", "-c", PINGS, "10.214.1.2", "7133", "10"]).unwrap();
            // Both ends of the link go while packets are sent, and come again under their names.
            let _sends = spaces.python(0, crate::packet_changes::SENDER, &["10.214.1.2", "7133", "/no/such/file"]);
            run(&format!("-n {switch} link del portb"));
            std::thread::sleep(Duration::from_millis(100));
            run(&format!("-n {switch} link add name portb type veth peer name eth0 netns {far}"));
            run(&format!("-n {switch} link set dev portb master br0 up"));
            run(&format!("-n {far} addr add 10.214.1.2/24 dev eth0"));
            run(&format!("-n {far} link set eth0 up"));
            // The address has another device now.
            run(&format!("-n {near} neigh flush dev eth0"));
        }
        let _echo = spaces.python(1, ECHO, &["10.214.1.2", "7133"]);
        within(Duration::from_secs(20), "the new link works", || {
            spaces.inside(0, &["python3", "-c", PINGS, "10.214.1.2", "7133", "10"]).ok()
        });
        drop(_echo);
        // A namespace ends, while packets are sent to it.
        let _sends = spaces.python(0, crate::packet_changes::SENDER, &["10.214.1.2", "7133", "/no/such/file"]);
        run(&format!("netns del {far}"));
        std::thread::sleep(Duration::from_millis(300));
    });
    let counts = of_kind(&lines, "count");
    let new_and_old: BTreeSet<u64> = counts.iter().filter_map(|line| line["place"]["netns"].as_u64()).collect();
    assert_eq!(new_and_old.len(), 3, "{counts:?}");
    let there = |line: &&&Value| line["route"]["destination_port"] == 7133 && line["len"] == 60;
    let whole = |journey: &&Value| way(journey).contains(&"receive eth0".to_owned());
    let journeys = of_kind(&lines, "journey");
    let arrived = journeys.iter().filter(there).filter(|journey| whole(journey)).count();
    assert!(arrived >= 20, "before and after: {arrived} of {} {said}", journeys.len());
    assert!(counts.iter().any(|line| line["place"]["device"] == "portb" && line["netns_name"] == *switch));
}
