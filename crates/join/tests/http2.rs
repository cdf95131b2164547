//! HTTP/2 over one connection: streams, facts that only trailers carry, and the ways into HTTP/2 and into WebSocket.
#![allow(clippy::unwrap_used)]

mod common;

use common::{End, Stage, MS, S, T0};
use wirespan_model::event::{by_stream, SocketChange, StreamCause};
use wirespan_model::{Event, Evidence, SocketId, Span, Status};

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, u8::try_from(payload.len()).unwrap(), kind, flags, 0, 0, 0, stream];
    bytes.extend(payload);
    bytes
}

/// HEADERS with these fields, none of which is inserted into the table.
fn headers(flags: u8, stream: u8, indexed: &[u8], literal: &[(&str, &str)]) -> Vec<u8> {
    let mut block = indexed.to_vec();
    for (name, value) in literal {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend(text.bytes());
        }
    }
    frame(1, flags | 4, stream, &block)
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// `POST http` and this path.
fn ask(stream: u8, path: &str, kind: &str) -> Vec<u8> {
    [headers(0, stream, &[0x83, 0x86], &[(":path", path), ("content-type", kind)]), frame(0, 1, stream, b"body")]
        .concat()
}

fn attr(span: &Span, key: &str) -> String {
    span.attrs.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v.to_string()).unwrap_or_default()
}

#[test]
fn interleaved_streams_find_their_responses_and_trailers() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    c.cut = 4096;
    let first = [PREFACE, &frame(4, 0, 0, b""), &ask(1, "/shop.Cart/Get", "application/grpc")].concat();
    stage.event(c.send(T0, &first));
    stage.event(c.send(T0 + MS, &ask(3, "/x", "text/plain")));
    let head = |stream| headers(0, stream, &[0x88], &[]);
    stage.event(c.recv(T0 + 2 * MS, &[frame(4, 0, 0, b""), head(3), head(1), frame(0, 0, 1, b"abc")].concat()));
    stage.event(c.recv(T0 + 3 * MS, &frame(0, 1, 3, b"abc")));
    stage.event(c.recv(T0 + 4 * MS, &headers(1, 1, &[], &[("grpc-status", "14"), ("grpc-message", "no%20more")])));
    let [x, get] = &stage.spans[..] else { panic!("{:#?}", stage.spans) };
    assert_eq!((x.protocol.as_ref(), x.name().as_str(), x.status_code), ("http2", "POST /x", Some(200)));
    assert_eq!((x.status, x.end_ns), (Status::Ok, T0 + 3 * MS));
    assert_eq!((get.protocol.as_ref(), get.name().as_str()), ("grpc", "shop.Cart/Get"));
    assert_eq!((get.status, get.status_code, &*get.error), (Status::ServerError, Some(14), "no more"));
    assert_eq!(get.end_ns, T0 + 4 * MS);
    assert_eq!(attr(get, "rpc.status_code"), "UNAVAILABLE");
}

#[test]
fn requests_that_share_a_connection_are_exchanges_of_their_own() {
    let mut stage = Stage::new();
    let mut s = End::server(1);
    s.cut = 4096;
    let x = 1 << 24;
    s.exchange = x | 1;
    stage.event(s.recv(T0, &[PREFACE, &frame(4, 0, 0, b""), &ask(1, "/a", "text/plain")].concat()));
    assert!(stage.verdicts().iter().all(|v| !v.shared), "one request at a time so far");
    s.exchange = x | 2;
    stage.event(s.recv(T0 + MS, &ask(3, "/b", "text/plain")));
    assert!(stage.verdicts().last().unwrap().shared);
    // Answers come in any order, long after other requests were read.
    s.exchange = x | 3;
    for stream in [3, 1] {
        stage.event(s.send(T0 + 2 * MS, &[headers(0, stream, &[0x88], &[]), frame(0, 1, stream, b"abc")].concat()));
    }
    let owned: Vec<_> =
        stage.spans.iter().map(|s| (&*s.target, s.exchange.unwrap().first, s.exchange.unwrap().last)).collect();
    assert_eq!(owned, [("/b", x | 2, x | 2), ("/a", x | 1, x | 1)]);
}

#[test]
fn a_cancelled_request_ends_when_it_is_cancelled() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    c.cut = 4096;
    stage.event(c.send(T0, &[PREFACE, &frame(4, 0, 0, b""), &ask(1, "/a", "text/plain")].concat()));
    stage.event(c.recv(T0 + MS, &frame(4, 0, 0, b"")));
    stage.event(c.send(T0 + 9 * MS, &frame(3, 0, 1, &[0, 0, 0, 8])));
    let [span] = &stage.spans[..] else { panic!("{:#?}", stage.spans) };
    assert_eq!((span.status, &*span.error, span.end_ns), (Status::ClientError, "RST_STREAM CANCEL", T0 + 9 * MS));
    // The answer under way belongs to no request.
    stage.event(c.recv(T0 + 10 * MS, &headers(1, 1, &[0x88], &[])));
    stage.finish();
    assert_eq!(stage.spans.len(), 1);
}

