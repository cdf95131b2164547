//! Throughput of reading a capture: `cargo run --release -p wirespan-pcap --example pcap_throughput [FILE]`.
//!
//! Without a file: 1,000 connections at once, each sending 1,448-byte segments in order, or with every pair of segments
//! swapped. The baseline of the same run is copying each frame's payload into a vector of its own.
use std::time::Instant;
use wirespan_pcap::Replay;

const CONNECTIONS: u32 = 1000;
const SEGMENTS: u32 = 100;
const PAYLOAD: usize = 1448;

fn capture(swapped: bool) -> Vec<u8> {
    let mut file =
        [&0xa1b2_3c4du32.to_le_bytes()[..], &[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0, 1, 0, 0, 0]].concat();
    let mut time = 0u32;
    for round in 0..SEGMENTS {
        let index = if swapped { round ^ 1 } else { round };
        for connection in 0..CONNECTIONS {
            time += 1000;
            let mut frame = vec![2; 12];
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((40 + PAYLOAD as u16).to_be_bytes());
            frame.extend([0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            frame.extend((10_000 + connection as u16).to_be_bytes());
            frame.extend([0, 80]);
            // The first segment joins each connection, so that swapping starts behind it.
            frame.extend((if round < 2 { round } else { index } * PAYLOAD as u32).to_be_bytes());
            frame.extend([0, 0, 0, 0, 0x50, 0, 255, 255, 0, 0, 0, 0]);
            frame.extend([7; PAYLOAD]);
            file.extend([0, time, frame.len() as u32, frame.len() as u32].iter().flat_map(|n| n.to_le_bytes()));
            file.extend(frame);
        }
    }
    file
}

fn measure(name: &str, file: &[u8]) {
    let mut best = f64::MAX;
    let (mut events, mut packets) = (0u64, 0);
    for _ in 0..5 {
        let mut replay = Replay::default();
        let start = Instant::now();
        events = 0;
        let read = replay.read(name, file, &mut |event| {
            std::hint::black_box(&event);
            events += 1;
        });
        best = best.min(start.elapsed().as_secs_f64());
        packets = replay.stats().packets;
        if let Err(error) = read {
            eprintln!("{error}");
        }
    }
    report(name, file.len(), packets, events, best);
}

fn report(name: &str, bytes: usize, packets: u64, events: u64, seconds: f64) {
    let mb = bytes as f64 / 1e6;
    println!(
        "{name:24} {packets:>9} {events:>9} {:>9.0} {:>11.0}",
        mb / seconds,
        seconds * 1e9 / packets.max(1) as f64
    );
}

fn main() -> std::io::Result<()> {
    println!("{:24} {:>9} {:>9} {:>9} {:>11}", "capture", "packets", "events", "MB/s", "ns/packet");
    if let Some(path) = std::env::args().nth(1) {
        measure(&path, &std::fs::read(&path)?);
        return Ok(());
    }
    let file = capture(false);
    let start = Instant::now();
    for frame in file.chunks_exact(PAYLOAD + 70) {
        std::hint::black_box(frame[70..].to_vec());
    }
    let packets = u64::from(CONNECTIONS * SEGMENTS);
    report("baseline: copy payloads", file.len(), packets, 0, start.elapsed().as_secs_f64());
    measure("in order", &file);
    measure("every pair swapped", &capture(true));
    Ok(())
}
