#![allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::cast_possible_truncation
)]

mod bytes;
mod gaps;

use super::Kafka;
use crate::testing::{c, cut, probe, s, tcp, tcp_to_the_end, Turn};
use crate::{Detect, Probe, Protocol};
use bytes::{
    answer, api_versions, ask, batch, fetch13, fetched13, metadata12, plain_batch, produce9, produced9, say, w, SECRET,
};
use proptest::prelude::*;

#[test]
fn a_produce_links_its_offset() {
    let said = say(&[c(produce9(7, -1, &[(3, plain_batch(0, 2))])), s(produced9(7, &[(3, 0, 1200)]))]);
    assert!(said[0].starts_with("C req @0+"), "{said:?}");
    for part in [
        "id=7 Produce orders",
        "wirespan.kafka.acks=-1",
        "messaging.destination.name=orders messaging.destination.partition.id=3",
        "messaging.batch.message_count=2",
        "trace_id: Some([10, 247, 101",
    ] {
        assert!(said[0].contains(part), "{part}: {}", said[0]);
    }
    assert_eq!(
        said[1],
        "S resp @0+63 id=7 status=0 Ok messaging.destination.name=orders messaging.destination.partition.id=3 \
         kafka.offset=1200 wirespan.kafka.last_offset=1201"
    );
    assert!(!said.concat().contains(SECRET));
}

#[test]
fn several_partitions_are_listed() {
    let asks = produce9(7, 1, &[(0, plain_batch(0, 1)), (1, plain_batch(0, 3))]);
    let said = say(&[c(asks), s(produced9(7, &[(1, 0, 40), (0, 0, 5)]))]);
    assert!(said[0].contains("messaging.batch.message_count=4"), "{}", said[0]);
    assert!(said[1].contains("wirespan.kafka.partitions=orders/1:40-42 orders/0:5-5"), "{}", said[1]);
}

#[test]
fn a_produce_without_acks_is_one_way() {
    let said = say(&[c(produce9(7, 0, &[(0, plain_batch(0, 1))])), c(produce9(8, 1, &[(0, plain_batch(0, 1))]))]);
    assert!(said[0].starts_with("C oneway") && said[1].starts_with("C req"), "{said:?}");
}

#[test]
fn a_batch_that_nobody_confirms_has_the_same_name_at_its_consumer() {
    let name = |said: &str| {
        let list = said.split("wirespan.kafka.batches=").nth(1).unwrap().split(' ').next().unwrap();
        list.split(['=', ',']).map(str::to_owned).collect::<Vec<_>>()
    };
    let sent = say(&[c(produce9(7, 0, &[(0, plain_batch(0, 2))]))]).pop().unwrap();
    let topic = [7; 16];
    let both = w().raw(plain_batch(40, 2).0).raw(plain_batch(42, 3).0);
    let got = say(&[c(fetch13(9, topic, 40)), s(fetched13(9, topic, 0, &both, 0))]).pop().unwrap();
    let (sent, got) = (name(&sent), name(&got));
    assert_eq!((sent[0].as_str(), sent.len()), ("orders/0:0-1", 2));
    assert!(got[0].ends_with("/1:40-41") && got[2] == "42-44", "{got:?}");
    assert_eq!(sent[1], got[1]);
    assert_ne!(sent[1], got[3]);
    let confirmed = say(&[c(produce9(7, 1, &[(0, plain_batch(0, 2))]))]).pop().unwrap();
    assert!(!confirmed.contains("batches"), "{confirmed}");
}

