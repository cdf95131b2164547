//! OpenWire: commands in order, with the ids that pair them, and destinations.

use super::compare::check;
use super::tshark::{self, Ask};
use super::{captures, ours, Reading, Said};
use wirespan_model::Kind;

/// Types of commands by their numbers in the specification; those that the captures have.
const NAMES: &[(&str, &str)] = &[
    ("1", "WireFormatInfo"),
    ("2", "BrokerInfo"),
    ("3", "ConnectionInfo"),
    ("4", "SessionInfo"),
    ("5", "ConsumerInfo"),
    ("6", "ProducerInfo"),
    ("10", "KeepAliveInfo"),
    ("11", "ShutdownInfo"),
    ("12", "RemoveInfo"),
    ("17", "ConsumerControl"),
    ("18", "ConnectionControl"),
    ("19", "ProducerAck"),
    ("21", "MessageDispatch"),
    ("22", "MessageAck"),
    ("23", "ActiveMQMessage"),
    ("24", "ActiveMQBytesMessage"),
    ("25", "ActiveMQMapMessage"),
    ("28", "ActiveMQTextMessage"),
    ("30", "Response"),
    ("31", "ExceptionResponse"),
];

#[test]
fn openwire_as_tshark_reads_it() {
    let mut agreed = 0;
    let captures = captures("openwire_as_tshark_reads_it", "openwire");
    for capture in &captures {
        let mut theirs = Reading::new();
        let packets = tshark::json(capture, Ask { filter: "openwire", ..Ask::default() });
        // Of the tight encoding tshark reads the types of commands only.
        let loose = packets.iter().any(|p| find(&p.layers["openwire"], "openwire.command.id").is_some());
        for packet in packets {
            for layer in tshark::all(&packet.layers["openwire"]) {
                // A dispatch holds a message, which is a command too: the first of them is the one that was sent.
                let command = tshark::all(&layer["openwire.command"]).first().unwrap();
                let command = command.as_str().unwrap();
                let name = NAMES.iter().find(|(n, _)| *n == command).unwrap_or_else(|| panic!("{command}")).1;
                let first = |field: &str| {
                    let value = find(layer, field).and_then(|v| tshark::all(v).first()?.as_str().map(str::to_owned));
                    value.unwrap_or_default()
                };
                let asks = matches!(&*first("openwire.command.response_required"), "1" | "True");
                let kind = match name {
                    "Response" | "ExceptionResponse" => Kind::Response,
                    _ if asks => Kind::Request,
                    _ => Kind::OneWay,
                };
                theirs.entry(packet.ends()).or_default().push(Said {
                    from: packet.from,
                    kind: if loose || kind == Kind::Response { kind } else { Kind::OneWay },
                    operation: name.to_owned(),
                    target: String::new(),
                    status: match kind {
                        Kind::Response => first("openwire.response.correlationid"),
                        Kind::Request => first("openwire.command.id"),
                        _ => String::new(),
                    },
                });
            }
        }
        let mine = ours::read(capture, "openwire", usize::MAX, &|m, from| {
            let mut said = ours::plain(m, from)?;
            said.target.clear();
            // What pairs them takes the place of the status, which this protocol has not.
            said.status = m.id.filter(|_| loose).map(|id| id.to_string()).unwrap_or_default();
            if !loose && m.kind == Kind::Request {
                said.kind = Kind::OneWay;
            }
            Some(said)
        });
        agreed += check(capture, &mine.said, &theirs, &[]);
    }
    assert!(captures.is_empty() || agreed > 100, "{agreed} messages compared");
}

/// A field in a tree, the first from the top.
fn find<'a>(tree: &'a serde_json::Value, field: &str) -> Option<&'a serde_json::Value> {
    tree.get(field).or_else(|| tree.as_object()?.values().find_map(|v| find(v, field)))
}
