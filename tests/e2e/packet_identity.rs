//! Packets are known again end to end: out of order, through a tunnel with offloaded segments, and through address
//! translation on both sides.

use crate::harness::{has, skip};
use crate::packets::{made, ready, traced, way, ECHO, PINGS, SINK};
use crate::spaces::{lacking, Spaces};
use serde_json::Value;

/// Copies frames from device to device, and puts every fourth large one from the first device behind the next one. What
/// the kernel left to devices (checksums, segments) stays so: each frame has a header of virtio.
const RELAY: &str = "
import select, socket, sys
a, b = (socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) for _ in range(2))
for s, name in ((a, sys.argv[1]), (b, sys.argv[2])):
    s.setsockopt(263, 15, 1)
    s.bind((name, 3))
print('listening', file=sys.stderr, flush=True)
held, count = None, 0
while True:
    ready = select.select([a, b], [], [], 0.002)[0]
    if not ready and held:
        b.send(held)
        held = None
    for s in ready:
        frame, (_, _, kind, *_) = s.recvfrom(70000)
        if kind == socket.PACKET_OUTGOING:
            continue
        if s is b:
            a.send(frame)
            continue
        count += len(frame) > 150
        if held:
            b.send(frame)
            b.send(held)
            held = None
        elif len(frame) > 150 and count % 4 == 0:
            held = frame
        else:
            b.send(frame)
";

/// Sends so many pieces of so many bytes, eight at a time.
const BURSTS: &str = "
import socket, sys, time
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for n in range(int(sys.argv[3])):
    s.sendall(b'x' * int(sys.argv[4]))
    if n % 8 == 7:
        time.sleep(0.004)
s.shutdown(socket.SHUT_WR)
s.recv(1)
";

/// The journeys of packets with payload to this port.
fn to(lines: &[Value], port: u16) -> Vec<&Value> {
    let is = |j: &&Value| j["kind"] == "journey" && j["route"]["destination_port"] == port && j["len"] != 0;
    lines.iter().filter(is).collect()
}

fn bytes(journeys: &[&Value]) -> u64 {
    journeys.iter().map(|journey| journey["len"].as_u64().unwrap()).sum()
}

/// When a journey was at this step.
fn at(journey: &Value, step: &str) -> u64 {
    let place = way(journey).iter().position(|at| at == step).unwrap_or_else(|| panic!("not at {step}: {journey}"));
    journey["steps"][place]["time_ns"].as_u64().unwrap()
}

#[test]
fn segments_out_of_order_are_followed_through_a_relay() {
    let test = "segments_out_of_order_are_followed_through_a_relay";
    if !ready(test) {
        return;
    }
    let spaces = Spaces::new(
        "pr",
        3,
        &[
            "-n {2} link add name porta type veth peer name eth0 netns {0}",
            "-n {2} link add name portb type veth peer name eth0 netns {1}",
            "-n {2} link set porta up",
            "-n {2} link set portb up",
            "-n {0} addr add 10.214.1.1/24 dev eth0",
            "-n {1} addr add 10.214.1.2/24 dev eth0",
            "-n {0} link set eth0 up",
            "-n {1} link set eth0 up",
        ],
    );
    let Some(spaces) = made(test, spaces) else { return };
    let _relay = spaces.python(2, RELAY, &["porta", "portb"]);
    let _sink = spaces.python(1, SINK, &["10.214.1.2", "7031"]);
    let program = "filter: {protocol: tcp, port: 7031}\naction: [journeys, drops]\n";
    let (lines, said) = traced(&spaces, &[0, 1, 2], program, || {
        spaces.inside(0, &["python3", "-c", BURSTS, "10.214.1.2", "7031", "200", "200"]).unwrap();
    });
    let journeys = to(&lines, 7031);
    let first: Vec<&Value> = journeys.iter().copied().filter(|journey| journey["attempt"] == 1).collect();
    assert_eq!(bytes(&first), 40_000, "{said}");
    let mut arrived = Vec::new();
    for journey in &journeys {
        // The stack of the relay's namespace drops its copy of each packet: that is no loss.
        assert!(journey["dropped"].is_null(), "{journey}");
        assert!(at(journey, "queue eth0") < at(journey, "receive porta"), "{journey}");
        assert!(at(journey, "receive porta") < at(journey, "xmit portb"), "{journey}");
    }
    for journey in &first {
        arrived.push((at(journey, "xmit portb"), at(journey, "queue eth0")));
    }
    arrived.sort_unstable();
    let late = arrived.windows(2).filter(|two| two[0].1 > two[1].1).count();
    assert!(late >= 20, "{late} of {} came out of order: {said}", arrived.len());
}

