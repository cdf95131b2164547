//! Agent and server over loopback: order, loss, faults.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wirespan_model::{Flow, FlowCounts, FlowKey, Role, Span, SpanId, Transport};
use wirespan_ship::link::{AgentInfo, Receiver, ReceiverConfig, Sender, SenderConfig, SenderState, Sinks};
use wirespan_ship::{Sink, SinkError};

const LOCAL: &str = "127.0.0.1:0";

fn spans(range: std::ops::Range<u64>) -> Vec<Arc<Span>> {
    range
        .map(|i| Arc::new(Span { id: SpanId(i + 1), target: format!("/item/{i}").into(), ..Span::default() }))
        .collect()
}

#[derive(Clone, Default)]
struct Taken(Arc<Mutex<Vec<u64>>>);

impl Taken {
    fn sink(&self) -> Sink {
        let taken = self.0.clone();
        Arc::new(move |spans| {
            taken.lock().unwrap().extend(spans.iter().map(|s| s.id.0));
            Ok(())
        })
    }

    /// Ids in order of arrival, and how often the most frequent one came.
    fn ids(&self) -> (Vec<u64>, usize) {
        let ids = self.0.lock().unwrap().clone();
        let mut counts = HashMap::new();
        ids.iter().for_each(|i| *counts.entry(*i).or_insert(0) += 1);
        (ids, counts.values().copied().max().unwrap_or(0))
    }
}

fn receiver(addr: &str, sink: Sink) -> Receiver {
    Receiver::bind(addr.parse().unwrap(), ReceiverConfig::default(), sink).unwrap()
}

fn config(server: SocketAddr) -> SenderConfig {
    let agent = AgentInfo { host: "node-1".into(), host_id: 5, version: "0".into(), pid: 1, takes_orders: false };
    SenderConfig {
        batch_spans: 50,
        batch_wait: Duration::from_millis(10),
        ..SenderConfig::new(server.to_string(), agent)
    }
}

