//! TCP and UDP: whatever the network does to a stream, its bytes come out once and in order.
#![allow(clippy::unwrap_used)]

mod build;

use build::{handshake, replay_packets, tcp, Packet, ACK, FIN, MS, RST, SYN};
use proptest::prelude::*;
use wirespan_model::event::SocketChange;
use wirespan_model::{Direction, Endpoint, Role};

fn ends() -> (Endpoint, Endpoint) {
    (Endpoint::new(build::CLIENT.0.into(), build::CLIENT.1), Endpoint::new(build::SERVER.0.into(), build::SERVER.1))
}

#[test]
fn a_whole_connection_is_seen_from_its_client() {
    let mut p = handshake(100, 500);
    p.push(tcp(10, true, 101, 501, ACK, b"ask"));
    p.push(tcp(14, false, 501, 104, ACK, b"answer"));
    p.push(tcp(15, true, 104, 507, ACK | FIN, b""));
    p.push(tcp(16, false, 507, 105, ACK | FIN, b""));
    p.push(tcp(17, true, 105, 508, ACK, b""));
    let seen = replay_packets(&p);
    let data: Vec<_> = seen.data().collect();
    assert_eq!(data.len(), 2);
    assert_eq!((data[0].direction, data[0].seq, data[0].enter_ns), (Direction::Egress, Some(101), 10 * MS));
    assert_eq!(
        (data[1].direction, data[1].seq, data[1].payload.as_slice()),
        (Direction::Ingress, Some(501), b"answer".as_slice())
    );
    for d in data {
        assert_eq!((d.local, d.remote, d.role), (ends().0, ends().1, Role::Client));
    }
    let sockets = seen.sockets();
    assert_eq!(sockets.iter().map(|s| s.change).collect::<Vec<_>>(), [SocketChange::Open, SocketChange::Close]);
    assert_eq!(sockets[0].totals.connect_ns, 2 * MS);
    assert_eq!((sockets[0].time_ns, sockets[1].time_ns), (3 * MS, 16 * MS));
    let totals = sockets[1].totals;
    assert_eq!((totals.bytes_sent, totals.bytes_received, totals.retransmits), (3, 6, 0));
    assert!(totals.srtt_ns > 0);
}

#[test]
fn a_refused_connection_failed() {
    let seen = replay_packets(&[tcp(1, true, 100, 0, SYN, b""), tcp(2, false, 0, 101, RST | ACK, b"")]);
    let sockets = seen.sockets();
    assert_eq!(sockets.len(), 1);
    assert_eq!((sockets[0].change, sockets[0].local), (SocketChange::ConnectFailed(111), ends().0));
}

#[test]
fn a_connection_that_nobody_answers_failed_only_if_it_asked_again() {
    assert!(replay_packets(&[tcp(1, true, 100, 0, SYN, b"")]).sockets().is_empty());
    let seen = replay_packets(&[tcp(1, true, 100, 0, SYN, b""), tcp(1001, true, 100, 0, SYN, b"")]);
    let sockets = seen.sockets();
    assert_eq!(sockets[0].change, SocketChange::ConnectFailed(110));
    assert_eq!(sockets[0].totals.retransmits, 1);
}

#[test]
fn a_reset_inside_the_handshake_is_a_failed_connection() {
    let synack = || tcp(2, false, 500, 101, SYN | ACK, b"");
    let cases = [
        (vec![tcp(3, true, 101, 0, RST, b"")], 110),
        (vec![synack(), tcp(3, true, 101, 0, RST, b"")], 103),
        (vec![synack(), tcp(3, false, 501, 0, RST, b"")], 104),
    ];
    for (rest, errno) in cases {
        let packets: Vec<_> = std::iter::once(tcp(1, true, 100, 0, SYN, b"")).chain(rest).collect();
        let seen = replay_packets(&packets);
        let changes: Vec<_> = seen.sockets().iter().map(|s| s.change).collect();
        assert_eq!(changes, [SocketChange::ConnectFailed(errno)]);
    }
}

#[test]
fn a_reset_ends_the_connection() {
    let mut p = handshake(100, 500);
    p.push(tcp(10, true, 101, 501, ACK, b"ask"));
    p.push(tcp(11, false, 501, 104, RST | ACK, b""));
    let changes: Vec<_> = replay_packets(&p).sockets().iter().map(|s| s.change).collect();
    assert_eq!(changes, [SocketChange::Open, SocketChange::Reset(104)]);
}

