//! MQTT: packets by type, topic and return code.

use super::compare::{check, Explained};
use super::tshark::{self, Ask};
use super::{captures, ours, Reading, Said};
use wirespan_model::Kind;

const NAMES: [&str; 15] = [
    "CONNECT",
    "CONNACK",
    "PUBLISH",
    "PUBACK",
    "PUBREC",
    "PUBREL",
    "PUBCOMP",
    "SUBSCRIBE",
    "SUBACK",
    "UNSUBSCRIBE",
    "UNSUBACK",
    "PINGREQ",
    "PINGRESP",
    "DISCONNECT",
    "AUTH",
];

const EXPLAINED: &[Explained] = &[Explained {
    capture: "mqtt_one_packet_multi_publish.pcap",
    only_theirs: 20,
    only_ours: 0,
    why: "whether the broker or a client publishes cannot be told",
}];

#[test]
fn mqtt_as_tshark_reads_it() {
    let mut agreed = 0;
    let captures = captures("mqtt_as_tshark_reads_it", "mqtt");
    for capture in &captures {
        let mut theirs = Reading::new();
        let fields = ["mqtt.msgtype", "mqtt.topic", "mqtt.conack.val", "mqtt.suback.qos", "mqtt.qos"];
        for row in tshark::fields(capture, Ask { filter: "mqtt", ..Ask::default() }, &fields) {
            let (mut topics, mut levels) = (row.fields[1].iter(), row.fields[4].iter());
            for kind in &row.fields[0] {
                let operation = NAMES[kind.parse::<usize>().unwrap() - 1].to_owned();
                let has_topic = matches!(&*operation, "PUBLISH" | "SUBSCRIBE" | "UNSUBSCRIBE");
                let confirmed = operation == "PUBLISH" && levels.next().is_some_and(|q| q != "0");
                theirs.entry(row.ends()).or_default().push(Said {
                    from: row.from,
                    kind: match &*operation {
                        "PUBLISH" if !confirmed => Kind::OneWay,
                        "DISCONNECT" | "AUTH" => Kind::OneWay,
                        o if o.ends_with("ACK") || o.ends_with("RESP") => Kind::Response,
                        "PUBREC" | "PUBCOMP" => Kind::Response,
                        _ => Kind::Request,
                    },
                    target: if has_topic { topics.next().unwrap().clone() } else { String::new() },
                    status: if operation == "CONNACK" { row.one(2).to_owned() } else { String::new() },
                    operation,
                });
            }
        }
        let mine = ours::read(capture, "mqtt", usize::MAX, &|m, from| {
            let mut said = ours::plain(m, from)?;
            if said.operation != "CONNACK" {
                said.status.clear();
            }
            Some(said)
        });
        agreed += check(capture, &mine.said, &theirs, EXPLAINED);
    }
    assert!(captures.is_empty() || agreed >= 10, "{agreed} messages compared");
}
