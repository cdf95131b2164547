#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

use super::Amqp;
use crate::testing::{c, cut, probe, s, tcp, tcp_to_the_end, Turn};
use crate::{Detect, Protocol};
use proptest::prelude::*;

const HEADER: &[u8] = b"AMQP\x00\x00\x09\x01";

fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let mut f = vec![kind];
    f.extend(channel.to_be_bytes());
    f.extend((payload.len() as u32).to_be_bytes());
    f.extend(payload);
    f.push(0xce);
    f
}

fn method(channel: u16, class: u16, method: u16, arguments: &[u8]) -> Vec<u8> {
    frame(1, channel, &[&class.to_be_bytes()[..], &method.to_be_bytes(), arguments].concat())
}

fn short(s: &str) -> Vec<u8> {
    [&[s.len() as u8][..], s.as_bytes()].concat()
}

fn long(s: &[u8]) -> Vec<u8> {
    [&(s.len() as u32).to_be_bytes()[..], s].concat()
}

/// Content header (with a header table, correlation and message ids) and body.
fn content(channel: u16, table: &[u8], body: &str) -> Vec<u8> {
    let mut h = vec![0, 60, 0, 0];
    h.extend((body.len() as u64).to_be_bytes());
    h.extend((1u16 << 13 | 1 << 10 | 1 << 7).to_be_bytes());
    h.extend([long(table), short("c-1"), short("m-1")].concat());
    [frame(2, channel, &h), frame(3, channel, body.as_bytes())].concat()
}

/// The same without properties.
fn plain(channel: u16, body: &str) -> Vec<u8> {
    let head = [&[0, 60, 0, 0][..], &(body.len() as u64).to_be_bytes(), &[0, 0]].concat();
    [frame(2, channel, &head), frame(3, channel, body.as_bytes())].concat()
}

fn publish(channel: u16, exchange: &str, key: &str) -> Vec<u8> {
    method(channel, 60, 40, &[&[0, 0][..], &short(exchange), &short(key), &[0]].concat())
}

fn close(class: u16, id: u16, channel: u16, code: u16, text: &str, cause: (u16, u16)) -> Vec<u8> {
    let mut a = code.to_be_bytes().to_vec();
    a.extend(short(text));
    a.extend(cause.0.to_be_bytes());
    a.extend(cause.1.to_be_bytes());
    method(channel, class, id, &a)
}

/// Without the attributes, places and ids.
fn brief(turns: &[Turn]) -> Vec<String> {
    let words = |l: String| {
        let l = l.split(" messaging.system.name").next().unwrap().to_owned();
        l.split(' ').filter(|w| !w.starts_with('@') && !w.starts_with("id=")).collect::<Vec<_>>().join(" ")
    };
    tcp(&Amqp, turns).into_iter().map(words).collect()
}

fn login() -> Vec<Turn> {
    let start_ok =
        [long(b"\x01kS\x00\x00\x00\x06CANARY"), short("PLAIN"), long(b"\0CANARYUSER\0CANARYPASS"), short("en")];
    vec![
        c(HEADER),
        s(method(0, 10, 10, &[&[0, 9][..], &long(b""), &long(b"PLAIN"), &long(b"en")].concat())),
        c(method(0, 10, 11, &start_ok.concat())),
        s(method(0, 10, 30, &[7, 255, 0, 2, 0, 0, 0, 60])),
        c([method(0, 10, 31, &[7, 255, 0, 2, 0, 0, 0, 60]), method(0, 10, 40, &[short("/"), vec![0, 0]].concat())]
            .concat()),
        s(method(0, 10, 41, &[0])),
        c(method(1, 20, 10, &[0])),
        s(method(1, 20, 11, &[0, 0, 0, 0])),
    ]
}

#[test]
fn a_login_and_methods_have_answers() {
    let mut turns = login();
    turns.extend([
        c(method(1, 50, 10, &[&[0, 0][..], &short("orders"), &[2], &long(b"")].concat())),
        s(method(1, 50, 11, &[&short("orders")[..], &[0; 8]].concat())),
        c(method(1, 50, 20, &[&[0, 0][..], &short("orders"), &short("x"), &short("k"), &[1], &long(b"")].concat())),
        c(frame(8, 0, b"")),
        s(frame(8, 0, b"")),
    ]);
    assert_eq!(
        brief(&turns),
        [
            "S req connection.start",
            "C resp connection.start-ok Ok",
            "S req connection.tune",
            "C resp connection.tune-ok Ok",
            "C req connection.open /",
            "S resp connection.open-ok Ok",
            "C req channel.open",
            "S resp channel.open-ok Ok",
            "C req queue.declare orders",
            "S resp queue.declare-ok Ok",
            "C oneway queue.bind orders",
        ]
    );
    let ids: Vec<_> =
        tcp(&Amqp, &turns)[8..10].iter().map(|l| l.split("id=").nth(1).unwrap()[..14].to_owned()).collect();
    assert_eq!(ids[0], ids[1]);
    assert!(tcp(&Amqp, &turns)[1].contains("wirespan.amqp.sasl_mechanism=PLAIN"));
}

