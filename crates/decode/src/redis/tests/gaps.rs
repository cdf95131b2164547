//! Bytes that were not captured.
#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use super::{cmd, say};
use crate::redis::Redis;
use crate::testing::{c, s, tcp_to_the_end, Turn};

fn gap(turn: Turn, missing: u64) -> Turn {
    (turn.0, turn.1, missing)
}

#[test]
fn long_strings_are_skipped_exactly() {
    let said = say(&[
        gap(c("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000\r\nvvvv"), 990),
        c("vvvvvv\r\n*1\r\n$4\r\nPING\r\n"),
        gap(s("$100\r\nabc"), 99),
        s(":1\r\n"),
    ]);
    assert_eq!(
        said,
        [
            "C req @0+13 body=open SET",
            "End Client @1029 None",
            "C req @1029+14 PING",
            "S resp @0+6 body=102 Ok",
            "S resp @108+4 Ok",
        ]
    );
}

#[test]
fn arrays_cut_short_resynchronise_at_the_next_reply() {
    let said = say(&[
        c(cmd(&["LRANGE", "l", "0", "299"])),
        gap(s("*300\r\n$3\r\nxxx\r\n$3\r\nxx"), 2000),
        gap(s(""), 500),
        c(cmd(&["PING"])),
        s("+PONG\r\n"),
    ]);
    assert_eq!(said[2], "S resp @0+6 body=open Ok");
    assert_eq!(said[3], "Malformed Server redis_gap");
    assert_eq!(said[4..], ["C req @39+14 PING", "S resp @2521+7 Ok"]);
}

#[test]
fn a_cut_command_is_emitted_if_its_name_was_seen() {
    let said = say(&[gap(c("*3\r\n$6\r\nCONFIG\r\n$3\r\nSE"), 40), c(cmd(&["PING"]))]);
    assert_eq!(said, ["C req @0+16 body=open CONFIG", "Malformed Client redis_gap", "C req @62+14 PING"]);
    // The same in pieces.
    let said = say(&[c("*3\r\n$6\r\nCONF"), gap(c("IG\r\n$3\r\nSE"), 40), c(cmd(&["PING"]))]);
    assert_eq!(said, ["C req @0+16 body=open CONFIG", "Malformed Client redis_gap", "C req @62+14 PING"]);
    let said = say(&[gap(c("*3\r\n$6\r\nCON"), 40), c(cmd(&["PING"]))]);
    assert_eq!(said, ["Malformed Client redis_gap", "C req @51+14 PING"]);
}

#[test]
fn a_search_for_a_command_is_strict() {
    let said = say(&[gap(c(""), 40), c("PING\r\n"), c("*x"), c("$3\r\nabc\r\n"), c("*1\r\n$4\r\nPI"), c("NG\r\n")]);
    assert_eq!(said, ["Malformed Client redis_gap", "C req @57+14 PING"]);
}

#[test]
fn replies_after_a_gap_do_not_answer_old_subscriptions() {
    let said =
        say(&[c(cmd(&["SELECT", "4"])), gap(s(""), 5), c(cmd(&["GET", "k"])), s("-ERR no\r\n"), c(cmd(&["PING"]))]);
    // The error is GET's: the database stays selected.
    assert!(said.last().unwrap().starts_with("C req"), "{said:?}");
    assert!(said.iter().any(|l| l.contains("ClientError")));
}

#[test]
fn the_end_of_the_connection_emits_incomplete_heads() {
    let said = tcp_to_the_end(&Redis, &[c("*3\r\n$6\r\nCONFIG\r\n$3\r\nSE")]);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("C req @0+16 body=open CONFIG"), "{}", said[0]);
    assert!(tcp_to_the_end(&Redis, &[c("*3\r\n$6\r\nCON"), s("+O")]).is_empty());
}
