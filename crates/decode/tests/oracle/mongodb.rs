//! MongoDB: messages, numbers, and the first names of their documents.

use super::compare::check;
use super::tshark::{self, Ask};
use super::{captures, ours, Reading, Said};
use wirespan_model::Kind;

#[test]
fn mongodb_as_tshark_reads_it() {
    let mut agreed = 0;
    let captures = captures("mongodb_as_tshark_reads_it", "mongo");
    for capture in &captures {
        // The port of these captures is none that tshark knows.
        let ask = Ask { decode_as: &["tcp.port==3717,mongo"], filter: "mongo", ..Ask::default() };
        let fields = ["mongo.response_to", "mongo.element.name", "mongo.element.value.string"];
        let mut theirs = Reading::new();
        for row in tshark::fields(capture, ask, &fields) {
            let asks = row.one(0) == "0x00000000";
            theirs.entry(row.ends()).or_default().push(Said {
                from: row.from,
                kind: if asks { Kind::Request } else { Kind::Response },
                operation: if asks { row.one(1).to_owned() } else { String::new() },
                target: if asks { row.one(2).to_owned() } else { String::new() },
                status: String::new(),
            });
        }
        let mine = ours::read(capture, "mongodb", usize::MAX, &ours::plain);
        assert_eq!(mine.malformed, [""; 0], "{}", capture.display());
        agreed += check(capture, &mine.said, &theirs, &[]);
        // What live capture would see of it is enough for the same.
        agreed += check(capture, &ours::read(capture, "mongodb", 256, &ours::plain).said, &theirs, &[]);
    }
    assert!(captures.is_empty() || agreed >= 4, "{agreed} messages compared");
}
