//! Bundles as `bpf/wire.h` lays them out (`ws_flow_key`, `ws_flow_counts`, `ws_flow`, `ws_flow_adopt`).

use crate::wire::contract::{self, FlowAdopt, FlowKey, WS_CLIENT, WS_EGRESS, WS_INGRESS, WS_SERVER, WS_TCP, WS_UDP};
use crate::wire::role;
use libbpf_rs::btf::types::Enum;
use libbpf_rs::Btf;
use rustc_hash::FxHashMap;
use std::net::{IpAddr, Ipv6Addr};
use wirespan_model::{Bundle, BundleKey, FlowCounts, Log2Histogram, Transport};

/// `/proc/PID/stat` gives the start of a process in hundredths of a second. Starts are rounded to that here, so that
/// both sources name the same process alike.
pub(super) const NS_PER_TICK: u64 = 10_000_000;

fn ip(bytes: [u8; 16]) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
}

fn histogram(buckets: &[u32]) -> Log2Histogram {
    let mut h = Log2Histogram::default();
    h.0.iter_mut().zip(buckets).for_each(|(to, n)| *to = u64::from(*n));
    h
}

fn key(k: &FlowKey) -> BundleKey {
    BundleKey {
        local: ip(k.local),
        remote: ip(k.remote),
        process_start_ns: k.start_ns / NS_PER_TICK * NS_PER_TICK,
        pid: k.pid,
        netns: k.netns,
        port: k.port,
        transport: if u32::from(k.transport) == WS_UDP { Transport::Udp } else { Transport::Tcp },
        role: role(k.role),
        client_port: k.client_port,
    }
}

/// Reads a bundle of the table or of the ring of spilled ones.
pub(super) fn read(k: &FlowKey, c: &contract::FlowCounts, reasons: &FxHashMap<u32, Box<str>>) -> Bundle {
    let mut drops = std::collections::BTreeMap::new();
    for drop in c.drops.iter().filter(|d| d.count > 0) {
        let name = reasons.get(&drop.reason).cloned().unwrap_or_else(|| drop.reason.to_string().into());
        *drops.entry(name).or_insert(0) += u64::from(drop.count);
    }
    if c.other_drops > 0 {
        drops.insert("other".into(), c.other_drops.into());
    }
    let [received, sent] = [WS_INGRESS as usize, WS_EGRESS as usize];
    let counts = FlowCounts {
        opened: c.opened.into(),
        failed: c.failed.into(),
        closed: c.closed.into(),
        active: 0,
        bytes_received: c.bytes[received],
        bytes_sent: c.bytes[sent],
        messages_received: c.messages[received],
        messages_sent: c.messages[sent],
        retransmits: c.retransmits.into(),
        resets_sent: c.resets_sent.into(),
        resets_received: c.resets_received.into(),
        zero_windows: c.zero_windows.into(),
        out_of_order: c.out_of_order.into(),
        listen_overflows: c.listen_overflows.into(),
        drops,
        handshake: histogram(&c.handshake),
        srtt: histogram(&c.srtt),
    };
    let key = key(k);
    let change = i64::from(c.opened) + i64::from(c.adopted) - i64::from(c.closed) - i64::from(c.moved);
    Bundle {
        key,
        cgroup_id: c.cgroup_id,
        // A drop or a reset does not name the client's port.
        client_port: if c.client_port == 0 { key.client_port } else { c.client_port },
        comm: c.comm,
        // The end of datagrams is not seen. So none of them counts as open.
        active_change: if key.transport == Transport::Udp { 0 } else { change },
        counts,
    }
}

/// A socket that is older than the tracing, for the program flow_adopt.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) cookie: u64,
    pub(super) cgroup_id: u64,
    pub(super) local: IpAddr,
    pub(super) remote: IpAddr,
    pub(super) start_ns: u64,
    pub(super) pid: u32,
    pub(super) netns: u32,
    pub(super) port: u16,
    pub(super) client_port: u16,
    pub(super) serves: bool,
    pub(super) listens: bool,
    pub(super) comm: [u8; 16],
}

pub(super) fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        // The unspecified address is all zeros in both families.
        ip if ip.is_unspecified() => [0; 16],
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

impl Known {
    pub(super) fn to_bytes(&self) -> [u8; FlowAdopt::SIZE] {
        let key = FlowKey {
            local: octets(self.local),
            remote: octets(self.remote),
            start_ns: self.start_ns,
            pid: self.pid,
            netns: self.netns,
            port: self.port,
            transport: WS_TCP as u8,
            role: if self.serves { WS_SERVER } else { WS_CLIENT } as u8,
            ..FlowKey::default()
        };
        let adopt = FlowAdopt {
            cookie: self.cookie,
            cgroup_id: self.cgroup_id,
            key,
            comm: self.comm,
            client_port: self.client_port,
            listens: self.listens.into(),
            ..FlowAdopt::default()
        };
        adopt.to_bytes()
    }
}

/// Names of `enum skb_drop_reason`. Their numbers differ between kernels.
pub(crate) fn drop_reasons(btf: &Btf<'_>) -> FxHashMap<u32, Box<str>> {
    let Some(reasons) = btf.type_by_name::<Enum<'_>>("skb_drop_reason") else { return FxHashMap::default() };
    let name = |text: &str| text.trim_start_matches("SKB_DROP_REASON_").trim_start_matches("SKB_").to_string();
    reasons.iter().filter_map(|m| Some((u32::try_from(m.value).ok()?, name(m.name?.to_str()?).into()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_model::Role;

    #[test]
    fn a_bundle_is_read_as_the_header_says() {
        let mut key = FlowKey {
            start_ns: 90_000_017,
            pid: 5,
            port: 443,
            transport: WS_TCP as u8,
            role: WS_CLIENT as u8,
            ..FlowKey::default()
        };
        key.local[10..].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 7]);
        key.remote[15] = 1;
        let mut counts = contract::FlowCounts {
            bytes: [0, 77],
            opened: 1,
            adopted: 2,
            failed: 3,
            closed: 4,
            moved: 5,
            retransmits: 6,
            listen_overflows: 11,
            other_drops: 12,
            client_port: 50_000,
            ..contract::FlowCounts::default()
        };
        counts.drops[0] = contract::FlowDrop { reason: 3, count: 9 };
        (counts.handshake[0], counts.srtt[23]) = (4, 6);
        counts.comm[..2].copy_from_slice(b"ng");
        let b = read(&key, &counts, &FxHashMap::from_iter([(3, "NO_SOCKET".into())]));
        assert_eq!((b.key.local.to_string(), b.key.remote.to_string()), ("10.0.0.7".into(), "::1".into()));
        assert_eq!((b.key.role, b.key.port, b.key.pid, b.key.process_start_ns), (Role::Client, 443, 5, 90_000_000));
        let c = &b.counts;
        assert_eq!((c.bytes_sent, c.opened, c.failed, c.closed, b.active_change), (77, 1, 3, 4, 1 + 2 - 4 - 5));
        assert_eq!((c.retransmits, c.listen_overflows, c.drops["NO_SOCKET"], c.drops["other"]), (6, 11, 9, 12));
        assert_eq!((c.handshake.0[0], c.srtt.0[23], b.client_port, &b.comm[..3]), (4, 6, 50_000, &b"ng\0"[..]));
    }
}
