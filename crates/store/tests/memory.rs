//! What a store without a directory takes of this process's memory. Alone in its process, which is measured.
#![allow(clippy::unwrap_used)]

mod support;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use wirespan_model::{Flow, FlowCounts, FlowKey, Role, Span, SpanId, Transport};
use wirespan_store::{Embedded, Options, Store};

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// A span whose target is a text of its own that does not compress.
fn noisy(n: u64) -> Arc<Span> {
    let mut state = n;
    let text = (0..40).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + (state >> 59) as u8 % 26)
    });
    Arc::new(Span { target: text.collect::<String>().into(), ..(*support::plain(n, 1_000_000 + n)).clone() })
}

/// A flow with numbers of its own.
fn flow(n: u64) -> Flow {
    let ip = IpAddr::V4(Ipv4Addr::from(n as u32));
    let key = FlowKey {
        host_id: 1,
        role: Role::Client,
        transport: Transport::Tcp,
        local: ip,
        remote: ip,
        port: 80,
        pid: n as u32,
        process_start_ns: n.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        netns: 1,
    };
    let counts = FlowCounts { bytes_sent: n.wrapping_mul(0x9e37_79b9), ..FlowCounts::default() };
    let (comm, resource) = ("c".into(), Arc::default());
    Flow { start_ns: n, end_ns: n + 1, key, comm, cgroup_id: 0, client_port: 1, resource, counts }
}

#[test]
fn a_store_in_memory_stays_within_its_room() {
    const MIB: u64 = 1 << 20;
    let store = Embedded::memory(Options { max_bytes: 32 * MIB, ..Options::default() }).unwrap();
    let before = resident();
    let (mut most, mut said) = (0, 0);
    for round in 0..450u64 {
        store.append((round * 2_000 + 1..=round * 2_000 + 2_000).map(noisy).collect()).unwrap();
        let flows: Vec<Flow> = (round * 2_000..round * 2_000 + 2_000).map(flow).collect();
        store.append_flows(&flows).unwrap();
        most = most.max(resident() - before.min(resident()));
        said = said.max(store.status().memory_bytes);
    }
    let status = store.status();
    let forgotten: u64 = status.dropped.iter().map(|d| d.1).sum();
    println!(
        "{} MiB resident, {} MiB counted, {} spans kept, {forgotten} forgotten",
        most / MIB,
        said / MIB,
        status.spans
    );
    assert!(said <= 32 * MIB && said > 16 * MIB, "{said} bytes");
    // The allocator rounds sizes up, and appending takes memory for a moment.
    assert!(most <= 48 * MIB, "{most} bytes");
    assert_eq!(status.spans + forgotten, 900_000, "each span is there or counted");
    assert!(store.span(SpanId(900_000)).unwrap().is_some() && store.span(SpanId(1)).unwrap().is_none());
}