#[test]
fn a_new_syn_on_the_same_ends_is_a_new_socket() {
    let mut p = handshake(100, 500);
    p.push(tcp(10, true, 101, 501, ACK, b"one"));
    p.extend(handshake(90_000, 70_000));
    p.push(tcp(20, true, 90_001, 70_001, ACK, b"two"));
    let seen = replay_packets(&p);
    let data: Vec<_> = seen.data().collect();
    assert_ne!(data[0].socket, data[1].socket);
    assert_eq!(data[1].payload, b"two");
    let changes: Vec<_> = seen.sockets().iter().map(|s| s.change).collect();
    assert_eq!(changes, [SocketChange::Open, SocketChange::Close, SocketChange::Open]);
    assert_eq!(seen.stats.count("tcp_tuple_reused"), 1);
}

#[test]
fn bytes_acknowledged_but_not_captured_are_missing_in_their_place() {
    let mut p = handshake(100, 500);
    p.push(tcp(10, true, 101, 501, ACK, b"abc"));
    // 104..110 were sent and never captured
    p.push(tcp(12, true, 110, 501, ACK, b"xyz"));
    p.push(tcp(13, false, 501, 113, ACK, b"answer"));
    let seen = replay_packets(&p);
    let shape: Vec<_> = seen.data().map(|d| (d.seq.unwrap(), d.payload.as_slice(), d.len)).collect();
    let expected: [(u32, &[u8], u64); 4] = [(101, b"abc", 3), (104, b"", 6), (110, b"xyz", 3), (501, b"answer", 6)];
    assert_eq!(shape, expected);
    assert_eq!(seen.stats.count("tcp_missing_bytes"), 6);
}

#[test]
fn an_answer_captured_before_its_question_waits_for_it() {
    let mut p = handshake(100, 500);
    p.push(tcp(10, true, 101, 501, ACK, b"first"));
    p.push(tcp(11, false, 501, 112, ACK, b"answer"));
    p.push(tcp(11, true, 106, 501, ACK, b"second"));
    let seen = replay_packets(&p);
    let payloads: Vec<_> = seen.data().map(|d| d.payload.as_slice()).collect();
    assert_eq!(payloads, [b"first".as_slice(), b"second", b"answer"]);
    assert_eq!(seen.stats.count("tcp_gaps"), 0);
}

#[test]
fn of_overlapping_segments_the_first_wins() {
    let mut p = handshake(100, 500);
    p.push(tcp(10, true, 104, 501, ACK, b"DEF"));
    p.push(tcp(11, true, 101, 501, ACK, b"abcdefghi"));
    let seen = replay_packets(&p);
    assert_eq!(seen.stream(Direction::Egress), (b"abcDEFghi".to_vec(), 9));
}

#[test]
fn a_cut_segment_says_how_long_it_was() {
    let mut p = handshake(100, 500);
    p.push(tcp(10, true, 101, 501, ACK, &[b'x'; 100]));
    p.push(tcp(11, true, 201, 501, ACK, b"end"));
    let seen = build::replay(&build::pcap(1, &p, 54 + 10));
    let shape: Vec<_> = seen.data().map(|d| (d.payload.len(), d.len)).collect();
    assert_eq!(shape, [(10, 100), (3, 3)]);
    assert_eq!(seen.stats.count("tcp_segment_cut"), 1);
}

#[test]
fn a_connection_joined_in_the_middle_is_guessed() {
    let seen = replay_packets(&[
        tcp(10, false, 501, 104, ACK, b"HTTP/1.1 200 OK"),
        tcp(11, true, 104, 516, ACK, b"GET / HTTP/1.1"),
    ]);
    let data: Vec<_> = seen.data().collect();
    assert_eq!((data[0].direction, data[0].local, data[0].role), (Direction::Ingress, ends().0, Role::Unknown));
    assert_eq!(data[1].direction, Direction::Egress);
    assert!(seen.sockets().is_empty());
}

#[test]
fn keep_alives_and_packets_captured_twice_are_no_retransmissions() {
    let mut p = handshake(100, 500);
    p.push(tcp(10, true, 101, 501, ACK, b"ask"));
    p.push(tcp(10_000, true, 103, 501, ACK, b"\0"));
    let mut twin = tcp(20_000, true, 104, 501, ACK, b"more");
    twin.frame[14 + 4..14 + 6].copy_from_slice(&77u16.to_be_bytes());
    p.extend([twin.clone(), twin]);
    p.push(tcp(30_000, true, 108, 501, ACK | FIN, b""));
    p.push(tcp(30_001, false, 501, 109, ACK | FIN, b""));
    let seen = replay_packets(&p);
    assert_eq!(seen.stream(Direction::Egress).0, b"askmore");
    assert_eq!((seen.stats.count("tcp_keep_alive"), seen.stats.count("tcp_captured_twice")), (1, 1));
    assert_eq!(seen.sockets().last().unwrap().totals.retransmits, 0);
}

