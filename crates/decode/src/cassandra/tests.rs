//! Conversations written by hand.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

use super::envelope::crc24;
use super::Cassandra;
use crate::testing::{c, cut, probe, s, tcp, tcp_to_the_end, Turn};
use crate::{Detect, Protocol};
use proptest::prelude::*;

fn env(version: u8, stream: i16, op: u8, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut bytes = vec![version, 0];
    bytes.extend(stream.to_be_bytes());
    bytes.push(op);
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend(body);
    bytes
}

fn segment(payload: &[u8], whole: bool) -> Vec<u8> {
    let word = payload.len() as u32 | u32::from(whole) << 17;
    let head = word.to_le_bytes();
    let mut bytes = head[..3].to_vec();
    bytes.extend(&crc24(&head[..3]).to_le_bytes()[..3]);
    bytes.extend(payload);
    bytes.extend([0; 4]);
    bytes
}

fn short(text: impl AsRef<[u8]>) -> Vec<u8> {
    let text = text.as_ref();
    [&(text.len() as u16).to_be_bytes()[..], text].concat()
}

fn startup(version: u8, compression: bool) -> Vec<u8> {
    let mut body = vec![0, 1 + u8::from(compression)];
    body.extend([short("CQL_VERSION"), short("3.4.5")].concat());
    if compression {
        body.extend([short("COMPRESSION"), short("lz4")].concat());
    }
    env(version, 0, 1, body)
}

