#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]

use super::Krpc;
use crate::framing::tests::{is_detected, is_sound, keeps_secrets};
use crate::testing::{c, s, tcp, Turn};

fn frame(meta: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut out = b"KR".to_vec();
    out.extend((meta.len() as u16).to_be_bytes());
    out.extend(((meta.len() + payload.len()) as u32).to_be_bytes());
    [&out, meta, payload].concat()
}

fn conversation() -> Vec<Turn> {
    let minus_407 = [0x30, 0xe9, 0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let refused = [&[8, 2, 16, 9, 24, 4, 32, 2][..], &minus_407].concat();
    vec![
        c(frame(&[8, 1, 16, 9, 24, 3, 32, 1, 58, 5, 18, 3, b't', b'-', b'1'], b"canary")),
        s(frame(&[8, 2, 16, 9, 24, 3, 32, 1], b"canary")),
        c(frame(&[8, 1, 16, 9, 24, 4, 32, 2], b"")),
        s(frame(&refused, b"")),
    ]
}

#[test]
fn calls_and_answers_share_an_id() {
    let said = tcp(&Krpc, &conversation());
    assert!(said[0].contains("id=1 3 9 rpc.system.name=krpc rpc.method=9/3"), "{}", said[0]);
    assert!(said[0].contains("foreign_trace_id: Some(\"t-1\")"));
    assert!(said[1].contains("S resp") && said[1].contains("id=1 3 9 status=0 Ok"));
    assert!(said[3].contains("status=-407 ServerError") && said[3].contains("error.type=-407"), "{}", said[3]);
}

#[test]
fn cuts_are_survived_connections_recognised_and_values_hidden() {
    let turns = conversation();
    is_sound(&Krpc, &turns);
    keeps_secrets(&Krpc, &turns, &["canary"]);
    is_detected(&Krpc, &turns[0].1, &turns[1].1);
}
