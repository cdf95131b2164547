//! Rung 7 against a simulated event loop that writes down what it does.
#![allow(clippy::unwrap_used)]

mod common;

use common::{proc, Dice, World, MS, S, T0, US};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use wirespan_model::{Endpoint, Evidence, ExchangeRange, FiveTuple, Span, SpanId, TapSide, Value};
use wirespan_trace::solve::CONFIDENCE;
use wirespan_trace::{Solver, SolverConfig};

#[derive(Clone, Copy, PartialEq)]
enum Order {
    /// First in, first out, as in asyncio.
    Queue,
    /// Any of those that are ready.
    Any,
}

#[derive(Clone, Copy)]
struct Loop {
    users: u64,
    requests: u64,
    order: Order,
    /// All calls of a request at once.
    fan_out: bool,
    seed: u64,
}

/// What happens: somebody has something to read for request `of`; `call` is what was answered, if it is that.
#[derive(Clone, Copy)]
struct Ready {
    of: usize,
    call: Option<usize>,
}

struct Doing {
    server: Span,
    calls: Vec<u16>,
    sent: usize,
    open: usize,
}

/// Spans of one process, and for each call its true parent. Calls have no cause, but the kernel knows that there is one.
fn simulate(l: Loop) -> (Vec<Arc<Span>>, HashMap<SpanId, SpanId>) {
    let (mut world, mut dice, app) = (World::default(), Dice(l.seed), proc(1, 77, "app"));
    let (mut doing, mut calls): (Vec<Doing>, Vec<Span>) = (Vec::new(), Vec::new());
    let mut truth = HashMap::new();
    let mut future: BTreeMap<(u64, usize), Option<Ready>> = BTreeMap::new();
    let mut number = 0;
    for user in 0..l.users {
        future.insert((T0 + user * 37 * US, user as usize), None);
    }
    number += l.users as usize;
    let (mut now, mut begun) = (T0, 0);
    let mut done = Vec::new();
    let mut queue: Vec<Ready> = Vec::new();
    while !future.is_empty() || !queue.is_empty() {
        if queue.is_empty() {
            now = now.max(future.first_key_value().unwrap().0 .0);
        }
        // One turn of the loop: it reads all that has come…
        while let Some(first) = future.first_entry().filter(|e| e.key().0 <= now) {
            let came = first.remove();
            now += 15 * US;
            match came {
                Some(ready) => {
                    if let Some(call) = ready.call {
                        calls[call].end_ns = now;
                        calls[call].response_ns = now;
                        doing[ready.of].open -= 1;
                    }
                    if doing[ready.of].open == 0 {
                        queue.push(ready);
                    }
                }
                None if begun < l.requests => {
                    begun += 1;
                    let mut server = world.blank(app, TapSide::ServerProcess, now, now);
                    let x = (1000 + begun) << 24 | 1;
                    server.exchange = Some(ExchangeRange { first: x, last: x });
                    server.target = format!("/work/{begun}").into();
                    let list = [vec![1, 2], vec![1, 1, 2], vec![1, 2, 2]][dice.roll(3) as usize].clone();
                    doing.push(Doing { server, calls: list, sent: 0, open: 0 });
                    queue.push(Ready { of: doing.len() - 1, call: None });
                }
                None => {}
            }
        }
        // …then acts for those that it had read.
        for _ in 0..queue.len() {
            let at = if l.order == Order::Queue { 0 } else { dice.roll(queue.len() as u64) as usize };
            let ready = queue.remove(at);
            let d = &mut doing[ready.of];
            now += 40 * US + dice.roll(60) * US;
            if d.sent == d.calls.len() {
                (d.server.response_ns, d.server.end_ns) = (now, now);
                done.push(d.server.clone());
                number += 1;
                future.insert((now + 50 * US + dice.roll(400) * US, number), None);
                continue;
            }
            let burst = if l.fan_out { d.calls.len() } else { 1 };
            for _ in 0..burst {
                let kind = d.calls[d.sent];
                d.sent += 1;
                d.open += 1;
                let mut call = world.blank(app, TapSide::ClientProcess, now, now);
                call.tuple = FiveTuple { server: Endpoint::new([10, 0, 0, 9].into(), kind), ..call.tuple };
                call.cause_evidence = Some(Evidence::Inferred);
                truth.insert(call.id, d.server.id);
                calls.push(call);
                number += 1;
                let back = now + 200 * US + dice.roll(1800) * US;
                future.insert((back, number), Some(Ready { of: ready.of, call: Some(calls.len() - 1) }));
                now += 10 * US;
            }
        }
    }
    let mut all: Vec<Arc<Span>> = done.into_iter().chain(calls).map(Arc::new).collect();
    // They come when they have ended.
    all.sort_by_key(|s| (s.end_ns, s.id));
    (all, truth)
}

