//! Capture files of any content: links, tunnels, fragments and reassembly behind them. Seeds: any folder of captures.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wirespan_model::Event;
use wirespan_pcap::{Limits, Replay};

fuzz_target!(|data: &[u8]| {
    let limits =
        Limits { flows: 64, stream_bytes: 1 << 16, total_bytes: 1 << 18, fragment_bytes: 1 << 16, passages: 64 };
    let mut captured = 0;
    let _ = Replay::new(limits).read("fuzz", data, &mut |event| {
        if let Event::Data(d) = event {
            assert!(d.payload.len() as u64 <= d.len);
            captured += d.payload.len();
        }
    });
    // A gzipped file may hold a thousand times its size; any other holds no more than itself.
    assert!(data.starts_with(&[0x1f, 0x8b]) || captured <= data.len());
    wirespan_fuzz::tell_heap();
});
