#![allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::cast_possible_truncation
)]

use super::Tls;
use crate::testing::{c, claimed, cutting_changes_nothing, s, tcp};

fn record(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind, 3, 3][..], &(body.len() as u16).to_be_bytes(), body].concat()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &(body.len() as u32).to_be_bytes()[1..], body].concat()
}

fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &(body.len() as u16).to_be_bytes(), body].concat()
}

fn list16(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u16).to_be_bytes()[..], body].concat()
}

fn client_hello(session: &[u8]) -> Vec<u8> {
    let name = extension(0, &list16(&[&[0][..], &list16(b"shop.test")].concat()));
    let alpn = extension(16, &list16(b"\x02h2\x08http/1.1"));
    let body = [
        &[3, 3][..],
        b"geheim..geheim..geheim..geheim..",
        &[session.len() as u8],
        session,
        &list16(&[0x13, 1, 0xc0, 0x2f]),
        &[1, 0],
        &list16(&[name, alpn].concat()),
    ]
    .concat();
    record(22, &message(1, &body))
}

fn server_hello(session: &[u8], cipher: [u8; 2], extensions: &[u8]) -> Vec<u8> {
    let random = b"geheim..geheim..geheim..geheim..";
    let body = [&[3, 3][..], random, &[session.len() as u8], session, &cipher, &[0], &list16(extensions)].concat();
    message(2, &body)
}

fn modern(psk: bool) -> Vec<u8> {
    let mut extensions = [extension(43, &[3, 4]), extension(51, &[0, 0x1d, 0, 2, 9, 9])].concat();
    if psk {
        extensions.extend(extension(41, &[0, 0]));
    }
    record(22, &server_hello(b"", [0x13, 1], &extensions))
}

const CHANGE: &[u8] = b"\x14\x03\x03\x00\x01\x01";

/// An element of a certificate.
fn der(tag: u8, body: &[u8]) -> Vec<u8> {
    if body.len() < 128 {
        [&[tag, body.len() as u8], body].concat()
    } else {
        [&[tag, 0x82], &(body.len() as u16).to_be_bytes()[..], body].concat()
    }
}

fn name(parts: &[(u8, &str)]) -> Vec<u8> {
    let part = |(kind, text): &(u8, &str)| {
        der(0x31, &der(0x30, &[der(6, &[0x55, 4, *kind]), der(12, text.as_bytes())].concat()))
    };
    der(0x30, &parts.iter().map(part).collect::<Vec<_>>().concat())
}

fn certificate() -> Vec<u8> {
    let fields = [
        der(0xa0, &der(2, &[2])),
        der(2, &[5]),
        der(0x30, &der(6, &[42])),
        name(&[(6, "DE"), (3, "Test CA")]),
        der(0x30, &[der(0x17, b"240102030405Z"), der(0x18, b"20520102030405Z")].concat()),
        name(&[(10, "Shop"), (3, "shop.test")]),
        der(0x30, &[1; 300]),
    ]
    .concat();
    let cert = der(0x30, &[der(0x30, &fields), der(3, &[0; 64])].concat());
    let one = [&(cert.len() as u32).to_be_bytes()[1..], &cert].concat();
    message(11, &[&(one.len() as u32).to_be_bytes()[1..], &one].concat())
}

#[test]
fn a_handshake_of_version_1_3_is_read() {
    let flight = [modern(false), CHANGE.to_vec(), record(23, &[7; 900]), record(23, &[7; 60])].concat();
    let turns = [
        c(client_hello(b"geheim")),
        s(flight),
        c([CHANGE, &record(23, &[1; 60]), &record(23, b"GET geheim of course")].concat()),
    ];
    let said = cutting_changes_nothing(&Tls, &turns, "geheim");
    assert_eq!(
        said,
        [
            "C req @0+96 handshake shop.test server.address=shop.test \
             wirespan.tls.offered_protocols=h2,http/1.1",
            "S resp @0+65 body=open tls.protocol.name=tls tls.protocol.version=1.3 tls.cipher=TLS_AES_128_GCM_SHA256 \
             tls.curve=x25519",
            "End Server @1041 None Ok tls.established=true tls.resumed=false",
            "Upgrade tls",
        ]
    );
    let refused =
        tcp(&Tls, &[c(client_hello(b"")), s([modern(true), record(23, &[7; 60])].concat()), c(record(23, &[1; 19]))]);
    assert_eq!(
        refused[2],
        "End Server @136 None ServerError error=\"encrypted_alert\" tls.established=false tls.resumed=true \
         error.type=encrypted_alert"
    );
}

#[test]
fn a_handshake_of_version_1_2_names_its_certificate() {
    let alpn = extension(16, &list16(b"\x02h2"));
    let messages =
        [server_hello(b"new", [0xc0, 0x2f], &alpn), certificate(), message(12, &[3; 200]), message(14, b"")].concat();
    // Messages may be cut across records.
    let flight = [record(22, &messages[..700]), record(22, &messages[700..])].concat();
    let finished = [CHANGE.to_vec(), record(22, &[8; 40])].concat();
    let turns = [
        c(client_hello(b"")),
        s(&flight),
        c([record(22, &message(16, &[4; 70])), finished.clone()].concat()),
        s(&finished),
        c(record(23, &[1; 60])),
    ];
    let said = cutting_changes_nothing(&Tls, &turns, "geheim");
    assert!(said[1].ends_with(
        "body=open tls.protocol.name=tls tls.protocol.version=1.2 tls.cipher=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 \
         tls.next_protocol=h2"
    ));
    let end = flight.len() + 6;
    assert!(
        said[2].starts_with(&format!("End Server @{} None Ok tls.established=true tls.resumed=false", end + 45)),
        "{}",
        said[2]
    );
    assert!(said[2].ends_with(
        "tls.server.subject=CN=shop.test, O=Shop tls.server.issuer=CN=Test CA, C=DE \
         tls.server.not_before=2024-01-02T03:04:05Z tls.server.not_after=2052-01-02T03:04:05Z"
    ));
    assert_eq!(said[3..], ["Upgrade tls"]);
}

