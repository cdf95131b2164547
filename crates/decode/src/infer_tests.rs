//! No protocol claims what is not its own.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use crate::{infer, Probe, Verdict};
use proptest::prelude::*;
use wirespan_model::Transport;

fn verdict(transport: Transport, first: &[u8], second: &[u8], turns: (u32, u32)) -> Option<&'static str> {
    let probe = Probe { transport, first, second, first_is_client: None, server_port: None };
    match infer(&probe, turns) {
        Verdict::Known { protocol, .. } => Some(protocol.name()),
        Verdict::NeedMore => Some("more"),
        Verdict::Unknown => None,
    }
}

/// Starts of conversations in other protocols: what the first end says, then the other.
const OTHERS: &[(&str, &[u8], &[u8])] = &[
    ("tls", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abcdefgh", b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76"),
    (
        "http2",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
        b"\x00\x00\x06\x04\x00\x00\x00\x00\x00",
    ),
    ("mysql", b"J\x00\x00\x00\x0a8.0.31\x00\x08\x00\x00\x00", b"\x55\x00\x00\x01\x85\xa6\xff\x01root\x00"),
    (
        "postgres",
        b"\x00\x00\x00\x29\x00\x03\x00\x00user\x00bob\x00database\x00db\x00\x00",
        b"R\x00\x00\x00\x08\x00\x00\x00\x00",
    ),
    (
        "kafka",
        b"\x00\x00\x00\x18\x00\x12\x00\x03\x00\x00\x00\x01\x00\x05admin\x00\x00",
        b"\x00\x00\x01\x0a\x00\x00\x00\x01",
    ),
    ("mongo", b"\x3a\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\xdd\x07\x00\x00\x00\x00\x00\x00", b"\x3a\x00\x00\x00"),
    ("mqtt", b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04dev1", b"\x20\x02\x00\x00"),
    ("amqp", b"AMQP\x00\x00\x09\x01", b"\x01\x00\x00\x00\x00\x01\xdc\x00\x0a\x00\x0a"),
    ("ssh", b"SSH-2.0-OpenSSH_9.2\r\n", b"SSH-2.0-OpenSSH_9.2\r\n"),
    ("smtp", b"220 mail.example ESMTP\r\n", b"EHLO me\r\n"),
    ("ftp", b"220 ftp ready\r\n", b"AUTH TLS\r\n"),
    ("pop3", b"+OK POP3 ready <1@x>\r\n", b"AUTH PLAIN\r\n"),
    ("pop3 joined", b"QUIT\r\n", b"+OK bye\r\n"),
    ("imap", b"* OK [CAPABILITY IMAP4rev1] ready\r\n", b"a1 LOGIN u p\r\n"),
    ("nats", b"INFO {\"server_id\":\"x\"}\r\n", b"CONNECT {\"verbose\":false}\r\nPING\r\n"),
    ("nats joined", b"PING\r\n", b"PONG\r\n"),
    ("nats verbose", b"SUB foo 1\r\n", b"+OK\r\n"),
    ("memcached", b"get key1\r\n", b"VALUE key1 0 3\r\nabc\r\nEND\r\n"),
    ("memcached set", b"set key1 0 0 3\r\nabc\r\n", b"STORED\r\n"),
    ("memcached touch", b"touch key1 5\r\n", b"ERROR\r\n"),
    ("memcached binary", b"\x80\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00key1", b"\x81\x00\x00\x00"),
    ("beanstalk", b"watch jobs\r\n", b"WATCHING 2\r\n"),
    ("stomp", b"CONNECT\naccept-version:1.2\nhost:x\n\n\x00", b"CONNECTED\nversion:1.2\n\n\x00"),
    ("sip", b"INVITE sip:bob@b.example SIP/2.0\r\nVia: x\r\n\r\n", b"SIP/2.0 100 Trying\r\n\r\n"),
    ("rtsp", b"OPTIONS rtsp://cam/1 RTSP/1.0\r\nCSeq: 1\r\n\r\n", b"RTSP/1.0 200 OK\r\n\r\n"),
    ("icap", b"REQMOD icap://x/y ICAP/1.0\r\n\r\n", b"ICAP/1.0 200 OK\r\n\r\n"),
    ("zmtp", b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x03\x00NULL", b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f"),
    ("dubbo", b"\xda\xbb\xc2\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x10", b"\xda\xbb\x02\x14\x00\x00"),
    (
        "cql",
        b"\x04\x00\x00\x00\x01\x00\x00\x00\x16\x00\x01\x00\x0bCQL_VERSION",
        b"\x84\x00\x00\x00\x02\x00\x00\x00\x00",
    ),
    ("ldap", b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\x00\x80\x00", b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x00"),
    ("socks5", b"\x05\x01\x00", b"\x05\x00"),
    ("rdb", b"REDIS0011\xfa", b""),
    ("irc", b"NICK bob\r\nUSER bob 0 * :bob\r\n", b":srv 001 bob :hi\r\n"),
    ("gopher", b"/path\r\n", b"iHello\t\r\n"),
    ("http/0.9", b"GET /\r\n", b"<html>"),
    ("zeros", &[0; 64], &[0; 64]),
    ("ones", &[0xff; 64], &[0xff; 64]),
    ("stars", b"*****************", b"$$$$$$$$$$$$"),
    ("json lines", b"{\"method\":\"GET / HTTP/1.1\"}\n", b"{\"ok\":true}\n"),
    ("csv", b"1,2,3\r\n4,5,6\r\n", b"ok\r\n"),
];

/// The same for datagrams.
const DATAGRAMS: &[(&str, &[u8], &[u8])] = &[
    ("ntp", &[0x23, 0, 6, 0xec, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[0x24; 48]),
    ("syslog", b"<34>Oct 11 22:14:15 host su: 'su root' failed", b""),
    ("statsd", b"shop.orders:1|c", b""),
    ("ssdp", b"M-SEARCH * HTTP/1.1\r\nHOST: 239.255.255.250:1900\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"),
    ("stun", b"\x00\x01\x00\x00\x21\x12\xa4\x42abcdefghijkl", b"\x01\x01\x00\x0c\x21\x12\xa4\x42abcdefghijkl"),
    ("quic", b"\xc3\x00\x00\x00\x01\x08abcdefgh\x00\x00\x41\x00xyz", b"\xc1\x00\x00\x00\x01\x00\x08"),
    ("snmp", b"\x30\x26\x02\x01\x01\x04\x06public\xa0\x19\x02\x04", b""),
    ("rtp", b"\x80\x60\x00\x01\x00\x00\x00\xa0\x12\x34\x56\x78\xff\xff\xff\xff", b""),
    ("tftp", b"\x00\x01boot.img\x00octet\x00", b"\x00\x03\x00\x01"),
    ("redis on udp", b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n"),
    ("zeros", &[0; 64], &[0; 64]),
];

#[test]
fn other_protocols_are_not_claimed() {
    for (name, first, second) in OTHERS {
        for turns in [(1, 0), (1, 1), (2, 2)] {
            let second = if turns.1 == 0 { b"" } else { *second };
            let said = verdict(Transport::Tcp, first, second, turns);
            assert!(matches!(said, None | Some("more")), "{name} is taken for {said:?}");
            assert!(turns != (2, 2) || said.is_none(), "{name} is never given up");
            // Nor from any place inside, as when a connection is joined in the middle.
            for at in 0..first.len() {
                let said = verdict(Transport::Tcp, &first[at..], second, turns);
                assert!(matches!(said, None | Some("more")), "{name} from {at} is taken for {said:?}");
            }
        }
    }
    for (name, first, second) in DATAGRAMS {
        let said = verdict(Transport::Udp, first, second, (1, 1));
        assert_eq!(said, None, "{name}");
    }
}

#[test]
fn protocols_do_not_claim_each_other() {
    let redis = b"*2\r\n$3\r\nGET\r\n$4\r\nhttp\r\n".as_slice();
    let http = b"GET /redis HTTP/1.1\r\nHost: x\r\n\r\n".as_slice();
    assert_eq!(verdict(Transport::Tcp, redis, b"$8\r\nHTTP/1.1\r\n", (1, 1)), Some("redis"));
    assert_eq!(verdict(Transport::Tcp, http, b"HTTP/1.1 200 OK\r\n\r\n", (1, 1)), Some("http"));
    let dns = b"\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01".as_slice();
    assert_eq!(verdict(Transport::Udp, dns, b"", (1, 0)), Some("dns"));
    assert_eq!(verdict(Transport::Udp, http, b"", (1, 1)), None);
}

#[test]
fn patience_ends() {
    let first = b"GET /no/version/seen";
    assert_eq!(verdict(Transport::Tcp, first, b"", (1, 0)), Some("more"));
    assert_eq!(verdict(Transport::Tcp, first, b"", (9, 1)), Some("more"));
    assert_eq!(verdict(Transport::Tcp, first, b"", (2, 2)), None);
    assert_eq!(verdict(Transport::Tcp, first, b"HTTP/1.1 200 OK\r\n", (2, 2)), Some("http"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]
    #[test]
    fn random_bytes_are_not_claimed(
        first in prop::collection::vec(any::<u8>(), 0..80),
        second in prop::collection::vec(any::<u8>(), 0..80),
        udp in any::<bool>(),
    ) {
        let transport = if udp { Transport::Udp } else { Transport::Tcp };
        let said = verdict(transport, &first, &second, (1, 1));
        prop_assert!(matches!(said, None | Some("more")), "{:?}", said);
    }

    /// Bytes of the alphabets that the protocols are written in.
    #[test]
    fn random_text_is_not_claimed(
        first in r"[*$+:\-0-9A-Za-z /.]{0,12}(\r\n)?[*$0-9A-Z /.]{0,12}(\r\n)?",
        second in r"[*$+:\-0-9A-Z /.]{0,12}(\r\n)?",
    ) {
        let said = verdict(Transport::Tcp, first.as_bytes(), second.as_bytes(), (1, 1));
        prop_assert!(matches!(said, None | Some("more")), "{:?}", said);
    }

    /// Small counters and lengths, as binary protocols begin.
    #[test]
    fn small_integers_are_not_claimed(
        first in prop::collection::vec(prop_oneof![3 => Just(0u8), 2 => 0u8..8, 1 => any::<u8>()], 0..60),
        udp in any::<bool>(),
    ) {
        let transport = if udp { Transport::Udp } else { Transport::Tcp };
        let said = verdict(transport, &first, b"", (1, 1));
        prop_assert!(matches!(said, None | Some("more")), "{:?} {:?}", said, first);
    }
}
