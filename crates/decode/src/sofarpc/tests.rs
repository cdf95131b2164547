#![allow(
    clippy::too_many_arguments,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

use super::SofaRpc;
use crate::framed::tests::{is_detected, is_sound, keeps_secrets};
use crate::testing::{c, probe, s, tcp, Turn};
use crate::{Detect, Protocol};

const REQUEST: &str = "com.alipay.sofa.rpc.core.request.SofaRequest";
const RESPONSE: &str = "com.alipay.sofa.rpc.core.response.SofaResponse";

fn frame(
    version: u8,
    kind: u8,
    command: u8,
    id: u32,
    class: &str,
    pairs: &[(&str, &str)],
    content: &[u8],
    status: u16,
) -> Vec<u8> {
    let mut header = Vec::new();
    for text in pairs.iter().flat_map(|(k, v)| [k, v]) {
        header.extend((text.len() as u32).to_be_bytes());
        header.extend(text.as_bytes());
    }
    let mut out = if version == 1 { vec![1] } else { vec![2, 2] };
    out.extend([kind, 0, command, 1]);
    out.extend(id.to_be_bytes());
    out.push(1);
    if version == 2 {
        out.push(1);
    }
    if kind == 0 {
        out.extend(status.to_be_bytes());
    } else {
        out.extend(3000u32.to_be_bytes());
    }
    out.extend((class.len() as u16).to_be_bytes());
    out.extend((header.len() as u16).to_be_bytes());
    out.extend((content.len() as u32).to_be_bytes());
    let checksum: &[u8] = if version == 2 { &[1, 2, 3, 4] } else { &[] };
    [&out, class.as_bytes(), &header, content, checksum].concat()
}

/// An answer in SOFA's Hessian; an error has a text.
fn answer(error: Option<&str>) -> Vec<u8> {
    let mut out = vec![b'O', 0x90 + RESPONSE.len() as u8];
    out.extend(RESPONSE.as_bytes());
    out.push(0x94);
    for name in ["isError", "errorMsg", "appResponse", "responseProps"] {
        out.push(name.len() as u8);
        out.extend(name.as_bytes());
    }
    out.extend([b'o', 0x90]);
    match error {
        None => out.extend(b"FN"),
        Some(text) => {
            out.extend([b'T', text.len() as u8]);
            out.extend(text.as_bytes());
        }
    }
    out.extend(b"\x06canary");
    out
}

fn conversation(version: u8) -> Vec<Turn> {
    let pairs = [
        ("sofa_head_target_service", "shop.Cart:1.0"),
        ("new_rpc_trace_context", "tcid=0a0b&spid=0&sample=true&"),
        ("sofa_head_method_name", "add"),
        ("note", "canary"),
    ];
    vec![
        c(frame(version, 1, 1, 5, REQUEST, &pairs, b"canary", 0)),
        s(frame(version, 0, 2, 5, RESPONSE, &[], &answer(None), 0)),
        c(frame(version, 2, 1, 6, REQUEST, &pairs[..1], b"", 0)),
        c(frame(version, 1, 0, 7, "", &[], b"", 0)),
        s(frame(version, 0, 0, 7, "", &[], b"", 0)),
        c(frame(version, 1, 1, 8, REQUEST, &pairs, b"", 0)),
        s(frame(version, 0, 2, 8, RESPONSE, &[], &answer(Some("no 'canary' here")), 0)),
        s(frame(version, 0, 2, 9, RESPONSE, &[], b"", 6)),
    ]
}

#[test]
fn calls_and_their_answers_in_both_versions() {
    for version in [1, 2] {
        let said = tcp(&SofaRpc, &conversation(version));
        assert!(said[0].contains("id=5 add shop.Cart:1.0 rpc.system=sofarpc"), "{}", said[0]);
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
fn sound_and_silent() {
    for version in [1, 2] {
        is_sound(&SofaRpc, &conversation(version));
        keeps_secrets(&SofaRpc, &conversation(version), &["canary"]);
    }
}

#[test]
fn recognised_by_a_class_name_only() {
    let turns = conversation(1);
    is_detected(&SofaRpc, &turns[0].1, &turns[1].1);
    assert_eq!(SofaRpc.detect(&probe(&turns[0].1, b"")), Detect::Yes { first_is_client: true });
    // A heartbeat alone is a row of zeros; with its answer it is one.
    assert_eq!(SofaRpc.detect(&probe(&turns[3].1, b"")), Detect::Maybe);
    assert_eq!(SofaRpc.detect(&probe(&turns[3].1, b"\x01\x00")), Detect::Maybe);
    assert_eq!(SofaRpc.detect(&probe(b"\x01\x01\x00\x01 a text that goes on", b"")), Detect::No);
}
