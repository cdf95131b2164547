//! QUIC: the packets that every observer can decrypt, sealed by rustls.

use super::{c, s, talk, Secrets, Talk};
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{DirectionalKeys, Keys, Version};
use rustls::Side;

const ID: [u8; 8] = *b"zq id 01";

pub(super) fn talks(x: &mut Secrets) -> Vec<Talk> {
    vec![quic(x)]
}

/// An Initial packet with the number 1.
fn packet(keys: &DirectionalKeys, to: &[u8], token: &[u8], text: &[u8]) -> Vec<u8> {
    let mut text = text.to_vec();
    text.resize(text.len().max(1150), 0);
    let len = 1 + text.len() + keys.packet.tag_len();
    let mut packet = [&[0xc0, 0, 0, 0, 1, to.len() as u8][..], to, &[4, 1, 2, 3, 4, token.len() as u8], token].concat();
    packet.extend((0x4000 | len as u16).to_be_bytes());
    packet.push(1);
    let number = packet.len() - 1;
    let tag = keys.packet.encrypt_in_place(1, &packet, &mut text).unwrap();
    packet.extend(text);
    packet.extend(tag.as_ref());
    let sample = packet[number + 4..][..keys.header.sample_len()].to_vec();
    let (head, rest) = packet.split_at_mut(number);
    keys.header.encrypt_in_place(&sample, &mut head[0], &mut rest[..1]).unwrap();
    packet
}

fn quic(x: &mut Secrets) -> Talk {
    let suite = TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite()).unwrap();
    let Keys { local: client, remote: server } = suite.keys(&ID, Side::Client, Version::V1);
    let message = |kind: u8, body: &[u8]| [&[kind], &(body.len() as u32).to_be_bytes()[1..], body].concat();
    let list16 = |body: &[u8]| [&(body.len() as u16).to_be_bytes()[..], body].concat();
    let extension = |kind: u16, body: &[u8]| [&kind.to_be_bytes()[..], &list16(body)].concat();
    let random = |secret: String| [secret.as_bytes(), b"............"].concat();
    let crypto = |data: &[u8]| [&[6, 0][..], &(0x4000 | data.len() as u16).to_be_bytes(), data].concat();
    let name = extension(0, &list16(&[&[0][..], &list16(b"shop.test")].concat()));
    let parameters = extension(57, x.of("quic transport parameters").as_bytes());
    let ticket = extension(35, x.of("quic ticket").as_bytes());
    let hello = [
        &[3, 3][..],
        &random(x.of("quic client random")),
        &[0],
        &list16(&[0x13, 1]),
        &[1, 0],
        &list16(&[name, parameters, ticket].concat()),
    ]
    .concat();
    let chosen = extension(43, &[3, 4]);
    let answer = [&[3, 3][..], &random(x.of("quic server random")), &[0, 0x13, 1, 0], &list16(&chosen)].concat();
    let asks = packet(&client, &ID, x.of("quic token").as_bytes(), &crypto(&message(1, &hello)));
    let answers = packet(&server, &[1, 2, 3, 4], b"", &crypto(&message(2, &answer)));
    let data = |secret: String| [&[0x40][..], secret.as_bytes(), &[7; 60]].concat();
    let turns = vec![c(asks), s(answers), c(data(x.of("quic data"))), s(data(x.of("quic answered data")))];
    Talk { datagrams: true, ..talk("quic", &["handshake shop.test"], turns) }
}
