//! Redis: commands by name, one answer each.

use super::compare::check;
use super::tshark::{self, Ask};
use super::{captures, ours, Reading, Said};
use wirespan_model::Kind;

/// tshark does not say who asks: the server of these captures has the registered port.
const SERVER: u16 = 6379;

#[test]
fn redis_as_tshark_reads_it() {
    let mut agreed = 0;
    let captures = captures("redis_as_tshark_reads_it", "redis");
    for capture in &captures {
        let mut theirs = Reading::new();
        for packet in tshark::json(capture, Ask { filter: "resp", ..Ask::default() }) {
            let value = &packet.layers["resp"];
            // A segment of an answer that tshark finds whole in a later packet. (A null is a layer without fields.)
            if value.get("resp.fragment").is_some() {
                continue;
            }
            let asks = packet.to.port == SERVER;
            let first = tshark::all(&value["resp.array"]["resp.bulk_string"]).first();
            let word = first.filter(|_| asks).map_or_else(String::new, |w| unhex(&w["resp.bulk_string.value"]));
            theirs.entry(packet.ends()).or_default().push(Said {
                from: packet.from,
                kind: if asks { Kind::Request } else { Kind::Response },
                operation: word.to_ascii_uppercase(),
                target: String::new(),
                status: tshark::all(&value["resp.error"]).first().map(|_| "error".to_owned()).unwrap_or_default(),
            });
        }
        let mine = ours::read(capture, "redis", usize::MAX, &|m, from| {
            let mut said = ours::plain(m, from)?;
            said.operation = said.operation.split(' ').next()?.to_owned();
            if !said.status.is_empty() {
                said.status = "error".into();
            }
            Some(said)
        });
        agreed += check(capture, &mine.said, &theirs, &[]);
    }
    assert!(captures.is_empty() || agreed > 10, "{agreed} messages compared");
}

fn unhex(value: &serde_json::Value) -> String {
    let text = value.as_str().unwrap_or_default();
    let bytes: Vec<u8> = text.split(':').filter_map(|b| u8::from_str_radix(b, 16).ok()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