/// The capture begins while the connection rests: the first segment repeats the last byte that was sent before.
#[test]
fn a_keep_alive_before_everything_is_no_data() {
    const PUSH: u8 = 8;
    let ask = tcp(10_001, true, 105, 501, ACK | PUSH, b"GET / HTTP/1.1");
    let seen = replay_packets(&[
        tcp(10_000, true, 104, 501, ACK, b"\0"),
        tcp(10_000, false, 501, 105, ACK, b""),
        ask.clone(),
        tcp(10_002, false, 501, 119, ACK | PUSH, b"HTTP/1.1 200 OK"),
    ]);
    assert_eq!(seen.stream(Direction::Egress), (b"GET / HTTP/1.1".to_vec(), 14));
    assert_eq!(seen.stats.count("tcp_keep_alive"), 1);
    // A write of one byte is pushed.
    let seen = replay_packets(&[tcp(10_000, true, 104, 501, ACK | PUSH, b"\n"), ask]);
    assert_eq!(seen.stream(Direction::Egress).1, 15);
}

#[test]
fn round_trips_are_those_of_the_packets() {
    let mut p = handshake(100, 500);
    p.push(tcp(100, true, 101, 501, ACK, b"ask"));
    p.push(tcp(140, false, 501, 104, ACK, b""));
    p.push(tcp(200, true, 104, 501, ACK | FIN, b""));
    p.push(tcp(201, false, 501, 105, ACK | FIN, b""));
    let seen = replay_packets(&p);
    // 1 ms each way in the handshake, then one answer after 40 ms: 1 + 1 + (40 − 1) / 8
    assert_eq!(seen.sockets()[1].totals.srtt_ns, 2 * MS + 39 * MS / 8);
}

#[test]
fn a_torrent_of_connections_stays_within_its_limit() {
    let mut p = Vec::new();
    for port in 1024..3024u16 {
        let mut packet = tcp(u64::from(port), true, 1, 1, ACK, b"xy");
        packet.frame[34..36].copy_from_slice(&port.to_be_bytes());
        p.push(packet);
    }
    let limits = wirespan_pcap::Limits { flows: 100, ..Default::default() };
    let seen = build::replay_with(&build::pcap(1, &p, 65_535), limits);
    assert_eq!(seen.data().count(), 2000);
    assert!(seen.stats.count("tcp_flow_evicted") >= 1900);
}

#[test]
fn a_gap_that_is_never_filled_keeps_no_memory() {
    let mut p = handshake(100, 500);
    for i in 0..2000u32 {
        p.push(tcp(10, true, 111 + i * 1000, 501, ACK, &[7; 1000])); // 101..111 never come
    }
    let limits = wirespan_pcap::Limits { stream_bytes: 100_000, ..Default::default() };
    let seen = build::replay_with(&build::pcap(1, &p, 65_535), limits);
    let (bytes, len) = seen.stream(Direction::Egress);
    assert_eq!((bytes.len(), len), (2_000_000, 2_000_010));
    assert_eq!(seen.stats.count("tcp_buffer_full"), 1);
}

#[test]
fn udp_is_one_event_per_datagram() {
    let datagram = |ms, from: ([u8; 4], u16), to: ([u8; 4], u16), bytes: &[u8]| Packet {
        time_ns: ms * MS,
        frame: build::ethernet(0x0800, &build::ipv4(from.0, to.0, 17, 1, 0, &build::udp_bytes(from.1, to.1, bytes))),
    };
    let (client, server) = (([10, 0, 0, 1], 50_000), ([10, 0, 0, 9], 53));
    // the answer is captured first
    let seen = replay_packets(&[datagram(1, server, client, b"answer"), datagram(2, client, server, b"ask")]);
    let shape: Vec<_> = seen.data().map(|d| (d.direction, d.payload.as_slice(), d.local.port)).collect();
    assert_eq!(
        shape,
        [(Direction::Ingress, b"answer".as_slice(), 50_000), (Direction::Egress, b"ask".as_slice(), 50_000)]
    );
}

