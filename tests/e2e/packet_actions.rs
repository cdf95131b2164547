//! What a packet program tells beside times and counts: headers, the kernel's stack, loss, and each flow.

use crate::harness::{has, skip, wirespan};
use crate::packets::{bridged, made, of_kind, ready, traced, CLIENT, ECHO, PINGS, SERVER};
use crate::spaces::{lacking, Spaces};
use serde_json::Value;

/// Takes all datagrams, and says at the end of each second how many came.
pub(crate) const COUNTER: &str = "
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
s.bind((sys.argv[1], int(sys.argv[2])))
print('listening', file=sys.stderr, flush=True)
while s.recv(65536):
    pass
";

/// Sends so many datagrams of so many bytes, each with another payload, at once.
pub(crate) const FLOOD: &str = "
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', int(sys.argv[5])))
for n in range(int(sys.argv[3])):
    s.sendto(n.to_bytes(4, 'big') + bytes(int(sys.argv[4]) - 4), (sys.argv[1], int(sys.argv[2])))
";

/// The bytes that are told of a packet.
fn bytes(packet: &Value) -> Vec<u8> {
    let hex = packet["headers"]["bytes"].as_str().unwrap_or_else(|| panic!("no headers: {packet}"));
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn headers_are_told_as_they_are_and_payload_is_not() {
    let test = "headers_are_told_as_they_are_and_payload_is_not";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, bridged("qh")) else { return };
    for (address, port, ip) in [("10.214.1.2", "7101", 20), ("fd14::2", "7102", 40)] {
        let _server = spaces.python(1, SERVER, &[address, port]);
        let program = format!("filter: {{protocol: tcp, port: {port}}}\naction: [record, snap: 192]\n");
        let (lines, said) = traced(&spaces, &[0, 1, 2], &program, || {
            spaces.inside(0, &["python3", "-c", CLIENT, address, port, "20"]).unwrap();
        });
        let number: u16 = port.parse().unwrap();
        let to = |p: &&&Value| p["route"]["destination_port"] == number && p["len"] == 100;
        let mut points = std::collections::BTreeMap::new();
        for packet in of_kind(&lines, "packet").iter().filter(to) {
            if matches!(packet["point"].as_str(), Some("send" | "ready" | "resent")) {
                assert!(packet["headers"].is_null(), "there is no packet yet: {packet}");
                continue;
            }
            let (bytes, link) = (bytes(packet), packet["headers"]["link_len"].as_u64().unwrap() as usize);
            *points.entry((packet["point"].to_string(), link)).or_insert(0) += 1;
            let tcp = link + ip;
            let head = usize::from(bytes[tcp + 12] >> 4) * 4;
            assert_eq!(bytes.len(), tcp + head, "link, network and transport headers: {packet}");
            assert_eq!(packet["headers"]["frame_len"].as_u64().unwrap() as usize, tcp + head + 100, "{packet}");
            let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
            assert_eq!(word(tcp) & 0xffff, u32::from(number));
            assert_eq!(u64::from(word(tcp + 4)), packet["seq"].as_u64().unwrap(), "{packet}");
            assert!(!bytes.windows(4).any(|w| w == b"xxxx"), "payload: {packet}");
        }
        for point in ["\"queue\"", "\"xmit\"", "\"receive\""] {
            assert!(points.get(&(point.to_owned(), 14)).is_some_and(|n| *n >= 40), "{points:?} {said}");
        }
        assert!(points.keys().any(|(point, _)| point == "\"tcp\""), "{points:?}");
    }
}

#[test]
fn headers_are_cut_where_the_program_says_and_in_tunnels_have_both() {
    let test = "headers_are_cut_where_the_program_says_and_in_tunnels_have_both";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, Spaces::tunnelled("qv")) else { return };
    let _echo = spaces.python(1, ECHO, &["10.216.1.2", "7103"]);
    // Ethernet, IPv4, UDP, VXLAN, Ethernet, IPv4, UDP; then 60 bytes of payload.
    for (snap, within, outside) in [(192, 14 + 20 + 8 + 8 + 14 + 20 + 8, 14 + 20 + 8), (30, 30, 30)] {
        let program = format!("filter: {{protocol: udp, port: 7103}}\naction: [record, snap: {snap}]\n");
        let (lines, said) = traced(&spaces, &[0, 1], &program, || {
            spaces.inside(0, &["python3", "-c", PINGS, "10.216.1.2", "7103", "5"]).unwrap();
        });
        let at_device = |p: &&&Value| p["device"] != "" && p["route"]["destination_port"] == 7103;
        let all = of_kind(&lines, "packet");
        let packets: Vec<_> = all.iter().filter(at_device).collect();
        assert!(packets.len() >= 30, "{said}");
        for packet in packets {
            let wanted = if packet["tunnel"] == "vxlan" { within } else { outside };
            assert_eq!(bytes(packet).len(), wanted, "{packet}");
            assert!(!bytes(packet).windows(4).any(|w| w == b"zzzz"), "payload: {packet}");
        }
    }
}

