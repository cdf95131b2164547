#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

#[path = "../../tests/wires/openwire.rs"]
mod wires;

use super::OpenWire;
use crate::testing::{c, cut, probe, s, tcp, tcp_to_the_end, Turn};
use crate::{Detect, Protocol};
use proptest::prelude::*;
use wires::{map, sized, text, wire};

/// Writes a command in either encoding.
struct Writer {
    tight: bool,
    bits: Vec<bool>,
    data: Vec<u8>,
}

impl Writer {
    fn new(tight: bool, id: u32, asks: bool) -> Self {
        let mut w = Writer { tight, bits: Vec::new(), data: Vec::new() };
        w.int(id);
        w.bool(asks);
        w
    }
    fn bool(&mut self, b: bool) {
        if self.tight {
            self.bits.push(b);
        } else {
            self.data.push(u8::from(b));
        }
    }
    fn int(&mut self, n: u32) {
        self.data.extend(n.to_be_bytes());
    }
    fn long(&mut self, n: u64) {
        match n {
            _ if !self.tight => self.data.extend(n.to_be_bytes()),
            0 => self.bits.extend([false, false]),
            1..=0xffff => {
                self.bits.extend([false, true]);
                self.data.extend((n as u16).to_be_bytes());
            }
            _ => {
                self.bits.extend([true, true]);
                self.data.extend(n.to_be_bytes());
            }
        }
    }
    fn text(&mut self, s: &str) {
        self.bool(!s.is_empty());
        if !s.is_empty() {
            if self.tight {
                self.bits.push(true);
            }
            self.data.extend(text(s));
        }
    }
    fn bytes(&mut self, b: &[u8]) {
        self.bool(!b.is_empty());
        if !b.is_empty() {
            self.int(b.len() as u32);
            self.data.extend(b);
        }
    }
    /// A value that may be cached: `index` if it is, `known` if it was written before.
    fn cached(&mut self, index: Option<u16>, known: bool, kind: u8, write: impl FnOnce(&mut Self)) {
        if let Some(i) = index {
            self.bool(!known);
            if known {
                return self.data.extend(i.to_be_bytes());
            }
            if self.tight {
                self.bits.push(true);
                self.data.extend(i.to_be_bytes());
            } else {
                self.data.extend(i.to_be_bytes());
                self.bool(true);
            }
        } else {
            self.bool(true);
        }
        self.data.push(kind);
        write(self);
    }
    fn null(&mut self, cache: bool) {
        if cache {
            self.bool(true);
            if self.tight {
                self.bits.push(false);
                return self.data.extend([0, 99]);
            }
            self.data.extend([0, 99]);
        }
        self.bool(false);
    }
    fn done(self, kind: u8) -> Vec<u8> {
        if !self.tight {
            return sized(kind, &self.data);
        }
        let mut bits = vec![0u8; self.bits.len().div_ceil(8)];
        for (i, b) in self.bits.iter().enumerate() {
            bits[i / 8] |= u8::from(*b) << (i % 8);
        }
        sized(kind, &[&[bits.len() as u8][..], &bits, &self.data].concat())
    }
    fn producer(&mut self, cache: bool, known: bool) {
        self.cached(cache.then_some(1), known, 123, |w| {
            w.text("ID:x-1");
            w.long(1);
            w.long(2);
        });
    }
    fn message(&mut self, cache: bool, known: bool, properties: &[u8], body: &[u8]) {
        self.producer(cache, known);
        self.cached(cache.then_some(2), known, 100, |w| w.text("TEST.FOO"));
        self.null(cache);
        self.null(cache);
        self.bool(true);
        self.data.push(110);
        self.text("");
        self.producer(cache, cache);
        self.long(7);
        self.long(0);
        self.null(cache);
        self.text("");
        self.int(0);
        self.text("c-1");
        self.bool(true);
        self.long(0);
        self.data.push(4);
        self.bool(false);
        self.long(1_700_000_000_000);
        self.text("");
        self.bytes(body);
        self.bytes(properties);
        self.bool(false);
        self.null(cache);
        self.bool(false);
        self.int(0);
    }
}

const PARENT: &[u8] = b"\x00\x3700-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn send(tight: bool, cache: bool, known: bool, id: u32, asks: bool) -> Vec<u8> {
    let mut w = Writer::new(tight, id, asks);
    let properties = map(&[("k", 9, b"\x00\x06CANARY"), ("traceparent", 9, PARENT)]);
    w.message(cache, known, &properties, b"CANARY");
    w.done(28)
}

