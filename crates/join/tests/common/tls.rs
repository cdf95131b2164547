//! Records of TLS and their plaintext.

use super::End;
use wirespan_model::{DataEvent, Direction, Event};

/// A record of this type around so many bytes, as TLS 1.3 makes it.
pub fn record(kind: u8, plaintext: usize) -> Vec<u8> {
    let body = plaintext + 17;
    let mut r = vec![kind, 3, 3, (body >> 8) as u8, body as u8];
    r.resize(5 + body, 0xa5);
    r
}

pub fn data(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks(16_384).flat_map(|part| record(23, part.len())).collect()
}

/// Plaintext as the kernel reports it. `seq` is what it knows of the ciphertext: where the call inside began.
pub fn plain(end: &End, direction: Direction, at: u64, bytes: &[u8], seq: Option<u32>) -> Event {
    let mut e = end.clone();
    (e.seq, e.cut) = ([None, None], 512);
    let d = e.call(direction, at, bytes);
    let inside = seq.is_some() || direction == Direction::Ingress;
    Event::Data(DataEvent { seq, plaintext: true, exchange: if inside { end.exchange } else { 0 }, ..d })
}
