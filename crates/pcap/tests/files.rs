//! File formats, links and tunnels: the same datagram in every format, and files that are no captures.
#![allow(clippy::unwrap_used)]

mod build;

use build::{ethernet, ipv4, pcap, replay, udp_bytes, Packet};
use proptest::prelude::*;
use std::io::Write;
use wirespan_pcap::PcapError;

const TIME_NS: u64 = 1_700_000_000_123_456_789;

fn inner() -> Vec<u8> {
    ipv4([10, 0, 0, 1], [10, 0, 0, 2], 17, 1, 0, &udp_bytes(5000, 53, b"payload"))
}

fn packet(frame: Vec<u8>) -> Packet {
    Packet { time_ns: TIME_NS, frame }
}

/// Asserts that the one datagram in the file comes out. Returns its time.
fn holds_the_datagram(file: &[u8]) -> u64 {
    let seen = replay(file);
    seen.result.as_ref().unwrap();
    let data: Vec<_> = seen.data().collect();
    assert_eq!(data.len(), 1, "{:?}", seen.stats);
    assert_eq!((data[0].payload.as_slice(), data[0].len, data[0].local.port), (b"payload".as_slice(), 7, 5000));
    data[0].enter_ns
}

#[test]
fn classic_files_are_read_in_both_byte_orders_and_units() {
    let little = pcap(1, &[packet(ethernet(0x0800, &inner()))], 65_535);
    assert_eq!(holds_the_datagram(&little), TIME_NS);
    // the same file as a big-endian machine writes it: swap each 32-bit field of both headers (version is two of 16)
    let mut big = little.clone();
    for at in (0..4).step_by(4).chain((8..24).step_by(4)).chain((24..40).step_by(4)) {
        big[at..at + 4].reverse();
    }
    big[4..6].reverse();
    big[6..8].reverse();
    assert_eq!(holds_the_datagram(&big), TIME_NS);
    let mut micro = little;
    micro[..4].copy_from_slice(&0xa1b2_c3d4u32.to_le_bytes());
    micro[28..32].copy_from_slice(&123_456u32.to_le_bytes());
    assert_eq!(holds_the_datagram(&micro), TIME_NS / 1000 * 1000);
}

#[test]
fn gzipped_files_are_read() {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&pcap(1, &[packet(ethernet(0x0800, &inner()))], 65_535)).unwrap();
    let file = gz.finish().unwrap();
    assert_eq!(holds_the_datagram(&file), TIME_NS);
    let seen = replay(&file[..file.len() - 12]);
    seen.result.as_ref().unwrap();
    assert_eq!(seen.stats.count("file_cut_short"), 1);
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let total = 12 + body.len().next_multiple_of(4);
    let mut b = kind.to_be_bytes().to_vec();
    b.extend((total as u32).to_be_bytes());
    b.extend(body);
    b.resize(total - 4, 0);
    b.extend((total as u32).to_be_bytes());
    b
}

