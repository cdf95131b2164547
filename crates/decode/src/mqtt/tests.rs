#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

use super::Mqtt;
use crate::testing::{c, cut, probe, s, tcp, tcp_to_the_end, Turn};
use crate::{Detect, Protocol};
use proptest::prelude::*;

/// A packet of this first byte.
fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let mut p = vec![first];
    let mut n = body.len();
    loop {
        let more = n >= 128;
        p.push((n % 128) as u8 | if more { 128 } else { 0 });
        n /= 128;
        if !more {
            break;
        }
    }
    p.extend_from_slice(body);
    p
}

fn text(s: &str) -> Vec<u8> {
    [&(s.len() as u16).to_be_bytes()[..], s.as_bytes()].concat()
}

fn connect(level: u8) -> Vec<u8> {
    let mut b = [text("MQTT"), vec![level, 0xc2, 0, 60]].concat();
    if level == 5 {
        b.extend([5, 0x11, 0, 0, 0, 9]);
    }
    b.extend([text("sensor-7"), text("CANARYUSER"), text("CANARYPASS")].concat());
    packet(0x10, &b)
}

fn publish(qos: u8, topic: &str, id: u16, props: Option<&[u8]>, payload: &str) -> Vec<u8> {
    let mut b = text(topic);
    if qos > 0 {
        b.extend(id.to_be_bytes());
    }
    if let Some(p) = props {
        b.push(p.len() as u8);
        b.extend(p);
    }
    b.extend(payload.as_bytes());
    packet(0x30 | qos << 1, &b)
}

/// Without the attributes.
fn brief(turns: &[Turn]) -> Vec<String> {
    tcp(&Mqtt, turns).into_iter().map(|l| l.split(" messaging.system.name").next().unwrap().to_owned()).collect()
}

#[test]
fn a_conversation_of_version_3_is_read() {
    let said = brief(&[
        c(connect(4)),
        s([0x20, 2, 0, 0]),
        c([publish(0, "a/b", 0, None, "CANARY"), publish(1, "a/c", 7, None, "CANARY")].concat()),
        s([0x40, 2, 0, 7]),
        c(publish(2, "d", 8, None, "")),
        s([0x50, 2, 0, 8]),
        c([0x62, 2, 0, 8]),
        s([0x70, 2, 0, 8]),
        c(packet(0x82, &[&[0, 9][..], &text("a/+"), &[1], &text("#"), &[0]].concat())),
        s([0x90, 4, 0, 9, 1, 0x80]),
        c([0xc0, 0]),
        s([0xd0, 0]),
        s(publish(1, "a/z", 1, None, "down")),
        c([0x40, 2, 0, 1]),
        c([0xe0, 0]),
    ]);
    let expected = [
        "C req @0+46 id=4294967296 CONNECT",
        "S resp @0+4 id=4294967296 CONNACK status=0 Ok",
        "C oneway @46+7 body=6 PUBLISH a/b",
        "C req @59+9 body=6 id=7 PUBLISH a/c",
        "S resp @4+4 id=7 PUBACK status=0 Ok",
        "C req @74+7 id=8 PUBLISH d",
        "S resp @8+4 id=8 PUBREC status=0 Ok",
        "C req @81+4 id=65544 PUBREL",
        "S resp @12+4 id=65544 PUBCOMP status=0 Ok",
        "C req @85+14 id=9 SUBSCRIBE a/+",
        "S resp @16+6 id=9 SUBACK status=128 ServerError error=\"unspecified error\"",
        "C req @99+2 id=8589934592 PINGREQ",
        "S resp @22+2 id=8589934592 PINGRESP Ok",
        "S req @24+9 body=4 id=1 PUBLISH a/z",
        "C resp @101+4 id=1 PUBACK status=0 Ok",
        "C oneway @105+2 DISCONNECT status=0 Ok",
    ];
    assert_eq!(said, expected);
}

#[test]
fn refusals_are_errors() {
    let refused = |code: u8| brief(&[c(connect(4)), s([0x20, 2, 0, code])])[1].clone();
    assert!(refused(5).ends_with("status=5 ClientError error=\"not authorized\""));
    assert!(refused(3).ends_with("status=3 ServerError error=\"server unavailable\""));
    let five = brief(&[c(connect(5)), s([0x20, 3, 0, 0x86, 0])]);
    assert!(five[1].ends_with("status=134 ClientError error=\"bad user name or password\""), "{five:?}");
    let told = brief(&[c(connect(5)), s([0xe0, 2, 0x8e, 0])]);
    assert!(told[1].ends_with("DISCONNECT status=142 ClientError error=\"session taken over\""), "{told:?}");
    let acked = brief(&[c(connect(5)), s(packet(0x90, &[0, 9, 0, 1, 0x87]))]);
    assert!(acked[1].ends_with("SUBACK status=135 ClientError error=\"not authorized\""), "{acked:?}");
}

#[test]
fn additions_of_version_5_are_read() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let props = [&[0x23, 0, 3, 0x26][..], &text("traceparent"), &text(parent), &[0x09], &text("c-1")].concat();
    let said = tcp(
        &Mqtt,
        &[
            c(connect(5)),
            s([0x20, 3, 0, 0, 0]),
            c(publish(0, "orders/new", 0, Some(&props), "CANARY")),
            c(publish(0, "", 0, Some(&[0x23, 0, 3]), "CANARY")),
            s(publish(0, "", 0, Some(&[0x23, 0, 3]), "CANARY")),
        ],
    );
    assert!(said[2].contains(" PUBLISH orders/new") && said[2].contains("trace_id: Some"), "{}", said[2]);
    assert!(said[2].contains("messaging.message.conversation_id=c-1"));
    assert!(said[2].contains("messaging.message.body.size=6"));
    assert!(said[3].contains(" PUBLISH orders/new"), "{}", said[3]);
    assert!(!said[4].contains("orders"), "the broker's aliases are its own: {}", said[4]);
}

