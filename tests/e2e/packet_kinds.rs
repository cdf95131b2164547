//! Packets by the kind of their frame and by the pod that they belong to.

use crate::harness::skip;
use crate::packets::{bridged, made, of_kind, ready, traced, way, CLIENT, SERVER};
use serde_json::Value;
use std::path::PathBuf;

/// Sends a datagram to this address, at which nobody is, and then to the next one.
const ASKS: &str = "
import socket, sys
for address in sys.argv[1:]:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.sendto(b'x', (address, 9))
";

#[test]
fn requests_of_arp_are_followed_through_a_bridge() {
    let test = "requests_of_arp_are_followed_through_a_bridge";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, bridged("ka")) else { return };
    let program = "filter: {ether_type: arp, address: 10.214.1.0/24}\naction: [record, journeys, snap: 64]\n";
    let (lines, said) = traced(&spaces, &[0, 1, 2], program, || {
        spaces.inside(0, &["python3", "-c", ASKS, "10.214.1.99", "10.214.1.2"]).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(500));
    });
    let packets = of_kind(&lines, "packet");
    let arp = |p: &&Value| (&p["route"]["protocol"], &p["route"]["source_port"]) == (&0.into(), &0x0806.into());
    assert!(!packets.is_empty() && packets.iter().all(arp), "{packets:?} {said}");
    let of = |from: &str, to: &str, operation: u16| {
        let is = |j: &&Value| {
            let route = &j["route"];
            route["source"] == from && route["destination"] == to && route["destination_port"] == operation
        };
        // A bridge itself gets what is sent to all.
        let way = |j: &Value| way(j).into_iter().filter(|step| step != "receive br0").collect::<Vec<_>>();
        of_kind(&lines, "journey").into_iter().filter(is).map(way).collect::<Vec<_>>()
    };
    let there = ["queue eth0", "xmit eth0", "receive porta", "queue portb", "xmit portb", "receive eth0"];
    let unanswered = of("10.214.1.1", "10.214.1.99", 1);
    assert!(!unanswered.is_empty() && unanswered.iter().all(|way| way[..] == there), "{unanswered:?} {said}");
    let answers = of("10.214.1.2", "10.214.1.1", 2);
    let back = ["queue eth0", "xmit eth0", "receive portb", "queue porta", "xmit porta", "receive eth0"];
    assert!(!answers.is_empty() && answers.iter().all(|way| way[..] == back), "{answers:?} {said}");
    // The whole frame is headers: Ethernet and 28 bytes of ARP.
    let first = packets.iter().find(|p| p["point"] == "queue").unwrap();
    let bytes = first["headers"]["bytes"].as_str().unwrap();
    assert_eq!((bytes.len() / 2, &bytes[24..32]), (42, "08060001"), "{first}");
}

#[test]
fn one_version_of_ip_is_chosen() {
    let test = "one_version_of_ip_is_chosen";
    if !ready(test) {
        return;
    }
    let Some(spaces) = made(test, bridged("ki")) else { return };
    let _four = spaces.python(1, SERVER, &["10.214.1.2", "7110"]);
    let _six = spaces.python(1, SERVER, &["fd14::2", "7110"]);
    for (kind, is_six) in [("ipv4", false), ("ipv6", true)] {
        let program = format!("filter: {{ether_type: {kind}, port: 7110}}\naction: [record]\n");
        let (lines, said) = traced(&spaces, &[0, 1, 2], &program, || {
            for server in ["10.214.1.2", "fd14::2"] {
                spaces.inside(0, &["python3", "-c", CLIENT, server, "7110", "5"]).unwrap();
            }
        });
        let packets = of_kind(&lines, "packet");
        assert!(packets.len() > 50, "{said}");
        for packet in &packets {
            let ends = ["source", "destination"].map(|end| packet["route"][end].as_str().unwrap().contains(':'));
            assert_eq!(ends, [is_six; 2], "{kind}: {packet}");
        }
        let points: std::collections::BTreeSet<_> = packets.iter().map(|p| p["point"].to_string()).collect();
        assert!(points.contains("\"tcp\"") && points.contains("\"receive\""), "at sockets, too: {points:?}");
    }
}

/// A cgroup that is named as that of a container in a pod, removed at the end.
struct Pod {
    own: PathBuf,
    mount: PathBuf,
}

impl Pod {
    fn new(uid: &str) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
        let mount = mounts.lines().find(|line| line.starts_with("cgroup2 "))?.split(' ').nth(1)?;
        let mount = PathBuf::from(mount);
        let own = format!("wspod{}/kubepods/besteffort/pod{uid}/{}", std::process::id(), "ab".repeat(32));
        let pod = Pod { own: mount.join(own), mount };
        std::fs::create_dir_all(&pod.own).ok()?;
        Some(pod)
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let mut folder = self.own.as_path();
        while std::fs::remove_dir(folder).is_ok() {
            let Some(above) = folder.parent().filter(|above| *above != self.mount) else { return };
            folder = above;
        }
    }
}

#[test]
fn packets_of_a_pod_are_told_on_all_of_their_way() {
    let test = "packets_of_a_pod_are_told_on_all_of_their_way";
    if !ready(test) {
        return;
    }
    let uid = format!("0a1b2c3d-1111-2222-3333-{:012x}", std::process::id());
    let Some(spaces) = made(test, bridged("kp")) else { return };
    // Dropped after the processes in it have ended.
    let Some(pod) = Pod::new(&uid) else { return skip(test, "no cgroup of version 2 can be made here") };
    let server = spaces.python(1, SERVER, &["10.214.1.2", "7111"]);
    let _other = spaces.python(2, SERVER, &["127.0.0.1", "7111"]);
    std::fs::write(pod.own.join("cgroup.procs"), server.pid().to_string()).unwrap();
    let program = format!("filter: {{workload: '{uid}'}}\naction: [record, journeys]\n");
    let (lines, said) = traced(&spaces, &[0, 1, 2], &program, || {
        spaces.inside(0, &["python3", "-c", CLIENT, "10.214.1.2", "7111", "5"]).unwrap();
        spaces.inside(2, &["python3", "-c", CLIENT, "127.0.0.1", "7111", "5"]).unwrap();
    });
    let packets = of_kind(&lines, "packet");
    assert!(packets.len() > 50, "{said}");
    let of_pod = |p: &&Value| p["route"]["source"] == "10.214.1.2" || p["route"]["destination"] == "10.214.1.2";
    assert!(packets.iter().all(of_pod), "{packets:?}");
    let at_bridge = packets.iter().filter(|p| p["netns_name"] == spaces.name(2)).count();
    assert!(at_bridge > 10, "packets outside the pod, too: {said}");
    // A name that no pod has names those that there are.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wrong.yaml");
    std::fs::write(&file, "for: 1s\nfilter: {workload: no-such-shop}\n").unwrap();
    let done = crate::harness::wirespan(&["packet", file.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success() && said.contains("runs no pod on this machine") && said.contains(&uid), "{said}");
    drop(server);
    std::thread::sleep(std::time::Duration::from_millis(200));
}
