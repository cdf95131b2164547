#![allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::cast_possible_truncation
)]

#[path = "../../tests/wires/pulsar.rs"]
mod wires;

use super::Pulsar;
use crate::testing::{c, cut, probe, s, tcp, tcp_to_the_end, Turn};
use crate::{Detect, Probe, Protocol};
use proptest::prelude::*;
use wires::{command, fields, payload, property, sized, with, TOPIC};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn producer() -> Vec<u8> {
    command(5, fields().bytes(1, TOPIC).int(2, 4).int(3, 11).bytes(4, "maker"))
}

fn send(sequence: u64) -> Vec<u8> {
    let metadata = fields().bytes(1, "maker").int(2, sequence).int(3, 1).bytes(4, property("traceparent", PARENT));
    let metadata = metadata.bytes(4, property("secret", "geheim")).bytes(6, "geheim");
    with(6, fields().int(1, 4).int(2, sequence).int(3, 1), &payload(metadata, b"geheim"))
}

fn receipt(sequence: u64) -> Vec<u8> {
    let id = fields().int(1, 9).int(2, 60).int(3, u64::from(u32::MAX));
    command(7, fields().int(1, 4).int(2, sequence).bytes(3, id.0))
}

fn subscribe() -> Vec<u8> {
    command(4, fields().bytes(1, TOPIC).bytes(2, "eaters").int(3, 0).int(4, 6).int(5, 12))
}

fn message() -> Vec<u8> {
    let single = fields().bytes(1, property("traceparent", PARENT)).int(3, 6);
    let batch = [sized(&single.0), b"geheim".to_vec()].concat();
    let metadata = fields().bytes(1, "maker").int(2, 1).int(3, 1).int(11, 2);
    let broker = [b"\x0e\x02".to_vec(), sized(&fields().int(1, 5).0)].concat();
    let id = fields().int(1, 9).int(2, 61).int(3, 2).int(4, 0);
    with(9, fields().int(1, 6).bytes(2, id.0), &[broker, payload(metadata, &batch)].concat())
}

fn say(turns: &[Turn]) -> Vec<String> {
    tcp(&Pulsar, turns).into_iter().map(|l| l.replace(" messaging.system.name=pulsar", "")).collect()
}