/// A stream cut into segments, then reordered within the buffer, partly repeated and re-cut.
fn mangled() -> impl Strategy<Value = (Vec<u8>, u32, Vec<(usize, usize)>)> {
    (proptest::collection::vec(any::<u8>(), 1..2000), any::<u32>()).prop_flat_map(|(bytes, isn)| {
        let n = bytes.len();
        let cuts = proptest::collection::btree_set(1..n.max(2), 0..12);
        let extra = proptest::collection::vec((0..n, 1..400usize), 0..8);
        (Just(bytes), Just(isn), cuts, extra, any::<prop::sample::Index>()).prop_flat_map(
            move |(bytes, isn, cuts, extra, _)| {
                let mut edges: Vec<usize> = cuts.into_iter().filter(|c| *c < n).collect();
                edges.insert(0, 0);
                edges.push(n);
                let mut segments: Vec<(usize, usize)> = edges.windows(2).map(|w| (w[0], w[1])).collect();
                segments.extend(extra.into_iter().map(|(at, len)| (at, (at + len).min(n))));
                (Just(bytes), Just(isn), Just(segments).prop_shuffle())
            },
        )
    })
}

proptest! {
    #[test]
    fn any_segmentation_order_and_repetition_gives_the_same_bytes((bytes, isn, segments) in mangled()) {
        let mut p = handshake(isn, 500);
        for (i, (from, to)) in segments.iter().enumerate() {
            let seq = isn.wrapping_add(1).wrapping_add(*from as u32);
            p.push(tcp(10 + i as u64, true, seq, 501, ACK, &bytes[*from..*to]));
        }
        let end = isn.wrapping_add(1).wrapping_add(bytes.len() as u32);
        p.push(tcp(900, false, 501, end, ACK, b"done"));
        let seen = replay_packets(&p);
        let (got, len) = seen.stream(Direction::Egress);
        prop_assert_eq!(&got, &bytes);
        prop_assert_eq!(len, bytes.len() as u64);
        prop_assert_eq!(seen.stream(Direction::Ingress).0, b"done".to_vec());
        // each byte has the sequence number that it had on the wire
        let mut at = isn.wrapping_add(1);
        for d in seen.data().filter(|d| d.direction == Direction::Egress) {
            prop_assert_eq!(d.seq, Some(at));
            at = at.wrapping_add(d.len as u32);
        }
    }

    #[test]
    fn lost_segments_are_counted_to_the_byte((bytes, isn, segments) in mangled(),
        lost in any::<prop::sample::Index>()) {
        let lost = lost.index(segments.len());
        let mut p = handshake(isn, 500);
        let mut there = vec![false; bytes.len()];
        for (i, (from, to)) in segments.iter().enumerate().filter(|(i, _)| *i != lost) {
            let seq = isn.wrapping_add(1).wrapping_add(*from as u32);
            p.push(tcp(10 + i as u64, true, seq, 501, ACK, &bytes[*from..*to]));
            there[*from..*to].fill(true);
        }
        let end = isn.wrapping_add(1).wrapping_add(bytes.len() as u32);
        p.push(tcp(900, true, end, 501, ACK, b"end"));
        p.push(tcp(901, false, 501, end.wrapping_add(3), ACK, b"done"));
        let seen = replay_packets(&p);
        let (got, len) = seen.stream(Direction::Egress);
        let mut expected: Vec<u8> = bytes.iter().zip(&there).filter(|(_, t)| **t).map(|(b, _)| *b).collect();
        expected.extend(b"end");
        prop_assert_eq!(got, expected);
        prop_assert_eq!(len, bytes.len() as u64 + 3);
    }

    /// For any segments: nothing panics, no byte is emitted twice, and sequence numbers go on without a gap.
    #[test]
    fn any_segments_end_well(
        segments in proptest::collection::vec(
            (any::<bool>(), 0..64u8, prop_oneof![0..3000u32, any::<u32>()], prop_oneof![0..3000u32, any::<u32>()],
                0..300usize, 0..40u64), 0..120,
        ),
        stream_bytes in 0..20_000usize,
    ) {
        let mut p = Vec::new();
        let (mut now, mut sent) = (0, 0);
        for (to_server, flags, seq, ack, len, wait) in segments {
            now += wait;
            sent += len as u64;
            p.push(tcp(now, to_server, seq, ack, flags, &vec![flags; len]));
        }
        let limits = wirespan_pcap::Limits { stream_bytes, ..Default::default() };
        let seen = build::replay_with(&build::pcap(1, &p, 65_535), limits);
        prop_assert!(seen.result.is_ok());
        let captured: u64 = seen.data().map(|d| d.payload.len() as u64).sum();
        prop_assert!(captured <= sent);
        let mut next = std::collections::HashMap::new();
        for d in seen.data() {
            prop_assert!(d.payload.len() as u64 <= d.len);
            let expected = next.insert((d.socket, d.direction), d.seq.unwrap().wrapping_add(d.len as u32));
            prop_assert!(expected.is_none_or(|e| Some(e) == d.seq), "a hole or an overlap that is no event");
        }
    }
}
