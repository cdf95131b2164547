#![allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::cast_possible_truncation
)]

mod join;

use super::chain::PREFACE;
use super::Http2;
use crate::testing::{c, cut, probe, s, tcp, tcp_to_the_end, Turn};
use crate::{Detect, Protocol};
use proptest::prelude::*;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = payload.len() as u32;
    let mut bytes = len.to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn literal(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        bytes.push(text.len() as u8);
        bytes.extend(text.bytes());
    }
    bytes
}

fn block(indexed: &[u8], fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = indexed.to_vec();
    for (name, value) in fields {
        bytes.extend(literal(name, value));
    }
    bytes
}

fn get(stream: u32, path: &str) -> Vec<u8> {
    let fields =
        [(":path", path), (":authority", "u:pw@shop.example:8080"), ("cookie", "canary"), ("user-agent", "t/1")];
    frame(1, 5, stream, &block(&[0x82, 0x87], &fields))
}

fn grpc(stream: u32, path: &str) -> Vec<u8> {
    let fields = [(":path", path), ("content-type", "application/grpc+proto"), ("x-request-id", "r-1")];
    [frame(1, 4, stream, &block(&[0x83, 0x86], &fields)), frame(0, 1, stream, b"\0\0\0\0\x03abc")].concat()
}

fn started(frames: &[Vec<u8>]) -> Turn {
    c([&PREFACE[..], &frame(4, 0, 0, b""), &frames.concat()].concat())
}

fn answered(frames: &[Vec<u8>]) -> Turn {
    s([frame(4, 0, 0, b""), frames.concat()].concat())
}

#[test]
fn a_request_and_its_response_share_a_stream() {
    let said = tcp(
        &Http2,
        &[
            started(&[get(1, "/cart/7?token=canary")]),
            answered(&[frame(1, 4, 1, &[0x8d]), frame(0, 0, 1, b"ca"), frame(0, 1, 1, b"nary")]),
        ],
    );
    assert!(said[0].starts_with("C req @33+"), "{}", said[0]);
    assert!(
        said[0].ends_with(
            " id=1 GET /cart/7 http.request.method=GET url.path=/cart/7 url.scheme=https server.address=shop.example \
             server.port=8080 user_agent.original=t/1 network.protocol.name=http network.protocol.version=2"
        ),
        "{}",
        said[0]
    );
    assert_eq!(
        said[1..],
        [
            "S resp @9+10 body=open id=1 status=404 ClientError http.response.status_code=404 \
             network.protocol.name=http network.protocol.version=2",
            "End Server @43 Some(1)",
        ]
    );
    assert!(!said.join("").contains("canary"));
}

#[test]
fn grpc_calls_end_with_their_trailers() {
    let said = tcp(
        &Http2,
        &[
            started(&[grpc(1, "/shop.Cart/Add"), grpc(3, "/shop.Cart/Get"), grpc(5, "/shop.Cart/Pay")]),
            answered(&[
                frame(1, 4, 1, &block(&[0x88], &[("content-type", "application/grpc")])),
                frame(0, 0, 1, b"\0\0\0\0\x01x"),
                frame(1, 5, 1, &block(&[], &[("grpc-status", "0")])),
                // Trailers only.
                frame(1, 5, 3, &block(&[0x88], &[("grpc-status", "13"), ("grpc-message", "lost \"canary\"%21")])),
                // No gRPC at all.
                frame(1, 5, 5, &[0x48, 3, b'5', b'0', b'2']),
            ]),
        ],
    );
    assert!(said[0].contains("id=1 shop.Cart/Add http.request.method=POST"), "{}", said[0]);
    assert!(said[0].contains("rpc.system.name=grpc rpc.method=shop.Cart/Add"), "{}", said[0]);
    assert_eq!(said[1], format!("End Client @{} Some(1)", 33 + grpc(1, "/shop.Cart/Add").len()));
    assert!(!said[6].contains(" status=") && !said[6].contains("Ok"), "{}", said[6]);
    assert!(said[7].contains("Some(1) status=0 Ok rpc.system.name=grpc rpc.status_code=OK"), "{}", said[7]);
    assert!(said[8].contains("id=3 status=13 ServerError error=\"lost"), "{}", said[8]);
    assert!(said[8].contains("error.type=INTERNAL") && !said[8].contains("canary"), "{}", said[8]);
    assert!(said[9].contains("id=5 status=502 ServerError"), "{}", said[9]);
}

