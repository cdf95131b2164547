//! See `wirespan_fuzz`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wirespan_decode::tars::Tars;
use wirespan_model::Transport;

fuzz_target!(|data: &[u8]| wirespan_fuzz::read(&Tars, &[Transport::Tcp], data));
