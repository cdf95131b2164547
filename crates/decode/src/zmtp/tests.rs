#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

#[path = "../../tests/wires/zmtp.rs"]
mod wires;

use super::Zmtp;
use crate::testing::{c, cut, probe, s, tcp, tcp_to_the_end, Turn};
use crate::{Detect, Protocol};
use proptest::prelude::*;
use wires::{command, frame, greeting, ready};

/// Without the attributes.
fn brief(turns: &[Turn]) -> Vec<String> {
    tcp(&Zmtp, turns).into_iter().map(|l| l.split(" messaging.system.name").next().unwrap().to_owned()).collect()
}

fn plain(a: &str, b: &str) -> Vec<Turn> {
    vec![
        s(&greeting("PLAIN", true)[..10]),
        c(greeting("PLAIN", false)),
        s(&greeting("PLAIN", true)[10..]),
        c(command("HELLO", b"\x0aCANARYUSER\x0aCANARYPASS")),
        s(command("WELCOME", b"")),
        c(ready("INITIATE", a, "CANARY")),
        s(ready("READY", b, "CANARY")),
    ]
}

fn null(a: &str, b: &str) -> Vec<Turn> {
    vec![
        c(greeting("NULL", false)),
        s(greeting("NULL", false)),
        c(ready("READY", a, "CANARY")),
        s(ready("READY", b, "CANARY")),
    ]
}

#[test]
fn a_request_behind_a_login_is_answered() {
    let mut turns = plain("REQ", "REP");
    turns.extend([
        c([frame(1, b""), frame(0, b"CANARY")].concat()),
        s([frame(1, b""), frame(1, b"x"), frame(0, &[b'x'; 300])].concat()),
    ]);
    let said = tcp(&Zmtp, &turns);
    let words: Vec<_> = said.iter().map(|l| l.split(" messaging.system.name").next().unwrap()).collect();
    assert_eq!(
        words,
        [
            "C oneway @0+64 GREETING",
            "S oneway @0+64 GREETING",
            "C req @64+30 HELLO",
            "S resp @64+10 WELCOME Ok",
            "C req @94+49 INITIATE",
            "S resp @74+46 READY Ok",
            "C req @143+2 body=open MESSAGE",
            "End Client @147 None messaging.message.body.size=6 wirespan.zmtp.frames=2",
            "S resp @120+2 body=open MESSAGE Ok",
            "End Server @134 None messaging.message.body.size=301 wirespan.zmtp.frames=3",
        ]
    );
    assert!(said[0].contains("network.protocol.version=3.1 wirespan.zmtp.mechanism=PLAIN"));
    assert!(said[4].contains("wirespan.zmtp.socket_type=REQ"));
}

#[test]
fn subscriptions_name_what_is_sent() {
    let mut turns = null("SUB", "PUB");
    turns.extend([
        c([command("SUBSCRIBE", b"sports."), command("SUBSCRIBE", b"sports.foot"), frame(0, b"\x01news")].concat()),
        s([frame(1, b"sports.football CANARY"), frame(0, b"CANARY")].concat()),
        s(frame(0, b"newsCANARY")),
        s(frame(0, b"weatherCANARY")),
        c(command("CANCEL", b"sports.foot")),
        s(frame(0, b"sports.foot")),
        c([command("PING", b"\x00\x0aCANARY"), frame(0, b"\x00news")].concat()),
    ]);
    let said: Vec<_> = brief(&turns)[4..]
        .iter()
        .map(|l| l.split(' ').filter(|w| !w.starts_with('@')).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        said,
        [
            "C oneway SUBSCRIBE sports.",
            "C oneway SUBSCRIBE sports.foot",
            "C oneway body=5 SUBSCRIBE news",
            "S oneway body=open MESSAGE sports.foot",
            "End Server None messaging.message.body.size=28 wirespan.zmtp.frames=2",
            "S oneway body=10 MESSAGE news",
            "S oneway body=13 MESSAGE",
            "C oneway CANCEL sports.foot",
            "S oneway body=11 MESSAGE sports.",
            "C oneway PING",
            "C oneway body=5 CANCEL news",
        ]
    );
}

