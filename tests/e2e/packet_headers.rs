//! Packets with more headers than one: tunnels, options of IPv4, extension headers of IPv6, fragments.

use crate::packets::{made, ready, to_port, traced, way, ECHO, PINGS};
use crate::spaces::Spaces;
use serde_json::Value;

/// A tunnel between a device of its own (TUN) and its peer, for kernels without devices of this kind. Arguments: kind,
/// own and peer's outer address, own and peer's inner address.
const TUNNEL: &str = "
import fcntl, os, select, socket, struct, subprocess, sys
kind, own, peer, inside, there = sys.argv[1:]
tun = os.open('/dev/net/tun', os.O_RDWR)
fcntl.ioctl(tun, 0x400454ca, struct.pack('16sH22x', b'tun0', 0x1001))
for words in (['addr', 'add', inside, 'peer', there, 'dev', 'tun0'], ['link', 'set', 'tun0', 'mtu', '1400', 'up']):
    subprocess.run(['ip', *words], check=True)
ethernet = bytes(12) + b'\\x08\\x00'
if kind == 'geneve':
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((own, 6081))
    to, head, skip = (peer, 6081), b'\\x02\\x00\\x65\\x58\\x00\\x00\\x07\\x00' + bytes(8) + ethernet, 30
else:
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 47 if kind == 'gre' else 4)
    s.bind((own, 0))
    # A key, which moves the inner packet.
    to, head = (peer, 0), b'\\x20\\x00\\x08\\x00\\x00\\x00\\x00\\x07' if kind == 'gre' else b''
    skip = 20 + len(head)
print('listening', file=sys.stderr, flush=True)
while True:
    for ready in select.select([tun, s], [], [])[0]:
        if ready is s:
            os.write(tun, s.recv(65536)[skip:])
        else:
            packet = os.read(tun, 65536)
            if packet[0] >> 4 == 4:
                s.sendto(head + packet, to)
";

/// Sends datagrams of so many bytes with these options of the socket: level:option:hex.
const OPTIONS: &str = "
import socket, sys, time
address, port, count, size, option = sys.argv[1:]
s = socket.socket(socket.AF_INET6 if ':' in address else socket.AF_INET, socket.SOCK_DGRAM)
if option != '-':
    level, number, value = option.split(':')
    s.setsockopt(int(level), int(number), bytes.fromhex(value))
for n in range(int(count)):
    s.sendto(bytes([n]) * int(size), (address, int(port)))
    time.sleep(0.002)
";

/// Not where the program of a tunnel copies packets from its device, and where nobody reads them.
const AT_DEVICES: &str = "where: [queue, xmit, receive]\naction: [journeys]\n";

/// Two namespaces with one link, 10.215.2.1 and 10.215.2.2. They know each other's address at the link: while a device
/// has just come up, the first question for it may be lost, and is repeated a second later.
pub(crate) fn linked(tag: &str) -> Result<Spaces, String> {
    Spaces::new(
        tag,
        2,
        &[
            "-n {0} link add name u0 address 02:00:00:00:15:01 type veth peer name u0 netns {1}",
            "-n {1} link set u0 address 02:00:00:00:15:02",
            "-n {0} addr add 10.215.2.1/24 dev u0",
            "-n {1} addr add 10.215.2.2/24 dev u0",
            "-n {0} addr add fd15::1/64 dev u0 nodad",
            "-n {1} addr add fd15::2/64 dev u0 nodad",
            "-n {0} link set u0 up",
            "-n {1} link set u0 up",
            "-n {0} neigh add fd15::2 lladdr 02:00:00:00:15:02 dev u0 nud permanent",
            "-n {1} neigh add fd15::1 lladdr 02:00:00:00:15:01 dev u0 nud permanent",
        ],
    )
}

fn tunnels(journey: &Value) -> Vec<&str> {
    journey["steps"].as_array().unwrap().iter().map(|s| s["tunnel"].as_str().unwrap()).collect()
}

/// Datagrams through a tunnel whose device has this name, at both ends.
fn assert_followed(spaces: &Spaces, kind: &str, device: &str) {
    let _echo = spaces.python(1, ECHO, &["10.216.2.2", "7021"]);
    let program = format!("filter: {{protocol: udp, port: 7021}}\n{AT_DEVICES}");
    let (lines, said) = traced(spaces, &[0, 1], &program, || {
        spaces.inside(0, &["python3", "-c", PINGS, "10.216.2.2", "7021", "50"]).unwrap();
    });
    let journeys = to_port(&lines, 7021, 60);
    assert_eq!(journeys.len(), 50, "{kind}: {said}");
    for journey in journeys {
        let all = [("queue", device), ("xmit", device), ("queue", "u0"), ("xmit", "u0"), ("receive", "u0")];
        let mut all: Vec<String> = all.iter().map(|(point, device)| format!("{point} {device}")).collect();
        all.push(format!("receive {device}"));
        assert_eq!(way(journey), all, "{kind}");
        assert_eq!(tunnels(journey), ["none", "none", kind, kind, kind, "none"], "{journey}");
    }
}

