//! Packet programs that change while they run: no packet is missed, and none is told twice.

use crate::harness::{wirespan, within, Running, WIRESPAN};
use crate::packet_fleet::named;
use crate::packets::{made, ready, ECHO};
use crate::running::reader;
use crate::spaces::Spaces;
use crate::split::Place;
use crate::trace_why::get;
use serde_json::{json, Value};
use std::path::Path;
use std::time::Duration;

/// Sends datagrams without a pause longer than a millisecond until the file is there, then says how many.
pub(crate) const SENDER: &str = "
import os, socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
n = 0
while n % 10 or not os.path.exists(sys.argv[3]):
    s.sendto(b'z' * 60, (sys.argv[1], int(sys.argv[2])))
    n += 1
    if n == 1:
        print('listening', file=sys.stderr, flush=True)
    time.sleep(0.001)
print(n, flush=True)
";

fn program(port: u16, points: &str, actions: &str, spaces: &Spaces) -> String {
    let netns = format!("[{}, {}]", spaces.name(0), spaces.name(1));
    let filter = format!("{{protocol: udp, destination_port: {port}, netns: {netns}}}");
    format!("filter: {filter}\nwhere: {points}\naction: {actions}\nfor: 60s\n")
}

/// The packets that were counted at `queue eth0` in the first namespace.
fn at_queue(counted: impl Iterator<Item = (String, u64)>) -> u64 {
    counted.filter(|(point, _)| point == "queue").map(|(_, packets)| packets).sum()
}

#[test]
fn a_program_changes_with_its_file_without_a_gap() {
    let test = "a_program_changes_with_its_file_without_a_gap";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, Spaces::pair("pc")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, stop) = (path("program.yaml"), path("stop"));
    std::fs::write(&file, program(7030, "[queue]", "[count]", &spaces)).unwrap();
    let mut running = Running::start(WIRESPAN, &["packet", &file, "--format", "json"]);
    running.wait_for("packets are seen");
    let _echo = spaces.python(1, ECHO, &["10.214.1.2", "7030"]);
    let sender = spaces.python(0, SENDER, &["10.214.1.2", "7030", &stop]);
    // A wrong program changes nothing.
    for (points, said) in [
        ("[queue, xmit]", "without a gap"),
        ("[queue, xmitt]", "goes on as it was"),
        ("[queue, receive]", "without a gap"),
    ] {
        std::fs::write(&file, program(7030, points, "[count]", &spaces)).unwrap();
        running.wait_for(said);
    }
    assert_no_gap(running, sender, &stop);
}

#[test]
fn a_program_is_replaced_by_another_command_without_a_gap() {
    let test = "a_program_is_replaced_by_another_command_without_a_gap";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, Spaces::pair("pr")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, other, stop) = (path("program.yaml"), path("other.yaml"), path("stop"));
    std::fs::write(&file, program(7034, "[queue]", "[count]", &spaces)).unwrap();
    let mut running = Running::start(WIRESPAN, &["packet", &file, "--format", "json"]);
    running.wait_for("packets are seen");
    let pid = running.pid();
    let replace = |of: u32, text: &str| {
        std::fs::write(&other, text).unwrap();
        let done = wirespan(&["packet", &other, &format!("--replace={of}")]);
        (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let _echo = spaces.python(1, ECHO, &["10.214.1.2", "7034"]);
    let sender = spaces.python(0, SENDER, &["10.214.1.2", "7034", &stop]);
    // Wrong programs change nothing: one is refused by the command that brings it, the other by the one that runs.
    let nowhere = program(7034, "[queue]", "[count]", &spaces).replace("netns: [", "netns: [no-such-space, ");
    for (of, text, fits, said) in [
        (pid, program(7034, "[queue, xmit]", "[count]", &spaces), true, "has changed, without a gap"),
        (pid, program(7034, "[queu]", "[count]", &spaces), false, "line 2"),
        (pid, nowhere, false, "goes on with its program as it was"),
        (std::process::id(), program(7034, "[drop]", "[count]", &spaces), false, "runs no packet program"),
        (pid, program(7034, "[queue, receive]", "[count]", &spaces), true, "has changed, without a gap"),
    ] {
        let (done, why) = replace(of, &text);
        assert!(done == fits && why.contains(said), "{said}: {why}");
    }
    assert_no_gap(running, sender, &stop);
    // Nothing runs any more, and its place is free.
    let (done, why) = replace(pid, &program(7034, "[queue]", "[count]", &spaces));
    assert!(!done && why.contains("runs no packet program"), "{why}");
}

/// Ends a program that was `[queue]`, then `[queue, xmit]`, then `[queue, receive]` while packets were sent: it has
/// told all of them.
fn assert_no_gap(mut running: Running, sender: Running, stop: &str) {
    std::fs::write(stop, "").unwrap();
    let sent = String::from_utf8(sender.finish(Duration::from_secs(30)).stdout).unwrap();
    let stdout = reader(running.0.stdout.take());
    running.signal(rustix::process::Signal::TERM);
    let done = running.finish(Duration::from_secs(60));
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let text = String::from_utf8(stdout.recv_timeout(Duration::from_secs(30)).unwrap()).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let counts: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "count").collect();
    let points: Vec<&str> = counts.iter().map(|c| c["place"]["point"].as_str().unwrap()).collect();
    assert_eq!(points, ["queue", "xmit", "receive"], "{text}");
    let counted = counts.iter().map(|c| (c["place"]["point"].as_str().unwrap().to_owned(), packets_of(c)));
    assert_told(sent.trim().parse().unwrap(), at_queue(counted), said.contains("were missed"), &said);
}

