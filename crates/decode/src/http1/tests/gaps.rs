//! Bytes that were not captured.
#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use crate::http1::state::Tail;
use crate::http1::Http1;
use crate::testing::{c, s, say, tcp, tcp_to_the_end, Turn};
use crate::{OpenEnd, Protocol};
use wirespan_model::{Side, Transport};

fn gap(turn: Turn, missing: u64) -> Turn {
    (turn.0, turn.1, missing)
}

fn short(turns: &[Turn]) -> Vec<String> {
    let said = tcp(&Http1, turns);
    said.iter().map(|l| l.split(" http.").next().unwrap().to_owned()).collect()
}

#[test]
fn a_body_of_known_length_is_skipped_exactly() {
    let said = short(&[
        gap(c("PUT /x HTTP/1.1\r\nContent-Length: 1000\r\n\r\nabc"), 900),
        c("d".repeat(97) + "GET /y HTTP/1.1\r\n\r\n"),
        gap(s("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"), 7),
        s("HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"),
    ]);
    assert_eq!(
        said,
        [
            "C req @0+41 body=1000 PUT /x",
            "C req @1041+19 GET /y",
            "S resp @0+38 body=7 status=200 Ok",
            "S resp @45+38 status=500 ServerError",
        ]
    );
}

#[test]
fn more_missing_than_the_body_loses_the_place_and_finds_it_again() {
    let said = short(&[
        gap(c("PUT /x HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc"), 50),
        c("rest of a head\r\n\r\nGET /y HTTP/1.1\r\n\r\n"),
    ]);
    assert_eq!(said, ["C req @0+39 body=10 PUT /x", "Malformed Client http_gap", "C req @110+19 GET /y"]);
}

#[test]
fn a_cut_head_is_emitted_as_far_as_it_was_captured() {
    let said = tcp(
        &Http1,
        &[
            gap(c("GET /cut HTTP/1.1\r\nHost: h\r\nUser-Agent: incompl"), 100),
            gap(s("HTTP/1.1 404 Not Found\r\nServ"), 30),
            c("GET /next HTTP/1.1\r\n\r\n"),
            s("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        ],
    );
    assert_eq!(
        said,
        [
            "Malformed Client http_head_gap",
            "C req @0+47 body=open GET /cut http.request.method=GET url.path=/cut server.address=h \
             network.protocol.version=1.1 wirespan.truncated=true",
            "Malformed Server http_head_gap",
            "S resp @0+28 body=open status=404 ClientError http.response.status_code=404 network.protocol.version=1.1 \
             wirespan.truncated=true",
            "C req @147+22 GET /next http.request.method=GET url.path=/next network.protocol.version=1.1",
            "S resp @58+38 status=200 Ok http.response.status_code=200 network.protocol.version=1.1 \
             http.response.body.size=0",
        ]
    );
}

#[test]
fn a_cut_request_line_is_emitted_too_even_after_a_gap() {
    let said = short(&[gap(c("GET /one/very/lo"), 100), gap(c("GET /two/very/lo"), 100), gap(c("{\"json\":1"), 5)]);
    assert_eq!(
        said,
        [
            "Malformed Client http_head_gap",
            "C req @0+16 body=open GET /one/very/lo",
            "Malformed Client http_head_gap",
            "C req @116+16 body=open GET /two/very/lo",
        ]
    );
}

#[test]
fn a_cut_head_in_pieces_says_the_same() {
    let whole = tcp(&Http1, &[gap(c("GET /cut HTTP/1.1\r\nHost: h\r\nUser-"), 9), c("GET /n HTTP/1.1\r\n\r\n")]);
    let pieces =
        tcp(&Http1, &[c("GET /cut HT"), c("TP/1.1\r\nHost: h\r\nU"), gap(c("ser-"), 9), c("GET /n HTTP/1.1\r\n\r\n")]);
    assert_eq!(whole, pieces);
}

#[test]
fn gaps_inside_a_chunk_are_skipped_exactly() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let said = short(&[
        c("GET / HTTP/1.1\r\n\r\n"),
        gap(s(format!("{head}400\r\nabc")), 1000),
        s("x".repeat(21) + "\r\n0\r\n\r\n"),
    ]);
    assert_eq!(said[2], format!("End Server @{} None", head.len() + 5 + 1024 + 7));
}

#[test]
fn a_gap_up_to_the_last_chunk_ends_the_body() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let said = short(&[
        c("GET / HTTP/1.1\r\n\r\n"),
        gap(s(format!("{head}400\r\nabc")), 1021 + 7),
        c("GET / HTTP/1.1\r\n\r\n"),
        s("HTTP/1.1 204 No Content\r\n\r\n"),
    ]);
    let end = head.len() + 5 + 1024 + 7;
    assert_eq!(said[2], format!("End Server @{end} None"));
    assert_eq!(said[5], format!("S resp @{end}+27 status=204 Ok"));
}