#[test]
fn errors_have_names() {
    let reply = |code: i16| say(&[c(produce9(7, 1, &[(0, w())])), s(produced9(7, &[(0, code, -1)]))]).pop().unwrap();
    let wrong = reply(10);
    assert!(wrong.contains("status=10 ClientError error=\"MESSAGE_TOO_LARGE\""), "{wrong}");
    assert!(wrong.contains("error.type=MESSAGE_TOO_LARGE") && !wrong.contains("kafka.offset"), "{wrong}");
    assert!(reply(19).contains("ServerError error=\"NOT_ENOUGH_REPLICAS\""));
    assert!(reply(-1).contains("status=-1 ServerError error=\"UNKNOWN_SERVER_ERROR\""));
    assert!(reply(30_000).contains("ServerError error=\"_OTHER\""));
    // The second partition failed.
    let said = say(&[c(produce9(7, 1, &[(0, w()), (1, w())])), s(produced9(7, &[(0, 0, 5), (1, 6, -1)]))]);
    assert!(said[1].contains("status=6 ClientError error=\"NOT_LEADER_OR_FOLLOWER\""), "{}", said[1]);
    // To be asked to join again is no fault.
    let beat = ask(12, 4, 9, true, w().cstr("group").i32(1).cstr("me").uv(0).i8(0));
    let said = say(&[c(beat), s(answer(9, true, w().i32(0).i16(27).i8(0)))]);
    assert!(said[1].contains("status=27 Ok") && said[1].contains("signal=REBALANCE_IN_PROGRESS"), "{}", said[1]);
    assert!(said[0].contains("Heartbeat group messaging.consumer.group.name=group"), "{}", said[0]);
}

#[test]
fn a_fetch_by_topic_id_links_its_offsets() {
    let id = *b"fetch by topic i";
    let turns = [
        c(fetch13(1, id, 50)),
        s(fetched13(1, id, 0, &plain_batch(48, 4), 0)),
        c(ask(3, 12, 2, true, w().uv(0).i8(1).i8(0).i8(0))),
        s(metadata12(2, id, "named")),
        c(fetch13(3, id, 52)),
        s(fetched13(3, id, 0, &w().raw(plain_batch(52, 1).0).raw(plain_batch(53, 2).0), 0)),
    ];
    let said = say(&turns);
    assert!(said[0].contains("wirespan.kafka.topic_id=ZmV0Y2ggYnkgdG9waWMgaQ"), "{}", said[0]);
    assert!(said[0].contains("wirespan.kafka.max_wait_ms=500") && said[0].contains("fetch_offset=50"), "{}", said[0]);
    assert!(said[1].contains("kafka.offset=48 wirespan.kafka.last_offset=51"), "{}", said[1]);
    assert!(said[1].contains("wirespan.link.trace_id=0af7651916cd43dd8448eb211c80319c"), "{}", said[1]);
    assert!(said[4].contains("Fetch named messaging") || said[4].contains("Fetch named wirespan"), "{}", said[4]);
    assert!(said[5].contains("messaging.destination.name=named"), "{}", said[5]);
    assert!(
        said[5].contains(
            "offset=52 wirespan.kafka.last_offset=54 wirespan.kafka.high_watermark=99 messaging.batch.message_count=3"
        ),
        "{}",
        said[5]
    );
    assert!(!said.concat().contains(SECRET));
}

#[test]
fn a_fetch_that_names_nothing_is_about_its_session() {
    let fetch = |id: i32, epoch: i32, topics: &[&str], forgotten: &[&str]| {
        let body = w().i32(-1).i32(500).i32(1).i32(1 << 20).i8(0).i32(7).i32(epoch).uv(topics.len() as u32 + 1);
        let body = topics
            .iter()
            .fold(body, |b, name| b.cstr(name).uv(2).i32(1).i32(-1).i64(5).i32(-1).i64(-1).i32(1 << 20).i8(0).i8(0));
        let body = forgotten.iter().fold(body.uv(forgotten.len() as u32 + 1), |b, name| b.cstr(name).uv(1).i8(0));
        c(ask(1, 12, id, true, body.cstr("").i8(0)))
    };
    let targets = |turns: &[Turn]| -> Vec<bool> { say(turns).iter().map(|l| l.contains("Fetch orders")).collect() };
    let one =
        [fetch(1, 0, &["orders"], &[]), fetch(2, 1, &[], &[]), fetch(3, 2, &["orders"], &[]), fetch(4, 3, &[], &[])];
    assert_eq!(targets(&one), [true, true, true, true]);
    let two = [fetch(1, 0, &["orders"], &[]), fetch(2, 1, &["other"], &[]), fetch(3, 2, &[], &[])];
    assert_eq!(targets(&two), [true, false, false]);
    let left = [fetch(1, 0, &["orders"], &[]), fetch(2, 1, &[], &["orders"]), fetch(3, 2, &[], &[])];
    assert_eq!(targets(&left), [true, false, false]);
    let joined = [fetch(7, 6, &["orders"], &[]), fetch(8, 7, &[], &[])];
    assert_eq!(targets(&joined), [true, false]);
}

