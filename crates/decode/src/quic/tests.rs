#![allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::cast_possible_truncation
)]

use super::keys::{self, Keys, Version, TAG};
use super::Quic;
use crate::testing::{c, line, probe, s, say, Turn};
use crate::{Detect, Probe, Protocol, MAX_BUFFERED};
use proptest::prelude::*;
use wirespan_model::{Chunk, Side, Transport};

const ID: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];
const V1: u32 = 1;

/// A packet with a long header; the keys are their own inverse.
fn packet(keys: &Keys, version: u32, kind: u8, to: &[u8], token: Option<&[u8]>, text: &[u8]) -> Vec<u8> {
    let first = 0xc0 | kind << 4 | 1;
    let mut head = [&[first][..], &version.to_be_bytes(), &[to.len() as u8], to, &[4, 9, 9, 9, 9]].concat();
    if let Some(token) = token {
        head.push(token.len() as u8);
        head.extend(token);
    }
    let len = 2 + text.len() + TAG;
    head.extend((0x4000 | len as u16).to_be_bytes());
    let number = head.len();
    // As if it were encrypted already: the mask is made from the content, so that it comes last.
    let clear = [&head[..], &[0, 7], text, &[0; TAG]].concat();
    let sealed = keys.seal(&clear, number);
    assert_eq!(sealed.len(), clear.len());
    sealed
}

fn crypto(offset: u16, data: &[u8]) -> Vec<u8> {
    [&[6][..], &(0x4000 | offset).to_be_bytes(), &(0x4000 | data.len() as u16).to_be_bytes(), data].concat()
}

fn padded(frames: &[&[u8]]) -> Vec<u8> {
    let mut text = frames.concat();
    text.resize(text.len().max(1100), 0);
    text
}

fn list16(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u16).to_be_bytes()[..], body].concat()
}

fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &list16(body)].concat()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &(body.len() as u32).to_be_bytes()[1..], body].concat()
}

fn client_hello() -> Vec<u8> {
    client_hello_of(b"geheim..geheim..geheim..geheim..")
}

fn client_hello_of(random: &[u8; 32]) -> Vec<u8> {
    let name = extension(0, &list16(&[&[0][..], &list16(b"shop.test")].concat()));
    let alpn = extension(16, &list16(b"\x02h3"));
    let body = [&[3, 3][..], random, &[0], &list16(&[0x13, 1]), &[1, 0], &list16(&[name, alpn].concat())].concat();
    message(1, &body)
}

fn server_hello() -> Vec<u8> {
    let extensions = [extension(43, &[3, 4]), extension(51, &[0, 0x1d, 0, 2, 9, 9])].concat();
    let random = b"geheim..geheim..geheim..geheim..";
    message(2, &[&[3, 3][..], random, &[0, 0x13, 1, 0], &list16(&extensions)].concat())
}

/// What is said, with the names of the handshakes replaced by numbers.
fn udp(turns: &[Turn]) -> Vec<String> {
    let mut names = Vec::new();
    let mut number = |word: &str| match word.strip_prefix("id=") {
        Some(name) => {
            let known = names.iter().position(|n| n == name);
            let at = known.unwrap_or(names.len());
            names.extend(known.is_none().then(|| name.to_string()));
            format!("id={at}")
        }
        None => word.to_string(),
    };
    let said = say(&mut *Quic.parser(Transport::Udp), turns);
    said.iter().map(|line| line.split(' ').map(&mut number).collect::<Vec<_>>().join(" ")).collect()
}

fn keys_of(version: u32, id: &[u8]) -> [Keys; 2] {
    keys::initial(Version::of(version).first().unwrap(), id).unwrap()
}

/// The first datagram of a client.
fn asks(version: u32, kind: u8, frames: &[&[u8]]) -> Vec<u8> {
    packet(&keys_of(version, &ID)[0], version, kind, &ID, Some(b""), &padded(frames))
}

/// The first datagram of a server: its hello, and the beginning of what is secret.
fn answers(version: u32, kind: u8, frames: &[&[u8]]) -> Vec<u8> {
    let acknowledges = [2, 0, 0, 0, 0];
    let text = [&acknowledges[..], &frames.concat()].concat();
    let initial = packet(&keys_of(version, &ID)[1], version, kind, &[9; 4], Some(b""), &text);
    let secret = [&[0xe0][..], &V1.to_be_bytes(), &[4, 9, 9, 9, 9, 0, 0x40, 60], &[5; 60]].concat();
    [initial, secret].concat()
}

