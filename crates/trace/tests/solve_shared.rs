//! Rung 7 where many share one thing: workers that take calls from one queue, connections that carry many requests in
//! one call.
#![allow(clippy::unwrap_used)]

mod world;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use wirespan_model::attr::CAUSE_SPAN;
use wirespan_model::{Endpoint, Evidence, ExchangeRange, FiveTuple, Span, SpanId, TapSide};
use wirespan_trace::{Solver, SolverConfig};
use world::{proc, Dice, World, MS, T0, US};

/// The calls of a request of each kind.
const KINDS: [&[u16]; 4] = [&[1, 2], &[1, 1, 2], &[1, 2, 2], &[1, 1, 2, 2]];

struct Made {
    world: World,
    dice: Dice,
    spans: Vec<Span>,
    truth: HashMap<SpanId, SpanId>,
}

impl Made {
    fn new(seed: u64) -> Self {
        Made { world: World::default(), dice: Dice(seed), spans: Vec::new(), truth: HashMap::new() }
    }

    fn request(&mut self, number: u64, kind: usize, at: u64) -> Span {
        let mut s = self.world.blank(proc(1, 77, "app"), TapSide::ServerProcess, at, at);
        let x = (1000 + number) << 24 | 1;
        s.exchange = Some(ExchangeRange { first: x, last: x });
        s.target = format!("/work/{kind}/{:012x}", number * 7919).into();
        s
    }

    fn call(&mut self, to: u16, at: u64, of: &Span) -> Span {
        let mut s = self.world.blank(proc(1, 77, "app"), TapSide::ClientProcess, at, at);
        s.tuple = FiveTuple { server: Endpoint::new([10, 0, 0, 9].into(), to), ..s.tuple };
        s.cause_evidence = Some(Evidence::Inferred);
        self.truth.insert(s.id, of.id);
        s
    }

    /// Share of calls that are linked, and of links that are right.
    fn solved(mut self) -> (f64, f64) {
        self.spans.sort_by_key(|s| (s.end_ns, s.id));
        let (mut solver, mut out) = (Solver::new(SolverConfig::default()), Vec::<Arc<Span>>::new());
        let mut ticked = 0;
        for span in self.spans {
            if span.end_ns > ticked + 200 * MS {
                ticked = span.end_ns;
                solver.tick(ticked, &mut |s| out.push(s));
            }
            solver.push(Arc::new(span), &mut |s| out.push(s));
        }
        solver.finish(&mut |s| out.push(s));
        let owners: HashMap<u64, SpanId> = out.iter().filter_map(|s| Some((s.exchange?.first, s.id))).collect();
        let links: Vec<bool> = out.iter().filter_map(|s| Some(owners[&s.cause?] == self.truth[&s.id])).collect();
        let right = links.iter().filter(|right| **right).count();
        let shares = (links.len() as f64 / self.truth.len() as f64, right as f64 / links.len() as f64);
        println!("linked {:.3} right {:.3}", shares.0, shares.1);
        shares
    }
}

struct Job {
    of: usize,
    to: u16,
}

