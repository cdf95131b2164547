//! Connections that change their protocol: nothing between the two is lost.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use common::{End, Stage, MS, S, T0};
use wirespan_join::CopyRule;
use wirespan_model::event::SocketChange;
use wirespan_model::semconv::attributes;
use wirespan_model::{Span, Status};

const PROXY: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n";
const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

fn attribute(span: &Span, key: &str) -> Option<String> {
    attributes(span).iter().find(|(k, _)| k == key).map(|(_, v)| v.to_string())
}

fn protocols(stage: &Stage) -> Vec<(String, String)> {
    stage.spans.iter().map(|s| (s.protocol.to_string(), s.operation.to_string())).collect()
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[test]
fn a_proxy_header_and_a_request_may_share_a_call() {
    let mut stage = Stage::new();
    let mut server = End::server(1);
    stage.event(server.recv(T0, &[PROXY, GET].concat()));
    stage.event(server.send(T0 + MS, OK));
    stage.event(server.recv(T0 + 2 * MS, GET));
    stage.event(server.send(T0 + 3 * MS, OK));
    stage.event(server.change(T0 + 4 * MS, SocketChange::Close));
    stage.tick(T0 + S);
    assert_eq!(protocols(&stage), pairs(&[("proxy", "PROXY"), ("http", "GET"), ("http", "GET")]));
    for span in &stage.spans {
        assert_eq!(attribute(span, "client.address").as_deref(), Some("192.0.2.7"));
        assert_eq!(attribute(span, "client.port").as_deref(), Some("4711"));
        assert_eq!(attribute(span, "network.peer.address").as_deref(), Some("10.0.0.1"), "the proxy itself");
    }
    let http = &stage.spans[1];
    assert_eq!((http.status, http.status_code, http.request_bytes), (Status::Ok, Some(200), GET.len() as u64));
    // The sequence goes on behind the header: that is what client and server spans are joined by.
    assert_eq!(http.request_seq, Some(1000 + PROXY.len() as u32));
    assert_eq!(http.start_ns, T0);
}

#[test]
fn a_proxy_header_may_come_in_pieces() {
    for at in 1..PROXY.len() + GET.len() {
        let mut stage = Stage::new();
        let mut server = End::server(1);
        let all = [PROXY, GET].concat();
        stage.event(server.recv(T0, &all[..at]));
        stage.event(server.recv(T0 + 1, &all[at..]));
        stage.event(server.send(T0 + MS, OK));
        stage.event(server.change(T0 + 4 * MS, SocketChange::Close));
        stage.tick(T0 + S);
        assert_eq!(protocols(&stage), pairs(&[("proxy", "PROXY"), ("http", "GET")]), "cut at {at}");
        assert_eq!(stage.spans[1].status, Status::Ok, "cut at {at}");
        assert_eq!(stage.spans[1].request_seq, Some(1000 + PROXY.len() as u32), "cut at {at}");
    }
}

#[test]
fn a_request_through_socks_is_read() {
    let mut stage = Stage::new();
    let mut client = End::client(1);
    stage.event(client.send(T0, b"\x05\x01\x00"));
    stage.event(client.recv(T0 + MS, b"\x05\x00"));
    stage.event(client.send(T0 + 2 * MS, b"\x05\x01\x00\x03\x09shop.test\x00\x50"));
    stage.event(client.recv(T0 + 3 * MS, b"\x05\x00\x00\x01\x0a\x00\x00\x01\x04\x38"));
    stage.event(client.send(T0 + 4 * MS, GET));
    stage.event(client.recv(T0 + 5 * MS, OK));
    stage.event(client.change(T0 + 6 * MS, SocketChange::Close));
    stage.tick(T0 + S);
    assert_eq!(protocols(&stage), pairs(&[("socks", "NEGOTIATE"), ("socks", "CONNECT"), ("http", "GET")]));
    assert_eq!(attribute(&stage.spans[2], "wirespan.socks.target").as_deref(), Some("shop.test:80"));
    assert!(stage.spans.iter().all(|s| s.status == Status::Ok));
}

#[test]
fn a_server_may_speak_first_behind_the_proxys_answer() {
    let mut stage = Stage::new();
    let mut client = End::client(1);
    stage.event(client.send(T0, b"\x04\x01\x00\x19\x0a\x00\x00\x02\x00"));
    stage.event(client.recv(T0 + MS, b"\x00\x5a\0\0\0\0\0\x00220 mx.test ESMTP\r\n"));
    stage.event(client.send(T0 + 2 * MS, b"EHLO me\r\n"));
    stage.event(client.recv(T0 + 3 * MS, b"250 hello\r\n"));
    stage.event(client.send(T0 + 4 * MS, b"STARTTLS\r\n"));
    stage.event(client.recv(T0 + 5 * MS, b"220 go\r\n"));
    stage.event(client.send(T0 + 6 * MS, &[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 3]));
    stage.event(client.change(T0 + 7 * MS, SocketChange::Close));
    stage.tick(T0 + S);
    let said = protocols(&stage);
    assert_eq!(said[..4], pairs(&[("socks", "CONNECT"), ("smtp", "greeting"), ("smtp", "EHLO"), ("smtp", "STARTTLS")]));
}

#[test]
fn ciphertext_is_counted_and_nothing_more_is_asked_of_the_kernel() {
    let mut stage = Stage::new();
    let mut client = End::client(1);
    // A refusal ends the handshake in two messages.
    let body = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0]].concat();
    let hello = [&[0x16, 3, 1, 0, body.len() as u8 + 4, 1, 0, 0, body.len() as u8][..], &body].concat();
    stage.event(client.send(T0, &hello));
    stage.event(client.recv(T0 + MS, b"\x15\x03\x03\x00\x02\x02\x28\x17\x03\x03\x00\x14"));
    stage.event(client.recv(T0 + 2 * MS, &[9; 20]));
    stage.event(client.change(T0 + 7 * MS, SocketChange::Close));
    stage.tick(T0 + S);
    assert_eq!(protocols(&stage), pairs(&[("tls", "handshake"), ("tls", "")]));
    assert_eq!((stage.spans[0].status, &*stage.spans[0].error), (Status::ClientError, "handshake_failure"));
    assert_eq!(stage.spans[1].response_bytes, 25, "what follows the alert");
    let last = stage.verdicts().last().map(|v| (v.protocol, v.copy));
    assert_eq!(last, Some(("tls", CopyRule::EveryCall(0))));
}

