#![allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::cast_possible_truncation
)]

use super::RocketMq;
use crate::testing::{c, cut, probe, s, tcp, tcp_to_the_end, Turn};
use crate::{Detect, Probe, Protocol};
use proptest::prelude::*;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn frame(form: u8, head: &[u8], body: &[u8]) -> Vec<u8> {
    let mut bytes = ((head.len() + body.len() + 4) as u32).to_be_bytes().to_vec();
    let word = u32::from(form) << 24 | head.len() as u32;
    bytes.extend(word.to_be_bytes());
    bytes.extend(head);
    bytes.extend(body);
    bytes
}

fn json(code: i32, flag: i32, opaque: i32, fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "{{\"code\":{code},\"extFields\":{{{fields}}},\"flag\":{flag},\"language\":\"JAVA\",\"opaque\":{opaque},\
         \"remark\":\"geheim\",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":401}}"
    );
    frame(0, head.as_bytes(), body)
}

fn send(opaque: i32) -> Vec<u8> {
    let fields = format!(
        "\"a\":\"makers\",\"b\":\"orders\",\"c\":\"TBW102\",\"e\":\"3\",\"AccessKey\":\"geheim\",\
         \"i\":\"KEYS\\u0001geheim\\u0002traceparent\\u0001{PARENT}\\u0002UNIQ_KEY\\u00017F00AB\\u0002TAGS\\u0001TagA\
         \\u0002\""
    );
    json(310, 0, opaque, &fields, b"geheim \\u0001 body")
}

fn sent(opaque: i32) -> Vec<u8> {
    json(0, 1, opaque, "\"queueId\":\"3\",\"msgId\":\"0A60FF\",\"queueOffset\":\"27\"", b"")
}

fn binary(code: i16, flag: i32, opaque: i32, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut ext = Vec::new();
    for (name, value) in fields {
        ext.extend((name.len() as u16).to_be_bytes());
        ext.extend(name.as_bytes());
        ext.extend((value.len() as u32).to_be_bytes());
        ext.extend(value.as_bytes());
    }
    let mut head = code.to_be_bytes().to_vec();
    head.extend([0, 1, 0x91]);
    head.extend(opaque.to_be_bytes());
    head.extend(flag.to_be_bytes());
    head.extend(6u32.to_be_bytes());
    head.extend(b"geheim");
    head.extend((ext.len() as u32).to_be_bytes());
    head.extend(ext);
    frame(1, &head, body)
}

fn stored(queue: i32, offset: i64, properties: &str) -> Vec<u8> {
    let mut m = 0xdaa3_20a7u32.to_be_bytes().to_vec();
    m.extend([0; 4]);
    m.extend(queue.to_be_bytes());
    m.extend([0; 4]);
    m.extend(offset.to_be_bytes());
    m.extend([0; 8 + 4 + 8 + 8 + 8 + 8 + 4 + 8]);
    m.extend(6u32.to_be_bytes());
    m.extend(b"geheim");
    m.push(6);
    m.extend(b"orders");
    m.extend((properties.len() as u16).to_be_bytes());
    m.extend(properties.as_bytes());
    let mut bytes = ((m.len() + 4) as u32).to_be_bytes().to_vec();
    bytes.extend(m);
    bytes
}

fn pull(opaque: i32) -> Vec<u8> {
    json(
        11,
        0,
        opaque,
        "\"topic\":\"orders\",\"consumerGroup\":\"eaters\",\"queueId\":\"2\",\"queueOffset\":\"30\"",
        b"",
    )
}

fn pulled(opaque: i32, messages: usize) -> Vec<u8> {
    let properties = format!("UNIQ_KEY\u{1}7F00AB\u{2}secret\u{1}geheim\u{2}traceparent\u{1}{PARENT}");
    let body: Vec<u8> = (0..messages).flat_map(|i| stored(2, 30 + i as i64, &properties)).collect();
    json(0, 1, opaque, "\"nextBeginOffset\":\"32\",\"suggestWhichBrokerId\":\"0\"", &body)
}

fn say(turns: &[Turn]) -> Vec<String> {
    tcp(&RocketMq, turns).into_iter().map(|l| l.replace(" messaging.system.name=rocketmq", "")).collect()
}