/// Threads read and answer; `workers` make the calls in the order of submission. The kernel claims a cause for
/// each call by the wake-up of its worker; the claim is right `claims` times of 100.
fn pool(users: u64, workers: usize, claims: u64, seed: u64) -> Made {
    let mut made = Made::new(seed);
    let (mut requests, mut open): (Vec<Span>, Vec<usize>) = (Vec::new(), Vec::new());
    let (mut queue, mut idle): (VecDeque<Job>, usize) = (VecDeque::new(), workers);
    // Time, number, and the call that is answered; without one, a request is read.
    let mut future: BinaryHeap<Reverse<(u64, usize, Option<usize>)>> = BinaryHeap::new();
    let mut calls: Vec<(usize, Span)> = Vec::new();
    for user in 0..users {
        future.push(Reverse((T0 + user * 53 * US, 0, None)));
    }
    let mut number = 0;
    while let Some(Reverse((mut now, _, answered))) = future.pop() {
        number += 1;
        match answered {
            None if requests.len() < 800 => {
                let kind = made.dice.roll(4) as usize;
                let of = requests.len();
                requests.push(made.request(of as u64, kind, now));
                open.push(KINDS[kind].len());
                queue.extend(KINDS[kind].iter().map(|to| Job { of, to: *to }));
            }
            None => continue,
            Some(call) => {
                let (of, mut span) = calls[call].clone();
                (span.response_ns, span.end_ns) = (now, now);
                made.spans.push(span);
                idle += 1;
                open[of] -= 1;
                if open[of] == 0 {
                    let end = now + 20 * US + made.dice.roll(30) * US;
                    (requests[of].response_ns, requests[of].end_ns) = (end, end);
                    made.spans.push(requests[of].clone());
                    future.push(Reverse((end + 50 * US + made.dice.roll(200) * US, number, None)));
                }
            }
        }
        while idle > 0 && !queue.is_empty() {
            let job = queue.pop_front().unwrap();
            idle -= 1;
            now += 10 * US + made.dice.roll(20) * US;
            let mut span = made.call(job.to, now, &requests[job.of]);
            let waiting: Vec<usize> = (0..open.len()).filter(|r| open[*r] > 0).collect();
            let other = waiting[made.dice.roll(waiting.len() as u64) as usize];
            let claimed = if made.dice.roll(100) < claims { job.of } else { other };
            span.cause = Some(requests[claimed].exchange.unwrap().first);
            span.cause_evidence = Some(Evidence::WakeUp);
            let back = now + 100 * US + made.dice.roll(1400) * US;
            future.push(Reverse((back, number, Some(calls.len()))));
            calls.push((job.of, span));
        }
    }
    made
}

#[test]
fn workers_that_take_from_one_queue_are_solved_where_claims_fail() {
    for (users, workers, claims) in [(10, 40, 70), (10, 40, 30), (4, 3, 70)] {
        let (linked, right) = pool(users, workers, claims, 1).solved();
        assert!(linked > 0.95 && right > 0.95, "{users} {workers} {claims}: {linked} {right}");
    }
}

#[test]
fn claims_that_hold_stay() {
    let made = pool(10, 6, 100, 2);
    let (truth, mut solver) = (made.truth, Solver::new(SolverConfig::default()));
    let mut out: Vec<Arc<Span>> = Vec::new();
    let spans: Vec<Arc<Span>> = made.spans.into_iter().map(Arc::new).collect();
    for span in &spans {
        solver.push(span.clone(), &mut |s| out.push(s));
    }
    // A call that came first had to wait; a call that came last did not.
    assert!(out.len() < spans.len() && out.len() > spans.len() / 2);
    assert_eq!(out.last().map(|s| s.id), spans.last().map(|s| s.id));
    solver.finish(&mut |s| out.push(s));
    assert_eq!(out.len(), spans.len());
    assert!(out.iter().filter(|s| truth.contains_key(&s.id)).all(|s| s.cause_evidence == Some(Evidence::WakeUp)));
    assert_eq!((solver.stats().inferred, solver.stats().open), (0, 0));
}

