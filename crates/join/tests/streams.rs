//! Answers without a length that pause.
#![allow(clippy::unwrap_used)]

mod common;
use common::{get, ok, End, Stage, MS, S, T0};
use wirespan_join::CopyRule;
use wirespan_model::event::SocketChange;

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

fn chunk(len: usize) -> String {
    format!("{len:x}\r\n{}\r\n", "e".repeat(len))
}

/// A request and an answer whose calls come three seconds apart. The number of spans before the connection closes.
fn story(stage: &mut Stage, c: &mut End, calls: &[String]) -> usize {
    stage.event(c.send(T0, &get("/events")));
    for (i, call) in calls.iter().enumerate() {
        let at = T0 + MS + 3 * S * i as u64;
        stage.event(c.recv(at, call.as_bytes()));
        (1..6).for_each(|t| stage.tick(at + t * S / 2));
    }
    let seen = stage.spans.len();
    stage.event(c.change(T0 + 3 * S * calls.len() as u64, SocketChange::Close));
    stage.tick(T0 + 100 * S);
    seen
}

/// When the one span of the story ended, seconds after the first answer's call.
fn lasted(calls: &[String]) -> u64 {
    let (mut stage, mut c) = (Stage::new(), End::client(1));
    assert_eq!(story(&mut stage, &mut c, calls), 1, "the last chunk ends it");
    let [span] = &stage.spans[..] else { panic!("{:#?}", stage.spans) };
    (span.end_ns - T0) / S
}

#[test]
fn an_answer_in_chunks_lasts_until_its_last_chunk_whatever_its_pauses() {
    let head = CHUNKED.to_owned();
    // Calls of one chunk, seen whole or only at its start.
    assert_eq!(lasted(&[head.clone(), chunk(20), chunk(2_000), "0\r\n\r\n".to_owned()]), 9);
    assert_eq!(lasted(&[head + &chunk(700), chunk(90), chunk(90) + "0\r\n\r\n"]), 6);
}

#[test]
fn an_answer_of_which_chunks_are_missing_lasts_until_a_long_pause() {
    let beginning = CHUNKED.to_owned() + &chunk(700) + &chunk(700);
    assert_eq!(lasted(&[beginning.clone(), chunk(20), chunk(20) + "0\r\n\r\n"]), 6);
    let (mut stage, mut c) = (Stage::new(), End::client(1));
    stage.event(c.send(T0, &get("/events")));
    stage.event(c.recv(T0 + MS, beginning.as_bytes()));
    stage.tick(T0 + 3 * S);
    assert_eq!(stage.spans.len(), 0);
    stage.tick(T0 + 5 * S);
    assert_eq!((stage.spans.len(), stage.spans[0].end_ns), (1, T0 + MS));
}

#[test]
fn an_answer_without_framing_lasts_until_the_close() {
    let (mut stage, mut c) = (Stage::new(), End::client(1));
    let calls = ["HTTP/1.1 200 OK\r\n\r\n".to_owned(), "e".repeat(2_000), "e".repeat(2_000)];
    assert_eq!(story(&mut stage, &mut c, &calls), 0);
    assert_eq!((stage.spans.len(), (stage.spans[0].end_ns - T0) / S), (1, 6));
}

#[test]
fn an_answer_that_never_ends_keeps_one_request_and_a_close_reports_it() {
    let (mut stage, mut c) = (Stage::new(), End::client(1));
    stage.event(c.send(T0, &get("/events")));
    stage.event(c.recv(T0 + MS, CHUNKED.as_bytes()));
    // Two hours of events.
    for second in 1..7_200 {
        stage.event(c.recv(T0 + second * S, chunk(900).as_bytes()));
        stage.tick(T0 + second * S + 1);
    }
    assert_eq!(stage.spans.len(), 0);
    assert!(stage.joiner.buffered() < 4096);
    stage.event(c.change(T0 + 7_200 * S, SocketChange::Close));
    stage.tick(T0 + 7_300 * S);
    let [span] = &stage.spans[..] else { panic!("{:#?}", stage.spans) };
    assert_eq!((span.end_ns - T0) / S, 7_199);
}

#[test]
fn more_is_copied_of_an_answer_that_lasts_and_less_again_behind_it() {
    let (mut stage, mut c) = (Stage::new(), End::client(1));
    stage.event(c.send(T0, &get("/events")));
    stage.event(c.recv(T0 + MS, CHUNKED.as_bytes()));
    stage.tick(T0 + S);
    stage.event(c.recv(T0 + 2 * S, (chunk(20) + "0\r\n\r\n").as_bytes()));
    stage.event(c.send(T0 + 3 * S, &get("/next")));
    let copied: Vec<CopyRule> = stage.verdicts().iter().map(|v| v.copy).collect();
    assert_eq!(copied, [CopyRule::EveryCall(512), CopyRule::EveryCall(4096), CopyRule::EveryCall(512)]);
    let (mut stage, mut c) = (Stage::new(), End::client(1));
    stage.event(c.send(T0, &get("/")));
    stage.event(c.recv(T0 + MS, &ok(10_000)));
    stage.tick(T0 + S);
    assert_eq!(stage.verdicts().len(), 1);
}