#[test]
fn a_refused_login_is_an_error() {
    for error in [command("ERROR", b"\x03400"), frame(4, b"\x5eRROR\x03400")] {
        let mut turns = plain("REQ", "REP")[..4].to_vec();
        turns.push(s(error));
        let said = brief(&turns);
        assert!(
            said[3].contains("S resp") && said[3].ends_with("ERROR status=400 ClientError error=\"400\""),
            "{}",
            said[3]
        );
    }
}

#[test]
fn version_2_and_curve_are_read() {
    let old = |socket| [b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x01", &[socket][..]].concat();
    let said =
        brief(&[c(old(3)), s(old(4)), c(frame(0, b"CANARY")), s(frame(0, b"")), c(frame(0, b"q")), s(frame(0, b"a"))]);
    assert_eq!(said[2..], ["C req @20+2 body=1 MESSAGE", "S resp @14+2 body=1 MESSAGE Ok"]);
    let said = brief(&[
        c(greeting("CURVE", false)),
        s(greeting("CURVE", true)),
        c(command("HELLO", &[7; 194])),
        s(command("WELCOME", &[7; 160])),
        c(command("MESSAGE", &[7; 600])),
    ]);
    assert_eq!(said[4], "C oneway @266+521 body=96 MESSAGE");
}

#[test]
fn missing_bytes_are_skipped_exactly() {
    let mut turns = null("PUSH", "PULL");
    let n = turns.iter().filter(|t| t.0 == c("").0).map(|t| t.1.len()).sum::<usize>();
    turns.extend([
        (c("").0, frame(0, &[0; 2000])[..512].to_vec(), 1497),
        c(frame(0, b"next")),
        (c("").0, frame(1, b"a"), 40),
        c(b"nonsense"),
        c(frame(0, b"again")),
    ]);
    assert_eq!(
        brief(&turns)[4..],
        [
            format!("C oneway @{n}+9 body=2000 MESSAGE"),
            format!("C oneway @{}+2 body=4 MESSAGE", n + 2009),
            format!("C oneway @{}+2 body=open MESSAGE", n + 2015),
            "Malformed Client zmtp_gap".to_owned(),
            format!("C oneway @{}+2 body=5 MESSAGE", n + 2015 + 43 + 8),
        ]
    );
}

#[test]
fn no_secret_gets_out() {
    let turns = conversation();
    for said in [tcp_to_the_end(&Zmtp, &turns), tcp(&Zmtp, &cut(&turns, &[1]))] {
        assert!(said.len() >= 9 && !said.concat().contains("CANARY"), "{said:#?}");
    }
}

#[test]
fn connections_are_recognised_by_the_greeting() {
    let yes = |first_is_client| Detect::Yes { first_is_client };
    let detect = |a: &[u8], b: &[u8]| Zmtp.detect(&probe(a, b));
    let (client, server) = (greeting("PLAIN", false), greeting("PLAIN", true));
    assert_eq!(detect(&client, &server), yes(true));
    assert_eq!(detect(&server, &client[..10]), yes(false));
    assert_eq!(detect(&client[..10], b""), Detect::Maybe);
    assert_eq!(detect(&greeting("NULL", false), &greeting("NULL", false)), Detect::Maybe, "nobody says who serves");
    let null = greeting("NULL", false);
    let mut known = probe(&null, b"");
    known.first_is_client = Some(true);
    assert_eq!(Zmtp.detect(&known), yes(true));
    assert_eq!(detect(b"\xff\x00\x00\x01\x00\x00\x00\x00\x01\x7f", b""), Detect::No);
    assert_eq!(detect(&greeting("null", false), b""), Detect::No);
}

fn conversation() -> Vec<Turn> {
    let mut turns = plain("REQ", "REP");
    turns.extend([
        c([frame(1, b""), frame(1, &[b'x'; 700]), frame(0, b"CANARY")].concat()),
        s([frame(1, b""), frame(0, b"CANARY")].concat()),
        c([command("SUBSCRIBE", b"a."), frame(0, b"q")].concat()),
        s([command("PING", b"\x00\x01"), frame(0, b"a.CANARY")].concat()),
    ]);
    turns
}

proptest! {
    #[test]
    fn chunking_does_not_matter(cuts in prop::collection::vec(1usize..80, 1..20)) {
        let whole = conversation();
        prop_assert_eq!(tcp(&Zmtp, &whole), tcp(&Zmtp, &cut(&whole, &cuts)));
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
        tcp_to_the_end(&Zmtp, &pieces);
    }
}
