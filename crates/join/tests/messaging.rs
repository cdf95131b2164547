//! Messages to a third party behind the connection: which span is the producer's and which the consumer's.
#![allow(clippy::unwrap_used)]

mod common;
use common::{end, End, Stage, MS, T0};
use wirespan_model::broker::Delivers;
use wirespan_model::semconv::attributes;
use wirespan_model::{Direction, Event, SpanKind, Status, TapSide};

const CONNECT: &[u8] = b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04dev1";
const CONNACK: &[u8] = b"\x20\x02\x00\x00";
/// QoS 0 to `a/b`.
const PUBLISH: &[u8] = b"\x30\x06\x00\x03a/bx";
/// QoS 1 to `a/b`, packet 7, and its answer.
const PUBLISH_1: &[u8] = b"\x32\x08\x00\x03a/b\x00\x07x";
const PUBACK: &[u8] = b"\x40\x02\x00\x07";

/// The client publishes twice and receives one message. Returns the spans of one end.
fn spans(mut e: End) -> Vec<(String, SpanKind, TapSide, Status)> {
    let mut stage = Stage::new();
    let server = e.role == wirespan_model::Role::Server;
    e.remote = if server { end(1, 40000) } else { end(2, 1883) };
    e.local = if server { end(2, 1883) } else { end(1, 40000) };
    let (up, down) =
        if server { (Direction::Ingress, Direction::Egress) } else { (Direction::Egress, Direction::Ingress) };
    let calls = [(up, CONNECT), (down, CONNACK), (up, PUBLISH), (up, PUBLISH_1), (down, PUBACK), (down, PUBLISH)];
    for (i, (direction, bytes)) in calls.into_iter().enumerate() {
        stage.event(Event::Data(e.call(direction, T0 + i as u64 * MS, bytes)));
    }
    for span in &stage.spans {
        let peer = attributes(span).into_iter().find(|(k, _)| k == "network.peer.port").map(|(_, v)| v.to_string());
        // The peer is the other end of the connection, for every kind of span.
        assert_eq!(peer.as_deref(), Some(if server { "40000" } else { "1883" }), "{span:?}");
    }
    stage.spans.iter().map(|s| (s.operation.to_string(), s.kind, s.tap, s.status)).collect()
}

#[test]
fn the_publisher_is_a_producer_and_the_receiver_a_consumer() {
    let publish = "PUBLISH".to_string();
    assert_eq!(
        spans(End::client(1)),
        [
            ("CONNECT".into(), SpanKind::Client, TapSide::ClientProcess, Status::Ok),
            (publish.clone(), SpanKind::Producer, TapSide::ClientProcess, Status::OneWay),
            (publish.clone(), SpanKind::Producer, TapSide::ClientProcess, Status::Ok),
            (publish, SpanKind::Consumer, TapSide::ServerProcess, Status::OneWay),
        ]
    );
}

#[test]
fn the_broker_serves_and_hands_messages_on() {
    let publish = "PUBLISH".to_string();
    assert_eq!(
        spans(End::server(1)),
        [
            ("CONNECT".into(), SpanKind::Server, TapSide::ServerProcess, Status::Ok),
            (publish.clone(), SpanKind::Server, TapSide::ServerProcess, Status::OneWay),
            (publish.clone(), SpanKind::Server, TapSide::ServerProcess, Status::Ok),
            (publish, SpanKind::Producer, TapSide::ClientProcess, Status::OneWay),
        ]
    );
}

/// A message of Thrift's binary protocol without a frame, of one field; its end is known only when it has come.
fn thrift(kind: u8, name: &str, seq: u8) -> Vec<u8> {
    let length = [0, 0, 0, name.len() as u8];
    // The first argument has number 1, a result 0.
    let field = [11, 0, u8::from(kind != 2), 0, 0, 0, 3, b'a', b'b', b'c', 0];
    [&[0x80, 1, 0, kind][..], &length, name.as_bytes(), &[0, 0, 0, seq], &field].concat()
}

