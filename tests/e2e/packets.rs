//! `wirespan packet`: packets between namespaces of the test, through bridges, tunnels and queues.

use crate::harness::{can_trace, has, skip, wirespan, Running, WIRESPAN};
use crate::running::{output, reader};
use crate::spaces::{lacking, Spaces};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// Answers each message of 100 bytes on this address and port.
pub(crate) const SERVER: &str = "
import socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
s = socket.create_server((sys.argv[1], int(sys.argv[2])), family=family)
print('listening', file=sys.stderr, flush=True)
while True:
    c, _ = s.accept()
    while c.recv(65536):
        c.send(b'y' * 10)
";

/// Sends messages of 100 bytes one by one.
pub(crate) const CLIENT: &str = "
import socket, sys, time
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=10)
for n in range(int(sys.argv[3])):
    s.sendall(b'x' * 100)
    s.recv(100)
    time.sleep(0.005)
";

/// Reads all that is sent.
pub(crate) const SINK: &str = "
import socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
s = socket.create_server((sys.argv[1], int(sys.argv[2])), family=family)
print('listening', file=sys.stderr, flush=True)
while True:
    c, _ = s.accept()
    while c.recv(65536):
        pass
    c.close()
";

/// Sends so many bytes at once.
const SOURCE: &str = "
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20)
s.sendall(b'x' * int(sys.argv[3]))
s.shutdown(socket.SHUT_WR)
s.recv(1)
";

/// Sends datagrams of 60 bytes, each of which is answered.
pub(crate) const PINGS: &str = "
import socket, sys, time
s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
for n in range(int(sys.argv[3])):
    s.sendto(b'z' * 60, (sys.argv[1], int(sys.argv[2])))
    s.recv(100)
    time.sleep(0.002)
";

pub(crate) const ECHO: &str = "
import socket, sys
s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], int(sys.argv[2])))
print('listening', file=sys.stderr, flush=True)
while True:
    data, peer = s.recvfrom(100)
    s.sendto(data, peer)
";

pub(crate) fn ready(test: &str) -> bool {
    can_trace(test) && has(test, &["ip", "python3"])
}

/// Namespaces, or a skipped test if this machine lacks something for them.
pub(crate) fn made(test: &str, spaces: Result<Spaces, String>) -> Option<Spaces> {
    spaces.map_err(|why| skip(test, &why)).ok()
}

/// A bridge in namespace 2 with ports `porta` and `portb`, to 10.214.1.1 in namespace 0 and 10.214.1.2 in namespace 1.
pub(crate) fn bridged(tag: &str) -> Result<Spaces, String> {
    Spaces::new(
        tag,
        3,
        &[
            "-n {2} link add name br0 type bridge",
            "-n {2} link set br0 up",
            "-n {2} link add name porta type veth peer name eth0 netns {0}",
            "-n {2} link add name portb type veth peer name eth0 netns {1}",
            "-n {2} link set dev porta master br0 up",
            "-n {2} link set dev portb master br0 up",
            "-n {0} addr add 10.214.1.1/24 dev eth0",
            "-n {1} addr add 10.214.1.2/24 dev eth0",
            "-n {0} addr add fd14::1/64 dev eth0 nodad",
            "-n {1} addr add fd14::2/64 dev eth0 nodad",
            "-n {0} link set eth0 up",
            "-n {1} link set eth0 up",
        ],
    )
}

/// Runs a packet program while `work` runs. Returns its JSON lines and what it says on stderr.
pub(crate) fn traced(spaces: &Spaces, chosen: &[usize], program: &str, work: impl FnOnce()) -> (Vec<Value>, String) {
    traced_with(&[], spaces, chosen, program, work)
}