#[test]
fn a_fetch_not_captured_whole_counts_nothing_and_brought_what_there_was() {
    let id = *b"fetch not whole.";
    let records = plain_batch(10, 2);
    let said_of = |missing: u32| {
        let response = (s("").0, fetched13(1, id, 0, &records, missing), u64::from(missing) + 3);
        say(&[c(fetch13(1, id, 10)), response, c(fetch13(2, id, 12)), s(fetched13(2, id, 0, &w(), 0))])
    };
    let as_much_as_asked = said_of((1 << 20) - records.0.len() as u32);
    assert!(as_much_as_asked[1].contains("kafka.offset=10"), "{}", as_much_as_asked[1]);
    assert!(!as_much_as_asked[1].contains("last_offset"), "there may be more: {}", as_much_as_asked[1]);
    let said = said_of(1_000_000);
    assert!(said[1].contains("body=1000003 id=1 status=0 Ok"), "{}", said[1]);
    assert!(said[1].contains("kafka.offset=10 wirespan.kafka.last_offset=98"), "{}", said[1]);
    assert!(!said[1].contains("message_count"), "{}", said[1]);
    assert!(said[3].contains("id=2") && said[3].contains("message_count=0"), "{}", said[3]);
    assert!(!said[3].contains("kafka.offset"), "{}", said[3]);
    // A broker sends records from a file: none of their bytes is seen.
    let whole = fetched13(3, id, 0, &records, 0);
    let head = whole.len() - records.0.len() - 3;
    let tail = whole.len() - head;
    let said = say(&[c(fetch13(3, id, 11)), (s("").0, whole[..head].to_vec(), tail as u64)]);
    assert!(
        said[1].contains("kafka.offset=11 wirespan.kafka.last_offset=98 wirespan.kafka.high_watermark=99"),
        "{}",
        said[1]
    );
}

#[test]
fn topics_of_a_session_are_known_to_fetches_that_do_not_repeat_them() {
    let topic = *b"asked for before";
    let again =
        c(ask(1, 13, 2, true, w().i32(-1).i32(500).i32(1).i32(1 << 20).i8(0).i32(7).i32(1).uv(1).uv(1).cstr("").i8(0)));
    let records = plain_batch(10, 2);
    let whole = fetched13(2, topic, 0, &records, 0);
    let head = whole.len() - records.0.len() - 3;
    let sent = (s("").0, whole[..head].to_vec(), (whole.len() - head) as u64);
    let said = say(&[c(fetch13(1, topic, 10)), s(fetched13(1, topic, 0, &w(), 0)), again, sent]);
    assert!(said[3].contains("kafka.offset=10 wirespan.kafka.last_offset=98"), "{}", said[3]);
}

#[test]
fn compressed_batches_say_so() {
    for (attributes, codec) in [(1, "gzip"), (2, "snappy"), (3, "lz4"), (4, "zstd")] {
        let said = say(&[c(produce9(7, 1, &[(0, batch(0, attributes, &[w().raw(SECRET), w()]))]))]);
        assert!(said[0].contains(&format!("wirespan.kafka.compression={codec}")), "{}", said[0]);
        assert!(said[0].contains("message_count=2") && !said[0].contains("trace_id"), "{}", said[0]);
    }
}

#[test]
fn old_message_sets_are_walked() {
    let message = |offset: i64, magic: i8| {
        let body = w().i32(1).i8(magic).i8(0).raw(if magic == 1 { vec![0; 8] } else { vec![] });
        let body = body.i32(-1).i32(6).raw(SECRET);
        w().i64(offset).i32(body.0.len() as i32).raw(body.0)
    };
    let set = w().raw(message(0, 1).0).raw(message(1, 0).0);
    let body = w().i16(1).i32(1000).i32(1).str("old").i32(1).i32(4).i32(set.0.len() as i32).raw(set.0);
    let reply = w().i32(1).str("old").i32(1).i32(4).i16(0).i64(77).i64(-1).i32(0);
    let said = say(&[c(ask(0, 2, 5, false, body)), s(answer(5, false, reply))]);
    assert!(said[0].contains("Produce old") && said[0].contains("message_count=2"), "{}", said[0]);
    assert!(said[1].contains("kafka.offset=77 wirespan.kafka.last_offset=78"), "{}", said[1]);
}

