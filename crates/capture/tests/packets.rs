//! The programs of packets are verified by the kernel of this machine, quickly: a program that it refuses is missing.
#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::time::{Duration, Instant};
use wirespan_capture::packet::{Filter, Net, PacketOptions, Packets};
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
    for (only_ends, filter) in
        [false, true].into_iter().zip([Filter { netns: vec![NO_NAMESPACE], ..Filter::default() }, narrow])
    {
        let points = Point::ALL.to_vec();
        let options = PacketOptions { filter, only_ends, points, one_flow_of: 8, at_most: 10, ring_bytes: 1 << 16 };
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
