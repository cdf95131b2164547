//! Conversations written by hand.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

use super::Postgresql;
use crate::testing::{c, cut, probe, s, tcp, tcp_to_the_end, Turn};
use crate::{Detect, Protocol};
use proptest::prelude::*;

/// A message with a type.
pub(super) fn msg(kind: u8, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut bytes = vec![kind];
    bytes.extend((body.len() as u32 + 4).to_be_bytes());
    bytes.extend(body);
    bytes
}

fn startup(params: &str) -> Vec<u8> {
    let mut bytes = (params.len() as u32 + 8).to_be_bytes().to_vec();
    bytes.extend(196_608u32.to_be_bytes());
    bytes.extend(params.as_bytes());
    bytes
}

fn cat(parts: &[Vec<u8>]) -> Vec<u8> {
    parts.concat()
}

fn query(sql: &str) -> Vec<u8> {
    msg(b'Q', format!("{sql}\0"))
}

fn parse(name: &str, sql: &str) -> Vec<u8> {
    msg(b'P', format!("{name}\0{sql}\0\0\0"))
}

fn bind(portal: &str, name: &str) -> Vec<u8> {
    msg(b'B', format!("{portal}\0{name}\0\0\0\0\x01\0\0\0\x06CANARY\0\0"))
}

fn execute(portal: &str) -> Vec<u8> {
    msg(b'E', format!("{portal}\0\0\0\0\0"))
}

fn sync() -> Vec<u8> {
    msg(b'S', "")
}

fn done(tag: &str) -> Vec<u8> {
    msg(b'C', format!("{tag}\0"))
}

fn ready() -> Vec<u8> {
    msg(b'Z', "I")
}

fn row() -> Vec<u8> {
    msg(b'D', b"\0\x01\0\0\0\x06CANARY")
}

fn error(code: &str, text: &str) -> Vec<u8> {
    msg(b'E', format!("SERROR\0VERROR\0C{code}\0M{text}\0DCANARY\0\0"))
}

fn say(turns: &[Turn]) -> Vec<String> {
    tcp(&Postgresql, turns)
}

#[test]
fn a_session_is_read_from_its_start() {
    let said = say(&[
        c([0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f]),
        s("N"),
        c(startup("user\0bob\0database\0shop\0\0")),
        s(msg(b'R', [0, 0, 0, 5, 1, 2, 3, 4])),
        c(msg(b'p', "md5CANARY\0")),
        s(cat(&[msg(b'R', [0; 4]), msg(b'S', "standard_conforming_strings\0on\0"), msg(b'K', "12345678"), ready()])),
        c(query("SELECT * FROM items WHERE id = 7")),
        s(cat(&[msg(b'T', "x"), row(), row(), done("SELECT 2"), ready()])),
        c(msg(b'X', "")),
    ]);
    assert_eq!(
        said,
        [
            "C req @0+8 SSL REQUEST db.system.name=postgresql db.operation.name=SSL REQUEST",
            "S resp @0+1 Ok wirespan.encryption.accepted=false",
            "C req @8+32 STARTUP db.system.name=postgresql db.namespace=shop db.operation.name=STARTUP",
            "S resp @1+9 body=open Ok",
            "End Server @78 None",
            "C req @55+38 SELECT items db.system.name=postgresql db.namespace=shop db.operation.name=SELECT \
             db.collection.name=items db.query.summary=SELECT items db.query.text=SELECT * FROM items WHERE id = ?",
            "S resp @78+5 body=open Ok",
            "End Server @138 None db.response.returned_rows=2",
            "C oneway @93+5 TERMINATE db.system.name=postgresql db.namespace=shop db.operation.name=TERMINATE",
        ]
    );
}

#[test]
fn tls_is_an_upgrade() {
    let said = say(&[c([0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f]), s("S"), c("\x16\x03\x01 anything"), s("more")]);
    assert_eq!(said[1..], ["S resp @0+1 Ok wirespan.encryption.accepted=true", "Upgrade tls"]);
}

