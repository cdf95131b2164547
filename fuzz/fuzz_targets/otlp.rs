//! Bodies of OTLP: gRPC, protobuf, JSON, with and without gzip. The first byte says which.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    wirespan_ship::fuzzed::otlp(data);
    wirespan_fuzz::tell_heap();
});
