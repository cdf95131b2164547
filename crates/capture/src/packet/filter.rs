//! Which packets are told.

use crate::wire::contract::{WS_H_EITHER, WS_H_INNER, WS_H_OUTER};
use std::net::{IpAddr, Ipv6Addr};

/// Addresses that share their first bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Net {
    address: u128,
    mask: u128,
}

fn mapped(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

impl Net {
    /// Reads `10.0.0.0/8`, `fd00::/16`, or one address.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is neither an address nor a network such as 10.0.0.0/8 or fd00::/16");
        let (ip, bits) = text.split_once('/').map_or((text, None), |(ip, bits)| (ip, Some(bits)));
        let ip: IpAddr = ip.parse().map_err(|_| wrong())?;
        let all = if ip.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(all), str::parse::<u32>).map_err(|_| wrong())?;
        if bits > all {
            return Err(format!("`{text}`: the mask of such an address has at most {all} bits"));
        }
        // An IPv4 address has 96 bits before it, which must match, too.
        let mask = u128::MAX.checked_shl(all - bits).unwrap_or(0);
        Ok(Net { address: u128::from(mapped(ip)) & mask, mask })
    }

    /// Address and mask as the kernel programs hold them: bytes in the order of the network.
    pub(super) fn words(self) -> ([u64; 2], [u64; 2]) {
        let words = |n: u128| {
            let b = n.to_be_bytes();
            [0, 8].map(|at| {
                let eight: [u8; 8] = std::array::from_fn(|i| b[at + i]);
                u64::from_ne_bytes(eight)
            })
        };
        (words(self.address), words(self.mask))
    }

    /// Whether the address is one of these.
    pub fn has(self, ip: IpAddr) -> bool {
        u128::from(mapped(ip)) & self.mask == self.address
    }

    /// Whether these are all addresses.
    pub fn is_any(self) -> bool {
        self.mask == 0
    }
}

/// Of a packet in a tunnel, the headers that must be those of the filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Headers {
    /// Those around the tunnel, or those within.
    #[default]
    Either = WS_H_EITHER as isize,
    /// Those around the tunnel.
    Outer = WS_H_OUTER as isize,
    /// Those within.
    Inner = WS_H_INNER as isize,
}

/// What a packet must have. What is left at its default is not asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of the sender.
    pub source: Net,
    /// Of the receiver.
    pub destination: Net,
    /// Of either.
    pub address: Net,
    /// Of the sender.
    pub source_port: u16,
    /// Of the receiver.
    pub destination_port: u16,
    /// Of either.
    pub port: u16,
    /// IANA number.
    pub protocol: u8,
    /// At least one of these TCP flags.
    pub tcp_flags: u8,
    /// The kind of Ethernet frame; with others than those of IPv4 and IPv6, only devices and drops see any.
    pub ether_type: u16,
    /// Which headers are looked at.
    pub headers: Headers,
    /// One of these is the sender or the receiver.
    pub hosts: Vec<IpAddr>,
    /// One of these devices, at points that know the device.
    pub devices: Vec<String>,
    /// Inodes of the chosen network namespaces; empty: all.
    pub netns: Vec<u32>,
}

impl Filter {
    /// Whether every packet of the host passes.
    pub fn is_everything(&self) -> bool {
        *self == Filter::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_net_has_the_addresses_that_share_its_bits() {
        let has = |net: &str, ip: &str| Net::parse(net).expect(net).has(ip.parse().expect(ip));
        assert!(has("10.1.0.0/16", "10.1.255.3") && !has("10.1.0.0/16", "10.2.0.3"));
        assert!(has("10.1.2.3", "10.1.2.3") && !has("10.1.2.3", "10.1.2.4"));
        assert!(has("fd00::/8", "fdab::1") && !has("fd00::/8", "fe80::1"));
        assert!(has("0.0.0.0/0", "1.2.3.4") && !has("0.0.0.0/0", "fd00::1"));
        assert!(has("::/0", "1.2.3.4") && Net::parse("::/0").expect("net").is_any());
        assert_eq!(Net::default().words(), ([0, 0], [0, 0]));
    }

    #[test]
    fn a_wrong_net_is_refused_with_the_reason() {
        assert!(Net::parse("10.0.0.0/33").expect_err("bits").contains("at most 32 bits"));
        assert!(Net::parse("10.0.0/8").expect_err("address").contains("neither an address"));
        assert!(Net::parse("fd00::/x").expect_err("mask").contains("neither an address"));
    }

    #[test]
    fn the_kernel_compares_bytes_in_the_order_of_the_network() {
        let (address, mask) = Net::parse("10.1.2.0/24").expect("net").words();
        assert_eq!(address[1].to_ne_bytes(), [0, 0, 0xff, 0xff, 10, 1, 2, 0]);
        assert_eq!(mask[1].to_ne_bytes(), [255, 255, 255, 255, 255, 255, 255, 0]);
        assert_eq!((address[0], mask[0]), (0, u64::MAX));
    }
}