/// Each turn reads all arrived requests in one call, and sends one call for each request in one system call. Order is
/// the only evidence.
#[test]
fn the_order_within_one_call_links_calls_to_requests() {
    let mut made = Made::new(3);
    let (mut now, mut number, mut seq) = (T0, 0, 0u32);
    for _ in 0..200 {
        now += 5 * MS;
        let together = 2 + made.dice.roll(5);
        let mut requests = Vec::new();
        for _ in 0..together {
            number += 1;
            seq += 60;
            let mut r = made.request(number, 0, now);
            (r.request_seq, r.message_id) = (Some(seq), Some(number * 2 + 1));
            requests.push(r);
        }
        let mut calls: Vec<Span> = Vec::new();
        for (i, r) in requests.iter().enumerate() {
            let mut c = made.call(1, now + MS, r);
            (c.request_seq, c.message_id) = (Some(seq + i as u32), Some(number * 2 + i as u64));
            // All answers arrive in one call, too, in an order of their own.
            (c.end_ns, c.response_ns) = (now + 2 * MS, now + 2 * MS);
            c.response_seq = Some(seq + ((i as u32 * 3 + 1) % together as u32));
            calls.push(c);
        }
        let mut order: Vec<usize> = (0..requests.len()).collect();
        order.sort_by_key(|i| (calls[*i].response_seq, *i));
        for (place, i) in order.into_iter().enumerate() {
            let r = &mut requests[i];
            (r.end_ns, r.response_ns, r.response_seq) = (now + 3 * MS, now + 3 * MS, Some(seq + place as u32));
        }
        made.spans.extend(calls);
        made.spans.extend(requests);
    }
    let (linked, right) = made.solved();
    assert!(linked > 0.95 && right > 0.95, "{linked} {right}");
}

/// One read brings several requests, so that the kernel's claims name the read. A worker deals with each request, one
/// call after the other.
#[test]
fn claims_that_name_a_read_are_for_one_of_its_requests() {
    let mut made = Made::new(5);
    let mut now = T0;
    for read in 1..=300 {
        now += 20 * MS;
        let exchange = 500 << 24 | read;
        for n in 0..2 + made.dice.roll(3) {
            let mut r = made.request(read * 8 + n, 0, now);
            r.exchange = Some(ExchangeRange { first: exchange, last: exchange });
            r.message_id = Some(read * 16 + n * 2 + 1);
            let mut at = now;
            for to in [1, 2, 3] {
                at += 200 * US + made.dice.roll(300) * US;
                let mut c = made.call(to, at, &r);
                (c.tid, c.comm) = (100 + (read + n) as u32 % 7, format!("exec-{n}").into());
                (c.cause, c.cause_evidence) = (Some(exchange), Some(Evidence::ChildTask));
                at += 300 * US + made.dice.roll(600) * US;
                (c.response_ns, c.end_ns) = (at, at);
                made.spans.push(c);
            }
            (r.response_ns, r.end_ns) = (at + 50 * US, at + 50 * US);
            made.spans.push(r);
        }
    }
    made.spans.sort_by_key(|s| (s.end_ns, s.id));
    let (mut solver, mut out) = (Solver::new(SolverConfig::default()), Vec::<Arc<Span>>::new());
    made.spans.into_iter().for_each(|span| solver.push(Arc::new(span), &mut |s| out.push(s)));
    solver.finish(&mut |s| out.push(s));
    let named = |s: &Arc<Span>| s.text(CAUSE_SPAN).and_then(|id| u64::from_str_radix(id, 16).ok()).map(SpanId);
    let calls: Vec<_> = out.iter().filter(|s| made.truth.contains_key(&s.id)).collect();
    let links: Vec<bool> = calls.iter().filter_map(|s| Some(named(s)? == made.truth[&s.id])).collect();
    let right = links.iter().filter(|right| **right).count() as f64 / links.len() as f64;
    let linked = links.len() as f64 / calls.len() as f64;
    println!("linked {linked:.3} right {right:.3}");
    assert!(linked > 0.95 && right > 0.95, "{linked} {right}");
    // Of one thread's three calls for a read, all are for one request.
    let mut kept: HashMap<(u32, u64), Vec<Option<SpanId>>> = HashMap::new();
    calls.iter().for_each(|s| kept.entry((s.tid, (s.start_ns - T0) / (20 * MS))).or_default().push(named(s)));
    let split = kept.values().filter(|requests| requests.windows(2).any(|two| two[0] != two[1])).count();
    assert!(split * 20 < kept.len(), "{split} of {}", kept.len());
}