/// As [`traced`], with these variables of its environment.
pub(crate) fn traced_with(
    environment: &[(&str, &str)],
    spaces: &Spaces,
    chosen: &[usize],
    program: &str,
    work: impl FnOnce(),
) -> (Vec<Value>, String) {
    let folder = tempfile::tempdir().unwrap();
    let file: PathBuf = folder.path().join("program.yaml");
    std::fs::write(&file, program).unwrap();
    let mut args = vec!["packet", file.to_str().unwrap(), "--format", "json", "--for", "60s", "--netns"];
    args.extend(chosen.iter().map(|n| spaces.name(*n)));
    let mut running = Running::start_with(environment, WIRESPAN, &args);
    let said = running.wait_for("packets are seen");
    let stdout = reader(running.0.stdout.take());
    work();
    running.signal(rustix::process::Signal::TERM);
    let rest = running.finish(Duration::from_secs(180));
    let rest_said = String::from_utf8_lossy(&rest.stderr).into_owned();
    assert!(rest.status.success(), "{rest_said}");
    let text = String::from_utf8(stdout.recv_timeout(Duration::from_secs(30)).unwrap()).unwrap();
    (text.lines().map(|l| serde_json::from_str(l).unwrap()).collect(), said + &rest_said)
}

pub(crate) fn of_kind<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

/// The points of a journey, with their devices.
pub(crate) fn way(journey: &Value) -> Vec<String> {
    let steps = journey["steps"].as_array().unwrap().iter();
    let name = |s: &Value| format!("{} {}", s["point"].as_str().unwrap(), s["device"].as_str().unwrap());
    steps.map(|s| name(s).trim_end().to_owned()).collect()
}

/// Journeys of packets with so many bytes to this port.
pub(crate) fn to_port(lines: &[Value], port: u16, len: u32) -> Vec<&Value> {
    let journeys = of_kind(lines, "journey").into_iter();
    journeys.filter(|j| j["route"]["destination_port"] == port && j["len"] == len).collect()
}

/// The points that this kernel has.
fn seen_here<'a>(said: &str, points: &[&'a str]) -> Vec<&'a str> {
    let missing = |p: &&&str| !said.contains(&format!("at `{}`", p.split(' ').next().unwrap()));
    points.iter().filter(missing).copied().collect()
}

#[test]
fn a_segment_is_followed_through_a_bridge_from_the_program_to_the_reader() {
    let test = "a_segment_is_followed_through_a_bridge_from_the_program_to_the_reader";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, bridged("pb")) else { return };
    for (address, port) in [("10.214.1.2", "7001"), ("fd14::2", "7002")] {
        let _server = spaces.python(1, SERVER, &[address, port]);
        let program = "filter: {protocol: tcp}\naction: [journeys, latency, count]\n";
        let (lines, said) = traced(&spaces, &[0, 1, 2], program, || {
            spaces.inside(0, &["python3", "-c", CLIENT, address, port, "50"]).unwrap();
        });
        let all = [
            "send",
            "queue eth0",
            "xmit eth0",
            "receive porta",
            "queue portb",
            "xmit portb",
            "receive eth0",
            "tcp eth0",
            "ready",
            "copied eth0",
        ];
        let all = seen_here(&said, &all);
        let journeys = to_port(&lines, port.parse().unwrap(), 100);
        assert_eq!(journeys.len(), 50, "{said}");
        for journey in &journeys {
            let times: Vec<u64> =
                journey["steps"].as_array().unwrap().iter().map(|s| s["time_ns"].as_u64().unwrap()).collect();
            assert!(times.is_sorted(), "{journey}");
            let way = way(journey);
            // The reader may run on another processor before it is told.
            let without = |way: &[String]| way.iter().filter(|w| *w != "ready").cloned().collect::<Vec<_>>();
            let expected: Vec<String> = all.iter().map(|s| (*s).to_string()).collect();
            assert_eq!(without(&way), without(&expected), "{address}");
        }
        assert!(of_kind(&lines, "count").len() >= 9 && of_kind(&lines, "latency").len() >= 8);
        assert!(of_kind(&lines, "total")[0]["times"]["packets"].as_u64().unwrap() >= 100);
    }
}