fn eventually(what: &str, mut f: impl FnMut() -> bool) {
    let start = Instant::now();
    while !f() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited too long for: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn everything_arrives_once_and_in_order() {
    let taken = Taken::default();
    let r = receiver(LOCAL, taken.sink());
    let s = Sender::start(config(r.local_addr())).unwrap();
    s.report(vec![("lost".into(), 0)]);
    (0..100).for_each(|i| s.send(spans(i * 100..(i + 1) * 100)));
    let status = s.close(Duration::from_secs(10));
    assert_eq!((status.offered, status.acked, status.dropped(), status.queued), (10_000, 10_000, 0, 0));
    assert_eq!(status.state, SenderState::Closed);
    assert_eq!(taken.ids().0, (1..=10_000).collect::<Vec<_>>());
    let seen = r.status();
    assert_eq!(seen.spans, 10_000);
    assert_eq!((&*seen.agents[0].agent.host, seen.agents[0].spans), ("node-1", 10_000));
    assert_eq!(seen.agents[0].report, [("lost".to_string(), 0)]);
    eventually("the agent is seen to go", || !r.status().agents[0].connected);
}

/// A proxy that can cut connections at any byte, and that may drop the server's bytes.
struct Proxy {
    addr: SocketAddr,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    deaf: Arc<AtomicBool>,
}

impl Proxy {
    fn start(server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind(LOCAL).unwrap();
        let addr = listener.local_addr().unwrap();
        let streams: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let deaf = Arc::new(AtomicBool::new(false));
        let (kept, swallow) = (streams.clone(), deaf.clone());
        thread::spawn(move || {
            for down in listener.incoming() {
                let (down, up) = (down.unwrap(), TcpStream::connect(server).unwrap());
                kept.lock().unwrap().extend([down.try_clone().unwrap(), up.try_clone().unwrap()]);
                let (mut a, mut b) = (down.try_clone().unwrap(), up.try_clone().unwrap());
                thread::spawn(move || std::io::copy(&mut a, &mut b));
                let (mut up, mut down, swallow) = (up, down, swallow.clone());
                thread::spawn(move || {
                    let mut buf = [0; 4096];
                    while let Ok(n @ 1..) = up.read(&mut buf) {
                        if !swallow.load(Ordering::SeqCst) && down.write_all(&buf[..n]).is_err() {
                            break;
                        }
                    }
                });
            }
        });
        Proxy { addr, streams, deaf }
    }

    fn cut(&self) {
        for s in self.streams.lock().unwrap().drain(..) {
            let _ = s.shutdown(Shutdown::Both);
        }
    }
}

#[test]
fn cut_connections_lose_nothing_and_double_nothing() {
    let taken = Taken::default();
    let r = receiver(LOCAL, taken.sink());
    let proxy = Proxy::start(r.local_addr());
    let s = Sender::start(config(proxy.addr)).unwrap();
    for i in 0..60 {
        s.send(spans(i * 100..(i + 1) * 100));
        thread::sleep(Duration::from_millis(5));
        match i % 10 {
            // From here on acknowledgements are lost: the server has the batches, but the agent does not know it.
            7 => proxy.deaf.store(true, Ordering::SeqCst),
            9 => {
                proxy.cut();
                proxy.deaf.store(false, Ordering::SeqCst);
                eventually("the agent to come back", || s.status().connects == i / 10 + 2);
            }
            _ => {}
        }
    }
    // Nothing more is sent, so only the reader can notice the end of this connection.
    eventually("all to be acknowledged", || s.status().acked == 6_000);
    proxy.cut();
    let start = Instant::now();
    eventually("the agent to notice", || s.status().connects == 8);
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    let status = s.close(Duration::from_secs(20));
    assert_eq!((status.acked, status.dropped()), (6_000, 0), "{status:?}");
    let (ids, most) = taken.ids();
    assert_eq!((ids.len(), most), (6_000, 1));
    assert!(ids.is_sorted());
}

#[test]
fn a_server_that_restarts_gets_the_rest() {
    let taken = Taken::default();
    let r = receiver(LOCAL, taken.sink());
    let addr = r.local_addr();
    let s = Sender::start(config(addr)).unwrap();
    s.send(spans(0..1000));
    eventually("the first half", || s.status().acked == 1000);
    drop(r);
    s.send(spans(1000..2000));
    eventually("the agent notices", || matches!(s.status().state, SenderState::Waiting(_)));
    assert_eq!(s.status().queued, 1000);
    let _r = receiver(&addr.to_string(), taken.sink());
    let status = s.close(Duration::from_secs(20));
    assert_eq!((status.acked, status.dropped(), status.connects), (2000, 0, 2), "{status:?}");
    assert_eq!(taken.ids().0, (1..=2000).collect::<Vec<_>>());
}

#[test]
fn without_a_server_memory_is_bounded_and_losses_are_counted() {
    // A port without a listener.
    let addr = TcpListener::bind(LOCAL).unwrap().local_addr().unwrap();
    let limit = 20_000;
    let s = Sender::start(SenderConfig { backlog_bytes: limit, queue_spans: 500, ..config(addr) }).unwrap();
    let mut worst = 0;
    for i in 0..300 {
        s.send(spans(i * 100..(i + 1) * 100));
        if i % 10 == 0 {
            thread::sleep(Duration::from_millis(5));
        }
        worst = worst.max(s.status().backlog_bytes);
    }
    // One batch more may be there until its size is checked.
    assert!(worst <= limit as u64, "{worst}");
    eventually("the queue to be encoded", || s.status().queued < 30_000 / 2);
    let status = s.status();
    assert!(status.dropped_backlog > 0, "{status:?}");
    assert!(matches!(&status.state, SenderState::Waiting(why) if why.contains(&addr.to_string())), "{status:?}");
    let start = Instant::now();
    let end = s.close(Duration::from_millis(300));
    assert!(start.elapsed() < Duration::from_secs(2), "closing keeps its time");
    assert_eq!((end.queued, end.acked), (0, 0));
    assert_eq!(end.dropped(), 30_000);
    assert!(end.dropped_closed > 0);
}

#[test]
fn a_busy_sink_slows_and_a_refusing_sink_is_counted() {
    let taken = Taken::default();
    let busy = Arc::new(AtomicBool::new(true));
    let (gate, inner) = (busy.clone(), taken.sink());
    let r = receiver(
        LOCAL,
        Arc::new(move |spans: Vec<Arc<Span>>| {
            if gate.load(Ordering::SeqCst) {
                return Err(SinkError::Busy("full".into()));
            }
            if spans[0].id.0 == 1 {
                return Err(SinkError::Refused("the first".into()));
            }
            inner(spans)
        }),
    );
    let s = Sender::start(config(r.local_addr())).unwrap();
    s.send(spans(0..200));
    thread::sleep(Duration::from_millis(200));
    assert_eq!(s.status().acked, 0);
    busy.store(false, Ordering::SeqCst);
    eventually("all to be acknowledged", || s.status().acked == 200);
    let refused = r.status().dropped.iter().find(|(r, _)| *r == "sink").unwrap().1;
    assert_eq!(taken.ids().0.len() as u64 + refused, 200);
    assert!(refused > 0);
}

/// Sends raw bytes and returns the server's answer.
fn raw(addr: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut c = TcpStream::connect(addr).unwrap();
    c.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    c.write_all(bytes).unwrap();
    let _ = c.shutdown(Shutdown::Write);
    let mut said = Vec::new();
    let _ = c.read_to_end(&mut said);
    said
}

#[test]
fn clients_of_other_protocols_get_a_reason_and_disturb_no_agent() {
    let taken = Taken::default();
    let r = receiver(LOCAL, taken.sink());
    let said = String::from_utf8_lossy(&raw(r.local_addr(), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")).into_owned();
    assert!(said.contains("not a wirespan link"), "{said:?}");
    let said = String::from_utf8_lossy(&raw(r.local_addr(), b"WSPN\x63\x00\x00\x00\x00\x00\x06")).into_owned();
    assert!(said.contains("version 99"), "{said:?}");
    raw(r.local_addr(), b"WSPN\x05\x00\xff\xff\xff\xff\x01");
    raw(r.local_addr(), b"WSPN\x05\x00\x04\x00\x00\x00\x01\xff\xff\xff\xff");
    raw(r.local_addr(), b"");
    let s = Sender::start(config(r.local_addr())).unwrap();
    s.send(spans(0..10));
    assert_eq!(s.close(Duration::from_secs(5)).acked, 10);
    let dropped: HashMap<_, _> = r.status().dropped.into_iter().collect();
    assert_eq!(dropped, HashMap::from([("magic", 1), ("version", 1), ("too_long", 1), ("malformed", 1)]));
}

#[test]
fn a_server_of_another_version_and_a_wrong_token_are_clear_errors() {
    let listener = TcpListener::bind(LOCAL).unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for c in listener.incoming() {
            let mut c = c.unwrap();
            let _ = c.write_all(b"WSPN\x07\x00");
            let _ = c.read(&mut [0; 64]);
        }
    });
    let s = Sender::start(config(addr)).unwrap();
    let waits = |s: &Sender, text: &str| {
        eventually(text, || matches!(s.status().state, SenderState::Waiting(why) if why.contains(text)));
    };
    waits(&s, "link version 7, but this program speaks version 5");

    let secret = ReceiverConfig { token: "right".into(), ..ReceiverConfig::default() };
    let taken = Taken::default();
    let r = Receiver::bind(LOCAL.parse().unwrap(), secret, taken.sink()).unwrap();
    let s = Sender::start(SenderConfig { token: "wrong".into(), ..config(r.local_addr()) }).unwrap();
    waits(&s, "wrong token");
    let s = Sender::start(SenderConfig { token: "right".into(), ..config(r.local_addr()) }).unwrap();
    s.send(spans(0..1));
    assert_eq!(s.close(Duration::from_secs(5)).acked, 1);
}

#[test]
fn strangers_take_no_agents_place_and_one_byte_a_time_gains_no_time() {
    let taken = Taken::default();
    let config_of_server = ReceiverConfig {
        token: "right".into(),
        max_connections: 1,
        max_strangers: 2,
        hello_timeout: Duration::from_millis(500),
        ..ReceiverConfig::default()
    };
    let r = Receiver::bind(LOCAL.parse().unwrap(), config_of_server, taken.sink()).unwrap();
    // More than there are places, each silent; the agent gets in.
    let silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(r.local_addr()).unwrap()).collect();
    let s = Sender::start(SenderConfig { token: "right".into(), ..config(r.local_addr()) }).unwrap();
    s.send(spans(0..10));
    eventually("the agent's spans are taken", || s.status().acked == 10);
    drop(silent);
    // The only place is taken now.
    let second = Sender::start(SenderConfig { token: "right".into(), ..config(r.local_addr()) }).unwrap();
    eventually(
        "a second agent is refused",
        || matches!(second.status().state, SenderState::Waiting(why) if why.contains("no more are allowed")),
    );
    assert!(r.status().refused.is_some_and(|refused| refused.why.contains("no more are allowed")));
    let mut slow = TcpStream::connect(r.local_addr()).unwrap();
    // A hello of 255 bytes, one at a time.
    slow.write_all(b"WSPN\x05\x00\xff\x00\x00\x00\x01").unwrap();
    let began = Instant::now();
    while slow.write_all(b"W").is_ok() && began.elapsed() < Duration::from_secs(5) {
        thread::sleep(Duration::from_millis(50));
    }
    assert!(began.elapsed() < Duration::from_secs(3), "hung up on after {:?}", began.elapsed());
}

