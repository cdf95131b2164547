//! Packets that are cut, joined, lost, sent again, translated and put into tunnels.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use wirespan_journey::{Joiner, Journey, Settings, Summary};
use wirespan_model::packet::{Point, Route, Sighting, SYN, TCP, UDP};
use wirespan_model::test_support::{route, sighting};

/// `len` bytes of TCP from `seq` on, at this point of a device in this namespace, at this µs.
fn tcp(us: u64, point: Point, netns: u32, device: &str, seq: u32, len: u32) -> Sighting {
    Sighting { time_ns: us * 1000, point, netns, device: device.into(), ..sighting(TCP, seq, len) }
}

fn udp(us: u64, point: Point, netns: u32, hash: u32) -> Sighting {
    Sighting { route: route(UDP), hash, ..tcp(us, point, netns, "eth0", 0, 100) }
}

fn joined(sightings: &[Sighting]) -> Vec<Journey> {
    let mut joiner = Joiner::new(Settings::default());
    sightings.iter().for_each(|s| joiner.add(s));
    joiner.finish()
}

fn points(journey: &Journey) -> Vec<Point> {
    journey.steps.iter().map(|step| step.place.point).collect()
}

#[test]
fn a_segment_is_followed_from_the_program_to_the_reader() {
    let journeys = joined(&[
        tcp(0, Point::Send, 1, "", 1000, 100),
        tcp(10, Point::Queue, 1, "eth0", 1000, 100),
        tcp(13, Point::Xmit, 1, "eth0", 1000, 100),
        tcp(20, Point::Receive, 2, "eth0", 1000, 100),
        tcp(28, Point::Tcp, 2, "", 1000, 100),
        tcp(30, Point::Ready, 2, "", 1100, 0),
        tcp(60, Point::Copied, 2, "", 1000, 100),
    ]);
    let all = [Point::Send, Point::Queue, Point::Xmit, Point::Receive, Point::Tcp, Point::Ready, Point::Copied];
    assert_eq!(journeys.len(), 1);
    assert_eq!(points(&journeys[0]), all);
    assert_eq!((journeys[0].duration_ns(), journeys[0].len), (60_000, 100));
}

#[test]
fn a_syn_does_not_wait_for_the_reader_of_what_follows() {
    let journeys = joined(&[
        Sighting { flags: SYN, ..tcp(0, Point::Queue, 1, "eth0", 999, 0) },
        Sighting { flags: SYN, ..tcp(5, Point::Receive, 2, "eth0", 999, 0) },
        tcp(5000, Point::Ready, 2, "", 1100, 0),
    ]);
    assert_eq!(points(&journeys[0]), [Point::Queue, Point::Receive]);
}

#[test]
fn segments_that_are_cut_and_joined_on_the_way_are_the_same_bytes() {
    let mut all = vec![tcp(0, Point::Queue, 1, "eth0", u32::MAX - 1000, 3000)];
    all.extend(
        (0..3).map(|n| tcp(5 + n, Point::Xmit, 1, "eth0", (u32::MAX - 1000).wrapping_add(n as u32 * 1000), 1000)),
    );
    all.push(tcp(20, Point::Receive, 2, "eth0", u32::MAX - 1000, 2000));
    all.push(tcp(21, Point::Receive, 2, "eth0", (u32::MAX - 1000).wrapping_add(2000), 1000));
    let journeys = joined(&all);
    assert_eq!(journeys.len(), 1);
    // The last byte went in the third part, and arrived in the second.
    assert_eq!(journeys[0].steps.iter().map(|s| s.time_ns).collect::<Vec<_>>(), [0, 7000, 21_000]);
}

#[test]
fn a_drop_is_joined_with_the_retransmission() {
    let drop = Sighting { reason: 64, ..tcp(11, Point::Drop, 1, "eth0", 1000, 100) };
    let journeys = joined(&[
        tcp(10, Point::Queue, 1, "eth0", 1000, 100),
        drop,
        tcp(19_811, Point::Queue, 1, "eth0", 1000, 100),
        tcp(19_812, Point::Xmit, 1, "eth0", 1000, 100),
        tcp(19_815, Point::Receive, 2, "eth0", 1000, 100),
    ]);
    assert_eq!(journeys.len(), 2);
    let dropped = journeys[0].dropped.as_ref().unwrap();
    assert_eq!((dropped.reason, dropped.resent_after_ns), (64, Some(19_800_000)));
    assert_eq!(points(&journeys[0]), [Point::Queue]);
    assert_eq!((points(&journeys[1]), journeys[1].attempt), (vec![Point::Queue, Point::Xmit, Point::Receive], 2));
    let mut summary = Summary::default();
    journeys.iter().for_each(|j| summary.add(j));
    let [((place, before, reason), drops)] = summary.drops()[..] else { panic!("{:?}", summary.drops()) };
    assert_eq!((place.device.as_str(), before.as_ref().unwrap().point, *reason), ("eth0", Point::Queue, 64));
    assert_eq!((drops.packets, drops.resent_after.quantile(0.5)), (1, 19_800_000));
}

