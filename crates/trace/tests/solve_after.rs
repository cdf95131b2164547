//! Requests that go on after their answer, beside an event loop with other work.
#![allow(clippy::unwrap_used)]

#[path = "world/event_loop.rs"]
mod event_loop;
mod world;

use event_loop::{confidence, simulate, solve, Loop, Order};
use std::collections::HashMap;
use std::sync::Arc;
use wirespan_model::{Endpoint, Evidence, ExchangeRange, FiveTuple, Span, SpanId, TapSide};
use wirespan_trace::SolverConfig;
use world::{proc, Dice, World, MS, T0, US};

/// What comes beside the loop's other work.
#[derive(Clone, Copy, PartialEq)]
enum Beside {
    /// Requests that answer at once, and make a call some milliseconds later.
    Mails,
    /// The same requests without a call, and calls that a clock makes.
    Clock,
}

struct Outcome {
    /// Calls of the second half, and those with the right request.
    late: usize,
    right: usize,
    /// Calls whose request had answered before.
    after: usize,
    /// Of the loop's other calls, the share with the right request.
    others: f64,
}

fn solved(beside: Beside) -> Outcome {
    let (mut all, mut truth) =
        simulate(Loop { users: 6, requests: 2_400, order: Order::Queue, fan_out: false, seed: 7 });
    let (mut world, mut dice, app) = (World::default(), Dice(3), proc(1, 77, "app"));
    let own = |id: SpanId| SpanId(id.0 + (1 << 40));
    let (from, to) = (all.first().unwrap().start_ns, all.last().unwrap().end_ns);
    let (mut at, mut number, mut late) = (from.max(T0), 0, Vec::new());
    while at + 40 * MS < to {
        number += 1;
        let answered = at + 300 * US;
        let mut server = world.blank(app, TapSide::ServerProcess, at, answered);
        server.id = own(server.id);
        let x = (1 << 50) + (number << 24 | 1);
        (server.exchange, server.target) =
            (Some(ExchangeRange { first: x, last: x }), format!("/later/{number:06}").into());
        let begin = match beside {
            Beside::Mails => answered + 2 * MS + dice.roll(1_000) * US,
            Beside::Clock => from + number * 5 * MS,
        };
        let mut call = world.blank(app, TapSide::ClientProcess, begin, begin + 500 * US);
        (call.id, call.cause_evidence) = (own(call.id), Some(Evidence::Inferred));
        call.tuple = FiveTuple { server: Endpoint::new([10, 0, 0, 9].into(), 3), ..call.tuple };
        if beside == Beside::Mails {
            truth.insert(call.id, server.id);
        }
        late.push(call.id);
        all.extend([Arc::new(server), Arc::new(call)]);
        at += 3 * MS + dice.roll(12_000) * US;
    }
    all.sort_by_key(|s| (s.end_ns, s.id));
    let out = solve(&all, SolverConfig::default());
    let requests: HashMap<u64, &Arc<Span>> = all.iter().filter_map(|s| Some((s.exchange?.first, s))).collect();
    let request_of = |id: &SpanId| {
        let call = out.iter().find(|s| s.id == *id).unwrap();
        call.cause.map(|exchange| requests[&exchange])
    };
    let is_right = |id: &&SpanId| request_of(id).is_some_and(|r| r.id == truth[*id]);
    let second = &late[late.len() / 2..];
    let others: Vec<SpanId> = truth.keys().filter(|id| !late.contains(id)).copied().collect();
    let has_answered = |id: &&SpanId| {
        let begin = all.iter().find(|s| s.id == **id).unwrap().start_ns;
        request_of(id).is_some_and(|r| r.end_ns < begin)
    };
    Outcome {
        late: second.len(),
        right: if beside == Beside::Mails { second.iter().filter(is_right).count() } else { 0 },
        after: second.iter().filter(has_answered).count(),
        others: others.iter().filter(is_right).count() as f64 / others.len() as f64,
    }
}