#[test]
fn a_handshake_is_read() {
    for (version, kind, name) in
        [(V1, 0, "1"), (0x6b33_43cf, 1, "2"), (0xff00_001d, 0, "draft-29"), (0xface_b001, 0, "0xfaceb001")]
    {
        let (ask, answer) = (
            asks(version, kind, &[&crypto(0, &client_hello())]),
            answers(version, kind, &[&crypto(0, &server_hello())]),
        );
        let said = udp(&[c(&ask), s(&answer), c(b"\x40 geheim geheim geheim")]);
        assert_eq!(
            said,
            [
                format!(
                    "C req @0+{} id=0 handshake shop.test server.address=shop.test \
                     wirespan.tls.offered_protocols=h3 wirespan.quic.version={name}",
                    ask.len()
                ),
                format!(
                    "S resp @0+{} id=0 Ok tls.protocol.version=1.3 tls.cipher=TLS_AES_128_GCM_SHA256 \
                     tls.curve=x25519 wirespan.quic.version={name}",
                    answer.len()
                ),
            ]
        );
    }
}

/// Browsers cut their hello into pieces, out of order and over several packets, on purpose.
#[test]
fn a_hello_comes_in_any_pieces() {
    let hello = client_hello();
    let (a, b, d) = (crypto(0, &hello[..9]), crypto(9, &hello[9..50]), crypto(50, &hello[50..]));
    let first = asks(V1, 0, &[&d, &[1, 0, 0], &a]);
    let second = asks(V1, 0, &[&[1], &b]);
    let said = udp(&[c(&first), c(&second), s(answers(V1, 0, &[&crypto(0, &server_hello())]))]);
    let len = first.len() + second.len();
    assert!(said[0].starts_with(&format!("C req @0+{len} id=0 handshake shop.test")), "{said:?}");
    assert_eq!(said.len(), 2, "{said:?}");
    // Both datagrams in one call (GRO), the second as far as it was captured.
    let mut both = [first, second].concat();
    both.truncate(len - 900);
    let mut parser = Quic.parser(Transport::Udp);
    let mut said = Vec::new();
    parser.feed(Chunk { side: Side::Client, bytes: &both, missing: 900 }, &mut |item| said.push(line(&item)));
    assert!(said.len() == 1 && said[0].contains("handshake shop.test"), "{said:?}");
    // The call holds more than was captured, and what was captured is no whole hello.
    let mut parser = Quic.parser(Transport::Udp);
    let mut said = Vec::new();
    let part = asks(V1, 0, &[&a]);
    parser.feed(Chunk { side: Side::Client, bytes: &part, missing: 1200 }, &mut |item| said.push(line(&item)));
    assert!(said.len() == 1 && said[0].contains("quic_cut"), "{said:?}");
    // Only a part came.
    let mut parser = Quic.parser(Transport::Udp);
    let mut said = say(&mut *parser, &[c(asks(V1, 0, &[&crypto(0, &hello[..hello.len() - 3])]))]);
    parser.finish(&mut |item| said.push(line(&item)));
    assert!(said[0].contains("handshake shop.test"), "{said:?}");
}

#[test]
fn what_is_sent_again_and_what_a_retry_asks_for_is_told() {
    let ask = asks(V1, 0, &[&crypto(0, &client_hello())]);
    let said = udp(&[c(&ask), c(&ask), s(answers(V1, 0, &[&crypto(0, &server_hello())]))]);
    assert_eq!(said.iter().filter(|l| l.contains("C req") && l.contains("id=0")).count(), 2, "{said:?}");
    let other = [7; 8];
    let retry = [&[0xf0][..], &V1.to_be_bytes(), &[4, 9, 9, 9, 9, 8], &other, b"geheim token", &[0; 16]].concat();
    let again =
        packet(&keys_of(V1, &other)[0], V1, 0, &other, Some(b"geheim token"), &padded(&[&crypto(0, &client_hello())]));
    let secret = [&[0xe0][..], &V1.to_be_bytes(), &[4, 9, 9, 9, 9, 0, 0x40, 60], &[5; 60]].concat();
    let said = udp(&[c(&ask), s(&retry), c(&again), s(&secret)]);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[1].ends_with("id=0 Ok wirespan.quic.version=1 wirespan.quic.retry=true"), "{said:?}");
    // The server chooses the second version (RFC 9368).
    let said = udp(&[c(&ask), s(answers(0x6b33_43cf, 1, &[&crypto(0, &server_hello())]))]);
    assert!(said[1].contains("tls.curve=x25519") && said[1].ends_with("wirespan.quic.version=2"), "{said:?}");
}

