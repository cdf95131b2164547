#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]

use super::Thrift;
use crate::framing::tests::{is_detected, is_sound, keeps_secrets};
use crate::testing::{c, probe, s, tcp, Turn};
use crate::{Detect, Protocol};
use wirespan_model::{Chunk, Side, Transport};

const CALL: u8 = 1;
const REPLY: u8 = 2;
const EXCEPTION: u8 = 3;
const ONE_WAY: u8 = 4;

fn strict(kind: u8, name: &str, seq: u32, body: &[u8]) -> Vec<u8> {
    [&[0x80, 1, 0, kind][..], &(name.len() as u32).to_be_bytes(), name.as_bytes(), &seq.to_be_bytes(), body].concat()
}

fn old(kind: u8, name: &str, seq: u32, body: &[u8]) -> Vec<u8> {
    [&(name.len() as u32).to_be_bytes()[..], name.as_bytes(), &[kind], &seq.to_be_bytes(), body].concat()
}

fn compact(kind: u8, name: &str, seq: u8, body: &[u8]) -> Vec<u8> {
    [&[0x82, kind << 5 | 1, seq, name.len() as u8][..], name.as_bytes(), body].concat()
}

fn framed(message: Vec<u8>) -> Vec<u8> {
    [&(message.len() as u32).to_be_bytes()[..], &message].concat()
}

/// Every type of the binary encoding.
fn binary_fields() -> Vec<u8> {
    let mut out = Vec::new();
    let mut field = |kind: u8, id: u8, value: &[u8]| out.extend([&[kind, 0, id][..], value].concat());
    field(2, 1, &[1]);
    field(3, 2, &[7]);
    field(4, 3, &[0; 8]);
    field(6, 4, &[0; 2]);
    field(8, 5, &[0; 4]);
    field(10, 6, &[0; 8]);
    field(11, 7, b"\0\0\0\x06canary");
    field(12, 8, &[8, 0, 1, 0, 0, 0, 5, 0]);
    field(13, 9, b"\x0b\x08\0\0\0\x02\0\0\0\x01a\0\0\0\x01\0\0\0\x01b\0\0\0\x02");
    field(15, 10, b"\x0a\0\0\0\x02abcdefghabcdefgh");
    field(14, 11, b"\x0c\0\0\0\x02\x02\0\x01\x01\0\0");
    field(15, 12, b"\x0f\0\0\0\x01\x0b\0\0\0\x01\0\0\0\x02xy");
    field(13, 13, &[0, 0, 0, 0, 0, 0]);
    out.push(0);
    out
}

