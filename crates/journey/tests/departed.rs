//! What became of packets that left a host, where several hosts watch.
#![allow(clippy::unwrap_used)]

use wirespan_journey::meeting::{Departed, Meeting, Sight, Stay};
use wirespan_model::packet::{Route, TCP, UDP};

const LEFT: u32 = 7;
const CAME: u32 = 8;

fn route(protocol: u8, port: u16) -> Route {
    let (source, destination) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
    Route { source, destination, source_port: port, destination_port: 80, protocol }
}

/// A packet that leaves host 0 and, unless it is lost, comes to host 1.
fn send(meeting: &mut Meeting, route: Route, number: u32, at_ns: u64, arrives: bool, again: bool) {
    let sight = |place| Sight { place, route, time_ns: at_ns };
    let left = Stay {
        entry: sight(LEFT),
        exit: sight(LEFT),
        seq: number,
        len: 10,
        number: if route.protocol == UDP { u64::from(number) + 1 } else { u64::from(number) + 9 },
        again,
        came_in: false,
        went_out: true,
        dropped: false,
    };
    let now_ms = at_ns / 1_000_000;
    meeting.add(0, left, now_ms);
    if arrives {
        let (entry, exit) = (sight(CAME), sight(CAME));
        meeting.add(1, Stay { entry, exit, came_in: true, went_out: false, ..left }, now_ms);
    }
}

fn counts(of: &Departed) -> [u64; 4] {
    [of.packets, of.reached, of.missing, of.unknown()]
}

fn at_host_0(meeting: &Meeting) -> &Departed {
    meeting.departed().find(|(at, _)| *at == (0, LEFT)).unwrap().1
}

#[test]
fn what_left_between_packets_that_arrived_is_missing_and_of_the_rest_nothing_is_known() {
    let mut meeting = Meeting::default();
    // Host 1 begins late and ends early; two are lost between, one of another port.
    let arrives = [false, false, true, true, false, true, false, true, false];
    for (n, arrives) in (0u32..).zip(arrives) {
        send(&mut meeting, route(UDP, if n == 6 { 5001 } else { 5000 }), n, u64::from(n) * 1_000_000, arrives, false);
    }
    meeting.finish();
    let at = at_host_0(&meeting);
    assert_eq!((counts(at), at.mostly()), ([9, 4, 2, 3], Some((1, CAME))));
    let flow = |port| counts(meeting.departed_flows().find(|(r, _)| r.unwrap().source_port == port).unwrap().1);
    assert_eq!((flow(5000), flow(5001)), ([8, 4, 1, 3], [1, 0, 1, 0]));
}

#[test]
fn addresses_that_never_arrive_are_not_missing() {
    let mut meeting = Meeting::default();
    for n in 0..5 {
        send(&mut meeting, route(UDP, 5000), n, u64::from(n) * 1_000_000, false, false);
    }
    meeting.finish();
    assert_eq!(counts(at_host_0(&meeting)), [5, 0, 0, 5], "they may go to a machine without an agent");
}

#[test]
fn bytes_that_were_sent_again_were_lost_the_first_time() {
    let mut meeting = Meeting::default();
    for n in 0..4 {
        send(&mut meeting, route(TCP, 5000), n * 10, u64::from(n) * 1_000_000, n != 2, false);
    }
    send(&mut meeting, route(TCP, 5000), 20, 9_000_000, true, true);
    meeting.turn(4_020);
    meeting.finish();
    assert_eq!(counts(at_host_0(&meeting)), [5, 4, 1, 0]);
}