/// Pushes all spans as time passes; what comes out, in order.
fn solve(spans: &[Arc<Span>], config: SolverConfig) -> Vec<Arc<Span>> {
    let (mut solver, mut out) = (Solver::new(config), Vec::new());
    let mut ticked = 0;
    for span in spans {
        if span.end_ns > ticked + 200 * MS {
            ticked = span.end_ns;
            solver.tick(ticked, &mut |s| out.push(s));
        }
        solver.push(Arc::clone(span), &mut |s| out.push(s));
    }
    solver.finish(&mut |s| out.push(s));
    out
}

fn confidence(span: &Span) -> f64 {
    match span.attrs.iter().find(|(k, _)| k == CONFIDENCE) {
        Some((_, Value::Float(c))) => *c,
        _ => 0.0,
    }
}

struct Score {
    calls: usize,
    linked: usize,
    right: usize,
    confidence: f64,
}

fn score(out: &[Arc<Span>], truth: &HashMap<SpanId, SpanId>) -> Score {
    let owners: HashMap<u64, &Span> = out.iter().filter_map(|s| Some((s.exchange?.first, s.as_ref()))).collect();
    let mut score = Score { calls: truth.len(), linked: 0, right: 0, confidence: 0.0 };
    for span in out.iter().filter(|s| s.tap == TapSide::ClientProcess) {
        let Some(cause) = span.cause else { continue };
        assert_eq!(span.cause_evidence, Some(Evidence::Inferred));
        let parent = owners[&cause];
        assert!(parent.start_ns <= span.start_ns && span.end_ns <= parent.end_ns, "a call lies within its request");
        let c = confidence(span);
        assert!((0.5..=0.99001).contains(&c), "{c}");
        score.linked += 1;
        score.confidence += c;
        score.right += usize::from(truth[&span.id] == parent.id);
    }
    score
}

const BUSY: Loop = Loop { users: 10, requests: 600, order: Order::Queue, fan_out: false, seed: 1 };

fn measured(l: Loop) -> (f64, f64, f64) {
    let (spans, truth) = simulate(l);
    let s = score(&solve(&spans, SolverConfig::default()), &truth);
    let (linked, right) = (s.linked as f64 / s.calls as f64, s.right as f64 / s.linked as f64);
    println!("linked {linked:.3} right {right:.3} confidence {:.3}", s.confidence / s.linked as f64);
    (linked, right, s.confidence / s.linked as f64)
}

#[test]
fn a_loop_that_keeps_the_order_is_solved() {
    let (linked, right, confidence) = measured(BUSY);
    assert!(linked > 0.95 && right > 0.95, "{linked} {right}");
    assert!(confidence < right + 0.1, "{confidence}");
}

#[test]
fn calls_all_at_once_are_solved() {
    let (linked, right, confidence) = measured(Loop { fan_out: true, ..BUSY });
    assert!(linked > 0.9 && right > 0.9, "{linked} {right}");
    assert!(confidence < right + 0.1, "{confidence}");
}

#[test]
fn a_loop_without_order_is_not_claimed_to_be_known() {
    let (_, right, confidence) = measured(Loop { order: Order::Any, ..BUSY });
    assert!(right > 0.5, "{right}");
    assert!(confidence < right + 0.15, "{confidence} {right}");
}

#[test]
fn one_user_at_a_time_leaves_no_doubt() {
    let (linked, right, _) = measured(Loop { users: 1, requests: 50, ..BUSY });
    assert_eq!((linked, right), (1.0, 1.0));
}

#[test]
fn switched_off_it_hands_on_what_came() {
    let (spans, _) = simulate(Loop { requests: 20, ..BUSY });
    let out = solve(&spans, SolverConfig { enabled: false, ..SolverConfig::default() });
    assert_eq!(out, spans);
}

