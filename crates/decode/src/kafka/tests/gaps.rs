//! Bytes that were not captured.

use super::bytes::{answer, fetch13, fetched13, plain_batch, produce9, say, w, W};
use crate::kafka::Kafka;
use crate::testing::{c, line, s, tcp, tcp_to_the_end};
use crate::Protocol;
use wirespan_model::{Chunk, Transport};

#[test]
fn a_connection_is_read_from_its_middle() {
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
fn offsets_are_known_behind_records_that_were_not_captured() {
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
    // The records of the first partition end in the gap: their last offset is not known, the others are.
    let part = said(&[(0, batch + 70), (partition - 5, whole.len())]);
    assert!(part.contains(":5-38") && part.contains(":70-71"), "{part}");
    let part = said(&[(0, first + 80), (partition - 1, whole.len())]);
    assert!(part.contains(":70-71") && !part.contains("-38") && !part.contains("message_count"), "{part}");
    // None of them was captured.
    let none = said(&[(0, first), (partition - 1, whole.len())]);
    assert!(none.contains(":70-71") && !none.contains("message_count"), "{none}");
    // What is missing ends inside the second partition's head: nothing is made up.
    let lost = said(&[(0, first + 80), (partition + 6, whole.len())]);
    assert!(!lost.contains(":70") && !lost.contains("-71"), "{lost}");
}

#[test]
fn a_long_fetch_is_read_up_to_what_a_partition_brings_at_most() {
    let topic = *b"consumer behind.";
    let said = |batches: i64| {
        let records = W((0..batches).flat_map(|at| plain_batch(at, 1).0).collect());
        let answer = fetched13(1, topic, 0, &records, 0);
        let pieces = answer.chunks(30_000).map(s);
        let (mut parser, mut said) = (Kafka.parser(Transport::Tcp), Vec::new());
        for (side, bytes, missing) in [c(fetch13(1, topic, 0))].into_iter().chain(pieces) {
            parser.feed(Chunk { side, bytes: &bytes, missing }, &mut |item| said.push(line(&item)));
            assert!(parser.buffered() < 9 << 17, "{}", parser.buffered());
        }
        (answer.len(), said.split_off(1))
    };
    let (len, all) = said(5_000);
    assert!((800_000..1 << 20).contains(&len), "{len}");
    let whole = "kafka.offset=0 wirespan.kafka.last_offset=4999";
    assert!(all[0].contains(whole) && all[0].contains("messaging.batch.message_count=5000"), "{}", all[0]);
    assert_eq!(all.len(), 1, "{:?}", &all[1..]);
    let (len, cut) = said(10_000);
    assert!(len > 3 << 19, "{len}");
    assert_eq!(cut[0], "Malformed Server kafka_records_cut");
    assert!(cut[1].contains("kafka.offset=0") && !cut[1].contains("message_count"), "{}", cut[1]);
}