fn login(tight: bool, cache: bool, id: u32) -> Vec<u8> {
    let mut w = Writer::new(tight, id, true);
    w.cached(cache.then_some(9), false, 120, |w| w.text("ID:x-1"));
    w.text("shop");
    w.text("CANARYPASS");
    w.text("CANARYUSER");
    w.done(3)
}

fn response(tight: bool, to: u32) -> Vec<u8> {
    let mut w = Writer::new(tight, 0, false);
    w.int(to);
    w.done(30)
}

fn refused(tight: bool, to: u32) -> Vec<u8> {
    let mut w = Writer::new(tight, 0, false);
    w.int(to);
    w.bool(true);
    w.text("java.lang.SecurityException");
    w.text("User name [CANARYUSER] or password is invalid.");
    w.done(31)
}

fn dispatch(tight: bool, cache: bool, known: bool) -> Vec<u8> {
    let mut w = Writer::new(tight, 5, false);
    w.cached(cache.then_some(5), known, 122, |w| {
        w.text("ID:x-1");
        w.long(1);
        w.long(1);
    });
    w.cached(cache.then_some(2), known, 100, |w| w.text("TEST.FOO"));
    w.bool(true);
    if tight {
        w.bits.push(false);
    }
    w.data.push(28);
    w.int(9);
    w.bool(false);
    // The destination was numbered by the dispatch itself.
    w.producer(cache, known);
    w.cached(cache.then_some(2), cache, 100, |w| w.text("TEST.FOO"));
    w.null(cache);
    w.null(cache);
    w.bool(true);
    w.data.push(110);
    w.text("");
    w.producer(cache, cache);
    w.long(7);
    w.long(0);
    w.null(cache);
    w.text("");
    w.int(0);
    w.text("");
    w.bool(true);
    w.long(0);
    w.data.push(4);
    w.bool(false);
    w.long(0);
    w.text("");
    w.bytes(b"CANARY");
    w.bytes(&map(&[("traceparent", 9, PARENT)]));
    w.bool(false);
    w.null(cache);
    w.bool(false);
    w.int(2);
    w.done(21)
}

/// Without the attributes, places and lengths.
fn brief(turns: &[Turn]) -> Vec<String> {
    let words = |l: String| {
        let l = l.split(" messaging.system.name").next().unwrap().to_owned();
        l.split(' ').filter(|w| !w.starts_with('@')).collect::<Vec<_>>().join(" ")
    };
    tcp(&OpenWire, turns).into_iter().map(words).collect()
}

fn conversation(tight: bool, cache: bool) -> Vec<Turn> {
    vec![
        c(wire(tight, cache)),
        s(wire(true, true)),
        c(login(tight, cache, 1)),
        s(response(tight, 1)),
        c([send(tight, cache, false, 2, true), send(tight, cache, cache, 3, false)].concat()),
        s([response(tight, 2), dispatch(tight, cache, false), dispatch(tight, cache, cache)].concat()),
        c(login(tight, cache, 4)),
        s(refused(tight, 4)),
    ]
}

#[test]
fn both_encodings_with_and_without_cache_say_the_same() {
    for (tight, cache) in [(false, false), (true, false), (false, true), (true, true)] {
        let turns = conversation(tight, cache);
        assert_eq!(
            brief(&turns),
            [
                "C oneway WireFormatInfo",
                "S oneway WireFormatInfo",
                "C req id=1 ConnectionInfo",
                "S resp id=1 Response Ok",
                "C req id=2 ActiveMQTextMessage TEST.FOO",
                "C oneway ActiveMQTextMessage TEST.FOO",
                "S resp id=2 Response Ok",
                "S oneway MessageDispatch TEST.FOO",
                "S oneway MessageDispatch TEST.FOO",
                "C req id=4 ConnectionInfo",
                "S resp id=4 ExceptionResponse ClientError error=\"java.lang.SecurityException\"",
            ],
            "tight {tight} cache {cache}"
        );
        let said = tcp(&OpenWire, &turns);
        assert!(said[2].contains("messaging.client.id=shop"), "{}", said[2]);
        assert!(said[4].contains("messaging.message.body.size=6") && said[4].contains("trace_id: Some"), "{}", said[4]);
        assert!(said[4].contains("messaging.message.conversation_id=c-1"), "{}", said[4]);
        assert!(said[7].contains("trace_id: Some") && said[7].contains("operation.type=process"), "{}", said[7]);
        if !cache {
            assert!(said[4].contains("messaging.message.id=ID:x-1:2:1:7"), "{}", said[4]);
        }
        assert!(!said.concat().contains("CANARY"), "{said:#?}");
    }
}