#[test]
fn gaps_over_chunk_boundaries_resynchronise_at_the_last_chunk() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let said = short(&[
        c("GET / HTTP/1.1\r\n\r\n"),
        gap(s(format!("{head}400\r\nabc")), 5000),
        s("more data\r\n0\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"),
    ]);
    assert_eq!(said[2], "Malformed Server http_gap");
    assert!(said[3].starts_with("End") && said[4].contains("status=204"), "{said:?}");
}

#[test]
fn a_response_without_length_to_an_unseen_request_does_not_swallow_the_next() {
    // The first request may have been a HEAD; a client that asks again shows that the response had ended.
    let said = short(&[
        s("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"),
        c("GET / HTTP/1.1\r\n\r\n"),
        s("HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"),
    ]);
    assert_eq!(said.len(), 3);
    assert!(said[2].contains("status=500"), "{said:?}");
    let said = short(&[
        c("GET / HTTP/1.1\r\n\r\n"),
        s("HTTP/1.1 200 OK\r\n\r\n"),
        c("GET / HTTP/1.1\r\n\r\n"),
        s("HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"),
    ]);
    assert!(said[3].contains("status=500"), "{said:?}");
}

#[test]
fn lengths_without_bytes_are_one_gap() {
    let said = short(&[gap(c(""), 500), gap(c(""), 500), c("GET / HTTP/1.1\r\n\r\n")]);
    assert_eq!(said, ["Malformed Client http_gap", "C req @1000+18 GET /"]);
}

#[test]
fn an_answer_brings_out_a_request_that_is_not_complete() {
    // The rest comes late: it is passed over, and the body is known.
    let said = short(&[
        c("POST /slow HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nX-Pa"),
        s("HTTP/1.1 431 Too Large\r\nContent-Length: 0\r\n\r\n"),
        c("d: x\r\n\r\nbodyGET /next HTTP/1.1\r\n\r\n"),
    ]);
    assert_eq!(
        said,
        [
            "Malformed Client http_head_unfinished",
            "C req @0+53 body=open POST /slow",
            "S resp @0+45 status=431 ClientError",
            "End Client @65 None",
            "C req @65+22 GET /next",
        ]
    );
    // Not while another request waits for its answer.
    let said = short(&[c("GET /a HTTP/1.1\r\n\r\nGET /b HTTP"), s("HTTP/1.1 204 No\r\n\r\n"), c("/1.1\r\n\r\n")]);
    assert_eq!(said, ["C req @0+19 GET /a", "S resp @0+19 status=204 Ok", "C req @19+19 GET /b"]);
}

#[test]
fn the_end_of_the_connection_emits_incomplete_heads() {
    let said = tcp_to_the_end(&Http1, &[c("GET /a HTTP/1.1\r\n\r\nGET /never/en"), s("HTTP/1.1 200 OK\r\nServ")]);
    assert_eq!(said.len(), 5, "{said:?}");
    assert!(said[2].starts_with("C req @19+13 body=open GET /never/en"), "{}", said[2]);
    assert!(said[4].starts_with("S resp @0+21 body=open status=200 Ok"), "{}", said[4]);
    assert!(tcp_to_the_end(&Http1, &[c("GE")]).is_empty());
}

