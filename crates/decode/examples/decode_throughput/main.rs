//! Messages and bytes per second of processor time of each parser, beside two baselines over the same bytes in the same
//! run: a search for line ends (`memchr`) and a copy (`memcpy`).
//!
//! ```text
//! cargo run --release -p wirespan-decode --example decode_throughput [PART OF A NAME]
//! cargo run --release -p wirespan-decode --example decode_throughput captures [FOLDER]
//! ```
//!
//! `captures` replays what the connections of all captures below the folder (`../shared/pcaps`) carry instead.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::unwrap_used
)]

mod captures;

use std::hint::black_box;
use std::time::{Duration, Instant};
use wirespan_decode::{dns::Dns, http1::Http1, mysql::Mysql, postgresql::Postgresql, redis::Redis, Protocol};
use wirespan_model::{Chunk, Item, Side, Transport};

/// Time per measurement.
const TIME: Duration = Duration::from_millis(700);

type Turns = Vec<(Side, Vec<u8>, u64)>;

const REQUEST: &str = "GET /api/v1/carts/4711/items?page=2 HTTP/1.1\r\nHost: shop.example:8080\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\nAccept: application/json\r\n\
    Accept-Encoding: gzip, deflate, br\r\nAuthorization: Bearer abcdefghijklmnopqrstuvwxyz0123456789\r\n\
    traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nX-Request-ID: 7b1f0c1e\r\n\
    Connection: keep-alive\r\n\r\n";
const RESPONSE: &str = "HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
    Content-Type: application/json\r\nContent-Length: 256\r\nConnection: keep-alive\r\n\r\n";

fn http() -> Turns {
    let response = [RESPONSE.as_bytes(), &[b'x'; 256]].concat();
    vec![(Side::Client, REQUEST.into(), 0), (Side::Server, response, 0)]
}

fn http_split() -> Turns {
    let (a, b) = REQUEST.as_bytes().split_at(200);
    let (c, d) = RESPONSE.as_bytes().split_at(100);
    vec![
        (Side::Client, a.into(), 0),
        (Side::Client, b.into(), 0),
        (Side::Server, c.into(), 0),
        (Side::Server, [d, &[b'x'; 256]].concat(), 0),
    ]
}

fn http_chunked() -> Turns {
    let body = format!("1000\r\n{}\r\n", "x".repeat(4096)).repeat(16) + "0\r\n\r\n";
    let response = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned() + &body;
    vec![(Side::Client, REQUEST.into(), 0), (Side::Server, response.into(), 0)]
}

fn redis() -> Turns {
    let set = "*3\r\n$3\r\nSET\r\n$8\r\ncart:471\r\n$12\r\n{\"items\": 3}\r\n";
    vec![(Side::Client, set.into(), 0), (Side::Server, "+OK\r\n".into(), 0)]
}

fn redis_pipeline() -> Turns {
    let get = "*2\r\n$3\r\nGET\r\n$8\r\ncart:471\r\n".repeat(100);
    vec![(Side::Client, get.into(), 0), (Side::Server, "$12\r\n{\"items\": 3}\r\n".repeat(100).into(), 0)]
}

fn redis_list() -> Turns {
    let reply = format!("*300\r\n{}", "$3\r\nxxx\r\n".repeat(300));
    vec![
        (Side::Client, "*4\r\n$6\r\nLRANGE\r\n$4\r\nlist\r\n$1\r\n0\r\n$3\r\n299\r\n".into(), 0),
        (Side::Server, reply.into(), 0),
    ]
}

/// A message of PostgreSQL.
fn pg(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

fn postgresql() -> Turns {
    let row = [b"\0\x02\0\0\0\x04\0\0\0\x07\0\0\0\x20".as_slice(), &[b'v'; 32]].concat();
    let columns = b"\0\x02id\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0name\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\
    \xff\xff\xff\0\0";
    let rows = [pg(b'T', columns), pg(b'D', &row).repeat(10), pg(b'C', b"SELECT 10\0"), pg(b'Z', b"I")].concat();
    vec![
        (Side::Client, pg(b'Q', b"SELECT id, name FROM items WHERE cart = 4711 AND kind = 'book'\0"), 0),
        (Side::Server, rows, 0),
    ]
}

/// A packet of MySQL.
fn my(number: u8, body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_le_bytes()[..3], &[number], body].concat()
}

