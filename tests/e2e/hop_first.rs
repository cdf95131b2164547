//! `--watch-packets`: the first request to a server has devices, whatever is known of the server before.

use crate::harness::{otlp, within, Running, Span, WIRESPAN};
use crate::hop_ways::shown;
use crate::hops::SERVER;
use crate::packets::{bridged, made, ready};
use std::path::Path;
use std::time::Duration;

/// When the file is there: one request, over a connection that is made before or after that.
const ONCE: &str = "
import http.client, os, sys, time
c = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=30)
if sys.argv[4] == 'before':
    c.connect()
print('listening', file=sys.stderr, flush=True)
while not os.path.exists(sys.argv[3]):
    time.sleep(0.01)
c.request('GET', '/watched/10')
c.getresponse().read()
open(sys.argv[3] + '.done', 'w').close()
time.sleep(60)
";

/// The devices of the only request, from its server's process up to the client's. Traces the client, the server, or
/// both.
fn devices(test: &str, tag: &str, port: &str, connects: &str, traced: [bool; 2]) -> Option<(Vec<String>, String)> {
    let spaces = made(test, bridged(tag))?;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    // At all addresses: the agent does not know under which one it is asked.
    let server = spaces.python(1, SERVER, &["0.0.0.0", port]);
    let client = spaces.python(0, ONCE, &["10.214.1.2", port, &path("go"), connects]);
    let file = path("spans");
    let mut args = vec!["up", "--no-ui", "--watch-packets", "/watched/10", "--otlp-file", &file];
    let pids = [client.pid(), server.pid()].map(|pid| pid.to_string());
    let chosen = pids.iter().zip(traced).filter(|(_, traced)| *traced);
    chosen.for_each(|(pid, _)| args.extend(["--pid", pid]));
    let mut agent = Running::start(WIRESPAN, &args);
    let begun = agent.wait_for("Ctrl-C ends");
    std::fs::write(path("go"), "").unwrap();
    within(Duration::from_secs(60), "the client is done", || std::fs::metadata(path("go.done")).ok());
    std::thread::sleep(Duration::from_millis(600));
    let said = begun + &agent.end().1;
    if !shown(test, &said) {
        return None;
    }
    let mut spans = otlp(Path::new(&file));
    spans.sort_by_key(|span| span.attr("wirespan.hop.position").to_owned());
    let device = |span: &Span| span.attr("network.interface.name").to_owned();
    Some((spans.iter().map(device).filter(|name| !name.is_empty()).collect(), said))
}

const ALL: [&str; 4] = ["eth0", "porta", "portb", "eth0"];

#[test]
fn a_traced_server_knows_its_first_client_at_any_address() {
    let test = "a_traced_server_knows_its_first_client_at_any_address";
    if !ready(test) {
        return;
    }
    if let Some((devices, said)) = devices(test, "f1", "7021", "after", [false, true]) {
        assert_eq!(devices, ALL, "{said}");
    }
}

#[test]
fn a_traced_client_knows_a_server_from_the_first_packet_on() {
    let test = "a_traced_client_knows_a_server_from_the_first_packet_on";
    if !ready(test) {
        return;
    }
    if let Some((devices, said)) = devices(test, "f2", "7022", "after", [true, false]) {
        assert_eq!(devices, ALL, "{said}");
    }
}

#[test]
fn a_connection_older_than_the_agent_has_devices_at_once() {
    let test = "a_connection_older_than_the_agent_has_devices_at_once";
    if !ready(test) {
        return;
    }
    if let Some((devices, said)) = devices(test, "f3", "7023", "before", [true, true]) {
        assert_eq!(devices, ALL, "{said}");
    }
}