#[test]
fn an_agent_is_told_that_the_server_is_busy_and_keeps_its_spans() {
    let taken = Taken::default();
    let busy = Arc::new(AtomicBool::new(true));
    let (gate, inner) = (busy.clone(), taken.sink());
    let sink: Sink = Arc::new(move |spans| match gate.load(Ordering::SeqCst) {
        true => Err(SinkError::Busy("the disk is full".into())),
        false => inner(spans),
    });
    let r = receiver(LOCAL, sink);
    let s = Sender::start(config(r.local_addr())).unwrap();
    s.send(spans(0..100));
    eventually("the agent is told", || matches!(s.status().state, SenderState::Held(why) if why == "the disk is full"));
    assert_eq!((s.status().acked, s.status().queued, r.status().deferred), (0, 100, 50));
    busy.store(false, Ordering::SeqCst);
    eventually("all is taken", || s.status().acked == 100);
    assert_eq!((s.status().state, taken.ids().1), (SenderState::Connected, 1));
}

fn flows(range: std::ops::Range<u64>) -> Vec<Flow> {
    let ip = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    let one = |i: u64| Flow {
        start_ns: i,
        end_ns: i + 1,
        key: FlowKey {
            host_id: 1,
            role: Role::Client,
            transport: Transport::Tcp,
            local: ip,
            remote: ip,
            port: 80,
            pid: i as u32,
            process_start_ns: i,
            netns: 1,
        },
        comm: "c".into(),
        cgroup_id: 0,
        client_port: 9,
        resource: Arc::default(),
        counts: FlowCounts { drops: [("NO_SOCKET".into(), i)].into(), ..FlowCounts::default() },
    };
    range.map(one).collect()
}