#[test]
fn a_send_tells_where_it_was_stored() {
    let said = say(&[c(send(7)), s(sent(7))]);
    for part in [
        "id=7 SEND_MESSAGE_V2 orders",
        "messaging.operation.type=send",
        "messaging.destination.name=orders",
        "wirespan.rocketmq.producer_group=makers",
        "messaging.destination.partition.id=3",
        "rocketmq.message.tag=TagA",
        "messaging.message.id=7F00AB",
        "trace_id: Some([10, 247, 101",
    ] {
        assert!(said[0].contains(part), "{part}: {}", said[0]);
    }
    assert!(said[1].contains("S resp") && said[1].contains("id=7 status=0 Ok"), "{}", said[1]);
    assert!(said[1].contains("queue_offset=27 wirespan.rocketmq.offset_message_id=0A60FF"), "{}", said[1]);
    assert!(!said.concat().contains("geheim"), "{said:?}");
}

#[test]
fn binary_headers_say_the_same() {
    let properties = format!("UNIQ_KEY\u{1}7F00AB\u{2}traceparent\u{1}{PARENT}");
    let fields = [("a", "makers"), ("b", "orders"), ("e", "3"), ("i", properties.as_str()), ("Signature", "geheim")];
    let said = say(&[c(binary(310, 0, 9, &fields, b"geheim")), s(binary(17, 1, 9, &[], b""))]);
    assert!(said[0].contains("id=9 SEND_MESSAGE_V2 orders") && said[0].contains("7F00AB"), "{}", said[0]);
    assert!(said[0].contains("trace_id: Some([10, 247, 101"), "{}", said[0]);
    assert!(said[1].contains("status=17 ClientError error=\"TOPIC_NOT_EXIST\""), "{}", said[1]);
    assert!(!said.concat().contains("geheim"), "{said:?}");
}

#[test]
fn a_pull_brings_messages() {
    let said = say(&[c(pull(8)), s(pulled(8, 2))]);
    assert!(said[0].contains("PULL_MESSAGE orders") && said[0].contains("group.name=eaters"), "{}", said[0]);
    assert!(said[0].contains("wirespan.rocketmq.pull_offset=30"), "{}", said[0]);
    for part in [
        "messaging.destination.partition.id=2 wirespan.rocketmq.queue_offset=30 messaging.destination.name=orders",
        "messaging.message.id=7F00AB",
        "wirespan.link.trace_id=0af7651916cd43dd8448eb211c80319c",
        "messaging.batch.message_count=2 wirespan.rocketmq.last_queue_offset=31",
    ] {
        assert!(said[1].contains(part), "{part}: {}", said[1]);
    }
    assert!(!said.concat().contains("geheim"), "{said:?}");
    // Of messages that were not captured whole, none is counted.
    let whole = pulled(8, 9);
    let (head, tail) = whole.split_at(whole.len() - 40);
    let said = say(&[c(pull(8)), (s("").0, head.to_vec(), 40), s(sent(9))]);
    assert_eq!(tail.len(), 40);
    assert!(said[1].contains("queue_offset=30") && !said[1].contains("message_count"), "{}", said[1]);
    assert!(said[2].contains("id=9"), "{said:?}");
    // Behind a body that was cut nothing is known; where the message stood is.
    let whole = pulled(8, 1);
    let cut = whole.len() - stored(2, 30, "").len() + 60;
    let said = say(&[c(pull(8)), (s("").0, whole[..cut].to_vec(), (whole.len() - cut) as u64), s(sent(9))]);
    assert!(said[1].contains("partition.id=2 wirespan.rocketmq.queue_offset=30"), "{}", said[1]);
    assert!(!said[1].contains("destination.name") && said[2].contains("id=9"), "{said:?}");
}

#[test]
fn nothing_found_is_no_error() {
    let said = say(&[c(pull(8)), s(json(19, 1, 8, "\"nextBeginOffset\":\"30\"", b""))]);
    assert!(said[1].contains("status=19 Ok") && said[1].contains("signal=PULL_NOT_FOUND"), "{}", said[1]);
    assert!(say(&[s(json(2, 1, 8, "", b""))])[0].contains("ServerError error=\"SYSTEM_BUSY\""));
}

#[test]
fn one_way_commands_and_requests_of_the_broker_are_read() {
    let said =
        say(&[c(json(15, 2, 5, "\"topic\":\"orders\",\"commitOffset\":\"904\"", b"")), s(json(40, 2, 1, "", b""))]);
    assert!(said[0].starts_with("C oneway") && said[0].contains("committed_offset=904"), "{}", said[0]);
    assert!(said[1].starts_with("S oneway") && said[1].contains("NOTIFY_CONSUMER_IDS_CHANGED"), "{}", said[1]);
    let said = say(&[s(json(307, 0, 1, "", b"")), c(json(0, 1, 1, "", b""))]);
    assert!(said[0].starts_with("S req") && said[1].starts_with("C resp"), "{said:?}");
    assert!(say(&[c(json(9999, 0, 1, "", b""))])[0].contains("_OTHER messaging"));
}

