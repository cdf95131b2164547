//! Runs tshark and brings its words into a shape that tests can read.

use super::{ends, Ends};
use serde_json::Value;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use wirespan_model::Endpoint;

/// What to ask of a capture.
#[derive(Clone, Copy, Default)]
pub struct Ask<'a> {
    /// Ports that carry the protocol where tshark does not guess it: `tcp.port==20130,mysql`.
    pub decode_as: &'a [&'a str],
    /// Display filter.
    pub filter: &'a str,
    /// Preferences, like `tcp.desegment_tcp_streams:TRUE`.
    pub options: &'a [&'a str],
}

/// A packet and the fields that were asked for, each with all its occurrences in order.
#[derive(Clone, Debug)]
pub struct Row {
    /// Number of the packet in the capture, from 1.
    pub frame: u64,
    /// Sender.
    pub from: Endpoint,
    /// Receiver.
    pub to: Endpoint,
    /// Values by field.
    pub fields: Vec<Vec<String>>,
}

impl Row {
    /// Both ends.
    pub fn ends(&self) -> Ends {
        ends(self.from, self.to)
    }

    /// First value of a field, or nothing.
    pub fn one(&self, field: usize) -> &str {
        self.fields[field].first().map_or("", String::as_str)
    }
}

/// A packet as a tree: one entry per layer; layers that occur twice are arrays.
#[derive(Clone, Debug)]
pub struct Tree {
    /// Number of the packet.
    pub frame: u64,
    /// Sender.
    pub from: Endpoint,
    /// Receiver.
    pub to: Endpoint,
    /// `_source.layers`.
    pub layers: Value,
}

impl Tree {
    /// Both ends.
    pub fn ends(&self) -> Ends {
        ends(self.from, self.to)
    }
}

/// Whether tshark can be run.
pub fn is_there() -> bool {
    Command::new("tshark").arg("--version").output().is_ok_and(|o| o.status.success())
}

fn run(capture: &Path, ask: Ask<'_>, arguments: &[String]) -> Vec<u8> {
    let mut command = Command::new("tshark");
    // Names of hosts are never looked up, and no profile of the user changes what is said.
    command.arg("-n").arg("-r").arg(capture).env("WIRESHARK_CONFIG_DIR", "/nonexistent").env("LC_ALL", "C.UTF-8");
    if !ask.filter.is_empty() {
        command.args(["-Y", ask.filter]);
    }
    for rule in ask.decode_as {
        command.args(["-d", rule]);
    }
    for option in ask.options {
        command.args(["-o", option]);
    }
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "tshark {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Rows of fields, in the order of packets. The innermost addresses of a tunnelled packet count.
pub fn fields(capture: &Path, ask: Ask<'_>, fields: &[&str]) -> Vec<Row> {
    const PLACE: [&str; 9] = [
        "frame.number",
        "ip.src",
        "ipv6.src",
        "tcp.srcport",
        "udp.srcport",
        "ip.dst",
        "ipv6.dst",
        "tcp.dstport",
        "udp.dstport",
    ];
    let mut arguments: Vec<String> =
        ["-T", "fields", "-E", "separator=/t", "-E", "occurrence=a", "-E", "aggregator=|"].map(String::from).into();
    for field in PLACE.iter().chain(fields) {
        arguments.extend(["-e".to_owned(), (*field).to_owned()]);
    }
    let text = String::from_utf8_lossy(&run(capture, ask, &arguments)).into_owned();
    text.lines()
        .filter_map(|line| {
            let mut columns = line.split('\t');
            let mut last = || columns.next().unwrap_or_default().rsplit('|').next().unwrap_or_default().to_owned();
            let place: Vec<String> = PLACE.iter().map(|_| last()).collect();
            let end = |i: usize| endpoint(&place[i], &place[i + 1], &place[i + 2], &place[i + 3]);
            let values = columns
                .map(|c| if c.is_empty() { Vec::new() } else { c.split('|').map(String::from).collect() })
                .collect();
            Some(Row { frame: place[0].parse().ok()?, from: end(1)?, to: end(5)?, fields: values })
        })
        .collect()
}

/// Trees of packets, in their order.
pub fn json(capture: &Path, ask: Ask<'_>) -> Vec<Tree> {
    let arguments = ["-T", "json", "--no-duplicate-keys"].map(String::from);
    let packets: Vec<Value> = serde_json::from_slice(&run(capture, ask, &arguments)).unwrap();
    packets
        .into_iter()
        .filter_map(|mut packet| {
            let layers = packet["_source"]["layers"].take();
            let text = |layer: &str, field: &str| last(&layers[layer])[field].as_str().unwrap_or_default().to_owned();
            let end = |way: &str| {
                endpoint(
                    &text("ip", &format!("ip.{way}")),
                    &text("ipv6", &format!("ipv6.{way}")),
                    &text("tcp", &format!("tcp.{way}port")),
                    &text("udp", &format!("udp.{way}port")),
                )
            };
            let (from, to) = (end("src")?, end("dst")?);
            Some(Tree { frame: text("frame", "frame.number").parse().ok()?, from, to, layers })
        })
        .collect()
}

/// The last of an array, or the value itself.
fn last(value: &Value) -> &Value {
    value.as_array().and_then(|a| a.last()).unwrap_or(value)
}

/// All values of a layer or field: those of an array, or the one; none if it is not there.
pub fn all(value: &Value) -> &[Value] {
    match value {
        Value::Null => &[],
        Value::Array(values) => values,
        one => std::slice::from_ref(one),
    }
}

fn endpoint(v4: &str, v6: &str, tcp: &str, udp: &str) -> Option<Endpoint> {
    let ip: IpAddr = if v4.is_empty() { v6 } else { v4 }.parse().ok()?;
    let port = if tcp.is_empty() { udp } else { tcp }.parse().ok()?;
    Some(Endpoint::new(ip, port))
}