#[test]
fn the_extended_protocol_is_one_request() {
    let said = say(&[
        c(cat(&[
            parse("st", "UPDATE t SET a = $1 WHERE b = 'CANARY'"),
            bind("", "st"),
            msg(b'D', "P\0"),
            execute(""),
            sync(),
        ])),
        s(cat(&[msg(b'1', ""), msg(b'2', ""), msg(b'n', ""), done("UPDATE 3"), ready()])),
        c(cat(&[bind("", "st"), execute(""), sync()])),
        s(cat(&[msg(b'2', ""), error("23505", "duplicate key value violates unique constraint \"k\""), ready()])),
        c(cat(&[bind("", "unseen"), execute(""), sync()])),
        s(cat(&[msg(b'2', ""), done("SELECT 1"), ready()])),
    ]);
    let attrs = "db.system.name=postgresql db.operation.name=UPDATE db.collection.name=t db.query.summary=UPDATE t \
                 db.query.text=UPDATE t SET a = $1 WHERE b = ?";
    assert_eq!(said[0], format!("C req @0+91 UPDATE t {attrs}"));
    assert_eq!(said[1], "S resp @0+5 body=open Ok");
    assert_eq!(said[2], "End Server @35 None wirespan.db.affected_rows=3");
    assert!(said[3].ends_with(attrs), "{}", said[3]);
    assert_eq!(
        said[5],
        "End Server @127 None ClientError error=\"duplicate key value violates unique constraint \\\"?\\\"\" \
         db.response.status_code=23505 error.type=23505"
    );
    assert_eq!(said[6], "C req @136+39 EXECUTE db.system.name=postgresql db.operation.name=EXECUTE");
    assert_eq!(said[8], "End Server @158 None db.response.returned_rows=1");
    assert_eq!(said.len(), 9);
}

#[test]
fn a_preparation_is_one_request() {
    let said = say(&[
        c(cat(&[parse("a", "SELECT 1 FROM t"), msg(b'D', "Sa\0"), sync()])),
        s(cat(&[msg(b'1', ""), msg(b't', "\0\0"), msg(b'T', "\0\0"), ready()])),
        c(cat(&[parse("b", "SELECT 2 FROM u"), msg(b'H', "")])),
        s(msg(b'1', "")),
        c(cat(&[bind("", "b"), execute(""), sync()])),
        s(cat(&[msg(b'2', ""), done("SELECT 1"), ready()])),
        c(cat(&[msg(b'C', "Sb\0"), sync()])),
        s(cat(&[msg(b'3', ""), ready()])),
        c(sync()),
        s(ready()),
    ]);
    let short: Vec<_> = said.iter().map(|l| l.split(" db.").next().unwrap()).collect();
    assert_eq!(
        short,
        [
            "C req @0+38 PREPARE t",
            "S resp @0+5 body=open Ok",
            "End Server @25 None",
            "C req @38+30 PREPARE u",
            "S resp @25+5 body=open Ok",
            "C req @68+34 SELECT u",
            "End Server @30 None",
            "S resp @30+5 body=open Ok",
            "End Server @55 None",
            "C req @107+13 CLOSE",
            "S resp @55+5 body=open Ok",
            "End Server @66 None",
            "C req @120+5 SYNC",
            "S resp @66+6 Ok",
        ]
    );
}

#[test]
fn pipelines_are_answered_in_order_even_where_steps_are_skipped() {
    let one = |n: u32| cat(&[parse("", &format!("INSERT INTO t{n} VALUES (1)")), bind("", ""), execute("")]);
    let said = say(&[
        c(cat(&[one(1), one(2), one(3), one(4), sync(), query("SELECT 5")])),
        s(cat(&[msg(b'1', ""), msg(b'2', ""), done("INSERT 0 1")])),
        s(cat(&[msg(b'1', ""), error("40001", "could not serialize"), ready()])),
        s(cat(&[msg(b'T', ""), done("SELECT 1"), ready()])),
    ]);
    let short: Vec<_> = said.iter().filter(|l| !l.starts_with('C')).map(|l| l.as_str()).collect();
    assert_eq!(
        short,
        [
            "S resp @0+5 body=open Ok",
            "End Server @26 None wirespan.db.affected_rows=1",
            "S resp @26+5 body=open Ok",
            "End Server @87 None ServerError error=\"could not serialize\" db.response.status_code=40001 \
            error.type=40001",
            "S resp @87+6 ClientError error=\"skipped: an earlier statement of the pipeline failed\" \
            error.type=pipeline_aborted",
            "S resp @87+6 ClientError error=\"skipped: an earlier statement of the pipeline failed\" \
            error.type=pipeline_aborted",
            "S resp @93+5 body=open Ok",
            "End Server @118 None db.response.returned_rows=1",
        ]
    );
}

