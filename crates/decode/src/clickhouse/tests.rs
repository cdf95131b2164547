//! Conversations written by hand.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

use super::ClickHouse;
use crate::testing::{c, cut, probe, s, tcp, tcp_to_the_end, Turn};
use crate::{Detect, Protocol};
use proptest::prelude::*;

fn var(mut n: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while n > 127 {
        bytes.push(n as u8 | 128);
        n >>= 7;
    }
    bytes.push(n as u8);
    bytes
}

fn text(value: &str) -> Vec<u8> {
    [&var(value.len() as u64)[..], value.as_bytes()].concat()
}

fn hello(revision: u64) -> Vec<u8> {
    [vec![0], text("ClickHouse client"), var(23), var(8), var(revision), text("shop"), text("bob"), text("CANARY")]
        .concat()
}

fn server_hello(revision: u64) -> Vec<u8> {
    [vec![0], text("ClickHouse"), var(23), var(8), var(revision), text("UTC"), text("host"), var(1)].concat()
}

/// A query as a client of this revision writes it.
fn query(revision: u64, sql: &str, traced: bool) -> Vec<u8> {
    let mut bytes = [vec![1], text("id-1"), vec![1], text(""), text("CANARY"), text("0.0.0.0:0")].concat();
    if revision >= 54_449 {
        bytes.extend([0; 8]);
    }
    bytes.push(1);
    bytes.extend([text("bob"), text("host"), text("client"), var(23), var(8), var(revision), text("")].concat());
    if revision >= 54_448 {
        bytes.extend(var(0));
    }
    bytes.extend(var(2));
    if revision >= 54_442 {
        bytes.push(u8::from(traced));
        if traced {
            bytes.extend([8, 7, 6, 5, 4, 3, 2, 1, 16, 15, 14, 13, 12, 11, 10, 9]);
            bytes.extend([8, 7, 6, 5, 4, 3, 2, 1]);
            bytes.extend(text(""));
            bytes.push(1);
        }
    }
    if revision >= 54_453 {
        bytes.extend([0, 0, 0]);
    }
    if revision >= 54_476 {
        bytes.extend([0, 0, 0]);
    }
    bytes.extend([text("password"), var(1), text("CANARY"), text("")].concat());
    if revision >= 54_472 {
        bytes.extend(text(""));
    }
    if revision >= 54_441 {
        bytes.extend(text("CANARY"));
    }
    [bytes, var(2), var(1), text(sql)].concat()
}

fn failed(code: i32, message: &str) -> Vec<u8> {
    [vec![2], code.to_le_bytes().to_vec(), text("DB::Exception"), text(message), text("stack CANARY"), vec![0]].concat()
}

fn session(revision: u64) -> Vec<Turn> {
    vec![
        c(hello(revision)),
        s(server_hello(revision)),
        c([4]),
        s([4]),
        c([query(revision, "SELECT a FROM t WHERE b = 'CANARY'", false), b"\x02\0CANARY".to_vec()].concat()),
        s(b"\x01\0CANARY"),
        s(b"\x01CANARY\x05"),
        c(query(revision, "INSERT INTO u FORMAT CSV 1,CANARY", true)),
        s(b"\x0b\0CANARY"),
        c(b"\x02\0CANARY"),
        s(b"\x05"),
        c(query(revision, "SELECT c FROM missing", false)),
        s(failed(60, "DB::Exception: Table shop.missing does not exist. 'CANARY': CANARY")),
        c(query(revision, "INSERT INTO v VALUES", false)),
        s(b"\x01\0CANARY"),
        c(b"\x02\0CANARY"),
        s(failed(241, "DB::Exception: Memory limit (total) exceeded: CANARY")),
        c([3]),
    ]
}

