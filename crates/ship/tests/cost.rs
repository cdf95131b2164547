//! Processor time per span (all threads of this process) of the stages between a finished span and the store. Prints
//! its results; run it with `cargo test --release -p wirespan-ship --test cost -- --ignored --nocapture`.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;
use wirespan_model::test_support::SpanBuilder;
use wirespan_model::{Resource, Span};
use wirespan_ship::link::{AgentInfo, Receiver, ReceiverConfig, Sender, SenderConfig};
use wirespan_ship::metrics::RedMetrics;
use wirespan_ship::otlp::{encode_spans, json};

fn spans(n: u64) -> Vec<Arc<Span>> {
    let resource = |i: u64| {
        let extra =
            vec![("host.id".into(), "0123456789abcdef".into()), ("process.runtime.name".into(), "python".into())];
        let service = format!("service-{i}").into();
        Arc::new(Resource {
            service,
            host: "node-1".into(),
            executable: "/usr/bin/python3.11".into(),
            extra,
            ..Resource::default()
        })
    };
    let resources: Vec<_> = (0..8).map(resource).collect();
    let span = |i: u64| {
        let start = 1_700_000_000_000_000_000 + i * 50_000;
        let mut span = SpanBuilder::server(i.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
            .request("http", "GET", &format!("/cart/{}", i % 1000))
            .time(start, start + 1_000_000)
            .response_at(start + 1_000_000)
            .bytes(120, 900)
            .process(4000, 4000 + (i % 16) as u32, "worker")
            .sequence(i as u32, i as u32 * 3)
            .attr("http.request.method", "GET")
            .attr("url.path", "/cart/7")
            .attr("server.address", "cart")
            .attr("http.response.status_code", 200i64)
            .attr("network.protocol.version", "1.1")
            .resource(resources[(i % 8) as usize].clone())
            .build();
        span.socket = i / 100;
        span
    };
    (0..n).map(|i| Arc::new(span(i))).collect()
}

/// Processor time of this process so far, ns.
fn cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn report(what: &str, n: u64, start: u64, note: &str) {
    println!("{what:32} {:8.0} ns/span {note}", (cpu_ns() - start) as f64 / n as f64);
}

#[test]
#[ignore = "prints times; nothing to assert"]
fn cost_per_span() {
    let n = 200_000;
    let all = spans(n);

    let red = RedMetrics::default();
    let start = cpu_ns();
    red.observe(black_box(&all).iter().map(|span| &**span));
    report("RED metrics", n, start, "");

    let start = cpu_ns();
    let requests: Vec<_> = all.chunks(512).map(encode_spans).collect();
    report("OTLP encode", n, start, "");
    let start = cpu_ns();
    let mut out = Vec::new();
    requests.iter().for_each(|r| json::write_request(r, &mut out));
    report("OTLP JSON", n, start, &format!("({} bytes/span)", out.len() as u64 / n));

    let received = Arc::new(AtomicU64::new(0));
    let count = received.clone();
    let sink = Arc::new(move |spans: Vec<Arc<Span>>| {
        count.fetch_add(spans.len() as u64, Relaxed);
        Ok(())
    });
    let receiver = Receiver::bind("127.0.0.1:0".parse().unwrap(), ReceiverConfig::default(), sink).unwrap();
    let config = SenderConfig::new(receiver.local_addr().to_string(), AgentInfo::default());
    let sender = Sender::start(SenderConfig { queue_spans: 1 << 20, backlog_bytes: 1 << 30, ..config }).unwrap();
    let start = cpu_ns();
    all.chunks(256).for_each(|part| sender.send(part.to_vec()));
    let status = sender.close(Duration::from_secs(60));
    let note = format!("both ends, loopback ({} bytes/span)", status.sent_bytes / n);
    report("link", n, start, &note);
    assert_eq!((status.acked, received.load(Relaxed)), (n, n));
}
