//! Pulsar: tshark has no dissector for it. It puts the payloads together; the type of a command is the second byte of
//! it.

use super::compare::check;
use super::tshark::{self, Ask};
use super::{captures, ours, Reading, Said};
use wirespan_model::Kind;

/// Types that occur, as PulsarApi.proto numbers them; answers have no operation.
const TYPES: &[(u8, Kind, &str)] = &[
    (2, Kind::Request, "CONNECT"),
    (3, Kind::Response, ""),
    (4, Kind::Request, "SUBSCRIBE"),
    (9, Kind::OneWay, "MESSAGE"),
    (10, Kind::OneWay, "ACK"),
    (11, Kind::OneWay, "FLOW"),
    (13, Kind::Response, ""),
    (16, Kind::Request, "CLOSE_CONSUMER"),
    (21, Kind::Request, "PARTITIONED_METADATA"),
    (22, Kind::Response, ""),
    (23, Kind::Request, "LOOKUP"),
    (24, Kind::Response, ""),
];

#[test]
fn pulsar_by_types() {
    let captures = captures("pulsar_by_types", "pulsar");
    let mut agreed = 0;
    for capture in &captures {
        let mut theirs = Reading::new();
        for row in tshark::fields(capture, Ask { filter: "tcp.len > 0", ..Ask::default() }, &["tcp.payload"]) {
            let hex = row.one(0).replace(':', "");
            let bytes: Vec<u8> =
                (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect();
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let len = u32::from_be_bytes(*rest.first_chunk().unwrap()) as usize + 4;
                let kind = rest[9];
                let (_, kind, operation) = TYPES.iter().find(|(n, ..)| *n == kind).unwrap();
                theirs.entry(row.ends()).or_default().push(Said {
                    from: row.from,
                    kind: *kind,
                    operation: (*operation).into(),
                    target: String::new(),
                    status: String::new(),
                });
                rest = &rest[len..];
            }
        }
        let mine = ours::read(capture, "pulsar", usize::MAX, &|m, from| {
            Some(Said { target: String::new(), ..ours::plain(m, from)? })
        });
        agreed += check(capture, &mine.said, &theirs, &[]);
    }
    assert!(captures.is_empty() || agreed >= 24, "{agreed} messages compared");
}
