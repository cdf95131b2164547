//! Serves the UI over made-up spans in a real store, for looking at it and for its browser tests.
//!
//! `cargo run -p wirespan-view --example serve_sample [PORT [VISITS]]`; port 0 takes a free one. Prints the URL.
//! 0 visits give an empty store.

#[path = "sample/packets.rs"]
mod packets;
mod sample;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use wirespan_view::{router, AgentStatus, Counter, Memory, Stage, ViewState};

fn status() -> AgentStatus {
    let counter = |name: &str, value, loss| Counter::new(name, value, loss);
    AgentStatus {
        mode: "sample".into(),
        targets: "a made-up shop".into(),
        notes: vec!["these spans are made up".into()],
        memory: Memory { kernel_tables: 43 << 20, kernel_programs: 2 << 20, resident: 31 << 20 },
        stages: vec![
            Stage {
                name: "capture".into(),
                counters: vec![counter("events in", 48_211, false), counter("ring full", 0, true)],
            },
            Stage {
                name: "join".into(),
                counters: vec![counter("spans out", 12_040, false), counter("late message", 3, true)],
            },
        ],
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let port: u16 = args.next().map_or(Ok(0), |a| a.parse())?;
    let visits: u64 = args.next().map_or(Ok(240), |a| a.parse())?;
    let store = sample::store()?;
    if visits > 0 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
        store.append(sample::Shop::day(now, visits))?;
    }
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    println!("http://{}/", listener.local_addr()?);
    let state = ViewState::new(store)
        .with_status(Arc::new(status))
        .with_packets(Some(Arc::new(packets::Programs::default())))
        .for_listener(listener.local_addr()?);
    axum::serve(listener, router(state)).await?;
    Ok(())
}
