#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

mod gaps;

use super::Http1;
use crate::testing::{c, cut, probe, s, tcp, Turn};
use crate::{Detect, Parser, Protocol, MAX_BUFFERED};
use proptest::prelude::*;
use wirespan_model::{Chunk, Item, Side, Transport};

fn say(turns: &[Turn]) -> Vec<String> {
    tcp(&Http1, turns)
}

#[test]
fn a_request_and_its_response_are_read() {
    let said = say(&[
        c("GET /cart/7?token=geheim#x HTTP/1.1\r\nHost: shop.example:8080\r\nUser-Agent: t/1\r\nCookie: a=b\r\n\r\n"),
        s("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
    ]);
    assert_eq!(
        said,
        [
            "C req @0+94 GET /cart/7 http.request.method=GET url.path=/cart/7 server.address=shop.example \
            server.port=8080 \
             user_agent.original=t/1 network.protocol.version=1.1",
            "S resp @0+38 body=5 status=200 Ok http.response.status_code=200 network.protocol.version=1.1 \
             http.response.body.size=5",
        ]
    );
    assert!(!said.join(" ").contains("geheim"));
}

/// No standard has these versions; servers of devices send them.
#[test]
fn odd_versions_are_read() {
    let turns = [
        c("GET /a HTTP/1.2\r\n\r\nGET /b HTTP/1.0.8\r\n\r\n"),
        s("HTTP/1.0.8 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.0.8 404\r\nContent-Length: 0\r\n\r\n"),
    ];
    let whole = say(&turns);
    let short: Vec<_> = whole.iter().map(|l| l.split(" http.").next().unwrap()).collect();
    assert_eq!(
        short,
        [
            "C req @0+19 GET /a",
            "C req @19+21 GET /b",
            "S resp @0+40 status=200 Ok",
            "S resp @40+37 status=404 ClientError",
        ]
    );
    for cuts in [&[1][..], &[9, 2], &[12]] {
        assert_eq!(say(&cut(&turns, cuts)), whole, "cut at {cuts:?}");
    }
    assert_eq!(crate::testing::claimed(b"HTTP/1.0.8 200 OK\r\n", b""), Some(("http", false)));
    for other in ["GET / HTTP/2.0\r\n", "GET / HTTP/1.x\r\n", "GET / HTTP/1.\r\n", "HTTP/1.0.8.9.1.2 200 OK\r\n"] {
        assert_eq!(crate::testing::claimed(other.as_bytes(), b""), None, "{other}");
    }
}

#[test]
fn keep_alive_and_pipelining_keep_their_offsets() {
    let said = say(&[
        c("POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /b HTTP/1.1\r\n\r\nGET /c HTTP/1.0\r\n\r\n"),
        s("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno"),
        s("HTTP/1.0 503 Busy\r\n\r\nuntil the close"),
    ]);
    let short: Vec<_> = said.iter().map(|l| l.split(" http.").next().unwrap()).collect();
    assert_eq!(
        short,
        [
            "C req @0+39 body=3 POST /a",
            "C req @42+19 GET /b",
            "C req @61+19 GET /c",
            "S resp @0+43 status=201 Ok",
            "S resp @43+38 body=2 status=404 ClientError",
            "S resp @83+21 body=open status=503 ServerError",
        ]
    );
}

#[test]
fn chunked_bodies_end_behind_their_trailers() {
    let said = say(&[
        c("POST /up HTTP/1.1\r\nTransfer-Encoding: gzip, \
        Chunked\r\n\r\n4;ext=\"x\"\r\nWiki\r\nA\r\n0123456789\r\n0\r\nX-T: 1\r\n\r\n"),
        c("GET / HTTP/1.1\r\n\r\n"),
    ]);
    assert!(said[0].starts_with("C req @0+55 body=open POST /up"), "{}", said[0]);
    assert_eq!(said[1], "End Client @100 None");
    assert!(said[2].starts_with("C req @100+18 GET /"), "{}", said[2]);
}

#[test]
fn head_204_304_and_interim_responses_have_no_body() {
    let said = say(&[
        c("HEAD / HTTP/1.1\r\n\r\nPUT /x HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"),
        s("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"),
        c("y"),
        s("HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\nHTTP/1.1 200 \
        OK\r\n\r\n"),
    ]);
    let kinds: Vec<_> = said.iter().map(|l| l.split(" http.").next().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "C req @0+19 HEAD /",
            "C req @19+60 body=1 PUT /x",
            "S resp @0+41 status=200 Ok",
            "S interim @41+25 status=100",
            "S resp @66+27 status=204 Ok",
            "S resp @93+48 status=304 Ok",
            "S resp @141+19 body=open status=200 Ok",
        ]
    );
}