#[test]
fn errors_of_queries_and_of_the_server_are_coded() {
    let said = say(&[
        c(query("SELEC 1")),
        s(cat(&[error("42601", "syntax error at or near \"SELEC\""), ready()])),
        c(query("SELECT 1/0")),
        s(cat(&[msg(b'T', ""), row(), error("22012", "division by zero"), ready()])),
        s(msg(b'E', "SFATAL\0C57P01\0Mterminating connection\0\0")),
    ]);
    assert!(said[0].starts_with("C req @0+13 QUERY db.system.name=postgresql"), "{}", said[0]);
    assert!(said[1].contains("ClientError error=\"syntax error at or near \\\"?\\\"\" db.response.status_code=42601"));
    assert_eq!(said[5].split(" db.").next().unwrap(), "End Server @149 None ClientError error=\"division by zero\"");
    assert_eq!(said[6].split('@').next().unwrap(), "S oneway ");
    assert!(said[6].contains("57P01"));
    assert_eq!(said.len(), 7);
}

#[test]
fn copy_data_are_skipped() {
    let said = say(&[
        c(query("COPY t FROM STDIN")),
        s(msg(b'G', "\0\0\0")),
        (c("").0, cat(&[msg(b'd', "CANARY\n"), msg(b'd', "CANARY".repeat(100))])[..60].to_vec(), 0),
    ]);
    assert_eq!(said.len(), 2);
    let whole = cat(&[msg(b'd', "CANARY\n"), msg(b'd', "CANARY".repeat(100)), msg(b'c', ""), query("SELECT 1")]);
    let said = say(&[
        c(query("COPY t FROM STDIN")),
        s(msg(b'G', "\0\0\0")),
        c(whole),
        s(cat(&[done("COPY 2"), ready(), msg(b'T', ""), done("SELECT 1"), ready()])),
        c(query("COPY t TO STDOUT")),
        s(cat(&[msg(b'H', "\0\0\0"), msg(b'd', "CANARY"), msg(b'c', ""), done("COPY 1"), ready()])),
    ]);
    let kinds: Vec<_> = said.iter().map(|l| l.split('@').next().unwrap()).collect();
    assert_eq!(
        kinds,
        ["C req ", "S resp ", "C req ", "End Server ", "S resp ", "End Server ", "C req ", "S resp ", "End Server "]
    );
    assert!(said[3].ends_with("wirespan.db.affected_rows=2"));
}

#[test]
fn notifications_and_cancels_are_one_way() {
    let said = say(&[s(msg(b'A', b"\0\0\0\x01jobs\0CANARY\0"))]);
    assert_eq!(said, ["S oneway @0+21 NOTIFY jobs db.system.name=postgresql db.operation.name=NOTIFY"]);
    let said = say(&[c([0, 0, 0, 16, 4, 0xd2, 0x16, 0x2e, 1, 2, 3, 4, 5, 6, 7, 8])]);
    assert!(said[0].starts_with("C oneway @0+8 body=8 CANCEL"), "{}", said[0]);
}

#[test]
fn gaps_are_skipped_or_counted() {
    // The rest of a long result, then the next query.
    let said = say(&[
        c(query("SELECT a FROM t")),
        (s("").0, cat(&[msg(b'T', ""), row()]), 5000),
        (s("").0, vec![], 9000),
        c(query("SELECT b FROM u")),
        s(cat(&[msg(b'T', ""), done("SELECT 1"), ready()])),
    ]);
    assert_eq!(said.len(), 5, "{said:?}");
    assert_eq!(said[3], "S resp @14022+5 body=open Ok");
    // A long statement takes what stands behind it with it.
    let long = format!("SELECT '{}' FROM t", "CANARY".repeat(100));
    let group = cat(&[parse("", &long), bind("", ""), execute(""), sync()]);
    let (seen, rest) = group.split_at(512);
    let said = say(&[
        (c("").0, seen.to_vec(), rest.len() as u64),
        s(cat(&[msg(b'1', ""), msg(b'2', ""), done("SELECT 1"), ready()])),
        c(query("SELECT 2")),
    ]);
    assert_eq!(
        said[0],
        "C req @0+512 SELECT db.system.name=postgresql db.operation.name=SELECT \
    db.query.summary=SELECT db.query.text=SELECT ?"
    );
    assert_eq!(said[2], "End Server @30 None db.response.returned_rows=1");
    assert!(said[3].starts_with("C req @663+14 SELECT"), "{said:?}");
}

