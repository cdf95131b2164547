//! The example never faults, whatever it is shown; what it costs, on demand.
#![allow(clippy::unwrap_used, missing_docs)]

use std::time::Instant;
use wirespan_decode::{Probe, Protocol};
use wirespan_model::{Chunk, Item, Side, Transport};
use wirespan_plugin::{Plugin, Settings};

fn example() -> Plugin {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/parcel.wat").into();
    Plugin::load(&Settings { path, ..Settings::default() }).unwrap()
}

/// xorshift64*: the same bytes in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }
}

/// A request with a payload, its response, and an event.
fn frames() -> [Vec<u8>; 3] {
    let mut request = b"\xb7\xd2\x01\x01\x05\x80\x05store\x03p-1".to_vec();
    request.resize(3 + 210, b'.');
    [request, b"\xb7\x03\x02\x05\x00".to_vec(), b"\xb7\x0d\x03\x00\x81\x05track\x03p-2".to_vec()]
}

#[test]
fn no_bytes_make_the_example_fault() {
    let plugin = example();
    let mut dice = Dice(0x5eed);
    for _ in 0..3000 {
        let mut parser = plugin.parser(Transport::Tcp);
        for _ in 0..1 + dice.roll(6) {
            let mut bytes = frames()[dice.roll(3)].clone();
            match dice.roll(4) {
                0 => bytes = (0..dice.roll(400)).map(|_| dice.roll(256) as u8).collect(),
                1 => bytes.truncate(dice.roll(bytes.len() + 1)),
                _ => {
                    for _ in 0..dice.roll(4) {
                        let at = dice.roll(bytes.len());
                        bytes[at] = dice.roll(256) as u8;
                    }
                }
            }
            let side = if dice.roll(2) == 0 { Side::Client } else { Side::Server };
            let missing = if dice.roll(5) == 0 { dice.roll(500) as u64 } else { 0 };
            parser.feed(Chunk { side, bytes: &bytes, missing }, &mut |_| {});
            let probe = Probe {
                transport: Transport::Tcp,
                first: &bytes,
                second: b"",
                first_is_client: None,
                server_port: None,
            };
            plugin.detect(&probe);
        }
        parser.finish(&mut |_| {});
        assert!(parser.buffered() <= 33 * 1024);
    }
    let faults: Vec<_> = plugin.counters().into_iter().filter(|(n, v)| n.contains("fault") && *v > 0).collect();
    assert!(faults.is_empty(), "{faults:?}");
}

/// `cargo test --release -p wirespan-plugin --test robust -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn what_the_example_costs() {
    let plugin = example();
    let [request, response, _] = frames();
    let mut parser = plugin.parser(Transport::Tcp);
    let (rounds, mut messages) = (200_000u64, 0u64);
    let started = Instant::now();
    for _ in 0..rounds {
        for (side, bytes) in [(Side::Client, &request), (Side::Server, &response)] {
            parser
                .feed(Chunk { side, bytes, missing: 0 }, &mut |i| messages += u64::from(matches!(i, Item::Message(_))));
        }
    }
    let ns = started.elapsed().as_nanos() as f64;
    assert_eq!(messages, 2 * rounds);
    let fuel = plugin.counters().into_iter().find(|(n, _)| n == "parcel_fuel").unwrap().1 as f64;
    let each = messages as f64;
    println!("messages/s {:.0}, ns per message {:.0}, fuel per message {:.0}", each / ns * 1e9, ns / each, fuel / each);

    // A loop to the end of its fuel: what the worst call costs.
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/parcel.wat")).unwrap();
    let text = text.replace(";; The hello.", "(loop $for_ever (br $for_ever))");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("loop.wat");
    std::fs::write(&path, text).unwrap();
    let plugin = Plugin::load(&Settings { path, ..Settings::default() }).unwrap();
    let started = Instant::now();
    plugin.parser(Transport::Tcp).feed(Chunk { side: Side::Client, bytes: &request, missing: 0 }, &mut |_| {});
    println!("a call that loops: {:.2} ms for 1,000,000 units of fuel", started.elapsed().as_secs_f64() * 1e3);
}
