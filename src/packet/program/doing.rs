//! What is done with packets, and where: a word, or a key with its value (`snap: 64`).

use super::values::{Device, Function, Snap, Written};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;
use wirespan_capture::packet::Mark;
use wirespan_model::packet::Point;

/// What is done with the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A line for each packet at each point.
    Record,
    /// The way of each packet.
    Journeys,
    /// Packets and bytes at each place.
    Count,
    /// Time between places: p50, p99, p99.9, jitter.
    Latency,
    /// Drops by place and reason, with retransmissions.
    Drops,
    /// Packets that were seen at a place and not at the next.
    Loss,
    /// All of that by flow (`by: flow`).
    Flows,
}

/// One of `action`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    Does(Action),
    /// With each packet, so many bytes of its headers.
    Snap(u8),
    /// With each packet, the functions in which the kernel was.
    Stack,
}

/// One of `where`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    At(Point),
    /// A function of the kernel.
    Kprobe(String),
    /// A function of a program.
    Uprobe(Mark),
    /// A device, at both directions, by programs of its own.
    Tc(String),
}

/// A word, or a key with its value.
pub(super) trait Item: Sized {
    const EXPECTED: &'static str;
    const WORDS: &'static [&'static str];
    const KEYS: &'static [&'static str];
    fn of_word(word: &str) -> Option<Self>;
    fn of_key<'de, A: MapAccess<'de>>(key: &str, map: &mut A) -> Result<Option<Self>, A::Error>;
}

impl Item for Doing {
    const EXPECTED: &'static str = "an action";
    const WORDS: &'static [&'static str] =
        &["record", "journeys", "count", "throughput", "latency", "drops", "loss", "stack", "snap: N"];
    const KEYS: &'static [&'static str] = &["snap"];

    fn of_word(word: &str) -> Option<Self> {
        Some(Doing::Does(match word {
            "record" => Action::Record,
            "journeys" => Action::Journeys,
            "count" | "throughput" => Action::Count,
            "latency" => Action::Latency,
            "drops" => Action::Drops,
            "loss" => Action::Loss,
            "stack" => return Some(Doing::Stack),
            _ => return None,
        }))
    }

    fn of_key<'de, A: MapAccess<'de>>(key: &str, map: &mut A) -> Result<Option<Self>, A::Error> {
        match key {
            "snap" => Ok(Some(Doing::Snap(map.next_value::<Written<Snap>>()?.0 .0))),
            _ => Ok(None),
        }
    }
}

impl Item for Place {
    const EXPECTED: &'static str = "a point";
    const WORDS: &'static [&'static str] = &[
        "send",
        "queue",
        "xmit",
        "receive",
        "tcp",
        "ready",
        "copied",
        "drop",
        "resent",
        "kprobe: FUNCTION",
        "uprobe: PATH:FUNCTION",
        "tc: DEVICE",
    ];
    const KEYS: &'static [&'static str] = &["kprobe", "uprobe", "tc"];

    fn of_word(word: &str) -> Option<Self> {
        Point::FIXED.into_iter().find(|point| point.as_str() == word).map(Place::At)
    }

    fn of_key<'de, A: MapAccess<'de>>(key: &str, map: &mut A) -> Result<Option<Self>, A::Error> {
        match key {
            "kprobe" => Ok(Some(Place::Kprobe(map.next_value::<Written<Function>>()?.0 .0))),
            "uprobe" => Ok(Some(Place::Uprobe(map.next_value::<Written<Mark>>()?.0))),
            "tc" => Ok(Some(Place::Tc(map.next_value::<Written<Device>>()?.0 .0))),
            _ => Ok(None),
        }
    }
}

/// The error of an item arises while its place in the file is known, so it is told with its line.
struct Reader<T>(PhantomData<T>);

impl<'de, T: Item> Visitor<'de> for Reader<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<T, E> {
        T::of_word(word).ok_or_else(|| E::unknown_variant(word, T::WORDS))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let Some(key) = map.next_key::<String>()? else { return Err(A::Error::invalid_length(0, &self)) };
        let item = T::of_key(&key, &mut map)?.ok_or_else(|| A::Error::unknown_field(&key, T::KEYS))?;
        match map.next_key::<String>()? {
            None => Ok(item),
            Some(second) => Err(A::Error::custom(format_args!("`{second}` needs a dash of its own, behind `{key}`"))),
        }
    }
}

impl<'de> Deserialize<'de> for Doing {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader(PhantomData))
    }
}
