#![allow(clippy::unwrap_used)]
use super::*;
use wirespan_journey::Settings;
use wirespan_model::packet::{Point, Sighting, TCP};
use wirespan_model::test_support::sighting;

const CLIENT: Endpoint = Endpoint { ip: IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), port: 40_000 };
const SERVER: Endpoint = Endpoint { ip: IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)), port: 80 };

fn at(us: u64, point: Point, netns: u32, device: &str, to_server: bool) -> Sighting {
    let (from, to, seq, len) = if to_server { (CLIENT, SERVER, 1000, 50) } else { (SERVER, CLIENT, 7000, 500) };
    Sighting {
        time_ns: us * 1000,
        point,
        netns,
        device: device.into(),
        route: route(from, to),
        ..sighting(TCP, seq, len)
    }
}

fn request(tap: TapSide, netns: u32) -> Span {
    Span {
        id: SpanId(5),
        tap,
        start_ns: 10_000_000,
        response_ns: 10_900_000,
        end_ns: 10_910_000,
        tuple: FiveTuple { client: CLIENT, server: SERVER, transport: Transport::Tcp },
        netns,
        request_seq: Some(1000),
        response_seq: Some(7000),
        request_bytes: 50,
        response_bytes: 500,
        ..Span::default()
    }
}

/// The client in namespace 1, two ports of a bridge in 9, the server in 2.
fn sightings() -> Vec<Sighting> {
    vec![
        at(10_010, Point::Queue, 1, "eth0", true),
        at(10_015, Point::Xmit, 1, "eth0", true),
        at(10_020, Point::Receive, 9, "porta", true),
        at(10_030, Point::Queue, 9, "portb", true),
        at(10_230, Point::Xmit, 9, "portb", true),
        at(10_240, Point::Receive, 2, "eth0", true),
        at(10_640, Point::Queue, 2, "eth0", false),
        at(10_645, Point::Xmit, 2, "eth0", false),
        at(10_650, Point::Receive, 9, "portb", false),
        at(10_660, Point::Queue, 9, "porta", false),
        at(10_860, Point::Xmit, 9, "porta", false),
        at(10_870, Point::Receive, 1, "eth0", false),
    ]
}

fn told(of: &Span, all: &[Sighting], host: u32) -> Vec<Span> {
    let mut joiner = Joiner::new(Settings::default());
    all.iter().for_each(|s| joiner.add(s));
    spans(of, &joiner, &Names::default(), &|n| format!("reason {n}"), host)
}

#[test]
fn each_device_is_a_span_with_its_wait_and_the_time_from_the_one_before() {
    let of = request(TapSide::ClientProcess, 1);
    let spans = told(&of, &sightings(), 77);
    let taps: Vec<_> = spans.iter().map(|s| s.tap).collect();
    assert_eq!(taps, [TapSide::ClientNic, TapSide::Gateway, TapSide::Gateway, TapSide::ServerNic]);
    let all = |key| spans.iter().map(|s| s.number(key).unwrap_or(-1) / 1000).collect::<Vec<_>>();
    assert_eq!(spans.iter().map(Span::hop_position).collect::<Vec<_>>(), [2, 3, 4, 5]);
    assert_eq!(all(hop::REQUEST), [10, 10, 10, 210]);
    assert_eq!(all(hop::RESPONSE), [30, 210, 10, 10]);
    assert_eq!(all(hop::ROUND_TRIP), [40, 220, 20, 220]);
    assert_eq!(all(hop::QUEUE), [5, 200, 200, 5]);
    assert!(spans.iter().all(|s| s.wire_keys() == of.wire_keys() && s.number(hop::LOST_BYTES).is_none()));
    // Ids stay the same, and differ from device to device.
    let ids = |spans: &[Span]| spans.iter().map(|s| s.id).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(ids(&spans).len(), 4);
    assert_eq!(ids(&spans), ids(&told(&of, &sightings(), 77)));
}

#[test]
fn devices_of_the_host_are_of_the_nearer_node() {
    let taps = |of: &Span, all: &[Sighting]| told(of, all, 9).iter().map(|s| s.tap).collect::<Vec<_>>();
    let all = [TapSide::ClientNic, TapSide::ClientNode, TapSide::ServerNode, TapSide::ServerNic];
    assert_eq!(taps(&request(TapSide::ClientProcess, 1), &sightings()), all);
    assert_eq!(taps(&request(TapSide::ServerProcess, 2), &sightings()), all);
    // The server is on another host, or the client is.
    let near: Vec<_> = sightings().into_iter().filter(|s| s.netns != 2).collect();
    assert_eq!(taps(&request(TapSide::ClientProcess, 1), &near), [all[0], all[1], all[1]]);
    let far: Vec<_> = sightings().into_iter().filter(|s| s.netns != 1).collect();
    assert_eq!(taps(&request(TapSide::ServerProcess, 2), &far), [all[2], all[2], all[3]]);
    // Also in a namespace that is neither the host's nor that of the end: they come before those of the other host.
    let elsewhere = |of: &Span, all: &[Sighting]| told(of, all, 77).iter().map(|s| s.tap).collect::<Vec<_>>();
    assert_eq!(elsewhere(&request(TapSide::ClientProcess, 1), &near), [all[0], all[1], all[1]]);
    assert_eq!(elsewhere(&request(TapSide::ServerProcess, 2), &far), [all[2], all[2], all[3]]);
}

#[test]
fn a_request_without_packets_has_no_devices() {
    let of = Span { request_seq: Some(5_000_000), ..request(TapSide::ClientProcess, 1) };
    assert_eq!(told(&of, &sightings(), 77), []);
    assert_eq!(told(&Span { request_seq: None, ..of }, &sightings(), 77), []);
}

#[test]
fn translated_addresses_are_asked_for_as_the_socket_has_them() {
    let mut of = request(TapSide::ClientProcess, 1);
    of.tuple.server = Endpoint { ip: [10, 8, 0, 8].into(), port: 8080 };
    assert_eq!(told(&of, &sightings(), 77), []);
    of.attrs.push(("server.address".into(), Value::Str("10.0.0.2".into())));
    of.attrs.push(("server.port".into(), Value::Int(80)));
    assert_eq!(told(&of, &sightings(), 77).len(), 4);
    assert_eq!(servers(&of).count(), 2);
}
