#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

use super::Amqp1;
use crate::testing::{c, cut, probe, s, tcp, tcp_to_the_end, Turn};
use crate::{Detect, Protocol};
use proptest::prelude::*;

const NULL: &[u8] = b"\x40";
const PARENT: &[u8] = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn text(s: &str) -> Vec<u8> {
    [&[0xa1, s.len() as u8][..], s.as_bytes()].concat()
}

fn symbol(s: &str) -> Vec<u8> {
    [&[0xa3, s.len() as u8][..], s.as_bytes()].concat()
}

fn uint(n: u8) -> Vec<u8> {
    vec![0x52, n]
}

fn compound(code: u8, members: &[&[u8]]) -> Vec<u8> {
    let all = members.concat();
    [&[code, all.len() as u8 + 1, members.len() as u8][..], &all].concat()
}

fn described(descriptor: u8, members: &[&[u8]]) -> Vec<u8> {
    [&[0, 0x53, descriptor][..], &compound(0xc0, members)].concat()
}

fn frame(kind: u8, channel: u16, body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32 + 8).to_be_bytes()[..], &[2, kind], &channel.to_be_bytes(), body].concat()
}

fn error(condition: &str) -> Vec<u8> {
    described(0x1d, &[&symbol(condition), &text("CANARY text")])
}

fn attach(channel: u16, handle: u8, receiver: bool, address: &str) -> Vec<u8> {
    let role: &[u8] = if receiver { b"\x41" } else { b"\x42" };
    let (source, target) = (described(0x28, &[&text(address)]), described(0x29, &[&text(address)]));
    frame(0, channel, &described(0x12, &[&text("link-1"), &uint(handle), role, NULL, NULL, &source, &target]))
}

fn transfer(channel: u16, id: u8, settled: bool, more: bool) -> Vec<u8> {
    let flag = |b| if b { b"\x41" } else { b"\x42" };
    let head = described(0x14, &[&uint(0), &uint(id), b"\xa0\x01t", b"\x43", flag(settled), flag(more)]);
    let mut payload = described(0x73, &[&text("m-1"), b"\xa0\x06CANARY", NULL, NULL, NULL, &text("c-1")]);
    let map = compound(
        0xc1,
        &[&text("traceparent"), &[&[0xa1, PARENT.len() as u8][..], PARENT].concat(), &text("k"), &text("CANARY")],
    );
    payload.extend([&[0, 0x53, 0x74][..], &map, b"\x00\x53\x75\xa0\x06CANARY"].concat());
    frame(0, channel, &[head, payload].concat())
}

fn login() -> Vec<Turn> {
    let sasl = b"AMQP\x03\x01\x00\x00";
    let amqp = b"AMQP\x00\x01\x00\x00";
    vec![
        c(sasl),
        s([&sasl[..], &frame(1, 0, &described(0x40, &[&symbol("PLAIN")]))].concat()),
        c(frame(1, 0, &described(0x41, &[&symbol("PLAIN"), b"\xa0\x14\x00CANARYUSER\x00CANARYPW"]))),
        s(frame(1, 0, &described(0x44, &[b"\x50\x00"]))),
        c([&amqp[..], &frame(0, 0, &described(0x10, &[&text("shop"), &text("broker")]))].concat()),
        s([&amqp[..], &frame(0, 0, &described(0x10, &[&text("b")]))].concat()),
        c(frame(0, 0, &described(0x11, &[NULL, &uint(0)]))),
        // The broker calls the session 5.
        s(frame(0, 5, &described(0x11, &[b"\x60\x00\x00", &uint(0)]))),
        c(attach(0, 0, false, "orders")),
        s(attach(5, 3, true, "orders")),
    ]
}

/// Without the attributes and places.
fn brief(turns: &[Turn]) -> Vec<String> {
    let words = |l: String| {
        let l = l.split(" messaging.system.name").next().unwrap().to_owned();
        l.split(' ').filter(|w| !w.starts_with('@') && !w.starts_with("id=")).collect::<Vec<_>>().join(" ")
    };
    tcp(&Amqp1, turns).into_iter().map(words).collect()
}

