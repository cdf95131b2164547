//! Values of a packet program that are written as text. A wrong one is told with its line.

use anyhow::{anyhow, bail, Result};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::time::Duration;
use wirespan_capture::packet::{Headers, Mark, Net, MAX_SNAP};
use wirespan_model::packet::{ETHER_ARP, ETHER_IPV4, ETHER_IPV6};

/// A value that is read from text.
pub(super) trait Text: Sized {
    /// What there may be, for a value that is no text.
    const EXPECTED: &'static str;
    fn read(text: &str) -> Result<Self>;
}

/// The error of a [`Text`] arises while its place in the file is known, so it is told with its line.
struct Reader<T>(std::marker::PhantomData<T>);

impl<T: Text> Visitor<'_> for Reader<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> std::result::Result<T, E> {
        T::read(text).map_err(E::custom)
    }
}

/// A value of a program.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written<T>(pub(super) T);

impl<'de, T: Text> Deserialize<'de> for Written<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        from.deserialize_str(Reader(std::marker::PhantomData)).map(Written)
    }
}

/// A protocol's number of IP, written as its name or as the number; 0: any.
impl Text for u8 {
    const EXPECTED: &'static str = "a protocol";

    fn read(text: &str) -> Result<Self> {
        let number = match text {
            "tcp" => Ok(6),
            "udp" => Ok(17),
            "icmp" => Ok(1),
            "icmpv6" => Ok(58),
            _ => text.parse(),
        };
        let known = "`tcp`, `udp`, `icmp`, `icmpv6`, `a number below 256`";
        number.map_err(|_| anyhow!("unknown variant `{text}`, expected one of {known}"))
    }
}

impl Text for Headers {
    const EXPECTED: &'static str = "headers of a packet in a tunnel";

    fn read(text: &str) -> Result<Self> {
        match text {
            "outer" => Ok(Headers::Outer),
            "inner" => Ok(Headers::Inner),
            _ => Err(anyhow!("unknown variant `{text}`, expected one of `outer`, `inner`")),
        }
    }
}

/// A kind of Ethernet frame; 0: any.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EtherType(pub(super) u16);

impl Text for EtherType {
    const EXPECTED: &'static str = "a kind of Ethernet frame";

    fn read(text: &str) -> Result<Self> {
        let number = match text {
            "ipv4" => Some(ETHER_IPV4),
            "ipv6" => Some(ETHER_IPV6),
            "arp" => Some(ETHER_ARP),
            _ => text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |hex| u16::from_str_radix(hex, 16).ok()),
        };
        // Smaller numbers are lengths (IEEE 802.3).
        let known = "`ipv4`, `ipv6`, `arp`, `a number from 0x600 to 0xffff`";
        let number = number.filter(|n| *n >= 0x600);
        number.map(EtherType).ok_or_else(|| anyhow!("unknown variant `{text}`, expected one of {known}"))
    }
}

/// Bytes of headers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Snap(pub(super) u8);

impl Text for Snap {
    const EXPECTED: &'static str = "a number of bytes";

    fn read(text: &str) -> Result<Self> {
        let wrong = || anyhow!("`snap: {text}`: write how many bytes of headers are told, from 1 to {MAX_SNAP}");
        text.parse().ok().filter(|n| (1..=MAX_SNAP).contains(n)).map(Snap).ok_or_else(wrong)
    }
}

/// The name of a function of the kernel.
#[derive(Clone, Debug)]
pub(super) struct Function(pub(super) String);

impl Text for Function {
    const EXPECTED: &'static str = "the name of a function of the kernel";

    fn read(text: &str) -> Result<Self> {
        let is_name = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.'));
        match is_name {
            true => Ok(Function(text.to_owned())),
            false => bail!("`kprobe: {text}`: write the name of one function, such as ip_rcv"),
        }
    }
}

/// The name of a device.
#[derive(Clone, Debug)]
pub(super) struct Device(pub(super) String);

impl Text for Device {
    const EXPECTED: &'static str = "the name of a device";

    fn read(text: &str) -> Result<Self> {
        let is_name = (1..16).contains(&text.len()) && !text.contains(|c: char| c == '/' || c.is_whitespace());
        match is_name {
            true => Ok(Device(text.to_owned())),
            false => bail!("`tc: {text}`: write the name of one device, such as eth0"),
        }
    }
}

impl Text for Mark {
    const EXPECTED: &'static str = "the path of a program and its function";

    fn read(text: &str) -> Result<Self> {
        match text.rsplit_once(':').filter(|(path, function)| path.starts_with('/') && !function.is_empty()) {
            Some((path, function)) => Ok(Mark { path: path.into(), function: function.into() }),
            None => bail!("`uprobe: {text}`: write the whole path and the function, such as /usr/sbin/nginx:main"),
        }
    }
}

/// A port of TCP or UDP; 0: any.
impl Text for u16 {
    const EXPECTED: &'static str = "a port";

    fn read(text: &str) -> Result<Self> {
        text.parse().map_err(|_| anyhow!("`{text}` is no port: write a number up to 65535"))
    }
}

/// Addresses, as `10.0.0.0/8`.
impl Text for Net {
    const EXPECTED: &'static str = "an address or a network";

    fn read(text: &str) -> Result<Self> {
        Net::parse(text).map_err(|e| anyhow!("{e}"))
    }
}

/// How long, as `10s`.
impl Text for Duration {
    const EXPECTED: &'static str = "a time such as 10s";

    fn read(text: &str) -> Result<Self> {
        duration(text)
    }
}

/// Reads `10s`, `500ms` or `2m`.
pub(crate) fn duration(text: &str) -> Result<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        _ => bail!("`{text}` is no time: write 500ms, 10s or 2m"),
    };
    let number: u64 = number.parse().map_err(|_| anyhow!("`{text}` is no time: write 500ms, 10s or 2m"))?;
    Ok(Duration::from_millis(number.saturating_mul(unit_ms)))
}
