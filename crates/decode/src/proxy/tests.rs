#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use super::Proxy;
use crate::testing::{c, claimed, cutting_changes_nothing, say, tcp};
use crate::{Handover, Protocol};
use wirespan_model::{Transport, Value};

const LINE: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n";

fn binary(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(body.len()).unwrap().to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &len, body].concat()
}

fn v6() -> Vec<u8> {
    let ends = [[0x20, 1, 13, 184, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], [0; 16]].concat();
    binary(0x21, 0x21, &[&ends[..], &[1, 2, 1, 187], &[4, 0, 1, 9, 2, 0, 9], b"shop.test"].concat())
}

#[test]
fn both_versions_tell_the_client_and_where_the_next_protocol_begins() {
    let said = cutting_changes_nothing(&Proxy, &[c([LINE, b"GET / HTTP/1.1\r\n\r\n"].concat())], "GET");
    assert_eq!(
        said,
        [
            "C oneway @0+44 PROXY 198.51.100.1:443 Ok network.protocol.version=1 client.address=192.0.2.7 \
            client.port=4711",
            "Upgrade ",
        ]
    );
    let said = tcp(&Proxy, &[c(v6())]);
    assert_eq!(
        said[0],
        "C oneway @0+68 PROXY [::]:443 Ok network.protocol.version=2 client.address=2001:db8::1 client.port=258 \
         server.address=shop.test"
    );
    assert_eq!(tcp(&Proxy, &[c(binary(0x20, 0, b""))])[0], "C oneway @0+16 LOCAL Ok network.protocol.version=2");
    let mut parser = Proxy.parser(Transport::Tcp);
    say(&mut *parser, &[c([LINE, b"more"].concat())]);
    let attrs = vec![("client.address".into(), Value::from("192.0.2.7")), ("client.port".into(), Value::Int(4711))];
    assert_eq!(parser.handover(), Handover { at: Some([44, 0]), attrs });
}

/// Other fields than the name of the server may identify a person (a client certificate's common name, a unique id).
#[test]
fn fields_that_name_people_are_not_kept() {
    let ends = [1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 0, 2];
    let unique = [&[5, 0, 6][..], b"canary"].concat();
    let certificate = [&[0x20, 0, 14, 7, 0, 0, 0, 0, 0x22, 0, 6][..], b"canary"].concat();
    let said = tcp(&Proxy, &[c(binary(0x21, 0x11, &[&ends[..], &unique, &certificate].concat()))]);
    assert!(said[0].contains("client.address=1.2.3.4") && !said[0].contains("canary"), "{said:?}");
}

#[test]
fn only_whole_headers_of_the_first_speaker_are_recognised() {
    assert_eq!(claimed(LINE, b""), Some(("proxy", true)));
    assert_eq!(claimed(&v6(), b"220 hi\r\n"), Some(("proxy", true)));
    assert_eq!(claimed(b"PROXY UNKNOWN\r\n", b""), Some(("proxy", true)));
    for other in [
        &b"PROXY TCP4 192.0.2.7 198.51.100.1 4711\r\n"[..],
        b"PROXY TCP4 ::1 ::1 1 2\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 99999\r\n",
        b"PROXY me\r\n",
        &binary(0x31, 0x11, &[0; 12]),
        &binary(0x21, 0x11, &[0; 11]),
    ] {
        assert_eq!(claimed(other, b""), None);
    }
    assert_eq!(claimed(b"x", LINE), None);
}