#[test]
fn groups_and_commits_are_named() {
    let commit = w().cstr("g1").i32(3).cstr("me").uv(0).uv(2).cstr("orders").uv(2).i32(2).i64(1300).i32(-1);
    let commit = ask(8, 8, 1, true, commit.cstr(SECRET).i8(0).i8(0).i8(0));
    let committed = answer(1, true, w().i32(0).uv(2).cstr("orders").uv(2).i32(2).i16(25).i8(0).i8(0).i8(0));
    let said = say(&[c(commit), s(committed)]);
    for part in ["OffsetCommit orders", "group.name=g1", "partition.id=2", "committed_offset=1300"] {
        assert!(said[0].contains(part), "{part}: {}", said[0]);
    }
    assert!(said[1].contains("status=25 ClientError error=\"UNKNOWN_MEMBER_ID\""), "{}", said[1]);
    assert!(!said.concat().contains(SECRET));
    let part = |w: bytes::W, index: i32, offset: i64| w.i32(index).i64(offset).i32(-1).uv(0).i8(0);
    let orders = part(part(w().cstr("orders").uv(3), 0, 7), 1, 9).i8(0);
    let bills = part(w().cstr("bills").uv(2), 0, 11).i8(0);
    let all = w().cstr("g1").i32(3).cstr("me").uv(0).uv(3).raw(orders.0).raw(bills.0).i8(0);
    let said = say(&[c(ask(8, 8, 2, true, all))]);
    assert!(said[0].contains("wirespan.kafka.partitions=orders/0:7- orders/1:9- bills/0:11-"), "{}", said[0]);
    let find = say(&[c(ask(10, 4, 2, true, w().i8(0).uv(2).cstr("g2").i8(0)))]);
    assert!(find[0].contains("FindCoordinator g2"), "{find:?}");
}

#[test]
fn sasl_keeps_nothing() {
    let token = |text: &str| w().raw(text).framed();
    let said = say(&[
        c(ask(17, 0, 1, false, w().str("PLAIN"))),
        s(answer(1, false, w().i16(0).i32(1).str("PLAIN"))),
        c(token("\0user\0geheim")),
        s(token("")),
        c(api_versions(2)),
        s(answer(2, false, w().i16(0).uv(1).i32(0).i8(0))),
        c(ask(36, 2, 3, true, w().uv(12).raw("\0user\0geheim").i8(0))),
        s(answer(3, true, w().i16(58).cstr("geheim").uv(1).i64(0).i8(0))),
    ]);
    let words = ["SaslHandshake", "Ok", "ApiVersions", "Ok", "SaslAuthenticate", "SASL_AUTHENTICATION_FAILED"];
    assert!(said.len() == 6 && said.iter().zip(words).all(|(l, word)| l.contains(word)), "{said:?}");
    let all = said.concat();
    assert!(!all.contains(SECRET) && !all.contains("user") && !all.contains("PLAIN"), "{all}");
}

#[test]
fn newer_versions_and_keys_have_their_header_only() {
    let said = say(&[c(ask(0, 15, 1, true, w().raw("???"))), s(answer(1, true, w().raw("???")))]);
    assert!(said[0].contains("id=1 Produce") && said[1] == "S resp @0+12 id=1", "{said:?}");
    let said = say(&[c(api_versions(1)), c(ask(120, 0, 2, false, w()))]);
    assert!(said[1].contains("id=2 _OTHER wirespan.kafka.api_key=120"), "{said:?}");
}