#[test]
fn calls_after_the_answer_are_given_to_requests_that_go_on() {
    let o = solved(Beside::Mails);
    assert!(o.late > 50 && o.right as f64 > 0.85 * o.late as f64, "{} of {}", o.right, o.late);
    assert!(o.others > 0.9, "{}", o.others);
}

#[test]
fn calls_of_a_clock_are_not_given_to_requests_that_have_answered() {
    let o = solved(Beside::Clock);
    assert!(o.late > 50 && o.after == 0, "{} of {}", o.after, o.late);
    assert!(o.others > 0.9, "{}", o.others);
}

/// One user, whose requests follow each other. One route makes two calls, one after the other. Another one, for which
/// one of fourteen requests asks, answers at once and makes the first of these and a third one then, while the next
/// request is served. The kernel guesses the request that was read last. Returns how many calls have the right request,
/// how many another one, and how many of those as good as surely.
fn one_user() -> (usize, usize, usize) {
    let (mut world, mut dice, app) = (World::default(), Dice(11), proc(1, 77, "app"));
    let (mut all, mut truth, mut at) = (Vec::new(), HashMap::new(), T0);
    let mut call = |world: &mut World, server: &Span, kind: u16, start_ns: u64, all: &mut Vec<Span>| {
        let mut call = world.blank(app, TapSide::ClientProcess, start_ns, start_ns + 600 * US);
        call.cause_evidence = Some(Evidence::Inferred);
        call.tuple = FiveTuple { server: Endpoint::new([10, 0, 0, 9].into(), kind), ..call.tuple };
        truth.insert(call.id, server.id);
        all.push(call);
        start_ns + 600 * US
    };
    for number in 1..=200 {
        let goes_on = dice.roll(14) == 0;
        let mut server = world.blank(app, TapSide::ServerProcess, at, at);
        let x = (1 << 50) + (number << 24 | 1);
        server.exchange = Some(ExchangeRange { first: x, last: x });
        server.target = if goes_on { "/later" } else { "/seq" }.into();
        let mut now = at + 100 * US;
        if goes_on {
            server.end_ns = now;
            let replied = call(&mut world, &server, 1, now + 900 * US + dice.roll(100) * US, &mut all);
            call(&mut world, &server, 3, replied + 100 * US, &mut all);
        } else {
            now = call(&mut world, &server, 1, now + dice.roll(50) * US, &mut all);
            now = call(&mut world, &server, 2, now + 80 * US + dice.roll(50) * US, &mut all) + 90 * US;
            server.end_ns = now;
        }
        all.push(server);
        at = now + 200 * US + dice.roll(200) * US;
    }
    let mut reads: Vec<(u64, u64)> = all.iter().filter_map(|s| Some((s.start_ns, s.exchange?.first))).collect();
    reads.sort_unstable();
    for call in all.iter_mut().filter(|s| s.tap == TapSide::ClientProcess) {
        call.cause = reads[..reads.partition_point(|(at, _)| *at <= call.start_ns)].last().map(|(_, x)| *x);
    }
    let all: Vec<Arc<Span>> = all.into_iter().map(Arc::new).collect();
    let mut sorted = all.clone();
    sorted.sort_by_key(|s| (s.end_ns, s.id));
    let out = solve(&sorted, SolverConfig::default());
    let owners: HashMap<u64, SpanId> = all.iter().filter_map(|s| Some((s.exchange?.first, s.id))).collect();
    let (mut right, mut wrong, mut surely) = (0, 0, 0);
    for span in out.iter().filter(|s| s.tap == TapSide::ClientProcess) {
        match span.cause.map(|cause| owners[&cause]) {
            Some(owner) if owner == truth[&span.id] => right += 1,
            Some(_) => {
                wrong += 1;
                surely += usize::from(confidence(span) >= 0.9);
            }
            None => {}
        }
    }
    (right, wrong, surely)
}

#[test]
fn with_one_user_calls_after_the_answer_are_not_given_to_the_next_request() {
    let (right, wrong, surely) = one_user();
    assert!(right > 392 && wrong < 6 && surely <= 2, "{right} right, {wrong} wrong, {surely} as good as surely");
}