#[test]
fn what_is_certain_stays_and_goes_on_at_once() {
    let (spans, truth) = simulate(Loop { requests: 100, ..BUSY });
    let by_id: HashMap<SpanId, Arc<Span>> = spans.iter().map(|s| (s.id, s.clone())).collect();
    let mut solver = Solver::new(SolverConfig::default());
    for span in &spans {
        let mut span = span.as_ref().clone();
        if let Some(parent) = truth.get(&span.id) {
            (span.cause, span.cause_evidence) = (Some(by_id[parent].exchange.unwrap().first), Some(Evidence::Thread));
        }
        let (sent, mut out) = (Arc::new(span), Vec::new());
        solver.push(sent.clone(), &mut |s| out.push(s));
        assert_eq!(out, [sent]);
    }
    assert_eq!(solver.delay_ns(), 0);
}

#[test]
fn a_process_that_serves_nothing_gets_no_cause_and_is_not_kept() {
    let (spans, _) = simulate(Loop { requests: 30, ..BUSY });
    let calls: Vec<Arc<Span>> = spans.into_iter().filter(|s| s.tap == TapSide::ClientProcess).collect();
    let (mut solver, mut out) = (Solver::new(SolverConfig::default()), Vec::new());
    solver.tick(T0, &mut |s| out.push(s));
    for call in &calls {
        solver.push(call.clone(), &mut |s| out.push(s));
    }
    assert!(out.is_empty() && solver.delay_ns() > 0);
    solver.tick(T0 + 10 * S, &mut |s| out.push(s));
    assert_eq!((out.len(), solver.delay_ns()), (calls.len(), 0));
    assert!(out.iter().all(|s| s.cause.is_none() && s.cause_evidence.is_none()));
    assert_eq!(solver.stats().open, calls.len() as u64);
}

#[test]
fn too_many_go_on_as_they_came_and_are_counted() {
    let (spans, _) = simulate(Loop { requests: 60, ..BUSY });
    let (mut solver, mut out) = (Solver::new(SolverConfig { max_spans: 10, ..SolverConfig::default() }), 0);
    for span in &spans {
        solver.push(span.clone(), &mut |_| out += 1);
    }
    assert_eq!(out, spans.len() - 10);
    solver.finish(&mut |_| out += 1);
    assert_eq!(out, spans.len());
    assert!(solver.stats().overflow > 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever comes in whatever order: each span goes out once, and an inferred cause encloses its call.
    #[test]
    fn every_span_goes_out_once(
        facts in prop::collection::vec((any::<bool>(), 0u64..5_000, 0u64..3_000, 0u16..3, 0u8..4, any::<bool>()), 0..120),
        beam in 1usize..32,
    ) {
        let (mut world, app) = (World::default(), proc(1, 5, "app"));
        let mut spans = Vec::new();
        for (i, (serves, start, length, kind, evidence, tick)) in facts.into_iter().enumerate() {
            let (from, to) = (T0 + start * MS, T0 + (start + length) * MS);
            let tap = if serves { TapSide::ServerProcess } else { TapSide::ClientProcess };
            let mut span = world.blank(app, tap, from, to);
            if serves {
                let x = (i as u64 + 1) << 24 | 1;
                span.exchange = Some(ExchangeRange { first: x, last: x });
            } else {
                span.tuple.server.port = kind;
                span.cause = (evidence % 2 == 1).then_some(((i as u64) / 2) << 24 | 1);
                span.cause_evidence = (evidence > 0).then_some(if evidence == 3 { Evidence::Thread } else { Evidence::Inferred });
            }
            spans.push((Arc::new(span), tick));
        }
        let (mut solver, mut out) = (Solver::new(SolverConfig { beam, ..SolverConfig::default() }), Vec::new());
        let mut now = T0;
        for (span, tick) in &spans {
            now = now.max(span.end_ns);
            if *tick {
                solver.tick(now, &mut |s| out.push(s));
            }
            solver.push(span.clone(), &mut |s| out.push(s));
        }
        solver.finish(&mut |s| out.push(s));
        prop_assert_eq!(out.len(), spans.len());
        prop_assert_eq!(out.iter().map(|s| s.id).collect::<HashSet<_>>().len(), spans.len());
        let owners: HashMap<u64, Arc<Span>> = out.iter().filter_map(|s| Some((s.exchange?.first, s.clone()))).collect();
        for span in out.iter().filter(|s| s.attrs.iter().any(|(k, _)| k == CONFIDENCE)) {
            let parent = &owners[&span.cause.unwrap()];
            prop_assert!(parent.start_ns <= span.start_ns && span.end_ns <= parent.end_ns);
        }
        prop_assert_eq!(solver.delay_ns(), 0);
    }
}