#[test]
fn flows_travel_between_spans_and_a_server_that_keeps_none_says_so() {
    let (taken, got) = (Taken::default(), Arc::new(Mutex::new(Vec::new())));
    let sink = Arc::clone(&got);
    let keep = Arc::new(move |flows: Vec<Flow>| {
        sink.lock().unwrap().extend(flows);
        Ok(())
    });
    let sinks = Sinks { spans: taken.sink(), flows: keep, answers: Arc::new(|_, _| ()) };
    let r = Receiver::bind_with(LOCAL.parse().unwrap(), ReceiverConfig::default(), sinks).unwrap();
    let s = Sender::start(config(r.local_addr())).unwrap();
    s.send(spans(0..200));
    s.send_flows(flows(0..5000));
    s.send(spans(200..300));
    let status = s.close(Duration::from_secs(10));
    assert_eq!((status.acked, status.flows_offered, status.flows_acked, status.flows_dropped), (300, 5000, 5000, 0));
    assert_eq!(*got.lock().unwrap(), flows(0..5000));
    assert_eq!((taken.ids().0.len(), r.status().flows), (300, 5000));

    let r = receiver(LOCAL, taken.sink());
    let s = Sender::start(config(r.local_addr())).unwrap();
    s.send_flows(flows(0..3));
    s.close(Duration::from_secs(10));
    assert!(r.status().dropped.contains(&("sink", 3)), "{:?}", r.status());
}
