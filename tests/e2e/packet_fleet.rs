//! Packet programs that run on the agents of a server.

use crate::harness::{wirespan, within, Running, WIRESPAN};
use crate::packet_changes::SENDER;
use crate::packets::{made, ready, ECHO};
use crate::running::reader;
use crate::spaces::Spaces;
use crate::split::{Place, UI_TOKEN};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// The name of this host and a process, as agents on one host are told apart.
pub(crate) fn named(agent: &Running) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    format!("{}/{}", host.trim(), agent.pid())
}

fn program(folder: &Path, text: &str) -> PathBuf {
    let file = folder.join("program.yaml");
    std::fs::write(&file, text).unwrap();
    file
}

/// Waits for the end of a client: the lines that it told, and what it said.
pub(crate) fn ended(client: Running, stdout: &Receiver<Vec<u8>>) -> (Vec<Value>, String) {
    let done = client.finish(Duration::from_secs(60));
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{said}");
    let told = String::from_utf8(stdout.recv_timeout(Duration::from_secs(10)).unwrap()).unwrap();
    (told.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), said)
}

/// Lines of one kind of one agent.
fn of<'a>(lines: &'a [Value], kind: &str, agent: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["kind"] == kind && line["agent"] == agent).collect()
}

#[test]
fn agents_that_let_a_server_run_a_program_and_one_that_vanishes() {
    let test = "agents_that_let_a_server_run_a_program_and_one_that_vanishes";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, Spaces::pair("fl")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let stop = folder.path().join("stop").to_str().unwrap().to_owned();
    let _echo = spaces.python(1, ECHO, &["10.214.1.2", "7041"]);
    let place = Place::new(folder.path());
    let server = place.serve(&["--ui-token", UI_TOKEN].map(Path::new));
    // Each has a process of its own to trace.
    let targets = [(); 3].map(|()| Running::start("sleep", &["120"]));
    let start =
        |n: usize, more: &[&str]| place.trace(targets[n].pid(), &more.iter().map(Path::new).collect::<Vec<_>>());
    let whole = start(0, &["--packet-programs"]);
    let mut vanishes = start(1, &["--packet-programs"]);
    let unwilling = start(2, &[]);
    let names = [&whole, &vanishes, &unwilling].map(named);
    let token = folder.path().join("token");
    std::fs::write(&token, format!("{UI_TOKEN}\n")).unwrap();
    let (token, ui) = (token.to_str().unwrap(), place.ui());
    let text = format!(
        "filter: {{protocol: udp, destination_port: 7041, netns: [{}, {}]}}\nwhere: [queue, receive]\n\
         action: [record, count, latency]\nfor: 60s\n",
        spaces.name(0),
        spaces.name(1)
    );
    let file = program(folder.path(), &text);
    let all = ["packet", file.to_str().unwrap(), "--fleet", "--server", ui, "--token-file", token, "--format", "json"];
    let copy = folder.path().join("copy.pcapng");

    let mut client = Running::start(WIRESPAN, &[&all[..], &["--pcapng", copy.to_str().unwrap()]].concat());
    let asked = client.wait_for("wirespan: asked ");
    assert!(asked.contains("3 agents"), "{asked}");
    // An agent does not see what is sent before its programs are attached.
    client.wait_for("packets are seen at 2 of 3 agents");
    let stdout = reader(client.0.stdout.take());
    let sender = spaces.python(0, SENDER, &["10.214.1.2", "7041", &stop]);
    // Both have told something when one vanishes.
    std::thread::sleep(Duration::from_secs(4));
    vanishes.0.kill().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    std::fs::write(&stop, "").unwrap();
    let sent: u64 = String::from_utf8(sender.finish(Duration::from_secs(30)).stdout).unwrap().trim().parse().unwrap();
    client.signal(rustix::process::Signal::TERM);
    let (lines, said) = ended(client, &stdout);

    // The one that stays tells each packet at both points.
    let counts = of(&lines, "count", &names[0]);
    assert_eq!(counts.len(), 2, "{counts:?} {said}");
    counts.iter().for_each(|row| assert_eq!(row["packets"], sent, "{row}"));
    assert_eq!(of(&lines, "packet", &names[0]).len() as u64, 2 * sent, "{said}");
    assert!(!of(&lines, "latency", &names[0]).is_empty(), "{said}");
    // The one that vanishes has told a part, and is named.
    let part = of(&lines, "count", &names[1]);
    let told_by = |row: &&&Value| row["packets"].as_u64().unwrap();
    assert!(!part.is_empty() && part.iter().all(|row| (1..sent).contains(&told_by(&row))), "{part:?} {sent}");
    let state = |n: usize| of(&lines, "agent", &names[n])[0]["state"].clone();
    assert_eq!([state(0), state(1), state(2)], ["ended", "gone", "refused"], "{said}");
    let incomplete = of(&lines, "agent", &names[1])[0]["incomplete"].as_u64().unwrap();
    assert!(said.contains(&format!("partial: {} is gone", names[1])), "{said}");
    // None were under way if it told its tables just after the last journeys.
    assert!(said.contains(&format!("{incomplete} packets that were under way are left out")), "{said}");
    assert!(said.contains(&format!("{} has not run the program: it was started without", names[2])), "{said}");
    let end = &lines[lines.len() - 1];
    assert_eq!((&end["kind"], &end["complete"]), (&"end".into(), &false.into()), "{end}");

    // Each packet of both is in the copy, under the name of its agent.
    let copy = std::fs::read(&copy).unwrap();
    for name in &names[..2] {
        let comment = format!(", at {name}");
        let in_copy = copy.windows(comment.len()).filter(|bytes| *bytes == comment.as_bytes()).count();
        assert_eq!(in_copy, of(&lines, "packet", name).len(), "{name}");
    }

    refusals(&place, &names, folder.path(), token);
    for agent in [whole, unwilling] {
        agent.end();
    }
    vanishes.0.wait().unwrap();
    server.end();
}

