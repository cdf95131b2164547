//! Memcached's text protocol. tshark reads the first command and the first answer of a segment only.

use super::compare::{check, Explained};
use super::tshark::{self, Ask};
use super::{captures, ours, Reading, Said};
use std::collections::BTreeSet;
use wirespan_model::Kind;

const EXPLAINED: &[Explained] = &[Explained {
    capture: "memcached-userdata.pcap",
    only_theirs: 0,
    only_ours: 16,
    why: "tshark reads the first command of a segment only",
}];

#[test]
fn memcached_as_tshark_reads_it() {
    let mut agreed = 0;
    let captures = captures("memcached_as_tshark_reads_it", "memcached");
    for capture in &captures {
        let ask = Ask { filter: "memcache", ..Ask::default() };
        let mut theirs = Reading::new();
        for row in tshark::fields(capture, ask, &["memcache.command", "memcache.response"]) {
            let asks = !row.one(0).is_empty();
            theirs.entry(row.ends()).or_default().push(Said {
                from: row.from,
                kind: if asks { Kind::Request } else { Kind::Response },
                operation: row.one(0).to_owned(),
                target: String::new(),
                status: row.one(1).replace("END", ""),
            });
        }
        let mine = ours::read(capture, "memcached", usize::MAX, &ours::plain);
        assert_eq!(mine.malformed.iter().collect::<BTreeSet<_>>().len(), 0, "{}", capture.display());
        agreed += check(capture, &mine.said, &theirs, EXPLAINED);
    }
    assert!(captures.is_empty() || agreed > 10_000, "{agreed} messages compared");
}