fn packets_of(row: &Value) -> u64 {
    row["packets"].as_u64().unwrap()
}

/// Each packet was told once. What an interrupt hides from the kernel's programs is counted apart.
fn assert_told(sent: u64, told: u64, some_missed: bool, said: &str) {
    assert!(sent > 100, "{sent}");
    let fits = if some_missed { told <= sent && told + sent / 20 >= sent } else { told == sent };
    assert!(fits, "{told} of {sent} packets\n{said}");
}

#[test]
fn a_program_of_agents_changes_with_its_file_without_a_gap() {
    let test = "a_program_of_agents_changes_with_its_file_without_a_gap";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, Spaces::pair("pf")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, stop) = (path("program.yaml"), path("stop"));
    let place = Place::new(folder.path());
    let server = place.serve(&[]);
    let targets = [(); 2].map(|()| Running::start("sleep", &["300"]));
    let agents = [0, 1].map(|n| place.trace(targets[n].pid(), &[Path::new("--packet-programs")]));
    std::fs::write(&file, program(7033, "[queue]", "[count]", &spaces)).unwrap();
    let args = ["packet", &file, "--fleet", "--server", place.ui(), "--format", "json"];
    let mut client = Running::start(WIRESPAN, &args);
    client.wait_for("asked 2 agents");
    let runs = || {
        let now = get(place.ui(), "packets/agents");
        now["agents"].as_array().unwrap().iter().all(|agent| agent["state"] == "running").then_some(())
    };
    within(Duration::from_secs(30), "both agents run it", runs);
    let _echo = spaces.python(1, ECHO, &["10.214.1.2", "7033"]);
    let sender = spaces.python(0, SENDER, &["10.214.1.2", "7033", &stop]);
    // Wrong programs change nothing: one is refused here, the other by the agents.
    let nowhere = program(7033, "[queue]", "[count]", &spaces).replace("netns: [", "netns: [no-such-space, ");
    for (text, said) in [
        (program(7033, "[queue, xmit]", "[count]", &spaces), "has changed at 2 agents, without a gap"),
        (program(7033, "[queue, xmitt]", "[count]", &spaces), "the program goes on as it was"),
        (nowhere, "has changed at 0 agents"),
        (program(7033, "[queue, receive]", "[count]", &spaces), "has changed at 2 agents, without a gap"),
    ] {
        std::fs::write(&file, text).unwrap();
        client.wait_for(said);
    }
    // Another command puts its program in the place of this one.
    let other = path("other.yaml");
    let replace = |text: &str| {
        std::fs::write(&other, text).unwrap();
        let done = wirespan(&["packet", &other, "--fleet", "--replace", "--server", place.ui()]);
        (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (refused, why) = replace(&program(7033, "[queu]", "[count]", &spaces));
    assert!(!refused && why.contains("line 2"), "{why}");
    let (done, said) = replace(&program(7033, "[queue, xmit, receive]", "[count]", &spaces));
    assert!(done && said.contains("has changed at 2 agents, without a gap"), "{said}");
    std::fs::write(&stop, "").unwrap();
    let sent = String::from_utf8(sender.finish(Duration::from_secs(30)).stdout).unwrap();
    let stdout = reader(client.0.stdout.take());
    client.signal(rustix::process::Signal::TERM);
    let done = client.finish(Duration::from_secs(60));
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let text = String::from_utf8(stdout.recv_timeout(Duration::from_secs(30)).unwrap()).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["kind"] == "end" && line["complete"] == true), "{text} {said}");
    let (none, why) = replace(&program(7033, "[queue]", "[count]", &spaces));
    assert!(!none && why.contains("no program runs"), "{why}");
    for agent in &agents {
        let of = |line: &&Value| line["kind"] == "count" && line["agent"] == named(agent).as_str();
        let counts: Vec<&Value> = lines.iter().filter(of).collect();
        let points: Vec<&str> = counts.iter().map(|c| c["place"]["point"].as_str().unwrap()).collect();
        assert_eq!(points, ["queue", "xmit", "receive"], "{text}");
        let counted = counts.iter().map(|c| (c["place"]["point"].as_str().unwrap().to_owned(), packets_of(c)));
        let is_lossy = |line: &Value| line["kind"] == "agent" && line["view"]["lost"] != 0;
        assert_told(sent.trim().parse().unwrap(), at_queue(counted), lines.iter().any(is_lossy), &said);
    }
    agents.into_iter().for_each(|agent| drop(agent.end()));
    server.end();
}