#[test]
fn headers_without_end_are_not_followed_forever() {
    let mut stage = Stage::new();
    let mut client = End::client(1);
    let many = b"PROXY UNKNOWN\r\n".repeat(200);
    client.cut = many.len();
    stage.event(client.send(T0, &many));
    stage.event(client.change(T0 + 7 * MS, SocketChange::Close));
    stage.tick(T0 + S);
    let headers = stage.spans.iter().filter(|s| s.protocol == "proxy").count();
    assert!((1..=9).contains(&headers), "{headers}");
}

/// A ClientHello without extensions, and the alert that refuses it.
fn hello() -> Vec<u8> {
    let body = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0]].concat();
    [&[0x16, 3, 1, 0, body.len() as u8 + 4, 1, 0, 0, body.len() as u8][..], &body].concat()
}

const REFUSES: &[u8] = b"\x15\x03\x03\x00\x02\x02\x28";

/// FTP, IMAP and XMPP have no parser here: their connections are read from the hello on.
#[test]
fn tls_behind_a_conversation_that_no_parser_reads_is_found() {
    let imap: Vec<(bool, Vec<u8>)> = (0..20)
        .flat_map(|n| [(true, format!("a{n} NOOP\r\n")), (false, format!("a{n} OK done\r\n"))])
        .map(|(up, text)| (up, text.into_bytes()))
        .collect();
    let talks: [Vec<(bool, Vec<u8>)>; 3] = [
        vec![(false, b"220 ftp.test ready\r\n".into()), (true, b"AUTH TLS\r\n".into()), (false, b"234 go\r\n".into())],
        [vec![(false, b"* OK IMAP4rev1 gr\xc3\xbc\xc3\x9fe\r\n".to_vec())], imap].concat(),
        vec![
            (true, b"<?xml version='1.0'?><stream:stream to='x' xmlns='jabber:client'>".to_vec()),
            (false, b"<?xml version='1.0'?><stream:stream id='1'><stream:features/>".to_vec()),
            (true, b"<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>".to_vec()),
            (false, b"<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>".to_vec()),
        ],
    ];
    for talk in talks {
        let mut stage = Stage::new();
        let mut client = End::client(1);
        client.cut = 4096;
        let mut at = T0;
        let mut spoken = [0, 0];
        for (up, text) in &talk {
            at += MS;
            spoken[usize::from(*up)] += text.len() as u64;
            stage.event(if *up { client.send(at, text) } else { client.recv(at, text) });
        }
        stage.event(client.send(at + MS, &hello()));
        stage.event(client.recv(at + 2 * MS, REFUSES));
        stage.event(client.change(at + 3 * MS, SocketChange::Close));
        stage.tick(at + S);
        assert_eq!(protocols(&stage), pairs(&[("tcp", ""), ("tls", "handshake")]), "{talk:?}");
        let (clear, secret) = (&stage.spans[0], &stage.spans[1]);
        assert_eq!([clear.response_bytes, clear.request_bytes], spoken);
        assert!((at + MS / 2..=at + MS).contains(&secret.start_ns), "its own time");
        assert_eq!(secret.request_bytes, hello().len() as u64);
        assert_eq!(&*secret.error, "handshake_failure");
    }
}

