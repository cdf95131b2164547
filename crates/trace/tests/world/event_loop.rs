//! A simulated event loop that records the truth.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use super::world::{proc, Dice, World, MS, T0, US};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use wirespan_model::{Endpoint, Evidence, ExchangeRange, FiveTuple, Span, SpanId, TapSide, Value};
use wirespan_trace::solve::CONFIDENCE;
use wirespan_trace::{Solver, SolverConfig};

#[derive(Clone, Copy, PartialEq)]
pub enum Order {
    /// First in, first out, as in asyncio.
    Queue,
    /// Any of the tasks that are ready.
    Any,
}

#[derive(Clone, Copy)]
pub struct Loop {
    pub users: u64,
    pub requests: u64,
    pub order: Order,
    /// All calls of a request at once.
    pub fan_out: bool,
    pub seed: u64,
}

/// An event: data have arrived for request `of`; `call` is the call that was answered, if it is an answer.
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

/// Spans of one process, and the true parent of each call. Calls have no cause, but the kernel knows that there is one.
pub fn simulate(l: Loop) -> (Vec<Arc<Span>>, HashMap<SpanId, SpanId>) {
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
        // One turn of the loop: it reads all data that have arrived.
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
        // Then it acts for the requests that it has read.
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
    // Spans arrive in the order of their end.
    all.sort_by_key(|s| (s.end_ns, s.id));
    (all, truth)
}

/// As above, for several threads of one process, each with connections of its own.
pub fn simulate_threads(l: Loop, threads: u64) -> (Vec<Arc<Span>>, HashMap<SpanId, SpanId>) {
    let (mut all, mut truth) = (Vec::new(), HashMap::new());
    for thread in 0..threads {
        let (spans, calls) = simulate(Loop { seed: l.seed + thread, ..l });
        let own = |id: SpanId| SpanId(id.0 + (thread << 40));
        truth.extend(calls.into_iter().map(|(call, request)| (own(call), own(request))));
        all.extend(spans.into_iter().map(|span| {
            let mut span = Arc::unwrap_or_clone(span);
            (span.id, span.tid) = (own(span.id), 100 + thread as u32);
            span.socket = thread * 100 + u64::from(span.tuple.server.port);
            let moved = |x: u64| x + (thread << 50);
            span.exchange = span.exchange.map(|x| ExchangeRange { first: moved(x.first), last: moved(x.last) });
            Arc::new(span)
        }));
    }
    all.sort_by_key(|s| (s.end_ns, s.id));
    (all, truth)
}

/// A process that works in one way, and from some time on in another.
pub fn simulate_change(first: Loop, then: Loop) -> (Vec<Arc<Span>>, HashMap<SpanId, SpanId>) {
    let ((mut all, _), (spans, calls)) = (simulate(first), simulate(then));
    let later = all.last().map_or(0, |s| s.end_ns) - T0 + MS;
    let own = |id: SpanId| SpanId(id.0 + (1 << 40));
    all.extend(spans.into_iter().map(|span| {
        let mut span = Arc::unwrap_or_clone(span);
        span.id = own(span.id);
        let moved = |x: u64| x + (1 << 50);
        span.exchange = span.exchange.map(|x| ExchangeRange { first: moved(x.first), last: moved(x.last) });
        for at in [&mut span.start_ns, &mut span.end_ns, &mut span.response_ns] {
            *at += later;
        }
        Arc::new(span)
    }));
    (all, calls.into_iter().map(|(call, request)| (own(call), own(request))).collect())
}

/// Pushes all spans as time passes; returns the output in order.
pub fn solve(spans: &[Arc<Span>], config: SolverConfig) -> Vec<Arc<Span>> {
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

/// Confidence of an inferred cause; 0 if none was inferred.
pub fn confidence(span: &Span) -> f64 {
    match span.attrs.iter().find(|(k, _)| k == CONFIDENCE) {
        Some((_, Value::Float(c))) => *c,
        _ => 0.0,
    }
}
