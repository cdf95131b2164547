//! CPU time from event to finished span: `cargo run --release -p wirespan-join --example cost`.
//!
//! Sequential HTTP/1.1 on 200 keep-alive connections, events as the kernel gives them (512 bytes of payload, exchange
//! and cause ids, TCP sequence numbers), client and server observed: four events, two spans per request.
#![allow(clippy::unwrap_used)]

#[path = "../tests/common/mod.rs"]
mod common;
use common::{get, ok, End, Nobody, T0};
use wirespan_join::{JoinConfig, Joiner};
use wirespan_model::{Event, Span};

const CONNECTIONS: u64 = 200;
/// Requests per connection, unless the first argument says otherwise.
const ROUNDS: u64 = 500;

/// CPU time of this thread, ns: other work on the machine does not count.
fn cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// The baseline: what the memory of such a span costs alone.
fn clone_ns(span: &Span) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let begin = cpu_ns();
        for _ in 0..100_000 {
            std::hint::black_box(std::hint::black_box(span).clone());
        }
        best = best.min((cpu_ns() - begin) as f64 / 100_000.0);
    }
    best
}

/// One request on each connection.
fn round(ends: &mut [(End, End)], now: &mut u64, n: u64, request: &[u8], response: &[u8]) -> Vec<Event> {
    let mut all = Vec::with_capacity(ends.len() * 4);
    for (c, s) in ends {
        *now += 50_000;
        c.cause = 77 << 24 | n;
        s.exchange = s.socket << 24 | (n + 1);
        all.push(c.send(*now, request));
        all.push(s.recv(*now + 10_000, request));
        all.push(s.send(*now + 20_000, response));
        all.push(c.recv(*now + 30_000, response));
    }
    all
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(ROUNDS, |n| n.parse().unwrap());
    let browser: String = (0..8).map(|i| format!("X-Header-{i}: some value of usual length\r\n")).collect();
    let long = format!("GET /api/v1/cart/7?full=1 HTTP/1.1\r\nHost: shop\r\nAccept: */*\r\n{browser}\r\n");
    let traced = "GET /cart HTTP/1.1\r\nHost: shop\r\n\
        traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nX-Request-ID: 7f3a\r\n\r\n";
    println!("{:<28} {:>12} {:>12} {:>20} {:>6}", "load", "ns per event", "ns per span", "clone+drop of span", "ratio");
    for (name, request, response) in [
        ("small request, 100 B body", get("/cart/7"), ok(100)),
        ("ten headers, 100 B body", long.into_bytes(), ok(100)),
        ("trace context, 100 B body", traced.as_bytes().to_vec(), ok(100)),
        ("small request, 20 kB body", get("/cart/7"), ok(20_000)),
        ("Redis GET", b"*2\r\n$3\r\nGET\r\n$6\r\ncart:7\r\n".to_vec(), b"$5\r\nhello\r\n".to_vec()),
    ] {
        let mut best: Option<(f64, f64)> = None;
        let mut sample = None;
        for _ in 0..5 {
            let mut ends: Vec<_> = (0..CONNECTIONS).map(|i| (End::client(2 * i + 1), End::server(2 * i + 2))).collect();
            let mut joiner = Joiner::new(JoinConfig::default(), 7, Box::new(Nobody));
            let (mut spans, mut bytes, mut count, mut took, mut now) = (0u64, 0u64, 0, 0, T0);
            for n in 0..rounds {
                let all = round(&mut ends, &mut now, n, &request, &response);
                count += all.len();
                let begin = cpu_ns();
                for e in all {
                    joiner.event(e, &mut |s: Span| {
                        spans += 1;
                        bytes = bytes.wrapping_add(s.response_bytes);
                        if sample.is_none() {
                            sample = Some(s);
                        }
                    });
                }
                took += cpu_ns() - begin;
            }
            assert_eq!(bytes, spans * response.len() as u64, "every response whole");
            let now = (took as f64 / count as f64, took as f64 / spans as f64);
            if best.is_none_or(|b| now.1 < b.1) {
                best = Some(now);
            }
        }
        let (event, span) = best.unwrap();
        let base = clone_ns(&sample.unwrap());
        println!("{name:<28} {event:>12.0} {span:>12.0} {base:>20.0} {:>6.1}", span / base);
    }
}
