//! Orders of a server to its agents, and the agents' answers.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wirespan_model::{Span, SpanId};
use wirespan_ship::link::{AgentInfo, Answer, Order, Receiver, ReceiverConfig, Sender, SenderConfig, Sinks, MAX_FRAME};

/// So many that some meet an acknowledgement.
const ORDERS: u64 = 300;

type Got = Arc<Mutex<Vec<(u64, Answer)>>>;

fn receiver() -> (Receiver, Got) {
    let got = Got::default();
    let kept = Arc::clone(&got);
    let sinks = Sinks {
        spans: Arc::new(|_| Ok(())),
        flows: Arc::new(|_| Ok(())),
        answers: Arc::new(move |session, answer| kept.lock().unwrap().push((session, answer))),
    };
    (Receiver::bind_with("127.0.0.1:0".parse().unwrap(), ReceiverConfig::default(), sinks).unwrap(), got)
}

fn config(server: &Receiver, takes_orders: bool) -> SenderConfig {
    let agent = AgentInfo { host: "node-1".into(), takes_orders, ..AgentInfo::default() };
    SenderConfig { batch_spans: 1, ..SenderConfig::new(server.local_addr().to_string(), agent) }
}

fn eventually(what: &str, mut f: impl FnMut() -> bool) {
    let start = Instant::now();
    while !f() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited too long for: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Ends the other thread, also where this one fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The session of the only agent.
fn session(server: &Receiver) -> u64 {
    eventually("the agent is there", || server.agents().list().iter().any(|(_, status)| status.connected));
    server.agents().list()[0].0
}

#[test]
fn an_order_reaches_its_agent_and_answers_come_back_beside_spans() {
    let (server, got) = receiver();
    let (orders, orders_in) = crossbeam_channel::bounded(4);
    let sender = Sender::start(SenderConfig { orders: Some(orders), ..config(&server, true) }).unwrap();
    let session = session(&server);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        // Acknowledgements and orders go to the agent from different threads, and must not mix.
        let sends = scope.spawn(|| {
            for id in 1.. {
                sender.send(vec![Arc::new(Span { id: SpanId(id), ..Span::default() })]);
                thread::sleep(Duration::from_micros(50));
                if done.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let end = End(&done);
        for number in 1..=ORDERS {
            let body = vec![number as u8; 100_000];
            server.agents().order(session, Order { number, body: body.clone() }).unwrap();
            let order = orders_in.recv_timeout(Duration::from_secs(10)).unwrap();
            assert_eq!(order, Order { number, body });
            let body = vec![1; if number % 10 == 0 { MAX_FRAME - 8 } else { 10 }];
            sender.answers().send_timeout(Answer { number, body }, Duration::from_secs(10)).unwrap();
        }
        drop(end);
        sends.join().unwrap();
    });
    eventually("all answers", || got.lock().unwrap().len() as u64 == ORDERS);
    let numbers: Vec<u64> = got.lock().unwrap().iter().map(|(_, answer)| answer.number).collect();
    assert_eq!(numbers, (1..=ORDERS).collect::<Vec<_>>());
    assert!(got.lock().unwrap().iter().all(|(of, _)| *of == session));
    assert_eq!(sender.status().connects, 1);
}

#[test]
fn an_agent_that_takes_no_orders_gets_none_and_obeys_none() {
    let (server, _) = receiver();
    let _unwilling = Sender::start(config(&server, false)).unwrap();
    let refused = server.agents().order(session(&server), Order::default()).unwrap_err().to_string();
    assert!(refused.contains("takes no orders"), "{refused}");
    assert!(server.agents().order(1, Order::default()).is_err(), "nobody has this session");

    // Its server thinks otherwise: the agent hangs up.
    let (server, _) = receiver();
    let sender = Sender::start(config(&server, true)).unwrap();
    let session = session(&server);
    server.agents().order(session, Order { number: 1, body: Vec::new() }).unwrap();
    eventually("the agent hangs up", || !server.agents().list()[0].1.connected || sender.status().connects > 1);
}