/// What is refused, and why, before anything is attached.
fn refusals(place: &Place, names: &[String; 3], folder: &Path, token: &str) {
    let right = program(folder, "filter: {protocol: udp, port: 7042}\nfor: 1s\n");
    let ask = |file: &Path, more: &[&str]| {
        let done = wirespan(&[&["packet", file.to_str().unwrap(), "--server", place.ui()], more].concat());
        (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let other = folder.join("other");
    std::fs::write(&other, "guessed\n").unwrap();
    let (done, said) = ask(&right, &["--fleet", "--token-file", other.to_str().unwrap()]);
    assert!(!done && said.contains("token"), "{said}");
    let (done, said) = ask(&right, &["--fleet", "--token-file", "/no/such/file"]);
    assert!(!done && said.contains("/no/such/file"), "{said}");
    // Only the one that was started without the flag.
    let (done, said) = ask(&right, &["--agent", &names[2], "--token-file", token]);
    assert!(!done && said.contains("it was started without --packet-programs"), "{said}");
    let (done, said) = ask(&right, &["--agent", "no-such-host", "--token-file", token]);
    assert!(!done && said.contains("no agent `no-such-host` is connected"), "{said}");
    let wrong = program(folder, "filter:\n  prot: udp\n");
    let (done, said) = ask(&wrong, &["--fleet", "--token-file", token]);
    assert!(!done && said.contains("line 2: unknown key `prot`"), "{said}");
    let wrong = program(folder, "filter: {netns: no-such-namespace}\nfor: 1s\n");
    let (done, said) = ask(&wrong, &["--agent", &names[0], "--token-file", token]);
    assert!(!done && said.contains("no-such-namespace"), "of that agent: {said}");
    let wrong = program(folder, "action: [count]\n");
    let (done, said) = ask(&wrong, &["--fleet", "--token-file", token]);
    assert!(!done && said.contains("give it a `filter`"), "{said}");
}

/// A client that ends early ends the program at the agents, and has what they saw until then.
#[test]
fn the_program_of_a_client_that_ends_is_ended_at_the_agents() {
    let test = "the_program_of_a_client_that_ends_is_ended_at_the_agents";
    if !ready(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path());
    let server = place.serve(&["--ui-token", UI_TOKEN].map(Path::new));
    let agent = place.trace(std::process::id(), &[Path::new("--packet-programs")]);
    let file = program(folder.path(), "filter: {protocol: udp, port: 7043}\nfor: 10m\n");
    let args = ["packet", file.to_str().unwrap(), "--fleet", "--server", place.ui(), "--ui-token", UI_TOKEN];
    let mut client = Running::start(WIRESPAN, &args);
    client.wait_for("wirespan: asked ");
    // Another program is not run meanwhile.
    let second = wirespan(&args);
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success() && said.contains("another packet program"), "{said}");
    client.signal(rustix::process::Signal::TERM);
    let done = client.finish(Duration::from_secs(30));
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success() && text.contains("ended: 0 sightings"), "{text}");
    let free = || wirespan(&[&args[..], &["--agent", "nobody"]].concat());
    within(Duration::from_secs(10), "the server is free", || {
        String::from_utf8_lossy(&free().stderr).contains("no agent `nobody`").then_some(())
    });
    agent.end();
    server.end();
}

