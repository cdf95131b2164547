//! Devices asked for one message: waits in queues, drops, what was sent again, address translation.
#![allow(clippy::unwrap_used)]

use wirespan_journey::{Bytes, Joiner, Passing, Settings};
use wirespan_model::packet::{Point, Route, Sighting, TCP};
use wirespan_model::test_support::{route, sighting};

fn seen(us: u64, point: Point, netns: u32, device: &str, seq: u32, len: u32) -> Sighting {
    Sighting { time_ns: us * 1000, point, netns, device: device.into(), ..sighting(TCP, seq, len) }
}

fn asked(sightings: &[Sighting], seq: u32, len: u64) -> Vec<Passing> {
    let mut joiner = Joiner::new(Settings::default());
    sightings.iter().for_each(|s| joiner.add(s));
    joiner.passing(&Bytes { route: route(TCP), seq, len }, &(0..u64::MAX))
}

#[test]
fn a_message_is_told_device_by_device_with_its_wait_in_each_queue() {
    let devices = asked(
        &[
            seen(10, Point::Queue, 1, "eth0", 1000, 300),
            seen(13, Point::Xmit, 1, "eth0", 1000, 300),
            seen(14, Point::Receive, 2, "porta", 1000, 300),
            Sighting { queue_len: 4, ..seen(20, Point::Queue, 2, "portb", 1000, 300) },
            // The queue cuts the packet, and holds the parts back.
            seen(120, Point::Xmit, 2, "portb", 1000, 100),
            seen(220, Point::Xmit, 2, "portb", 1100, 200),
            seen(121, Point::Receive, 3, "eth0", 1000, 100),
            seen(221, Point::Receive, 3, "eth0", 1100, 200),
            seen(230, Point::Tcp, 3, "", 1000, 300),
            // Other messages of the connection.
            seen(5, Point::Queue, 1, "eth0", 900, 100),
            seen(400, Point::Queue, 1, "eth0", 1300, 100),
        ],
        1000,
        300,
    );
    let names: Vec<_> = devices.iter().map(|d| (d.netns, d.device.as_str(), d.came_out)).collect();
    assert_eq!(names, [(1, "eth0", false), (2, "porta", true), (2, "portb", false), (3, "eth0", true)]);
    let waits: Vec<_> = devices.iter().map(|d| (d.queue_ns, d.queue_len)).collect();
    assert_eq!(waits, [(3_000, 0), (0, 0), (200_000, 4), (0, 0)]);
    let times: Vec<_> = devices.iter().map(|d| (d.first_ns / 1000, d.last_ns / 1000)).collect();
    assert_eq!(times, [(10, 13), (14, 14), (20, 220), (121, 221)]);
    assert!(devices.iter().all(|d| (d.bytes, d.resent, d.dropped) == (300, 0, 0)), "{devices:?}");
}

#[test]
fn drops_and_bytes_that_were_sent_again_belong_to_their_device_and_message() {
    let dropped = |us, seq, reason| Sighting { reason, ..seen(us, Point::Drop, 2, "portb", seq, 100) };
    let devices = asked(
        &[
            seen(10, Point::Queue, 2, "portb", 1000, 100),
            dropped(11, 1000, 64),
            dropped(11, 1000, 2),
            seen(20, Point::Queue, 2, "portb", 1100, 100),
            dropped(21, 1100, 64),
            seen(200_000, Point::Queue, 2, "portb", 1000, 100),
            seen(200_005, Point::Xmit, 2, "portb", 1000, 100),
            seen(200_010, Point::Receive, 3, "eth0", 1000, 100),
        ],
        1000,
        100,
    );
    let [portb, eth0] = &devices[..] else { panic!("{devices:?}") };
    assert_eq!((portb.dropped, portb.reason, portb.resent, portb.bytes), (1, Some(64), 1, 200));
    assert_eq!((eth0.dropped, eth0.reason, eth0.resent, eth0.bytes), (0, None, 0, 100));
    // The wait is that of the packet that left, not that since the first one came.
    assert_eq!((portb.first_ns, portb.queue_ns, eth0.first_ns), (10_000, 5_000, 200_010_000));
}

#[test]
fn a_message_is_followed_through_address_translation_and_out_of_its_time_it_is_not_told() {
    let inner = Route { source: [10, 9, 0, 1].into(), destination: [10, 9, 0, 2].into(), ..route(TCP) };
    let mut joiner = Joiner::new(Settings::default());
    joiner.add(&seen(10, Point::Queue, 1, "eth0", 1000, 100));
    joiner.add(&Sighting { route: inner, ..seen(20, Point::Queue, 2, "tos", 1000, 100) });
    for asked in [route(TCP), inner] {
        let bytes = Bytes { route: asked, seq: 1000, len: 100 };
        let devices = joiner.passing(&bytes, &(0..u64::MAX));
        assert_eq!(devices.iter().map(|d| d.route).collect::<Vec<_>>(), [route(TCP), inner]);
        assert_eq!(joiner.passing(&bytes, &(0..5_000)), []);
    }
    assert_eq!(joiner.kept(), 2);
    joiner.forget(5_000);
    assert_eq!(joiner.kept(), 1);
    let unknown = Bytes { route: Route { source_port: 1, ..route(TCP) }, seq: 1000, len: 100 };
    assert_eq!(joiner.passing(&unknown, &(0..u64::MAX)), []);
}