#[test]
fn aliases_are_forgotten_after_a_gap() {
    let define = publish(0, "orders/new", 0, Some(&[0x23, 0, 3]), "");
    let again = publish(0, "", 0, Some(&[0x23, 0, 3]), "");
    let ping = [0xc0, 0];
    let said = tcp(&Mqtt, &[c(connect(5)), c(define), (c(ping).0, ping.to_vec(), 50), c(ping), c(again)]);
    assert_eq!(said[3], "Malformed Client mqtt_gap");
    assert!(said[5].contains("PUBLISH") && !said[5].contains("orders"), "{said:?}");
}

#[test]
fn no_secret_gets_out() {
    let turns = [
        c(connect(4)),
        s([0x20, 2, 0, 0]),
        c([publish(0, "t", 0, None, "CANARY"), publish(1, "t", 1, None, "CANARY")].concat()),
        c(connect(5)),
        c(publish(0, "t", 0, Some(b"\x26\x00\x01a\x00\x06CANARY"), "CANARY")),
        s(packet(0x40, b"\x00\x01\x87\x09\x1f\x00\x06CANARY")),
        s(packet(0xe0, b"\x87\x09\x1f\x00\x06CANARY")),
    ];
    for said in [tcp_to_the_end(&Mqtt, &turns), tcp(&Mqtt, &cut(&turns, &[1]))] {
        assert!(said.len() >= 7 && !said.concat().contains("CANARY"), "{said:#?}");
    }
}

#[test]
fn a_large_message_is_skipped_by_its_length() {
    let mut big = packet(0x32, &[text("t"), vec![0, 7], vec![b'x'; 3000]].concat());
    let tail = big.split_off(512);
    let turns = [c(connect(4)), (c("").0, big, tail.len() as u64), c([0xc0, 0])];
    let said = brief(&turns);
    assert_eq!(said[1], "C req @46+8 body=3000 id=7 PUBLISH t");
    assert_eq!(said[2], "C req @3054+2 id=8589934592 PINGREQ");
}

#[test]
fn detects_from_the_start_and_from_the_middle() {
    let yes = |first_is_client| Detect::Yes { first_is_client };
    let detect = |a: &[u8], b: &[u8]| Mqtt.detect(&probe(a, b));
    assert_eq!(detect(&connect(4), b""), yes(true));
    assert_eq!(detect(&connect(5)[..5], b""), Detect::Maybe);
    assert_eq!(detect(b"\x10\x0e\x00\x04MQTX\x04\x02\x00\x3c\x00\x02ab", b""), Detect::No);
    let subscribe = packet(0x82, &[&[0, 1][..], &text("hello/+/world"), &[1]].concat());
    assert_eq!(detect(&subscribe, b""), Detect::Maybe);
    assert_eq!(detect(&subscribe, b"\x90\x03\x00\x01\x01"), yes(true));
    assert_eq!(detect(b"\x90\x03\x00\x01\x01", &subscribe), yes(false));
    assert_eq!(detect(&subscribe, b"\x90\x03\x00\x02\x01"), Detect::Maybe, "another id");
    assert_eq!(detect(b"\xc0\x00", b"\xd0\x00"), yes(true));
    // The broker may publish too.
    let publish = publish(1, "a/b", 7, None, "x");
    assert_eq!(detect(&publish, b"\x40\x02\x00\x07"), Detect::Maybe);
    let mut known = probe(&publish, b"\x40\x02\x00\x07");
    known.first_is_client = Some(false);
    assert_eq!(Mqtt.detect(&known), yes(false));
    assert_eq!(detect(b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\x00\x80\x00", b"\x30"), Detect::No, "LDAP");
}

fn conversation() -> Vec<Turn> {
    let props = [&[0x23, 0, 3, 0x26][..], &text("b3"), &text("0"), &[0x09], &text("c-1")].concat();
    vec![
        c(connect(5)),
        s(b"\x20\x03\x00\x00\x00"),
        c([publish(1, "a/b", 1, Some(&props), &"x".repeat(3000)), publish(2, "", 2, Some(&[0x23, 0, 3]), "y")]
            .concat()),
        s([packet(0x40, &[0, 1]), packet(0x50, &[0, 2, 0])].concat()),
        c(packet(0x62, &[0, 2])),
        s(packet(0x70, &[0, 2, 0x92, 0])),
        c(packet(0x82, &[&[0, 9, 0][..], &text("a/+"), &[1]].concat())),
        s(packet(0x90, &[0, 9, 0, 1])),
        s(publish(0, "a/q", 0, Some(&[]), "z")),
        c(packet(0xe0, &[0])),
    ]
}

proptest! {
    #[test]
    fn chunking_does_not_matter(cuts in prop::collection::vec(1usize..80, 1..20)) {
        let whole = conversation();
        prop_assert_eq!(tcp(&Mqtt, &whole), tcp(&Mqtt, &cut(&whole, &cuts)));
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
        tcp(&Mqtt, &pieces);
    }
}
