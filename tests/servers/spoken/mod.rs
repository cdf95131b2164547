//! Protocols whose servers are not available here: conversations made by hand, with a different secret in every
//! possible place, go through `wirespan replay`. No secret may be in any output.
//!
//! Each conversation is one connection of a capture, and names the messages that must be understood. Without this
//! check, a parser that gives up would pass, because it shows nothing.

mod infrastructure;
mod messaging;
mod openwire;
mod quic;
mod rpc;
mod web;

#[path = "../../../crates/pcap/tests/build/mod.rs"]
mod build;
#[path = "../../../crates/decode/tests/wires/mod.rs"]
mod wires;

use crate::harness::{otlp, within, Running, WIRESPAN};
use crate::leak;
use crate::session::CONFIG;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

/// This text stands in a place that is shown. The search must find it, which proves that the search works.
const SHOWN: &str = "zqshown0c59a1e7d3b264f8";

/// Makes secrets; each secret names its place.
#[derive(Default)]
struct Secrets(Vec<(String, String)>);

impl Secrets {
    /// Twenty letters and digits, of which no other part of the conversations is made.
    fn of(&mut self, place: &str) -> String {
        let n = self.0.len() as u64;
        let secret = format!("zq{n:02x}{:016x}", (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        self.0.push((secret.clone(), place.to_string()));
        secret
    }
}

/// What the ends of a connection say in turn.
struct Talk {
    protocol: &'static str,
    /// Names of the spans that must result.
    names: Vec<String>,
    /// Whether the client speaks, and its bytes.
    turns: Vec<(bool, Vec<u8>)>,
    /// Whether each turn is a datagram.
    datagrams: bool,
}

fn c(bytes: impl AsRef<[u8]>) -> (bool, Vec<u8>) {
    (true, bytes.as_ref().to_vec())
}

fn s(bytes: impl AsRef<[u8]>) -> (bool, Vec<u8>) {
    (false, bytes.as_ref().to_vec())
}

fn talk(protocol: &'static str, names: &[&str], turns: Vec<(bool, Vec<u8>)>) -> Talk {
    Talk { protocol, names: names.iter().map(|n| n.to_string()).collect(), turns, datagrams: false }
}

/// The packets of one connection.
fn packets(n: u16, talk: &Talk) -> Vec<build::Packet> {
    const SEGMENT: usize = 1400;
    let (client, server) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let ports = (20_000 + n, 30_000 + n);
    let mut time_ns = 1_700_000_000_000_000_000 + u64::from(n) * 1_000_000_000;
    let mut next = [1_000u32, 2_000u32];
    let mut packets = Vec::new();
    if talk.datagrams {
        for (of_client, bytes) in &talk.turns {
            time_ns += build::MS;
            let (from, to) = if *of_client { (client, server) } else { (server, client) };
            let (from_port, to_port) = if *of_client { ports } else { (ports.1, ports.0) };
            let ip = build::ipv4(from, to, 17, 0, 0, &build::udp_bytes(from_port, to_port, bytes));
            packets.push(build::Packet { time_ns, frame: build::ethernet(0x0800, &ip) });
        }
        return packets;
    }
    let mut segment = |to_server: bool, next: &[u32; 2], flags: u8, payload: &[u8]| {
        time_ns += build::MS;
        let (from, to) = if to_server { (client, server) } else { (server, client) };
        let (from_port, to_port) = if to_server { ports } else { (ports.1, ports.0) };
        let (seq, ack) = if to_server { (next[0], next[1]) } else { (next[1], next[0]) };
        let tcp = build::tcp_bytes(from_port, to_port, seq, ack, flags, 60_000, payload);
        packets.push(build::Packet { time_ns, frame: build::ethernet(0x0800, &build::ipv4(from, to, 6, 0, 0, &tcp)) });
    };
    segment(true, &[next[0], 0], build::SYN, b"");
    next[0] += 1;
    segment(false, &next, build::SYN | build::ACK, b"");
    next[1] += 1;
    segment(true, &next, build::ACK, b"");
    for (of_client, bytes) in &talk.turns {
        for part in bytes.chunks(SEGMENT) {
            segment(*of_client, &next, build::ACK | 8, part);
            next[usize::from(!of_client)] += part.len() as u32;
        }
    }
    for of_client in [true, false] {
        segment(of_client, &next, build::FIN | build::ACK, b"");
        next[usize::from(!of_client)] += 1;
    }
    packets
}

/// Replays the capture with every kind of output, and returns the text shown meanwhile.
fn replay(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (config, ui) = (dir.join("w.toml"), format!("127.0.0.1:{port}"));
    std::fs::write(&config, CONFIG).unwrap();
    let file = |name: &str| std::fs::File::create(dir.join(name)).unwrap();
    let child = Command::new(WIRESPAN)
        .env("WIRESPAN_LOG", "trace")
        .args(["replay", "--format", "json", "--serve", "--ui", &ui, "--config"])
        .arg(&config)
        .arg("--otlp-file")
        .arg(dir.join("spans.jsonl"))
        .arg("--store")
        .arg(dir.join("store"))
        .arg(dir.join("spoken.pcap"))
        .stdin(Stdio::null())
        .stdout(file("stdout"))
        .stderr(file("wirespan.log"))
        .spawn()
        .unwrap();
    let mut replay = Running(child);
    within(std::time::Duration::from_secs(60), "it serves what it has read", || std::net::TcpStream::connect(&ui).ok());
    let mut shown = leak::answers(&ui);
    replay.signal(rustix::process::Signal::TERM);
    assert!(replay.0.wait().unwrap().success(), "{}", std::fs::read_to_string(dir.join("wirespan.log")).unwrap());
    shown.push(("stdout".into(), std::fs::read(dir.join("stdout")).unwrap()));
    shown
}

#[test]
fn no_secret_gets_out_of_protocols_without_a_server() {
    let mut secrets = Secrets::default();
    let mut talks = web::talks(&mut secrets);
    talks.extend(rpc::talks(&mut secrets));
    talks.extend(messaging::talks(&mut secrets));
    talks.extend(openwire::talks(&mut secrets));
    talks.extend(infrastructure::talks(&mut secrets));
    talks.extend(quic::talks(&mut secrets));
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let all: Vec<_> = (0..).zip(&talks).flat_map(|(n, talk)| packets(n, talk)).collect();
    std::fs::write(dir.join("spoken.pcap"), build::pcap(1, &all, 65_535)).unwrap();
    let shown = replay(dir);

    let spans = otlp(&dir.join("spans.jsonl"));
    let mut wrong = Vec::new();
    for (n, talk) in (0..).zip(&talks) {
        let ports = [30_000 + n, 20_000 + n].map(|port| port.to_string());
        // The server's own messages have the client as their peer.
        let of = |s: &&crate::harness::Span| ports.iter().any(|p| s.attr("network.peer.port") == p);
        let names: BTreeSet<&str> = spans
            .iter()
            .filter(of)
            .filter(|s| s.attr("network.protocol.name") == talk.protocol)
            .map(|s| s.name.as_str())
            .collect();
        for name in talk.names.iter().filter(|name| !names.contains(name.as_str())) {
            let other: Vec<_> =
                spans.iter().filter(of).map(|s| (s.attr("network.protocol.name"), s.name.as_str())).collect();
            wrong.push(format!("{}: not understood: {name}; seen: {other:?}", talk.protocol));
        }
    }
    let searched = leak::search(&secrets.0.iter().map(|s| s.0.clone()).collect::<Vec<_>>(), dir, &shown);
    wrong.extend(searched.found.into_iter().map(|found| {
        let place = secrets.0.iter().find(|s| found.to_ascii_lowercase().contains(&s.0));
        format!("{}: {found}", place.map_or("?", |s| s.1.as_str()))
    }));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let control = leak::search(&[SHOWN.into()], dir, &shown).found.join("\n");
    for place in ["in stdout", "in spans.jsonl", "in /api/v1/spans", "in /api/v1/trace/"] {
        assert!(control.contains(place), "the search does not find what is shown: {place}\n{control}");
    }
    println!("spoken: {} secrets in {} conversations: {}", secrets.0.len(), talks.len(), searched.summary);
}
