#![allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::cast_possible_truncation
)]

use super::WebSocket;
use crate::testing::{cut, tcp, Turn};
use proptest::prelude::*;
use wirespan_model::Side;

fn frame(side: Side, first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = if side == Side::Client { 0x80 } else { 0 };
    let mut bytes = vec![first];
    match payload.len() {
        n @ 0..=125 => bytes.push(mask | n as u8),
        n => {
            bytes.push(mask | 126);
            bytes.extend((n as u16).to_be_bytes());
        }
    }
    if side == Side::Server {
        bytes.extend(payload);
        return bytes;
    }
    let key = [1, 0x5a, 0xff, 7];
    bytes.extend(key);
    bytes.extend(payload.iter().zip(key.iter().cycle()).map(|(b, k)| b ^ k));
    bytes
}

fn turn(side: Side, frames: &[(u8, &[u8])]) -> Turn {
    (side, frames.iter().flat_map(|(first, payload)| frame(side, *first, payload)).collect(), 0)
}

const C: Side = Side::Client;
const S: Side = Side::Server;

fn conversation() -> Vec<Turn> {
    vec![
        turn(C, &[(0x81, b"canary"), (0x89, b"hi")]),
        turn(S, &[(0x8a, b"hi"), (0x01, b"one"), (0x89, b""), (0x00, b"two"), (0x80, b"three"), (0xc2, &[7; 300])]),
        turn(C, &[(0x88, &[3, 0xe8])]),
        turn(S, &[(0x88, b"\x03\xf3canary")]),
    ]
}

#[test]
fn messages_fragments_and_close_codes_are_read() {
    let said = tcp(&WebSocket, &conversation());
    assert_eq!(
        said,
        [
            "C oneway @0+6 body=6 text wirespan.websocket.message.size=6",
            "C oneway @12+6 body=2 ping wirespan.websocket.message.size=2",
            "S oneway @0+2 body=2 pong wirespan.websocket.message.size=2",
            "S oneway @4+2 body=open text",
            "End Server @23 None wirespan.websocket.message.size=11 wirespan.websocket.fragments=3 \
             wirespan.websocket.control_frames=1",
            "S oneway @23+4 body=300 binary wirespan.websocket.message.size=300 wirespan.websocket.compressed=true",
            "C oneway @20+6 body=2 close status=1000 Ok wirespan.websocket.message.size=2",
            "S oneway @327+2 body=8 close status=1011 ServerError error=\"internal error\" \
             wirespan.websocket.message.size=8",
        ]
    );
}

#[test]
fn gaps_are_skipped_inside_a_payload_and_lose_the_place_elsewhere() {
    let mut whole = turn(C, &[(0x82, &[0; 100])]);
    whole.1.truncate(20);
    let inside = (C, whole.1.clone(), 86);
    let beyond = (C, whole.1, 300);
    let next = turn(C, &[(0x81, b"x"), (0x81, b"y")]);
    assert_eq!(tcp(&WebSocket, &[inside, next.clone()]).len(), 3);
    let said = tcp(&WebSocket, &[beyond, (C, vec![9; 40], 0), next.clone()]);
    assert_eq!(said.iter().filter(|l| l.contains("_gap")).count(), 1, "{said:?}");
    assert!(said[2].starts_with("C oneway @360+6 body=1 text"), "{said:?}");
    // An unmasked frame of a client is none.
    let said = tcp(&WebSocket, &[(C, frame(S, 0x81, b"x"), 0), next]);
    assert_eq!(said[0], "Malformed Client websocket_bad_frame");
    assert_eq!(said.len(), 4, "{said:?}");
}

/// Found by fuzzing: places do not run backwards where no number is left for them.
#[test]
fn places_beyond_all_numbers_do_not_run_backwards() {
    let (mut gap, text) = (turn(S, &[(0x81, b"x")]), frame(S, 0x81, b"y"));
    gap.2 = u64::MAX;
    let said = tcp(&WebSocket, &[gap, (S, text.clone(), 0), (S, text[..1].to_vec(), 0), (S, text[1..].to_vec(), 0)]);
    let places: Vec<_> = said.iter().filter(|l| l.contains("oneway")).collect();
    assert_eq!(places.len(), 3, "{said:?}");
    assert!(places[1..].iter().all(|l| l.contains(&format!("@{}+2", u64::MAX))), "{said:?}");
}

proptest! {
    #[test]
    fn chunking_does_not_matter(cuts in prop::collection::vec(1usize..40, 1..20)) {
        let whole = conversation();
        prop_assert_eq!(tcp(&WebSocket, &whole), tcp(&WebSocket, &cut(&whole, &cuts)));
    }
}
