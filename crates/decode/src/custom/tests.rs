#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

use super::{Attribute, Custom, Definition, Endian, Form, Framing, KindBy, Magic, Source, StatusBy};
use crate::framing::tests::{is_sound, keeps_secrets};
use crate::testing::{c, cut, probe, s, tcp, Turn};
use crate::{infer, Detect, Probe, Protocol, Registry, Verdict};
use wirespan_model::{Side, Transport};

fn number(offset: u32, size: u8) -> Source {
    Source { offset, size, ..Source::default() }
}

fn list(values: &[&str]) -> Vec<String> {
    values.iter().map(|v| (*v).to_owned()).collect()
}

/// `ACME`, kind, operation, id (2, little), length of the body (2), status (1); then the body: a name behind its
/// length.
pub(crate) fn binary() -> Definition {
    Definition {
        name: "acme".into(),
        magic: vec![Magic { text: "ACME".into(), ..Magic::default() }],
        frame: Framing { length_offset: 8, length_size: 2, adjust: 11, ..Framing::default() },
        kind: Some(KindBy {
            field: Source { mask: 0x0f, ..number(4, 1) },
            request: list(&["1"]),
            response: list(&["2"]),
            one_way: list(&["3"]),
        }),
        id: Some(Source { endian: Endian::Little, ..number(6, 2) }),
        operation: Some(Source { names: [("7".to_owned(), "put".to_owned())].into(), ..number(5, 1) }),
        target: Some(Source { form: Form::Prefixed, ..number(11, 1) }),
        status: Some(StatusBy { field: number(10, 1), ok: list(&["0"]), client_error: list(&["4"]) }),
        attribute: vec![Attribute { key: "acme.flags".into(), field: Source { mask: 0xf0, ..number(4, 1) } }],
        ..Definition::default()
    }
}

fn frame(kind: u8, operation: u8, id: u16, status: u8, body: &[u8]) -> Vec<u8> {
    let mut out = b"ACME".to_vec();
    out.extend([kind, operation]);
    out.extend(id.to_le_bytes());
    out.extend((body.len() as u16).to_be_bytes());
    out.push(status);
    out.extend(body);
    out
}

fn conversation() -> Vec<Turn> {
    vec![
        c(frame(0x11, 7, 1, 0, b"\x05itemscanary")),
        c(frame(0x01, 9, 2, 0, b"\x00")),
        s(frame(0x02, 9, 2, 4, b"")),
        s(frame(0x02, 7, 1, 9, b"canary")),
        c(frame(0x03, 7, 3, 0, b"")),
        s(frame(0x02, 7, 4, 0, &[b'x'; 3000])),
    ]
}

#[test]
fn frames_with_a_length_are_read() {
    let said = tcp(&Custom::new(binary()).unwrap(), &conversation());
    assert_eq!(
        said,
        [
            "C req @0+23 id=1 put items acme.flags=16",
            "C req @23+12 id=2 9 acme.flags=0",
            "S resp @0+11 id=2 9 status=4 ClientError error=\"4\" acme.flags=0 error.type=4",
            "S resp @11+17 id=1 put status=9 ServerError error=\"9\" acme.flags=0 error.type=9",
            "C oneway @35+11 id=3 put acme.flags=0",
            "S resp @28+76 body=2935 id=4 put status=0 Ok acme.flags=0",
        ]
    );
}

#[test]
fn cuts_are_survived_and_fields_without_a_name_stay_hidden() {
    let custom = Custom::new(binary()).unwrap();
    is_sound(&custom, &conversation());
    keeps_secrets(&custom, &conversation(), &["canary", "xxx"]);
    let cut = (Side::Client, frame(1, 7, 1, 0, b"\x05items")[..8].to_vec(), 9);
    let said = tcp(&custom, &[cut, c(frame(1, 7, 2, 0, b""))]);
    assert_eq!(said.last().unwrap(), "C req @17+11 id=2 put acme.flags=0");
}

fn lines() -> Definition {
    Definition {
        name: "lines".into(),
        ports: vec![7000],
        frame: Framing { delimiter: "\r\n".into(), ..Framing::default() },
        operation: Some(Source { form: Form::Word, ..Source::default() }),
        target: Some(Source { form: Form::Word, word: 1, ..Source::default() }),
        status: Some(StatusBy {
            field: Source { form: Form::Word, ..Source::default() },
            ok: list(&["OK"]),
            client_error: list(&["BAD"]),
        }),
        ..Definition::default()
    }
}

