//! Packets in tunnels.

use crate::packets::{made, of_kind, ready, to_port, traced, way, ECHO, PINGS};
use crate::spaces::Spaces;
use serde_json::Value;
use std::collections::BTreeSet;

#[test]
fn a_datagram_is_followed_through_a_tunnel() {
    let test = "a_datagram_is_followed_through_a_tunnel";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, Spaces::tunnelled("pv")) else { return };
    let _echo = spaces.python(1, ECHO, &["10.216.1.2", "7006"]);
    let program = "filter: {protocol: udp, port: 7006}\naction: [journeys]\n";
    let (lines, said) = traced(&spaces, &[0, 1], program, || {
        spaces.inside(0, &["python3", "-c", PINGS, "10.216.1.2", "7006", "100"]).unwrap();
    });
    let journeys = to_port(&lines, 7006, 60);
    assert_eq!(journeys.len(), 100, "{said}");
    for journey in journeys {
        // The kernel has no tracepoint where it copies a short datagram to its reader.
        let all = ["queue vx", "xmit vx", "queue u0", "xmit u0", "receive u0", "receive vx"].map(str::to_owned);
        assert_eq!(way(journey), all);
        let tunnels: Vec<_> = journey["steps"].as_array().unwrap().iter().map(|s| s["tunnel"].clone()).collect();
        let expected = ["none", "none", "vxlan", "vxlan", "vxlan", "none"];
        assert_eq!(tunnels, expected.map(Value::from));
    }
}

#[test]
fn a_filter_is_about_the_headers_around_a_tunnel_or_within_it() {
    let test = "a_filter_is_about_the_headers_around_a_tunnel_or_within_it";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, Spaces::tunnelled("ph")) else { return };
    let _echo = spaces.python(1, ECHO, &["10.216.1.2", "7016"]);
    let devices = |filter: &str| {
        let points = "where: [queue, xmit, receive]\naction: [record]";
        let (lines, _) = traced(&spaces, &[0, 1], &format!("filter: {{protocol: udp, {filter}}}\n{points}\n"), || {
            spaces.inside(0, &["python3", "-c", PINGS, "10.216.1.2", "7016", "10"]).unwrap();
        });
        let seen: BTreeSet<_> =
            of_kind(&lines, "packet").iter().map(|p| p["device"].as_str().unwrap().to_owned()).collect();
        seen.into_iter().collect::<Vec<_>>()
    };
    // Around it are the addresses of the link, and the port of VXLAN.
    for (filter, either, outer, inner) in [
        ("port: 7016", vec!["u0", "vx"], vec!["vx"], vec!["u0", "vx"]),
        ("port: 4789", vec!["u0"], vec!["u0"], vec![]),
        ("source: 10.215.1.1", vec!["u0"], vec!["u0"], vec![]),
    ] {
        assert_eq!(devices(filter), either, "{filter}");
        assert_eq!(devices(&format!("{filter}, headers: outer")), outer, "{filter}");
        assert_eq!(devices(&format!("{filter}, headers: inner")), inner, "{filter}");
    }
}