#[test]
fn packets_of_other_namespaces_and_flows_are_not_told() {
    let test = "packets_of_other_namespaces_and_flows_are_not_told";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, bridged("po")) else { return };
    let _chosen = spaces.python(1, SERVER, &["10.214.1.2", "7003"]);
    let _other = spaces.python(1, SERVER, &["10.214.1.2", "7004"]);
    let program = "filter: {protocol: tcp, port: 7003, device: eth0}\naction: [record]\n";
    let (lines, said) = traced(&spaces, &[0], program, || {
        for port in ["7003", "7004"] {
            spaces.inside(0, &["python3", "-c", CLIENT, "10.214.1.2", port, "10"]).unwrap();
        }
    });
    let packets = of_kind(&lines, "packet");
    assert!(packets.len() > 60, "{} {said}", packets.len());
    for packet in packets {
        let route = &packet["route"];
        assert!(route["source_port"] == 7003 || route["destination_port"] == 7003, "{packet}");
        assert_eq!(packet["netns_name"], spaces.name(0), "{packet}");
        let point = packet["point"].as_str().unwrap();
        let named = !["send", "ready", "resent"].contains(&point);
        assert!(point == "drop" || packet["device"] == if named { "eth0" } else { "" }, "{packet}");
    }
    // Sockets know by which device a packet came.
    let program = "filter: {protocol: tcp, port: 7003, device: lo}\nwhere: [tcp, copied]\naction: [record]\n";
    let (lines, said) = traced(&spaces, &[0], program, || {
        spaces.inside(0, &["python3", "-c", CLIENT, "10.214.1.2", "7003", "10"]).unwrap();
    });
    assert_eq!(of_kind(&lines, "packet"), Vec::<&Value>::new(), "{said}");
}

#[test]
fn a_drop_in_a_queue_is_told_with_its_reason_and_its_retransmission() {
    let test = "a_drop_in_a_queue_is_told_with_its_reason_and_its_retransmission";
    if !ready(test) || !has(test, &["tc"]) {
        return;
    }
    let Some(spaces) = made(test, bridged("pd")) else { return };
    let slow = "tc qdisc add dev portb root tbf rate 20mbit burst 5kb limit 20kb";
    let slow: Vec<&str> = slow.split(' ').collect();
    if let Err(why) = spaces.inside(2, &slow) {
        return skip(test, &lacking(why));
    }
    let _sink = spaces.python(1, SINK, &["10.214.1.2", "7005"]);
    let program = "filter: {protocol: tcp, port: 7005}\naction: [journeys, drops]\n";
    let (lines, said) = traced(&spaces, &[0, 1, 2], program, || {
        spaces.inside(0, &["python3", "-c", SOURCE, "10.214.1.2", "7005", "1000000"]).unwrap();
    });
    let drops = of_kind(&lines, "drops");
    let at_b = drops.iter().filter(|d| d["place"]["device"] == "portb" && d["place"]["point"] == "drop");
    let (packets, resent) = at_b.fold((0, 0), |(packets, resent), d| {
        assert_eq!(d["reason"], "QDISC_DROP", "{d}");
        let whole = of_kind(&lines, "journey").into_iter().find(|j| j["steps"] == Value::Array(Vec::new()));
        assert_eq!(
            (&d["after"]["point"], &d["after"]["device"]),
            (&"queue".into(), &"portb".into()),
            "{d} {whole:?} {said}"
        );
        (packets + d["packets"].as_u64().unwrap(), resent + d["resent"]["packets"].as_u64().unwrap())
    });
    assert!(packets > 0 && resent > 0, "{drops:?} {said}");
    let journeys = of_kind(&lines, "journey");
    // All bytes arrived, so what was dropped was sent again; or it had been sent again in vain, because it had arrived.
    let lost = |j: &&&Value| j["dropped"].is_object() && j["dropped"]["resent_after_ns"].is_null();
    let in_vain = |j: &&&Value| j["attempt"] != 1 && lost(j);
    assert_eq!(packets, resent + journeys.iter().filter(in_vain).count() as u64, "{drops:?} {said}");
    assert!(journeys.iter().any(|j| j["attempt"] == 2 && way(j).contains(&"receive eth0".to_string())));
    assert!(journeys.iter().any(|j| j["dropped"]["resent_after_ns"].as_u64().is_some_and(|ns| ns > 0)));
}

