#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

use super::Dubbo;
use crate::framing::tests::{is_detected, is_sound, keeps_secrets};
use crate::testing::{c, probe, s, tcp};
use crate::{Detect, Protocol};
use wirespan_model::Side;

const REQUEST: u8 = 0x80;
const TWO_WAY: u8 = 0x40;
const EVENT: u8 = 0x20;

pub(crate) fn frame(flags: u8, status: u8, id: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xda, 0xbb, flags, status];
    bytes.extend(id.to_be_bytes());
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend(body);
    bytes
}

fn text(s: &str) -> Vec<u8> {
    let n = s.encode_utf16().count();
    let mut bytes = if n < 32 { vec![n as u8] } else { vec![0x30 | (n >> 8) as u8, n as u8] };
    bytes.extend(s.as_bytes());
    bytes
}

fn invocation(service: &str, method: &str, types: &str, arguments: &[&[u8]], attachments: &[(&str, &str)]) -> Vec<u8> {
    let mut body: Vec<u8> = ["2.0.2", service, "1.4", method, types].iter().flat_map(|t| text(t)).collect();
    arguments.iter().for_each(|a| body.extend(*a));
    body.push(b'H');
    for (k, v) in attachments {
        body.extend(text(k));
        body.extend(text(v));
    }
    body.push(b'Z');
    body
}

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Arguments of every kind that stand between the method and the attachments.
fn arguments() -> Vec<Vec<u8>> {
    let mut class = vec![b'C'];
    class.extend(text("shop.Order"));
    class.push(0x93);
    ["id", "lines", "note"].iter().for_each(|f| class.extend(text(f)));
    // An object: a long, a typed list of two doubles and a string with an umlaut.
    class.extend([0x60, b'L', 0, 0, 0, 1, 2, 3, 4, 5, 0x72]);
    class.extend(text("[double"));
    class.extend([0x5c, b'D', 1, 2, 3, 4, 5, 6, 7, 8]);
    class.extend(text("canary-grün"));
    // Another of the same class, a date, an int, a map, bytes in chunks, a string in chunks, a reference.
    let mut map = vec![b'M'];
    map.extend(text("java.util.HashMap"));
    map.extend(text("canary-key"));
    map.extend([b'T', b'Z']);
    vec![
        class,
        vec![0x60, 0xe0, 0x78, b'N'],
        vec![b'J', 0, 0, 1, 2, 3, 4, 5, 6],
        vec![0xd4, 0x10, 0x00],
        map,
        [&[b'A', 0, 3][..], b"can", &[0x23], b"ary"].concat(),
        [&b"R\x00\x06canary"[..], &[3], b"abc"].concat(),
        vec![b'Q', 0x91],
    ]
}

fn conversation() -> Vec<crate::testing::Turn> {
    let arguments = arguments();
    let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
    let types = "Lshop/Order;Lshop/Order;Ljava/util/Date;ILjava/util/Map;[BLjava/lang/String;Ljava/lang/Object;";
    let call =
        invocation("shop.Orders", "place", types, &arguments, &[("path", "shop.Orders"), ("traceparent", PARENT)]);
    let mut thrown = vec![0x93, b'C'];
    thrown.extend(text("shop.NoStock"));
    thrown.push(0x92);
    thrown.extend(text("code"));
    thrown.extend(text("detailMessage"));
    thrown.extend([0x60, 0x91]);
    thrown.extend(text("no stock of 'canary'"));
    vec![
        c(frame(REQUEST | TWO_WAY | 2, 0, 7, &call)),
        s(frame(2, 20, 7, &[0x94, 0x91, b'H', b'Z'])),
        c(frame(REQUEST | TWO_WAY | EVENT | 2, 0, 8, b"N")),
        s(frame(EVENT | 2, 20, 8, b"N")),
        c(frame(REQUEST | 2, 0, 9, &invocation("shop.Log", "write", "", &[], &[]))),
        c(frame(REQUEST | TWO_WAY | 2, 0, 10, &invocation("shop.Orders", "place", "", &[], &[]))),
        s(frame(2, 20, 10, &thrown)),
        c(frame(REQUEST | TWO_WAY | 8, 0, 11, b"\x01\x02canary")),
        s(frame(2, 70, 11, &text("Failed to invoke canary=canary 12345"))),
    ]
}