#[test]
fn commands_follow_one_another_and_gaps_are_skipped() {
    let said = say(&[c([send(1), pull(2), send(3)].concat())]);
    assert_eq!(said.len(), 3);
    let whole = send(1);
    // The header ends before its opaque number.
    let said = say(&[(c("").0, whole[..100].to_vec(), whole.len() as u64 - 100), c(pull(2))]);
    assert_eq!(said[0], "Malformed Client rocketmq_cut_header");
    assert!(said[1].contains("id=2 PULL_MESSAGE"), "{said:?}");
    // More is missing than the command had.
    let said = say(&[(c("").0, whole.clone(), 9), c("middle of something"), c(pull(2))]);
    assert_eq!(said[1], "Malformed Client rocketmq_gap");
    assert!(said[2].contains("id=2 PULL_MESSAGE") && said.len() == 3, "{said:?}");
    assert_eq!(say(&[c(pull(2)), c("nonsense")])[1], "Malformed Client rocketmq_bad_frame");
    let late = say(&[c("the end of a body"), s("more"), c(pull(2)), s(pulled(2, 1))]);
    assert_eq!(late.len(), 2, "{late:?}");
}

#[test]
fn connections_are_recognised_and_others_are_not() {
    let yes = |first_is_client| Detect::Yes { first_is_client };
    assert_eq!(RocketMq.detect(&probe(&send(1), b"")), yes(true));
    assert_eq!(RocketMq.detect(&probe(&sent(1), b"")), yes(false));
    assert_eq!(RocketMq.detect(&probe(&binary(11, 0, 4, &[("topic", "x")], b""), b"")), yes(true));
    // Without any field, both have to agree.
    let (bare, reply) = (binary(206, 0, 4, &[], b""), binary(0, 1, 4, &[], b""));
    assert_eq!(RocketMq.detect(&probe(&bare, b"")), Detect::Maybe);
    assert_eq!(RocketMq.detect(&probe(&bare, &reply)), yes(true));
    assert_eq!(RocketMq.detect(&probe(&bare, &binary(0, 1, 5, &[], b""))), Detect::Maybe);
    // The broker may be the first to ask.
    assert_eq!(RocketMq.detect(&probe(&json(40, 2, 1, "\"consumerGroup\":\"eaters\"", b""), b"")), yes(false));
    // A binary header cut in its fields takes the other end.
    let cut = &binary(11, 0, 4, &[("topic", "x")], b"")[..36];
    assert_eq!(RocketMq.detect(&probe(cut, b"")), Detect::Maybe);
    assert_eq!(RocketMq.detect(&probe(cut, &binary(0, 1, 4, &[("queueOffset", "1")], b""))), yes(true));
    // Cut within the header.
    assert_eq!(RocketMq.detect(&probe(&send(1)[..120], b"")), Detect::Maybe);
    assert_eq!(RocketMq.detect(&probe(&send(1)[..120], &sent(1))), yes(true));
    let part = send(1);
    let known = Probe { first_is_client: Some(true), ..probe(&part[..120], b"") };
    assert_eq!(RocketMq.detect(&known), yes(true));
    let text = b"\x00\x00\x00\x30\x00\x00\x00\x2c{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"id\":1}        ";
    assert_eq!(RocketMq.detect(&probe(text, b"")), Detect::No);
}

fn conversation() -> Vec<Turn> {
    vec![
        c([send(1), pull(2)].concat()),
        s([pulled(2, 3), sent(1)].concat()),
        c(binary(15, 2, 3, &[("topic", "orders"), ("commitOffset", "9")], b"")),
        s(json(40, 2, 9, "\"consumerGroup\":\"eaters\"", b"")),
        c(binary(11, 0, 4, &[("topic", "orders")], b"x")),
        s(binary(19, 1, 4, &[("nextBeginOffset", "9")], b"")),
    ]
}

proptest! {
    #[test]
    fn chunking_does_not_matter(cuts in prop::collection::vec(1usize..80, 1..20)) {
        let whole = conversation();
        prop_assert_eq!(tcp(&RocketMq, &whole), tcp(&RocketMq, &cut(&whole, &cuts)));
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
        tcp_to_the_end(&RocketMq, &pieces);
    }
}