#[test]
fn sessions_of_several_revisions_are_read() {
    for revision in [54_429, 54_448, 54_460, 54_472, 54_476] {
        let said = tcp(&ClickHouse, &session(revision));
        let all = said.join("\n");
        assert!(!all.contains("CANARY"), "{all}");
        let words: Vec<_> = said
            .iter()
            .map(|l| {
                l.split(' ')
                    .filter(|w| !w.starts_with('@') && !w.contains("db.system") && !w.contains("operation"))
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .collect();
        let trace = if revision >= 54_442 {
            " Carried { trace_id: Some([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]), span_id: Some([1, 2, \
            3, 4, 5, 6, 7, 8]), \
             sampled: Some(true), foreign_trace_id: None, request_id: None }"
        } else {
            ""
        };
        assert_eq!(
            words,
            [
                "C req HELLO db.namespace=shop".to_owned(),
                "S resp Ok".into(),
                "C req PING db.namespace=shop".into(),
                "S resp Ok".into(),
                "C req body=open SELECT t db.namespace=shop db.collection.name=t db.query.summary=SELECT t \
                 db.query.text=SELECT a FROM t WHERE b = ?"
                    .into(),
                "S resp body=open Ok".into(),
                format!(
                    "C req body=open INSERT u db.namespace=shop db.collection.name=u db.query.summary=INSERT u \
                     db.query.text=INSERT INTO u FORMAT CSV ?{trace}"
                ),
                "S resp body=open Ok".into(),
                "End Server None".into(),
                "C req body=open SELECT missing db.namespace=shop db.collection.name=missing db.query.summary=SELECT \
                missing \
                 db.query.text=SELECT c FROM missing"
                    .into(),
                "S resp status=60 ClientError error=\"Table shop.missing does not exist.\" db.response.status_code=60 \
                error.type=60"
                    .into(),
                "C req body=open INSERT v db.namespace=shop db.collection.name=v db.query.summary=INSERT v \
                 db.query.text=INSERT INTO v VALUES"
                    .into(),
                "S resp body=open Ok".into(),
                "End Server None status=241 ServerError error=\"Memory limit\" db.response.status_code=241 \
                error.type=241"
                    .into(),
                "C oneway CANCEL db.namespace=shop".into(),
            ],
            "{revision}"
        );
    }
}

#[test]
fn connections_are_recognised_and_others_are_not() {
    let yes = |first_is_client| Detect::Yes { first_is_client };
    let ask = |first: &[u8], second: &[u8]| ClickHouse.detect(&probe(first, second));
    assert_eq!(ask(&hello(54_460), b""), yes(true));
    assert_eq!(ask(&hello(54_460)[..30], b""), Detect::Maybe);
    for revision in [54_429, 54_448, 54_460, 54_472, 54_476] {
        assert_eq!(ask(&query(revision, "SELECT 1", false), b""), yes(true), "{revision}");
    }
    assert_eq!(ask(b"\x01rest of a block", &query(54_460, "SELECT 1", true)), yes(false));
    assert_eq!(ask(b"\x04", b"\x04"), Detect::No);
    // Clients ask whether an old connection lives, then use it.
    assert_eq!(ask(&[vec![4], query(54_412, "SELECT 1", false)].concat(), b"\x04"), yes(true));
    assert_eq!(ask(&[0; 40], b""), Detect::No);
}

#[test]
fn gaps_are_skipped_or_counted() {
    let long = query(54_460, &format!("SELECT '{}' FROM t", "CANARY".repeat(200)), false);
    let said = tcp(
        &ClickHouse,
        &[
            c(hello(54_460)),
            s(server_hello(54_460)),
            (c("").0, long[..512].to_vec(), long.len() as u64 - 512),
            (s("").0, b"\x01\0CANARY".to_vec(), 9000),
            c(query(54_460, "SELECT 2", false)),
        ],
    );
    assert_eq!(said.len(), 5, "{said:?}");
    assert!(said[2].ends_with("db.query.text=SELECT ?"), "{said:?}");
    assert!(said[4].contains("SELECT"), "{said:?}");
}

proptest! {
    #[test]
    fn chunking_does_not_matter(cuts in prop::collection::vec(1usize..200, 1..20)) {
        let whole = session(54_460);
        prop_assert_eq!(tcp_to_the_end(&ClickHouse, &whole), tcp_to_the_end(&ClickHouse, &cut(&whole, &cuts)));
    }

    #[test]
    fn flips_cuts_and_gaps_never_panic(
        flips in prop::collection::vec((0usize..20_000, any::<u8>()), 0..8),
        cuts in prop::collection::vec(1usize..300, 1..20),
        gaps in prop::collection::vec(prop_oneof![3 => Just(0u64), 1 => 1u64..100, 1 => Just(u64::MAX)], 1..20),
    ) {
        let mut turns = session(54_460);
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
        tcp_to_the_end(&ClickHouse, &pieces);
    }
}
