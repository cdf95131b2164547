//! The link between agent and server: preamble, frames, batches.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    wirespan_ship::fuzzed::link(data);
    wirespan_fuzz::tell_heap();
});
