//! Wake-ups by answers that the kernel reports: a real program whose threads share a connection.

use crate::causes::{events, number, Links, Load, SATURATED, WARM_UP};
use crate::harness::{can_trace, compile_with, has};
use std::collections::HashMap;
use std::process::Command;
use std::time::Duration;
use wirespan_model::{Direction, Event};

/// Threads share a connection. The loop that reads it wakes them in the order of the answers that one read brings.
#[test]
fn a_loop_wakes_threads_in_the_order_of_their_answers() {
    let test = "causes_shared";
    if !can_trace(test) || !has(test, &["cc"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = compile_with("causes/shared.c", dir.path(), &["-pthread"]);
    let load = Load { takes: Duration::ZERO, ..SATURATED };
    let (events, port, back) = events(Command::new(program), load);
    let (mut requests, mut asked) = (HashMap::new(), Vec::new());
    let mut reads: Vec<(u64, usize)> = Vec::new();
    let mut woken: HashMap<u64, Vec<u64>> = HashMap::new();
    for event in &events {
        match event {
            Event::Data(d) if d.local.port == port && d.direction == Direction::Ingress => {
                requests.extend(number(&d.payload, "r").map(|n| (n, d.exchange)));
            }
            Event::Data(d) if d.remote.port == back && d.direction == Direction::Egress => {
                asked.extend(number(&d.payload, "u"));
            }
            Event::Data(d) if d.remote.port == back => {
                let answers = d.payload.windows(4).filter(|w| w == b"HTTP").count();
                reads.push((d.exit_ns, answers));
            }
            Event::Wake(w) => woken.entry(w.read_ns).or_default().push(w.cause),
            _ => {}
        }
    }
    // Calls are answered in the order in which they were sent.
    let (mut asked, mut together, mut links) = (asked.into_iter(), 0, Links::default());
    for (read_ns, answers) in reads {
        let threads = woken.remove(&read_ns).unwrap_or_default();
        together += u32::from(answers > 1);
        for (i, n) in asked.by_ref().take(answers).enumerate().filter(|(_, n)| *n >= WARM_UP) {
            match threads.get(i) {
                Some(cause) if requests.get(&n) == Some(cause) => links.right += 1,
                // A thread that does not sleep yet is not woken, so the places of others say nothing.
                _ if threads.len() < answers => links.lost += 1,
                _ => links.wrong += 1,
            }
        }
    }
    println!("{test}: {links:?}, {together} reads with several answers");
    assert!(links.all() > load.requests / 2 && together > 20, "{links:?}, {together}");
    // On a busy machine many threads are still awake when their answers come.
    assert!(links.share() > 0.6 && links.wrong == 0, "{links:?}");
}
