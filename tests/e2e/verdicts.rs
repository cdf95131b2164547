//! Verdicts: user space decides how a connection is copied, and the kernel sends accordingly. This is the only back
//! edge of the data flow.

use crate::harness::{can_trace, eventually};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use wirespan_capture::{Capture, Copy, Options, Targets, Verdict};
use wirespan_model::{DataEvent, Direction, Event, SocketId};

/// A traced process that sends its stdin to the test, and waits for an answer of four bytes each time.
struct Echo {
    child: Child,
    connection: TcpStream,
    capture: Capture,
    socket: SocketId,
}

const CLIENT: &str = "import socket, sys\n\
    s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n\
    for line in sys.stdin:\n\
    \x20   for part in line.strip().split('|'):\n\
    \x20       s.sendall(part.encode())\n\
    \x20   s.recv(4)\n";

impl Echo {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let options = Options { young_bytes: 0, payload_bytes: 16, ..Options::default() };
        let mut capture = Capture::open(&options, &Targets::default()).unwrap();
        let mut child = Command::new("sh")
            .args(["-c", "read _; exec python3 -u -c \"$0\" \"$1\"", CLIENT, &port])
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        capture.add_pid(child.id()).unwrap();
        child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        let connection = listener.accept().unwrap().0;
        let mut echo = Echo { child, connection, capture, socket: SocketId(0) };
        echo.socket = echo.exchange("first").first().unwrap().socket;
        echo
    }

    /// Makes one exchange and returns its data events, the answer's last.
    fn exchange(&mut self, line: &str) -> Vec<DataEvent> {
        self.ask(line);
        let mut events = Vec::new();
        eventually("the answer is seen", || {
            events.append(&mut self.events());
            events.last().is_some_and(|d: &DataEvent| d.direction == Direction::Ingress).then_some(())
        });
        events
    }

    fn ask(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
        let mut left = line.replace('|', "").len();
        let mut buffer = [0; 256];
        while left > 0 {
            left -= self.connection.read(&mut buffer).unwrap();
        }
        self.connection.write_all(b"done").unwrap();
    }

    fn events(&mut self) -> Vec<DataEvent> {
        let mut events = Vec::new();
        self.capture.drain(&mut events);
        events.into_iter().filter_map(|e| if let Event::Data(d) = e { Some(d) } else { None }).collect()
    }

    fn decide(&mut self, copy: Copy, bytes: u16) {
        self.capture
            .decide(&[(
                self.socket,
                Verdict {
                    copy,
                    bytes,
                    plaintext: false,
                    shared: false,
                    delivers: None,
                    one_way: false,
                    pipelined: false,
                    gathers: false,
                },
            )])
            .unwrap();
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn shape(events: &[DataEvent]) -> Vec<(Direction, u64, String)> {
    events.iter().map(|d| (d.direction, d.len, String::from_utf8_lossy(&d.payload).into_owned())).collect()
}

fn out(len: u64, payload: &str) -> (Direction, u64, String) {
    (Direction::Egress, len, payload.into())
}

fn back(payload: &str) -> (Direction, u64, String) {
    (Direction::Ingress, 4, payload.into())
}

#[test]
fn each_verdict_copies_the_bytes_that_it_names() {
    if !can_trace("verdicts") {
        return;
    }
    let mut echo = Echo::start();
    echo.decide(Copy::First, 8);
    assert_eq!(shape(&echo.exchange("0123456789|abc")), [out(10, "01234567"), out(3, "abc"), back("done")]);
    echo.decide(Copy::Every, 4);
    assert_eq!(shape(&echo.exchange("0123456789|abcdef")), [out(10, "0123"), out(6, "abcd"), back("done")]);
    echo.decide(Copy::Lengths, 0);
    assert_eq!(shape(&echo.exchange("0123456789")), [out(10, ""), back("")]);
    echo.decide(Copy::Ignore, 0);
    echo.ask("0123456789");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(shape(&echo.events()), []);
    // The kernel counted the exchanges meanwhile.
    echo.decide(Copy::First, 8);
    let last = echo.exchange("again");
    assert_eq!(shape(&last), [out(5, "again"), back("done")]);
    assert_eq!(last[0].exchange & 0xff_ffff, 6, "the sixth exchange of the socket");
}

#[test]
fn a_pair_comes_together_and_in_order() {
    if !can_trace("verdict_pair") {
        return;
    }
    let mut echo = Echo::start();
    echo.decide(Copy::Pair, 8);
    assert_eq!(shape(&echo.exchange("0123456789")), [out(10, "01234567"), back("done")]);
    // A second call of the request makes the kernel send the first one.
    assert_eq!(shape(&echo.exchange("0123456789|abc")), [out(10, "01234567"), out(3, "abc"), back("done")]);
    let paired = |echo: &Echo| echo.capture.counters().iter().find(|c| c.0 == "paired").unwrap().1;
    assert_eq!(paired(&echo), 2);
    // Each call keeps its own times and sequence numbers.
    let events = echo.exchange("hello");
    assert!(events[0].exit_ns < events[1].exit_ns && events[0].exchange == events[1].exchange);
    assert_eq!(paired(&echo), 3);
    // A waiting call is not lost when the verdict changes or the connection ends.
    writeln!(echo.child.stdin.as_mut().unwrap(), "orphan").unwrap();
    echo.connection.read_exact(&mut [0; 6]).unwrap();
    assert_eq!(shape(&echo.events()), []);
    let _ = echo.child.kill();
    let orphan = eventually("the request that got no answer", || echo.events().into_iter().next());
    assert_eq!(shape(&[orphan]), [out(6, "orphan")]);
}
