//! Bundles as `bpf/wire.h` lays them out (`ws_flow_key`, `ws_flow_counts`, `ws_flow`, `ws_flow_adopt`).

use crate::wire::Fields;
use libbpf_rs::btf::types::Enum;
use libbpf_rs::Btf;
use rustc_hash::FxHashMap;
use std::net::{IpAddr, Ipv6Addr};
use wirespan_model::flow::LOG2_BUCKETS;
use wirespan_model::{Bundle, BundleKey, FlowCounts, Log2Histogram, Role, Transport};

pub(super) const KEY: usize = 56;
pub(super) const COUNTS: usize = 336;
pub(super) const RECORD: usize = KEY + COUNTS;
const DROPS: usize = 4;
/// `/proc/PID/stat` tells the start of a process in hundredths of a second: the same here, so that it is the same
/// process.
pub(super) const NS_PER_TICK: u64 = 10_000_000;

fn ip(bytes: [u8; 16]) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
}

fn histogram(f: &Fields<'_>, at: usize) -> Log2Histogram {
    let mut h = Log2Histogram::default();
    for (i, n) in h.0.iter_mut().enumerate() {
        *n = u64::from(f.u32(at + 4 * i));
    }
    h
}

/// Reads a bundle; the slices are [`KEY`] and [`COUNTS`] long.
pub(super) fn read(key: &[u8], counts: &[u8], reasons: &FxHashMap<u32, Box<str>>) -> Bundle {
    let (k, c) = (Fields(key), Fields(counts));
    let key = BundleKey {
        local: ip(k.array(0)),
        remote: ip(k.array(16)),
        process_start_ns: k.u64(32) / NS_PER_TICK * NS_PER_TICK,
        pid: k.u32(40),
        netns: k.u32(44),
        port: k.u16(48),
        transport: if k.u8(50) == 2 { Transport::Udp } else { Transport::Tcp },
        role: match k.u8(51) {
            1 => Role::Client,
            2 => Role::Server,
            _ => Role::Unknown,
        },
    };
    let n = |i: usize| u64::from(c.u32(40 + 4 * i));
    let [opened, adopted, failed, closed, moved] = [n(0), n(1), n(2), n(3), n(4)];
    let mut drops = std::collections::BTreeMap::new();
    for i in 0..DROPS {
        let (reason, count) = (c.u32(88 + 8 * i), u64::from(c.u32(92 + 8 * i)));
        if count > 0 {
            let name = reasons.get(&reason).cloned().unwrap_or_else(|| reason.to_string().into());
            *drops.entry(name).or_insert(0) += count;
        }
    }
    if n(11) > 0 {
        drops.insert("other".into(), n(11));
    }
    let hist = 88 + 8 * DROPS;
    let counts = FlowCounts {
        opened,
        failed,
        closed,
        active: 0,
        bytes_received: c.u64(0),
        bytes_sent: c.u64(8),
        messages_received: c.u64(16),
        messages_sent: c.u64(24),
        retransmits: n(5),
        resets_sent: n(6),
        resets_received: n(7),
        zero_windows: n(8),
        out_of_order: n(9),
        listen_overflows: n(10),
        drops,
        handshake: histogram(&c, hist),
        srtt: histogram(&c, hist + 4 * LOG2_BUCKETS),
    };
    let tail = hist + 8 * LOG2_BUCKETS;
    Bundle {
        key,
        cgroup_id: c.u64(32),
        client_port: c.u16(tail),
        comm: c.array(tail + 8),
        active_change: opened as i64 + adopted as i64 - closed as i64 - moved as i64,
        counts,
    }
}

/// A socket that existed before, for the program flow_adopt.
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

fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        // Any address is zeros, in both families.
        ip if ip.is_unspecified() => [0; 16],
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

impl Known {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(96);
        out.extend(self.cookie.to_ne_bytes());
        out.extend(self.cgroup_id.to_ne_bytes());
        out.extend(octets(self.local));
        out.extend(octets(self.remote));
        out.extend(self.start_ns.to_ne_bytes());
        out.extend(self.pid.to_ne_bytes());
        out.extend(self.netns.to_ne_bytes());
        out.extend(self.port.to_ne_bytes());
        out.extend([1, if self.serves { 2 } else { 1 }, 0, 0, 0, 0]);
        out.extend(self.comm);
        out.extend(self.client_port.to_ne_bytes());
        out.extend([u8::from(self.listens), 0, 0, 0, 0, 0]);
        out
    }
}

/// Names of `enum skb_drop_reason`, which differ by kernel.
pub(super) fn drop_reasons(btf: &Btf<'_>) -> FxHashMap<u32, Box<str>> {
    let Some(reasons) = btf.type_by_name::<Enum<'_>>("skb_drop_reason") else { return FxHashMap::default() };
    let name = |text: &str| text.trim_start_matches("SKB_DROP_REASON_").trim_start_matches("SKB_").to_string();
    reasons.iter().filter_map(|m| Some((u32::try_from(m.value).ok()?, name(m.name?.to_str()?).into()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_is_read_as_the_header_says() {
        let mut key = [0u8; KEY];
        key[10..16].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 7]);
        key[31] = 1;
        key[32..40].copy_from_slice(&90_000_017u64.to_ne_bytes());
        key[40..44].copy_from_slice(&5u32.to_ne_bytes());
        key[48..50].copy_from_slice(&443u16.to_ne_bytes());
        (key[50], key[51]) = (1, 1);
        let mut counts = [0u8; COUNTS];
        counts[8..16].copy_from_slice(&77u64.to_ne_bytes());
        for i in 0..12u32 {
            let at = 40 + 4 * i as usize;
            counts[at..at + 4].copy_from_slice(&(i + 1).to_ne_bytes());
        }
        counts[88..92].copy_from_slice(&3u32.to_ne_bytes());
        counts[92..96].copy_from_slice(&9u32.to_ne_bytes());
        counts[120..124].copy_from_slice(&4u32.to_ne_bytes());
        counts[308..312].copy_from_slice(&6u32.to_ne_bytes());
        counts[312..314].copy_from_slice(&50_000u16.to_ne_bytes());
        counts[320..322].copy_from_slice(b"ng");
        let b = read(&key, &counts, &FxHashMap::from_iter([(3, "NO_SOCKET".into())]));
        assert_eq!((b.key.local.to_string(), b.key.remote.to_string()), ("10.0.0.7".into(), "::1".into()));
        assert_eq!((b.key.role, b.key.port, b.key.pid, b.key.process_start_ns), (Role::Client, 443, 5, 90_000_000));
        let c = &b.counts;
        assert_eq!((c.bytes_sent, c.opened, c.failed, c.closed, b.active_change), (77, 1, 3, 4, 1 + 2 - 4 - 5));
        assert_eq!((c.retransmits, c.listen_overflows, c.drops["NO_SOCKET"], c.drops["other"]), (6, 11, 9, 12));
        assert_eq!((c.handshake.0[0], c.srtt.0[23], b.client_port, &b.comm[..3]), (4, 6, 50_000, &b"ng\0"[..]));
    }

    #[test]
    fn an_adopted_socket_is_as_long_as_the_contract() {
        let any = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
        let known = Known {
            cookie: 1,
            cgroup_id: 2,
            local: any,
            remote: any,
            start_ns: 3,
            pid: 4,
            netns: 5,
            port: 6,
            client_port: 7,
            serves: true,
            listens: true,
            comm: [0; 16],
        };
        assert_eq!(known.to_bytes().len(), 96);
    }
}
