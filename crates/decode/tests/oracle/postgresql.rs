//! PostgreSQL: tshark names messages, we name requests; both are brought to what a request is.

use super::compare::check;
use super::tshark::{self, Ask};
use super::{captures, ours, Reading, Said};
use wirespan_model::Kind;

/// Verbs of the captures.
const VERBS: [&str; 8] = ["BEGIN", "COMMIT", "DELETE", "INSERT", "ROLLBACK", "SELECT", "SET", "UPDATE"];

#[test]
fn postgresql_as_tshark_reads_it() {
    let mut agreed = 0;
    let captures = captures("postgresql_as_tshark_reads_it", "postgre");
    for capture in &captures {
        let ask = Ask { filter: "pgsql", decode_as: &["tcp.port==5432,pgsql"], ..Ask::default() };
        let rows = tshark::fields(capture, ask, &["pgsql.type", "pgsql.query", "pgsql.code", "pgsql.frontend"]);
        let mut theirs = Reading::new();
        for row in rows {
            let said = |kind, operation: &str, status: &str| Said {
                from: row.from,
                kind,
                operation: operation.to_owned(),
                target: String::new(),
                status: status.to_owned(),
            };
            let types: Vec<&str> = row.fields[0].iter().map(String::as_str).collect();
            let verb = row.one(1).split([' ', ';']).next().unwrap_or_default().to_ascii_uppercase();
            // A text that is no statement has no verb.
            let verb = if VERBS.contains(&&*verb) { verb } else { "QUERY".to_owned() };
            let list = theirs.entry(row.ends()).or_default();
            if types.contains(&"Simple query") || types.contains(&"Execute") {
                list.push(said(Kind::Request, &verb, ""));
            } else if types.contains(&"Parse") {
                list.push(said(Kind::Request, "PREPARE", ""));
            } else if row.one(3) == "0" || types.contains(&"Ready for query") {
                list.push(said(Kind::Response, "", row.one(2)));
            }
        }
        for copy in [usize::MAX, 512] {
            let mine = ours::read(capture, "postgresql", copy, &|m, from| {
                let mut said = ours::plain(m, from)?;
                said.target.clear();
                Some(said)
            });
            // One capture misses segments.
            assert!(mine.malformed.iter().all(|r| r.ends_with("_gap")), "{}: {:?}", capture.display(), mine.malformed);
            agreed += check(capture, &mine.said, &theirs, &[]);
        }
    }
    assert!(captures.is_empty() || agreed >= 12, "{agreed} messages compared");
}
