//! Values of a packet program that are written as text. A wrong one is told with its line.

use anyhow::{anyhow, bail, Result};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::time::Duration;
use wirespan_capture::packet::Net;

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