#[test]
fn connections_are_recognised_and_others_are_not() {
    let yes = |first_is_client| Detect::Yes { first_is_client };
    let ask = api_versions(1);
    let reply = answer(1, false, w().i16(0).uv(1).i32(0).i8(0));
    assert_eq!(Kafka.detect(&probe(&ask, b"")), yes(true));
    assert_eq!(Kafka.detect(&probe(&ask, &reply)), yes(true));
    assert_eq!(Kafka.detect(&probe(&reply, &ask)), yes(false));
    for n in 1..ask.len() {
        assert_eq!(Kafka.detect(&probe(&ask[..n], b"")), Detect::Maybe, "{n}");
    }
    // If a request is longer than its captured part, the response must confirm the protocol.
    let big = produce9(77, 1, &[(0, plain_batch(0, 40))]);
    assert_eq!(Kafka.detect(&probe(&big[..300], b"")), Detect::Maybe);
    assert_eq!(Kafka.detect(&probe(&big[..300], &produced9(77, &[(0, 0, 5)]))), yes(true));
    assert_eq!(Kafka.detect(&probe(&big[..300], &produced9(76, &[(0, 0, 5)]))), yes(true));
    assert_eq!(Kafka.detect(&probe(&big[..300], &produced9(78, &[(0, 0, 5)]))), Detect::No);
    // Joined while a fetch was waiting.
    assert_eq!(Kafka.detect(&probe(&produced9(76, &[(0, 0, 5)]), &big[..300])), yes(false));
    // Joined in the middle of a response.
    assert_eq!(Kafka.detect(&probe(b"records that began before", &ask)), yes(false));
    assert_eq!(Kafka.detect(&probe(b"records that began before", &big[..300])), Detect::No);
    // The capture source knows better.
    let known = Probe { first_is_client: Some(false), ..probe(&ask, b"") };
    assert_ne!(Kafka.detect(&known), yes(true));
    // ZooKeeper begins with zeros and a length too.
    let zookeeper = w().i32(0).i64(0).i32(30_000).i64(0).i32(16).raw([0; 16]).i8(0).framed();
    let zookeeper_reply = w().i32(0).i32(30_000).i64(1).i32(16).raw([1; 16]).i8(0).framed();
    assert_eq!(Kafka.detect(&probe(&zookeeper, &zookeeper_reply)), Detect::No);
}

#[test]
fn java_may_send_a_later_number_first() {
    let find = ask(10, 4, 0, true, w().i8(0).uv(2).cstr("g2").i8(0));
    let metadata = ask(3, 12, 2, true, w().uv(0).i8(1).i8(0).i8(0));
    let both = [metadata.clone(), find].concat();
    assert_eq!(Kafka.detect(&probe(&both, b"")), Detect::Yes { first_is_client: true });
    let replies = [metadata12(2, *b"a later number f", "x"), answer(0, true, w().i32(0).uv(1).i8(0))].concat();
    assert_eq!(Kafka.detect(&probe(&both, &replies)), Detect::Yes { first_is_client: true });
}

/// The broker sends records with `sendfile`, or of each call the beginning only is seen: what stands behind them is
/// read all the same.
fn conversation() -> Vec<Turn> {
    let id = *b"kafka conversati";
    vec![
        c(api_versions(1)),
        s(answer(1, false, w().i16(0).uv(1).i32(0).i8(0))),
        c([produce9(2, -1, &[(0, plain_batch(0, 3)), (1, batch(0, 4, &[w()]))]), produce9(3, 0, &[(0, w())])].concat()),
        c(fetch13(4, id, 5)),
        s([produced9(2, &[(0, 0, 5), (1, 6, -1)]), fetched13(4, id, 0, &plain_batch(5, 30), 0)].concat()),
        c(ask(12, 4, 5, true, w().cstr("group").i32(1).cstr("me").uv(0).i8(0))),
        s(answer(5, true, w().i32(0).i16(27).i8(0))),
        c(ask(3, 12, 6, true, w().uv(0).i8(1).i8(0).i8(0))),
        s(metadata12(6, *b"another topic id", "other")),
    ]
}

proptest! {
    #[test]
    fn chunking_does_not_matter(cuts in prop::collection::vec(1usize..80, 1..20)) {
        let whole = conversation();
        prop_assert_eq!(tcp(&Kafka, &whole), tcp(&Kafka, &cut(&whole, &cuts)));
    }

    #[test]
    fn flips_cuts_and_gaps_never_panic(
        flips in prop::collection::vec((0usize..20_000, any::<u8>()), 0..8),
        cuts in prop::collection::vec(1usize..300, 1..20),
        gaps in prop::collection::vec(prop_oneof![3 => Just(0u64), 1 => 1u64..100, 1 => Just(u64::MAX)], 1..20),
    ) {
        let mut turns = conversation();
        // Flipped lengths may make one field of another: what stands there then is a name like any other.
        let intact = flips.is_empty();
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
        for said in tcp_to_the_end(&Kafka, &pieces) {
            prop_assert!(!intact || !said.contains("secret-header") && !said.contains(SECRET), "{}", said);
        }
    }
}