#[test]
fn resumed_refused_and_late_handshakes_are_read() {
    let hello = server_hello(b"same", [0xc0, 0x2f], b"");
    let flight = [record(22, &hello), CHANGE.to_vec(), record(22, &[8; 40])].concat();
    let said = tcp(&Tls, &[c(client_hello(b"same")), s(flight)]);
    assert!(said[2].ends_with("Ok tls.established=true tls.resumed=true"), "{said:?}");
    let said = tcp(&Tls, &[c(client_hello(b"")), s(record(21, &[2, 40]))]);
    assert_eq!(
        said[1..],
        [
            "S resp @0+7 ClientError error=\"handshake_failure\" tls.established=false error.type=handshake_failure",
            "Upgrade tls"
        ]
    );
    let flight = record(22, &[server_hello(b"", [0xc0, 0x2f], b""), certificate()].concat());
    let said = tcp(&Tls, &[c(client_hello(b"")), s(&flight), c(record(21, &[2, 48]))]);
    assert!(
        said[2].starts_with(&format!("End Server @{} None ServerError error=\"unknown_ca\"", flight.len())),
        "{said:?}"
    );
    assert_eq!(tcp(&Tls, &[c(record(23, &[1; 60]))]), ["Upgrade tls"]);
    // The server's hello was not captured: the wait ends with the first data that it sends.
    let unseen = (wirespan_model::Side::Server, Vec::new(), 3000);
    let said = tcp(&Tls, &[c(client_hello(b"")), unseen, c(record(23, &[1; 60])), s(record(23, &[1; 60]))]);
    assert_eq!(said[1..], ["Malformed Server tls_gap", "Upgrade tls"]);
}

#[test]
fn connections_are_recognised_and_others_are_not() {
    let data = record(23, &[5; 40]);
    assert_eq!(claimed(&client_hello(b""), b""), Some(("tls", true)));
    assert_eq!(claimed(&client_hello(b""), &modern(false)), Some(("tls", true)));
    assert_eq!(claimed(&client_hello(b"")[..60], b""), Some(("tls", true)));
    assert_eq!(claimed(&client_hello(b"")[..30], b""), None);
    assert_eq!(claimed(&modern(false), &record(22, &[4; 70])), Some(("tls", false)));
    assert_eq!(claimed(&data, b""), None);
    assert_eq!(claimed(&data, &data), Some(("tls", true)));
    assert_eq!(claimed(&data, b"no record at all"), None);
    assert_eq!(claimed(&[&data[..], b"no record here"].concat(), &data), None);
}

/// A hello may be cut into any number of records (RFC 8446, section 5.1).
#[test]
fn a_hello_in_several_records_is_put_together() {
    let hello = client_hello(b"geheim");
    let body = &hello[5..];
    for size in [1, 3, 4, 5, 20, 40, 80] {
        let pieces: Vec<u8> = body.chunks(size).flat_map(|piece| record(22, piece)).collect();
        let answer = server_hello(b"", [0x13, 1], &extension(43, &[3, 4]));
        let answer: Vec<u8> = answer.chunks(size + 7).flat_map(|piece| record(22, piece)).collect();
        let turns = [c(&pieces), s([answer.as_slice(), &record(23, &[7; 60])].concat()), c(record(23, &[1; 60]))];
        let said = cutting_changes_nothing(&Tls, &turns, "geheim");
        let first = format!(
            "C req @0+{} handshake shop.test server.address=shop.test wirespan.tls.offered_protocols=h2,http/1.1",
            pieces.len()
        );
        assert_eq!(said[0], first);
        assert!(said[1].contains("tls.protocol.version=1.3"), "{said:?}");
        assert!(said[2].starts_with("End Server"), "{said:?}");
        assert_eq!(claimed(&pieces, b""), Some(("tls", true)), "pieces of {size}");
    }
    // The end did not come: what there is is told.
    let said = crate::testing::tcp_to_the_end(&Tls, &[c(record(22, &body[..80]))]);
    assert_eq!(said, ["C req @0+85 handshake shop.test server.address=shop.test"]);
}

/// RFC 5246, appendix E.2.
#[test]
fn a_hello_in_the_form_of_ssl_2_is_read() {
    let ciphers = [0, 0, 0x2f, 1, 0, 0x80];
    let body = [&[1, 3, 1, 0, 6, 0, 0, 0, 16][..], &ciphers, b"geheim geheim ge"].concat();
    let hello = [&[0x80, body.len() as u8][..], &body].concat();
    let old = record(22, &server_hello(b"x", [0, 0x2f], b""));
    let turns = [c(&hello), s([old, CHANGE.to_vec(), record(22, &[5; 40])].concat()), c(record(23, &[1; 40]))];
    let said = cutting_changes_nothing(&Tls, &turns, "geheim");
    assert_eq!(said[0], format!("C req @0+{} handshake", hello.len()));
    assert!(said[1].contains("tls.protocol.version=1.2"), "{said:?}");
    assert_eq!(claimed(&hello, b""), Some(("tls", true)));
    let mut wrong = hello;
    wrong[4] = 2;
    wrong[6] = 7;
    assert_eq!(claimed(&wrong, b""), None);
}