/// A big-endian section with two interfaces: 0 is raw IP in microseconds, 1 is Ethernet in units of 2⁻³⁰ s shifted by
/// 100 s.
fn section() -> Vec<u8> {
    let mut f = block(0x0a0d_0d0a, &[0x1a, 0x2b, 0x3c, 0x4d, 0, 1, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    f.extend(block(1, &[0, 101, 0, 0, 0, 0, 0, 0]));
    let mut options = vec![0, 1, 0, 0, 0, 0, 0, 0];
    options.extend([0, 2, 0, 5, b'v', b'e', b't', b'h', b'0', 0, 0, 0]); // a name, padded
    options.extend([0, 9, 0, 1, 0x80 | 30, 0, 0, 0]);
    options.extend([0, 14, 0, 8, 0, 0, 0, 0, 0, 0, 0, 100]);
    options.extend([0, 0, 0, 0]);
    f.extend(block(1, &options));
    f.extend(block(0x0bad, b"what nobody knows"));
    f
}

fn enhanced(interface: u32, time: u64, frame: &[u8]) -> Vec<u8> {
    let mut b = interface.to_be_bytes().to_vec();
    b.extend(time.to_be_bytes());
    b.extend((frame.len() as u32).to_be_bytes());
    b.extend((frame.len() as u32).to_be_bytes());
    b.extend(frame);
    block(6, &b)
}

#[test]
fn pcapng_interfaces_have_their_own_link_types_and_clocks() {
    let mut raw = section();
    raw.extend(enhanced(0, 1_700_000_000_123_456, &inner()));
    assert_eq!(holds_the_datagram(&raw), TIME_NS / 1000 * 1000);
    let mut other = section();
    other.extend(enhanced(1, 3 << 29, &ethernet(0x0800, &inner()))); // 1.5 s
    assert_eq!(holds_the_datagram(&other), 101_500_000_000);
    let mut simple = section();
    simple.extend(block(3, &[&(inner().len() as u32).to_be_bytes()[..], &inner()].concat()));
    holds_the_datagram(&simple);
}

#[test]
fn a_packet_of_an_unknown_interface_is_damage_with_its_place() {
    let mut f = section();
    let at = f.len() as u64;
    f.extend(enhanced(7, 0, b"x"));
    match replay(&f).result {
        Err(PcapError::Damaged { offset, packets, .. }) => assert_eq!((offset, packets), (at, 0)),
        other => panic!("{other:?}"),
    }
}

fn vxlan(inside: &[u8]) -> Vec<u8> {
    [&[8, 0, 0, 0, 0, 0, 42, 0], inside].concat()
}

/// LLC and SNAP of IPv4.
const SNAP: [u8; 8] = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];

/// A data frame of 802.11 with these first two bytes and a header of this length.
fn wifi(first: &[u8; 2], header: usize, ip: &[u8]) -> Vec<u8> {
    [&first[..], &vec![0; header - 2], &SNAP, ip].concat()
}

#[test]
fn several_packets_in_one_frame_of_wifi_are_read() {
    let part = |padding: usize| {
        let content = [&SNAP[..], &inner()].concat();
        [&[0; 12][..], &(content.len() as u16).to_be_bytes(), &content, &vec![0; padding]].concat()
    };
    let mut frame = [&[0x88, 1][..], &[0; 22], &[0x80, 0]].concat();
    let padding = part(0).len().next_multiple_of(4) - part(0).len();
    frame.extend([part(padding), part(0)].concat());
    let seen = replay(&pcap(105, &[packet(frame)], 65_535));
    assert_eq!(seen.data().count(), 2);
}

#[test]
fn encrypted_and_damaged_frames_of_wifi_are_counted() {
    let damaged = [&[0, 0, 9, 0, 2, 0, 0, 0, 0x50][..], &wifi(&[0x08, 1], 24, &inner())].concat();
    let secret = [&[0, 0, 8, 0, 0, 0, 0, 0][..], &wifi(&[0x08, 0x41], 24, &inner())].concat();
    let seen = replay(&pcap(127, &[packet(damaged), packet(secret)], 65_535));
    assert_eq!((seen.data().count(), seen.stats.count("link_bad_checksum")), (0, 1));
    assert_eq!(seen.stats.count("link_encrypted"), 1);
}

#[test]
fn every_link_and_tunnel_gives_the_same_datagram() {
    let ip = inner();
    let frame = ethernet(0x0800, &ip);
    let outer = |protocol, payload: &[u8]| ethernet(0x0800, &ipv4([1, 1, 1, 1], [2, 2, 2, 2], protocol, 9, 0, payload));
    let gre = |flags: u8, kind: u16, rest: &[u8]| outer(47, &[&[flags, 0], &kind.to_be_bytes()[..], rest].concat());
    let mut ipv6 = vec![0x60, 0, 0, 0];
    ipv6.extend((8 + ip.len() as u16).to_be_bytes());
    ipv6.extend([60, 64]);
    ipv6.extend([0xfe; 32]);
    let ip_in_ipv6 = [&ipv6[..], &[4, 0, 1, 4, 0, 0, 0, 0], &ip].concat(); // behind destination options
    let in_vxlan = |frame: &[u8]| outer(17, &udp_bytes(9999, 4789, &vxlan(frame)));
    let flagged = |flags: [u8; 4], reserved: u8| [&flags[..], &[0, 0, 42, reserved], &frame].concat();
    let tagged = |frame: &[u8]| [&frame[..12], &[0x81, 0, 0, 7, 0x81, 0, 0, 8], &frame[12..]].concat();
    let thrice = tagged(&in_vxlan(&tagged(&in_vxlan(&tagged(&in_vxlan(&tagged(&frame)))))));
    let attribute = |ip: &[u8], order: fn(u16) -> [u8; 2]| [&order(4 + ip.len() as u16)[..], &order(9), ip].concat();
    let cases: Vec<(&str, u32, Vec<u8>)> = vec![
        ("raw", 101, ip.clone()),
        ("null", 0, [&[2, 0, 0, 0][..], &ip].concat()),
        ("loop", 108, [&[0, 0, 0, 2][..], &ip].concat()),
        ("SLL", 113, [&[0; 14][..], &[8, 0], &ip].concat()),
        ("SLL2", 276, [&[8, 0][..], &[0; 18], &ip].concat()),
        ("VLAN", 1, ethernet(0x8100, &[&[0, 7, 8, 0][..], &ip].concat())),
        ("QinQ", 1, ethernet(0x88a8, &[&[0, 7, 0x81, 0, 0, 8, 8, 0][..], &ip].concat())),
        ("MPLS", 1, ethernet(0x8847, &[&[0, 1, 0, 64, 0, 2, 1, 64][..], &ip].concat())),
        ("PPPoE", 1, ethernet(0x8864, &[&[0x11, 0, 0, 1, 0, 0, 0, 0x21][..], &ip].concat())),
        ("IPIP", 1, outer(4, &ip)),
        ("IP in IPv6", 1, ethernet(0x86dd, &ip_in_ipv6)),
        ("GRE", 1, gre(0, 0x0800, &ip)),
        ("GRE with key, checksum and sequence", 1, gre(0xb0, 0x0800, &[&[0; 12][..], &ip].concat())),
        ("TEB", 1, gre(0, 0x6558, &frame)),
        ("ERSPAN I", 1, gre(0, 0x88be, &frame)),
        ("ERSPAN II", 1, gre(0x10, 0x88be, &[&[0; 12][..], &frame].concat())),
        ("VXLAN", 1, outer(17, &udp_bytes(9999, 4789, &vxlan(&frame)))),
        ("VXLAN on an odd port", 1, outer(17, &udp_bytes(9999, 7777, &vxlan(&frame)))),
        (
            "Geneve",
            1,
            outer(17, &udp_bytes(9999, 6081, &[&[1, 0, 0x65, 0x58, 0, 0, 1, 0, 1, 2, 3, 4][..], &frame].concat())),
        ),
        ("VXLAN with a group policy", 1, outer(17, &udp_bytes(9999, 4789, &flagged([0x88, 0x48, 1, 2], 0)))),
        ("VXLAN with a group policy, odd port", 1, outer(17, &udp_bytes(9999, 7777, &flagged([0x88, 0, 1, 2], 0)))),
        ("VXLAN with reserved bits", 1, outer(17, &udp_bytes(9999, 8472, &flagged([0x0c, 1, 0, 9], 7)))),
        ("VXLAN-GPE", 1, outer(17, &udp_bytes(9999, 4790, &[&[0x0c, 0, 0, 1, 0, 0, 42, 0][..], &ip].concat()))),
        ("VXLAN in GRE", 1, gre(0, 0x0800, &in_vxlan(&frame)[14..])),
        ("VXLAN in ERSPAN", 1, gre(0x10, 0x88be, &[&[0; 12][..], &in_vxlan(&frame)].concat())),
        ("VXLAN three times", 1, in_vxlan(&in_vxlan(&in_vxlan(&frame)))),
        ("VXLAN three times, in ERSPAN, with tags", 1, gre(0x10, 0x88be, &[&[0; 12][..], &thrice].concat())),
        ("802.3 with SNAP", 1, ethernet(8 + ip.len() as u16, &[&SNAP[..], &ip].concat())),
        ("PPP", 9, [&[0, 0x21][..], &ip].concat()),
        ("PPP with HDLC", 50, [&[0xff, 3, 0, 0x21][..], &ip].concat()),
        ("PPP with a short protocol", 9, [&[0xff, 3, 0x21][..], &ip].concat()),
        ("PPP of pppd", 166, [&[1, 3, 0, 0x21][..], &ip].concat()),
        ("PPP with a direction", 204, [&[1, 0xff, 3, 0, 0x21][..], &ip].concat()),
        ("PPPoE alone", 51, [&[0x11, 0, 0, 1, 0, 0, 0, 0x21][..], &ip].concat()),
        ("Cisco HDLC", 104, [&[0x0f, 0, 8, 0][..], &ip].concat()),
        ("802.11", 105, wifi(&[0x08, 1], 24, &ip)),
        ("radiotap", 127, [&[0, 0, 9, 0, 2, 0, 0, 0, 0x10][..], &wifi(&[0x88, 1], 26, &ip), &[1, 2, 3, 4]].concat()),
        ("radiotap, four addresses, padded", 127, {
            let header = [0, 0, 24, 0, 3, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
            let mut header = [&header[..], &[0x20, 0]].concat();
            header[2] = 26;
            [&header[..], &wifi(&[0x88, 3], 32, &ip)].concat()
        }),
        ("PPI", 192, [&[0, 0, 8, 0, 105, 0, 0, 0][..], &wifi(&[0x08, 2], 24, &ip)].concat()),
        ("NFLOG", 239, [&[2, 0, 0, 5, 8, 0, 10, 0][..], &[0; 4], &attribute(&ip, u16::to_le_bytes)].concat()),
        (
            "NFLOG, big-endian",
            239,
            [&[2, 0, 0, 5, 0, 5, 0, 10, 0, 0, 0, 0][..], &attribute(&ip, u16::to_be_bytes)].concat(),
        ),
        ("PFLOG", 117, [&[61, 2][..], &[0; 62], &ip].concat()),
        ("PKTAP", 258, [&[108, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0][..], &[0; 96], &frame].concat()),
        ("Ethernet with padding", 1, [&frame[..], &[0; 20]].concat()),
    ];
    for (name, link, frame) in cases {
        println!("{name}");
        holds_the_datagram(&pcap(link, &[packet(frame)], 65_535));
    }
}

#[test]
fn the_same_addresses_in_two_tunnels_are_two_sockets() {
    let outer = |vni: u8| {
        let mut body = vxlan(&ethernet(0x0800, &inner()));
        body[6] = vni;
        packet(ethernet(0x0800, &ipv4([1, 1, 1, 1], [2, 2, 2, 2], 17, 9, 0, &udp_bytes(9999, 4789, &body))))
    };
    let seen = replay(&pcap(1, &[outer(1), outer(2), outer(1)], 65_535));
    let ids: Vec<_> = seen.data().map(|d| d.socket).collect();
    assert_ne!(ids[0], ids[1]);
    assert_eq!(ids[0], ids[2]);
}

#[test]
fn fragments_are_reassembled_in_any_order() {
    let whole = udp_bytes(5000, 53, &[9; 40]);
    let part = |from: usize, to: usize| {
        let place = (from / 8) as u16 | if to < whole.len() { 0x2000 } else { 0 };
        packet(ethernet(0x0800, &ipv4([10, 0, 0, 1], [10, 0, 0, 2], 17, 5, place, &whole[from..to])))
    };
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        let parts = [part(0, 16), part(16, 32), part(32, 48)];
        let seen = replay(&pcap(1, &order.map(|i| parts[i].clone()), 65_535));
        let data: Vec<_> = seen.data().collect();
        assert_eq!((data.len(), data[0].payload.as_slice()), (1, [9; 40].as_slice()));
    }
    let seen = replay(&pcap(1, &[part(0, 16), part(8, 32), part(32, 48)], 65_535));
    assert_eq!(seen.data().count(), 0);
    assert_eq!((seen.stats.count("fragment_overlap"), seen.stats.count("fragment_incomplete")), (1, 1));
}

#[test]
fn the_error_of_a_file_that_is_no_capture_names_its_kind() {
    let cases: [(&[u8], &str); 6] = [
        (b"", "test.pcap: not a capture file (pcap, pcapng, or one of these gzipped): it is empty"),
        (b"PK\x03\x04more", "it looks like a zip archive; its first bytes are 50 4b 03 04 6d 6f 72 65"),
        (b"{\"resourceSpans\":[]}", "it looks like JSON; its first bytes are 7b 22"),
        (b"hello, this is text", "it looks like text; its first bytes are 68 65 6c 6c 6f 2c 20"),
        (
            b"\x1f\x8b\x08not really",
            "it looks gzipped, and what is inside is no capture either; its first bytes are 1f 8b 08",
        ),
        (b"\xff\xfe\x00\x01", "it is of an unknown kind; its first bytes are ff fe 00 01"),
    ];
    for (bytes, expected) in cases {
        let error = replay(bytes).result.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let error = replay(&pcap(147, &[], 100)).result.unwrap_err().to_string();
    assert!(error.contains("link type 147 cannot be read"), "{error}");
}

proptest! {
    #[test]
    fn any_bytes_behind_any_magic_end_well(
        magic in prop::sample::select(vec![0xa1b2_c3d4u32, 0xd4c3_b2a1, 0xa1b2_3c4d, 0xa1b2_cd34, 0x0a0d_0d0a,
            0x1f8b_0800]),
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let _ = replay(&[&magic.to_be_bytes()[..], &bytes].concat());
    }

    #[test]
    fn any_frame_of_any_link_ends_well(
        link in prop::sample::select(vec![
            0u32, 1, 9, 50, 51, 101, 104, 105, 113, 117, 127, 192, 204, 239, 258, 276,
        ]),
        kind in prop::sample::select(vec![0x0800u16, 0x86dd, 0x8100, 0x8847, 0x8864]),
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let seen = replay(&pcap(link, &[packet(bytes.clone()), packet(ethernet(kind, &bytes))], 65_535));
        prop_assert!(seen.result.is_ok());
    }
}
