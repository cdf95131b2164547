//! See `wirespan_fuzz`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wirespan_decode::http2::Http2;
use wirespan_model::Transport;

fuzz_target!(|data: &[u8]| wirespan_fuzz::read(&Http2, &[Transport::Tcp], data));
