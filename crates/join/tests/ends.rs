//! Answers whose ends stand in the last bytes of later calls.
#![allow(clippy::unwrap_used)]

mod common;
use common::{get, End, Stage, MS, S, T0};
use wirespan_model::event::{SocketChange, END_BYTES};
use wirespan_model::{Direction, Event};

/// A call of which the kernel has copied the first and the last bytes.
fn with_end(c: &mut End, at: u64, bytes: &[u8]) -> Event {
    let mut d = c.call(Direction::Ingress, at, bytes);
    if bytes.len() > c.cut + END_BYTES {
        d.payload.extend(&bytes[bytes.len() - END_BYTES..]);
        d.ends = true;
    } else {
        d.payload = bytes.to_vec();
    }
    Event::Data(d)
}

fn chunk(len: usize) -> String {
    format!("{len:x}\r\n{}\r\n", "e".repeat(len))
}

/// Two chunks, a pause, two chunks, a pause, the last chunk.
fn story(stage: &mut Stage, ends: bool, head: &str) -> u64 {
    let mut c = End::client(1);
    let said = |c: &mut End, at: u64, text: &str| match ends {
        true => with_end(c, at, text.as_bytes()),
        false => c.recv(at, text.as_bytes()),
    };
    stage.event(c.send(T0, &get("/events")));
    let first = said(&mut c, T0 + MS, &format!("{head}{}{}", chunk(700), chunk(300)));
    stage.event(first);
    c.cut = 0;
    (0..4).for_each(|t| stage.tick(T0 + t * S));
    let second = said(&mut c, T0 + 4 * S, &(chunk(80) + &chunk(90)));
    stage.event(second);
    (4..8).for_each(|t| stage.tick(T0 + t * S));
    let last = said(&mut c, T0 + 8 * S, "0\r\n\r\n");
    stage.event(last);
    let seen = stage.spans.len();
    stage.event(c.change(T0 + 9 * S, SocketChange::Close));
    stage.tick(T0 + 20 * S);
    seen as u64
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn an_answer_in_chunks_lasts_until_its_last_chunk() {
    let mut stage = Stage::new();
    assert_eq!(story(&mut stage, true, CHUNKED), 1, "the last chunk ends it");
    let [span] = &stage.spans[..] else { panic!("{:#?}", stage.spans) };
    assert_eq!((span.start_ns, span.end_ns), (T0 - 1000, T0 + 8 * S));
}

#[test]
fn an_answer_whose_calls_are_not_seen_to_their_ends_lasts_until_a_pause() {
    let mut stage = Stage::new();
    assert_eq!(story(&mut stage, false, CHUNKED), 1);
    assert_eq!(stage.spans[0].end_ns, T0 + MS);
}

#[test]
fn an_answer_that_the_close_ends_lasts_until_then() {
    let mut stage = Stage::new();
    assert_eq!(story(&mut stage, true, "HTTP/1.1 200 OK\r\n\r\n"), 0);
    assert_eq!((stage.spans.len(), stage.spans[0].end_ns), (1, T0 + 8 * S));
}

#[test]
fn the_kernel_is_asked_for_the_ends_of_http() {
    let mut stage = Stage::new();
    let mut c = End::client(1);
    stage.event(c.send(T0, &get("/")));
    assert!(stage.verdicts()[0].ends);
}