#[test]
fn publishes_deliveries_and_settlements_are_read() {
    let parent = b"\x0btraceparentS\x00\x00\x00\x3700-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\x01kS\x00\
    \x00\x00\x06CANARY";
    let mut turns = login();
    let at = turns.iter().filter(|t| t.0 == c("").0).map(|t| t.1.len()).sum::<usize>();
    let first = [publish(1, "logs", "info"), content(1, parent, "CANARY")].concat();
    turns.extend([
        c([first.clone(), publish(1, "", "q"), content(1, b"", "")].concat()),
        s([
            method(
                1,
                60,
                60,
                &[&short("ct")[..], &[0, 0, 0, 0, 0, 0, 0, 9, 1], &short("logs"), &short("info")].concat(),
            ),
            content(1, parent, "CANARY"),
        ]
        .concat()),
        c(method(1, 60, 80, &[0, 0, 0, 0, 0, 0, 0, 9, 0])),
    ]);
    let said = tcp(&Amqp, &turns);
    assert!(
        said[8].starts_with(&format!("C oneway @{at}+{} body=14 basic.publish logs:info ", first.len() - 14)),
        "{}",
        said[8]
    );
    assert!(said[8].contains("trace_id: Some") && said[8].contains("messaging.message.id=m-1"), "{}", said[8]);
    assert!(said[8].contains("messaging.message.body.size=6 messaging.message.conversation_id=c-1"), "{}", said[8]);
    assert!(said[9].contains(" basic.publish q ") && !said[9].contains("body="), "{}", said[9]);
    assert!(said[10].starts_with("S oneway") && said[10].contains("operation.type=process"), "{}", said[10]);
    assert!(said[10].contains("delivery_tag=9 wirespan.amqp.redelivered=true"), "{}", said[10]);
    assert!(
        said[11].contains("basic.ack")
            && said[11].contains("operation.type=settle")
            && said[11].contains("delivery_tag=9")
    );
}

#[test]
fn confirmations_answer_by_delivery_tag() {
    let mut turns = login();
    let one = [publish(1, "x", "k"), content(1, b"", "b")].concat();
    turns.extend([
        c([method(1, 85, 10, &[0]), one.repeat(4)].concat()),
        s(method(1, 85, 11, b"")),
        s(method(1, 60, 80, &[0, 0, 0, 0, 0, 0, 0, 2, 1])),
        s([method(1, 60, 120, &[0, 0, 0, 0, 0, 0, 0, 4, 0]), method(1, 60, 80, &[0, 0, 0, 0, 0, 0, 0, 3, 0])].concat()),
    ]);
    let said = tcp(&Amqp, &turns);
    let id = |l: &String| l.split(" id=").nth(1).map(|r| r.split(' ').next().unwrap().to_owned());
    let [_, a, b, third, fourth, _, ab, bb, nack, ack] = &said[8..] else { panic!("{said:#?}") };
    assert_eq!((id(a), id(b)), (id(ab), id(bb)));
    assert_eq!((id(fourth), id(third)), (id(nack), id(ack)));
    assert!(a.starts_with("C req") && a.contains("delivery_tag=1") && ab.contains("S resp"));
    assert!(nack.contains("ServerError") && ack.contains("Ok"), "{nack}");
}

#[test]
fn a_failure_answers_the_method_that_it_names() {
    let mut turns = login();
    turns.extend([
        c(method(1, 40, 10, &[&[0, 0][..], &short("x"), &short("topic"), &[0], &long(b"")].concat())),
        s(close(
            20,
            40,
            1,
            406,
            "PRECONDITION_FAILED - inequivalent arg 'type': received 'CANARY' but current is 'CANARY'",
            (40, 10),
        )),
        c(method(1, 20, 41, b"")),
        c(close(10, 50, 0, 200, "Normal shutdown", (0, 0))),
        s(method(0, 10, 51, b"")),
    ]);
    let error = "status=406 ClientError error=\"PRECONDITION_FAILED - inequivalent arg 'type'\"";
    assert_eq!(
        brief(&turns)[8..],
        [
            "C req exchange.declare x".to_owned(),
            format!("S resp channel.close {error}"),
            "S req channel.close".to_owned(),
            format!("C resp channel.close-ok {error}"),
            "C req connection.close".to_owned(),
            "S resp connection.close-ok Ok".to_owned(),
        ]
    );
    let mut refused = login()[..4].to_vec();
    refused.extend([
        c(method(0, 10, 40, &[short("/bad"), vec![0, 0]].concat())),
        s(close(10, 50, 0, 530, "NOT_ALLOWED - vhost /bad not found", (10, 40))),
    ]);
    let said = brief(&refused);
    assert_eq!(said[4], "S resp connection.close status=530 ClientError error=\"NOT_ALLOWED - vhost /bad not found\"");
}

