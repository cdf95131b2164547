//! See `wirespan_fuzz`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wirespan_decode::quic::Quic;
use wirespan_model::Transport;

fuzz_target!(|data: &[u8]| wirespan_fuzz::read(&Quic, &[Transport::Udp], data));
