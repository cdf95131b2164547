//! `wirespan packet` with `trace` while the trace happens: the packets of one request, among all others.

use crate::harness::{wirespan, within, Running, WIRESPAN};
use crate::hops::{bytes_at, free_port, packets, SERVER};
use crate::packets::{bridged, made, ready};
use serde_json::Value;
use std::time::Duration;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// When the file is there: requests of which one large one carries the id of the trace.
const CLIENT: &str = "
import http.client, os, sys, time
print('listening', file=sys.stderr, flush=True)
while not os.path.exists(sys.argv[3]):
    time.sleep(0.01)
c = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=30)
def ask(method, path, body=None, headers={}):
    c.request(method, path, body, headers)
    c.getresponse().read()
    time.sleep(0.05)
for n in range(5):
    ask('POST', '/other/10', b'y' * 100000)
ask('POST', '/large/10', b'y' * 1000000, {'traceparent': '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'})
for n in range(5):
    ask('POST', '/other/10', b'y' * 100000)
open(sys.argv[3] + '.done', 'w').close()
time.sleep(60)
";

#[test]
fn packets_of_a_trace_are_told_once_its_spans_come() {
    let test = "packets_of_a_trace_are_told_once_its_spans_come";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, bridged("pt")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let server = spaces.python(1, SERVER, &["10.214.1.2", "7031"]);
    let client = spaces.python(0, CLIENT, &["10.214.1.2", "7031", &path("go")]);
    let ui = format!("127.0.0.1:{}", free_port());
    let (server, client) = (&server.pid().to_string(), &client.pid().to_string());
    let mut agent = Running::start(WIRESPAN, &["up", "--ui", &ui, "--pid", server, "--pid", client]);
    agent.wait_for("Ctrl-C ends");
    let spaces_of: Vec<&str> = (0..3).map(|n| spaces.name(n)).collect();
    let args = [&["--server", &ui, "--netns"][..], &spaces_of].concat();
    let program = format!("filter: {{protocol: tcp, trace: '{TRACE}'}}\naction: [record]\nfor: 60s\n");
    let (lines, said) = packets(&program, folder.path(), &args, || {
        std::fs::write(path("go"), "").unwrap();
        within(Duration::from_secs(60), "the client is done", || std::fs::metadata(path("go.done")).ok());
    });
    let seen: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "packet").collect();
    let bytes = bytes_at("porta", &seen);
    // All of the request and its answer, and nothing of the ten others, which took the same connection.
    assert!((1_000_000..1_050_000).contains(&bytes), "{bytes} of {} packets: {said}", seen.len());
    let times: Vec<u64> = seen.iter().map(|p| p["time_ns"].as_u64().unwrap()).collect();
    assert!(times.windows(2).all(|w| w[0] <= w[1] + 1_000_000), "in the order of time");

    // Later there is nothing to wait for.
    std::thread::sleep(Duration::from_secs(11));
    let file = path("program.yaml");
    let done = wirespan(&[&["packet", &file][..], &args].concat());
    let why = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && why.contains("this trace is over"), "{why}");
}