#[test]
fn a_refused_body_is_not_waited_for() {
    for body in ["", "ten bytes.\n"] {
        let said = say(&[
            c("PUT /x HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n"),
            s("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"),
            c(format!("{body}GET /y HTTP/1.1\r\n\r\n")),
        ]);
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[2].contains("GET /y"), "{said:?}");
    }
}

#[test]
fn upgrades_and_tunnels_end_http() {
    let websocket = say(&[
        c("GET /chat HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"),
        s(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\n\r\n\x81\x05HTTP/"),
        c("GET / HTTP/1.1\r\n\r\n"),
    ]);
    assert_eq!(websocket.len(), 3, "{websocket:?}");
    assert!(websocket[1].starts_with("S resp @0+56 status=101 Ok"), "{}", websocket[1]);
    assert_eq!(websocket[2], "Upgrade websocket");

    let tunnel = say(&[
        c("CONNECT user:pw@db.example:443 HTTP/1.1\r\nHost: x\r\n\r\n"),
        s("HTTP/1.1 200 Connection established\r\n\r\n"),
        c("\x16\x03\x01"),
    ]);
    assert_eq!(tunnel.len(), 3, "{tunnel:?}");
    assert!(tunnel[0]
        .contains("CONNECT db.example:443 http.request.method=CONNECT server.address=db.example server.port=443"));
    assert_eq!(tunnel[2], "Upgrade ");

    let refused = say(&[
        c("CONNECT h:1 HTTP/1.1\r\n\r\n"),
        s("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"),
        c("CONNECT h:1 HTTP/1.1\r\n\r\n"),
    ]);
    assert_eq!(refused.len(), 3, "{refused:?}");
}

#[test]
fn request_targets_keep_no_secrets() {
    let target = |line: &str| {
        let said = say(&[c(format!("{line} HTTP/1.1\r\nHost: h\r\n\r\n"))]);
        said[0].split(" network.").next().unwrap().to_owned()
    };
    assert_eq!(
        target("GET http://bob:pw@[2001:db8::1]:81/p?q=1"),
        "C req @0+62 GET /p http.request.method=GET url.path=/p url.scheme=http server.address=2001:db8::1 \
        server.port=81"
    );
    assert!(target("GET HTTPS://h.example").contains("GET / http.request.method=GET url.path=/ url.scheme=https"));
    assert!(target("OPTIONS *").contains("OPTIONS * "));
    assert!(target("GET /app;JSESSIONID=4711/x").contains("url.path=/app "));
    assert!(target("GET /m;v=1/x").contains("url.path=/m;v=1/x "));
    assert!(target("PROPFIND /dav").contains("PROPFIND /dav http.request.method=PROPFIND"));
    let odd = target("BREW /pot");
    assert!(odd.contains("HTTP /pot http.request.method=_OTHER http.request.method_original=BREW"), "{odd}");
}

#[test]
fn bare_line_ends_and_folded_lines_are_accepted() {
    let said =
        say(&[c("\r\n\nGET /lf HTTP/1.1\nhOsT:\tname\nTransfer-Encoding:\r\n chunked\nUser-Agent: a\r\n\tb\n\n0\n\n")]);
    assert!(said[0].starts_with("C req @3+76 body=open GET /lf"), "{}", said[0]);
    assert!(said[0].contains("server.address=name"), "{}", said[0]);
    assert!(said[0].contains("user_agent.original=a   b"), "{}", said[0]);
    assert_eq!(said[1], "End Client @82 None");
}

#[test]
fn long_heads_are_emitted_truncated_and_the_next_message_is_found() {
    let pad = "x".repeat(3 * MAX_BUFFERED);
    for framed in [true, false] {
        let length = if framed { "Content-Length: 4\r\n" } else { "" };
        let body = if framed { "body" } else { "" };
        let said = say(&[c(format!(
            "POST /big HTTP/1.1\r\nHost: h\r\n{length}X-Pad: {pad}\r\nX-More: {pad}\r\n\r\n{body}GET /next \
            HTTP/1.1\r\n\r\n"
        ))]);
        assert_eq!(said[0], "Malformed Client http_head_too_long");
        assert!(said[1].contains("body=open POST /big"), "{}", said[1]);
        assert!(said[1].contains("server.address=h"), "{}", said[1]);
        assert!(said[1].contains("wirespan.truncated=true"), "{}", said[1]);
        assert_eq!(said.len(), if framed { 4 } else { 3 }, "{said:?}");
        assert!(said.last().unwrap().contains("GET /next"), "{said:?}");
    }
}

#[test]
fn a_long_request_line_is_emitted_truncated() {
    let said = say(&[c(format!("GET /{} HTTP/1.1\r\n\r\nGET /next HTTP/1.1\r\n\r\n", "y".repeat(2 * MAX_BUFFERED)))]);
    assert_eq!(said[0], "Malformed Client http_head_too_long");
    assert!(said[1].contains("GET /yyy") && said[1].contains("wirespan.truncated=true"));
    assert!(said[1].len() < 5000);
    assert!(said[2].contains("GET /next"), "{said:?}");
}

#[test]
fn nonsense_is_counted_once_and_skipped() {
    let said = say(&[c("BLA BLA\r\nmore\r\nGET /ok HTTP/1.1\r\n\r\n"), s("220 mail ready\r\nHTTP/1.1 200 OK\r\n\r\n")]);
    assert_eq!(said.len(), 4, "{said:?}");
    assert_eq!(said[0], "Malformed Client http_bad_request_line");
    assert!(said[1].starts_with("C req @15+20 GET /ok"), "{}", said[1]);
    assert_eq!(said[2], "Malformed Server http_bad_status_line");
    assert!(said[3].starts_with("S resp @16+19"), "{}", said[3]);
    // In search of a request, an unknown method is none.
    assert_eq!(say(&[c("BLA BLA\r\nand so GET /x HTTP/1.1\r\n\r\n")]), ["Malformed Client http_bad_request_line"]);
}

#[test]
fn bad_framing_is_counted() {
    let reason = |head: &str| say(&[c(head)]).into_iter().find(|l| l.starts_with("Malformed")).unwrap_or_default();
    assert!(reason("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n").contains("content_length"));
    assert!(reason("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n").contains("content_length"));
    assert!(reason("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n").contains("content_length"));
    assert_eq!(reason("POST / HTTP/1.1\r\nContent-Length: 2, 2\r\n\r\nab"), "");
    assert!(reason("POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n").contains("transfer_encoding"));
    assert!(reason("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n").contains("chunk_size"));
    assert!(reason(
        "POST / HTTP/1.1\r\nTransfer-Encoding: \
    chunked\r\n\r\n11111111111111111\r\n"
    )
    .contains("chunk_size"));
    assert!(reason("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc").contains("chunk_end"));
}

#[test]
fn trace_context_is_carried() {
    let said = say(&[
        c("GET / HTTP/1.1\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nX-Request-ID: \
        r-1\r\n\r\n"),
        c("GET / HTTP/1.1\r\nX-B3-TraceId: 463ac35c9f6413ad\r\nX-B3-SpanId: a2fb4a1d1a96d312\r\nX-B3-Sampled: \
        0\r\n\r\n"),
    ]);
    assert!(said[0].contains("trace_id: Some([10, 247, 101, 25,"), "{}", said[0]);
    assert!(
        said[0].contains("span_id: Some([183, 173, 107, 113, 105, 32, 51, 49]), sampled: Some(true)"),
        "{}",
        said[0]
    );
    assert!(said[0].contains("request_id: Some(\"r-1\")"), "{}", said[0]);
    assert!(said[1].contains("trace_id: Some([0, 0, 0, 0, 0, 0, 0, 0, 70, 58,"), "{}", said[1]);
    assert!(said[1].contains("sampled: Some(false)"), "{}", said[1]);
}

#[test]
fn connections_are_recognised_and_others_are_not() {
    let yes = |first_is_client| Detect::Yes { first_is_client };
    let ask = |first: &str, second: &str| Http1.detect(&probe(first.as_bytes(), second.as_bytes()));
    assert_eq!(ask("GET / HTTP/1.1\r\n", ""), yes(true));
    assert_eq!(ask("BREW /pot HTTP/1.0\r\n", ""), yes(true));
    assert_eq!(ask("HTTP/1.1 200 OK\r\n", ""), yes(false));
    assert_eq!(ask("GET /very/long", ""), Detect::Maybe);
    assert_eq!(ask("GET /very/long", "HTTP/1.1 200 OK"), yes(true));
    assert_eq!(ask("PO", ""), Detect::Maybe);
    assert_eq!(ask("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET / HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK"), yes(true));
    assert_eq!(ask("tail of a body", "GET / HTTP/1.1\r\n"), yes(false));
    for other in ["PRI * HTTP/2.0\r\n\r\n", "OPTIONS rtsp://x RTSP/1.0\r\n", "INVITE sip:a SIP/2.0\r\n", "GET key\r\n"]
    {
        assert_eq!(ask(other, "RTSP/1.0 200 OK\r\n"), Detect::No, "{other}");
    }
    let mut datagram = probe(b"M-SEARCH * HTTP/1.1\r\n\r\n", b"");
    datagram.transport = Transport::Udp;
    assert_eq!(Http1.detect(&datagram), Detect::No);
}

/// A conversation with everything in it.
pub(super) fn conversation() -> Vec<Turn> {
    let long = format!("GET /long HTTP/1.1\r\nX-Long: {}\r\n\r\n", "z".repeat(MAX_BUFFERED));
    vec![
        c("POST /a?b HTTP/1.1\r\nHost: h:1\r\nContent-Length: 11\r\n\r\nhello world"),
        s("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: \
        chunked\r\n\r\n5\r\nabcde\r\n1a;x\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nT: 1\r\n\r\n"),
        c("HEAD /h HTTP/1.1\nHost: x\n\nGET /p HTTP/1.1\r\nX-Request-Id: 1\r\n folded\r\n\r\n"),
        s("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nHTTP/1.1 500 Oh\r\nContent-Length: 3\r\n\r\nbad"),
        c(long),
        s("HTTP/1.1 431 Too Large\r\n\r\nclosing"),
        c("nonsense line\r\nGET /after HTTP/1.1\r\n\r\n"),
        s("HTTP/1.0 200 OK\r\n\r\n"),
    ]
}

proptest! {
    #[test]
    fn chunking_does_not_matter(cuts in prop::collection::vec(1usize..200, 1..20)) {
        let whole = conversation();
        prop_assert_eq!(say(&whole), say(&cut(&whole, &cuts)));
    }

    #[test]
    fn flips_cuts_and_gaps_never_panic(
        flips in prop::collection::vec((0usize..20_000, any::<u8>()), 0..8),
        cuts in prop::collection::vec(1usize..600, 1..20),
        gaps in prop::collection::vec(prop_oneof![Just(0u64), 1u64..100, Just(u64::MAX)], 1..20),
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
        say(&pieces);
    }

    #[test]
    fn offsets_of_messages_rise(bytes in prop::collection::vec(any::<u8>(), 0..400), gap in 0u64..50) {
        let mut parser = Http1.parser(Transport::Tcp);
        let mut last = 0;
        let mut total = 0;
        for piece in [b"GET / HTTP/1.1\r\n\r\n", bytes.as_slice(), b"\r\nGET /z HTTP/1.1\r\n\r\n"] {
            total += piece.len() as u64 + gap;
            let chunk = Chunk { side: Side::Client, bytes: piece, missing: gap };
            parser.feed(chunk, &mut |item| if let Item::Message(m) = item {
                assert!(m.offset >= last && m.offset + m.head_len <= total);
                last = m.offset + m.head_len;
            });
        }
    }
}

#[test]
fn buffers_are_bounded() {
    let mut parser = Http1.parser(Transport::Tcp);
    let feed = |side, bytes: &[u8], parser: &mut dyn Parser| {
        parser.feed(Chunk { side, bytes, missing: 0 }, &mut |_| {});
        assert!(parser.buffered() <= 2 * MAX_BUFFERED);
    };
    feed(Side::Client, b"GET / HTTP/1.1\r\n", &mut *parser);
    feed(Side::Server, b"HTTP/1.1 200 OK\r\n", &mut *parser);
    for _ in 0..10_000 {
        feed(Side::Client, b"X-A: bcdefgh\r\n", &mut *parser);
        feed(Side::Server, b"X-A: bcdefgh\r\n", &mut *parser);
    }
}