#[test]
fn datagrams_are_followed_through_tunnels_of_each_kind() {
    let test = "datagrams_are_followed_through_tunnels_of_each_kind";
    if !ready(test) {
        return;
    }
    if !std::path::Path::new("/dev/net/tun").exists() {
        return crate::harness::skip(test, "no /dev/net/tun");
    }
    for kind in ["geneve", "gre", "ipip"] {
        let Some(spaces) = made(test, linked(&format!("pt{}", &kind[..2]))) else { return };
        let (own, peer) = ("10.215.2.1", "10.215.2.2");
        let _near = spaces.python(0, TUNNEL, &[kind, own, peer, "10.216.2.1", "10.216.2.2"]);
        let _far = spaces.python(1, TUNNEL, &[kind, peer, own, "10.216.2.2", "10.216.2.1"]);
        assert_followed(&spaces, kind, "tun0");
    }
}

/// As above, with the kernel's own devices, where it has them.
fn through_device(test: &str, kind: &str, device: &str) {
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, linked(&format!("pk{}", &kind[..2]))) else { return };
    for (own, near, far, inner) in
        [(0, "10.215.2.1", "10.215.2.2", "10.216.2.1"), (1, "10.215.2.2", "10.215.2.1", "10.216.2.2")]
    {
        let device = device.replace("LOCAL", near).replace("REMOTE", far);
        let add = format!("link add name t0 type {device}");
        for line in [add.as_str(), &format!("addr add {inner}/24 dev t0"), "link set t0 up"] {
            let words: Vec<&str> = ["ip"].into_iter().chain(line.split(' ')).collect();
            if let Err(why) = spaces.inside(own, &words) {
                return crate::harness::skip(test, &crate::spaces::lacking(why));
            }
        }
    }
    assert_followed(&spaces, kind, "t0");
}

#[test]
fn datagrams_are_followed_through_a_device_of_geneve() {
    through_device("datagrams_are_followed_through_a_device_of_geneve", "geneve", "geneve id 7 remote REMOTE");
}

#[test]
fn datagrams_are_followed_through_a_device_of_gre() {
    let test = "datagrams_are_followed_through_a_device_of_gre";
    through_device(test, "gre", "gre local LOCAL remote REMOTE key 7");
}

#[test]
fn datagrams_are_followed_through_a_device_of_ipip() {
    through_device("datagrams_are_followed_through_a_device_of_ipip", "ipip", "ipip local LOCAL remote REMOTE");
}

#[test]
fn options_and_extension_headers_stand_before_the_ports() {
    let test = "options_and_extension_headers_stand_before_the_ports";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, linked("ph")) else { return };
    // No-operations and the end of the list for IPv4; hop-by-hop and destination options with padding for IPv6.
    for (port, address, option) in [
        ("7022", "10.215.2.2", "0:4:0101010101010100"),
        ("7023", "fd15::2", "41:54:0000010400000000"),
        ("7024", "fd15::2", "41:59:0000010400000000"),
    ] {
        let program = format!("filter: {{protocol: udp, destination_port: {port}}}\n{AT_DEVICES}");
        let (lines, said) = traced(&spaces, &[0, 1], &program, || {
            spaces.inside(0, &["python3", "-c", OPTIONS, address, port, "20", "300", option]).unwrap();
        });
        let journeys = to_port(&lines, port.parse().unwrap(), 300);
        assert_eq!(journeys.len(), 20, "{option}: {said}");
        for journey in journeys {
            assert_eq!(way(journey), ["queue u0", "xmit u0", "receive u0"], "{option}");
        }
    }
}

#[test]
fn each_fragment_has_a_way_of_its_own() {
    let test = "each_fragment_has_a_way_of_its_own";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, linked("pf")) else { return };
    for (port, address) in [("7025", "10.215.2.2"), ("7026", "fd15::2")] {
        let program = format!("filter: {{protocol: udp}}\n{AT_DEVICES}");
        let (lines, said) = traced(&spaces, &[0, 1], &program, || {
            spaces.inside(0, &["python3", "-c", OPTIONS, address, port, "20", "4000", "-"]).unwrap();
        });
        let number: u64 = port.parse().unwrap();
        let to = |line: &&Value| line["kind"] == "journey" && line["route"]["destination"] == address;
        let (first, later): (Vec<&Value>, Vec<&Value>) =
            lines.iter().filter(to).partition(|j| j["route"]["destination_port"] == number);
        // 4000 bytes are three packets of at most 1500.
        assert_eq!((first.len(), later.len()), (20, 40), "{address}: {said}");
        for journey in first.into_iter().chain(later) {
            assert_eq!(way(journey), ["queue u0", "xmit u0", "receive u0"], "{journey}");
        }
    }
}