/// What is known of the end of an answer in chunks after these calls, and the ends that were told.
fn streamed(calls: &[Turn]) -> (OpenEnd, Vec<String>) {
    let mut parser = Http1.parser(Transport::Tcp);
    say(&mut *parser, &[c("GET /events HTTP/1.1\r\n\r\n")]);
    let said = say(&mut *parser, calls);
    let ends = said.into_iter().filter(|l| l.starts_with("End") || l.starts_with("Malformed")).collect();
    (parser.open_end(Side::Server), ends)
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
const HOLE: &str = "Malformed Server http_gap";

#[test]
fn calls_of_one_long_chunk_each_lose_no_place() {
    // 1000 bytes, of which 4 are seen, and the line end.
    let calls = [s(CHUNKED), gap(s("3e8\r\naaaa"), 998), gap(s("3e8\r\naaaa"), 998)];
    assert_eq!(streamed(&calls), (OpenEnd::Comes, vec![]));
    let all = [&calls[..], &[s("0\r\n\r\n")]].concat();
    let (end, ends) = streamed(&all);
    assert_eq!((end, ends.len()), (OpenEnd::Other, 1), "{ends:?}");
}

#[test]
fn a_call_that_begins_with_a_chunk_tells_the_place_again() {
    let lost = [s(CHUNKED), gap(s("3e8\r\naaaa"), 2000)];
    let and = |call: Turn| streamed(&[&lost[..], &[call]].concat());
    assert_eq!(streamed(&lost), (OpenEnd::Lost, vec![HOLE.to_owned()]));
    assert_eq!(and(gap(s("3e8\r\nbbbb"), 998)).0, OpenEnd::Comes);
    assert_eq!(and(s("5\r\nhello\r\n")).0, OpenEnd::Comes);
    assert_eq!(and(s("0\r\n\r\n")).0, OpenEnd::Other);
    assert_eq!(and(s("and so on\r\n0\r\n\r\n")).0, OpenEnd::Other);
    // No chunks.
    for other in ["5\r\nhello you\r\n", "5\nhello\r\n", "data: 5\r\nhello\r\n", "\r\n", "0\r\nx"] {
        assert_eq!(and(s(other)), (OpenEnd::Lost, vec![HOLE.to_owned()]), "{other:?}");
    }
}

#[test]
fn however_often_chunks_are_missing_it_is_told_once() {
    let mut calls = vec![s(CHUNKED)];
    (0..200).for_each(|_| calls.push(gap(s("3e8\r\naaaa"), 2000)));
    assert_eq!(streamed(&calls), (OpenEnd::Lost, vec![HOLE.to_owned()]));
}

#[test]
fn after_missing_chunks_the_next_answer_is_found() {
    let next = "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n";
    let asked = c("GET / HTTP/1.1\r\n\r\n");
    let lost = [asked.clone(), s(CHUNKED), gap(s("3e8\r\naaaa"), 2000)];
    for more in [vec![asked.clone(), s(next)], vec![s(next)]] {
        let said = tcp(&Http1, &[&lost[..], &more].concat());
        assert!(said.iter().any(|l| l.contains("status=404")), "{said:?}");
    }
}

#[test]
fn the_last_chunk_is_found_wherever_calls_are_cut() {
    let body = b"0\r\n0\r\n\r\r\n\r\n00\r\n\n\r\n0\r\n0\r\n0\r\n\r\n";
    for cut in 1..body.len() {
        let taken = match Tail::default().end(&body[..cut]) {
            Ok(taken) => taken,
            Err(tail) => cut + tail.end(&body[cut..]).unwrap(),
        };
        assert_eq!(taken, body.len(), "cut at {cut}");
    }
}