#[test]
fn wireshark_gets_the_headers_that_were_there() {
    let test = "wireshark_gets_the_headers_that_were_there";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, bridged("qw")) else { return };
    let _server = spaces.python(1, SERVER, &["10.214.1.2", "7104"]);
    let program = "filter: {protocol: tcp, port: 7104, device: eth0}\nwhere: [queue]\naction: [record, snap: 192]\n";
    let (lines, said) = traced(&spaces, &[0], program, || {
        spaces.inside(0, &["python3", "-c", CLIENT, "10.214.1.2", "7104", "5"]).unwrap();
    });
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let packets = of_kind(&lines, "packet");
    assert!(packets.len() >= 7, "{said}");
    let text: Vec<String> = packets.iter().map(|line| line.to_string()).collect();
    std::fs::write(path("recorded.jsonl"), text.join("\n")).unwrap();
    std::fs::write(path("all.yaml"), "action: [record]\n").unwrap();
    let args = ["packet", &path("all.yaml"), "--from", &path("recorded.jsonl"), "--pcapng", &path("out.pcapng")];
    let done = wirespan(&args);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let file = std::fs::read(path("out.pcapng")).unwrap();
    for packet in packets {
        let bytes = bytes(packet);
        assert!(file.windows(bytes.len()).any(|w| w == bytes), "{packet}");
    }
    // The interface is of Ethernet: kind 1, length, link type 1.
    assert!(file.windows(10).any(|w| w[..4] == [1, 0, 0, 0] && w[8..] == [1, 0]));
    let done = wirespan(&["replay", &path("out.pcapng")]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn the_stack_of_the_kernel_is_told_with_packets_and_drops() {
    let test = "the_stack_of_the_kernel_is_told_with_packets_and_drops";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, bridged("qs")) else { return };
    // Nobody listens at this port.
    let program = "filter: {protocol: udp, port: 7105}\naction: [record, drops, stack]\n";
    let (lines, said) = traced(&spaces, &[0, 1, 2], program, || {
        spaces.inside(0, &["python3", "-c", FLOOD, "10.214.1.2", "7105", "20", "60", "7106"]).unwrap();
    });
    let packets = of_kind(&lines, "packet");
    let has = |packet: &Value, function: &str| {
        packet["stack"]
            .as_array()
            .is_some_and(|all| all.iter().any(|f| f.as_str().is_some_and(|f| f.contains(function))))
    };
    if packets.iter().any(|packet| has(packet, "?") && packet["stack"].as_array().is_some_and(|all| all.len() < 2)) {
        return skip(test, "the kernel's functions have no names here");
    }
    let queued: Vec<_> =
        packets.iter().filter(|p| p["point"] == "queue" && p["netns_name"] == spaces.name(0)).collect();
    assert_eq!(queued.len(), 20, "{said}");
    assert!(queued.iter().all(|packet| has(packet, "udp_sendmsg")), "{:?}", queued[0]["stack"]);
    let first = queued[0]["stack"][0].as_str().unwrap();
    assert!(!first.contains("bpf") && !first.contains("trace"), "it begins at the kernel's own function: {first}");
    let drops = of_kind(&lines, "drops");
    let unwanted: Vec<_> = drops.iter().filter(|d| d["reason"] == "NO_SOCKET").collect();
    assert_eq!(unwanted.len(), 1, "{drops:?} {said}");
    let stack = &unwanted[0]["stack"];
    assert!(stack["functions"].to_string().contains("udp"), "{stack}");
    // The first one may have waited for an answer of ARP.
    assert!(stack["packets"].as_u64().unwrap() >= 15 && stack["of"] == 20, "{stack}");
}