/// The answer of `/api/v1/packets`, to an order if one is given: status and body.
pub(crate) fn ask(ui: &str, program: Option<&str>) -> (u16, Value) {
    let config =
        ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(Duration::from_secs(60)));
    let agent: ureq::Agent = config.build().into();
    let url = format!("http://{ui}/api/v1/packets");
    let answer = match program {
        None => agent.get(url).call(),
        Some(program) => {
            let body = json!({ "program": program }).to_string();
            agent.post(url).header("content-type", "application/json").send(body)
        }
    };
    let mut answer = answer.unwrap();
    let body = answer.body_mut().read_to_string().unwrap();
    (answer.status().as_u16(), serde_json::from_str(&body).unwrap())
}

#[test]
fn the_page_runs_changes_and_ends_a_program() {
    let test = "the_page_runs_changes_and_ends_a_program";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, Spaces::pair("pp")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let stop = folder.path().join("stop").to_str().unwrap().to_owned();
    let echo = spaces.python(1, ECHO, &["10.214.1.2", "7031"]);
    let ui = format!("127.0.0.1:{}", crate::split::free_port());
    let pid = echo.pid().to_string();
    let mut up = Running::start(WIRESPAN, &["up", "--ui", &ui, "--packet-programs", "--pid", &pid]);
    up.wait_for("Ctrl-C ends");
    assert_eq!(ask(&ui, None).1["state"], "idle");
    let (status, wrong) = ask(&ui, Some("filter: {prot: tcp}"));
    assert_eq!((status, &wrong["error"]["param"]), (400, &json!("program")), "{wrong}");
    assert!(wrong["error"]["message"].as_str().unwrap().contains("line 1: unknown key `prot`"), "{wrong}");

    let all = "[count, latency, drops]";
    let (status, now) = ask(&ui, Some(&program(7031, "[queue, receive]", all, &spaces)));
    assert_eq!((status, &now["state"]), (200, &json!("running")), "{now}");
    let sender = spaces.python(0, SENDER, &["10.214.1.2", "7031", &stop]);
    let leg = |now: &Value, from: &str, to: &str| {
        let legs = now["legs"].as_array().unwrap().iter();
        let mut here = legs.filter(|leg| leg["from"]["point"] == from && leg["to"]["point"] == to).cloned();
        here.next()
    };
    let way = within(Duration::from_secs(30), "the time from queue to receive", || {
        leg(&ask(&ui, None).1, "queue", "receive").filter(|leg| leg["times"]["packets"].as_u64() > Some(50))
    });
    let times = &way["times"];
    let of_all: u64 = times["halves"].as_array().unwrap().iter().map(|half| half[1].as_u64().unwrap()).sum();
    assert_eq!(of_all, packets_of(times), "{way}");
    assert!(times["p50_ns"].as_u64() <= times["p99_ns"].as_u64() && times["seconds"][0]["halves"][0].is_array());
    assert_eq!((&way["from"]["device"], &way["from"]["netns"]), (&json!("eth0"), &json!(spaces.name(0))));

    let (status, now) = ask(&ui, Some(&program(7031, "[queue, xmit, receive]", all, &spaces)));
    assert_eq!((status, &now["state"], &now["changes"]), (200, &json!("running"), &json!(1)), "{now}");
    within(Duration::from_secs(30), "the time from queue to xmit", || leg(&ask(&ui, None).1, "queue", "xmit"));
    std::fs::write(&stop, "").unwrap();
    let sent = String::from_utf8(sender.finish(Duration::from_secs(30)).stdout).unwrap();
    ask(&ui, Some(""));
    let ended =
        within(Duration::from_secs(20), "the end", || Some(ask(&ui, None).1).filter(|now| now["state"] == "ended"));
    let places = ended["places"].as_array().unwrap().iter();
    let counted = places.map(|row| (row["place"]["point"].as_str().unwrap().to_owned(), packets_of(row)));
    assert_told(sent.trim().parse().unwrap(), at_queue(counted), ended["lost"] != 0, &ended.to_string());
    up.end();
}

/// Without the flag, nobody who sees the page can attach anything.
#[test]
fn a_page_runs_no_program_unless_the_user_lets_it() {
    let test = "a_page_runs_no_program_unless_the_user_lets_it";
    if !ready(test) {
        return;
    }
    let ui = format!("127.0.0.1:{}", crate::split::free_port());
    let pid = std::process::id().to_string();
    let mut up = Running::start(WIRESPAN, &["up", "--ui", &ui, "--pid", &pid]);
    up.wait_for("Ctrl-C ends");
    assert_eq!(ask(&ui, None).1["state"], "off");
    let (status, refused) = ask(&ui, Some("filter: {port: 7032}"));
    assert_eq!(status, 404, "{refused}");
    assert!(refused["error"]["hint"].as_str().unwrap().contains("--packet-programs"), "{refused}");
    up.end();
}
