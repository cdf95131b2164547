//! Conversations written by hand.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

mod bytes;

use super::Mysql;
use crate::testing::{c, cut, probe, s, tcp, tcp_to_the_end, Turn};
use crate::{Detect, Protocol};
use bytes::{
    definition, end, failed, greeting, login, ok, ok_end, p, query, result, row, short, wrapped, CAPS, DEPRECATE_EOF,
};
use proptest::prelude::*;

#[test]
fn a_session_is_read_from_its_start() {
    let said = tcp(
        &Mysql,
        &[
            s(greeting(CAPS)),
            c(login(CAPS)),
            s(p(2, b"\xfemysql_native_password\0CANARY\0")),
            c(p(3, "CANARY")),
            s(ok(4, 0, 2)),
            c(query("SELECT * FROM items WHERE a = 'CANARY' AND b = \"CANARY\"")),
            s(result(1, 2)),
            c(p(0, b"\x02other")),
            s(ok(1, 0, 2)),
            c(query("UPDATE t SET a = 1")),
            s(ok(1, 3, 2)),
            c(query("INSERT INTO t VALUES ('x')")),
            s(failed(1, 1062, "23000", "Duplicate entry 'CANARY' for key 't.a'")),
            c(p(0, [1])),
        ],
    );
    let text = said.join("\n");
    assert!(!text.contains("CANARY"), "{text}");
    assert_eq!(
        said,
        [
            "C req @0+74 LOGIN db.system.name=mysql db.namespace=shop db.operation.name=LOGIN",
            "S resp @112+11 Ok",
            "C req @84+60 SELECT items db.system.name=mysql db.namespace=shop db.operation.name=SELECT \
             db.collection.name=items db.query.summary=SELECT items db.query.text=SELECT * FROM items WHERE a = ? AND \
             b = ?",
            "S resp @123+5 body=open Ok",
            "End Server @199 None db.response.returned_rows=2",
            "C req @144+10 INIT DB db.system.name=mysql db.namespace=shop db.operation.name=INIT DB",
            "S resp @199+11 Ok",
            "C req @154+23 UPDATE t db.system.name=mysql db.namespace=other db.operation.name=UPDATE \
             db.collection.name=t db.query.summary=UPDATE t db.query.text=UPDATE t SET a = ?",
            "S resp @210+11 Ok wirespan.db.affected_rows=3",
            "C req @177+31 INSERT t db.system.name=mysql db.namespace=other db.operation.name=INSERT \
             db.collection.name=t db.query.summary=INSERT t db.query.text=INSERT INTO t VALUES (?)",
            "S resp @221+51 status=1062 ClientError error=\"Duplicate entry '?'\" db.response.status_code=1062 \
             error.type=1062 wirespan.db.sqlstate=23000",
            "C oneway @208+5 QUIT db.system.name=mysql db.namespace=other db.operation.name=QUIT",
        ]
    );
}

#[test]
fn results_without_eof_packets_end() {
    let rows = [p(1, [1]), definition(2), row(3), row(4), ok_end(5, 2)].concat();
    let empty = [p(1, [1]), definition(2), ok_end(3, 2)].concat();
    let known = [
        s(greeting(CAPS | DEPRECATE_EOF)),
        c(login(CAPS | DEPRECATE_EOF)),
        s(ok(2, 0, 2)),
        c(query("SELECT 1")),
        s(&rows),
        c(query("SELECT 2")),
        s(&empty),
    ];
    for turns in [&known[..], &known[3..]] {
        let said = tcp(&Mysql, turns);
        let ends: Vec<_> =
            said.iter().filter(|l| l.starts_with("End")).map(|l| l.split("None ").nth(1).unwrap()).collect();
        assert_eq!(ends, ["db.response.returned_rows=2", "db.response.returned_rows=0"], "{said:?}");
    }
}

#[test]
fn several_results_are_one_answer() {
    let said = tcp(
        &Mysql,
        &[
            c(query("SELECT 1; UPDATE t SET a = 2; CALL p()")),
            s([result(1, 10), ok(7, 5, 10), result(8, 10), failed(14, 1213, "40001", "Deadlock found")].concat()),
            c(query("SELECT 2")),
            s(result(1, 2)),
        ],
    );
    let server: Vec<_> = said.iter().filter(|l| !l.starts_with('C')).collect();
    assert_eq!(
        server,
        [
            "S resp @0+5 body=open Ok",
            "End Server @190 None status=1213 ServerError error=\"Deadlock found\" db.response.status_code=1213 \
             error.type=1213 wirespan.db.sqlstate=40001",
            "S resp @190+5 body=open Ok",
            "End Server @266 None db.response.returned_rows=2",
        ]
    );
}

