//! What the fuzz targets share: any bytes become a conversation in random pieces, with random gaps; and a limit on
//! memory.
#![forbid(unsafe_code)]

#[path = "../../crates/decode/tests/pieces/mod.rs"]
mod pieces;

use cap::Cap;
use std::alloc::System;
use std::sync::atomic::{AtomicUsize, Ordering};
use wirespan_decode::Protocol;
use wirespan_model::Transport;

/// What a parser, with its input and the harness, may take from the heap: beyond it, an allocation fails and ends the
/// run. The fuzzer's own memory is C++'s, and not counted here.
const MAX_HEAP: usize = 64 << 20;

#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, MAX_HEAP);

/// Reads `data` as bytes of one connection. The same data is always cut in the same way.
pub fn read(protocol: &dyn Protocol, transports: &[Transport], data: &[u8]) {
    let seed =
        data.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3));
    for transport in transports {
        pieces::feed(protocol, *transport, data, &mut pieces::Random(seed | 1));
    }
    tell_heap();
}

/// Says on stderr how much of the heap was in use at most, whenever that has grown by a tenth; `run` reads it.
pub fn tell_heap() {
    static TOLD: AtomicUsize = AtomicUsize::new(0);
    let most = HEAP.max_allocated();
    let told = TOLD.load(Ordering::Relaxed);
    if most > told + told / 10 {
        TOLD.store(most, Ordering::Relaxed);
        eprintln!("heap: {most} bytes at most");
    }
}
