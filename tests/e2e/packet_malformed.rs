//! Bytes on the wire that are not as they should be: the kernel's parser reads no byte too many, and a receiver keeps
//! its data.

use crate::harness::Running;
use crate::packet_headers::linked;
use crate::packets::{made, of_kind, ready, traced};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Writes frames to the device u0, and to a file: one in hex a line. Frames of each kind whose headers are changed at
/// each offset, or that end there; then twenty of each kind as they should be.
const FRAMES: &str = "
import socket, struct, sys, time
E = bytes.fromhex('020000001502' '020000001501')
def ip4(protocol, body, options=b''):
    h = struct.pack('!BBHHHBBH', 0x45 + len(options) // 4, 0, 20 + len(options) + len(body), 7, 0, 64, protocol, 0)
    h += socket.inet_aton('10.215.2.1') + socket.inet_aton('10.215.2.2') + options
    s = sum(struct.unpack('!%dH' % (len(h) // 2), h))
    s = (s & 0xffff) + (s >> 16)
    s = ~((s & 0xffff) + (s >> 16)) & 0xffff
    return h[:10] + struct.pack('!H', s) + h[12:] + body
def ip6(next, body):
    a = [socket.inet_pton(socket.AF_INET6, x) for x in ('fd15::1', 'fd15::2')]
    return struct.pack('!IHBB', 6 << 28, len(body), next, 64) + a[0] + a[1] + body
P = b'P' * 40
def udp(port, body):
    return struct.pack('!HHHH', 9, port, 8 + len(body), 0) + body
tcp = struct.pack('!HHIIBBHHH', 9, 7140, 1, 1, 8 << 4, 0x10, 100, 0, 0) + b'\\x01\\x01\\x08\\x0a' + bytes(8) + P
pad = b'\\x01\\x04' + bytes(4)
four, six = b'\\x08\\x00', b'\\x86\\xdd'
inner = E + four + ip4(17, udp(7140, P))
frames = [
    E + four + ip4(6, tcp, b'\\x01' * 7 + b'\\x00'),
    E + six + ip6(0, b'\\x3c\\x00' + pad + b'\\x2c\\x00' + pad + b'\\x11' + bytes(6) + b'\\x07' + udp(7140, P)),
    E + six + ip6(6, tcp),
    E + four + ip4(17, udp(4789, b'\\x08\\x00\\x00\\x00\\x00\\x00\\x07\\x00' + inner)),
    E + four + ip4(17, udp(6081, b'\\x02\\x00\\x65\\x58\\x00\\x00\\x07\\x00' + bytes(8) + inner)),
    E + four + ip4(47, b'\\x20\\x00\\x08\\x00\\x00\\x00\\x00\\x07' + ip4(17, udp(7140, P))),
    E + four + ip4(4, ip4(1, b'\\x08\\x00\\x00\\x00\\x00\\x01\\x00\\x02' + P)),
]
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(('u0', 0))
with open(sys.argv[1], 'w') as out:
    def send(f, kind):
        out.write(f'{kind} {f.hex()}\\n')
        s.send(f)
    for f in frames:
        for at in range(14, len(f) - 40):
            for value in {0, 0xff, f[at] ^ 0x80, (f[at] + 1) & 255} - {f[at]}:
                send(f[:at] + bytes([value]) + f[at + 1:], 'wrong')
            send(f[:at], 'cut')
        time.sleep(0.05)
    for f in frames:
        for n in range(20):
            send(f, 'right')
            time.sleep(0.001)
";

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn headers_that_are_wrong_at_any_offset_are_read_no_further_than_they_go() {
    let test = "headers_that_are_wrong_at_any_offset_are_read_no_further_than_they_go";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, linked("mh")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let sent = folder.path().join("sent");
    let program = "where: [queue, xmit, receive, drop, copied]\naction: [record, count, loss, snap: 192]\nby: flow\n";
    let (lines, said) = traced(&spaces, &[0, 1], program, || {
        spaces.inside(0, &["python3", "-c", FRAMES, sent.to_str().unwrap()]).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(500));
    });
    let text = std::fs::read_to_string(&sent).unwrap();
    let frames: Vec<(&str, Vec<u8>)> =
        text.lines().map(|line| line.split_once(' ').unwrap()).map(|(kind, hex)| (kind, bytes(hex))).collect();
    assert!(frames.len() > 2_000, "{}", frames.len());
    let unreadable: u64 = said
        .lines()
        .find_map(|line| line.split_once("wirespan: ")?.1.split_once(" packets had headers")?.0.parse().ok())
        .unwrap_or(0);
    assert!(unreadable > 500, "cut headers are counted: {said}");
    // What is told of a frame is its beginning. The kernel itself may change options of a packet that it then drops.
    let own = |p: &&&Value| matches!(p["point"].as_str(), Some("queue" | "xmit" | "receive")) && p["device"] == "u0";
    let all = of_kind(&lines, "packet");
    let packets: Vec<_> = all.iter().filter(own).filter(|p| p["headers"]["link_len"] == 14).collect();
    let mut told = 0;
    let mut by_headers: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for packet in packets {
        let headers = bytes(packet["headers"]["bytes"].as_str().unwrap());
        *by_headers.entry(headers).or_default() += 1;
        told += 1;
    }
    assert!(told > 2_000, "{told} {said}");
    for headers in by_headers.keys().filter(|headers| headers[..6] == [2, 0, 0, 0, 0x15, 2]) {
        assert!(frames.iter().any(|(_, frame)| frame.starts_with(headers)), "nobody sent this: {headers:02x?}");
    }
    // Each frame that is right is told at all three points, with all of its headers and no payload.
    let right: std::collections::BTreeSet<&Vec<u8>> =
        frames.iter().filter(|(kind, _)| *kind == "right").map(|(_, frame)| frame).collect();
    assert_eq!(right.len(), 7);
    for frame in right {
        let headers = frame[..frame.len() - 40].to_vec();
        assert!(by_headers.get(&headers).is_some_and(|n| *n >= 60), "{:?} {frame:02x?}", by_headers.get(&headers));
    }
}

/// A peer without a kernel of its own: it shakes hands, sends a request of 30 bytes in three segments and reads the
/// answer. Each of its segments has an option of TCP that nobody knows. Arguments: own address, the server's, port.
const STRANGER: &str = "
import socket, struct, sys, time
own, server, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
six = ':' in own
family = socket.AF_INET6 if six else socket.AF_INET
a, b = (socket.inet_pton(family, x) for x in (own, server))
E = bytes.fromhex('020000001502' '020000001577')
kind = b'\\x86\\xdd' if six else b'\\x08\\x00'
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.bind(('u0', 3))
s.setsockopt(263, 1, struct.pack('iHH8s', socket.if_nametoindex('u0'), 1, 0, b''))
s.settimeout(0.5)
unknown = b'\\xfd\\x1c\\x57\\x53' + b'\\x42' * 24
def checksum(x):
    x += bytes(len(x) % 2)
    t = sum(struct.unpack('!%dH' % (len(x) // 2), x))
    while t >> 16:
        t = (t & 0xffff) + (t >> 16)
    return ~t & 0xffff
def send(seq, ack, flags, data=b''):
    h = struct.pack('!HHIIBBHHH', 40000, port, seq, ack, 12 << 4, flags, 60000, 0, 0) + unknown
    pseudo = a + b + (struct.pack('!II', len(h + data), 6) if six else struct.pack('!HH', 6, len(h + data)))
    h = h[:16] + struct.pack('!H', checksum(pseudo + h + data)) + h[18:]
    if six:
        ip = struct.pack('!IHBB', 6 << 28, len(h + data), 6, 64) + a + b
    else:
        ip = struct.pack('!BBHHHBBH', 0x45, 0, 20 + len(h + data), 1, 0, 64, 6, 0) + a + b
        ip = ip[:10] + struct.pack('!H', checksum(ip)) + ip[12:]
    s.send(E + kind + ip + h + data)
def receive(wanted):
    end = time.time() + 10
    while time.time() < end:
        try:
            f = s.recv(2000)
        except TimeoutError:
            continue
        at = 14 + (40 if six else 20)
        if f[12:14] != kind or f[at - (32 if six else 8):at - (16 if six else 4)] != b or f[(20 if six else 23)] != 6:
            continue
        sport, dport, seq, ack, off, flags = struct.unpack('!HHIIBB', f[at:at + 14])
        if sport != port or dport != 40000:
            continue
        total = struct.unpack('!H', f[18:20])[0] + 54 if six else struct.unpack('!H', f[16:18])[0] + 14
        data = f[at + (off >> 4) * 4:total]
        if flags & 4:
            sys.exit('reset by the server')
        if wanted(flags, data):
            return seq, ack, data
    sys.exit('no answer')
send(1000, 0, 2)
theirs, ack, _ = receive(lambda flags, data: flags & 0x12 == 0x12)
send(1001, theirs + 1, 0x10)
for n in range(3):
    send(1001 + 10 * n, theirs + 1, 0x18, b'%010d' % n)
_, ack, data = receive(lambda flags, data: data)
print(ack - 1001, data.decode())
send(1031, theirs + 1 + len(data), 0x14)
";

/// Answers 30 bytes with what it got.
const READER: &str = "
import socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
s = socket.create_server((sys.argv[1], int(sys.argv[2])), family=family)
print('listening', file=sys.stderr, flush=True)
while True:
    c, _ = s.accept()
    got = b''
    while len(got) < 30:
        got += c.recv(100)
    c.sendall(b'got ' + got)
";

#[test]
fn a_receiver_passes_over_an_option_of_tcp_that_it_does_not_know() {
    let test = "a_receiver_passes_over_an_option_of_tcp_that_it_does_not_know";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, linked("mo")) else { return };
    for (stranger, server, port) in [("10.215.2.77", "10.215.2.2", "7141"), ("fd15::77", "fd15::2", "7142")] {
        // The stranger's address is known, and nobody has it: so no kernel answers in its place.
        let neighbour = format!("neigh add {stranger} lladdr 02:00:00:00:15:77 dev u0 nud permanent");
        let words: Vec<&str> = ["ip"].into_iter().chain(neighbour.split(' ')).collect();
        spaces.inside(1, &words).unwrap();
        let reader: Running = spaces.python(1, READER, &[server, port]);
        // The server is traced as well, so that the programs at its sockets see the option, too.
        let folder = tempfile::tempdir().unwrap();
        let agent = crate::harness::tracing(&[reader.pid()], Path::new(&folder.path().join("spans")));
        let program = format!("filter: {{protocol: tcp, port: {port}}}\naction: [record, journeys, snap: 192]\n");
        let mut answer = String::new();
        let (lines, said) = traced(&spaces, &[1], &program, || {
            answer = spaces.inside(0, &["python3", "-c", STRANGER, stranger, server, port]).unwrap();
        });
        assert_eq!(answer.trim(), "30 got 000000000000000000010000000002", "{said}");
        agent.end();
        let all = of_kind(&lines, "packet");
        let with_data = all.iter().filter(|p| p["point"] == "tcp" && p["len"] == 10);
        let option = "fd1c5753".to_owned() + &"42".repeat(24);
        let told: Vec<_> = with_data.map(|p| p["headers"]["bytes"].as_str().unwrap().ends_with(&option)).collect();
        assert_eq!(told, [true; 3], "each segment came with its option to the connection: {said}");
        let journeys = of_kind(&lines, "journey");
        let copied = |j: &&&Value| {
            j["len"] == 10 && j["steps"].as_array().is_some_and(|s| s.iter().any(|s| s["point"] == "copied"))
        };
        assert_eq!(journeys.iter().filter(copied).count(), 3, "{said}");
    }
}
