//! One conversation out of any bytes; shared by the bounded run (`tests/mutations.rs`) and the targets of `fuzz/`.
#![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing, clippy::cast_possible_truncation, unreachable_pub)]

use wirespan_decode::{infer, Probe, Protocol, MAX_BUFFERED};
use wirespan_model::{Body, Chunk, Item, Side, Transport};

/// xorshift64*: the same inputs in every run.
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`; 0 if that is 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n.max(1)
    }
}

/// Feeds `bytes` in random pieces, from random sides, with random gaps, and checks what must always hold. Returns how
/// many messages came out.
pub fn feed(protocol: &dyn Protocol, transport: Transport, bytes: &[u8], random: &mut Random) -> u64 {
    let mut parser = protocol.parser(transport);
    let mut side = Side::Client;
    let (mut sent, mut last) = ([0u64; 2], [0u64; 2]);
    let mut messages = 0;
    let mut rest = bytes;
    let (flip, gap) = (random.below(4), random.below(4));
    while !rest.is_empty() {
        let longest = if random.below(4) == 0 { 3 } else { 300 };
        // Most datagrams are whole.
        let whole = transport == Transport::Udp && random.below(4) > 0;
        let n = if whole { rest.len() } else { (1 + random.below(longest)).min(rest.len()) };
        let missing = match random.below(12) {
            0 if gap == 0 => random.below(2000) as u64,
            1 if gap == 0 => u64::MAX >> random.below(64),
            _ => 0,
        };
        let place = usize::from(side == Side::Server);
        sent[place] = sent[place].saturating_add(n as u64).saturating_add(missing);
        parser.feed(Chunk { side, bytes: &rest[..n], missing }, &mut |item| match item {
            Item::Message(m) => {
                let i = usize::from(m.side == Side::Server);
                assert!(m.offset >= last[i], "messages overlap");
                last[i] = m.offset;
                let end = m.offset.saturating_add(m.head_len);
                assert!(m.head_len > 0 && end <= sent[i], "a message ends at {end} of {}", sent[i]);
                assert!(!matches!(m.body, Body::Length(0)));
                messages += 1;
            }
            Item::End { side, offset, .. } => {
                let i = usize::from(side == Side::Server);
                assert!(offset >= last[i] && offset <= sent[i], "an end at {offset} of {}", sent[i]);
            }
            Item::Malformed { reason, .. } => assert!(reason.starts_with(protocol.name())),
            Item::Upgrade(_) => {}
        });
        assert!(parser.buffered() <= 2 * MAX_BUFFERED);
        rest = &rest[n..];
        if flip == 0 && random.below(3) == 0 {
            side = side.peer();
        }
    }
    parser.finish(&mut |item| messages += u64::from(matches!(item, Item::Message(_))));
    assert_eq!(parser.buffered(), 0);
    let half = bytes.len() / 2;
    let probe =
        Probe { transport, first: &bytes[..half], second: &bytes[half..], first_is_client: None, server_port: None };
    infer(&probe, (1, 1));
    messages
}
