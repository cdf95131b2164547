//! A bounded fuzz run on stable Rust: the seeds of `fuzz/` mutated by a fixed random sequence, cut into random pieces
//! with random gaps. Checks that nothing panics, that memory stays bounded, and that offsets stay consistent.
//!
//! `WIRESPAN_FUZZ_ROUNDS` sets the number of inputs per parser (default 5,000).
#![allow(
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation
)]

mod pieces;

use pieces::{feed, Random};
use std::path::Path;
use wirespan_decode::{dns::Dns, Protocol, REGISTRY};
use wirespan_model::Transport;

fn seeds(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name);
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let seeds: Vec<_> = files.iter().map(|f| std::fs::read(f).unwrap()).collect();
    assert!(!seeds.is_empty(), "no seeds in {}", folder.display());
    seeds
}

fn mutate(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    const WORDS: [&[u8]; 12] = [
        b"\r\n",
        b"\r\n\r\n",
        b"0\r\n",
        b"ffffffffffffffff\r\n",
        b"$-1\r\n",
        b"*4294967296\r\n",
        b"$18446744073709551615\r\n",
        b"HTTP/1.1 ",
        b"Content-Length: 18446744073709551615\r\n",
        b"\xc0\x0c",
        b"\xff\xff",
        b"Transfer-Encoding: chunked\r\n",
    ];
    let mut bytes = seeds[random.below(seeds.len())].clone();
    for _ in 0..random.below(6) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            1 if !bytes.is_empty() => bytes[at] = random.next() as u8,
            2 => bytes.truncate(at),
            3 => {
                let word = WORDS[random.below(WORDS.len())];
                bytes.splice(at..at, word.iter().copied());
            }
            4 => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len());
                bytes.splice(at..at, other[from..].iter().copied());
            }
            _ => {
                let end = (at + random.below(20)).min(bytes.len());
                bytes.drain(at..end);
            }
        }
    }
    bytes
}

fn fuzz(protocol: &dyn Protocol, transport: Transport, seed: u64) {
    let rounds = std::env::var("WIRESPAN_FUZZ_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(5_000u64);
    let seeds = seeds(protocol.name());
    let mut random = Random(seed);
    let mut messages = 0;
    for _ in 0..rounds {
        let bytes = mutate(&mut random, &seeds);
        messages += feed(protocol, transport, &bytes, &mut random);
    }
    // The mutations leave enough intact to get past the first head. Of the seeds of QUIC, one in five is a message by
    // itself.
    let share = if protocol.name() == "quic" { 20 } else { 4 };
    assert!(messages * share > rounds, "{}: {messages} messages in {rounds} rounds", protocol.name());
}

/// Every protocol of the registry has seeds and survives their mutations.
#[test]
fn every_protocol() {
    for (n, protocol) in REGISTRY.iter().enumerate() {
        let transport = if protocol.name() == "quic" { Transport::Udp } else { Transport::Tcp };
        fuzz(*protocol, transport, 0x5eed_0001 + n as u64);
    }
}

#[test]
fn datagrams() {
    fuzz(&Dns, Transport::Udp, 0x5eed_0003);
}
