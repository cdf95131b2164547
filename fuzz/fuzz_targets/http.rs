//! See `wirespan_fuzz`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wirespan_decode::http1::Http1;
use wirespan_model::Transport;

fuzz_target!(|data: &[u8]| wirespan_fuzz::read(&Http1, &[Transport::Tcp], data));
