#![allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::cast_possible_truncation
)]

use super::Kafka;
use crate::testing::{c, cut, probe, s, tcp, tcp_to_the_end, Turn};
use crate::{Detect, Probe, Protocol};
use proptest::prelude::*;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const SECRET: &str = "geheim";

/// Bytes written one after the other.
#[derive(Clone, Default)]
pub(super) struct W(pub(super) Vec<u8>);

impl W {
    pub(super) fn i8(mut self, n: i8) -> W {
        self.0.push(n as u8);
        self
    }
    pub(super) fn i16(mut self, n: i16) -> W {
        self.0.extend(n.to_be_bytes());
        self
    }
    pub(super) fn i32(mut self, n: i32) -> W {
        self.0.extend(n.to_be_bytes());
        self
    }
    pub(super) fn i64(mut self, n: i64) -> W {
        self.0.extend(n.to_be_bytes());
        self
    }
    pub(super) fn raw(mut self, bytes: impl AsRef<[u8]>) -> W {
        self.0.extend(bytes.as_ref());
        self
    }
    pub(super) fn str(self, text: &str) -> W {
        self.i16(text.len() as i16).raw(text)
    }
    /// Unsigned varint.
    pub(super) fn uv(mut self, mut n: u32) -> W {
        while n >= 128 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.i8(n as i8)
    }
    /// Compact string.
    pub(super) fn cstr(self, text: &str) -> W {
        self.uv(text.len() as u32 + 1).raw(text)
    }
    /// Zigzag varint.
    fn zz(self, n: i32) -> W {
        self.uv(((n << 1) ^ (n >> 31)) as u32)
    }
    /// With a length before it.
    pub(super) fn framed(self) -> Vec<u8> {
        W::default().i32(self.0.len() as i32).raw(self.0).0
    }
}

pub(super) fn w() -> W {
    W::default()
}

/// A request; `flexible` ones have tagged fields behind the client id.
pub(super) fn ask(key: i16, version: i16, id: i32, flexible: bool, body: W) -> Vec<u8> {
    let head = w().i16(key).i16(version).i32(id).str("shop");
    let head = if flexible { head.i8(0) } else { head };
    head.raw(body.0).framed()
}

pub(super) fn answer(id: i32, flexible: bool, body: W) -> Vec<u8> {
    let head = w().i32(id);
    let head = if flexible { head.i8(0) } else { head };
    head.raw(body.0).framed()
}

/// A record with a key, a value and headers.
fn record(headers: &[(&str, &str)]) -> W {
    let mut body = w().i8(0).zz(0).zz(0).zz(3).raw("key").zz(SECRET.len() as i32).raw(SECRET).zz(headers.len() as i32);
    for (name, value) in headers {
        body = body.zz(name.len() as i32).raw(name).zz(value.len() as i32).raw(value);
    }
    w().zz(body.0.len() as i32).raw(body.0)
}

/// A batch of records; `attributes` has the codec.
pub(super) fn batch(base: i64, attributes: i16, records: &[W]) -> W {
    let n = records.len() as i32;
    let inner = w().i32(0).i8(2).i32(0x1234).i16(attributes).i32(n - 1).i64(1).i64(1).i64(-1).i16(-1).i32(-1).i32(n);
    let inner = records.iter().fold(inner, |w, r| w.raw(&r.0));
    w().i64(base).i32(inner.0.len() as i32).raw(inner.0)
}

fn plain_batch(base: i64, n: usize) -> W {
    batch(base, 0, &vec![record(&[("secret-header", SECRET), ("traceparent", PARENT)]); n])
}

pub(super) fn produce9(id: i32, acks: i16, partitions: &[(i32, W)]) -> Vec<u8> {
    let body = w().uv(0).i16(acks).i32(30_000).uv(2).cstr("orders").uv(partitions.len() as u32 + 1);
    let body = partitions
        .iter()
        .fold(body, |b, (index, batch)| b.i32(*index).uv(batch.0.len() as u32 + 1).raw(&batch.0).i8(0));
    ask(0, 9, id, true, body.i8(0).i8(0))
}

fn produced9(id: i32, partitions: &[(i32, i16, i64)]) -> Vec<u8> {
    let body = w().uv(2).cstr("orders").uv(partitions.len() as u32 + 1);
    let body = partitions.iter().fold(body, |b, (index, error, base)| {
        let b = b.i32(*index).i16(*error).i64(*base).i64(-1).i64(0).uv(1);
        b.cstr(SECRET).i8(0)
    });
    answer(id, true, body.i8(0).i32(0).i8(0))
}

/// Fetch version 13 or 17: topics by id.
fn fetch13(id: i32, topic: [u8; 16], offset: i64) -> Vec<u8> {
    let body = w().i32(-1).i32(500).i32(1).i32(1 << 20).i8(0).i32(0).i32(0).uv(2).raw(topic).uv(2);
    let body = body.i32(1).i32(-1).i64(offset).i32(-1).i64(-1).i32(1 << 20).i8(0).i8(0).uv(1).cstr("").i8(0);
    ask(1, 13, id, true, body)
}

