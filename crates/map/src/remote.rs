//! Names for ends that were not observed: a DNS name, an address, an address block, or "internet".

use crate::directory::NodeKey;
use crate::graph::NodeKind;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wirespan_model::{Endpoint, Span, Value};

/// Prefix lengths that private addresses are folded to, and how many nodes a prefix may hold before it is folded.
pub(crate) const LEVELS: [(u8, u8, usize); 3] = [(24, 64, 16), (16, 48, 64), (8, 32, 256)];
/// Most addresses with a name.
const MAX_NAMES: usize = 100_000;

/// Names of unobserved ends. Use it in three steps: learn DNS names ([`Remote::learn`]), fold the ends into blocks
/// ([`Remote::fold`]), ask for nodes.
#[derive(Default)]
pub(crate) struct Remote {
    /// Looked-up names of an address, with the number of look-ups. They are sorted, so that the choice among equal
    /// counts does not depend on the order.
    names: FxHashMap<IpAddr, BTreeMap<Box<str>, u64>>,
    /// Addresses, each with the prefix that stands for it.
    folded: FxHashMap<IpAddr, (IpAddr, u8)>,
}

impl Remote {
    /// Takes the answers of a DNS span.
    pub(crate) fn learn(&mut self, span: &Span) {
        if span.protocol != "dns" || span.target.is_empty() {
            return;
        }
        let answers = span.attrs.iter().find(|(key, _)| key == "dns.answers");
        let Some((_, Value::Str(answers))) = answers else { return };
        let name = span.target.trim_end_matches('.').to_ascii_lowercase();
        for ip in answers.split(',').filter_map(|a| a.trim().parse::<IpAddr>().ok()) {
            if self.names.len() < MAX_NAMES || self.names.contains_key(&ip) {
                *self.names.entry(ip.to_canonical()).or_default().entry(name.clone().into()).or_default() += 1;
            }
        }
    }

    fn name(&self, ip: IpAddr) -> Option<&str> {
        // The most frequent name; among equal counts the first by the alphabet.
        let best = self.names.get(&ip)?.iter().max_by(|a, b| a.1.cmp(b.1).then(b.0.cmp(a.0)))?;
        Some(best.0)
    }

    /// Chooses blocks so that few nodes stand for these ends, for any number of ends.
    pub(crate) fn fold(&mut self, ends: impl Iterator<Item = IpAddr>) {
        // The address or block that stands for each address at present.
        let mut shown: FxHashMap<IpAddr, (IpAddr, u8)> = ends
            .filter(|ip| !is_public(*ip) && self.name(*ip).is_none())
            .map(|ip| (ip, (ip, if ip.is_ipv4() { 32 } else { 128 })))
            .collect();
        for (v4, v6, most) in LEVELS {
            let mut children: FxHashMap<(IpAddr, u8), FxHashSet<(IpAddr, u8)>> = FxHashMap::default();
            for (ip, item) in &shown {
                children.entry(prefix(*ip, v4, v6)).or_default().insert(*item);
            }
            for (ip, item) in &mut shown {
                let parent = prefix(*ip, v4, v6);
                if children.get(&parent).is_some_and(|c| c.len() > most) {
                    *item = parent;
                }
            }
        }
        shown.retain(|ip, (_, bits)| *bits < if ip.is_ipv4() { 32 } else { 128 });
        self.folded = shown;
    }

    /// The node of a server at this address.
    pub(crate) fn server(&self, end: Endpoint) -> NodeKey {
        self.end(end.ip, || NodeKey::new(NodeKind::Address, end.to_string()))
    }

    /// The node of callers from this address.
    pub(crate) fn caller(&self, ip: IpAddr) -> NodeKey {
        self.end(ip, || NodeKey::new(NodeKind::Caller, ip.to_string()))
    }

    fn end(&self, ip: IpAddr, alone: impl FnOnce() -> NodeKey) -> NodeKey {
        if let Some(name) = self.name(ip) {
            return NodeKey::new(NodeKind::Name, name);
        }
        if is_public(ip) {
            return NodeKey::new(NodeKind::Internet, "internet");
        }
        match self.folded.get(&ip) {
            Some((net, bits)) => NodeKey::new(NodeKind::Block, format!("{net}/{bits}")),
            None => alone(),
        }
    }
}

pub(crate) fn bits_of(ip: IpAddr) -> u8 {
    if ip.is_ipv4() {
        32
    } else {
        128
    }
}

