//! Addresses of a network namespace itself: those that its masquerade gives to the connections of others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// The addresses of the namespace of `proc`'s own process, except those of loopback.
pub(super) fn addresses(proc: &Path) -> Vec<IpAddr> {
    let read = |name: &str| std::fs::read_to_string(proc.join("net").join(name)).unwrap_or_default();
    let v4 = v4(&read("fib_trie")).into_iter().map(IpAddr::V4);
    let v6 = v6(&read("if_inet6")).into_iter().map(IpAddr::V6);
    v4.chain(v6).filter(|ip| !ip.is_loopback()).collect()
}

/// Addresses of `fib_trie`: a line `|-- ADDRESS`, and behind it one that says that the address is local.
fn v4(text: &str) -> Vec<Ipv4Addr> {
    let mut found = Vec::new();
    let mut last = None;
    for line in text.lines() {
        if let Some(address) = line.trim_start().strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if line.contains("/32 host LOCAL") {
            found.extend(last.filter(|ip| !found.contains(ip)));
        }
    }
    found
}

/// Addresses of `if_inet6`: 32 digits in the first column.
fn v6(text: &str) -> Vec<Ipv6Addr> {
    let first = text.lines().filter_map(|line| line.split_ascii_whitespace().next());
    first.filter_map(|digits| u128::from_str_radix(digits, 16).ok()).map(Ipv6Addr::from_bits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses_are_read() {
        let trie =
            "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\nLocal:\n     |-- 10.1.2.3\n\
                    \x20       /32 host LOCAL\n     |-- 10.1.2.255\n        /32 link BROADCAST\n     |-- 10.1.2.3\n\
                    \x20       /32 host LOCAL\n";
        assert_eq!(v4(trie), [Ipv4Addr::new(10, 1, 2, 3)]);
        let inet6 = "fe800000000000000000000000000001 02 40 20 80     eth0\n\
                     00000000000000000000000000000001 01 80 10 80       lo\n";
        assert_eq!(v6(inet6), [Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::LOCALHOST]);
        assert!(addresses(Path::new("/proc/self")).iter().all(|ip| !ip.is_loopback()));
    }
}