fn mysql() -> Turns {
    let column = b"\x03def\x04shop\x05items\x05items\x04name\x04name\x0c\x2d\0\x80\0\0\0\xfd\0\0\0\0\0";
    let end = b"\xfe\0\0\x02\0";
    let row = [b"\x20".as_slice(), &[b'v'; 32]].concat();
    let mut answer = [my(1, b"\x01"), my(2, column), my(3, end)].concat();
    (4..14).for_each(|n| answer.extend(my(n, &row)));
    answer.extend(my(14, end));
    vec![
        (Side::Client, my(0, b"\x03SELECT name FROM items WHERE cart = 4711 AND kind = 'book'"), 0),
        (Side::Server, answer, 0),
    ]
}

fn dns() -> Turns {
    let question = b"\x03www\x07example\x03org\x00\x00\x01\x00\x01".as_slice();
    let answer = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x0a\x00\x00\x01".as_slice();
    let query = [b"\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00", question].concat();
    let reply = [b"\x00\x01\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00", question, answer].concat();
    vec![(Side::Client, query, 0), (Side::Server, reply, 0)]
}

/// Time that this thread has spent on a processor, ns: other load on the machine does not count.
fn cpu_ns() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

/// Calls `work` for [`TIME`], in rounds of so many; returns calls per second of processor time.
fn rate(round: u64, mut work: impl FnMut()) -> f64 {
    for _ in 0..4 * round {
        work();
    }
    let (start, cpu) = (Instant::now(), cpu_ns());
    let mut calls = 0u64;
    while start.elapsed() < TIME {
        for _ in 0..round {
            work();
        }
        calls += round;
    }
    let wall = start.elapsed();
    let spent = cpu.zip(cpu_ns()).map_or(wall, |(before, after)| Duration::from_nanos(after - before));
    calls as f64 / spent.as_secs_f64()
}

fn main() {
    if std::env::args().nth(1).is_some_and(|a| a == "captures") {
        return captures::print(std::env::args().nth(2));
    }
    let cases: [(&str, &dyn Protocol, Transport, Turns); 9] = [
        ("http, request+response", &Http1, Transport::Tcp, http()),
        ("http, heads in two pieces", &Http1, Transport::Tcp, http_split()),
        ("http, 64 KiB chunked", &Http1, Transport::Tcp, http_chunked()),
        ("redis, SET+OK", &Redis, Transport::Tcp, redis()),
        ("redis, 100 GETs pipelined", &Redis, Transport::Tcp, redis_pipeline()),
        ("redis, list of 300", &Redis, Transport::Tcp, redis_list()),
        ("postgresql, query, 10 rows", &Postgresql, Transport::Tcp, postgresql()),
        ("mysql, query, 10 rows", &Mysql, Transport::Tcp, mysql()),
        ("dns, query+answer", &Dns, Transport::Udp, dns()),
    ];
    println!("| case | messages/s | ns/message | GB/s | memchr GB/s | memcpy GB/s | of memchr |");
    println!("|---|---|---|---|---|---|---|");
    let wanted = std::env::args().nth(1).unwrap_or_default();
    for (name, protocol, transport, turns) in cases.iter().filter(|case| case.0.contains(&wanted)) {
        let bytes: usize = turns.iter().map(|t| t.1.len()).sum();
        let mut parser = protocol.parser(*transport);
        let mut messages = 0u64;
        let mut rounds = 0u64;
        let parsed = rate(256, || {
            rounds += 1;
            for (side, bytes, missing) in turns {
                parser.feed(Chunk { side: *side, bytes: black_box(bytes), missing: *missing }, &mut |item| {
                    messages += u64::from(matches!(black_box(&item), Item::Message(_)));
                });
            }
        });
        let searched = rate(256, || {
            for turn in turns {
                memchr::memchr_iter(b'\n', black_box(&turn.1)).for_each(|i| {
                    black_box(i);
                });
            }
        });
        let mut copy = vec![0u8; bytes];
        let copied = rate(256, || {
            for turn in turns {
                copy.get_mut(..turn.1.len()).unwrap().copy_from_slice(black_box(&turn.1));
                black_box(&mut copy);
            }
        });
        let per_round = messages as f64 / rounds as f64;
        let giga = |rate: f64| rate * bytes as f64 / 1e9;
        println!(
            "| {name} | {:.0} | {:.0} | {:.2} | {:.2} | {:.1} | {:.2} |",
            parsed * per_round,
            1e9 / (parsed * per_round),
            giga(parsed),
            giga(searched),
            giga(copied),
            parsed / searched
        );
    }
}
