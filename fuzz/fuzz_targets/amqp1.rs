//! See `wirespan_fuzz`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wirespan_decode::amqp1::Amqp1;
use wirespan_model::Transport;

fuzz_target!(|data: &[u8]| wirespan_fuzz::read(&Amqp1, &[Transport::Tcp], data));
