//! Errors of ICMP: on their own, in a tunnel, in fragments, cut.
#![allow(clippy::expect_used)]

mod build;

use build::{ethernet, ipv4, udp_bytes};
use std::net::IpAddr;
use wirespan_pcap::{About, Icmp, Limits, Live, LiveFrame};

const FROM: [u8; 4] = [10, 0, 0, 1];
const TO: [u8; 4] = [10, 0, 0, 9];
const LOST: [u8; 4] = [10, 0, 0, 2];

/// The messages in these frames.
fn read(frames: &[Vec<u8>]) -> Vec<Icmp> {
    let mut live = Live::new(Limits::default(), true);
    let mut all = Vec::new();
    for data in frames {
        live.frame(LiveFrame { time_ns: 1, wire_len: data.len(), data }, &mut |_| {});
        all.extend_from_slice(live.icmp());
    }
    all
}

/// An error about a packet.
fn error(kind: u8, code: u8, about: &[u8]) -> Vec<u8> {
    [&[kind, code, 0, 0, 0, 0, 0, 0], about].concat()
}

/// Port unreachable, of a datagram to port 53.
fn unreachable() -> Vec<u8> {
    error(3, 3, &ipv4(FROM, LOST, 17, 7, 0, &udp_bytes(4660, 53, b"")))
}

fn wanted() -> Icmp {
    let about = About { destination: LOST.into(), protocol: 17, port: Some(53) };
    Icmp { source: FROM.into(), is_v6: false, kind: 3, code: 3, about: Some(about) }
}

#[test]
fn an_error_names_the_packet_that_was_not_delivered() {
    assert_eq!(read(&[ethernet(0x0800, &ipv4(FROM, TO, 1, 0, 0, &unreachable()))]), [wanted()]);
    let echo = ethernet(0x0800, &ipv4(FROM, TO, 1, 0, 0, &error(8, 0, b"ping")));
    let [message] = read(&[echo])[..] else { panic!("one message") };
    assert_eq!((message.kind, message.about), (8, None));
}

#[test]
fn errors_in_tunnels_and_in_fragments_are_read() {
    let inner = ethernet(0x0800, &ipv4(FROM, TO, 1, 0, 0, &unreachable()));
    let vxlan = [&[8, 0, 0, 0, 0, 0, 5, 0][..], &inner].concat();
    let outer = ipv4([192, 168, 0, 1], [192, 168, 0, 2], 17, 0, 0, &udp_bytes(5555, 4789, &vxlan));
    assert_eq!(read(&[ethernet(0x0800, &outer)]), [wanted()]);
    let gre = [&[0, 0, 8, 0][..], &inner[14..]].concat();
    let outer = ipv4([192, 168, 0, 1], [192, 168, 0, 2], 47, 0, 0, &gre);
    assert_eq!(read(&[ethernet(0x0800, &outer)]), [wanted()]);

    let whole = unreachable();
    let (first, rest) = whole.split_at(16);
    let pieces = [ipv4(FROM, TO, 1, 9, 0x2000, first), ipv4(FROM, TO, 1, 9, 2, rest)];
    assert_eq!(read(&pieces.map(|packet| ethernet(0x0800, &packet))), [wanted()]);
}

#[test]
fn errors_of_ipv6_are_read_behind_extension_headers() {
    let ipv6 = |next: u8, payload: &[u8]| {
        let mut packet = vec![0; 40];
        (packet[0], packet[6], packet[23], packet[39]) = (0x60, next, 1, 2);
        packet[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
        packet.extend(payload);
        packet
    };
    let options = [58, 0, 0, 0, 0, 0, 0, 0];
    let big = [&options[..], &error(2, 0, &ipv6(6, &[0x12, 0x34, 0, 53, 0, 8, 0, 0]))].concat();
    let [message] = read(&[ethernet(0x86dd, &ipv6(60, &big))])[..] else { panic!("one message") };
    let address = |last: u16| IpAddr::from([0, 0, 0, 0, 0, 0, 0, last]);
    let about = Some(About { destination: address(2), protocol: 6, port: Some(53) });
    assert_eq!(message, Icmp { source: address(1), is_v6: true, kind: 2, code: 0, about });
}

#[test]
fn of_a_message_that_is_cut_at_any_byte_as_much_is_known_as_is_there() {
    let whole = ethernet(0x0800, &ipv4(FROM, TO, 1, 0, 0, &unreachable()));
    for len in 0..=whole.len() {
        let messages = read(&[whole[..len].to_vec()]);
        // Headers of Ethernet and IP, then type and code; the lost packet's header; its ports.
        assert_eq!(messages.len(), usize::from(len >= 36), "{len}");
        let about = messages.first().and_then(|message| message.about);
        assert_eq!(about.is_some(), len >= 62, "{len}");
        assert_eq!(about.and_then(|about| about.port), (len >= 66).then_some(53), "{len}");
    }
}

#[test]
fn a_later_fragment_that_was_not_delivered_has_no_port() {
    let lost = ipv4(FROM, LOST, 17, 7, 3, &udp_bytes(4660, 53, b""));
    let [message] = read(&[ethernet(0x0800, &ipv4(FROM, TO, 1, 0, 0, &error(11, 1, &lost)))])[..] else {
        panic!("one message")
    };
    assert_eq!(message.about, Some(About { destination: LOST.into(), protocol: 17, port: None }));
}