pub(crate) fn prefix(ip: IpAddr, v4: u8, v6: u8) -> (IpAddr, u8) {
    match ip {
        IpAddr::V4(ip) => (Ipv4Addr::from_bits(ip.to_bits() & (u32::MAX << (32 - v4))).into(), v4),
        IpAddr::V6(ip) => (Ipv6Addr::from_bits(ip.to_bits() & (u128::MAX << (128 - v6))).into(), v6),
    }
}

/// Whether the address is routed on the internet: not private, shared, local, multicast or for documentation.
pub(crate) fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, _] = ip.octets();
            let shared = a == 100 && (64..128).contains(&b);
            let special = a == 0 || a >= 240 || (a == 192 && b == 0 && c == 0) || (a == 198 && (b == 18 || b == 19));
            let local = ip.is_private() || ip.is_loopback() || ip.is_link_local();
            !(local || ip.is_multicast() || ip.is_documentation() || shared || special)
        }
        // Global unicast is 2000::/3; of it, 2001:db8::/32 is for documentation.
        IpAddr::V6(ip) => {
            let [a, b, ..] = ip.segments();
            a & 0xe000 == 0x2000 && !(a == 0x2001 && b == 0xdb8)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn public_and_not() {
        for public in ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2a00:1450::1", "2001:4860::8888"] {
            assert!(is_public(ip(public)), "{public}");
        }
        for private in
            ["10.1.2.3", "172.31.9.9", "192.168.1.1", "127.0.0.1", "100.64.0.1", "169.254.169.254", "fd00::1"]
        {
            assert!(!is_public(ip(private)), "{private}");
        }
        for private in ["::1", "fe80::1", "224.0.0.251", "ff02::fb", "255.255.255.255", "2001:db8::1", "198.18.0.1"] {
            assert!(!is_public(ip(private)), "{private}");
        }
    }

    #[test]
    fn many_ends_of_a_block_are_folded_and_few_are_not() {
        let mut remote = Remote::default();
        let many = (0..17u8).map(|n| IpAddr::from([10, 1, 2, n]));
        let few = (0..16u8).map(|n| IpAddr::from([10, 1, 3, n]));
        remote.fold(many.chain(few).chain([ip("8.8.8.8")]));
        assert_eq!(remote.caller(ip("10.1.2.3")), NodeKey::new(NodeKind::Block, "10.1.2.0/24"));
        assert_eq!(remote.caller(ip("10.1.3.3")), NodeKey::new(NodeKind::Caller, "10.1.3.3"));
        let end = Endpoint::new(ip("10.1.3.3"), 80);
        assert_eq!(remote.server(end), NodeKey::new(NodeKind::Address, "10.1.3.3:80"));
        assert_eq!(remote.caller(ip("8.8.8.8")).kind, NodeKind::Internet);
    }

    #[test]
    fn a_hundred_thousand_ends_become_few() {
        let mut remote = Remote::default();
        let ends: Vec<IpAddr> = (0..100_000u32).map(|n| Ipv4Addr::from_bits(0x0a00_0000 + n * 97).into()).collect();
        remote.fold(ends.iter().copied());
        let nodes: FxHashSet<NodeKey> = ends.iter().map(|ip| remote.caller(*ip)).collect();
        assert!(nodes.len() <= 256, "{}", nodes.len());
        remote.fold((0..100u128).map(|n| Ipv6Addr::from_bits(0xfd00 << 112 | n).into()));
        assert_eq!(remote.caller(ip("fd00::7")), NodeKey::new(NodeKind::Block, "fd00::/64"));
    }

    #[test]
    fn the_name_that_was_asked_for_most() {
        let mut remote = Remote::default();
        for (name, answers) in
            [("b.example.", "cdn.example,8.8.8.8"), ("A.example", "8.8.8.8, 10.0.0.1"), ("c", "junk")]
        {
            remote.learn(&Span {
                protocol: "dns".into(),
                target: name.into(),
                attrs: vec![("dns.answers".into(), answers.into())],
                ..Span::default()
            });
        }
        assert_eq!(remote.server(Endpoint::new(ip("8.8.8.8"), 443)), NodeKey::new(NodeKind::Name, "a.example"));
        assert_eq!(remote.caller(ip("10.0.0.1")).name.as_ref(), "a.example");
    }
}