#[test]
fn prepared_statements_are_resolved() {
    let prepare = p(0, b"\x16DELETE FROM t WHERE a = ? AND b = 'CANARY'");
    let prepared = |eof: bool| {
        let mut parts = vec![p(1, b"\0\x05\0\0\0\0\0\x01\0\0\0\0"), definition(2)];
        if eof {
            parts.push(end(3, 2));
        }
        parts.concat()
    };
    let execute = p(0, b"\x17\x05\0\0\0\0\x01\0\0\0\0\x01\xfd\0\x06CANARY");
    for eof in [true, false] {
        let said = short(&[
            c(&prepare),
            s(prepared(eof)),
            c(&execute),
            s(ok(1, 1, 2)),
            c(p(0, b"\x18\x05\0\0\0\0\0CANARY")),
            c(p(0, b"\x19\x05\0\0\0")),
            c(&execute),
            s(failed(1, 1243, "HY000", "Unknown prepared statement handler (5) given")),
        ]);
        let ops: Vec<_> = said
            .iter()
            .map(|l| {
                l.split(['@', '+']).next().unwrap().to_owned()
                    + l.split_once(' ').unwrap().1.split(' ').skip(2).collect::<Vec<_>>().join(" ").as_str()
            })
            .collect();
        assert_eq!(ops[0], "C req PREPARE t", "{said:?}");
        assert_eq!(ops[3], "C req body=9 DELETE t");
        assert_eq!(ops[4], "S resp Ok wirespan.db.affected_rows=1");
        assert!(ops[5].starts_with("C oneway"), "{ops:?}");
        assert_eq!(ops[6], "C oneway STMT CLOSE t");
        assert_eq!(ops[7], "C req body=9 EXECUTE");
        assert_eq!(ops[8], "S resp status=1243 ClientError error=\"Unknown prepared statement handler (?) given\"");
    }
}

#[test]
fn files_attributes_and_databases_are_read() {
    let said = tcp(
        &Mysql,
        &[
            c(query("LOAD DATA LOCAL INFILE 'CANARY' INTO TABLE t")),
            s(p(1, b"\xfbCANARY")),
            c([p(2, "CANARY"), p(3, "")].concat()),
            s(ok(4, 7, 2)),
            c(p(0, b"\x03\0\x01USE `my db`")),
            s(ok(1, 0, 2)),
            c(p(0, b"\x03\0\x01USE good;")),
            s(ok(1, 0, 2)),
            c(p(0, b"\x03\x01\x01\0\x01\xfd\0\x01k\x06CANARYSELECT 1")),
            s(result(1, 2)),
        ],
    );
    let text = said.join("\n");
    assert!(!text.contains("CANARY"), "{text}");
    assert!(said[0].starts_with("C req @0+49 LOAD"), "{text}");
    assert_eq!(said[2], "End Server @22 None wirespan.db.affected_rows=7");
    assert!(said[7].contains("db.namespace=good"), "{text}");
    let known = [
        s(greeting(CAPS | 0x800_0000)),
        c(login(CAPS | 0x800_0000)),
        s(ok(2, 0, 2)),
        c(p(0, b"\x03\x01\x01\0\x01\xfd\0\x01k\x06CANARYSELECT 1 FROM t")),
    ];
    let said = tcp(&Mysql, &known);
    assert!(said[2].ends_with("db.query.text=SELECT ? FROM t"), "{said:?}");
}

#[test]
fn special_commands_are_read_and_some_have_no_answer() {
    let said = short(&[
        c(p(0, [0x09])),
        s(p(1, "Uptime: 7")),
        c(p(0, [0x0e])),
        s(ok(1, 0, 2)),
        c(p(0, b"\x1c\x05\0\0\0\x09\0\0\0")),
        s([row(1), row(2), end(3, 0x80)].concat()),
        c(p(0, b"\x17\x05\0\0\0\x01\x01\0\0\0")),
        s([p(1, [1]), definition(2), end(3, 0x42)].concat()),
        c(p(0, b"\x11bob\0\x06CANARYshop\0")),
        s(p(1, b"\xfemysql_native_password\0CANARY\0")),
        c(p(2, "CANARY")),
        s(ok(3, 0, 2)),
        c(p(0, b"\x12\x04\0\0\0\0\0\x01\0\0\0log.1")),
        s(p(1, b"\0CANARY event")),
        s(p(2, b"\0CANARY event")),
        s(failed(3, 1053, "08S01", "Server shutdown in progress")),
    ]);
    let words: Vec<_> =
        said.iter().map(|l| l.split(' ').filter(|w| !w.starts_with('@')).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        words,
        [
            "C req STATISTICS",
            "S resp Ok",
            "C req PING",
            "S resp Ok",
            "C req STMT FETCH",
            "S resp body=open Ok",
            "End Server None",
            "C req EXECUTE",
            "S resp body=open Ok",
            "End Server None",
            "C req CHANGE USER",
            "S resp Ok",
            "C req body=4 BINLOG DUMP",
            "S resp Ok",
            "S oneway ERROR status=1053 ServerError error=\"Server shutdown in progress\"",
        ]
    );
}