/// Every type of the compact encoding.
fn compact_fields() -> Vec<u8> {
    let parts: [&[u8]; 12] = [
        &[0x11],
        &[0x12],
        &[0x13, 9],
        &[0x15, 0x80, 0x01],
        &[0x17, 0, 0, 0, 0, 0, 0, 0, 0],
        b"\x18\x06canary",
        &[0x1c, 0x15, 4, 0],
        &[0x1b, 2, 0x85, 1, b'a', 2, 1, b'b', 4],
        &[0x1b, 0],
        &[0x19, 0x25, 2, 0x80, 0x01],
        &[0x1a, 0xf1, 16, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
        // A number far from the last one is written out.
        &[0x08, 0x80, 0x02, 2, b'x', b'y', 0],
    ];
    parts.concat()
}

fn conversation(
    message: fn(u8, &str, u8, &[u8]) -> Vec<u8>,
    fields: &[u8],
    exception: &[u8],
    declared: &[u8],
) -> Vec<Turn> {
    vec![
        c(message(CALL, "Cart:add", 1, fields)),
        s(message(REPLY, "Cart:add", 1, &[0])),
        c(message(ONE_WAY, "log_line", 2, fields)),
        c(message(CALL, "remove", 3, &[0])),
        s(message(REPLY, "remove", 3, declared)),
        c(message(CALL, "no_such", 4, &[0])),
        s(message(EXCEPTION, "no_such", 4, exception)),
    ]
}

fn all() -> Vec<(&'static str, Vec<Turn>)> {
    let binary_exception: &[u8] = b"\x0b\0\x01\0\0\0\x10unknown 'canary'\x08\0\x02\0\0\0\x01\0";
    let binary_declared: &[u8] = b"\x0c\0\x02\x0b\0\x01\0\0\0\x06canary\0\0";
    let compact_exception: &[u8] = b"\x18\x10unknown 'canary'\x15\x02\0";
    let compact_declared: &[u8] = b"\x2c\x18\x06canary\0\0";
    let binary = binary_fields();
    let compact_args = compact_fields();
    let b = |message| conversation(message, &binary, binary_exception, binary_declared);
    let k = |message| conversation(message, &compact_args, compact_exception, compact_declared);
    vec![
        ("strict", b(|k, n, i, f| strict(k, n, i.into(), f))),
        ("strict framed", b(|k, n, i, f| framed(strict(k, n, i.into(), f)))),
        ("old", b(|k, n, i, f| old(k, n, i.into(), f))),
        ("old framed", b(|k, n, i, f| framed(old(k, n, i.into(), f)))),
        ("compact", k(compact)),
        ("compact framed", k(|k, n, i, f| framed(compact(k, n, i, f)))),
    ]
}

#[test]
fn calls_and_answers_of_every_form_share_an_id() {
    for (form, turns) in all() {
        let said = tcp(&Thrift, &turns);
        assert!(said[0].contains("id=1 add Cart rpc.system.name=thrift rpc.method=Cart/add"), "{form}: {}", said[0]);
        let text = said.join("\n");
        assert_eq!(text.matches("C req").count(), 3, "{form}: {text}");
        assert_eq!(text.matches("C oneway").count(), 1, "{form}");
        assert_eq!(text.matches("S resp").count(), 3, "{form}");
        let calls_end: Vec<&String> = said.iter().filter(|l| l.starts_with("End Client")).collect();
        assert!(calls_end.iter().all(|l| !l.contains("Error") && !l.ends_with(" Ok")), "{form}: {calls_end:?}");
        // What a frame tells at once, the walk tells at the end.
        let ends: Vec<&String> = said
            .iter()
            .filter(|l| if form.contains("framed") { l.contains("S resp") } else { l.contains("End Server") })
            .collect();
        assert_eq!(ends.len(), 3, "{form}: {text}");
        assert!(ends[0].contains(" Ok"), "{form}: {}", ends[0]);
        assert!(ends[1].contains("ServerError error=\"declared exception 2\""), "{form}: {}", ends[1]);
        assert!(ends[2].contains("status=1 ClientError error=\"unknown '?'\""), "{form}: {}", ends[2]);
        assert!(ends[2].contains("error.type=UNKNOWN_METHOD"));
        assert!(!text.contains("Malformed"), "{form}: {text}");
    }
}

#[test]
fn cuts_are_survived_and_values_stay_hidden() {
    for (_, turns) in all() {
        is_sound(&Thrift, &turns);
        keeps_secrets(&Thrift, &turns, &["canary"]);
    }
}

#[test]
fn a_theader_tells_its_context() {
    let pairs: [(&str, &str); 2] = [("X-Request-ID", "r-7"), ("token", "canary")];
    let mut header = vec![0, 0, 1, 2];
    for (k, v) in pairs {
        header.push(k.len() as u8);
        header.extend(k.as_bytes());
        header.push(v.len() as u8);
        header.extend(v.as_bytes());
    }
    header.resize(header.len().next_multiple_of(4), 0);
    let mut message = vec![0x0f, 0xff, 0, 0, 0, 0, 0, 9];
    message.extend(((header.len() / 4) as u16).to_be_bytes());
    message.extend(header);
    message.extend(strict(CALL, "add", 1, &[0]));
    let turns = [c(framed(message)), s(framed(strict(REPLY, "add", 9, b"\x08\0\0\0\0\0\x01\0")))];
    let said = tcp(&Thrift, &turns);
    assert!(said[0].contains("id=9 add") && said[0].contains("request_id: Some(\"r-7\")"), "{}", said[0]);
    assert!(said[1].contains("id=9 add") && said[1].contains(" Ok"), "{}", said[1]);
    is_sound(&Thrift, &turns);
    is_detected(&Thrift, &turns[0].1, &turns[1].1);
}

#[test]
fn long_strings_that_were_not_captured_are_skipped() {
    let body = [&b"\x0b\0\x01\0\0\x10\0"[..], &[b'x'; 4096], b"\0"].concat();
    let whole = strict(CALL, "put", 1, &body);
    // All but the zero behind the string.
    let (seen, last) = (100, whole.len() - 1);
    let cut = (Side::Client, whole[..seen].to_vec(), (last - seen) as u64);
    let said = tcp(&Thrift, &[cut, c(&whole[last..]), c(strict(CALL, "next", 2, &[0]))]);
    assert!(said.iter().any(|l| l.contains("id=2 next")) && !said.join(" ").contains("Malformed"), "{said:?}");
}

#[test]
fn calls_that_may_hold_many_messages_are_wanted_whole() {
    for (form, turns) in all() {
        let mut parser = Thrift.parser(Transport::Tcp);
        let wants: Vec<_> = turns
            .iter()
            .map(|(side, bytes, missing)| {
                parser.feed(Chunk { side: *side, bytes, missing: *missing }, &mut |_| {});
                parser.needs_whole()
            })
            .collect();
        // With frames, from the first one-way call on.
        let first = if form.contains("framed") { 2 } else { 0 };
        assert_eq!(wants.iter().position(|w| *w), Some(first), "{form}: {wants:?}");
    }
}

#[test]
fn a_connection_is_recognised_from_either_end() {
    for (form, turns) in all() {
        let (call, reply) = (&turns[0].1, &turns[1].1);
        is_detected(&Thrift, call, reply);
        let alone = Thrift.detect(&probe(call, b""));
        if form.starts_with("old") {
            assert_eq!(alone, Detect::Maybe, "{form}");
            assert_eq!(Thrift.detect(&probe(call, &turns[4].1)), Detect::No, "{form}");
        } else {
            assert_eq!(alone, Detect::Yes { first_is_client: true }, "{form}");
        }
    }
}