#[test]
fn a_conversation_is_read_from_open_to_close() {
    let mut turns = login();
    let disposition = |first: u8, last: u8, state: &[u8]| {
        frame(0, 5, &described(0x15, &[b"\x41", &uint(first), &uint(last), b"\x41", state]))
    };
    turns.extend([
        c([
            transfer(0, 0, false, false),
            transfer(0, 1, false, true),
            transfer(0, 1, false, false),
            transfer(0, 2, true, false),
            transfer(0, 3, false, false),
        ]
        .concat()),
        s([disposition(0, 1, b"\x00\x53\x24\x45"), disposition(3, 3, &described(0x25, &[&error("amqp:not-allowed")]))]
            .concat()),
        c(b"\x00\x00\x00\x08\x02\x00\x00\x00"),
        c(frame(0, 0, &described(0x16, &[&uint(0), b"\x41"]))),
        s(frame(0, 5, &described(0x16, &[&uint(3), b"\x41", &error("amqp:link:detach-forced")]))),
        c(frame(0, 0, b"\x00\x53\x17\x45")),
        s(frame(0, 5, b"\x00\x53\x17\x45")),
        s(frame(0, 0, &described(0x18, &[&error("amqp:connection:forced")]))),
        c(frame(0, 0, b"\x00\x53\x18\x45")),
    ]);
    assert_eq!(
        brief(&turns),
        [
            "S oneway sasl.mechanisms",
            "C req sasl.init",
            "S resp sasl.outcome status=0 Ok",
            "C req open broker",
            "S resp open Ok",
            "C req begin",
            "S resp begin Ok",
            "C req attach orders",
            "S resp attach orders Ok",
            "C req body=109 transfer orders",
            "C req body=109 transfer orders",
            "C oneway body=109 transfer orders",
            "C req body=109 transfer orders",
            "S resp disposition Ok",
            "S resp disposition Ok",
            "S resp disposition ClientError error=\"amqp:not-allowed\"",
            "C req detach orders",
            "S resp detach orders ClientError error=\"amqp:link:detach-forced\"",
            "C req end",
            "S resp end Ok",
            "S req close ServerError error=\"amqp:connection:forced\"",
            "C resp close Ok",
        ]
        .map(|l| l.replace("109", &(transfer(0, 0, false, false).len() - 24).to_string()))
    );
    let said = tcp(&Amqp1, &turns);
    let id = |l: &String| l.split(" id=").nth(1).map(|r| r.split(' ').next().unwrap().to_owned());
    assert_eq!((id(&said[9]), id(&said[10]), id(&said[12])), (id(&said[13]), id(&said[14]), id(&said[15])));
    assert_eq!(
        (id(&said[5]), id(&said[7]), id(&said[16]), id(&said[18])),
        (id(&said[6]), id(&said[8]), id(&said[17]), id(&said[19]))
    );
    assert!(said[9].contains("trace_id: Some") && said[9].contains("messaging.message.id=m-1"), "{}", said[9]);
    assert!(said[1].contains("sasl_mechanism=PLAIN"));
    assert!(!said.concat().contains("CANARY"), "{said:#?}");
}

#[test]
fn a_refused_login_is_an_error() {
    let mut turns = login()[..3].to_vec();
    turns.push(s(frame(1, 0, &described(0x44, &[b"\x50\x01"]))));
    assert_eq!(brief(&turns)[2], "S resp sasl.outcome status=1 ClientError error=\"authentication failed\"");
}

#[test]
fn a_consumer_settles_what_it_is_sent() {
    let mut turns = login()[..8].to_vec();
    turns.extend([
        c(attach(0, 1, true, "orders")),
        s(attach(5, 0, false, "orders")),
        s(transfer(5, 9, false, false)),
        c(frame(0, 0, &described(0x15, &[b"\x41", &uint(9), NULL, b"\x41", b"\x00\x53\x26\x45"]))),
    ]);
    let said = tcp(&Amqp1, &turns);
    assert!(
        said[9].starts_with("S req") && said[9].contains("operation.type=process") && said[9].contains(" orders "),
        "{}",
        said[9]
    );
    assert!(said[10].starts_with("C resp") && said[10].contains("ClientError error=\"released\""), "{}", said[10]);
}

#[test]
fn missing_bytes_are_skipped_exactly() {
    let mut big = transfer(0, 0, false, false);
    let len = big.len() as u32 + 5000;
    big[..4].copy_from_slice(&len.to_be_bytes());
    let mut turns = login();
    turns.push((c("").0, big, 5000));
    turns.push(c(transfer(0, 1, true, false)));
    turns.push((c("").0, transfer(0, 2, true, false)[..6].to_vec(), 900));
    turns.push(c(b"nonsense that is no frame"));
    turns.push(c(transfer(0, 3, true, false)));
    let said = brief(&turns);
    assert!(said[9].starts_with("C req body=") && said[10].starts_with("C oneway body="), "{said:#?}");
    assert_eq!(said[11], "Malformed Client amqp1_gap");
    assert!(said[12].ends_with(" transfer"), "the link's name may have changed: {}", said[12]);
}

#[test]
fn detects_from_the_start_and_from_the_middle() {
    let yes = |first_is_client| Detect::Yes { first_is_client };
    let detect = |a: &[u8], b: &[u8]| Amqp1.detect(&probe(a, b));
    assert_eq!(detect(b"AMQP\x03\x01\x00\x00", b""), yes(true));
    assert_eq!(detect(b"AMQP\x00\x00\x09\x01", b""), Detect::No, "0-9-1");
    assert_eq!(detect(&transfer(0, 0, false, false), b""), Detect::Maybe);
    assert_eq!(detect(&transfer(0, 0, false, false)[1..], b""), Detect::No);
    let t = transfer(0, 0, false, false);
    let mut known = probe(&t, b"");
    known.first_is_client = Some(false);
    assert_eq!(Amqp1.detect(&known), yes(false));
}

fn conversation() -> Vec<Turn> {
    let mut turns = login();
    turns.extend([
        c([transfer(0, 0, false, false), transfer(0, 1, true, false)].concat()),
        s(frame(0, 5, &described(0x15, &[b"\x41", &uint(0), NULL, b"\x41", b"\x00\x53\x24\x45"]))),
        c(frame(0, 0, &described(0x16, &[&uint(0), b"\x41"]))),
        s(frame(0, 0, &described(0x18, &[&error("amqp:internal-error")]))),
    ]);
    turns
}

proptest! {
    #[test]
    fn chunking_does_not_matter(cuts in prop::collection::vec(1usize..80, 1..20)) {
        let whole = conversation();
        prop_assert_eq!(tcp(&Amqp1, &whole), tcp(&Amqp1, &cut(&whole, &cuts)));
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
        tcp_to_the_end(&Amqp1, &pieces);
    }
}
