//! CPU time from event to finished span: `cargo run --release -p wirespan-join --example cost`.
//!
//! Sequential HTTP/1.1 on 200 keep-alive connections, events as the kernel gives them (512 bytes of payload, exchange and
//! cause ids, TCP sequence numbers), client and server observed: four events, two spans per request.
#![allow(clippy::unwrap_used)]

#[path = "../tests/common/mod.rs"]
mod common;
use common::{get, ok, End, Nobody, T0};
use std::time::Instant;
use wirespan_join::{JoinConfig, Joiner};
use wirespan_model::{Event, Span};

const CONNECTIONS: u64 = 200;
const ROUNDS: u64 = 500;

fn events(request: &[u8], response: &[u8]) -> Vec<Event> {
    let mut ends: Vec<_> = (0..CONNECTIONS).map(|i| (End::client(2 * i + 1), End::server(2 * i + 2))).collect();
    let mut all = Vec::new();
    let mut now = T0;
    for round in 0..ROUNDS {
        for (c, s) in &mut ends {
            now += 50_000;
            c.cause = 77 << 24 | round;
            s.exchange = s.socket << 24 | (round + 1);
            all.push(c.send(now, request));
            all.push(s.recv(now + 10_000, request));
            all.push(s.send(now + 20_000, response));
            all.push(c.recv(now + 30_000, response));
        }
    }
    all
}

fn main() {
    let browser: String = (0..8).map(|i| format!("X-Header-{i}: some value of usual length\r\n")).collect();
    let long = format!("GET /api/v1/cart/7?full=1 HTTP/1.1\r\nHost: shop\r\nAccept: */*\r\n{browser}\r\n");
    let traced = "GET /cart HTTP/1.1\r\nHost: shop\r\n\
        traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nX-Request-ID: 7f3a\r\n\r\n";
    println!("{:<34} {:>12} {:>12} {:>10}", "load", "ns per event", "ns per span", "spans");
    for (name, request, response) in [
        ("small request, 100 B body", get("/cart/7"), ok(100)),
        ("ten headers, 100 B body", long.into_bytes(), ok(100)),
        ("trace context, 100 B body", traced.as_bytes().to_vec(), ok(100)),
        ("small request, 20 kB body", get("/cart/7"), ok(20_000)),
        ("Redis GET", b"*2\r\n$3\r\nGET\r\n$6\r\ncart:7\r\n".to_vec(), b"$5\r\nhello\r\n".to_vec()),
    ] {
        let mut best: Option<(f64, f64, u64)> = None;
        for _ in 0..5 {
            let all = events(&request, &response);
            let count = all.len() as f64;
            let mut joiner = Joiner::new(JoinConfig::default(), 7, Box::new(Nobody));
            let (mut spans, mut bytes) = (0u64, 0u64);
            let mut sink = |s: Span| {
                spans += 1;
                bytes = bytes.wrapping_add(s.response_bytes);
            };
            let begin = Instant::now();
            for e in all {
                joiner.event(e, &mut sink);
            }
            let took = begin.elapsed().as_nanos() as f64;
            assert_eq!(bytes, spans * response.len() as u64, "every response whole");
            let now = (took / count, took / spans as f64, spans);
            if best.is_none_or(|b| now.1 < b.1) {
                best = Some(now);
            }
        }
        let (event, span, spans) = best.unwrap();
        println!("{name:<34} {event:>12.0} {span:>12.0} {spans:>10}");
    }
}
