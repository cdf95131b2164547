#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]

use super::SomeIp;
use crate::framing::tests::{is_sound, keeps_secrets};
use crate::testing::{c, line, s, tcp, Turn};
use crate::{Detect, Probe, Protocol};
use wirespan_model::{Chunk, Side, Transport};

fn message(service: u16, method: u16, session: u16, kind: u8, code: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = [service.to_be_bytes(), method.to_be_bytes()].concat();
    out.extend((payload.len() as u32 + 8).to_be_bytes());
    out.extend([0, 1]);
    out.extend(session.to_be_bytes());
    out.extend([1, 1, kind, code]);
    [&out, payload].concat()
}

fn conversation() -> Vec<Turn> {
    vec![
        c(message(0x29, 0x5004, 7, 0, 0, b"canary")),
        s(message(0x29, 0x5004, 7, 0x80, 0, b"canary")),
        c(message(0x29, 0x5005, 8, 0, 0, b"")),
        s(message(0x29, 0x5005, 8, 0x81, 3, b"")),
        c(message(0x29, 0x5006, 0, 1, 0, b"x")),
        s(message(0x29, 0x8001, 0, 2, 0, b"event")),
    ]
}

#[test]
fn calls_and_answers_share_an_id() {
    let said = tcp(&SomeIp, &conversation());
    assert!(said[0].contains("0x5004 0x0029 rpc.system.name=someip rpc.method=0x0029/0x5004"), "{}", said[0]);
    assert!(said[1].contains("S resp") && said[1].contains("status=0 Ok"));
    assert!(said[3].contains("status=3 ClientError") && said[3].contains("error.type=E_UNKNOWN_METHOD"));
    assert!(said[4].starts_with("C oneway") && said[5].starts_with("S oneway"));
}

#[test]
fn cuts_are_survived_and_values_stay_hidden() {
    is_sound(&SomeIp, &conversation());
    keeps_secrets(&SomeIp, &conversation(), &["canary", "event"]);
}

#[test]
fn a_datagram_may_hold_many() {
    let turns = conversation();
    let bytes = [turns[0].1.clone(), turns[2].1.clone()].concat();
    let mut said = Vec::new();
    let chunk = Chunk { side: Side::Client, bytes: &bytes, missing: 0 };
    SomeIp.parser(Transport::Udp).feed(chunk, &mut |item| said.push(line(&item)));
    assert_eq!(said.len(), 2);
}

#[test]
fn only_a_request_and_its_response_are_certain() {
    let turns = conversation();
    let ask = |first: &[u8], second: &[u8]| {
        let probe = Probe { transport: Transport::Udp, first, second, first_is_client: None, server_port: None };
        SomeIp.detect(&probe)
    };
    assert_eq!(ask(&turns[0].1, b""), Detect::Maybe);
    assert_eq!(ask(&turns[0].1, &turns[1].1), Detect::Yes { first_is_client: true });
    assert_eq!(ask(&turns[3].1, &turns[2].1), Detect::Yes { first_is_client: false });
    assert_eq!(ask(&turns[0].1, &turns[3].1), Detect::No);
    assert_eq!(ask(&turns[0].1[..20], &turns[1].1), Detect::No);
    let discovery = message(0xffff, 0x8100, 1, 2, 0, b"entries");
    assert_eq!(ask(&discovery, b""), Detect::Yes { first_is_client: true });
}
