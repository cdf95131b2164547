//! What is lost between two agents, and their flows, as their server adds them up.

use crate::harness::{has, skip, Running, WIRESPAN};
use crate::packet_actions::{COUNTER, FLOOD};
use crate::packet_fleet::{ended, named};
use crate::packet_meets::agent;
use crate::packets::{bridged, made, ready};
use crate::running::reader;
use crate::spaces::lacking;
use crate::split::Place;
use crate::trace_why::get;
use serde_json::Value;
use std::time::Duration;

/// Datagrams at a point of an agent.
fn at<'a>(lines: &'a [Value], point: &str, agent: &str) -> Vec<&'a Value> {
    let is = |l: &&Value| l["kind"] == "packet" && l["point"] == point && l["agent"] == agent;
    lines.iter().filter(is).collect()
}

/// 600 datagrams go at once through a switch that nobody watches, and whose port of 2 Mbit/s has room for few of them.
#[test]
fn what_is_lost_between_two_agents_is_told_by_place_and_by_flow() {
    let test = "what_is_lost_between_two_agents_is_told_by_place_and_by_flow";
    if !ready(test) || !has(test, &["tc"]) {
        return;
    }
    let Some(spaces) = made(test, bridged("pl")) else { return };
    let slow = "tc qdisc add dev portb root tbf rate 2mbit burst 5kb limit 20kb";
    if let Err(why) = spaces.inside(2, &slow.split(' ').collect::<Vec<_>>()) {
        return skip(test, &lacking(why));
    }
    let _counter = spaces.python(1, COUNTER, &["10.214.1.2", "7161"]);
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path());
    let server = place.serve(&[]);
    let targets = [(); 2].map(|()| Running::start("sleep", &["120"]));
    let agents = [0, 1].map(|n| agent(&place, folder.path(), &spaces, n, &targets[n], None));
    let names = [&agents[0], &agents[1]].map(named);
    let file = folder.path().join("program.yaml");
    let filter = "filter: {protocol: udp, port: 7161, netns: ./own}\nwhere: [queue, xmit, receive]";
    std::fs::write(&file, format!("{filter}\naction: [record, loss]\nby: flow\nfor: 60s\n")).unwrap();
    let args = ["packet", file.to_str().unwrap(), "--fleet", "--server", place.ui(), "--format", "json"];
    let mut client = Running::start(WIRESPAN, &args);
    client.wait_for("packets are seen at 2 of 2 agents");
    let stdout = reader(client.0.stdout.take());
    let send = |n: &str, port: &str| {
        spaces.inside(0, &["python3", "-c", FLOOD, "10.214.1.2", "7161", n, "500", port]).unwrap();
        std::thread::sleep(Duration::from_secs(1));
    };
    // Those before the flood and behind it arrive.
    send("3", "7162");
    send("600", "7163");
    send("3", "7162");
    // An agent tells what is three seconds older than the newest packet, and the server waits for other agents.
    std::thread::sleep(Duration::from_secs(4));
    send("3", "7162");
    std::thread::sleep(Duration::from_secs(8));
    let live = get(place.ui(), "packets/agents");
    client.signal(rustix::process::Signal::TERM);
    let (lines, said) = ended(client, &stdout);
    let of = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).collect::<Vec<_>>();
    let n = |of: &Value| of.as_u64().unwrap_or_else(|| panic!("no number: {of}"));

    // The truth: what each agent recorded.
    let (sent, arrived) = (at(&lines, "xmit", &names[0]).len(), at(&lines, "receive", &names[1]).len());
    assert_eq!(sent, 609, "{said}");
    assert!(arrived > 19 && arrived < 500, "{arrived} of {sent}");
    let lost = (sent - arrived) as u64;
    let between = of("loss_between");
    let [row] = between[..] else { panic!("{between:?} {said}") };
    assert_eq!((&row["from_agent"], &row["to_agent"]), (&names[0].clone().into(), &names[1].clone().into()), "{row}");
    assert_eq!((&row["from"]["point"], &row["to"]["point"]), (&"xmit".into(), &"receive".into()), "{row}");
    let loss = &row["loss"];
    let counts = ["packets", "went_on", "missing", "under_way"].map(|key| n(&loss[key]));
    assert_eq!(counts, [609, arrived as u64, lost, 0], "{row}");
    assert_eq!(row["at_most"], false, "both agents have told of all: {row}");
    // At the first agent itself nothing is lost.
    let first = of("loss").into_iter().find(|l| l["agent"] == names[0].as_str() && l["place"]["point"] == "queue");
    assert_eq!(n(&first.unwrap()["loss"]["went_on"]), 609, "{first:?}");
    // By flow: of each, what both agents saw, and the lost ones.
    let flows = of("flow_of_all");
    let flow = |port: &str| {
        let found = flows.iter().find(|f| f["flow"]["source"].as_str().unwrap().ends_with(port));
        found.unwrap_or_else(|| panic!("{port} {flows:?}"))
    };
    let (flood, few) = (flow(":7163"), flow(":7162"));
    let figures = |f: &Value| ["packets", "lost_at_agents", "lost_between", "unknown"].map(|key| n(&f[key]));
    assert_eq!((figures(flood), figures(few)), ([600, 0, lost, 0], [9, 0, 0, 0]), "{flows:?}");
    assert_eq!(flood["agents"].as_array().unwrap().len(), 2, "{flood}");
    // The server showed the same while the program ran.
    assert_eq!(live["state"], "running");
    assert_eq!(n(&live["loss"][0]["loss"]["missing"]), lost, "{live}");
    eprintln!("{lost} of {sent} lost between the agents, each told");
    agents.into_iter().for_each(|agent| _ = agent.end());
    server.end();
}