fn fetched13(id: i32, topic: [u8; 16], error: i16, records: &W, extra: u32) -> Vec<u8> {
    let body = w().i32(0).i16(0).i32(7).uv(2).raw(topic).uv(2).i32(1).i16(error).i64(99).i64(99).i64(0).uv(0).i32(-1);
    let body = body.uv(records.0.len() as u32 + extra + 1).raw(&records.0);
    if extra > 0 {
        // The rest is not captured: its length counts.
        let bytes = w().i32(id).i8(0).raw(body.0).0;
        return w().i32((bytes.len() + extra as usize + 3) as i32).raw(bytes).0;
    }
    answer(id, true, body.i8(0).i8(0).i8(0))
}

fn metadata12(id: i32, topic: [u8; 16], name: &str) -> Vec<u8> {
    let body = w().i32(0).uv(2).i32(1).cstr("broker").i32(9092).uv(0).i8(0).cstr("cluster").i32(1).uv(2);
    let body = body.i16(0).cstr(name).raw(topic).i8(0).uv(2).i16(0).i32(0).i32(1).i32(0);
    let body = body.uv(2).i32(1).uv(2).i32(1).uv(1).i8(0).i32(0).i8(0).i8(0);
    answer(id, true, body)
}

fn api_versions(id: i32) -> Vec<u8> {
    ask(18, 3, id, true, w().cstr("my-client").cstr("1.0").i8(0))
}

