//! Addresses that conntrack translates: where, and from what to what, by the kernel's own word.

use crate::harness::{has, skip, wirespan};
use crate::packets::{made, of_kind, ready, traced, CLIENT, ECHO, PINGS, SERVER};
use crate::spaces::{lacking, Spaces};
use serde_json::Value;
use std::collections::BTreeSet;

/// Sends echoes of ICMP, each of which is answered.
const ECHOES: &str = "
import socket, struct, sys
def checksum(data):
    total = sum(struct.unpack('!%dH' % (len(data) // 2), data))
    total = (total & 0xffff) + (total >> 16)
    return ~(total + (total >> 16)) & 0xffff
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
s.settimeout(5)
for n in range(int(sys.argv[2])):
    data = struct.pack('!BBHHH', 8, 0, 0, 777, n) + b'z' * 40
    s.sendto(data[:2] + struct.pack('!H', checksum(data)) + data[4:], (sys.argv[1], 0))
    s.recv(1000)
";

/// The steps of a journey at which the kernel says that it has translated addresses: where, to what, and from what.
fn translated(journey: &Value) -> Vec<(String, String, String)> {
    let end = |of: &Value| {
        let part = |key: &str| of[key].to_string().replace('"', "");
        let (from, to) = (part("source"), part("destination"));
        format!("{from}:{} {to}:{}", part("source_port"), part("destination_port"))
    };
    let steps = journey["steps"].as_array().unwrap().iter().filter(|step| step["was"].is_object());
    let place = |s: &Value| format!("{} {}", s["point"].as_str().unwrap(), s["device"].as_str().unwrap());
    steps.map(|step| (place(step), end(&step["route"]), end(&step["was"]))).collect()
}

fn of_port<'a>(lines: &'a [Value], key: &str, port: u16) -> Vec<&'a Value> {
    of_kind(lines, "journey").into_iter().filter(|j| j["route"][key] == port && j["len"] != 0).collect()
}

#[test]
fn the_kernel_says_where_addresses_were_translated_and_from_what() {
    let test = "the_kernel_says_where_addresses_were_translated_and_from_what";
    if !ready(test) || !has(test, &["nft", "sysctl"]) {
        return;
    }
    let Some(spaces) = made(test, Spaces::behind_nat("pt")) else { return };
    let own =
        "table ip own {\nchain out { type nat hook output priority -100; tcp dport 8090 dnat to 10.213.2.2:80; }\n}\n";
    let udp = "add rule ip wsmap pre udp dport 8081 dnat to 10.213.2.2:81";
    for (space, rules) in [(0, own), (1, udp)] {
        if let Err(why) = spaces.inside(space, &["nft", rules]) {
            return skip(test, &lacking(why));
        }
    }
    let _server = spaces.python(2, SERVER, &["10.213.2.2", "80"]);
    let _echo = spaces.python(2, ECHO, &["10.213.2.2", "81"]);
    let program = "where: [send, queue, xmit, receive, tcp, copied, drop]\naction: [record, journeys]\n";
    let (lines, said) = traced(&spaces, &[0, 1, 2], program, || {
        for (script, address, port) in
            [(CLIENT, "10.213.1.1", "8080"), (PINGS, "10.213.1.1", "8081"), (CLIENT, "10.213.9.9", "8090")]
        {
            spaces.inside(0, &["python3", "-c", script, address, port, "20"]).unwrap();
        }
        spaces.inside(0, &["python3", "-c", ECHOES, "10.213.2.2", "20"]).unwrap();
    });
    let server = |port: u16| format!("10.213.2.2:{port}");
    // Through the router, which translates both ends: seen at both points behind it, and neither before nor after.
    for (port, inner, least) in [(8080, 80, 20), (8081, 81, 20)] {
        let forth = of_port(&lines, "destination_port", port);
        assert!(forth.len() >= least, "{port}: {} {said}", forth.len());
        for journey in &forth {
            let from = format!("10.213.1.2:{}", journey["route"]["source_port"]);
            let seen = translated(journey);
            let places: Vec<&str> = seen.iter().map(|(place, ..)| place.as_str()).collect();
            assert_eq!(places, ["queue tos", "xmit tos"], "{journey}");
            for (_, to, was) in seen {
                assert!(to.starts_with("10.213.2.1:") && to.ends_with(&server(inner)), "{to}");
                assert_eq!(was, format!("{from} 10.213.1.1:{port}"), "{journey}");
            }
        }
        let back = of_port(&lines, "source_port", inner);
        let back: Vec<_> = back.into_iter().filter(|j| j.to_string().contains("queue")).collect();
        assert!(back.len() >= least, "{port}: {} {said}", back.len());
        let routers = back.iter().filter(|j| translated(j).iter().any(|(place, ..)| place == "queue toc"));
        for journey in routers.clone() {
            let (_, to, was) = &translated(journey)[0];
            assert!(was.starts_with(&server(inner)), "{was}");
            assert!(to.starts_with("10.213.1.1:") || to.starts_with("10.213.2.2:"), "{to}");
        }
        assert!(routers.count() >= least, "{port} {said}");
    }
    // By the sender's own rule, before its device; then the router hides the sender.
    let own = of_port(&lines, "destination_port", 8090);
    assert!(own.len() >= 20, "{} {said}", own.len());
    for journey in own {
        let seen = translated(journey);
        let places: Vec<&str> = seen.iter().map(|(place, ..)| place.as_str()).collect();
        assert_eq!(places, ["queue eth0", "xmit eth0", "queue tos", "xmit tos"], "{journey}");
        assert!(seen[0].2.ends_with("10.213.9.9:8090") && seen[0].1.ends_with(&server(80)), "{seen:?}");
        assert!(seen[2].2.starts_with("10.213.1.2:") && seen[2].1.starts_with("10.213.2.1:"), "{seen:?}");
    }
    // ICMP has no ports by which it could be known again; by the kernel's word it is followed, there and back.
    let icmp = |kind: u16| {
        let of = |j: &&Value| j["route"]["protocol"] == 1 && j["route"]["source_port"] == kind;
        of_kind(&lines, "journey").into_iter().filter(of).collect::<Vec<_>>()
    };
    for (kind, last) in [(8, "10.213.2.2"), (0, "10.213.1.2")] {
        let journeys = icmp(kind);
        assert_eq!(journeys.len(), 20, "{kind}: {said}");
        for journey in journeys {
            let step = journey["steps"].as_array().unwrap().last().unwrap();
            assert_eq!(step["route"]["destination"], last, "{journey}");
            assert_eq!(translated(journey).len(), 2, "{journey}");
        }
    }
    assert_told_again(&lines);
}

/// The points of each message of 100 bytes, and of each answer.
fn ways(lines: &[Value]) -> [Vec<Vec<&str>>; 2] {
    [100, 10].map(|len| {
        let journeys = of_kind(lines, "journey").into_iter().filter(|j| j["len"] == len);
        let points = journeys.map(|j| j["steps"].as_array().unwrap().iter().map(|s| s["point"].as_str().unwrap()));
        points.map(Iterator::collect).collect()
    })
}

#[test]
fn a_filter_follows_a_flow_behind_the_translation_of_its_port() {
    let test = "a_filter_follows_a_flow_behind_the_translation_of_its_port";
    if !ready(test) || !has(test, &["nft", "sysctl"]) {
        return;
    }
    let Some(spaces) = made(test, Spaces::behind_nat("pf")) else { return };
    let _server = spaces.python(2, SERVER, &["10.213.2.2", "80"]);
    let talk = || {
        // The second one has the port behind the translation, and is not chosen.
        for (address, port) in [("10.213.1.1", "8080"), ("10.213.2.2", "80")] {
            spaces.inside(0, &["python3", "-c", CLIENT, address, port, "20"]).unwrap();
        }
    };
    let points = "where: [send, queue, receive, tcp, copied]\naction: [journeys]\n";
    let (lines, said) = traced(&spaces, &[0, 1, 2], &format!("filter: {{protocol: tcp, port: 8080}}\n{points}"), talk);
    let [forth, back] = ways(&lines);
    let whole = ["send", "queue", "receive", "queue", "receive", "tcp", "copied"];
    let is_whole = |way: &Vec<&str>| way[..] == whole;
    assert_eq!((forth.len(), back.len()), (20, 20), "those of the other connection are not told: {said}");
    assert!(forth.iter().chain(&back).all(is_whole), "{forth:?} {back:?}");
    assert!(of_kind(&lines, "journey").iter().all(|j| j.to_string().contains(":8080,")), "{said}");
    // By the port behind it, the answers are not chosen, and the messages are followed back to their sender.
    let program = format!("filter: {{protocol: tcp, destination: 10.213.2.2, destination_port: 80}}\n{points}");
    let (lines, said) = traced(&spaces, &[0, 1, 2], &program, || {
        spaces.inside(0, &["python3", "-c", CLIENT, "10.213.1.1", "8080", "20"]).unwrap();
    });
    let [forth, back] = ways(&lines);
    assert_eq!((forth.len(), back.len()), (20, 0), "{said}");
    assert!(forth.iter().all(is_whole), "{forth:?}");
}

/// What was recorded says the same, and in words.
fn assert_told_again(lines: &[Value]) {
    let records = of_kind(lines, "packet");
    let points: BTreeSet<String> =
        records.iter().filter(|r| r["was"].is_object()).map(|r| r["point"].to_string()).collect();
    assert_eq!(points, ["\"queue\"", "\"xmit\""].map(String::from).into());
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let text: Vec<String> = records.iter().map(|line| line.to_string()).collect();
    std::fs::write(path("recorded.jsonl"), text.join("\n")).unwrap();
    std::fs::write(path("again.yaml"), "action: [journeys]\n").unwrap();
    let done = wirespan(&["packet", &path("again.yaml"), "--from", &path("recorded.jsonl")]);
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let line = text.lines().find(|l| l.contains("queue tos") && l.contains("10.213.1.1:8081")).unwrap_or_else(|| {
        panic!("{text}");
    });
    assert!(line.contains("conntrack has made udp 10.213.2.1:") && line.contains(" of udp 10.213.1.2:"), "{line}");
}
