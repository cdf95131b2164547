//! The cost of inferring causes, by the number of requests that are open at a time.
//!
//! `cargo run --release -p wirespan-trace --example solve_cost`
#![allow(clippy::unwrap_used)]

#[path = "../tests/world/event_loop.rs"]
mod event_loop;
#[path = "../tests/world/mod.rs"]
mod world;

use event_loop::{confidence, simulate, solve, Loop, Order};
use std::time::Instant;
use wirespan_trace::SolverConfig;

fn main() {
    println!("users  fan-out   spans  µs per span  linked   right  confidence");
    for fan_out in [false, true] {
        for users in [1, 10, 50, 150, 300] {
            let (spans, truth) = simulate(Loop { users, requests: 4_000, order: Order::Queue, fan_out, seed: 1 });
            let start = Instant::now();
            let out = solve(&spans, SolverConfig::default());
            let took = start.elapsed();
            let owner = |cause: u64| out.iter().find(|s| s.exchange.is_some_and(|x| x.contains(cause))).map(|s| s.id);
            let named: Vec<_> =
                out.iter().filter(|s| truth.contains_key(&s.id) && s.cause.is_some()).step_by(7).collect();
            let right = named.iter().filter(|s| s.cause.and_then(owner) == truth.get(&s.id).copied()).count();
            let sure: f64 = named.iter().map(|s| confidence(s)).sum();
            let cost = took.as_secs_f64() * 1e6 / spans.len() as f64;
            let calls = out.iter().filter(|s| truth.contains_key(&s.id)).step_by(7).count() as f64;
            let n = named.len() as f64;
            let (linked, right) = (n * 100.0 / calls, right as f64 * 100.0 / n);
            println!(
                "{users:>5} {fan_out:>8} {:>7} {cost:>12.1} {linked:>6.1}% {right:>6.2}% {:>11.2}",
                spans.len(),
                sure / n
            );
        }
    }
}