#[test]
fn a_copy_that_is_dropped_ends_no_journey() {
    let at = |us, point, netns, device| tcp(us, point, netns, device, 1000, 100);
    let drop = |us| Sighting { reason: 9, ..at(us, Point::Drop, 3, "porta") };
    // A program relays from port to port. The stack, which gets each packet too, has nobody for it. The second packet
    // was sent again in vain.
    let journeys = joined(&[
        at(10, Point::Queue, 1, "eth0"),
        at(12, Point::Receive, 3, "porta"),
        drop(13),
        at(30, Point::Xmit, 3, "portb"),
        at(35, Point::Receive, 2, "eth0"),
        at(1010, Point::Queue, 1, "eth0"),
        at(1012, Point::Receive, 3, "porta"),
        drop(1013),
        at(1030, Point::Xmit, 3, "portb"),
        at(1035, Point::Receive, 2, "eth0"),
    ]);
    assert_eq!(journeys.len(), 2);
    for journey in &journeys {
        assert_eq!(journey.dropped, None);
        assert_eq!(points(journey), [Point::Queue, Point::Receive, Point::Xmit, Point::Receive]);
        assert_eq!(journey.duration_ns(), 25_000);
    }
}

#[test]
fn what_is_lost_unseen_does_not_take_the_arrival_of_its_retransmission() {
    let journeys = joined(&[
        tcp(10, Point::Queue, 1, "eth0", 1000, 100),
        tcp(200_010, Point::Queue, 1, "eth0", 1000, 100),
        tcp(200_020, Point::Receive, 2, "eth0", 1000, 100),
    ]);
    assert_eq!(journeys.iter().map(|j| j.steps.len()).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(journeys[1].duration_ns(), 10_000);
}

#[test]
fn a_packet_that_is_dropped_in_parts_and_as_a_whole_is_dropped_once() {
    let drop = |us, seq, len, reason| Sighting { reason, ..tcp(us, Point::Drop, 3, "b", seq, len) };
    let journeys = joined(&[
        tcp(10, Point::Queue, 1, "eth0", 1000, 200),
        tcp(14, Point::Queue, 3, "b", 1000, 200),
        drop(15, 1000, 200, 2),
        drop(16, 1100, 100, 64),
        drop(17, 1000, 100, 64),
        tcp(9_010, Point::Queue, 1, "eth0", 1000, 200),
        tcp(9_014, Point::Queue, 3, "b", 1000, 200),
        tcp(9_020, Point::Receive, 2, "eth0", 1000, 200),
    ]);
    let (lost, arrived): (Vec<_>, Vec<_>) = journeys.iter().partition(|j| j.dropped.is_some());
    // One for each end of a part.
    assert_eq!((lost.len(), arrived.len()), (2, 2));
    for journey in lost {
        let dropped = journey.dropped.as_ref().unwrap();
        assert_eq!((dropped.reason, points(journey)), (64, vec![Point::Queue, Point::Queue]));
        assert_eq!(dropped.resent_after_ns, Some(9_010_000 - dropped.step.time_ns));
    }
}

#[test]
fn both_arrive_if_it_was_sent_again_for_nothing() {
    let journeys = joined(&[
        tcp(0, Point::Queue, 1, "eth0", 1000, 100),
        tcp(100, Point::Queue, 1, "eth0", 1000, 100),
        tcp(150, Point::Receive, 2, "eth0", 1000, 100),
        tcp(160, Point::Receive, 2, "eth0", 1000, 100),
    ]);
    assert_eq!(journeys.iter().map(Journey::duration_ns).collect::<Vec<_>>(), [150_000, 60_000]);
}

#[test]
fn other_addresses_do_not_hide_the_same_bytes() {
    let other = Route { source: [10, 9, 9, 9].into(), destination_port: 8080, ..route(TCP) };
    let syn = |s: Sighting| Sighting { flags: SYN, ..s };
    let mut joiner = Joiner::new(Settings::default());
    let all = [
        syn(tcp(0, Point::Queue, 1, "eth0", 77, 0)),
        syn(tcp(5, Point::Receive, 2, "a", 77, 0)),
        Sighting { route: other, ..syn(tcp(9, Point::Queue, 2, "b", 77, 0)) },
        Sighting { route: other, ..syn(tcp(12, Point::Receive, 3, "eth0", 77, 0)) },
        tcp(20, Point::Queue, 1, "eth0", 78, 10),
        Sighting { route: other, ..tcp(29, Point::Queue, 2, "b", 78, 10) },
    ];
    all.iter().for_each(|s| joiner.add(s));
    let journeys = joiner.finish();
    assert_eq!(joiner.counts().translated, 1);
    assert_eq!(journeys.iter().map(|j| j.steps.len()).collect::<Vec<_>>(), [4, 2]);
    assert_eq!(journeys[0].steps[3].route, other);
}

#[test]
fn a_router_may_change_both_addresses_of_a_datagram() {
    let client = route(UDP);
    let inner = Route { source: [10, 9, 0, 1].into(), destination: [10, 9, 0, 2].into(), ..client };
    let answer = Route {
        source: inner.destination,
        source_port: inner.destination_port,
        destination: inner.source,
        destination_port: inner.source_port,
        ..inner
    };
    let all = |cpu, forwarded_us| {
        joined(&[
            udp(0, Point::Queue, 1, 5),
            udp(5, Point::Receive, 2, 5),
            Sighting { route: inner, cpu, ..udp(forwarded_us, Point::Queue, 2, 5) },
            Sighting { route: inner, ..udp(forwarded_us + 5, Point::Receive, 3, 5) },
            // The same bytes as an answer.
            Sighting { route: answer, ..udp(forwarded_us + 20, Point::Queue, 3, 5) },
        ])
    };
    let steps = |journeys: &[Journey]| journeys.iter().map(|j| j.steps.len()).collect::<Vec<_>>();
    assert_eq!(steps(&all(0, 9)), [4, 1]);
    assert_eq!(steps(&all(1, 9)), [2, 2, 1], "on another processor: a program may have sent it");
    assert_eq!(steps(&all(0, 900)), [2, 2, 1], "later: the same");
}

#[test]
fn equal_datagrams_to_others_are_not_joined() {
    let other = Route { source: [10, 9, 9, 9].into(), destination: [10, 8, 8, 8].into(), ..route(UDP) };
    let journeys = joined(&[
        udp(0, Point::Queue, 1, 5),
        Sighting { route: Route { source_port: 1, destination_port: 2, ..other }, ..udp(5, Point::Queue, 1, 5) },
    ]);
    assert_eq!(journeys.len(), 2);
}

#[test]
fn equal_datagrams_keep_their_order_and_a_lost_one_does_not_shift_the_others() {
    let mut all = Vec::new();
    for n in 0..10 {
        all.push(udp(n * 1000, Point::Queue, 1, 5));
        if n != 4 {
            all.push(udp(n * 1000 + 40, Point::Receive, 2, 5));
        }
    }
    let journeys = joined(&all);
    let times: Vec<u64> = journeys.iter().map(Journey::duration_ns).collect();
    assert_eq!(times, [40_000, 40_000, 40_000, 40_000, 0, 40_000, 40_000, 40_000, 40_000, 40_000]);
}

#[test]
fn acknowledgements_are_counted_and_have_no_journey() {
    let mut joiner = Joiner::new(Settings::default());
    joiner.add(&tcp(0, Point::Queue, 1, "eth0", 1, 0));
    assert_eq!((joiner.finish(), joiner.counts().without_payload), (vec![], 1));
}

#[test]
fn memory_is_bounded_and_what_does_not_fit_is_counted() {
    let mut joiner = Joiner::new(Settings { kept: 10, ..Settings::default() });
    for n in 0..25 {
        joiner.add(&tcp(n, Point::Queue, 1, "eth0", 1000 * n as u32, 1000));
    }
    assert_eq!(joiner.counts().too_many, 15);
    assert_eq!(joiner.finish().len(), 10);
    joiner.add(&tcp(99, Point::Queue, 1, "eth0", 5, 5));
    assert_eq!(joiner.finish().len(), 1);
}

#[test]
fn each_packet_is_told_once_while_it_goes_on() {
    for protocol in [TCP, UDP] {
        let mut joiner = Joiner::new(Settings { linger_ns: 100_000_000, ..Settings::default() });
        let mut journeys = Vec::new();
        for n in 0..200u64 {
            let us = n * 10_000;
            for (later, point, netns) in [(0, Point::Queue, 1), (50, Point::Receive, 2)] {
                let s = tcp(us + later, point, netns, "eth0", 500 * n as u32, 500);
                let s = if protocol == UDP { udp(us + later, point, netns, 9) } else { s };
                joiner.add(&s);
            }
            journeys.extend(joiner.due());
        }
        assert!(journeys.len() >= 180, "{}", journeys.len());
        journeys.extend(joiner.finish());
        assert_eq!(journeys.len(), 200);
        assert!(journeys.iter().all(|j| j.duration_ns() == 50_000));
    }
}

proptest! {
    /// Any cutting at any place of the way: each packet has one sighting per place, in the order of the way.
    #[test]
    fn any_cutting_gives_whole_journeys(
        lens in prop::collection::vec(1u32..3000, 1..20),
        cuts in prop::collection::vec(1u32..2000, 2..40),
        first in any::<u32>(),
    ) {
        let total: u32 = lens.iter().sum();
        let place = |from: u64, point, netns, device: &str, lens: &mut dyn Iterator<Item = u32>| {
            let (mut at, mut all) = (0, Vec::new());
            while at < total {
                let len = lens.next().unwrap().min(total - at);
                all.push(tcp(from + u64::from(at), point, netns, device, first.wrapping_add(at), len));
                at += len;
            }
            all
        };
        let mut all = place(0, Point::Queue, 1, "eth0", &mut lens.iter().copied());
        all.extend(place(200_000, Point::Xmit, 1, "eth0", &mut cuts.iter().copied().cycle()));
        all.extend(place(400_000, Point::Receive, 2, "eth0", &mut cuts.iter().rev().copied().cycle()));
        let journeys = joined(&all);
        prop_assert_eq!(journeys.len(), lens.len());
        for journey in journeys {
            prop_assert_eq!(points(&journey), vec![Point::Queue, Point::Xmit, Point::Receive]);
        }
    }
}

/// Equal datagrams, of which some are lost and some are dropped: the time grows with their number, not with its square.
#[test]
fn a_flood_of_equal_datagrams_is_joined_in_time() {
    let all = 200_000;
    let mut joiner = Joiner::new(Settings::default());
    for n in 0..all {
        let at = n as u64 * 10;
        joiner.add(&udp(at, Point::Queue, 1, 7));
        match n % 10 {
            0 => joiner.add(&Sighting { reason: 64, ..udp(at + 1, Point::Drop, 1, 7) }),
            1 => {}
            _ => joiner.add(&udp(at + 2, Point::Receive, 2, 7)),
        }
    }
    let began = std::time::Instant::now();
    let journeys = joiner.finish();
    assert_eq!(journeys.len(), all);
    assert_eq!(journeys.iter().filter(|j| j.steps.len() == 2).count(), all / 10 * 8);
    assert_eq!(journeys.iter().filter(|j| j.dropped.is_some()).count(), all / 10);
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
}

#[test]
fn the_kernels_word_on_a_translation_joins_what_nothing_else_would() {
    // Equal datagrams of two senders, both ends translated, long on their way: the payload tells nothing.
    let from = |n: u8| Route { source: [10, 1, 0, n].into(), destination: [10, 3, 0, n].into(), ..route(UDP) };
    let to = |n: u8| {
        let (source, destination) = ([10, 2, 0, 1].into(), [10, 2, 0, 9].into());
        Route { source, source_port: 40_000 + u16::from(n), destination, destination_port: 81, protocol: UDP }
    };
    let (mut sightings, mut us) = (Vec::new(), 0);
    for n in [1, 2] {
        sightings.push(Sighting { route: from(n), ..udp(us, Point::Receive, 2, 7) });
        us += 1000;
    }
    for n in [2, 1] {
        let was = Some(from(n).into());
        sightings.push(Sighting { route: to(n), was, ..udp(us, Point::Queue, 2, 7) });
        us += 1000;
    }
    let journeys = joined(&sightings);
    assert_eq!(journeys.len(), 2, "{journeys:?}");
    for (journey, n) in journeys.iter().zip([1, 2]) {
        assert_eq!((journey.route, points(journey)), (from(n), vec![Point::Receive, Point::Queue]));
        let [_, behind] = &journey.steps[..] else { panic!("{journey:?}") };
        assert_eq!((behind.route, behind.was.as_deref()), (to(n), Some(&from(n))));
    }
}

#[test]
fn what_a_socket_gives_belongs_to_the_flow_that_its_own_host_has_translated() {
    let asked = Route { destination: [10, 9, 0, 9].into(), ..route(TCP) };
    let was = Some(asked.into());
    let syn = Sighting { flags: SYN, was: was.clone(), ..tcp(0, Point::Queue, 1, "eth0", 999, 0) };
    let given = Sighting { route: asked, ..tcp(100, Point::Send, 1, "", 1000, 50) };
    let queued = Sighting { was, ..tcp(110, Point::Queue, 1, "eth0", 1000, 50) };
    let journeys = joined(&[syn, given, queued]);
    let data = journeys.iter().find(|journey| journey.len == 50).unwrap();
    assert_eq!((data.route, points(data)), (asked, vec![Point::Send, Point::Queue]));
}
