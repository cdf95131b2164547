//! Batches of the link without their compression: spans and flows.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    wirespan_ship::fuzzed::batch(data);
    wirespan_fuzz::tell_heap();
});