#[test]
fn frames_with_a_delimiter_are_read() {
    let custom = Custom::new(lines()).unwrap();
    let long = [&b"PUT big "[..], &[b'y'; 9000], b"\r\nGET next\r\n"].concat();
    let turns =
        [c(b"GET items canary\r\nDEL items\r\n"), s(b"OK canary\r\nBAD canary\r\n"), c(&long), s(b"FAIL\r\nOK\r\n")];
    let said = tcp(&custom, &turns);
    assert_eq!(
        said,
        [
            "C req @0+18 GET items",
            "C req @18+11 DEL items",
            "S resp @0+11 Ok",
            "S resp @11+12 ClientError error=\"BAD\" error.type=BAD",
            "C req @29+4096 body=open PUT big",
            "End Client @9039 None",
            "C req @9039+10 GET next",
            "S resp @23+6 ServerError error=\"FAIL\" error.type=FAIL",
            "S resp @29+4 Ok",
        ]
    );
    for n in [1, 2, 3, 500, 4095, 4097] {
        assert_eq!(tcp(&custom, &cut(&turns, &[n])), said, "{n}");
    }
    keeps_secrets(&custom, &turns, &["canary", "yyy"]);
    // A line that the kernel cut is a message all the same.
    let said = tcp(&custom, &[(Side::Client, b"PUT big yyy".to_vec(), 700), c(b"GET next\r\n")]);
    assert!(said[0].contains("PUT big") && said.last().unwrap().contains("GET next"), "{said:?}");
}

#[test]
fn a_connection_is_recognised_by_magic_or_port_behind_the_built_in_protocols() {
    let acme = Custom::new(binary()).unwrap();
    let turns = conversation();
    assert_eq!(acme.detect(&probe(&turns[0].1, b"")), Detect::Yes { first_is_client: true });
    assert_eq!(acme.detect(&probe(&turns[2].1, &turns[0].1)), Detect::Yes { first_is_client: false });
    assert_eq!(acme.detect(&probe(b"ACM", b"")), Detect::Maybe);
    assert_eq!(acme.detect(&probe(b"ACME\x09\x07\0\0\0\0\0", b"")), Detect::No);
    assert_eq!(acme.detect(&probe(&turns[0].1, b"HTTP/1.1")), Detect::No);

    let lines: &'static dyn Protocol = Box::leak(Box::new(Custom::new(lines()).unwrap()));
    let ask = |first: &'static [u8], port| Probe {
        transport: Transport::Tcp,
        first,
        second: b"",
        first_is_client: Some(true),
        server_port: port,
    };
    assert_eq!(lines.detect(&ask(b"GET items\r\n", Some(7000))), Detect::Yes { first_is_client: true });
    assert_eq!(lines.detect(&ask(b"GET items\r\n", Some(7001))), Detect::No);
    assert_eq!(lines.detect(&ask(b"GET items\r\n", None)), Detect::No);

    let registry = Registry::with(vec![lines]);
    let name = |verdict| match verdict {
        Verdict::Known { protocol, .. } => protocol.name(),
        _ => "",
    };
    let http = ask(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", Some(7000));
    assert_eq!(name(registry.infer(&http, (1, 0))), "http");
    let own = ask(b"GET items\r\n", Some(7000));
    assert_eq!(name(registry.infer(&own, (1, 0))), "lines");
    assert_eq!(name(infer(&own, (1, 0))), "");
    assert!(registry.find("lines").is_some() && registry.find("http").is_some() && registry.find("acme").is_none());
}

#[test]
fn impossible_definitions_are_refused() {
    let problem = |change: &dyn Fn(&mut Definition)| {
        let mut definition = binary();
        change(&mut definition);
        Custom::new(definition).map(|_| ()).unwrap_err().to_string()
    };
    for (said, change) in [
        ("lower-case letters", &(|d: &mut Definition| d.name = "No Name".into()) as &dyn Fn(&mut Definition)),
        ("built-in", &|d| d.name = "redis".into()),
        ("2 bytes of magic", &|d| d.magic.clear()),
        ("hexadecimal", &|d| d.magic[0] = Magic { hex: "xyz".into(), ..Magic::default() }),
        ("either hex or text", &|d| d.magic[0].hex = "00".into()),
        ("length_size", &|d| d.frame = Framing::default()),
        ("not both", &|d| d.frame.delimiter = "\n".into()),
        ("length_size 5", &|d| d.frame.length_size = 5),
        ("adjust", &|d| d.frame.adjust = i64::MIN),
        ("id: size 0", &|d| d.id = Some(Source::default())),
        ("words are for", &|d| d.operation = Some(Source { form: Form::Word, ..Source::default() })),
        ("values of requests", &|d| d.kind = Some(KindBy { field: number(0, 1), ..KindBy::default() })),
        ("two lists", &|d| d.kind.as_mut().unwrap().response = list(&["1"])),
        ("mean success", &|d| d.status.as_mut().unwrap().ok.clear()),
        ("attribute key", &|d| d.attribute[0].key = "Bad Key".into()),
        ("only its first 4096", &|d| d.id = Some(number(u32::MAX, 4))),
        ("at most 4096", &|d| d.need_bytes = 5000),
        ("tcp, udp or both", &|d| d.transport = "sctp".into()),
    ] {
        let text = problem(change);
        assert!(text.contains(said), "{text:?} does not say {said:?}");
    }
}