#[test]
fn a_request_that_upgrades_to_http2_is_answered_on_stream_1() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    c.cut = 4096;
    stage.event(c.send(T0, b"GET /up HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"));
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n".to_vec();
    let answer = [switch, frame(4, 0, 0, b""), headers(0, 1, &[0x8d], &[])].concat();
    stage.event(c.recv(T0 + MS, &answer));
    stage.event(c.send(T0 + 2 * MS, &[PREFACE, &frame(4, 0, 0, b""), &ask(3, "/next", "text/plain")].concat()));
    stage.event(c.recv(T0 + 3 * MS, &[frame(0, 1, 1, b"none"), headers(1, 3, &[0x88], &[])].concat()));
    let [up, next] = &stage.spans[..] else { panic!("{:#?}", stage.spans) };
    assert_eq!((up.name().as_str(), up.status_code, up.status), ("GET /up", Some(404), Status::ClientError));
    assert_eq!((up.start_ns, up.end_ns), (T0 - 1000, T0 + 3 * MS));
    assert_eq!((next.name().as_str(), next.status_code), ("POST /next", Some(200)));
    assert_eq!(stage.stat("no_request"), 0);
}

#[test]
fn websocket_messages_follow_the_upgrade_also_in_the_same_call() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    stage.event(c.send(T0, b"GET /ws HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"));
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n".as_slice();
    stage.event(c.recv(T0 + MS, &[switch, b"\x81\x05hello"].concat()));
    stage.event(c.send(T0 + 2 * MS, b"\x82\x85abcdefghi"));
    stage.event(c.send(T0 + 3 * MS, b"\x88\x82\0\0\0\0\x03\xe8"));
    stage.event(c.change(T0 + 4 * MS, SocketChange::Close));
    stage.tick(T0 + S);
    let seen: Vec<_> = stage.spans.iter().map(|s| (s.name(), s.status, s.status_code)).collect();
    assert_eq!(
        seen,
        [
            ("GET /ws".to_owned(), Status::Ok, Some(101)),
            ("text".to_owned(), Status::OneWay, None),
            ("binary".to_owned(), Status::OneWay, None),
            ("close".to_owned(), Status::OneWay, Some(1000)),
        ]
    );
    assert_eq!(stage.spans[1].request_bytes, 7);
}

#[test]
fn each_request_of_one_write_has_the_authoritative_cause_of_its_stream() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    (c.cut, c.cause) = (4096, 99); // what the writer acts for says nothing of the streams
    let tell = |socket, stream, cause, evidence| {
        Event::Stream(StreamCause { socket: SocketId(socket), stream, cause, evidence, time_ns: T0 })
    };
    stage.event(c.send(T0, &[PREFACE, &frame(4, 0, 0, b"")].concat()));
    let named = by_stream(7, 5).unwrap();
    stage.event(tell(1, 1, 40, Some(Evidence::EventLoop)));
    stage.event(tell(1, 3, named, Some(Evidence::Coroutine)));
    stage.event(tell(1, 5, 0, Some(Evidence::Inferred)));
    stage.event(tell(2, 7, 41, Some(Evidence::EventLoop))); // nobody knows that connection
    let asked: Vec<u8> = [1, 3, 5, 7].iter().flat_map(|s| ask(*s, "/x", "text/plain")).collect();
    stage.event(c.send(T0 + MS, &asked));
    let answer = |stream| headers(1, stream, &[0x88], &[]);
    stage.event(c.recv(T0 + 2 * MS, &[answer(1), answer(3), answer(5), answer(7)].concat()));
    let mut causes: Vec<_> = stage.spans.iter().map(|s| (s.message_id, s.cause, s.cause_evidence)).collect();
    causes.sort_unstable_by_key(|c| c.0);
    let expected = [
        (Some(1), Some(40), Some(Evidence::EventLoop)),
        (Some(3), Some(named), Some(Evidence::Coroutine)),
        (Some(5), None, Some(Evidence::Inferred)),
        (Some(7), Some(99), Some(Evidence::Thread)),
    ];
    assert_eq!(causes, expected);
    assert_eq!((stage.joiner.stats().stream_causes_in, stage.joiner.stats().stream_causes_lost), (4, 1));
}