#[test]
fn a_connection_is_read_from_its_middle() {
    let rest = cat(&[row(), row(), done("SELECT 2"), ready()]);
    let said = say(&[
        s(&rest[20..]),
        s(cat(&[row(), done("SELECT 9"), ready()])),
        c(query("SELECT 1")),
        s(cat(&[done("SELECT 1"), ready()])),
    ]);
    assert!(said[0].starts_with("Malformed Server"), "{said:?}");
    assert!(said.last().unwrap().contains("returned_rows=1"), "{said:?}");
}

#[test]
fn connections_are_recognised_and_others_are_not() {
    let yes = |first_is_client| Detect::Yes { first_is_client };
    let ask = |first: &[u8], second: &[u8]| Postgresql.detect(&probe(first, second));
    assert_eq!(ask(&startup("user\0bob\0\0"), b""), yes(true));
    assert_eq!(ask(&startup("user\0bob\0\0")[..12], b""), Detect::Maybe);
    assert_eq!(ask(&[0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f], b""), yes(true));
    assert_eq!(ask(&query("SELECT 1"), b""), yes(true));
    assert_eq!(ask(&query("hello 1"), b""), Detect::Maybe);
    assert_eq!(ask(&query("hello 1"), &cat(&[done("SELECT 1"), ready()])), yes(true));
    assert_eq!(ask(&cat(&[bind("", ""), execute(""), sync()]), b""), Detect::Maybe);
    assert_eq!(
        ask(&cat(&[bind("", ""), execute(""), sync()]), &cat(&[msg(b'2', ""), done("SELECT 1"), ready()])),
        yes(true)
    );
    assert_eq!(ask(&cat(&[msg(b'2', ""), done("SELECT 1"), ready()]), b""), yes(false));
    assert_eq!(ask(&query("SELECT 1")[..9], b""), Detect::Maybe);
    assert_eq!(ask(b"QUIT\r\n", b""), Detect::No);
    assert_eq!(ask(&[0; 40], b""), Detect::No);
}

/// A conversation with everything in it.
fn conversation() -> Vec<Turn> {
    vec![
        c(startup("user\0bob\0database\0shop\0\0")),
        s(cat(&[msg(b'R', [0; 4]), msg(b'S', "standard_conforming_strings\0on\0"), ready()])),
        c(cat(&[
            parse("st", &format!("SELECT '{}', a FROM t", "CANARY".repeat(900))),
            bind("p", "st"),
            execute("p"),
            sync(),
        ])),
        s(cat(&[msg(b'1', ""), msg(b'2', ""), row(), row(), done("SELECT 2"), ready()])),
        c(cat(&[bind("", "st"), execute(""), bind("", "st"), execute(""), sync(), query("BEGIN")])),
        s(cat(&[msg(b'2', ""), error("XX000", "bad 'CANARY' thing"), ready(), done("BEGIN"), msg(b'Z', "T")])),
        c(cat(&[query("COPY t FROM STDIN")])),
        s(msg(b'G', "\0\0\0")),
        c(cat(&[msg(b'd', "CANARY".repeat(2000)), msg(b'c', "")])),
        s(cat(&[msg(b'N', "SNOTICE\0MCANARY\0\0"), done("COPY 1"), ready(), msg(b'A', b"\0\0\0\x01jobs\0CANARY\0")])),
        c(cat(&[parse("x", "SELECT 'CANARY'"), msg(b'H', "")])),
        s(msg(b'1', "")),
        c(msg(b'X', "")),
    ]
}

#[test]
fn no_canary_gets_out() {
    let said = tcp_to_the_end(&Postgresql, &conversation()).join("\n");
    assert!(!said.contains("CANARY"), "{said}");
    assert!(!said.contains("Malformed"), "{said}");
}

proptest! {
    #[test]
    fn chunking_does_not_matter(cuts in prop::collection::vec(1usize..200, 1..20)) {
        let whole = conversation();
        prop_assert_eq!(tcp_to_the_end(&Postgresql, &whole), tcp_to_the_end(&Postgresql, &cut(&whole, &cuts)));
    }

    #[test]
    fn flips_cuts_and_gaps_never_panic_or_leak(
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
        tcp_to_the_end(&Postgresql, &pieces);
    }
}
