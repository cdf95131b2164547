//! No protocol claims the connections of another.
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

/// Starts of conversations: the bytes of the first end, then the other's. The first word names the protocol, as the
/// registry does if it has it; nobody else may claim it, nor it from any other place.
const OTHERS: &[(&str, &[u8], &[u8])] = &[
    ("tls", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abcdefgh", b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76"),
    (
        "http2",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
        b"\x00\x00\x06\x04\x00\x00\x00\x00\x00",
    ),
    ("mysql", b"J\x00\x00\x00\x0a8.0.31\x00\x08\x00\x00\x00", b"\x55\x00\x00\x01\x85\xa6\xff\x01root\x00"),
    (
        "postgresql",
        b"\x00\x00\x00\x29\x00\x03\x00\x00user\x00bob\x00database\x00db\x00\x00",
        b"R\x00\x00\x00\x08\x00\x00\x00\x00",
    ),
    (
        "kafka",
        b"\x00\x00\x00\x18\x00\x12\x00\x03\x00\x00\x00\x01\x00\x05admin\x00\x00",
        b"\x00\x00\x01\x0a\x00\x00\x00\x01",
    ),
    (
        "kafka produce",
        b"\x00\x00\x00\x47\x00\x00\x00\x02\x00\x00\x00\x07\x00\x04shop\x00\x01\x00\x00\x03\xe8\x00\x00\x00\x01\x00\
        \x03old",
        b"\x00\x00\x00\x2a\x00\x00\x00\x07\x00\x00\x00\x01\x00\x03old",
    ),
    (
        "zookeeper",
        b"\x00\x00\x00\x2d\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x75\x30\x00\x00\x00\x00\x00\x00\x00\
        \x00\
          \x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\x00\x00\x00\x25\x00\x00\x00\x00\x00\x00\x75\x30\x01\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x10",
    ),
    (
        "pulsar",
        b"\x00\x00\x00\x10\x00\x00\x00\x0c\x08\x02\x12\x08\x0a\x04test\x20\x13",
        b"\x00\x00\x00\x0e\x00\x00\x00\x0a\x08\x03\x1a\x06\x0a\x04test",
    ),
    (
        "rocketmq",
        b"\x00\x00\x00\x37\x00\x00\x00\x33{\"code\":34,\"flag\":0,\"language\":\"JAVA\",\"opaque\":7}    ",
        b"\x00\x00\x00\x23\x00\x00\x00\x1f{\"code\":0,\"flag\":1,\"opaque\":7}",
    ),
    (
        "rocketmq \
    binary",
        b"\x00\x00\x00\x19\x01\x00\x00\x15\x00\x22\x00\x01\x91\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x00\
    \x00\x00\x00\x00",
        b"",
    ),
    (
        "mongodb",
        b"\x3a\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\xdd\x07\x00\x00\x00\x00\x00\x00",
        b"\x3a\x00\x00\x00",
    ),
    ("mqtt", b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04dev1", b"\x20\x02\x00\x00"),
    ("mqtt 5", b"\x10\x12\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x05dev-1", b"\x20\x03\x00\x00\x00"),
    ("mqtt publish", b"\x32\x08\x00\x03a/b\x00\x07x", b"\x40\x02\x00\x07"),
    ("mqtt subscribe", b"\x82\x08\x00\x01\x00\x03a/+\x01", b"\x90\x03\x00\x01\x01"),
    ("mqtt ping", b"\xc0\x00", b"\xd0\x00"),
    ("amqp1", b"AMQP\x03\x01\x00\x00", b"AMQP\x03\x01\x00\x00"),
    ("amqp1 joined", b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x17\x45", b"\x00\x00\x00\x08\x02\x00\x00\x00"),
    ("openwire", b"\x00\x00\x00\x16\x01ActiveMQ\x00\x00\x00\x0c\x01\x00\x00\x00\x04\x00\x00\x00\x00", b""),
    (
        "openwire joined",
        b"\x00\x00\x00\x12\x03\x00\x00\x00\x09\x01\x01\x78\x01\x00\x04ID:x\x00\x00\x00",
        b"\x00\x00\x00\x0a\x1e\x00\x00\x00\x00\x00\x00\x00\x00\x09",
    ),
    ("amqp", b"AMQP\x00\x00\x09\x01", b"\x01\x00\x00\x00\x00\x01\xdc\x00\x0a\x00\x0a"),
    (
        "amqp publish",
        b"\x01\x00\x01\x00\x00\x00\x0a\x00\x3c\x00\x28\x00\x00\x01x\x01k\x00\xce",
        b"\x08\x00\x00\x00\x00\
    \x00\x00\xce",
    ),
    ("amqp heartbeats", b"\x08\x00\x00\x00\x00\x00\x00\xce", b"\x08\x00\x00\x00\x00\x00\x00\xce"),
    ("ssh", b"SSH-2.0-OpenSSH_9.2\r\n", b"SSH-2.0-OpenSSH_9.2\r\n"),
    ("smtp", b"220 mail.example ESMTP\r\n", b"EHLO me\r\n"),
    ("ftp", b"220 ftp ready\r\n", b"AUTH TLS\r\n"),
    ("pop3", b"+OK POP3 ready <1@x>\r\n", b"AUTH PLAIN\r\n"),
    ("pop3 joined", b"QUIT\r\n", b"+OK bye\r\n"),
    ("imap", b"* OK [CAPABILITY IMAP4rev1] ready\r\n", b"a1 LOGIN u p\r\n"),
    ("nats", b"INFO {\"server_id\":\"x\"}\r\n", b"CONNECT {\"verbose\":false}\r\nPING\r\n"),
    ("nats joined", b"PING\r\n", b"PONG\r\n"),
    ("nats verbose", b"SUB foo 1\r\n", b"+OK\r\n"),
    ("nats publish", b"PUB orders.new _INBOX.1 2\r\nhi\r\n", b"MSG _INBOX.1 1 2\r\nok\r\n"),
    ("nats headers", b"HMSG a.b 1 12 13\r\nNATS/1.0\r\n\r\nx\r\n", b"PONG\r\n"),
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
        "cassandra",
        b"\x04\x00\x00\x00\x01\x00\x00\x00\x16\x00\x01\x00\x0bCQL_VERSION",
        b"\x84\x00\x00\x00\x02\x00\x00\x00\x00",
    ),
    (
        "cassandra \
    joined",
        b"\x04\x00\x00\x09\x0a\x00\x00\x00\x06\x00\x01x\x00\x01\x00",
        b"\x84\x00\x00\x09\x08\x00\x00\x00\x04\x00\
    \x00\x00\x01",
    ),
    (
        "microsoft.sql_server",
        b"\x12\x01\x00\x1a\x00\x00\x01\x00\x00\x00\x0b\x00\x06\x01\x00\x11\x00\x01\xff\x10\x00\x00\x00\x00\x00\x02",
        b"\x04\x01\x00\x1a\x00\x00\x01\x00\x00\x00\x0b\x00\x06\x01\x00\x11\x00\x01\xff\x10\x00\x00\x00\x00\x00\x02",
    ),
    (
        "microsoft.sql_server joined",
        b"\x01\x01\x00\x1e\x00\x00\x01\x00\x04\x00\x00\x00S\x00E\x00L\x00E\x00C\x00T\x00 \
    \x001\x00",
        b"\x04\x01\x00\x15\x00\x33\x01\x00\xfd\x10\x00\xc1\x00\x01\x00\x00\x00\x00\x00\x00\x00",
    ),
    (
        "clickhouse",
        b"\x00\x11ClickHouse \
    client\x17\x08\xbc\xa9\x03\x04shop\x02me\x02pw",
        b"\x00\x0aClickHouse\x17\x08\xbc\xa9\x03\x03UTC",
    ),
    ("mysql joined", b"\x09\x00\x00\x00\x03SELECT 1", b"\x01\x00\x00\x01\x01\x17\x00\x00\x02\x03def"),
    (
        "mysql prepared",
        b"\x0a\x00\x00\x00\x17\x01\x00\x00\x00\x00\x01\x00\x00\x00",
        b"\x07\x00\x00\x01\x00\x01\x00\x02\
    \x00\x00\x00",
    ),
    ("postgresql joined", b"Q\x00\x00\x00\x0dSELECT 1\x00", b"C\x00\x00\x00\x0dSELECT 1\x00Z\x00\x00\x00\x05I"),
    ("postgresql tls", b"\x00\x00\x00\x08\x04\xd2\x16\x2f", b"S"),
    ("ldap", b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\x00\x80\x00", b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x00"),
    ("socks 5", b"\x05\x01\x00", b"\x05\x00"),
    ("socks 4", b"\x04\x01\x00\x50\x0a\x00\x00\x02me\x00", b"\x00\x5a\x00\x00\x00\x00\x00\x00"),
    ("proxy 1", b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n\x00\x01", b""),
    (
        "proxy 2",
        b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x07\xc6\x33\x64\x01\x12\x67\x01\xbb",
        b"220 mx.test ESMTP\r\n",
    ),
    (
        "zookeeper",
        b"\x00\x00\x00\x2d\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x27\x10\x00\x00\x00\x00\x00\x00\
          \x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\x00\x00\x00\x25\x00\x00\x00\x00\x00\x00\x27\x10\x01\x02\x03\x04\x05\x06\x07\x08\x00\x00\x00\x10",
    ),
    (
        "zookeeper joined",
        b"\x00\x00\x00\x11\x00\x00\x00\x07\x00\x00\x00\x04\x00\x00\x00\x04/app\x00",
        b"\x00\x00\x00\x14\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00\x00",
    ),
    (
        "mongodb find",
        b"\x31\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\xdd\x07\x00\x00\x00\x00\x00\x00\x00\x1c\x00\x00\x00\
          \x02find\x00\x02\x00\x00\x00a\x00\x02$db\x00\x02\x00\x00\x00d\x00\x00",
        b"\x26\x00\x00\x00\x09\x00\x00\x00\x01\x00\x00\x00\xdd\x07\x00\x00\x00\x00\x00\x00\x00\x11\x00\x00\x00\
          \x01ok\x00\x00\x00\x00\x00\x00\x00\xf0\x3f\x00",
    ),
    ("memcached meta", b"mg key1 v s\r\n", b"VA 3 s3\r\nabc\r\n"),
    (
        "ldap search",
        b"\x30\x20\x02\x01\x02\x63\x1b\x04\x04dc=x\x0a\x01\x02\x0a\x01\x00\x02\x01\x00\x02\x01\x00\x01\x01\x00\
          \x87\x02cn\x30\x00",
        b"\x30\x0c\x02\x01\x02\x65\x07\x0a\x01\x00\x04\x00\x04\x00",
    ),
    ("smtp joined", b"MAIL FROM:<a@b.test>\r\n", b"250 2.1.0 Ok\r\n"),
    ("tls joined", b"\x17\x03\x03\x00\x18abcdefghijklmnopqrstuvwx", b"\x17\x03\x03\x00\x18abcdefghijklmnopqrstuvwx"),
    ("rdb", b"REDIS0011\xfa", b""),
    ("irc", b"NICK bob\r\nUSER bob 0 * :bob\r\n", b":srv 001 bob :hi\r\n"),
    ("gopher", b"/path\r\n", b"iHello\t\r\n"),
    ("http/0.9", b"GET /\r\n", b"<html>"),
    ("zeros", &[0; 64], &[0; 64]),
    ("ones", &[0xff; 64], &[0xff; 64]),
    ("stars", b"*****************", b"$$$$$$$$$$$$"),
    ("json lines", b"{\"method\":\"GET / HTTP/1.1\"}\n", b"{\"ok\":true}\n"),
    ("csv", b"1,2,3\r\n4,5,6\r\n", b"ok\r\n"),
    (
        "dubbo call",
        b"\xda\xbb\xc2\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x20\x052.0.2\x08shop.Foo\x050.0.0\x03get\x00HZ",
        b"\xda\xbb\x02\x14\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02\x91\x91",
    ),
    (
        "brpc",
        b"PRPC\x00\x00\x00\x0f\x00\x00\x00\x0f\x0a\x0b\x0a\x04Echo\x12\x03put\x20\x01",
        b"PRPC\x00\x00\x00\x06\x00\x00\x00\x06\x12\x02\x08\x00\x20\x01",
    ),
    (
        "sofarpc",
        b"\x01\x01\x00\x01\x01\x00\x00\x00\x02\x01\x00\x00\x27\x10\x00\x0c\x00\x00\x00\x00\x00\x00com.shop.Req",
        b"\x01\x00\x00\x02\x01\x00\x00\x00\x02\x01\x00\x00\x00\x0d\x00\x00\x00\x00\x00\x00com.shop.Resp",
    ),
    (
        "tars",
        b"\x00\x00\x00\x24\x10\x01\x2c\x3c\x40\x0f\x56\x0aa.b.LogObj\x66\x04ping\x7d\x00\x0c\x81\x0b\xb8\x98\x0c\xa8\
        \x0c",
        b"\x00\x00\x00\x10\x10\x01\x2c\x30\x0f\x4c\x5c\x6d\x00\x0c\x78\x0c",
    ),
    (
        "krpc",
        b"KR\x00\x08\x00\x00\x00\x08\x08\x01\x10\x09\x18\x03\x20\x01",
        b"KR\x00\x08\x00\x00\x00\x08\x08\x02\x10\x09\x18\x03\x20\x01",
    ),
    (
        "thrift",
        b"\x80\x01\x00\x01\x00\x00\x00\x03add\x00\x00\x00\x01\x00",
        b"\x80\x01\x00\x02\x00\x00\x00\x03add\x00\x00\x00\x01\x00",
    ),
    (
        "thrift framed",
        b"\x00\x00\x00\x10\x80\x01\x00\x01\x00\x00\x00\x03add\x00\x00\x00\x01\x00",
        b"\x00\x00\x00\x10\x80\x01\x00\x02\x00\x00\x00\x03add\x00\x00\x00\x01\x00",
    ),
    ("thrift old", b"\x00\x00\x00\x03add\x01\x00\x00\x00\x01\x00", b"\x00\x00\x00\x03add\x02\x00\x00\x00\x01\x00"),
    ("thrift compact", b"\x82\x21\x01\x06remove\x00", b"\x82\x41\x01\x06remove\x00"),
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
            let own = name.split(' ').next();
            let fair = |said: Option<&str>| matches!(said, None | Some("more")) || said == own;
            assert!(fair(said), "{name} is taken for {said:?}");
            assert!(turns != (2, 2) || said != Some("more"), "{name} is never given up");
            // Nor from any place inside, as when a connection is joined in the middle.
            for at in 0..first.len() {
                let said = verdict(Transport::Tcp, &first[at..], second, turns);
                assert!(fair(said), "{name} from {at} is taken for {said:?}");
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
fn an_undecided_connection_is_given_up() {
    let first = b"GET /no/version/seen";
    assert_eq!(verdict(Transport::Tcp, first, b"", (1, 0)), Some("more"));
    assert_eq!(verdict(Transport::Tcp, first, b"", (9, 1)), Some("more"));
    assert_eq!(verdict(Transport::Tcp, first, b"", (2, 2)), None);
    assert_eq!(verdict(Transport::Tcp, first, b"HTTP/1.1 200 OK\r\n", (2, 2)), Some("http"));
}

/// Starts per property; `WIRESPAN_STARTS` asks for more.
fn starts() -> ProptestConfig {
    let asked = std::env::var("WIRESPAN_STARTS").ok().and_then(|n| n.parse().ok());
    ProptestConfig::with_cases(asked.unwrap_or(20_000))
}

proptest! {
    #![proptest_config(starts())]
    /// One end of one conversation, joined and cut anywhere, with an end of another: nobody but these two may claim it.
    #[test]
    fn crossed_conversations_are_not_claimed_by_third_ones(
        one in 0..OTHERS.len(),
        other in 0..OTHERS.len(),
        from in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
        swapped in any::<bool>(),
    ) {
        let (name, first, answer) = OTHERS[one];
        let (second_name, question, second) = OTHERS[other];
        let first = &first[from.index(first.len())..];
        let second = if swapped { question } else { second };
        let second = &second[..cut.index(second.len() + 1)];
        let own = |name: &str| name.split(' ').next().map(str::to_string);
        for (first, second) in [(first, second), (second, first), (first, &answer[..answer.len().min(second.len())])] {
            let said = verdict(Transport::Tcp, first, second, (1, 1));
            // `get key` with `+OK` is a conversation of Redis, even if the halves come from other protocols.
            let typed = said == Some("redis") && first.first().is_some_and(u8::is_ascii_alphabetic);
            let owned = [own(name), own(second_name)].contains(&said.map(str::to_string));
            let fair = typed || matches!(said, None | Some("more")) || owned;
            prop_assert!(fair, "{name} and {second_name} are taken for {said:?}");
        }
    }

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