#[test]
fn channels_may_interleave_and_gets_and_returns_are_read() {
    let mut turns = login();
    let get = |ch| method(ch, 60, 70, &[&[0, 0][..], &short("q"), &[0]].concat());
    turns.extend([
        c(get(1)),
        s(method(1, 60, 72, &short(""))),
        c(get(1)),
        s([
            method(1, 60, 71, &[&[0, 0, 0, 0, 0, 0, 0, 3, 0][..], &short("x"), &short("k"), &[0, 0, 0, 0]].concat()),
            content(1, b"", "b"),
        ]
        .concat()),
        s([
            method(1, 60, 50, &[&312u16.to_be_bytes()[..], &short("NO_ROUTE"), &short("x"), &short("k")].concat()),
            content(1, b"", "b"),
        ]
        .concat()),
        c([publish(1, "a", ""), publish(2, "b", ""), content(2, b"", "2"), content(1, b"", "1"), publish(3, "c", "")]
            .concat()),
    ]);
    let said = brief(&turns);
    assert_eq!(
        said[8..],
        [
            "C req basic.get q",
            "S resp basic.get-empty Ok",
            "C req basic.get q",
            "S resp body=9 basic.get-ok x:k Ok",
            "S oneway body=9 basic.return x:k status=312 ClientError error=\"NO_ROUTE\"",
            "C oneway body=9 basic.publish b",
            "C oneway body=9 basic.publish a",
        ]
    );
    // A content whose header never comes is told at the end.
    assert!(tcp_to_the_end(&Amqp, &turns).last().unwrap().contains("basic.publish c"));
}

#[test]
fn missing_bytes_are_skipped_exactly() {
    let mut turns = login();
    let big = [publish(1, "x", "k"), content(1, b"", &"z".repeat(9000))].concat();
    let mut told = turns.clone();
    turns.push(c([big.clone(), method(1, 85, 10, &[0])].concat()));
    told.push((c("").0, big[..512].to_vec(), big.len() as u64 - 512));
    told.push(c(method(1, 85, 10, &[0])));
    assert_eq!(tcp(&Amqp, &turns), tcp(&Amqp, &told));
    // The header is lost: the publication is told without it.
    let mut lost = login();
    lost.push((c("").0, publish(1, "x", "k"), 500));
    lost.push(c(b"\x03\x00\x01\x00\x00\xff\xffxx"));
    lost.push(c(method(1, 60, 100, &[0])));
    assert_eq!(
        brief(&lost)[8..],
        ["C oneway basic.publish x:k", "Malformed Client amqp_gap", "C oneway basic.recover-async"]
    );
}

#[test]
fn a_body_of_several_frames_is_skipped_although_their_heads_were_not_captured() {
    let mut turns = login();
    // Frames are as long as was agreed, or as usual.
    let size = 300_000usize;
    let header = [&[0, 60, 0, 0][..], &(size as u64).to_be_bytes(), &[0, 0]].concat();
    let per_frame = 131_072 - 8;
    let body = vec![b'z'; size];
    let frames: Vec<u8> = body.chunks(per_frame).flat_map(|part| frame(3, 1, part)).collect();
    let start = [publish(1, "x", "k"), frame(2, 1, &header)].concat();
    turns.push(c(method(1, 85, 10, &[0])));
    turns.push(s(method(1, 85, 11, b"")));
    turns.push((c("").0, start, frames.len() as u64));
    turns.push(c(method(1, 60, 70, b"\0\0\x01q\0")));
    turns.push(s(method(1, 60, 80, &[0, 0, 0, 0, 0, 0, 0, 1, 0])));
    let said = brief(&turns);
    assert!(!said.iter().any(|l| l.contains("Malformed")), "{said:#?}");
    assert!(said.iter().any(|l| l.contains("basic.get")), "{said:#?}");
    assert!(said.last().is_some_and(|l| l.starts_with("S resp")), "{said:#?}");
}

