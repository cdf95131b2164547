#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]

use super::Tars;
use crate::framing::tests::{is_detected, is_sound, keeps_secrets};
use crate::testing::{c, probe, s, tcp, Turn};
use crate::{Detect, Protocol};
use wirespan_model::Side;

fn framed(body: Vec<u8>) -> Vec<u8> {
    [&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()
}

fn text(tag: u8, s: &str) -> Vec<u8> {
    [&[tag << 4 | 6, s.len() as u8][..], s.as_bytes()].concat()
}

fn buffer(tag: u8, bytes: &[u8]) -> Vec<u8> {
    [&[tag << 4 | 13, 0, 0x01][..], &(bytes.len() as u16).to_be_bytes(), bytes].concat()
}

fn map(tag: u8, pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut out = vec![tag << 4 | 8, 0, pairs.len() as u8];
    for (k, v) in pairs {
        out.extend(text(0, k));
        out.extend(text(1, v));
    }
    out
}

fn request(kind: u8, id: u8, func: &str, context: &[(&str, &str)]) -> Vec<u8> {
    let mut body = vec![0x10, 1];
    body.extend(if kind == 0 { vec![0x2c] } else { vec![0x20, 1] });
    body.extend([0x3c, 0x40, id]);
    body.extend(text(5, "Shop.CartServer.CartObj"));
    body.extend(text(6, func));
    body.extend(buffer(7, b"canary in the buffer"));
    body.extend([0x81, 0x0b, 0xb8]);
    body.extend(map(9, context));
    body.extend(map(10, &[]));
    framed(body)
}

fn response(id: u8, ret: i8, description: &str) -> Vec<u8> {
    let mut body = vec![0x10, 1, 0x2c, 0x30, id, 0x4c];
    body.extend(if ret == 0 { vec![0x5c] } else { vec![0x50, ret as u8] });
    body.extend(buffer(6, b"canary"));
    body.extend(map(7, &[("k", "canary")]));
    if !description.is_empty() {
        body.extend(text(8, description));
    }
    framed(body)
}

fn conversation() -> Vec<Turn> {
    let context = [("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), ("k", "canary")];
    vec![
        c(request(0, 3, "add", &context)),
        s(response(3, 0, "")),
        c(request(1, 4, "log", &[])),
        c(request(0, 5, "nope", &[])),
        s(response(5, -3, "no func 'canary'")),
    ]
}

#[test]
fn calls_and_answers_share_an_id() {
    let said = tcp(&Tars, &conversation());
    assert!(said[0].contains("id=3 add Shop.CartServer.CartObj rpc.system.name=tars"), "{}", said[0]);
    assert!(said[0].contains("Carried { trace_id: Some("));
    assert!(said[1].contains("id=3 status=0 Ok"), "{}", said[1]);
    assert!(said[2].starts_with("C oneway"));
    assert!(said[4].contains("status=-3 ClientError error=\"no func '?'\""), "{}", said[4]);
    assert!(said[4].contains("error.type=TARSSERVERNOFUNCERR"));
}

#[test]
fn answers_of_version_2_look_like_requests() {
    let mut body = vec![0x10, 2, 0x2c, 0x3c, 0x40, 9];
    body.extend(text(5, "Shop.CartServer.CartObj"));
    body.extend(text(6, "add"));
    body.extend(buffer(7, b""));
    body.extend([0x8c]);
    body.extend(map(9, &[]));
    body.extend(map(10, &[("STATUS_RESULT_CODE", "-9")]));
    let said = tcp(&Tars, &[c(framed(body.clone())), s(framed(body))]);
    assert!(said[0].starts_with("C req") && said[0].contains("wirespan.tars.version=2"));
    assert!(said[1].starts_with("S resp") && said[1].contains("error.type=TARSSERVEROVERLOAD"), "{}", said[1]);
}

#[test]
fn cuts_are_survived_and_values_stay_hidden() {
    is_sound(&Tars, &conversation());
    keeps_secrets(&Tars, &conversation(), &["canary"]);
}

#[test]
fn missing_bytes_are_skipped() {
    let turns = conversation();
    let cut = (Side::Client, turns[0].1[..60].to_vec(), (turns[0].1.len() - 60) as u64);
    let said = tcp(&Tars, &[cut, turns[2].clone()]);
    assert!(said[0].contains("add") && said[1].contains("log"), "{said:?}");
}

#[test]
fn a_connection_is_recognised_from_either_end() {
    let turns = conversation();
    is_detected(&Tars, &turns[0].1, &turns[1].1);
    assert_eq!(Tars.detect(&probe(&turns[1].1, b"")), Detect::Yes { first_is_client: false });
    let nonsense = [&b"\0\0\0\x80\x10\x01\x2c\x3c\x4c\x56\x03abc"[..], &[7; 100]].concat();
    assert_eq!(Tars.detect(&probe(&nonsense, b"")), Detect::No);
}