#[test]
fn tls_is_an_upgrade_and_compression_is_marked() {
    let ssl = p(1, [&(CAPS | 0x800).to_le_bytes()[..], &[0; 28]].concat());
    let said = short(&[s(greeting(CAPS | 0x800)), c(ssl), c("\x16\x03\x01 anything")]);
    assert_eq!(said, ["C oneway @0+36 SSL REQUEST", "Upgrade tls"]);
    let turns = [
        s(greeting(CAPS | 0x20)),
        c(login(CAPS | 0x20)),
        s(ok(2, 0, 2)),
        c(wrapped(0, &query("SELECT a FROM t"), 0)),
        s(wrapped(1, b"\x78\x9cCANARY", 600)),
        s(wrapped(2, b"\x78\x9cCANARY", 600)),
        c(wrapped(0, b"\x78\x9cCANARY", 600)),
        s(wrapped(1, &failed(1, 1146, "42S02", "Table 'CANARY' doesn't exist"), 0)),
        c(wrapped(0, &p(0, [0x0e]), 0)),
        s(wrapped(1, &ok(1, 0, 2), 0)),
    ];
    for turns in [&turns[..], &turns[3..]] {
        let said = tcp(&Mysql, turns);
        let tail = &said[said.len() - 6..];
        assert!(tail[0].ends_with("SELECT a FROM t wirespan.mysql.compressed=true"), "{said:?}");
        assert!(tail[1].ends_with("body=open Ok"), "{said:?}");
        assert!(tail[2].ends_with("db.system.name=mysql wirespan.mysql.compressed=true"), "{said:?}");
        assert!(tail[3].contains("status=1146 ClientError error=\"Table '?'t exist\""), "{said:?}");
        assert!(tail[4].contains("PING"), "{said:?}");
        assert!(tail[5].ends_with("Ok"), "{said:?}");
    }
}

#[test]
fn gaps_are_skipped_or_counted() {
    let long = format!("SELECT '{}' FROM t", "CANARY".repeat(200));
    let said = short(&[
        (c("").0, query(&long)[..512].to_vec(), query(&long).len() as u64 - 512),
        (s("").0, result(1, 2)[..30].to_vec(), 4000),
        (s("").0, vec![], 9000),
        c(query("SELECT 2")),
        s(result(1, 2)),
    ]);
    assert_eq!(
        said,
        [
            "C req @0+512 body=709 SELECT",
            "S resp @0+5 body=open Ok",
            "C req @1221+13 SELECT",
            "S resp @13030+5 body=open Ok",
            "End Server @13106 None",
        ]
    );
}

#[test]
fn the_place_is_found_again_with_the_next_command() {
    // Headers of packets are read with a call of their own: four bytes do not look like the start of an answer.
    let (a, b) = (result(1, 2), ok(1, 3, 2));
    let said = short(&[
        c(query("SELECT 1")),
        (s("").0, a[..4].to_vec(), 70_000),
        s(b"\x05\0\0\x63"),
        s(b"rows!"),
        c(query("UPDATE t SET n = 1")),
        s(&b[..4]),
        s(&b[4..]),
    ]);
    assert!(said.last().is_some_and(|l| l.starts_with("S resp") && l.contains(" Ok")), "{said:?}");
    assert_eq!(said.iter().filter(|l| l.starts_with("C req")).count(), 2, "{said:?}");
}

#[test]
fn connections_are_recognised_and_others_are_not() {
    let yes = |first_is_client| Detect::Yes { first_is_client };
    let ask = |first: &[u8], second: &[u8]| Mysql.detect(&probe(first, second));
    assert_eq!(ask(&greeting(CAPS), b""), yes(false));
    assert_eq!(ask(&greeting(CAPS)[..20], b""), Detect::Maybe);
    assert_eq!(ask(&query("SELECT 1"), b""), yes(true));
    assert_eq!(ask(&query(&format!("SELECT {}", "a,".repeat(300)))[..512], b""), yes(true));
    assert_eq!(ask(&query("hello"), b""), Detect::No);
    assert_eq!(ask(&p(0, [0x0e]), b""), Detect::Maybe);
    assert_eq!(ask(&p(0, [0x0e]), &ok(1, 0, 2)), yes(true));
    assert_eq!(ask(&result(1, 2), &query("SELECT 1")), yes(false));
    assert_eq!(ask(&p(0, b"\x17\x05\0\0\0\0\x01\0\0\0"), &result(1, 2)), yes(true));
    assert_eq!(ask(&wrapped(0, &query("COMMIT"), 0), b""), yes(true));
    assert_eq!(ask(b"GET / HTTP/1.1\r\n\r\n", b""), Detect::No);
    assert_eq!(ask(&[0; 40], b""), Detect::No);
}

