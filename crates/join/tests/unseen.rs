//! Answers over TLS that were read while the library was met: the answers after them keep their requests.
#![allow(clippy::unwrap_used)]

mod common;
use common::tls::{data, plain};
use common::{get, ok, End, Stage, MS, T0};
use wirespan_model::Direction;

/// Four requests of a client, each with its answer: the first is read as `first` says (what is read, and whether the
/// kernel knows where it began), the others whole. The plaintext of the requests in `late` comes after their answers.
fn ask(stage: &mut Stage, c: &mut End, answer: &[u8], first: Option<(&[u8], bool)>, late: &[u64]) {
    let mut answers = Vec::new();
    for turn in 0..4 {
        let (request, at) = (get(&format!("/{turn}")), c.seq[1]);
        let now = T0 + turn * MS;
        stage.event(c.send(now, &data(&request)));
        let mut written = Some(plain(c, Direction::Egress, now, &request, at));
        if !late.contains(&turn) {
            written.take().into_iter().for_each(|e| stage.event(e));
        }
        let back = c.seq[0];
        stage.event(c.recv(now + MS / 2, &data(answer)));
        if let Some((read, known)) = if turn == 0 { first } else { Some((answer, true)) } {
            stage.event(plain(c, Direction::Ingress, now + MS / 2, read, back.filter(|_| known)));
        }
        written.into_iter().for_each(|e| stage.event(e));
        answers.push(back);
    }
    stage.finish();
    let seen: Vec<_> = stage.spans.iter().map(|s| (&*s.target, s.response_seq)).collect();
    let wanted = [("/0", None), ("/1", answers[1]), ("/2", answers[2]), ("/3", answers[3])];
    assert_eq!(seen, wanted);
}

/// The thread that reads the answers waits for the next one while its library is met. So the first answer is not read,
/// and the second one belongs to the second request.
#[test]
fn an_answer_that_is_read_unseen_does_not_shift_the_others() {
    ask(&mut Stage::new(), &mut End::client(1), &ok(3), None, &[]);
}

/// The same, and the rest of the first answer is read in further calls, for which the kernel has seen nothing arrive.
#[test]
fn the_rest_of_an_answer_does_not_shift_the_others() {
    let (mut stage, mut c) = (Stage::new(), End::client(1));
    // The answer to a request from before the library was met.
    stage.event(c.recv(T0 - MS, &data(&ok(10_000))));
    let answer = ok(5_000);
    ask(&mut stage, &mut c, &answer, Some((&answer[4_096..], false)), &[]);
}

/// The same as the first, and the call that wrote a later request returns only after its answer was read.
#[test]
fn a_request_that_is_told_after_its_answer_keeps_it() {
    for late in [&[1][..], &[2], &[1, 2, 3]] {
        ask(&mut Stage::new(), &mut End::client(1), &ok(3), None, late);
    }
}

/// The plaintext of one request never comes: its answer is read all the same, and the others keep theirs.
#[test]
fn an_answer_does_not_wait_for_ever_for_its_request() {
    let (mut stage, mut c) = (Stage::new(), End::client(1));
    let (request, answer) = (get("/0"), ok(3));
    let at = c.seq[1];
    stage.event(c.send(T0, &data(&request)));
    stage.event(plain(&c, Direction::Egress, T0, &request, at));
    stage.event(c.recv(T0 + MS / 2, &data(&answer)));
    stage.event(c.send(T0 + MS, &data(&request)));
    let back = c.seq[0];
    stage.event(c.recv(T0 + 2 * MS, &data(&answer)));
    stage.event(plain(&c, Direction::Ingress, T0 + 2 * MS, &answer, back));
    assert!(stage.spans.is_empty());
    stage.tick(T0 + 10_000 * MS);
    assert_eq!(stage.spans.iter().map(|s| s.response_seq).collect::<Vec<_>>(), [back]);
}
