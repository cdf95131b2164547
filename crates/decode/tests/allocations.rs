//! The hot path does not allocate: once a connection has warmed up, reading messages takes no memory from the heap.
#![allow(
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use wirespan_decode::{
    dns::Dns, http1::Http1, http2::Http2, kafka::Kafka, ldap::Ldap, memcached::Memcached, mongodb::MongoDb,
    mysql::Mysql, postgresql::Postgresql, pulsar::Pulsar, redis::Redis, rocketmq::RocketMq, zookeeper::ZooKeeper,
    Protocol,
};
use wirespan_model::{Chunk, Item, Side, Transport};

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: hands every call on to the system's allocator unchanged; the counter is a plain thread-local cell.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|c| c.set(c.get() + 1));
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        unsafe { System.dealloc(ptr, layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.with(|c| c.set(c.get() + 1));
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Feeds the turns again and again; returns messages and allocations after the first ten rounds.
fn run(protocol: &dyn Protocol, transport: Transport, turns: &[(Side, &[u8], u64)]) -> (u64, u64) {
    let mut parser = protocol.parser(transport);
    let (mut messages, mut before) = (0u64, 0u64);
    for round in 0..110 {
        if round == 10 {
            (messages, before) = (0, COUNT.with(Cell::get));
        }
        for (side, bytes, missing) in turns {
            parser.feed(Chunk { side: *side, bytes, missing: *missing }, &mut |item| {
                messages += u64::from(matches!(item, Item::Message(_)));
            });
        }
    }
    (messages, COUNT.with(Cell::get) - before)
}

const REQUEST: &[u8] = b"POST /cart/7/items?token=x HTTP/1.1\r\nHost: shop.example:8080\r\nUser-Agent: curl/8.5\r\n\
    Accept: */*\r\nAuthorization: Bearer x\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\
    X-Request-ID: 7b1f\r\nContent-Length: 4\r\n\r\nbody";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n\
    5\r\nhello\r\n0\r\n\r\n";

#[test]
fn the_counter_counts() {
    let before = COUNT.with(Cell::get);
    drop(std::hint::black_box(Box::new(7u64)));
    assert_eq!(COUNT.with(Cell::get) - before, 1);
}

#[test]
fn http_in_whole_chunks() {
    let turns = [(Side::Client, REQUEST, 0), (Side::Server, RESPONSE, 0)];
    assert_eq!(run(&Http1, Transport::Tcp, &turns), (200, 0));
}

#[test]
fn http_in_pieces_reuses_its_buffer() {
    let (a, b) = REQUEST.split_at(100);
    let turns = [(Side::Client, a, 0), (Side::Client, b, 0), (Side::Server, RESPONSE, 0)];
    assert_eq!(run(&Http1, Transport::Tcp, &turns), (200, 0));
}

#[test]
fn http_with_heads_and_bodies_not_captured_whole() {
    let turns = [(Side::Client, &REQUEST[..120], 200), (Side::Server, &RESPONSE[..60], 5000)];
    assert_eq!(run(&Http1, Transport::Tcp, &turns), (200, 0));
}

#[test]
fn redis() {
    let turns: [(Side, &[u8], u64); 4] = [
        (
            Side::Client,
            b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n*1\r\n$4\r\nPI",
            0,
        ),
        (Side::Client, b"NG\r\n*3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n$1\r\n*\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n", 0),
        (Side::Server, b"+OK\r\n$50000\r\nvalue", 49_997),
        (Side::Server, b"+PONG\r\n*2\r\n$1\r\na\r\n*1\r\n:5\r\n-ERR wrong\r\n", 0),
    ];
    assert_eq!(run(&Redis, Transport::Tcp, &turns), (1000, 0));
}

/// A message of PostgreSQL.
fn pg(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

#[test]
fn postgresql_queries_and_prepared_statements() {
    let query = pg(b'Q', b"SELECT a FROM t WHERE b = 'x' AND c = 1\0");
    let (head, tail) = query.split_at(20);
    let rows = [pg(b'T', b"\0\0"), pg(b'D', &[7; 90])].concat();
    let end = [pg(b'C', b"SELECT 1\0"), pg(b'Z', b"I")].concat();
    let run_it = [pg(b'B', b"\0st\0\0\0\0\0\0\0"), pg(b'E', b"\0\0\0\0\0"), pg(b'S', b"")].concat();
    let prepare = [pg(b'P', b"st\0INSERT INTO t VALUES ($1)\0\0\0"), run_it.clone()].concat();
    let ran = [pg(b'2', b""), pg(b'C', b"INSERT 0 1\0"), pg(b'Z', b"I")].concat();
    let prepared = [pg(b'1', b""), ran.clone()].concat();
    let turns: [(Side, &[u8], u64); 8] = [
        (Side::Client, head, 0),
        (Side::Client, tail, 0),
        (Side::Server, &rows[..40], rows.len() as u64 - 40),
        (Side::Server, &end, 0),
        (Side::Client, &prepare, 0),
        (Side::Server, &prepared, 0),
        (Side::Client, &run_it, 0),
        (Side::Server, &ran, 0),
    ];
    assert_eq!(run(&Postgresql, Transport::Tcp, &turns), (600, 0));
}

/// A packet of MySQL.
fn my(seq: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u32 | u32::from(seq) << 24).to_le_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

#[test]
fn mysql_queries_and_prepared_statements() {
    let query = my(0, b"\x03SELECT a FROM t WHERE b = 'x' AND c = 1");
    let (head, tail) = query.split_at(20);
    let definition = b"\x03def\x01d\x01t\x01t\x01a\x01a\x0c\x3f\0\x0b\0\0\0\x03\0\0\0\0\0";
    let rows = [my(1, b"\x01"), my(2, definition), my(3, b"\xfe\0\0\x02\0"), my(4, b"\x011"), my(5, b"\xfe\0\0\x02\0")];
    let prepare = my(0, b"\x16INSERT INTO t VALUES (?)");
    let prepared = [my(1, b"\0\x05\0\0\0\0\0\x01\0\0\0\0"), my(2, definition), my(3, b"\xfe\0\0\x02\0")].concat();
    let execute = my(0, b"\x17\x05\0\0\0\0\x01\0\0\0\0\x01\x08\0\x01\0\0\0\0\0\0\0");
    let okay = my(1, b"\0\x01\0\x02\0\0\0");
    let close = my(0, b"\x19\x05\0\0\0");
    let rows = rows.concat();
    let turns: [(Side, &[u8], u64); 8] = [
        (Side::Client, head, 0),
        (Side::Client, tail, 0),
        (Side::Server, &rows, 0),
        (Side::Client, &prepare, 0),
        (Side::Server, &prepared, 0),
        (Side::Client, &execute, 0),
        (Side::Server, &okay, 0),
        (Side::Client, &close, 0),
    ];
    let (messages, allocations) = run(&Mysql, Transport::Tcp, &turns);
    assert_eq!(messages, 700);
    assert_eq!(allocations, 0);
}

#[test]
fn dns() {
    let query: &[u8] = b"\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x03org\x00\x00\x01\x00\x01";
    let answer: &[u8] =
        b"\x00\x01\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00\x03www\x07example\x03org\x00\x00\x01\x00\x01\
        \xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x0a\x00\x00\x01";
    let turns = [(Side::Client, query, 0), (Side::Server, answer, 0)];
    assert_eq!(run(&Dns, Transport::Udp, &turns), (200, 0));
}

/// The seeds of the fuzz targets that hold a request and its response, which both begin with their length.
fn asked_and_answered(seed: &'static [u8]) -> [(Side, &'static [u8], u64); 2] {
    let len = u32::from_be_bytes(*seed.first_chunk().unwrap()) as usize + 4;
    [(Side::Client, &seed[..len], 0), (Side::Server, &seed[len..], 0)]
}

#[test]
fn kafka() {
    let produce = asked_and_answered(include_bytes!("../../../fuzz/seeds/kafka/produce"));
    assert_eq!(run(&Kafka, Transport::Tcp, &produce), (200, 0));
    // The topic's id, the linked trace, and the names of the batches are written as text.
    let (messages, allocations) =
        run(&Kafka, Transport::Tcp, &asked_and_answered(include_bytes!("../../../fuzz/seeds/kafka/fetch")));
    assert!(messages == 200 && allocations <= 3 * messages, "{allocations} for {messages}");
}

#[test]
fn pulsar_and_rocketmq_allocate_little() {
    let send = asked_and_answered(include_bytes!("../../../fuzz/seeds/rocketmq/send"));
    let (messages, allocations) = run(&RocketMq, Transport::Tcp, &send);
    assert!(messages == 200 && allocations <= 2 * messages, "{allocations} for {messages}");
    let broker: [(Side, &[u8], u64); 1] = [(Side::Server, include_bytes!("../../../fuzz/seeds/pulsar/broker"), 0)];
    let (messages, allocations) = run(&Pulsar, Transport::Tcp, &broker);
    assert!(messages == 400 && allocations <= 2 * messages, "{allocations} for {messages}");
}

#[test]
fn http2_with_fields_that_are_not_inserted() {
    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let len = u8::try_from(payload.len()).unwrap();
        [&[0, 0, len, kind, flags, 0, 0, 0, 7][..], payload].concat()
    }
    // GET http, path and authority as they are; then a body in two frames.
    let head = frame(1, 5, b"\x82\x86\x04\x07/cart/7\x01\x09shop:8080\x0f\x08\x06Bearer");
    let answer = [frame(1, 4, b"\x88"), frame(0, 0, b"hello"), frame(0, 1, b"")].concat();
    let (a, b) = head.split_at(20);
    let turns = [
        (Side::Client, a, 0),
        (Side::Client, b, 0),
        (Side::Server, &answer[..19], 5),
        (Side::Server, &answer[24..], 0),
    ];
    assert_eq!(run(&Http2, Transport::Tcp, &turns), (200, 0));
}

#[test]
fn memcached() {
    let turns: [(Side, &[u8], u64); 4] = [
        (Side::Client, b"get a b\r\nset a 0 0 3\r\nabc\r\nmg a v", 0),
        (Side::Client, b" q\r\nmn\r\ndelete a noreply\r\n", 0),
        (Side::Server, b"VALUE a 0 5000\r\nabc", 4999),
        (Side::Server, b"END\r\nSTORED\r\nMN\r\n", 0),
    ];
    assert_eq!(run(&Memcached, Transport::Tcp, &turns), (800, 0));
}

#[test]
fn mongodb() {
    let find: &[u8] =
        b"\x31\0\0\0\x01\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0\0\x1c\0\0\0\x02find\0\x02\0\0\0a\0\x02$db\0\x02\0\0\0d\0\0";
    let ok: &[u8] = b"\x26\0\0\0\x09\0\0\0\x01\0\0\0\xdd\x07\0\0\0\0\0\0\0\x11\0\0\0\x01ok\0\0\0\0\0\0\0\xf0\x3f\0";
    let (a, b) = find.split_at(16);
    let turns = [(Side::Client, a, 0), (Side::Client, b, 0), (Side::Server, ok, 0)];
    assert_eq!(run(&MongoDb, Transport::Tcp, &turns), (200, 0));
}

#[test]
fn ldap() {
    let search: &[u8] =
        b"\x30\x20\x02\x01\x02\x63\x1b\x04\x04dc=x\x0a\x01\x02\x0a\x01\0\x02\x01\0\x02\x01\0\x01\x01\0\x87\x02cn\x30\0";
    let done: &[u8] = b"\x30\x0c\x02\x01\x02\x65\x07\x0a\x01\0\x04\0\x04\0";
    let turns = [(Side::Client, search, 0), (Side::Server, done, 0)];
    assert_eq!(run(&Ldap, Transport::Tcp, &turns), (200, 0));
}

#[test]
fn zookeeper() {
    let get: &[u8] = b"\0\0\0\x11\0\0\0\x07\0\0\0\x04\0\0\0\x04/app\0";
    let got: &[u8] = b"\0\0\0\x14\0\0\0\x07\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\0";
    let turns = [(Side::Client, get, 0), (Side::Server, got, 0)];
    assert_eq!(run(&ZooKeeper, Transport::Tcp, &turns), (200, 0));
}