/// A conversation with everything in it.
fn conversation() -> Vec<Turn> {
    vec![
        s(greeting(CAPS)),
        c(login(CAPS)),
        s(ok(2, 0, 2)),
        c(query(&format!("SELECT '{}', a FROM t", "CANARY".repeat(900)))),
        s(result(1, 2)),
        c(p(0, b"\x16INSERT INTO t VALUES (?, 'CANARY')")),
        s([p(1, b"\0\x05\0\0\0\x01\0\x01\0\0\0\0"), definition(2), end(3, 2), definition(4), end(5, 2)].concat()),
        c(p(0, b"\x17\x05\0\0\0\0\x01\0\0\0\0\x01\xfd\0\x06CANARY")),
        s(ok(1, 1, 2)),
        c([p(0, b"\x18\x05\0\0\0\0\0CANARY"), p(0, b"\x19\x05\0\0\0"), query("SELECT 'a\\'CANARY'; SELECT 2")]
            .concat()),
        s([result(1, 10), result(7, 2)].concat()),
        c(query("USE other")),
        s(ok(1, 0, 2)),
        c(query("LOAD DATA LOCAL INFILE 'CANARY' INTO TABLE t")),
        s(p(1, b"\xfbCANARY")),
        c([p(2, "CANARY".repeat(1000)), p(3, "")].concat()),
        s(failed(4, 1064, "42000", "You have an error near 'CANARY'' at line 1")),
        c(p(0, [1])),
    ]
}

#[test]
fn no_canary_gets_out() {
    let said = tcp_to_the_end(&Mysql, &conversation()).join("\n");
    assert!(!said.contains("CANARY") && !said.contains("Malformed"), "{said}");
}

proptest! {
    #[test]
    fn chunking_does_not_matter(cuts in prop::collection::vec(1usize..200, 1..20)) {
        let whole = conversation();
        prop_assert_eq!(tcp_to_the_end(&Mysql, &whole), tcp_to_the_end(&Mysql, &cut(&whole, &cuts)));
    }

    #[test]
    fn chunking_does_not_matter_when_joined_later(
        cuts in prop::collection::vec(1usize..200, 1..20),
        from in prop::sample::select(vec![3usize, 5, 7, 9, 11, 13]),
    ) {
        let whole = conversation().split_off(from);
        prop_assert_eq!(tcp_to_the_end(&Mysql, &whole), tcp_to_the_end(&Mysql, &cut(&whole, &cuts)));
    }

    #[test]
    fn flips_cuts_and_gaps_never_panic(
        flips in prop::collection::vec((0usize..20_000, any::<u8>()), 0..8),
        cuts in prop::collection::vec(1usize..300, 1..20),
        gaps in prop::collection::vec(prop_oneof![3 => Just(0u64), 1 => 1u64..100, 1 => Just(u64::MAX)], 1..20),
    ) {
        let mut turns = conversation();
        for (at, value) in flips {
            let n = turns.len();
            let bytes = &mut turns[at % n].1;
            let i = at % bytes.len();
            bytes[i] = value;
        }
        let mut pieces = cut(&turns, &cuts);
        for (piece, gap) in pieces.iter_mut().zip(gaps.iter().cycle()) {
            piece.2 = *gap;
        }
        tcp_to_the_end(&Mysql, &pieces);
    }
}

#[test]
fn a_refusal_in_the_place_of_the_greeting_is_recognised() {
    let refuses = |seq: u8, text: &[u8]| [&[text.len() as u8, 0, 0, seq][..], text].concat();
    let blocked = refuses(0, b"\xff\x69\x04Host 'x' is blocked because of many errors");
    assert_eq!(crate::testing::claimed(&blocked, b""), Some(("mysql", false)));
    let full = refuses(0, b"\xff\x10\x04#08004Too many connections");
    assert_eq!(crate::testing::claimed(&full, b""), Some(("mysql", false)));
    assert_eq!(crate::testing::claimed(&refuses(0, b"\xff\x69\xffHost is blocked by us"), b""), None);
    assert_eq!(crate::testing::claimed(&refuses(0, b"\xff\x69\x04\0\0\0\0\0\0\0\0\0\0"), b""), None);
}
