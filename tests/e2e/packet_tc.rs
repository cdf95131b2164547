//! Packets at chosen devices, by programs of these devices alone.

use crate::harness::{has, skip, wirespan, within, Running, WIRESPAN};
use crate::packet_actions::{COUNTER, FLOOD};
use crate::packets::{bridged, made, of_kind, ready, to_port, traced, traced_with, way, CLIENT, SERVER};
use crate::spaces::Spaces;
use serde_json::Value;
use std::time::Duration;

/// How many programs of BPF a device has (tcx), at either direction.
const PROGRAMS: &str = "
import ctypes, errno, os, platform, socket, struct, sys
call = {'x86_64': 321, 'aarch64': 280}[platform.machine()]
index = socket.if_nametoindex(sys.argv[1])
total = 0
for way in (46, 47):
    attr = ctypes.create_string_buffer(struct.pack('IIIIQIIQQQQ', index, way, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    if ctypes.CDLL(None, use_errno=True).syscall(call, 16, attr, len(attr) - 1) < 0:
        # Where nothing is attached, there is no list.
        if ctypes.get_errno() == errno.ENOENT:
            continue
        sys.exit(os.strerror(ctypes.get_errno()))
    total += struct.unpack_from('I', attr, 24)[0]
print(total)
";

fn programs(spaces: &Spaces, space: usize, device: &str) -> Result<u32, String> {
    Ok(spaces.inside(space, &["python3", "-c", PROGRAMS, device])?.trim().parse().unwrap())
}

fn counts(lines: &[Value]) -> Vec<(String, u64, u64)> {
    let row = |l: &&Value| {
        let part = |of: &Value| of.as_str().unwrap().to_owned();
        let at =
            format!("{} {} in {}", part(&l["place"]["point"]), part(&l["place"]["device"]), part(&l["netns_name"]));
        (at, l["packets"].as_u64().unwrap(), l["bytes"].as_u64().unwrap())
    };
    of_kind(lines, "count").iter().map(row).collect()
}

/// All of 500 datagrams of 300 bytes were told where they left and where they came, and nowhere else.
fn assert_seen_at_both_ends(spaces: &Spaces, lines: &[Value], said: &str) {
    let at = |point: &str, space: usize| (format!("{point} eth0 in {}", spaces.name(space)), 500, 150_000);
    let (mut seen, mut wanted) = (counts(lines), vec![at("egress", 0), at("ingress", 1)]);
    seen.sort();
    wanted.sort();
    assert_eq!(seen, wanted, "{said}");
}

#[test]
fn a_chosen_device_tells_each_of_its_packets_and_no_other_one_does() {
    let test = "a_chosen_device_tells_each_of_its_packets_and_no_other_one_does";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, bridged("xc")) else { return };
    if let Err(why) = programs(&spaces, 0, "eth0") {
        return skip(test, &format!("this kernel has no tcx: {why}"));
    }
    let _counter = spaces.python(1, COUNTER, &["10.214.1.2", "7171"]);
    let program = "filter: {protocol: udp, port: 7171}\nwhere: [{tc: eth0}]\naction: [count, latency]\n";
    let (lines, said) = traced(&spaces, &[0, 1, 2], program, || {
        assert_eq!([0, 1].map(|space| programs(&spaces, space, "eth0")), [Ok(2), Ok(2)]);
        assert_eq!(programs(&spaces, 2, "porta"), Ok(0), "it has no device of that name");
        spaces.inside(0, &["python3", "-c", FLOOD, "10.214.1.2", "7171", "500", "300", "7172"]).unwrap();
    });
    assert_seen_at_both_ends(&spaces, &lines, &said);
    let legs = of_kind(&lines, "latency");
    assert_eq!((legs.len(), &legs[0]["times"]["packets"]), (1, &500.into()), "{legs:?}");
    assert_eq!([0, 1].map(|space| programs(&spaces, space, "eth0")), [Ok(0), Ok(0)], "all are gone");
}

#[test]
fn hooks_of_devices_and_tracepoints_are_of_one_journey() {
    let test = "hooks_of_devices_and_tracepoints_are_of_one_journey";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, bridged("xj")) else { return };
    if let Err(why) = programs(&spaces, 0, "eth0") {
        return skip(test, &format!("this kernel has no tcx: {why}"));
    }
    let _server = spaces.python(1, SERVER, &["10.214.1.2", "7173"]);
    let points = "[queue, receive, {tc: eth0}]";
    let program =
        &format!("filter: {{protocol: tcp, port: 7173}}\nwhere: {points}\naction: [record, journeys, snap: 192]\n");
    let (lines, said) = traced(&spaces, &[0, 1, 2], program, || {
        spaces.inside(0, &["python3", "-c", CLIENT, "10.214.1.2", "7173", "40"]).unwrap();
    });
    let journeys = to_port(&lines, 7173, 100);
    assert_eq!(journeys.len(), 40, "{said}");
    for journey in journeys {
        let all = ["egress eth0", "queue eth0", "receive porta", "queue portb", "receive eth0", "ingress eth0"];
        assert_eq!(way(journey), all, "{journey}");
    }
    // The headers are those of the packet, with that of its link.
    let packets = of_kind(&lines, "packet");
    for point in ["egress", "ingress"] {
        let of = packets.iter().filter(|p| p["point"] == point && p["len"] == 100);
        let links: Vec<u64> = of.map(|p| p["headers"]["link_len"].as_u64().unwrap()).collect();
        assert!(links.len() >= 40 && links.iter().all(|link| *link == 14), "{point}: {links:?}");
    }
}

