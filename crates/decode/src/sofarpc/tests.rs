#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]

#[path = "../../tests/wires/sofarpc.rs"]
mod wires;

use super::SofaRpc;
use crate::framing::tests::{is_detected, is_sound, keeps_secrets};
use crate::testing::{c, probe, s, tcp, Turn};
use crate::{Detect, Protocol};
use wires::{answer, frame, REQUEST, RESPONSE};

fn conversation(version: u8) -> Vec<Turn> {
    let pairs = [
        ("sofa_head_target_service", "shop.Cart:1.0"),
        ("new_rpc_trace_context", "tcid=0a0b&spid=0&sample=true&"),
        ("sofa_head_method_name", "add"),
        ("note", "canary"),
    ];
    vec![
        c(frame(version, 1, 1, 5, REQUEST, &pairs, b"canary", 0)),
        s(frame(version, 0, 2, 5, RESPONSE, &[], &answer(None, "canary"), 0)),
        c(frame(version, 2, 1, 6, REQUEST, &pairs[..1], b"", 0)),
        c(frame(version, 1, 0, 7, "", &[], b"", 0)),
        s(frame(version, 0, 0, 7, "", &[], b"", 0)),
        c(frame(version, 1, 1, 8, REQUEST, &pairs, b"", 0)),
        s(frame(version, 0, 2, 8, RESPONSE, &[], &answer(Some("no 'canary' here"), "canary"), 0)),
        s(frame(version, 0, 2, 9, RESPONSE, &[], b"", 6)),
    ]
}

#[test]
fn calls_and_answers_of_both_versions_share_an_id() {
    for version in [1, 2] {
        let said = tcp(&SofaRpc, &conversation(version));
        assert!(said[0].contains("id=5 add shop.Cart:1.0 rpc.system.name=sofarpc"), "{}", said[0]);
        assert!(said[0].contains("foreign_trace_id: Some(\"0a0b\")") && said[0].contains("codec=hessian2"));
        assert!(said[1].contains("id=5 status=0 Ok"), "{}", said[1]);
        assert!(said[2].starts_with("C oneway"));
        assert!(said[3].contains("id=7 $heartbeat") && said[4].contains("S resp") && said[4].contains("id=7"));
        assert!(said[6].contains("ServerError error=\"no '?' here\""), "{}", said[6]);
        assert!(said[7].contains("status=6 ClientError error=\"NO_PROCESSOR\""));
        assert_eq!(said.len(), 8);
    }
}

#[test]
fn cuts_are_survived_and_values_stay_hidden() {
    for version in [1, 2] {
        is_sound(&SofaRpc, &conversation(version));
        keeps_secrets(&SofaRpc, &conversation(version), &["canary"]);
    }
}

#[test]
fn a_connection_is_recognised_only_by_a_class_name() {
    let turns = conversation(1);
    is_detected(&SofaRpc, &turns[0].1, &turns[1].1);
    assert_eq!(SofaRpc.detect(&probe(&turns[0].1, b"")), Detect::Yes { first_is_client: true });
    // A heartbeat alone is a row of zeros; with its answer it is one.
    assert_eq!(SofaRpc.detect(&probe(&turns[3].1, b"")), Detect::Maybe);
    assert_eq!(SofaRpc.detect(&probe(&turns[3].1, b"\x01\x00")), Detect::Maybe);
    assert_eq!(SofaRpc.detect(&probe(b"\x01\x01\x00\x01 a text that goes on", b"")), Detect::No);
}