/// What the parser says, without what every request has.
fn say(turns: &[Turn]) -> Vec<String> {
    let plain = |l: String| {
        l.replace(" messaging.system.name=kafka", "")
            .replace(" messaging.client.id=shop", "")
            .split(' ')
            .filter(|w| !w.starts_with("messaging.operation.") && !w.starts_with("wirespan.kafka.api_version"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    tcp(&Kafka, turns).into_iter().map(plain).collect()
}

#[test]
fn a_produce_and_its_offset() {
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
fn fetch_by_topic_id_with_offsets_and_links() {
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
fn what_a_session_asks_for_is_known_to_fetches_that_do_not_repeat_it() {
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
fn groups_and_commits() {
    let commit = w().cstr("g1").i32(3).cstr("me").uv(0).uv(2).cstr("orders").uv(2).i32(2).i64(1300).i32(-1);
    let commit = ask(8, 8, 1, true, commit.cstr(SECRET).i8(0).i8(0).i8(0));
    let committed = answer(1, true, w().i32(0).uv(2).cstr("orders").uv(2).i32(2).i16(25).i8(0).i8(0).i8(0));
    let said = say(&[c(commit), s(committed)]);
    for part in ["OffsetCommit orders", "group.name=g1", "partition.id=2", "committed_offset=1300"] {
        assert!(said[0].contains(part), "{part}: {}", said[0]);
    }
    assert!(said[1].contains("status=25 ClientError error=\"UNKNOWN_MEMBER_ID\""), "{}", said[1]);
    assert!(!said.concat().contains(SECRET));
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
fn the_middle_of_a_connection() {
    let id = *b"joined in middle";
    let said = say(&[
        s("rest of a response that was sent before"),
        c("the rest of a request"),
        s(answer(8, true, w().i32(0))),
        c(fetch13(9, id, 1)),
        s(fetched13(9, id, 0, &plain_batch(1, 1), 0)),
    ]);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("id=9 Fetch") && said[1].contains("kafka.offset=1"), "{said:?}");
    // The answer to an older request comes with the first one that we know.
    let both = [answer(8, true, w().i32(0)), fetched13(9, id, 0, &plain_batch(1, 1), 0)].concat();
    let said = say(&[c(fetch13(9, id, 1)), s(both)]);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[1].contains("id=9") && said[1].contains("kafka.offset=1"), "{said:?}");
}

#[test]
fn gaps_are_skipped_exactly_or_counted() {
    let big = produce9(1, 1, &[(0, plain_batch(0, 40))]);
    let (head, tail) = big.split_at(330);
    let next = produce9(2, 1, &[(0, plain_batch(0, 1))]);
    let said = say(&[(c("").0, head.to_vec(), tail.len() as u64), c(&next)]);
    assert!(said[0].contains(&format!("@0+330 body={} id=1 Produce orders", tail.len())), "{}", said[0]);
    assert!(said[0].contains("trace_id") && said[1].contains("id=2"), "{said:?}");
    // The header of the only batch tells how many there are.
    assert!(said[0].contains("messaging.batch.message_count=40"), "{}", said[0]);
    // Beyond the end of the message.
    let said = say(&[(c("").0, head.to_vec(), tail.len() as u64 + 5), c("xx"), c(&next)]);
    assert_eq!(said[1], "Malformed Client kafka_gap");
    assert!(said[2].contains("id=2") && said.len() == 3, "{said:?}");
    assert_eq!(say(&[c(&next), c("nonsense ")])[1], "Malformed Client kafka_bad_frame");
    // The end of the connection.
    let said = tcp_to_the_end(&Kafka, &[c(head)]);
    assert!(said[0].contains("id=1 Produce orders"), "{said:?}");
}

#[test]
fn detection() {
    let yes = |first_is_client| Detect::Yes { first_is_client };
    let ask = api_versions(1);
    let reply = answer(1, false, w().i16(0).uv(1).i32(0).i8(0));
    assert_eq!(Kafka.detect(&probe(&ask, b"")), yes(true));
    assert_eq!(Kafka.detect(&probe(&ask, &reply)), yes(true));
    assert_eq!(Kafka.detect(&probe(&reply, &ask)), yes(false));
    for n in 1..ask.len() {
        assert_eq!(Kafka.detect(&probe(&ask[..n], b"")), Detect::Maybe, "{n}");
    }
    // Of a request that is longer than what was captured, the response has to say the same.
    let big = produce9(77, 1, &[(0, plain_batch(0, 40))]);
    assert_eq!(Kafka.detect(&probe(&big[..300], b"")), Detect::Maybe);
    assert_eq!(Kafka.detect(&probe(&big[..300], &produced9(77, &[(0, 0, 5)]))), yes(true));
    assert_eq!(Kafka.detect(&probe(&big[..300], &produced9(76, &[(0, 0, 5)]))), yes(true));
    assert_eq!(Kafka.detect(&probe(&big[..300], &produced9(78, &[(0, 0, 5)]))), Detect::No);
    // Joined while a fetch was waiting.
    assert_eq!(Kafka.detect(&probe(&produced9(76, &[(0, 0, 5)]), &big[..300])), yes(false));
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
#[test]
fn offsets_behind_records_that_were_not_captured() {
    let topic = *b"behind cut bytes";
    let part = |index: i32, records: &W| {
        let head = w().i32(index).i16(0).i64(99).i64(99).i64(0).uv(0).i32(-1).uv(records.0.len() as u32 + 1);
        head.raw(&records.0).i8(0)
    };
    let two = W([plain_batch(5, 30).0, plain_batch(35, 4).0].concat());
    let (first, second) = (part(0, &two), part(1, &plain_batch(70, 2)));
    let body = w().i32(0).i16(0).i32(7).uv(2).raw(topic).uv(3).raw(&first.0).raw(&second.0).i8(0).i8(0);
    let whole = answer(1, true, body);
    let asks = c(fetch13(1, topic, 5));
    let said = |pieces: &[(usize, usize)]| {
        let mut turns = vec![asks.clone()];
        let mut end = 0;
        for (from, to) in pieces.iter().copied().chain([(whole.len(), whole.len())]) {
            if let Some(last) = turns.last_mut().filter(|_| end > 0) {
                last.2 = (from - end) as u64;
            }
            turns.push(s(&whole[from..to]));
            end = to;
        }
        tcp(&Kafka, &turns)[1].clone()
    };
    let all = said(&[(0, whole.len())]);
    assert!(
        all.contains(":5-38") && all.contains(":70-71") && all.contains("messaging.batch.message_count=36"),
        "{all}"
    );
    // Where the second batch begins, and where the second partition does.
    let at = |bytes: &[u8]| whole.windows(bytes.len()).position(|w| w == bytes).expect("it is there");
    let (batch, partition) = (at(&plain_batch(35, 4).0[..12]), at(&second.0[..26]));
    let all_but_context = |said: &str| said.split(" traceparent").next().map(str::to_owned);
    let first = at(&two.0[..12]);
    for (cut, on) in [(first + 80, batch), (first + 80, batch - 10), (first + 90, first + 200)] {
        let said = said(&[(0, cut), (on, whole.len())]);
        assert_eq!(all_but_context(&said), all_but_context(&all), "{cut}-{on}");
    }
    // The records of the first partition end in what is missing: their last offset is not known, the others are.
    let part = said(&[(0, batch + 70), (partition - 5, whole.len())]);
    assert!(part.contains(":5-38") && part.contains(":70-71"), "{part}");
    let part = said(&[(0, first + 80), (partition - 1, whole.len())]);
    assert!(part.contains(":70-71") && !part.contains("-38") && !part.contains("message_count"), "{part}");
    // None of them was captured.
    let none = said(&[(0, first), (partition - 1, whole.len())]);
    assert!(none.contains(":70-71") && !none.contains("message_count"), "{none}");
    // What is missing ends inside the second partition's head: nothing is made up.
    let lost = said(&[(0, first + 80), (partition + 6, whole.len())]);
    assert!(!lost.contains(":70") && !lost.contains("71"), "{lost}");
}

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
