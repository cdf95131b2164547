//! Kafka: requests by key, version, correlation id and client id, responses by correlation id; error codes, topics and
//! offsets where tshark knows the version.

use super::compare::check;
use super::tshark::{self, Ask};
use super::{captures, ours, Ends, Reading, Said};
use std::collections::HashMap;
use wirespan_model::{Kind, Message};

/// Ports of the brokers in these captures; tshark knows 9092 only.
const BROKERS: [u16; 4] = [9092, 36333, 29192, 19092];
/// Names of the keys that occur, as the protocol's documentation has them (tshark has other words for some).
const NAMES: &[(&str, &str)] = &[
    ("0", "Produce"),
    ("1", "Fetch"),
    ("2", "ListOffsets"),
    ("3", "Metadata"),
    ("8", "OffsetCommit"),
    ("9", "OffsetFetch"),
    ("10", "FindCoordinator"),
    ("11", "JoinGroup"),
    ("12", "Heartbeat"),
    ("13", "LeaveGroup"),
    ("14", "SyncGroup"),
    ("17", "SaslHandshake"),
    ("18", "ApiVersions"),
    ("19", "CreateTopics"),
    ("22", "InitProducerId"),
    ("24", "AddPartitionsToTxn"),
    ("25", "AddOffsetsToTxn"),
    ("26", "EndTxn"),
    ("27", "WriteTxnMarkers"),
    ("28", "TxnOffsetCommit"),
    ("36", "SaslAuthenticate"),
];

fn attr(m: &Message<'_>, key: &str) -> String {
    m.attrs.iter().find(|(k, _)| *k == key).map_or_else(String::new, |(_, v)| v.to_value().to_string())
}

#[test]
fn kafka_as_tshark_reads_it() {
    const FIELDS: [&str; 8] = [
        "kafka.api_key",
        "kafka.api_version",
        "kafka.correlation_id",
        "kafka.client_id",
        "kafka.error",
        "kafka.topic_name",
        "kafka.offset",
        "_ws.col.Info",
    ];
    let rules: Vec<String> = BROKERS.iter().map(|port| format!("tcp.port=={port},kafka")).collect();
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let captures = captures("kafka_as_tshark_reads_it", "kafka");
    let (mut agreed, mut detailed) = (0, 0);
    for capture in &captures {
        let mut theirs = Reading::new();
        // What tshark says of the bodies of the versions that it knows.
        let mut bodies: Vec<(Ends, bool, String, Vec<Vec<String>>)> = Vec::new();
        for row in tshark::fields(capture, Ask { decode_as: &rules, filter: "kafka", ..Ask::default() }, &FIELDS) {
            let asks = BROKERS.contains(&row.to.port);
            let info = row.one(7);
            for (i, id) in row.fields[2].iter().enumerate() {
                let field = |n: usize| row.fields[n].get(i).cloned().unwrap_or_default();
                let name = NAMES.iter().find(|(key, _)| *key == field(0)).map_or("?", |(_, name)| *name);
                theirs.entry(row.ends()).or_default().push(Said {
                    from: row.from,
                    kind: if asks { Kind::Request } else { Kind::Response },
                    operation: if asks { format!("{name} v{}", field(1)) } else { String::new() },
                    target: if asks { format!("{id} {}", field(3)) } else { id.clone() },
                    status: String::new(),
                });
            }
            let known = !["Unsupported", "Malformed", "Undecoded"].iter().any(|word| info.contains(word));
            if let ([id], true) = (&row.fields[2][..], known) {
                bodies.push((row.ends(), asks, id.clone(), row.fields.clone()));
            }
        }
        // The details travel in the status, and are taken out before the readings are compared.
        let mut mine = ours::read(capture, "kafka", usize::MAX, &|m, from| {
            let asks = m.kind != Kind::Response;
            let id = m.id?.to_string();
            let client = attr(m, "messaging.client.id");
            let version = attr(m, "wirespan.kafka.api_version");
            let code = m.status_code.map_or_else(String::new, |n| n.to_string());
            Some(Said {
                from,
                kind: if asks { Kind::Request } else { Kind::Response },
                operation: if asks { format!("{} v{version}", m.operation) } else { String::new() },
                target: if asks { format!("{id} {client}") } else { id },
                status: format!("{code}|{}|{}", m.target, attr(m, "kafka.offset")),
            })
        });
        let mut details = HashMap::new();
        for (ends, said) in &mut mine.said {
            for one in said {
                let id = one.target.split(' ').next().unwrap().to_owned();
                let words: Vec<String> = std::mem::take(&mut one.status).split('|').map(String::from).collect();
                details.insert((*ends, one.kind == Kind::Request, id), (one.operation.clone(), words));
            }
        }
        agreed += check(capture, &mine.said, &theirs, &[]);
        for (ends, asks, id, fields) in bodies {
            let name = capture.display();
            let (operation, words) = &details[&(ends, asks, id.clone())];
            let operation = operation.split(' ').next().unwrap();
            let [status, target, offset] = &words[..] else { panic!("{words:?}") };
            let first = |n: usize| fields[n].first().cloned().unwrap_or_default();
            if asks {
                let topics = ["Produce", "Fetch", "Metadata", "CreateTopics"].contains(&operation);
                if topics && !fields[5].is_empty() && !first(5).contains("Null") {
                    assert_eq!(*target, first(5), "{name}: topic of {operation} {id}");
                    detailed += 1;
                }
                continue;
            }
            if !fields[4].is_empty() {
                let code = fields[4].iter().find(|code| *code != "0").cloned().unwrap_or_else(|| "0".into());
                assert_eq!(*status, code, "{name}: error of response {id}");
                detailed += 1;
            }
            if !offset.is_empty() && !fields[6].is_empty() {
                assert!(fields[6].contains(offset), "{name}: offset of response {id}: {offset}, {:?}", fields[6]);
                detailed += 1;
            }
        }
    }
    assert!(captures.is_empty() || agreed >= 14, "{agreed} messages compared");
    assert!(captures.is_empty() || detailed >= 5, "{detailed} bodies compared");
}