fn long(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

fn query(version: u8, stream: i16, cql: &str) -> Vec<u8> {
    env(version, stream, 7, [long(cql), vec![0, 6, 0]].concat())
}

/// Two rows of one text column, with metadata.
fn rows(version: u8, stream: i16) -> Vec<u8> {
    let mut body = vec![0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1];
    body.extend([short("ks"), short("t"), short("a"), vec![0, 0x21, 0, 0x0d, 0, 9]].concat());
    body.extend([0, 0, 0, 2]);
    body.extend([long("CANARY"), long("CANARY")].concat());
    env(version | 0x80, stream, 8, body)
}

fn error(version: u8, stream: i16, code: u32, text: &str) -> Vec<u8> {
    env(version | 0x80, stream, 0, [code.to_be_bytes().to_vec(), short(text)].concat())
}

#[test]
fn a_session_of_version_4_is_read() {
    let said = tcp(
        &Cassandra,
        &[
            c(env(4, 1, 5, "")),
            s(env(0x84, 1, 6, [0, 0])),
            c(startup(4, false)),
            s(env(0x84, 0, 3, short("PasswordAuthenticator"))),
            c(env(4, 2, 15, "\0\0\0\x0a\0bob\0CANARY")),
            s(env(0x84, 2, 16, "\0\0\0\0")),
            c(query(4, 3, "USE shop")),
            s(env(0x84, 3, 8, [&[0, 0, 0, 3][..], &short("shop")].concat())),
            c([query(4, 4, "SELECT a FROM t WHERE b = 'CANARY'"), query(4, 5, "SELECT c FROM u")].concat()),
            s([error(4, 5, 0x1200, "Operation timed out - received only 1 responses"), rows(4, 4)].concat()),
            s(env(0x84, -1, 12, short("STATUS_CHANGE"))),
        ],
    );
    assert_eq!(
        said,
        [
            "C req @0+9 id=1 OPTIONS db.system.name=cassandra db.operation.name=OPTIONS",
            "S resp @0+9 body=2 id=1 Ok",
            "C req @9+31 id=0 STARTUP db.system.name=cassandra db.operation.name=STARTUP",
            "S resp @11+9 body=23 id=0 Ok",
            "C req @40+9 body=15 id=2 AUTH RESPONSE db.system.name=cassandra db.operation.name=AUTH RESPONSE",
            "S resp @43+9 body=4 id=2 Ok",
            "C req @64+24 id=3 USE db.system.name=cassandra db.operation.name=USE db.query.summary=USE \
             db.query.text=USE shop cassandra.consistency.level=local_quorum",
            "S resp @56+19 id=3 Ok",
            "C req @88+50 id=4 SELECT t db.system.name=cassandra db.namespace=shop db.operation.name=SELECT \
             db.collection.name=t db.query.summary=SELECT t db.query.text=SELECT a FROM t WHERE b = ? \
             cassandra.consistency.level=local_quorum",
            "C req @138+31 id=5 SELECT u db.system.name=cassandra db.namespace=shop db.operation.name=SELECT \
             db.collection.name=u db.query.summary=SELECT u db.query.text=SELECT c FROM u \
             cassandra.consistency.level=local_quorum",
            "S resp @75+62 id=5 status=4608 ServerError error=\"Operation timed out - received only ? responses\" \
             db.response.status_code=4608 error.type=4608",
            "S resp @137+61 id=4 Ok db.response.returned_rows=2",
            "S oneway @198+9 body=15 EVENT db.system.name=cassandra",
        ]
    );
}

#[test]
fn prepared_statements_and_batches_have_their_text() {
    let id = short("0123456789abcdef");
    let said = tcp(
        &Cassandra,
        &[
            c(env(4, 7, 9, long("INSERT INTO t (a) VALUES (?)"))),
            s(env(0x84, 7, 8, [&[0, 0, 0, 4][..], &id].concat())),
            c(env(4, 8, 10, [&id[..], &[0, 1, 0]].concat())),
            s(env(0x84, 8, 8, [0, 0, 0, 1])),
            c(env(4, 9, 10, [short("unknown"), vec![0, 1, 0]].concat())),
            s(error(4, 9, 0x2500, "Prepared query with ID 1 not found")),
            c(env(4, 1, 13, [&[0, 0, 2, 1][..], &id, &[0, 1], &long("CANARY"), &[1], &id, &[0, 0, 0, 1, 0]].concat())),
            s(env(0x84, 1, 8, [0, 0, 0, 1])),
        ],
    );
    let requests: Vec<_> = said.iter().filter(|l| l.starts_with('C')).map(|l| l.split_once("id=").unwrap().1).collect();
    let attrs = "db.collection.name=t db.query.summary=INSERT t db.query.text=INSERT INTO t (a) VALUES (?)";
    assert_eq!(requests[0], format!("7 PREPARE t db.system.name=cassandra db.operation.name=PREPARE {attrs}"));
    assert_eq!(
        requests[1],
        format!("8 INSERT t db.system.name=cassandra db.operation.name=INSERT {attrs} cassandra.consistency.level=one")
    );
    assert_eq!(
        requests[2],
        "9 EXECUTE db.system.name=cassandra db.operation.name=EXECUTE cassandra.consistency.level=one"
    );
    assert_eq!(
        requests[3],
        format!("1 BATCH t db.system.name=cassandra db.operation.name=BATCH {attrs} db.operation.batch.size=2")
    );
    assert!(said[5].contains("status=9472 ClientError error=\"Prepared query with ID ? not found\""), "{said:?}");
}

#[test]
fn segments_of_version_5_are_read() {
    let big = "x".repeat(300);
    let answer = rows(5, 2);
    let turns = [
        c(startup(5, false)),
        s(env(0x85, 0, 2, "")),
        c(segment(&[query(5, 1, "SELECT a FROM t"), query(5, 2, "SELECT b FROM u")].concat(), true)),
        s([segment(&answer[..20], false), segment(&answer[20..], false)].concat()),
        s(segment(&rows(5, 1), true)),
        c(segment(&query(5, 3, &format!("SELECT '{big}' FROM v")), true)),
    ];
    for turns in [&turns[..], &turns[2..]] {
        let said = tcp(&Cassandra, turns);
        let tail: Vec<_> = said[said.len() - 5..]
            .iter()
            .map(|l| l.split(" db.").next().unwrap().split_once("id=").unwrap().1)
            .collect();
        assert_eq!(tail, ["1 SELECT t", "2 SELECT u", "2 Ok", "1 Ok", "3 SELECT v"], "{said:?}");
    }
}

/// A segment of a connection with compression; what does not get shorter is sent as it is.
fn packed_segment(payload: &[u8], pack: bool) -> Vec<u8> {
    let packed = if pack { lz4_flex::block::compress(payload) } else { payload.to_vec() };
    let unpacked = if pack { payload.len() as u64 } else { 0 };
    let head = (packed.len() as u64 | unpacked << 17 | 1 << 34).to_le_bytes();
    [&head[..5], &crc24(&head[..5]).to_le_bytes()[..3], &packed, &[0; 4]].concat()
}

#[test]
fn compressed_messages_are_read_and_masked() {
    let asks = [query(5, 1, "SELECT a FROM t WHERE b = 'CANARY'"), query(5, 2, "SELECT b FROM u")].concat();
    let five = [
        c(startup(5, true)),
        s(env(0x85, 0, 2, "")),
        c(packed_segment(&asks, true)),
        s([packed_segment(&rows(5, 2), false), packed_segment(&rows(5, 1), true)].concat()),
    ];
    let pack = |plain: Vec<u8>, lz4: bool| {
        let body = &plain[9..];
        let packed = match lz4 {
            true => [&(body.len() as u32).to_be_bytes()[..], &lz4_flex::block::compress(body)].concat(),
            false => snap::raw::Encoder::new().compress_vec(body).unwrap(),
        };
        let mut bytes = env(plain[0], i16::from_be_bytes([plain[2], plain[3]]), plain[4], packed);
        bytes[1] |= 1;
        bytes
    };
    let four = |lz4| {
        [
            c(startup(4, true)),
            s(env(0x84, 0, 2, "")),
            c([
                pack(query(4, 1, "SELECT a FROM t WHERE b = 'CANARY'"), lz4),
                pack(query(4, 2, "SELECT b FROM u"), lz4),
            ]
            .concat()),
            s([pack(rows(4, 2), lz4), pack(rows(4, 1), lz4)].concat()),
        ]
    };
    for turns in [five, four(true), four(false)] {
        // From the start, and joined behind it.
        for turns in [&turns[..], &turns[2..]] {
            let said = tcp(&Cassandra, turns);
            let tail = said[said.len() - 4..].join("\n");
            assert!(
                tail.contains("id=1 SELECT t") && tail.contains("WHERE b = ?") && tail.contains("id=2 SELECT u"),
                "{tail}"
            );
            assert_eq!(tail.matches("db.response.returned_rows=2").count(), 2, "{tail}");
            assert!(!tail.contains("CANARY"), "{tail}");
        }
        assert_eq!(tcp_to_the_end(&Cassandra, &turns), tcp_to_the_end(&Cassandra, &cut(&turns, &[1])));
    }
}

#[test]
fn connections_are_recognised_and_others_are_not() {
    let yes = |first_is_client| Detect::Yes { first_is_client };
    let ask = |first: &[u8], second: &[u8]| Cassandra.detect(&probe(first, second));
    assert_eq!(ask(&startup(4, false), b""), yes(true));
    assert_eq!(ask(&startup(4, false)[..7], b""), Detect::Maybe);
    assert_eq!(ask(&env(4, 0, 5, ""), b""), Detect::Maybe);
    assert_eq!(ask(&env(4, 0, 5, ""), &env(0x84, 0, 6, [0, 0])), yes(true));
    assert_eq!(ask(&query(4, 9, "SELECT 1 FROM t"), b""), yes(true));
    assert_eq!(ask(&rows(4, 9), &query(4, 10, "SELECT 1 FROM t")), yes(false));
    assert_eq!(ask(&env(4, 8, 10, "\0\x01x\0\x01\0"), &rows(4, 8)), yes(true));
    assert_eq!(ask(&segment(&query(5, 1, "SELECT 1 FROM t"), true), b""), yes(true));
    assert_eq!(ask(&[0; 40], b""), Detect::No);
    assert_eq!(ask(&env(4, 0, 5, ""), b"HTTP/1.1 400 Bad"), Detect::No);
}

/// A conversation with everything in it.
fn conversation() -> Vec<Turn> {
    vec![
        c(startup(4, false)),
        s(env(0x84, 0, 2, "")),
        c([query(4, 1, &format!("SELECT '{}' FROM t", "CANARY".repeat(900))), query(4, 2, "SELECT b FROM u")].concat()),
        s([rows(4, 2), error(4, 1, 0x2000, "line 1:7 no viable alternative at input 'CANARY' (CANARY)")].concat()),
        c(env(4, 3, 9, long("SELECT 'CANARY'"))),
        s(env(0x84, 3, 8, [&[0, 0, 0, 4][..], &short("id")].concat())),
        c(env(4, 3, 10, [short("id"), vec![0, 1, 1, 0, 1], long("CANARY")].concat())),
        s(env(0x84, 3, 8, [0, 0, 0, 1])),
    ]
}

#[test]
fn no_canary_gets_out() {
    let said = tcp_to_the_end(&Cassandra, &conversation()).join("\n");
    assert!(!said.contains("CANARY") && !said.contains("Malformed"), "{said}");
}

proptest! {
    #[test]
    fn chunking_does_not_matter(cuts in prop::collection::vec(1usize..200, 1..20)) {
        let whole = conversation();
        prop_assert_eq!(tcp_to_the_end(&Cassandra, &whole), tcp_to_the_end(&Cassandra, &cut(&whole, &cuts)));
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
        tcp_to_the_end(&Cassandra, &pieces);
    }
}
