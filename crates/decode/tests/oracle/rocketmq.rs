//! RocketMQ: tshark has no dissector for it. It puts the payloads together; what stands in them is searched for as
//! text.

use super::compare::check;
use super::tshark::{self, Ask};
use super::{captures, ours, Reading, Said};
use wirespan_model::Kind;

/// Numbers behind a key, in order.
fn numbers(text: &str, key: &str) -> Vec<String> {
    let key = format!("\"{key}\":");
    let parts = text.split(&key).skip(1);
    parts.map(|part| part.chars().take_while(char::is_ascii_digit).collect()).collect()
}

#[test]
fn rocketmq_as_its_text_says() {
    let captures = captures("rocketmq_as_its_text_says", "rocketmq");
    let mut agreed = 0;
    for capture in &captures {
        let mut theirs = Reading::new();
        for row in tshark::fields(capture, Ask { filter: "tcp.len > 0", ..Ask::default() }, &["tcp.payload"]) {
            let hex = row.one(0).replace(':', "");
            let bytes: Vec<u8> =
                (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let (codes, flags, ids) = (numbers(&text, "code"), numbers(&text, "flag"), numbers(&text, "opaque"));
            assert!(codes.len() == flags.len() && codes.len() == ids.len(), "{}: {text}", capture.display());
            for ((code, flag), id) in codes.into_iter().zip(flags).zip(ids) {
                let kind = match flag.as_str() {
                    "0" => Kind::Request,
                    "2" => Kind::OneWay,
                    _ => Kind::Response,
                };
                let status = if kind == Kind::Response { code.clone() } else { String::new() };
                let operation = match code.as_str() {
                    _ if kind == Kind::Response => "",
                    "11" => "PULL_MESSAGE",
                    "15" => "UPDATE_CONSUMER_OFFSET",
                    "38" => "GET_CONSUMER_LIST_BY_GROUP",
                    "105" => "GET_ROUTEINFO_BY_TOPIC",
                    "310" => "SEND_MESSAGE_V2",
                    _ => "?",
                };
                theirs.entry(row.ends()).or_default().push(Said {
                    from: row.from,
                    kind,
                    operation: operation.into(),
                    target: id,
                    status,
                });
            }
        }
        let mine = ours::read(capture, "rocketmq", usize::MAX, &|m, from| {
            Some(Said { target: m.id?.to_string(), ..ours::plain(m, from)? })
        });
        agreed += check(capture, &mine.said, &theirs, &[]);
    }
    assert!(captures.is_empty() || agreed >= 30, "{agreed} messages compared");
}