#[test]
fn address_translation_does_not_end_a_journey() {
    let test = "address_translation_does_not_end_a_journey";
    if !ready(test) || !has(test, &["nft", "sysctl"]) {
        return;
    }
    let Some(spaces) = made(test, Spaces::behind_nat("pn")) else { return };
    let _server = spaces.python(2, SERVER, &["10.213.2.2", "80"]);
    let program = "filter: {protocol: tcp}\naction: [journeys]\n";
    let (lines, said) = traced(&spaces, &[0, 1, 2], program, || {
        spaces.inside(0, &["python3", "-c", CLIENT, "10.213.1.1", "8080", "50"]).unwrap();
    });
    let journeys = to_port(&lines, 8080, 100);
    assert_eq!(journeys.len(), 50, "{said}");
    for journey in journeys {
        let last = journey["steps"].as_array().unwrap().last().unwrap();
        assert_eq!((&last["point"], &last["route"]["destination"]), (&"copied".into(), &"10.213.2.2".into()), "{last}");
        assert_eq!(last["route"]["source"], "10.213.2.1");
    }
}

#[test]
fn a_program_that_selects_everything_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    std::fs::write(&file, "action: [count]\n").unwrap();
    let done = wirespan(&["packet", file.to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&done.stderr).contains("--all-traffic"), "{done:?}");
    std::fs::write(&file, "filter: {prot: tcp}\n").unwrap();
    let done = wirespan(&["packet", file.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&done.stderr).contains("line 1: unknown key `prot`"), "{done:?}");
}

#[test]
fn recorded_packets_are_filtered_afterwards_and_written_for_wireshark() {
    let test = "recorded_packets_are_filtered_afterwards_and_written_for_wireshark";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, bridged("pw")) else { return };
    let _one = spaces.python(1, SERVER, &["10.214.1.2", "7008"]);
    let _other = spaces.python(1, SERVER, &["fd14::2", "7009"]);
    let (lines, said) = traced(&spaces, &[0, 1, 2], "filter: {protocol: tcp}\naction: [record, journeys]\n", || {
        for (address, port) in [("10.214.1.2", "7008"), ("fd14::2", "7009")] {
            spaces.inside(0, &["python3", "-c", CLIENT, address, port, "20"]).unwrap();
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    std::fs::write(path("recorded.jsonl"), text.join("\n")).unwrap();
    let again = |program: &str, more: &[&str]| {
        std::fs::write(path("program.yaml"), program).unwrap();
        let (program, recorded) = (path("program.yaml"), path("recorded.jsonl"));
        let mut args = vec!["packet", &program, "--from", &recorded, "--format", "json"];
        args.extend(more);
        let done = wirespan(&args);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{said}");
        let lines = String::from_utf8_lossy(&done.stdout).into_owned();
        (lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect::<Vec<Value>>(), said)
    };
    // The same filter and actions give what the run itself gave.
    let (journeys, _) = again("filter: {port: 7009}\naction: [journeys]\n", &[]);
    let (there, here) = (to_port(&lines, 7009, 100), to_port(&journeys, 7009, 100));
    assert_eq!(here.len(), 20, "{said}");
    let ways = |all: &[&Value]| all.iter().map(|j| way(j)).collect::<Vec<_>>();
    assert_eq!(ways(&here), ways(&there));
    assert!(of_kind(&journeys, "journey").iter().all(|j| j["route"].to_string().contains("7009")));
    let selected = |line: &&&Value| line["device"] == "portb" && line["route"].to_string().contains("7008");
    let expected = of_kind(&lines, "packet").iter().filter(selected).count();
    let program = "filter: {device: portb, port: 7008}\nwhere: [queue, xmit, receive]\naction: [record]\n";
    let (packets, said) = again(program, &["--netns", spaces.name(2), "--pcapng", &path("out.pcapng")]);
    assert_eq!(of_kind(&packets, "packet").len(), expected, "{said}");
    assert!(expected >= 60, "{expected} {said}");
    // Our own reader understands the file: one connection of so many segments.
    let done = wirespan(&["replay", &path("out.pcapng")]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    if !has(test, &["tshark"]) {
        return;
    }
    let fields = ["-T", "fields", "-e", "frame.comment", "-e", "ip.src", "-e", "tcp.dstport", "-e", "tcp.len"];
    let mut tshark = std::process::Command::new("tshark");
    let done = output(tshark.args(["-r", &path("out.pcapng")]).args(fields));
    let out = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(out.lines().count(), expected, "{out}");
    let comment = format!("queue portb in {}, cpu ", spaces.name(2));
    let sent = |l: &&str| l.starts_with(&comment) && l.ends_with("\t10.214.1.1\t7008\t100");
    assert_eq!(out.lines().filter(sent).count(), 20, "{out}");
}