#[test]
fn numbers_given_unseen_are_not_guessed() {
    let mut turns = conversation(true, true)[..4].to_vec();
    turns
        .extend([(c("").0, send(true, true, false, 2, false)[..20].to_vec(), 900), c(send(true, true, true, 3, true))]);
    let said = brief(&turns);
    assert_eq!(
        said[4..],
        ["C oneway body=160 ActiveMQTextMessage", "Malformed Client openwire_gap", "C req id=3 ActiveMQTextMessage"]
    );
}

#[test]
fn after_a_join_the_first_response_tells_the_encoding() {
    for tight in [false, true] {
        let said = brief(&[
            c(login(tight, false, 8)),
            s(response(tight, 8)),
            c(send(tight, false, false, 9, true)),
            s(response(tight, 9)),
        ]);
        assert_eq!(
            said,
            [
                "C oneway ConnectionInfo",
                "S resp id=8 Response Ok",
                "C req id=9 ActiveMQTextMessage",
                "S resp id=9 Response Ok"
            ]
        );
    }
}

#[test]
fn without_sizes_nothing_more_is_read() {
    let m = map(&[("SizePrefixDisabled", 1, &[1])]);
    let w = sized(1, &[b"ActiveMQ\x00\x00\x00\x0c\x01", &(m.len() as u32).to_be_bytes()[..], &m].concat());
    assert_eq!(brief(&[c(&w), s(&w), c(b"\x03\x00\x00\x00\x01\x01")]).len(), 2);
}

#[test]
fn detects_from_the_start_and_from_the_middle() {
    let yes = |first_is_client| Detect::Yes { first_is_client };
    let detect = |a: &[u8], b: &[u8]| OpenWire.detect(&probe(a, b));
    assert_eq!(detect(&wire(true, true), b""), Detect::Maybe, "who speaks first is not said");
    assert_eq!(detect(&[wire(true, true), login(true, true, 1)].concat(), &wire(true, true)), yes(true));
    assert_eq!(detect(&wire(true, true), &[wire(true, true), login(true, true, 1)].concat()), yes(false));
    let mut known = probe(b"", b"");
    let w = wire(false, false);
    (known.first, known.first_is_client) = (&w, Some(false));
    assert_eq!(OpenWire.detect(&known), yes(false));
    for tight in [false, true] {
        assert_eq!(detect(&login(tight, false, 8), &response(tight, 8)), yes(true));
        assert_eq!(detect(&login(tight, false, 8), &response(tight, 9)), Detect::Maybe);
        assert_eq!(detect(&response(tight, 8), &login(tight, false, 8)), yes(false));
    }
    assert_eq!(detect(&login(true, false, 8)[3..], b""), Detect::No);
}

proptest! {
    #[test]
    fn chunking_does_not_matter(
        cuts in prop::collection::vec(1usize..80, 1..20), tight in any::<bool>(), cache in any::<bool>(),
    ) {
        let whole = conversation(tight, cache);
        prop_assert_eq!(tcp(&OpenWire, &whole), tcp(&OpenWire, &cut(&whole, &cuts)));
    }

    #[test]
    fn flips_cuts_and_gaps_never_panic(
        tight in any::<bool>(),
        flips in prop::collection::vec((0usize..20_000, any::<u8>()), 0..8),
        cuts in prop::collection::vec(1usize..300, 1..20),
        gaps in prop::collection::vec(prop_oneof![3 => Just(0u64), 1 => 1u64..100, 1 => Just(u64::MAX)], 1..20),
    ) {
        let mut turns = conversation(tight, true);
        for (at, value) in flips {
            let n = turns.len();
            let bytes = &mut turns[at % n].1;
            let i = at % bytes.len();
            bytes[i] = value;
        }
        let mut pieces = cut(&turns, &cuts);
        for (piece, gap) in pieces.iter_mut().zip(gaps.iter().cycle()) {
            piece.2 = *gap;
        }
        tcp_to_the_end(&OpenWire, &pieces);
    }
}