#[test]
fn no_secret_gets_out() {
    let turns = conversation();
    for said in [tcp_to_the_end(&Amqp, &turns), tcp(&Amqp, &cut(&turns, &[1]))] {
        assert!(said.len() >= 15 && !said.concat().contains("CANARY"), "{said:#?}");
    }
}

#[test]
fn detects_from_the_start_and_from_the_middle() {
    let yes = |first_is_client| Detect::Yes { first_is_client };
    let detect = |a: &[u8], b: &[u8]| Amqp.detect(&probe(a, b));
    assert_eq!(detect(HEADER, b""), yes(true));
    assert_eq!(detect(b"AMQ", b""), Detect::Maybe);
    assert_eq!(detect(b"AMQP\x00\x01\x00\x00", b""), Detect::No, "1.0");
    let publish = [publish(1, "x", "k"), content(1, b"", "CANARY")].concat();
    assert_eq!(detect(&publish, b""), yes(true));
    assert_eq!(detect(&publish[..10], b""), Detect::Maybe);
    assert_eq!(detect(&publish[3..], b""), Detect::No);
    assert_eq!(detect(&method(0, 10, 30, &[7, 255, 0, 2, 0, 0, 0, 60]), b""), yes(false));
    assert_eq!(detect(&frame(8, 0, b""), b""), Detect::Maybe);
    assert_eq!(detect(&frame(8, 0, b""), &publish), yes(false));
}

fn conversation() -> Vec<Turn> {
    let mut turns = login();
    turns.extend([
        c([
            method(1, 85, 10, &[0]),
            publish(1, "x", "k"),
            content(1, b"\x01kS\x00\x00\x00\x06CANARY", &"CANARY".repeat(700)),
        ]
        .concat()),
        s([method(1, 85, 11, b""), method(1, 60, 80, &[0, 0, 0, 0, 0, 0, 0, 1, 0]), frame(8, 0, b"")].concat()),
        s([
            method(1, 60, 60, &[&short("ct")[..], &[0, 0, 0, 0, 0, 0, 0, 9, 0], &short(""), &short("q")].concat()),
            content(1, b"", "CANARY"),
            close(20, 40, 1, 404, "NOT_FOUND", (60, 40)),
        ]
        .concat()),
        c([method(1, 20, 41, b""), close(10, 50, 0, 200, "bye", (0, 0))].concat()),
        s(method(0, 10, 51, b"")),
    ]);
    turns
}

proptest! {
    #[test]
    fn chunking_does_not_matter(cuts in prop::collection::vec(1usize..80, 1..20)) {
        let whole = conversation();
        prop_assert_eq!(tcp(&Amqp, &whole), tcp(&Amqp, &cut(&whole, &cuts)));
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
        tcp(&Amqp, &pieces);
    }
}

/// Most clients give their messages no id.
#[test]
fn a_message_without_an_id_is_known_by_its_body() {
    let deliver = |tag: u8| {
        method(1, 60, 60, &[&short("c")[..], &[0, 0, 0, 0, 0, 0, 0, tag, 0], &short(""), &short("orders")].concat())
    };
    let order = "{\"order\": \"0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0\"}";
    let mut turns = login();
    turns.extend([
        c([publish(1, "", "later"), plain(1, order), publish(1, "", "orders"), plain(1, "another one")].concat()),
        s([deliver(1), plain(1, order), deliver(2), plain(1, "another one"), deliver(3), plain(1, "17")].concat()),
        c([publish(1, "", "orders"), content(1, b"", order)].concat()),
    ]);
    let names = |turns: &[Turn]| -> Vec<Option<String>> {
        let said = tcp(&Amqp, turns).into_iter().filter(|l| l.contains("basic."));
        said.map(|l| l.split_once("wirespan.amqp.body=").map(|(_, name)| name[..16].to_owned())).collect()
    };
    let all = names(&turns);
    assert!(all[0].is_some() && all[1].is_some() && all[0] != all[1], "{all:?}");
    assert_eq!(all[2..], [all[0].clone(), all[1].clone(), None, None], "too short for a name; known by its id");
    let mut known = wirespan_model::broker::ElementHash::default();
    known.add(b"another one");
    assert_ne!(all[1], Some(format!("{:016x}", known.of_length(11))), "what can be guessed has a secret name");
    assert_eq!(names(&cut(&turns, &[3, 7, 11])), all);
    assert!(!tcp(&Amqp, &turns).iter().any(|l| l.contains("another one")));
}
