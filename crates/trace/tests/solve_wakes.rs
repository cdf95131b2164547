//! Threads that share a connection: the loop that reads it wakes them in the order of their answers.
#![allow(clippy::unwrap_used)]

#[path = "world/event_loop.rs"]
mod event_loop;
mod world;

use event_loop::confidence;
use std::collections::HashMap;
use std::sync::Arc;
use wirespan_model::event::Wake;
use wirespan_model::{Evidence, ExchangeRange, SocketId, Span, SpanId, TapSide};
use wirespan_trace::{Solver, SolverConfig};
use world::{proc, Dice, World, MS, T0, US};

const SHARED: u64 = 77;

/// Rounds of requests that come together. Each makes one call on the shared connection, in any order; one read brings
/// the answers to several of them. Returns the spans, the wake-ups and the true request of each call. `claimed`: the
/// kernel claims that a call was made for the request that called before.
fn simulate(rounds: u64, claimed: bool) -> (Vec<Arc<Span>>, Vec<Wake>, HashMap<SpanId, u64>) {
    let (mut world, mut dice, app) = (World::default(), Dice(5), proc(1, 77, "app"));
    let (mut spans, mut wakes, mut truth) = (Vec::new(), Vec::new(), HashMap::new());
    let mut seq = 0u32;
    for round in 0..rounds {
        let begin = T0 + round * 20 * MS;
        let exchange = |user: u64| (1000 + user) << 24 | (round + 1);
        for user in 0..8 {
            let mut server = world.blank(app, TapSide::ServerProcess, begin + user * US, begin + 10 * MS + user * US);
            server.exchange = Some(ExchangeRange { first: exchange(user), last: exchange(user) });
            spans.push(server);
        }
        let mut users: Vec<u64> = (0..8).collect();
        (1..8).rev().for_each(|i| users.swap(i, dice.roll(i as u64 + 1) as usize));
        let mut before = exchange(users[7]);
        for (n, user) in users.iter().enumerate() {
            // Reads bring one, two and five answers.
            let read_ns = begin + [5, 6, 6, 7, 7, 7, 7, 7][n] * MS;
            let mut call = world.blank(app, TapSide::ClientProcess, begin + MS + n as u64 * 10 * US, read_ns);
            (call.socket, call.tid, call.response_seq) = (SHARED, 90, Some(seq));
            call.cause_evidence = Some(Evidence::Inferred);
            if claimed {
                (call.cause, call.cause_evidence) = (Some(before), Some(Evidence::ChildTask));
            }
            before = exchange(*user);
            seq = seq.wrapping_add(5);
            truth.insert(call.id, exchange(*user));
            let socket = SocketId(SHARED);
            let time_ns = read_ns + n as u64 * US;
            wakes.push(Wake { pid: 77, tid: 0, unsure: false, socket, read_ns, cause: exchange(*user), time_ns });
            spans.push(call);
        }
    }
    spans.sort_by_key(|s| (s.end_ns, s.id));
    (spans.into_iter().map(Arc::new).collect(), wakes, truth)
}

/// What comes out of the solver.
fn solve(spans: &[Arc<Span>], wakes: &[Wake]) -> Vec<Arc<Span>> {
    let (mut solver, mut out) = (Solver::new(SolverConfig::default()), Vec::new());
    let mut wakes = wakes.iter().peekable();
    let mut ticked = 0;
    for span in spans {
        while let Some(wake) = wakes.next_if(|wake| wake.read_ns <= span.end_ns) {
            solver.wake(1, wake);
        }
        if span.end_ns > ticked + 200 * MS {
            ticked = span.end_ns;
            solver.tick(ticked, &mut |s| out.push(s));
        }
        solver.push(Arc::clone(span), &mut |s| out.push(s));
    }
    solver.finish(&mut |s| out.push(s));
    out
}

/// Shares of the calls whose cause is right, and whose cause is wrong.
fn solved(claimed: bool, with_wakes: bool) -> (f64, f64) {
    let (spans, wakes, truth) = simulate(60, claimed);
    let out = solve(&spans, if with_wakes { &wakes } else { &[] });
    let calls: Vec<&Arc<Span>> = out.iter().filter(|s| s.tap == TapSide::ClientProcess).collect();
    assert_eq!(calls.len(), truth.len(), "each call comes out once");
    let right = calls.iter().filter(|s| s.cause == Some(truth[&s.id]));
    // The read that brought the last answer is followed by none: order alone tells of it.
    assert!(!with_wakes || right.clone().filter(|s| confidence(s) <= 0.98).count() <= 1);
    let wrong = calls.iter().filter(|s| s.cause.is_some_and(|cause| cause != truth[&s.id]));
    let share = |n: usize| n as f64 / calls.len() as f64;
    (share(right.count()), share(wrong.count()))
}

#[test]
fn wake_ups_name_the_requests_of_a_shared_connection() {
    assert_eq!(solved(false, true), (1.0, 0.0));
    let (right, _) = solved(false, false);
    assert!(right < 0.5, "order and time alone do not tell: {right}");
}

#[test]
fn wake_ups_correct_what_the_kernel_claims() {
    assert_eq!(solved(true, true), (1.0, 0.0));
    let (right, wrong) = solved(true, false);
    assert!(right < 0.2 && wrong > 0.5, "{right} {wrong}");
}

#[test]
fn wake_ups_for_no_request_overrule_no_claim() {
    let (mut spans, mut wakes, truth) = simulate(60, true);
    for span in &mut spans {
        if let Some(made_for) = truth.get(&span.id) {
            Arc::make_mut(span).cause = Some(*made_for);
        }
    }
    // The writer of a connection acts for its first message, which is no request.
    wakes.iter_mut().for_each(|wake| wake.cause = 5 << 24 | 1);
    let out = solve(&spans, &wakes);
    let wrong = out.iter().filter(|s| truth.get(&s.id).is_some_and(|made_for| s.cause != Some(*made_for))).count();
    assert_eq!(wrong, 0, "of {}", truth.len());
}
