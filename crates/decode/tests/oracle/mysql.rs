//! MySQL: commands, and one answer each.

use super::compare::{check, Explained};
use super::tshark::{self, Ask};
use super::{captures, ours, Reading, Said};
use std::collections::HashMap;
use wirespan_model::{Endpoint, Kind};

const COMPRESSED: &str = "tshark reads the header of compression as a packet (`SLEEP`) when it did not see the login";

const EXPLAINED: &[Explained] = &[
    Explained { capture: "mysql-compressed-response.pcap", only_theirs: 1, only_ours: 1, why: COMPRESSED },
    Explained { capture: "mysql-use.pcap", only_theirs: 1, only_ours: 1, why: COMPRESSED },
    Explained { capture: "partial-packet-compressed.pcap", only_theirs: 1, only_ours: 3, why: COMPRESSED },
];

/// What a command does, by its number and statement.
fn operation(command: &str, query: &str) -> String {
    let verb = query.trim_start().split([' ', '(', ';']).next().unwrap_or_default().to_ascii_uppercase();
    match command {
        "0" => "SLEEP",
        "1" => "QUIT",
        "2" => "INIT DB",
        "3" | "23" => &verb,
        "4" => "FIELD LIST",
        "9" => "STATISTICS",
        "14" => "PING",
        "22" => "PREPARE",
        "24" => "STMT SEND LONG DATA",
        "25" => "STMT CLOSE",
        "26" => "STMT RESET",
        other => return format!("command {other}"),
    }
    .to_owned()
}

#[test]
fn mysql_as_tshark_reads_it() {
    let mut agreed = 0;
    let captures = captures("mysql_as_tshark_reads_it", "mysql");
    for capture in &captures {
        let ask = Ask {
            filter: "mysql",
            decode_as: &["tcp.port==20130,mysql", "tcp.port==30130,mysql", "tcp.port==6033,mysql"],
            ..Ask::default()
        };
        let fields = [
            "mysql.command",
            "mysql.query",
            "mysql.error_code",
            "mysql.login_request",
            "mysql.stmt_id",
            "mysql.server_greeting",
        ];
        let mut theirs = Reading::new();
        // Statements by connection and number, and what the last command prepares.
        let mut statements: HashMap<(Endpoint, String), String> = HashMap::new();
        let mut preparing: HashMap<Endpoint, String> = HashMap::new();
        let mut waiting: HashMap<Endpoint, bool> = HashMap::new();
        for row in tshark::fields(capture, ask, &fields) {
            let (command, query, number) = (row.one(0), row.one(1), row.one(4).to_owned());
            let list = theirs.entry(row.ends()).or_default();
            let mut said = Said {
                from: row.from,
                kind: Kind::Request,
                operation: String::new(),
                target: String::new(),
                status: String::new(),
            };
            if !command.is_empty() || !row.fields[3].is_empty() {
                let prepared = statements.get(&(row.from, number)).map(String::as_str);
                let query = if command == "23" { prepared.unwrap_or("EXECUTE") } else { query };
                said.operation = if command.is_empty() { "LOGIN".into() } else { operation(command, query) };
                if command == "22" {
                    preparing.insert(row.from, query.to_owned());
                }
                let one_way = matches!(command, "1" | "24" | "25");
                said.kind = if one_way { Kind::OneWay } else { Kind::Request };
                waiting.insert(row.from, !one_way);
                list.push(said);
            } else if row.fields[5].is_empty() && waiting.insert(row.to, false) == Some(true) {
                if let (Some(query), false) = (preparing.remove(&row.to), number.is_empty()) {
                    statements.insert((row.to, number), query);
                }
                said.kind = Kind::Response;
                said.status = row.one(2).to_owned();
                list.push(said);
            }
        }
        for copy in [usize::MAX, 512] {
            let mine = ours::read(capture, "mysql", copy, &|m, from| {
                let mut said = ours::plain(m, from)?;
                said.target.clear();
                Some(said)
            });
            agreed += check(capture, &mine.said, &theirs, EXPLAINED);
        }
    }
    assert!(captures.is_empty() || agreed > 100, "{agreed} messages compared");
}