/// gRPC's C library (Python, Ruby, C++, PHP) has a setting of its own, and its servers speak first.
#[test]
fn the_answers_of_a_server_with_experimental_settings_are_read_at_once() {
    let settings = [&[0, 4, 0, 0x40, 0, 0][..], &[0, 5, 0, 0x40, 0, 0], &[0xfe, 3, 0, 0, 0, 1]].concat();
    let first = [frame(4, 0, 0, &settings), frame(8, 0, 0, &[0, 0x3f, 0, 1])].concat();
    assert_eq!(Http2.detect(&probe(&first, b"")), Detect::Maybe);
    let answer = |stream: u32| {
        s([
            frame(1, 4, stream, &block(&[0x88], &[("content-type", "application/grpc")])),
            frame(0, 0, stream, b"\0\0\0\0\x01x"),
            frame(1, 5, stream, &block(&[], &[("grpc-status", "0")])),
        ]
        .concat())
    };
    let said = tcp(
        &Http2,
        &[s(first), started(&[grpc(1, "/shop.Cart/Add")]), answer(1), c(grpc(3, "/shop.Cart/Get")), answer(3)],
    );
    // Each answer comes before the next request.
    let place = |text: &str| said.iter().position(|line| line.contains(text)).unwrap_or_else(|| panic!("{said:?}"));
    assert!(place("End Server @120 Some(1)") < place("/shop.Cart/Get"), "{said:?}");
}

#[test]
fn padding_priority_continuations_and_interim_responses_are_read() {
    let whole = block(&[0x82, 0x86], &[(":path", "/long"), ("user-agent", "agent")]);
    let padded = [&[3, 0x80, 0, 0, 0, 16][..], &[0x82, 0x86, 0x84], &[0; 3]].concat();
    let said = tcp(
        &Http2,
        &[
            started(&[
                frame(1, 1, 1, &whole[..5]),
                frame(9, 0, 1, &whole[5..9]),
                frame(9, 4, 1, &whole[9..]),
                frame(1, 0x2d, 3, &padded),
                frame(2, 0, 5, &[0, 0, 0, 0, 1]),
                frame(0xbe, 0xff, 7, b"extension"),
            ]),
            answered(&[
                frame(1, 4, 1, &[0x48, 3, b'1', b'0', b'3']),
                frame(1, 5, 1, &[0x89]),
                frame(5, 4, 3, &[&[0, 0, 0, 2][..], &block(&[0x82, 0x86], &[(":path", "/style.css?canary")])].concat()),
                frame(1, 5, 2, &[0x88]),
                frame(1, 4, 3, &[0x88]),
                frame(0, 9, 3, &[2, b'x', 0, 0]),
            ]),
        ],
    );
    let short: Vec<_> = said.iter().map(|l| l.split(" http.").next().unwrap()).collect();
    assert!(short[0].ends_with("id=1 GET /long"), "{said:?}");
    assert!(short[1].ends_with("id=3 GET /"), "{said:?}");
    assert!(short[2].starts_with("S interim @9+14 id=1 status=103"), "{said:?}");
    assert!(short[3].ends_with("id=1 status=204 Ok"), "{said:?}");
    assert!(short[4].contains("oneway") && short[4].contains("id=2 PUSH /style.css "), "{said:?}");
    assert!(short[5].contains("id=3 status=200 Ok"), "{said:?}");
    assert!(short[6].starts_with("End Server @") && short[6].ends_with("Some(3)"), "{said:?}");
    assert_eq!(said.len(), 7, "{said:?}");
}

#[test]
fn resets_and_goaway_end_requests() {
    let reset = |stream, code: u8| frame(3, 0, stream, &[0, 0, 0, code]);
    let said = tcp(
        &Http2,
        &[
            started(&[get(1, "/1"), get(3, "/3"), get(5, "/5"), get(7, "/7"), get(9, "/9")]),
            answered(&[
                reset(1, 7),
                frame(1, 4, 3, &[0x88]),
                reset(3, 2),
                frame(1, 4, 5, &[0x88]),
                frame(7, 0, 0, &[0, 0, 0, 7, 0, 0, 0, 0, b'b', b'y', b'e']),
            ]),
            c([reset(5, 8), reset(7, 8)].concat()),
            s(frame(1, 5, 7, &[0x88])),
        ],
    );
    let rest = &said[5..];
    assert!(
        rest[0].contains("S resp") && rest[0].contains("id=1 ServerError error=\"RST_STREAM REFUSED_STREAM\""),
        "{rest:?}"
    );
    assert!(
        rest[2].contains("End Server") && rest[2].contains("Some(3) ServerError error=\"RST_STREAM INTERNAL_ERROR\"")
    );
    assert!(rest[4].contains("id=9 ServerError error=\"GOAWAY NO_ERROR\""), "{rest:?}");
    assert!(rest[5].starts_with("End Server") && rest[5].contains("Some(5) ClientError error=\"RST_STREAM CANCEL\""));
    assert!(rest[6].starts_with("End Client") && rest[6].contains("Some(7) ClientError"), "{rest:?}");
    assert_eq!(rest.len(), 7, "a late answer is nobody's: {rest:?}");
}