/// A client may use one port for several connections to the same server.
#[test]
fn each_connection_between_the_same_ends_is_a_handshake() {
    let hello = crypto(0, &client_hello());
    let (ask, answer) = (asks(V1, 0, &[&hello]), answers(V1, 0, &[&crypto(0, &server_hello())]));
    let id = [3; 8];
    let [client, server] = keys_of(V1, &id);
    let second = crypto(0, &client_hello_of(b"anders..anders..anders..anders.."));
    let other = packet(&client, V1, 0, &id, Some(b""), &padded(&[&second]));
    let reply = packet(&server, V1, 0, &[9; 4], Some(b""), &padded(&[&crypto(0, &server_hello())]));
    // A hello that was answered, but whose answer was lost, comes again.
    let said = udp(&[c(&ask), s(&answer), c(&ask), c(&other), s(b"\x40 geheim"), s(&reply)]);
    let ids: Vec<_> = said.iter().map(|l| l.split(' ').find(|w| w.starts_with("id=")).unwrap()).collect();
    assert_eq!(ids, ["id=0", "id=0", "id=1", "id=1"], "{said:?}");
    assert!(said[3].contains(" Ok "), "{said:?}");
    // The second begins before the first is answered.
    let said = udp(&[c(&ask), c(&other), s(&reply)]);
    assert!(said[1].contains("id=1 handshake") && said[2].contains("id=1 Ok"), "{said:?}");
}

#[test]
fn refusals_have_names() {
    let ask = asks(V1, 0, &[&crypto(0, &client_hello())]);
    let close = |code: u16| [&[0x1c][..], &(0x4000 | code).to_be_bytes(), &[0, 6], b"geheim"].concat();
    let said = udp(&[c(&ask), s(answers(V1, 0, &[&close(0x178)]))]);
    let alert = "ClientError error=\"no_application_protocol\" error.type=no_application_protocol";
    assert!(said[1].contains(alert), "{said:?}");
    let said = udp(&[c(&ask), s(answers(V1, 0, &[&close(2)]))]);
    assert!(said[1].contains("ServerError error=\"connection_refused\""), "{said:?}");
    let offer = [&[0x80][..], &[0; 4], &[4, 9, 9, 9, 9, 0], &0x6b33_43cfu32.to_be_bytes()].concat();
    let second = asks(0x6b33_43cf, 1, &[&crypto(0, &client_hello())]);
    let said = udp(&[c(&ask), s(&offer), c(&second), s(answers(0x6b33_43cf, 1, &[&crypto(0, &server_hello())]))]);
    assert!(said[1].contains("error=\"version_negotiation\""), "{said:?}");
    assert!(said[2].contains("id=1 handshake") && said[2].ends_with("version=2"), "{said:?}");
    assert!(said[3].contains("id=1 Ok"), "{said:?}");
}

#[test]
fn connections_are_recognised_and_others_are_not() {
    let ask = |first: &[u8], second: &[u8]| Quic.detect(&Probe { transport: Transport::Udp, ..probe(first, second) });
    let (hello, answer) = (crypto(0, &client_hello()), answers(V1, 0, &[&crypto(0, &server_hello())]));
    let first = asks(V1, 0, &[&hello]);
    assert_eq!(ask(&first, b""), Detect::Yes { first_is_client: true });
    assert_eq!(ask(&answer, &first), Detect::Yes { first_is_client: false });
    // What the kernel copied ends early.
    assert_eq!(ask(&first[..512], b""), Detect::Yes { first_is_client: true });
    assert_eq!(ask(&answer, b""), Detect::No);
    let mut wrong = first.clone();
    wrong[8] ^= 1;
    assert_eq!(ask(&wrong, b""), Detect::No);
    assert_eq!(ask(&asks(V1, 0, &[&[1]]), b""), Detect::No, "nothing but a ping");
    assert_eq!(ask(&[0xc3; 1200], b""), Detect::No);
    assert_eq!(Quic.detect(&probe(&first, b"")), Detect::No, "TCP");
}

proptest! {
    #[test]
    fn nothing_panics(
        flips in prop::collection::vec((0usize..2000, any::<u8>()), 0..6),
        text in prop::collection::vec(any::<u8>(), 20..400),
        keep in 0usize..1400,
        missing in prop_oneof![Just(0u64), 1u64..100, Just(u64::MAX)],
    ) {
        // What an attacker writes decrypts to anything.
        let any = packet(&keys_of(V1, &ID)[0], V1, 0, &ID, Some(b""), &text);
        let mut bytes = asks(V1, 0, &[&crypto(0, &client_hello())]);
        for (at, value) in flips {
            let i = at % bytes.len();
            bytes[i] = value;
        }
        bytes.truncate(keep);
        let mut parser = Quic.parser(Transport::Udp);
        for bytes in [any, bytes] {
            for side in [Side::Client, Side::Server] {
                parser.feed(Chunk { side, bytes: &bytes, missing }, &mut |item| { line(&item); });
                prop_assert!(parser.buffered() <= 2 * MAX_BUFFERED);
            }
            Quic.detect(&Probe { transport: Transport::Udp, ..probe(&bytes, b"") });
        }
        parser.finish(&mut |_| {});
    }
}