#[test]
fn calls_and_answers_share_an_id() {
    let said = tcp(&Dubbo, &conversation());
    let hessian = "wirespan.dubbo.serialization=hessian2";
    let carried = "Carried { trace_id: Some(";
    assert!(said[0].starts_with("C req @0+"), "{}", said[0]);
    assert!(said[0].contains("id=7 place shop.Orders rpc.system.name=dubbo rpc.method=shop.Orders/place"));
    assert!(said[0].contains(carried), "{}", said[0]);
    assert!(said[0].contains("wirespan.rpc.service_version=1.4"));
    assert_eq!(said[1], format!("S resp @0+20 id=7 status=20 Ok rpc.system.name=dubbo rpc.status_code=OK {hessian}"));
    assert!(said[2].contains("id=8 $heartbeat"));
    assert!(said[3].contains("S resp") && said[3].contains("id=8 status=20 Ok"));
    assert!(said[4].contains("C oneway") && said[4].contains("write shop.Log"));
    assert!(said[6].contains("ServerError error=\"no stock of '?'\"") && said[6].contains("error.type=shop.NoStock"));
    assert!(said[7].contains("wirespan.dubbo.serialization=kryo") && !said[7].contains("rpc.method"));
    assert!(said[8].contains("status=70 ServerError error=\"Failed to invoke canary=? ?\""), "{}", said[8]);
    assert_eq!(said.len(), 9);
}

#[test]
fn generic_calls_name_their_method() {
    let arguments: [&[u8]; 3] = [&text("findBook"), b"\x71\x07[string\x01a", b"\x71\x07[object\x05value"];
    let types = "Ljava/lang/String;[Ljava/lang/String;[Ljava/lang/Object;";
    let call = invocation("shop.Books", "$invoke", types, &arguments, &[("sw8", "nonsense"), ("X-Request-ID", "r1")]);
    let said = tcp(&Dubbo, &[c(frame(0xc2, 0, 1, &call))]);
    assert!(said[0].contains("findBook shop.Books") && said[0].contains("request_id: Some(\"r1\")"), "{}", said[0]);
}

#[test]
fn fastjson_names_its_method() {
    let body = b"\"2.0.2\"\n\"shop.Books\"\n\"0.0.0\"\n\"find\"\n\"I\"\n7\n{\"path\":\"shop.Books\"}\n";
    let said = tcp(&Dubbo, &[c(frame(0xc6, 0, 1, body))]);
    assert!(said[0].contains("find shop.Books"), "{}", said[0]);
}

#[test]
fn cuts_are_survived_and_values_stay_hidden() {
    is_sound(&Dubbo, &conversation());
    keeps_secrets(&Dubbo, &conversation(), &["canary-", "'canary", "=canary", "12345"]);
}

#[test]
fn calls_cut_by_the_kernel_are_skipped_exactly() {
    let turns = conversation();
    let cut = |n: usize| (Side::Client, turns[0].1[..n].to_vec(), (turns[0].1.len() - n) as u64);
    for n in 17..turns[0].1.len() {
        let said = tcp(&Dubbo, &[cut(n), turns[4].clone()]);
        assert_eq!(said.len(), 2, "{n}: {said:?}");
        assert!(said[1].contains("write shop.Log"));
    }
}

#[test]
fn either_end_may_be_seen_first_and_ask() {
    let turns = conversation();
    is_detected(&Dubbo, &turns[0].1, &turns[1].1);
    is_detected(&Dubbo, &turns[7].1, &turns[1].1);
    assert_eq!(Dubbo.detect(&probe(&turns[0].1, b"")), Detect::Yes { first_is_client: true });
    // A heartbeat says nothing of who asks, and kryo by its header alone is not enough.
    assert_eq!(Dubbo.detect(&probe(&turns[2].1, b"")), Detect::Maybe);
    assert_eq!(Dubbo.detect(&probe(&turns[7].1, b"")), Detect::Maybe);
    assert_eq!(Dubbo.detect(&probe(&turns[7].1, b"HTTP/1.1 200 OK\r\n")), Detect::No);
    let said = tcp(&Dubbo, &[s(&turns[4].1)]);
    assert!(said[0].starts_with("S oneway"));
}