/// A server of HTTP on this port.
const HTTP: &str = "
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header('content-length', '2')
        self.end_headers()
        self.wfile.write(b'ok')
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Handler)
print('listening', file=sys.stderr, flush=True)
server.serve_forever()
";

#[test]
fn a_program_of_agents_chooses_packets_by_the_spans_of_their_server() {
    let test = "a_program_of_agents_chooses_packets_by_the_spans_of_their_server";
    if !ready(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path());
    let server = place.serve(&[]);
    let ports = [(); 2].map(|()| crate::split::free_port().to_string());
    let [shop, other] = [0, 1].map(|n| {
        let mut running = Running::start("python3", &["-c", HTTP, &ports[n]]);
        running.wait_for("listening");
        running
    });
    let agent = place.trace(shop.pid(), &[Path::new("--packet-programs")]);
    let ask = |n: usize| drop(ureq::get(format!("http://127.0.0.1:{}/asked", ports[n])).call().unwrap());
    let file = program(folder.path(), "filter: {endpoint: /asked}\naction: [record]\nfor: 4s\n");
    let args = ["packet", file.to_str().unwrap(), "--fleet", "--server", place.ui(), "--format", "json"];
    let unknown = wirespan(&args);
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(!unknown.status.success() && said.contains("no server is known"), "{said}");
    ask(0);
    within(Duration::from_secs(20), "the server has the span", || {
        let found = wirespan(&["traces", "--server", place.ui(), "endpoint=/asked", "--format", "json"]);
        (!found.stdout.is_empty()).then_some(())
    });
    let mut client = Running::start(WIRESPAN, &args);
    client.wait_for("packets are seen at 1 of 1 agents");
    let stdout = reader(client.0.stdout.take());
    for _ in 0..30 {
        ask(0);
        ask(1);
        std::thread::sleep(Duration::from_millis(100));
    }
    let (lines, said) = ended(client, &stdout);
    assert!(said.contains(&format!("packets from and to 127.0.0.1:{}", ports[0])), "{said}");
    let packets: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "packet").collect();
    let port = |packet: &Value, key: &str| packet["route"][key].to_string();
    let of_shop = |p: &&&Value| port(p, "source_port") == ports[0] || port(p, "destination_port") == ports[0];
    assert!(packets.len() > 20 && packets.iter().filter(of_shop).count() == packets.len(), "{said} {lines:?}");
    agent.end();
    server.end();
    for running in [shop, other] {
        drop(running);
    }
}