#[test]
fn offloaded_segments_are_followed_through_a_tunnel() {
    let test = "offloaded_segments_are_followed_through_a_tunnel";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, Spaces::tunnelled("pw")) else { return };
    let _sink = spaces.python(1, SINK, &["10.216.1.2", "7032"]);
    let program = "filter: {protocol: tcp, port: 7032}\naction: [journeys, drops]\n";
    let (lines, said) = traced(&spaces, &[0, 1], program, || {
        spaces.inside(0, &["python3", "-c", BURSTS, "10.216.1.2", "7032", "20", "50000"]).unwrap();
    });
    let journeys = to(&lines, 7032);
    let first: Vec<&Value> = journeys.iter().copied().filter(|journey| journey["attempt"] == 1).collect();
    assert_eq!(bytes(&first), 1_000_000, "{said}");
    let large = first.iter().filter(|journey| journey["len"].as_u64().unwrap() > 1_500).count();
    assert!(large >= 10, "the device cuts segments: {large} of {} are larger than a frame", first.len());
    for journey in journeys {
        let times = ["queue vx", "xmit u0", "receive u0", "receive vx"].map(|step| at(journey, step));
        assert!(times.is_sorted(), "{journey}");
    }
}

#[test]
fn packets_are_followed_through_translation_of_both_addresses() {
    let test = "packets_are_followed_through_translation_of_both_addresses";
    if !ready(test) || !has(test, &["nft", "sysctl"]) {
        return;
    }
    let Some(spaces) = made(test, Spaces::behind_nat("pq")) else { return };
    for (space, address, device) in [
        (0, "fd13:1::2/64", "eth0"),
        (1, "fd13:1::1/64", "toc"),
        (1, "fd13:2::1/64", "tos"),
        (2, "fd13:2::2/64", "eth0"),
    ] {
        spaces.inside(space, &["ip", "addr", "add", address, "dev", device, "nodad"]).unwrap();
    }
    let rules = "add rule ip wsmap pre udp dport 8081 dnat to 10.213.2.2:81\n\
        table ip6 wsmap {\n\
        chain pre { type nat hook prerouting priority dstnat; udp dport 8082 dnat to [fd13:2::2]:82; tcp dport 8083 \
        dnat to [fd13:2::2]:83; }\n\
        chain post { type nat hook postrouting priority srcnat; oifname tos masquerade; }\n}\n";
    for command in [&["sysctl", "-qw", "net.ipv6.conf.all.forwarding=1"][..], &["nft", rules]] {
        if let Err(why) = spaces.inside(1, command) {
            return skip(test, &lacking(why));
        }
    }
    let _echo = spaces.python(2, ECHO, &["10.213.2.2", "81"]);
    let _echo6 = spaces.python(2, ECHO, &["fd13:2::2", "82"]);
    let _sink6 = spaces.python(2, SINK, &["fd13:2::2", "83"]);
    let (lines, said) = traced(&spaces, &[0, 1, 2], "action: [journeys]\n", || {
        spaces.inside(0, &["python3", "-c", PINGS, "10.213.1.1", "8081", "50"]).unwrap();
        spaces.inside(0, &["python3", "-c", PINGS, "fd13:1::1", "8082", "50"]).unwrap();
        spaces.inside(0, &["python3", "-c", BURSTS, "fd13:1::1", "8083", "50", "200"]).unwrap();
    });
    for (port, count, sum, last) in [(8081, Some(50), 3_000, "10.213.2.2"), (8082, Some(50), 3_000, "fd13:2::2")]
        .into_iter()
        .chain([(8083, None, 10_000, "fd13:2::2")])
    {
        let journeys: Vec<&Value> = to(&lines, port).into_iter().filter(|j| j["attempt"] == 1).collect();
        assert!(count.is_none_or(|count: usize| journeys.len() == count), "{port}: {} {said}", journeys.len());
        assert_eq!(bytes(&journeys), sum, "{port}: {said}");
        for journey in journeys {
            let times = ["queue eth0", "receive toc", "xmit tos", "receive eth0"].map(|step| at(journey, step));
            assert!(times.is_sorted(), "{journey}");
            let step = journey["steps"].as_array().unwrap().last().unwrap();
            assert_eq!(step["route"]["destination"], last, "{journey}");
        }
    }
    // What comes back is a way of its own.
    let back = lines.iter().filter(|j| j["kind"] == "journey" && j["route"]["source_port"] == 81);
    assert_eq!(back.count(), 50, "{said}");
}
