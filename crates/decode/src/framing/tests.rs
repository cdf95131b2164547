//! Tests of [`CallParser`], and checks that the tests of RPC protocols share.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::calls::{CallParser, Format, Frame, Reasons, Start, Walked};
use super::Out;
use crate::testing::{c, cut, line, probe, say, Turn};
use crate::{Detect, Parser, Protocol, MAX_BUFFERED};
use wirespan_model::{Chunk, Item, Kind, Message, Side, Transport};

/// The items of a parser must not depend on how the bytes are cut. No beginning, end or bit flip of them may panic.
pub(crate) fn is_sound(protocol: &dyn Protocol, turns: &[Turn]) {
    let whole = crate::testing::tcp(protocol, turns);
    for cuts in [&[1usize][..], &[2], &[3, 1], &[7], &[11, 2, 5], &[16], &[40, 1], &[100], &[509, 3]] {
        assert_eq!(crate::testing::tcp(protocol, &cut(turns, cuts)), whole, "cut at {cuts:?}");
    }
    for (side, bytes, _) in turns {
        for n in 0..bytes.len() {
            for missing in [0, 1, 500] {
                crate::testing::tcp_to_the_end(protocol, &[(*side, bytes[..n].to_vec(), missing)]);
            }
            let mut wrong = bytes.clone();
            wrong[n] ^= 0x55;
            crate::testing::tcp_to_the_end(protocol, &[(*side, wrong.clone(), 0), (*side, wrong, 7)]);
        }
    }
}

/// No item of a conversation may contain one of `secrets`.
pub(crate) fn keeps_secrets(protocol: &dyn Protocol, turns: &[Turn], secrets: &[&str]) {
    for said in crate::testing::tcp_to_the_end(protocol, turns) {
        for secret in secrets {
            assert!(!said.contains(secret), "{secret} in {said}");
        }
    }
}

/// The first turn of each end is recognised, in either order.
pub(crate) fn is_detected(protocol: &dyn Protocol, client: &[u8], server: &[u8]) {
    assert_eq!(protocol.detect(&probe(client, server)), Detect::Yes { first_is_client: true });
    assert_eq!(protocol.detect(&probe(server, client)), Detect::Yes { first_is_client: false });
}

/// `len` (of the frame behind it), then `name`; a name of `~` is walked to a zero.
struct Toy;

impl Format for Toy {
    fn reasons(&self) -> Reasons {
        Reasons { bad: "toy_bad_frame", gap: "toy_gap" }
    }

    fn start(&mut self, _: Side, bytes: &[u8], _: bool) -> Start {
        match bytes {
            [b'~', ..] => Start::Walk { head: 1 },
            [n @ 1..=99, ..] => Start::Frame { len: u64::from(*n) + 1, want: 4 },
            [] => Start::More,
            _ => Start::Bad,
        }
    }

    fn head(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        let text = String::from_utf8_lossy(&frame.bytes[1..]).into_owned();
        let mut m = Message::new("toy", frame.side, Kind::Request, 0);
        frame.place(&mut m);
        m.operation = &text;
        out(Item::Message(&m));
    }

    fn walk(&mut self, _: Side, bytes: &[u8]) -> Walked {
        bytes.iter().position(|b| *b == 0).map_or(Walked::On, |n| Walked::End(n + 1))
    }

    fn walked(&mut self, side: Side, offset: u64, out: Out<'_>) {
        out(Item::End { side, id: None, offset, late: &Default::default() });
    }
}

fn toy(turns: &[Turn]) -> Vec<String> {
    let mut parser = CallParser::new(Toy, Transport::Tcp);
    let mut said = say(&mut parser, turns);
    parser.finish(&mut |item| said.push(line(&item)));
    assert_eq!(parser.buffered(), 0);
    said
}

#[test]
fn frames_follow_one_another_however_they_are_cut() {
    let turns = [c(b"\x03abc\x06defghi\x01j~walked here\0\x02kl")];
    let said = toy(&turns);
    assert_eq!(
        said,
        [
            "C req @0+4 abc",
            "C req @4+4 body=3 def",
            "C req @11+2 j",
            "C req @13+1 body=open",
            "End Client @26 None",
            "C req @26+3 kl",
        ]
    );
    for n in 1..30 {
        assert_eq!(toy(&cut(&turns, &[n])), said);
    }
}

#[test]
fn missing_bytes_are_skipped_by_the_length_of_their_frame() {
    let turn = |bytes: &[u8], missing| (Side::Client, bytes.to_vec(), missing);
    // Inside the frame, to its end, in its head; then the next frame is where it should be.
    for (head, missing) in [(&b"\x09abcd"[..], 5), (b"\x09a", 8), (b"\x09abcdefgh", 1)] {
        let said = toy(&[turn(head, missing), turn(b"\x01x", 0)]);
        assert_eq!(said.len(), 2, "{said:?}");
        assert_eq!(said[1], "C req @10+2 x");
    }
    // Beyond its end: a gap, and the next chunk that starts with a frame.
    let said = toy(&[turn(b"\x09abcd", 6), turn(b"\xff\x01x", 0), turn(b"\x01y", 0)]);
    assert_eq!(said[1..], ["Malformed Client toy_gap", "C req @14+2 y"]);
    // The end of a walk was not seen.
    let said = toy(&[turn(b"~abc", 6), turn(b"\x01y", 0)]);
    assert_eq!(said[1..], ["Malformed Client toy_gap", "C req @10+2 y"]);
}

#[test]
fn nonsense_is_reported_once() {
    let said = toy(&[c(b"\xffabc"), c(b"\xfe"), c(b"\x01y")]);
    assert_eq!(said, ["Malformed Client toy_bad_frame", "C req @5+2 y"]);
}

#[test]
fn a_datagram_holds_whole_frames() {
    let mut parser = CallParser::new(Toy, Transport::Udp);
    let mut said = Vec::new();
    for bytes in [&b"\x01a\x01b"[..], b"\x09cut", b"\x01c"] {
        let chunk = Chunk { side: Side::Client, bytes, missing: 0 };
        parser.feed(chunk, &mut |item| said.push(line(&item)));
    }
    assert_eq!(said, ["C req @0+2 a", "C req @2+2 b", "C req @4+4 body=6 cut", "C req @8+2 c"]);
}

#[test]
fn memory_is_bounded() {
    struct Never;
    impl Format for Never {
        fn reasons(&self) -> Reasons {
            Reasons { bad: "never_bad_frame", gap: "never_gap" }
        }
        fn start(&mut self, _: Side, _: &[u8], _: bool) -> Start {
            Start::More
        }
        fn head(&mut self, _: &Frame<'_>, _: Out<'_>) {}
    }
    let mut parser = CallParser::new(Never, Transport::Tcp);
    let mut bad = 0;
    for _ in 0..100 {
        let chunk = Chunk { side: Side::Client, bytes: &[0; 1000], missing: 0 };
        parser.feed(chunk, &mut |_| bad += 1);
        assert!(parser.buffered() <= MAX_BUFFERED);
    }
    assert!(bad >= 1);
}