#[test]
fn fields_sent_before_the_join_are_named_as_unknown() {
    // POST http, and path, authority, content type from a table that was not seen.
    let joined = [frame(1, 4, 101, &[0x83, 0x86, 0xc4, 0xc3, 0xc2]), frame(0, 1, 101, b"\0\0\0\0\x01x")].concat();
    let back = [frame(1, 4, 101, &[0x88, 0xc0]), frame(0, 0, 101, b"x"), frame(1, 5, 101, &[0xbf, 0xbe])].concat();
    assert_eq!(Http2.detect(&probe(&joined[..14], b"")), Detect::Maybe);
    assert_eq!(Http2.detect(&probe(&joined, &back)), Detect::Yes { first_is_client: true });
    let said = tcp(&Http2, &[c(&joined), s(&back)]);
    assert_eq!(
        said[0],
        "C req @0+14 body=open id=101 POST http.request.method=POST url.scheme=http network.protocol.name=http \
         network.protocol.version=2 \
         wirespan.unknown=url.path,server.address,http.request.header.content-type"
    );
    assert!(said[2].contains("status=200 Ok"), "{said:?}");
    // Whether the trailers hold a gRPC status is not known either.
    assert_eq!(said[3], "End Server @32 Some(101) wirespan.unknown=rpc.status_code");
}

#[test]
fn gaps_are_skipped_inside_data_and_lose_the_table_elsewhere() {
    let mut long = started(&[get(1, "/a"), frame(1, 4, 3, &[0x83, 0x86, 0x84]), frame(0, 1, 3, &[7; 5000])]);
    let keep = long.1.len() - 4000;
    long.1.truncate(keep);
    let said = tcp(&Http2, &[(long.0, long.1.clone(), 4000), c(get(5, "/b"))]);
    assert_eq!(said.len(), 4, "{said:?}");
    assert!(said[2].starts_with("End Client") && said[3].contains("GET /b"), "{said:?}");
    // More is missing than the payload.
    let said = tcp(&Http2, &[(long.0, long.1, 4100), c(get(5, "/b"))]);
    assert_eq!(said[3], "Malformed Client http2_gap");
    assert!(said[4].contains("GET /b"), "{said:?}");
    // A header block cut in two.
    let block = get(7, "/cut");
    let said = tcp(
        &Http2,
        &[(started(&[]).0, [started(&[]).1, block[..20].to_vec()].concat(), block.len() as u64 - 20), c(get(9, "/c"))],
    );
    assert!(said[0].contains("id=7 GET") && said[0].contains("wirespan.truncated=true"), "{said:?}");
    assert!(said[0].contains("wirespan.unknown=url.path"), "{said:?}");
    assert!(said[1].contains("id=9 GET /c"), "{said:?}");
}

#[test]
fn connections_are_recognised_and_others_are_not() {
    let start = started(&[get(1, "/")]).1;
    assert_eq!(Http2.detect(&probe(&start, b"")), Detect::Yes { first_is_client: true });
    assert_eq!(Http2.detect(&probe(&frame(4, 0, 0, b""), &start)), Detect::Yes { first_is_client: false });
    assert_eq!(Http2.detect(&probe(b"PRI * HT", b"")), Detect::Maybe);
    for other in [
        &b"\x00\x00\x00\x18\x00\x12\x00\x03\x00\x00\x00\x01\x00\x05admin\x00\x00"[..],
        b"J\x00\x00\x00\x0a8.0.31\x00\x08\x00\x00\x00",
        b"GET / HTTP/1.1\r\n\r\n",
        &[0; 64],
    ] {
        assert_eq!(Http2.detect(&probe(other, other)), Detect::No);
    }
}

fn conversation() -> Vec<Turn> {
    vec![
        started(&[
            get(1, "/1"),
            grpc(3, "/a.B/C"),
            frame(1, 1, 5, &[0x82, 0x86]),
            frame(9, 4, 5, &[0x84]),
            get(7, "/7"),
        ]),
        answered(&[
            frame(1, 4, 1, &[0x88]),
            frame(1, 4, 3, &block(&[0x88], &[("content-type", "application/grpc")])),
            frame(0, 1, 1, &[9; 300]),
            frame(1, 5, 3, &block(&[], &[("grpc-status", "5")])),
            frame(3, 0, 5, &[0, 0, 0, 2]),
            frame(7, 0, 0, &[0, 0, 0, 5, 0, 0, 0, 1]),
        ]),
        c(frame(0, 0, 9, b"").repeat(3)),
    ]
}

proptest! {
    #[test]
    fn chunking_does_not_matter(cuts in prop::collection::vec(1usize..80, 1..20), skip in 0usize..60) {
        let mut whole = conversation();
        whole[0].1.drain(..skip);
        prop_assert_eq!(tcp_to_the_end(&Http2, &whole), tcp_to_the_end(&Http2, &cut(&whole, &cuts)));
    }

    #[test]
    fn flips_cuts_and_gaps_never_panic(
        flips in prop::collection::vec((0usize..2_000, any::<u8>()), 0..8),
        cuts in prop::collection::vec(1usize..200, 1..20),
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
        tcp_to_the_end(&Http2, &pieces);
    }
}