#[test]
fn programs_of_devices_are_gone_if_wirespan_is_killed() {
    let test = "programs_of_devices_are_gone_if_wirespan_is_killed";
    if !ready(test) || !has(test, &["ip"]) {
        return;
    }
    let Some(spaces) = made(test, Spaces::pair("xk")) else { return };
    if let Err(why) = programs(&spaces, 0, "eth0") {
        return skip(test, &format!("this kernel has no tcx: {why}"));
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program.yaml");
    let write = |device: &str| {
        let text = format!("filter: {{netns: {}, port: 7174}}\nwhere: [{{tc: {device}}}]\n", spaces.name(0));
        std::fs::write(&file, text).unwrap();
    };
    write("eth0");
    let mut running = Running::start(WIRESPAN, &["packet", file.to_str().unwrap(), "--for", "60s"]);
    running.wait_for("packets are seen");
    assert_eq!(programs(&spaces, 0, "eth0"), Ok(2));
    running.0.kill().unwrap();
    running.0.wait().unwrap();
    within(Duration::from_secs(10), "the kernel takes them away", || {
        (programs(&spaces, 0, "eth0") == Ok(0)).then_some(())
    });
    // A device that is not there is told.
    write("no-such-dev");
    let done = wirespan(&["packet", file.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && said.contains("no chosen namespace has such a device"), "{said}");
}

/// The lines of `tc` about the queueing discipline and the filters of a device.
fn filters(spaces: &Spaces, space: usize, device: &str) -> Vec<String> {
    let shown: [&[&str]; 3] = [&["qdisc"], &["filter", "ingress"], &["filter", "egress"]];
    let told = |words: &[&str]| {
        let all = [&["tc", words[0], "show", "dev", device], &words[1..]].concat();
        spaces.inside(space, &all).unwrap()
    };
    let lines: Vec<String> = shown.into_iter().map(told).collect();
    let lines = lines.iter().flat_map(|text| text.lines());
    lines.filter(|line| line.contains("clsact") || line.contains("packet_")).map(str::to_owned).collect()
}

#[test]
fn a_kernel_without_tcx_has_filters_of_clsact_which_are_taken_away() {
    let test = "a_kernel_without_tcx_has_filters_of_clsact_which_are_taken_away";
    if !ready(test) || !has(test, &["tc"]) {
        return;
    }
    let Some(spaces) = made(test, bridged("xo")) else { return };
    // At one of the devices somebody else has a filter. It stays.
    for other in [
        ["qdisc", "add", "dev", "eth0", "clsact"].as_slice(),
        &["filter", "add", "dev", "eth0", "egress", "matchall", "action", "pass"],
    ] {
        let words: Vec<&str> = ["tc"].into_iter().chain(other.iter().copied()).collect();
        if let Err(why) = spaces.inside(1, &words) {
            return skip(test, &format!("this kernel has no clsact: {why}"));
        }
    }
    let _counter = spaces.python(1, COUNTER, &["10.214.1.2", "7175"]);
    let program = "filter: {protocol: udp, port: 7175}\nwhere: [{tc: eth0}]\naction: [count]\n";
    let (lines, said) = traced_with(&[("WIRESPAN_TEST_NO_TCX", "1")], &spaces, &[0, 1], program, || {
        let at = filters(&spaces, 0, "eth0");
        for wanted in ["clsact", "packet_ingress", "packet_egress"] {
            assert!(at.iter().any(|line| line.contains(wanted)), "{wanted}: {at:?}");
        }
        spaces.inside(0, &["python3", "-c", FLOOD, "10.214.1.2", "7175", "500", "300", "7176"]).unwrap();
    });
    assert_seen_at_both_ends(&spaces, &lines, &said);
    assert_eq!(filters(&spaces, 0, "eth0"), Vec::<String>::new(), "what was made is gone");
    let left = filters(&spaces, 1, "eth0");
    assert!(left.len() == 1 && left[0].contains("clsact"), "what was there stays: {left:?}");
    let other = spaces.inside(1, &["tc", "filter", "show", "dev", "eth0", "egress"]).unwrap();
    assert!(other.contains("matchall"), "{other}");
}
