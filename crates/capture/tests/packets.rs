//! The programs of packets are verified by the kernel of this machine, quickly: a program that it refuses is missing.
#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::time::{Duration, Instant};
use wirespan_capture::packet::{Device, Filter, Mark, Net, PacketOptions, Packets, MAX_SNAP};
use wirespan_model::packet::Point;

fn can_trace(test: &str) -> bool {
    let lacks = if !rustix::process::geteuid().is_root() {
        "needs root"
    } else if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        "this kernel has no BTF"
    } else {
        return true;
    };
    eprintln!("skipped: {test}: {lacks}");
    if let Some(path) = std::env::var_os("WIRESPAN_SKIPS") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        writeln!(file.unwrap(), "{test}: {lacks}").unwrap();
    }
    false
}

/// Nobody has this namespace, so that no packet is seen.
const NO_NAMESPACE: u32 = 1;

#[test]
fn the_kernel_takes_each_program_for_which_it_has_the_tracepoint() {
    if !can_trace("the_kernel_takes_each_program_for_which_it_has_the_tracepoint") {
        return;
    }
    let narrow = Filter {
        address: Net::parse("10.0.0.0/8").unwrap(),
        source: Net::parse("fd00::/8").unwrap(),
        port: 80,
        protocol: 6,
        tcp_flags: 2,
        devices: vec!["eth0".into()],
        netns: vec![NO_NAMESPACE, 2],
        ..Filter::default()
    };
    // The device is of a namespace of this test's own, which ends with its thread.
    // SAFETY: only the network of this thread changes.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }.unwrap();
    let nobody = || Filter { netns: vec![NO_NAMESPACE], ..Filter::default() };
    let hosts = vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
    let all = PacketOptions {
        points: Point::FIXED.into_iter().chain([Point::Egress, Point::Ingress]).collect(),
        devices: vec![Device { netns: "/proc/thread-self/ns/net".into(), name: "lo".into() }],
        one_flow_of: 8,
        at_most: 10,
        ring_bytes: 1 << 16,
        ..PacketOptions::default()
    };
    let more = PacketOptions { snap: MAX_SNAP, stack: true, ..all.clone() };
    let mark = Mark { path: std::env::current_exe().unwrap(), function: "main".into() };
    for options in [
        PacketOptions { filter: nobody(), ..all.clone() },
        PacketOptions { filter: narrow.clone(), only_ends: true, ..all.clone() },
        PacketOptions { filter: nobody(), ..more.clone() },
        PacketOptions { filter: Filter { ether_type: 0x86dd, hosts, ..narrow }, only_ends: true, ..more.clone() },
        PacketOptions { filter: Filter { ether_type: 0x0806, ..nobody() }, marks: vec![mark], ..more },
    ] {
        let began = Instant::now();
        let mut packets = Packets::open(&options).unwrap();
        let took = began.elapsed();
        let refused: Vec<_> = packets.missing().iter().filter(|(_, why)| !why.contains("no tracepoint")).collect();
        assert!(refused.is_empty(), "{refused:?}");
        assert!(took < Duration::from_secs(3), "{took:?}");
        packets.choose("10.0.0.1:80".parse().unwrap()).unwrap();
        let mut seen = Vec::new();
        packets.drain(&mut seen);
        assert_eq!(seen, []);
        assert!(packets.counters().contains(&("taken", 0)), "{:?}", packets.counters());
        let began = Instant::now();
        drop(packets);
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    }
}
