#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]

use super::Brpc;
use crate::framing::tests::{is_detected, is_sound, keeps_secrets};
use crate::testing::{c, probe, s, tcp, Turn};
use crate::{Detect, Protocol};
use wirespan_model::Side;

fn bytes(tag: u8, value: &[u8]) -> Vec<u8> {
    [&[tag, value.len() as u8][..], value].concat()
}

fn frame(meta: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut out = b"PRPC".to_vec();
    out.extend(((meta.len() + payload.len()) as u32).to_be_bytes());
    out.extend((meta.len() as u32).to_be_bytes());
    [&out, meta, payload].concat()
}

fn request(id: u8, method: &str) -> Vec<u8> {
    let mut call = bytes(0x0a, b"shop.Cart");
    call.extend(bytes(0x12, method.as_bytes()));
    call.extend([0x18, 42, 0x20, 0xff, 0x01]);
    call.extend(bytes(0x3a, b"req-1"));
    let meta = [bytes(0x0a, &call), vec![0x18, 0, 0x20, id]].concat();
    frame(&meta, b"canary payload")
}

fn response(id: u8, code: u16, text: &[u8]) -> Vec<u8> {
    let answer = [&[0x08, 0x80 | (code & 0x7f) as u8, (code >> 7) as u8][..], &bytes(0x12, text)].concat();
    frame(&[bytes(0x12, &answer), vec![0x20, id]].concat(), b"canary answer")
}

fn conversation() -> Vec<Turn> {
    vec![
        c(request(1, "Add")),
        c(request(2, "Nope")),
        s(response(2, 1002, b"Fail to find method=canary7")),
        s(response(1, 0, b"")),
        s(response(3, 2004, b"")),
    ]
}

#[test]
fn calls_and_answers_share_an_id() {
    let said = tcp(&Brpc, &conversation());
    assert!(said[0].contains("id=1 Add shop.Cart rpc.system.name=brpc rpc.method=shop.Cart/Add"), "{}", said[0]);
    assert!(
        said[0].contains("wirespan.brpc.log_id=42") && said[0].contains("Some(\"ff\")") && said[0].contains("req-1")
    );
    assert!(said[2].contains("id=2 status=1002 ClientError error=\"Fail to find method=?\""), "{}", said[2]);
    assert!(said[2].contains("error.type=ENOMETHOD"));
    assert!(said[3].contains("id=1 status=0 Ok"));
    assert!(said[4].contains("status=2004 ServerError error=\"ELIMIT\""));
}

#[test]
fn cuts_are_survived_and_payloads_stay_hidden() {
    is_sound(&Brpc, &conversation());
    keeps_secrets(&Brpc, &conversation(), &["canary"]);
}

#[test]
fn payloads_that_were_not_captured_are_skipped() {
    let turns = conversation();
    let cut = (Side::Client, turns[0].1[..60].to_vec(), (turns[0].1.len() - 60) as u64);
    let said = tcp(&Brpc, &[cut, turns[1].clone()]);
    assert!(said[1].contains("Nope shop.Cart"), "{said:?}");
}

#[test]
fn a_connection_is_recognised_from_either_end() {
    let turns = conversation();
    is_detected(&Brpc, &turns[0].1, &turns[2].1);
    assert_eq!(Brpc.detect(&probe(b"PRPC", b"")), Detect::Maybe);
    assert_eq!(Brpc.detect(&probe(b"PRPC or not, a text", b"")), Detect::No);
}
