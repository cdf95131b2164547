//! Conversations written by hand.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

use super::Tds;
use crate::testing::{c, cut, probe, s, tcp, tcp_to_the_end, Turn};
use crate::{Detect, Protocol};
use proptest::prelude::*;

fn packet(kind: u8, last: bool, number: u8, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut bytes = vec![kind, u8::from(last)];
    bytes.extend((body.len() as u16 + 8).to_be_bytes());
    bytes.extend([0, 0, number, 0]);
    bytes.extend(body);
    bytes
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

const HEADERS: &[u8] = &[0x16, 0, 0, 0, 0x12, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];

fn batch(sql: &str) -> Vec<u8> {
    packet(1, true, 1, [HEADERS, &wide(sql)].concat())
}

fn text(value: &str) -> Vec<u8> {
    let value = wide(value);
    let mut bytes = vec![0, 0, 0xe7, 0x40, 0x1f, 9, 4, 0xd0, 0, 0x34];
    bytes.extend((value.len() as u16).to_le_bytes());
    bytes.extend(value);
    bytes
}

fn rpc(id: u16, parameters: &[Vec<u8>]) -> Vec<u8> {
    packet(3, true, 1, [HEADERS, &[0xff, 0xff], &id.to_le_bytes(), &[0, 0], &parameters.concat()].concat())
}

fn done(token: u8, status: u16, command: u16, rows: u64) -> Vec<u8> {
    [&[token][..], &status.to_le_bytes(), &command.to_le_bytes(), &rows.to_le_bytes()].concat()
}

fn failed(number: i32, class: u8, message: &str) -> Vec<u8> {
    let mut body = number.to_le_bytes().to_vec();
    body.extend([1, class]);
    body.extend((message.len() as u16).to_le_bytes());
    body.extend(wide(message));
    body.extend([0, 0, 1, 0, 0, 0]);
    [&[0xaa][..], &(body.len() as u16).to_le_bytes(), &body].concat()
}

fn answer(last: bool, number: u8, body: &[Vec<u8>]) -> Vec<u8> {
    packet(4, last, number, body.concat())
}

fn table() -> Vec<u8> {
    [&[0x81, 1, 0][..], b"CANARY and rows CANARY"].concat()
}

fn prelogin(encryption: u8) -> Vec<u8> {
    vec![0, 0, 11, 0, 6, 1, 0, 17, 0, 1, 0xff, 16, 0, 0, 0, 0, 0, encryption]
}

fn changed(database: &str) -> Vec<u8> {
    let name = wide(database);
    [&[0xe3][..], &(name.len() as u16 + 3).to_le_bytes(), &[1, database.len() as u8], &name, &[0]].concat()
}

/// The messages of these turns, without the parts that every request has.
fn short(turns: &[Turn]) -> Vec<String> {
    let said = tcp(&Tds, turns);
    said.iter()
        .map(|l| {
            l.split(' ')
                .filter(|w| *w == "@p" || !(w.starts_with('@') || w.starts_with("db.system")))
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
}

fn session() -> Vec<Turn> {
    vec![
        c(packet(0x12, true, 1, prelogin(2))),
        s(packet(4, true, 1, prelogin(2))),
        c(packet(0x10, true, 1, "CANARY".repeat(20))),
        s(answer(true, 1, &[changed("shop"), done(0xfd, 0, 0, 0)])),
        c(batch("SELECT [a] FROM dbo.t WHERE b = N'CANARY' AND c = \"CANARY\"")),
        s(answer(false, 1, &[table()])),
        s(answer(true, 2, &[table(), done(0xfd, 0x10, 0xc1, 7)])),
        c(rpc(10, &[text("UPDATE t SET a = @p WHERE b = 'CANARY'"), text("@p nvarchar(9)"), text("CANARY")])),
        s(answer(true, 1, &[done(0xff, 0x11, 0xc5, 3), vec![0x79, 0, 0, 0, 0], done(0xfe, 0, 0xe0, 0)])),
        c(batch("INSERT INTO t VALUES ('CANARY')")),
        s(answer(
            true,
            1,
            &[
                failed(2627, 14, "Violation of PRIMARY KEY constraint 'PK'. The duplicate key value is (CANARY)."),
                done(0xfd, 2, 0xc3, 0),
            ],
        )),
        c(packet(3, true, 1, [HEADERS, &[5, 0], &wide("dbo.p"), &[0, 0]].concat())),
        s(answer(true, 1, &[done(0xfe, 0, 0xe0, 0)])),
        c(packet(0x0e, true, 1, [HEADERS, &[7, 0]].concat())),
        s(answer(true, 1, &[done(0xfd, 0, 0xd5, 0)])),
    ]
}

#[test]
fn a_session_is_read_from_its_start() {
    let said = short(&session());
    let text = said.join("\n");
    assert!(!text.contains("CANARY"), "{text}");
    assert_eq!(
        said,
        [
            "C req PRELOGIN db.operation.name=PRELOGIN",
            "S resp body=open Ok",
            "End Server None",
            "C req LOGIN db.operation.name=LOGIN",
            "S resp body=open Ok",
            "End Server None",
            "C req SELECT dbo.t db.namespace=shop db.operation.name=SELECT db.collection.name=dbo.t \
             db.query.summary=SELECT dbo.t db.query.text=SELECT [a] FROM dbo.t WHERE b = ? AND c = ?",
            "S resp body=open Ok",
            "End Server None db.response.returned_rows=7",
            "C req UPDATE t db.namespace=shop db.operation.name=UPDATE db.collection.name=t db.query.summary=UPDATE t \
             db.query.text=UPDATE t SET a = @p WHERE b = ?",
            "S resp body=open Ok",
            "End Server None wirespan.db.affected_rows=3",
            "C req INSERT t db.namespace=shop db.operation.name=INSERT db.collection.name=t db.query.summary=INSERT t \
             db.query.text=INSERT INTO t VALUES (?)",
            "S resp body=open status=2627 ClientError error=\"Violation of PRIMARY KEY constraint '?'. The duplicate \
            key \
             value is (?).\" db.response.status_code=2627 error.type=2627",
            "End Server None",
            "C req EXECUTE dbo.p db.namespace=shop db.operation.name=EXECUTE db.stored_procedure.name=dbo.p",
            "S resp body=open Ok",
            "End Server None",
            "C req COMMIT db.namespace=shop db.operation.name=COMMIT",
            "S resp body=open Ok",
            "End Server None",
        ]
    );
}

#[test]
fn encryption_of_the_connection_is_an_upgrade() {
    let hello = packet(0x12, true, 1, b"\x16\x03\x03\0\x10CANARY");
    let said = short(&[c(packet(0x12, true, 1, prelogin(1))), s(packet(4, true, 1, prelogin(1))), c(&hello)]);
    assert_eq!(said.last().unwrap(), "Upgrade tls");
    // For the login only: clear text behind it.
    let said = short(&[
        c(packet(0x12, true, 1, prelogin(0))),
        s(packet(4, true, 1, prelogin(0))),
        c(&hello),
        s(packet(0x12, true, 1, b"\x16\x03\x03\0\x10CANARY")),
        c(b"\x17\x03\x03\0\x06CANARY"),
        s(answer(true, 1, &[changed("shop"), done(0xfd, 0, 0, 0)])),
        c(batch("SELECT a FROM t")),
    ]);
    assert_eq!(said[3], "C req body=6 LOGIN db.operation.name=LOGIN");
    assert!(said[6].starts_with("C req SELECT t db.namespace=shop"), "{said:?}");
}

#[test]
fn attentions_are_one_way_and_gaps_are_survived() {
    let said = short(&[
        c(batch("WAITFOR DELAY '1'")),
        c(packet(6, true, 1, "")),
        s(answer(true, 1, &[done(0xfd, 0x22, 0, 0)])),
        c(packet(6, true, 1, "")),
        s(answer(true, 1, &[done(0xfd, 0x20, 0, 0)])),
        c(batch("SELECT a FROM t")),
        (s("").0, answer(false, 1, &[table()]), 9000),
        c(batch("SELECT b FROM u")),
        s(answer(true, 1, &[table(), done(0xfd, 0x10, 0xc1, 1)])),
    ]);
    let words: Vec<_> = said.iter().map(|l| l.split(" db.").next().unwrap()).collect();
    assert_eq!(
        words,
        [
            "C req WAITFOR",
            "C oneway ATTENTION",
            "S resp body=open Ok",
            "End Server None",
            "C oneway ATTENTION",
            "C req SELECT t",
            "S resp body=open Ok",
            "C req SELECT u",
            "S resp body=open Ok",
            "End Server None",
        ]
    );
}

#[test]
fn connections_are_recognised_and_others_are_not() {
    let yes = |first_is_client| Detect::Yes { first_is_client };
    let ask = |first: &[u8], second: &[u8]| Tds.detect(&probe(first, second));
    assert_eq!(ask(&packet(0x12, true, 1, prelogin(2)), b""), yes(true));
    assert_eq!(ask(&batch("SELECT 1"), b""), yes(true));
    assert_eq!(ask(&rpc(10, &[text("SELECT 1")]), b""), Detect::Maybe);
    assert_eq!(ask(&rpc(10, &[text("SELECT 1")]), &answer(true, 1, &[done(0xfd, 0, 0, 0)])), yes(true));
    assert_eq!(ask(&answer(true, 1, &[done(0xfd, 0, 0, 0)]), &batch("SELECT 1")), yes(false));
    assert_eq!(ask(&[0; 40], b""), Detect::No);
    assert_eq!(ask(b"\x01\x01\0\x10\0\0\x01\0hello wo", b""), Detect::No);
}

/// A connection joined late: calls by name, statements without headers (TDS 7.1), and rows whose packet began before.
#[test]
fn connections_joined_late_are_recognised() {
    let yes = |first_is_client| Detect::Yes { first_is_client };
    let ask = |first: &[u8], second: &[u8]| Tds.detect(&probe(first, second));
    let named = |headers: &[u8]| {
        let name = "p_GetOrders";
        let mut packet = packet(3, true, 1, [headers, &[name.len() as u8, 0], &wide(name), &[0, 0]].concat());
        packet[1] |= 8; // the connection came from a pool
        packet
    };
    for call in [named(HEADERS), named(b""), packet(1, true, 1, wide("COMMIT TRANSACTION"))] {
        assert_eq!(ask(&call, b""), yes(true), "{call:02x?}");
        assert_eq!(ask(b"rows that began before", &call), yes(false), "{call:02x?}");
    }
    assert_eq!(ask(&packet(3, true, 1, [&[9, 0][..], &[7; 18]].concat()), b""), Detect::Maybe);
    assert_eq!(ask(b"rows that began before", &rpc(10, &[text("SELECT 1")])), Detect::No);
}

#[test]
fn no_canary_gets_out() {
    let said = tcp_to_the_end(&Tds, &session()).join("\n");
    assert!(!said.contains("CANARY") && !said.contains("Malformed"), "{said}");
}

proptest! {
    #[test]
    fn chunking_does_not_matter(cuts in prop::collection::vec(1usize..200, 1..20)) {
        let whole = session();
        prop_assert_eq!(tcp_to_the_end(&Tds, &whole), tcp_to_the_end(&Tds, &cut(&whole, &cuts)));
    }

    #[test]
    fn flips_cuts_and_gaps_never_panic(
        flips in prop::collection::vec((0usize..20_000, any::<u8>()), 0..8),
        cuts in prop::collection::vec(1usize..300, 1..20),
        gaps in prop::collection::vec(prop_oneof![3 => Just(0u64), 1 => 1u64..100, 1 => Just(u64::MAX)], 1..20),
    ) {
        let mut turns = session();
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
        tcp_to_the_end(&Tds, &pieces);
    }
}