#[test]
fn a_one_way_message_that_tells_no_length_ends_with_its_last_byte() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    c.remote = end(2, 9090);
    let (call, reply, one_way) = (1, 2, 4);
    stage.event(c.send(T0, &thrift(call, "add", 1)));
    stage.event(c.recv(T0 + MS, &thrift(reply, "add", 1)));
    // In one piece, in two, and two of them in one.
    stage.event(c.send(T0 + 2 * MS, &thrift(one_way, "note", 2)));
    let cut = thrift(one_way, "cut", 2);
    stage.event(c.send(T0 + 3 * MS, &cut[..20]));
    stage.event(c.send(T0 + 4 * MS, &cut[20..]));
    stage.event(c.send(T0 + 5 * MS, &[thrift(one_way, "first", 0), thrift(one_way, "second", 0)].concat()));
    let told: Vec<_> = stage.spans.iter().map(|s| (s.operation.to_string(), s.status, s.request_bytes)).collect();
    let len = |name: &str| 27 - 4 + name.len() as u64;
    assert_eq!(told[1..], ["note", "cut", "first", "second"].map(|name| (name.to_string(), Status::OneWay, len(name))));
    assert!(stage.spans.iter().all(|s| !s.attrs.iter().any(|(k, _)| k == "wirespan.incomplete")));
}

#[test]
fn an_answer_without_a_request_that_tells_no_length_ends_with_its_last_byte() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    c.remote = end(2, 9090);
    stage.event(c.recv(T0, &thrift(2, "add", 1)));
    stage.event(c.send(T0 + MS, &thrift(1, "next", 2)));
    stage.event(c.recv(T0 + 2 * MS, &thrift(2, "next", 2)));
    stage.tick(T0 + 500 * MS);
    let told: Vec<_> = stage.spans.iter().map(|s| (s.operation.to_string(), s.status)).collect();
    assert!(told.contains(&("add".into(), Status::NoRequest)), "{told:?}");
    assert!(told.contains(&("next".into(), Status::Ok)), "{told:?}");
}

#[test]
fn the_verdict_says_that_a_connection_delivers_work_to_a_subscriber() {
    let mut stage = Stage::new();
    let mut e = End::client(1);
    let up = [CONNECT, PUBLISH, PUBLISH_1];
    for (i, bytes) in up.into_iter().enumerate() {
        stage.event(Event::Data(e.call(Direction::Egress, T0 + i as u64 * MS, bytes)));
    }
    stage.event(Event::Data(e.call(Direction::Ingress, T0 + 4 * MS, PUBACK)));
    let verdicts = stage.verdicts();
    assert!(verdicts.iter().all(|v| v.delivers.is_none()), "it has only published");
    assert!(verdicts.last().unwrap().one_way, "the first message was not answered");
    stage.event(Event::Data(e.call(Direction::Ingress, T0 + 5 * MS, PUBLISH)));
    assert_eq!(stage.verdicts().last().unwrap().delivers, Some(Delivers::Pushed));
}

#[test]
fn a_client_of_redis_that_takes_elements_is_told_to_the_kernel() {
    let taken = |command: &[u8]| {
        let mut stage = Stage::new();
        let mut e = End::client(1);
        e.remote = end(2, 6379);
        stage.event(Event::Data(e.call(Direction::Egress, T0, command)));
        stage.event(Event::Data(e.call(Direction::Ingress, T0 + MS, b"$2\r\n17\r\n")));
        stage.verdicts().last().unwrap().delivers
    };
    assert_eq!(taken(b"*2\r\n$4\r\nRPOP\r\n$5\r\nqueue\r\n"), Some(Delivers::Taken));
    assert_eq!(taken(b"*2\r\n$3\r\nGET\r\n$5\r\nqueue\r\n"), None);
}

/// A message of Kafka: its length, then these bytes.
fn kafka(body: &[&[u8]]) -> Vec<u8> {
    let body = body.concat();
    [&u32::try_from(body.len()).unwrap().to_be_bytes(), &*body].concat()
}

#[test]
fn a_producer_of_kafka_may_send_for_several_requests_at_once() {
    let mut stage = Stage::new();
    let mut e = End::client(1);
    e.remote = end(2, 9092);
    let ask = |key: u8, version: u8, id: u8| [0, key, 0, version, 0, 0, 0, id, 0, 1, b'c'];
    let versions = kafka(&[&ask(18, 0, 1)]);
    stage.event(Event::Data(e.call(Direction::Egress, T0, &versions)));
    let answer = kafka(&[&[0, 0, 0, 1], &[0, 0], &[0, 0, 0, 1], &[0, 0, 0, 0, 0, 9]]);
    stage.event(Event::Data(e.call(Direction::Ingress, T0 + MS, &answer)));
    assert!(stage.verdicts().iter().all(|v| !v.gathers), "it has produced nothing");
    let topic = [0, 0, 0, 1, 0, 2, b'o', b'k', 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let produce = kafka(&[&ask(0, 3, 2), &[0xff, 0xff], &[0, 1], &[0, 0, 3, 232], &topic]);
    stage.event(Event::Data(e.call(Direction::Egress, T0 + 2 * MS, &produce)));
    assert!(stage.verdicts().last().unwrap().gathers);
}
