//! The hot path does not allocate: once a connection has warmed up, reading messages takes no memory from the heap.
#![allow(clippy::unwrap_used, clippy::arithmetic_side_effects, clippy::indexing_slicing)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use wirespan_decode::{dns::Dns, http1::Http1, redis::Redis, Protocol};
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

#[test]
fn dns() {
    let query: &[u8] = b"\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x03org\x00\x00\x01\x00\x01";
    let answer: &[u8] =
        b"\x00\x01\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00\x03www\x07example\x03org\x00\x00\x01\x00\x01\
        \xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x0a\x00\x00\x01";
    let turns = [(Side::Client, query, 0), (Side::Server, answer, 0)];
    assert_eq!(run(&Dns, Transport::Udp, &turns), (200, 0));
}
