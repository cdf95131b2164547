//! Queries: the text box, parameters of requests, Jaeger's.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        wirespan_view::fuzzed::query(text);
    }
    wirespan_fuzz::tell_heap();
});
