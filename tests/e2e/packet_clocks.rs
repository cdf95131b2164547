//! How narrow the bounds are that a few packets give for the clocks of two machines.

use crate::packet_meets::{run, Two};

/// So many different datagrams, each of which is answered by a different one.
const ASK: &str = "
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
s.connect((sys.argv[1], int(sys.argv[2])))
for n in range(5):
    s.send(b'question %d' % n)
    s.recv(100)
    time.sleep(0.001)
";

const ANSWER: &str = "
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], int(sys.argv[2])))
print('listening', file=sys.stderr, flush=True)
while True:
    data, peer = s.recvfrom(100)
    s.sendto(b'answer to ' + data, peer)
";

/// Another program may have the processors just then: so often it is tried.
const TRIES: u16 = 6;

#[test]
fn five_packets_each_way_bound_the_difference_of_two_clocks_within_ten_microseconds() {
    let test = "five_packets_each_way_bound_the_difference_of_two_clocks_within_ten_microseconds";
    let Some(two) = Two::start(test, "fc", false) else { return };
    let Two { folder, spaces, place, names, since_ns, .. } = &two;
    let mut widths = Vec::new();
    for port in 7061..7061 + TRIES {
        let file = folder.path().join("program.yaml");
        let filter = format!("filter: {{protocol: udp, port: {port}, netns: ./own}}\nwhere: [xmit, receive]");
        std::fs::write(&file, format!("{filter}\naction: [latency]\nfor: 5s\n")).unwrap();
        let port = port.to_string();
        let told = run(place, &file, || {
            let _server = spaces.python(1, ANSWER, &["10.214.1.2", &port]);
            spaces.inside(0, &["python3", "-c", ASK, "10.214.1.2", &port]).unwrap();
        });
        told.assert_true(1, &names[1], *since_ns);
        let (packets, clock) = told.windows.last_key_value().unwrap();
        assert_eq!(*packets, [5, 5], "{clock}");
        let [low, high] = ["low_ns", "high_ns"].map(|k| clock[k].as_f64().unwrap());
        widths.push(high - low);
        if high - low <= 10_000.0 {
            break;
        }
    }
    eprintln!("{widths:?} ns wide");
    assert!(widths.last().is_some_and(|width| *width <= 10_000.0), "{widths:?}");
    two.end();
}