/// 600 datagrams of 500 bytes at once through a port of 2 Mbit/s, which has room for few of them.
fn flooded(test: &str, tag: &str, points: &str) -> Option<(Vec<Value>, String)> {
    if !ready(test) || !has(test, &["tc"]) {
        return None;
    }
    let spaces = made(test, bridged(tag))?;
    let slow = "tc qdisc add dev portb root tbf rate 2mbit burst 5kb limit 20kb";
    if let Err(why) = spaces.inside(2, &slow.split(' ').collect::<Vec<_>>()) {
        skip(test, &lacking(why));
        return None;
    }
    let _counter = spaces.python(1, COUNTER, &["10.214.1.2", "7107"]);
    let keys = format!("where: {points}\naction: [loss, count, drops]\nby: flow\n");
    let program = format!("globals:\n  port: 7107\nfilter: {{protocol: udp, port: $port}}\n{keys}");
    Some(traced(&spaces, &[0, 1, 2], &program, || {
        spaces.inside(0, &["python3", "-c", FLOOD, "10.214.1.2", "7107", "600", "500", "7108"]).unwrap();
        spaces.inside(0, &["python3", "-c", FLOOD, "10.214.1.2", "7107", "3", "500", "7109"]).unwrap();
        // What has found room is sent within a tenth of a second.
        std::thread::sleep(std::time::Duration::from_secs(1));
    }))
}

/// Packets and bytes at a place.
fn counted(lines: &[Value], point: &str, device: &str, netns: &str) -> u64 {
    let at = |l: &&&Value| {
        l["place"]["point"] == point && l["place"]["device"] == device && l["netns_name"].to_string().contains(netns)
    };
    of_kind(lines, "count").iter().filter(at).map(|l| l["packets"].as_u64().unwrap()).sum()
}

#[test]
fn what_does_not_come_on_is_counted_by_hop_and_by_flow() {
    for (test, tag, points, told) in [
        ("loss_that_the_kernel_tells", "ql", "[queue, xmit, receive, drop]", "dropped"),
        ("loss_that_the_kernel_does_not_tell", "qm", "[queue, xmit, receive]", "missing"),
    ] {
        let Some((lines, said)) = flooded(test, tag, points) else { return };
        let sent = counted(&lines, "queue", "eth0", &format!("ws{tag}-0"));
        let arrived = counted(&lines, "receive", "eth0", &format!("ws{tag}-1"));
        assert_eq!(sent, 603, "{said}");
        assert!(arrived > 10 && arrived < 500, "{arrived} of {sent}");
        let lost = sent - arrived;
        let hops = of_kind(&lines, "loss");
        let at: Vec<_> = hops.iter().filter(|l| l["loss"][told] != 0).collect();
        assert_eq!(at.len(), 1, "{hops:#?}");
        let [place, next] = ["place", "next"].map(|key| (&at[0][key]["point"], &at[0][key]["device"]));
        assert_eq!((place, next), ((&"queue".into(), &"portb".into()), (&"xmit".into(), &"portb".into())));
        let loss = &at[0]["loss"];
        // A drop that no program sees (a machine may hide some of its processes) is missing. Each is counted.
        let [here, missing] = [told, "missing"].map(|key| loss[key].as_u64().unwrap());
        assert!(here >= lost - lost / 20, "{loss}");
        assert_eq!(if told == "missing" { here } else { here + missing }, lost, "{loss}");
        let share = loss["share"].as_f64().unwrap();
        assert!((share - lost as f64 / sent as f64).abs() < 1e-6, "{loss}");
        let flows = of_kind(&lines, "flow");
        let of = |port: u16| flows.iter().find(|f| f["route"]["source_port"] == port).unwrap();
        let (large, small) = (of(7108), of(7109));
        assert_eq!((&large["packets"], &large["bytes"]), (&600.into(), &300_000.into()), "{large}");
        let lost_by_flow = [large, small].map(|flow| flow["loss"][told].as_u64().unwrap());
        assert_eq!(lost_by_flow.iter().sum::<u64>(), here, "{flows:#?}");
        assert!(large["times"]["p99_ns"].as_u64() > large["times"]["p50_ns"].as_u64(), "{large}");
        assert!(large["mbit_s"].as_f64().unwrap() > 0.0 && large["times"]["jitter_ns"].as_u64().unwrap() > 0);
    }
}