#[test]
fn a_conversation_in_text_is_watched_for_a_while_and_others_are_not() {
    let last = |stage: &mut Stage| stage.verdicts().last().map(|v| v.copy);
    let mut stage = Stage::new();
    let mut client = End::client(1);
    for n in 0..40 {
        stage.event(client.send(T0 + n * MS, b"hello\r\n"));
        stage.event(client.recv(T0 + n * MS + 1, b"hello yourself\r\n"));
        if n == 12 {
            assert!(matches!(last(&mut stage), Some(CopyRule::EveryCall(1..))), "watched");
        }
    }
    assert_eq!(last(&mut stage), Some(CopyRule::EveryCall(0)), "for a while");
    let mut stage = Stage::new();
    let mut client = End::client(1);
    for n in 0..12 {
        stage.event(client.send(T0 + n * MS, b"\x00\x01\x02hello"));
        stage.event(client.recv(T0 + n * MS + 1, b"\x02hello\x00"));
    }
    assert_eq!(last(&mut stage), Some(CopyRule::EveryCall(0)));
}

#[test]
fn what_goes_through_a_proxys_tunnel_is_read() {
    let mut stage = Stage::new();
    let mut client = End::client(1);
    stage.event(client.send(T0, b"CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test:443\r\n\r\n"));
    stage.event(client.recv(T0 + MS, b"HTTP/1.1 200 Connection established\r\n\r\n"));
    stage.event(client.send(T0 + 2 * MS, &hello()));
    stage.event(client.recv(T0 + 3 * MS, REFUSES));
    stage.event(client.change(T0 + 4 * MS, SocketChange::Close));
    stage.tick(T0 + S);
    assert_eq!(protocols(&stage), pairs(&[("http", "CONNECT"), ("tls", "handshake")]));
}

/// A server that refuses a connection in the place of its greeting is no success.
#[test]
fn a_refusal_that_nobody_asked_for_is_an_error() {
    let mut stage = Stage::new();
    let mut client = End::client(1);
    let text = b"\xff\x10\x04Too many connections";
    let packet = [&[text.len() as u8, 0, 0, 0][..], text].concat();
    stage.event(client.recv(T0, &packet));
    stage.event(client.change(T0 + MS, SocketChange::Close));
    stage.tick(T0 + S);
    assert_eq!(protocols(&stage), pairs(&[("mysql", "ERROR")]));
    let span = &stage.spans[0];
    assert_eq!((span.status, span.status_code), (Status::ServerError, Some(1040)));
    assert_eq!(&*span.error, "Too many connections");
}