#[test]
fn a_send_is_answered_by_its_receipt() {
    let said = say(&[
        c(producer()),
        s(command(17, fields().int(1, 11).bytes(2, "maker"))),
        c([send(0), send(1)].concat()),
        s([receipt(0), receipt(1)].concat()),
    ]);
    assert!(said[0].contains("id=11 PRODUCER") && said[0].contains(TOPIC), "{}", said[0]);
    assert!(said[1].ends_with("id=11 Ok"), "{}", said[1]);
    for part in [
        &format!("SEND {TOPIC}"),
        "messaging.operation.type=send",
        "messaging.destination.partition.id=2",
        "messaging.batch.message_count=1",
        "trace_id: Some([10, 247, 101",
    ] {
        assert!(said[2].contains(part), "{part}: {}", said[2]);
    }
    let id = |l: &str| l.split(" id=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert_eq!((id(&said[2]), id(&said[3])), (id(&said[4]), id(&said[5])));
    assert_ne!(id(&said[2]), id(&said[3]));
    assert!(said[4].contains("messaging.message.id=9:60"), "{}", said[4]);
    assert!(!said.concat().contains("geheim"), "{said:?}");
}

#[test]
fn a_message_is_answered_by_its_acknowledgement() {
    let id = || fields().int(1, 9).int(2, 61).int(3, 2).0;
    let said = say(&[
        c(subscribe()),
        s(command(13, fields().int(1, 12))),
        c(command(11, fields().int(1, 6).int(2, 1000))),
        s(message()),
        c(command(10, fields().int(1, 6).int(2, 0).bytes(3, id()))),
        c(command(10, fields().int(1, 6).int(2, 1).bytes(3, id()).bytes(3, id()).int(8, 77))),
        s(command(38, fields().int(1, 6).int(6, 77))),
    ]);
    assert!(said[0].contains("messaging.destination.subscription.name=eaters"), "{}", said[0]);
    assert!(said[2].starts_with("C oneway") && said[2].contains("FLOW"), "{}", said[2]);
    assert!(said[3].starts_with("S oneway") && said[3].contains("messaging.message.id=9:61:2:0"), "{}", said[3]);
    assert!(said[3].contains("message_count=2 wirespan.link.trace_id=0af7651916cd43dd8448eb211c80319c"), "{}", said[3]);
    assert!(said[4].starts_with("C oneway") && said[4].contains("messaging.message.id=9:61:2"), "{}", said[4]);
    assert!(said[5].starts_with("C req") && said[5].contains("id=77 ACK"), "{}", said[5]);
    assert!(said[5].contains("message_count=2 wirespan.pulsar.cumulative=true"), "{}", said[5]);
    assert!(said[6].contains("id=77 Ok"), "{}", said[6]);
    assert!(!said.concat().contains("geheim"), "{said:?}");
}

#[test]
fn errors_have_names_and_no_texts() {
    let said = say(&[
        c(command(2, fields().bytes(1, "client").bytes(5, "token").bytes(3, "geheim").int(4, 19))),
        s(command(14, fields().int(1, u64::MAX).int(2, 3).bytes(3, "geheim"))),
        c(producer()),
        s(command(14, fields().int(1, 11).int(2, 11).bytes(3, "geheim"))),
        c(send(0)),
        s(command(8, fields().int(1, 4).int(2, 0).int(3, 2).bytes(4, "geheim"))),
        c(command(23, fields().bytes(1, TOPIC).int(2, 13))),
        s(command(24, fields().int(3, 2).int(4, 13).int(6, 6).bytes(7, "geheim"))),
    ]);
    assert!(said[0].contains("CONNECT") && said[1].contains("ClientError error=\"AuthenticationError\""), "{said:?}");
    assert_eq!(said[0].split(" id=").nth(1).map(|t| &t[..10]), said[1].split(" id=").nth(1).map(|t| &t[..10]));
    assert!(said[3].contains("status=11 ClientError error=\"TopicNotFound\""), "{}", said[3]);
    assert!(said[5].contains("status=2 ServerError error=\"PersistenceError\""), "{}", said[5]);
    assert!(said[7].contains("ServerError error=\"ServiceNotReady\""), "{}", said[7]);
    assert!(!said.concat().contains("geheim"), "{said:?}");
}

#[test]
fn gaps_and_joins_find_the_next_frame() {
    let whole = send(3);
    let said = say(&[(c("").0, whole[..40].to_vec(), whole.len() as u64 - 40), c(send(4))]);
    assert!(said[0].contains("body=") && said[0].contains("SEND") && said[1].contains("SEND"), "{said:?}");
    let said = say(&[(c("").0, whole.clone(), 7), c("not a command"), c(send(4))]);
    assert_eq!(said[1], "Malformed Client pulsar_gap");
    assert!(said[2].contains("SEND") && said.len() == 3, "{said:?}");
    assert_eq!(say(&[c(send(1)), c("nonsense nonsense")])[1], "Malformed Client pulsar_bad_frame");
    let said = say(&[c("the end of a payload"), c(send(1)), s(receipt(1))]);
    assert!(said[0].contains("SEND") && said[1].contains("message.id=9:60") && said.len() == 2, "{said:?}");
}

#[test]
fn connections_are_recognised_and_others_are_not() {
    let yes = |first_is_client| Detect::Yes { first_is_client };
    let connect = command(2, fields().bytes(1, "client").int(4, 19));
    assert_eq!(Pulsar.detect(&probe(&connect, b"")), yes(true));
    assert_eq!(Pulsar.detect(&probe(&message(), b"")), yes(false));
    assert_eq!(Pulsar.detect(&probe(&message(), &send(1))), yes(false));
    assert_eq!(Pulsar.detect(&probe(&send(1), &connect)), Detect::No);
    let ping = command(18, fields());
    assert_eq!(Pulsar.detect(&probe(&ping, b"")), Detect::Maybe);
    assert_eq!(Pulsar.detect(&Probe { first_is_client: Some(false), ..probe(&ping, b"") }), yes(false));
    let mut wrong = connect.clone();
    wrong[10] ^= 8;
    assert_eq!(Pulsar.detect(&probe(&wrong, b"")), Detect::No);
    for n in 1..connect.len() {
        assert_eq!(Pulsar.detect(&probe(&connect[..n], b"")), Detect::Maybe, "{n}");
    }
}

fn conversation() -> Vec<Turn> {
    vec![
        c([command(2, fields().bytes(1, "client").int(4, 19)), producer(), subscribe()].concat()),
        s([
            command(3, fields().bytes(1, "broker")),
            command(17, fields().int(1, 11)),
            command(13, fields().int(1, 12)),
        ]
        .concat()),
        c([send(0), send(1), command(11, fields().int(1, 6).int(2, 9))].concat()),
        s([receipt(0), message(), message(), receipt(1)].concat()),
        c([command(18, fields()), command(15, fields().int(1, 4).int(2, 13))].concat()),
        s([command(19, fields()), command(13, fields().int(1, 13))].concat()),
    ]
}

proptest! {
    #[test]
    fn chunking_does_not_matter(cuts in prop::collection::vec(1usize..80, 1..20)) {
        let whole = conversation();
        prop_assert_eq!(tcp(&Pulsar, &whole), tcp(&Pulsar, &cut(&whole, &cuts)));
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
        tcp_to_the_end(&Pulsar, &pieces);
    }
}
